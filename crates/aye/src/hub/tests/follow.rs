//! Following from inside the process.

use super::*;

/// The numbers of what `n` nexts bring.
async fn numbers(changes: &mut Follower, n: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    for _ in 0..n {
        seqs.push(next_change(changes).await.seq);
    }
    seqs
}

#[tokio::test]
async fn a_follower_that_falls_behind_still_gets_every_change_once_in_order_and_large_ones_whole() {
    let desk = Desk::new().await;
    let mut changes = desk.hub.follow();
    desk.hub.register(agent("a"), Registration::default()).await.unwrap();
    let first = numbers(&mut changes, 1).await[0];
    let long = json!({"text": "x".repeat(100_000)});
    let events = |n: usize| (0..n).map(|n| json!({ "n": n })).collect::<Vec<_>>();
    // More than is held in memory, then a large one, then one more.
    desk.hub.report(agent("a"), events(1500), Vec::new(), None).await.unwrap();
    desk.hub.report(agent("a"), vec![long.clone(), json!({})], Vec::new(), None).await.unwrap();
    assert_eq!(numbers(&mut changes, 1500).await, (first + 1..=first + 1500).collect::<Vec<_>>());
    assert_eq!(next_change(&mut changes).await.subject, Subject::Event(agent("a"), long));
    assert_eq!(numbers(&mut changes, 1).await, [first + 1502]);
    assert!(changes.next_if_any().await.unwrap().is_none());
}

#[tokio::test]
async fn a_follower_goes_on_after_any_number_that_is_still_known() {
    let desk = Desk::new().await;
    desk.raise("k", None).await;
    let last = desk.hub.last_seq().await.unwrap();
    let mut changes = desk.hub.follow();
    changes.go_on_after(0);
    assert_eq!(numbers(&mut changes, last as usize).await, (1..=last).collect::<Vec<_>>());
    changes.go_on_after(last + 7);
    assert!(matches!(changes.next().await.unwrap(), Followed::Lost));
    desk.raise("l", None).await;
    assert_eq!(numbers(&mut changes, 1).await, [last + 1]);
}
