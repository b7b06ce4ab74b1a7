//! What a rule allows is answered before it is written.

use super::policy::{RULES, decision};
use super::*;
use std::sync::mpsc;
use store::test_databases::EARLY;

/// Keeps the writer busy until it is dropped.
struct Stall {
    _go: mpsc::SyncSender<()>,
}

impl Stall {
    fn of(desk: &Desk) -> Self {
        let (go, wait) = mpsc::sync_channel(0);
        let work = move |_: &mut store::Tx| {
            // Ends when the sender is dropped.
            assert!(wait.recv().is_err());
            Ok::<_, Problem>(())
        };
        desk.hub.inner.store.queue_slot().unwrap().write(work, drop);
        Self { _go: go }
    }
}

/// Whether changes can be written: with no number left for the next one they cannot, as if the disk were at fault.
pub(super) fn refuse_asks(desk: &Desk, refuse: bool) {
    let database = store::by_hand::open(&Home::at(desk.dir.path()));
    let sql = match refuse {
        true => {
            "DELETE FROM sqlite_sequence WHERE name = 'outbox';
            INSERT INTO sqlite_sequence VALUES ('outbox', 9223372036854775807)"
        }
        false => "UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM outbox) WHERE name = 'outbox'",
    };
    database.execute_batch(sql).unwrap();
}

async fn stored(desk: &Desk, ask: &Ask) -> Option<Ask> {
    let id = ask.id.clone();
    desk.hub.inner.store.read(move |db| db.ask(&id)).await.unwrap()
}

#[tokio::test]
async fn an_allow_is_answered_before_it_is_on_disk_and_its_whole_record_follows() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let mut changes = desk.hub.follow();
    let stall = Stall::of(&desk);
    let ask = desk.run("1", "cargo test").await;
    assert_eq!((decision(&ask), ask.state.receipt()), ("allow", Some(Receipt::Pending)));
    assert_eq!(stored(&desk, &ask).await, None);
    assert!(changes.next_if_any().await.unwrap().is_none(), "nobody is told before it is on disk");
    drop(stall);
    assert_eq!(desk.hub.ask(&ask.id).await.unwrap(), ask);
    assert_eq!(desk.trail().await.split_off(4), ["ask.raised", "ask.answered"]);
    let told = next_change(&mut changes).await;
    assert!(matches!(&told.subject, Subject::Ask(told) if **told == ask), "{told:?}");
    let counted = desk.hub.inner.meters.counted();
    assert_eq!(counted.decisions, [(("rule 1 (tests)".to_owned(), "allow"), 1)].into());
}

#[tokio::test]
async fn what_is_not_allowed_by_a_rule_waits_for_the_disk() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    for (key, command) in [("denied", "rm x"), ("asked", "make")] {
        let stall = Stall::of(&desk);
        let mut raising = Box::pin(desk.run(key, command));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut raising).await.is_err(), "{key}");
        drop(stall);
        let ask = raising.await;
        assert_eq!(stored(&desk, &ask).await, Some(ask));
    }
}

#[tokio::test]
async fn what_its_adapter_says_of_it_meanwhile_finds_the_ask() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let stall = Stall::of(&desk);
    let ask = desk.run("1", "cargo test").await;
    let delivered = Delivery { receipt: Receipt::Delivered, evidence: None };
    let receipt = desk.hub.receipt(ask.id.clone(), agent("agent"), delivered);
    let me = agent("agent");
    let resolution = desk.hub.resolution(&ask.id, &me, Duration::ZERO);
    let release = async { drop(stall) };
    let (receipt, resolution, ()) = tokio::join!(receipt, resolution, release);
    assert_eq!(receipt.unwrap().state.receipt(), Some(Receipt::Delivered));
    assert_eq!(resolution.unwrap().unwrap().outcome.decision.as_str(), "allow");
    let none = AskId::try_from("none").unwrap();
    assert!(matches!(desk.hub.ask(&none).await, Err(Problem::NoSuchAsk)));
}

#[tokio::test]
async fn the_same_key_raised_again_before_it_is_written_is_the_same_ask() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let stall = Stall::of(&desk);
    let first = desk.run("1", "cargo test").await;
    let mut again = Box::pin(desk.run("1", "cargo test"));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut again).await;
    assert!(early.is_err(), "it was answered before the first was written");
    drop(stall);
    assert_eq!(again.await, first);
    assert_eq!(desk.trail().await.iter().filter(|kind| *kind == "ask.raised").count(), 1);
    let (a, b, c) = tokio::join!(desk.run("2", "rm x"), desk.run("2", "rm x"), desk.run("2", "rm x"));
    assert!(a == b && b == c);
}

#[tokio::test]
async fn a_record_that_fails_is_counted_and_the_next_wait_until_one_succeeds() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    refuse_asks(&desk, true);
    let lost = desk.run("1", "cargo test").await;
    assert_eq!(decision(&lost), "allow");
    desk.hub.inner.store.catch_up().await.unwrap();
    assert_eq!(desk.hub.inner.meters.counted().unrecorded, 1);
    assert!(matches!(desk.hub.ask(&lost.id).await, Err(Problem::NoSuchAsk)));

    let raise = |key: &str| Raise { body: lost.body.clone(), ..raise("agent", key, "-", None) };
    for _ in 0..2 {
        assert!(matches!(desk.hub.raise(raise("2")).await, Err(Problem::Store(_))), "not on its word alone");
    }
    assert_eq!(desk.hub.inner.meters.counted().unrecorded, 1);

    refuse_asks(&desk, false);
    let waited = desk.hub.raise(raise("1")).await.unwrap().ask;
    assert_eq!(stored(&desk, &waited).await, Some(waited));
    let stall = Stall::of(&desk);
    let quick = desk.run("3", "cargo test").await;
    assert_eq!(stored(&desk, &quick).await, None);
    drop(stall);
    desk.hub.ask(&quick.id).await.unwrap();
}

#[tokio::test]
async fn only_so_many_are_answered_before_they_are_written() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let stall = Stall::of(&desk);
    for i in 1..store::MOST_PENDING_RECORDS {
        assert_eq!(decision(&desk.run(&format!("k{i}"), "cargo test").await), "allow");
    }
    let mut waits = Box::pin(desk.run("last", "cargo test"));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waits).await.is_err());
    drop(stall);
    let ask = waits.await;
    assert_eq!(stored(&desk, &ask).await, Some(ask));
}

#[tokio::test]
async fn an_agent_nobody_knows_and_one_that_ended_wait_for_the_disk() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let test = desk.run("1", "cargo test").await.body;
    let ended = Registration { state: Some(ReportedState::Ended), ..Registration::default() };
    desk.hub.register(agent("agent"), ended).await.unwrap();
    for name in ["agent", "stranger"] {
        let stall = Stall::of(&desk);
        let raise = Raise { body: test.clone(), ..raise(name, "2", "-", None) };
        let mut raising = Box::pin(desk.hub.raise(raise));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut raising).await.is_err(), "{name}");
        drop(stall);
        assert_eq!(decision(&raising.await.unwrap().ask), "allow");
    }
}

#[tokio::test]
async fn what_one_agent_reports_takes_nothing_from_what_is_known_of_another() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    desk.run("1", "cargo test").await;
    let is_known = || {
        let (id, inner) = (agent("agent"), &desk.hub.inner);
        inner.askers.agent(&id, inner.store.version_of_agent(&id)).is_some()
    };
    assert!(is_known());
    for state in [ReportedState::Working, ReportedState::Idle, ReportedState::Ended] {
        let news = Registration { state: Some(state), ..Registration::default() };
        desk.hub.register(agent("other"), news).await.unwrap();
        assert!(is_known(), "{state:?}");
    }
    let news = Registration { state: Some(ReportedState::Idle), ..Registration::default() };
    desk.hub.register(agent("agent"), news).await.unwrap();
    assert!(!is_known(), "it is read again after what it reports of itself");
}
