//! Several hubs on one PostgreSQL database.

use super::*;
use aye_testkit::postgres::Cluster;

impl Desk {
    /// Another hub on the same database, as another machine has it.
    pub(super) async fn beside(&self) -> Self {
        let dir = second_home(self);
        let hub = open(&dir, &self.clock).await;
        Self { dir, clock: self.clock.clone(), hub }
    }
}

/// Another home with the keys of this one.
pub(super) fn second_home(desk: &Desk) -> tempfile::TempDir {
    let (from, second) = (Home::at(desk.dir.path()), tempfile::tempdir().unwrap());
    let to = Home::at(second.path());
    for (from, to) in [
        (from.config(), to.config()),
        (from.chain_key_file(), to.chain_key_file()),
        (from.operator_token(), to.operator_token()),
    ] {
        std::fs::copy(from, to).unwrap();
    }
    std::fs::copy(desk.dir.path().join("agent.key"), second.path().join("agent.key")).unwrap();
    second
}

async fn two() -> (Desk, Desk) {
    let first = Desk::on(&Cluster::shared().new_database()).await;
    let second = first.beside().await;
    (first, second)
}

async fn close(desks: &[&Desk]) {
    desks[0].hub.inner.store.catch_up().await.unwrap();
    desks[0].verified().unwrap();
    for desk in desks {
        desk.hub.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn an_ask_raised_at_one_hub_is_answered_at_another_and_waited_for_at_a_third() {
    let (first, second) = two().await;
    let third = first.beside().await;
    let mut followers = [first.hub.follow(), second.hub.follow(), third.hub.follow()];
    let ask = first.raise("k", None).await;
    let waiting = TaskTracker::new().spawn({
        let (hub, id) = (second.hub.clone(), ask.id.clone());
        async move { hub.resolution(&id, &agent("agent"), Duration::from_secs(60)).await.unwrap() }
    });
    assert_eq!(third.answer(&ask, "no").await.unwrap().state.name(), "answered");
    assert!(waiting.await.unwrap().is_some());
    let mut seen = Vec::new();
    for follower in &mut followers {
        let mut changes = Vec::new();
        loop {
            let change = next_change(follower).await;
            let is_end = matches!(&change.subject, Subject::Ask(ask) if !ask.state.is_open());
            changes.push((change.seq, change.subject.clone()));
            if is_end {
                break;
            }
        }
        seen.push(changes);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let numbers: Vec<_> = seen[0].iter().map(|(seq, _)| *seq).collect();
    assert_eq!(numbers, (numbers[0]..numbers[0] + numbers.len() as u64).collect::<Vec<_>>());
    let late = second.answer(&ask, "yes").await.unwrap_err();
    assert!(matches!(late, Problem::Refused { refused: Refused::Ended, .. }), "{late}");
    close(&[&first, &second, &third]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn the_same_key_at_two_hubs_is_the_same_ask() {
    let (first, second) = two().await;
    let (one, other) = tokio::join!(
        first.hub.raise(raise("agent", "k", "1. x", None)),
        second.hub.raise(raise("agent", "k", "1. x", None))
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.ask.id, other.ask.id);
    assert_ne!(one.new, other.new);
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn many_changes_at_several_hubs_are_one_sequence_and_one_trail() {
    let (first, second) = two().await;
    let third = first.beside().await;
    let desks = [&first, &second, &third];
    let mut followers = desks.map(|desk| desk.hub.follow());
    let act = |desk: Desk, name: &'static str| async move {
        for n in 0..40 {
            let ask = desk.hub.raise(raise(name, &format!("k{n}"), "1. x", None)).await.unwrap().ask;
            desk.answer(&ask, "no").await.unwrap();
        }
    };
    let other = |desk: &Desk| Desk {
        dir: tempfile::tempdir().unwrap(),
        clock: desk.clock.clone(),
        hub: desk.hub.clone(),
    };
    tokio::join!(
        act(other(&first), "a"),
        act(other(&second), "b"),
        act(other(&third), "c"),
        act(other(&first), "d")
    );
    let last = first.hub.last_seq().await.unwrap();
    let mut seen = Vec::new();
    for follower in &mut followers {
        let mut numbers = Vec::new();
        while numbers.last() != Some(&last) {
            numbers.push(next_change(follower).await.seq);
        }
        let expected: Vec<_> = (numbers[0]..=last).collect();
        assert_eq!(numbers, expected);
        seen.push(numbers);
    }
    assert!(seen.iter().all(|numbers| *numbers == seen[0]));
    close(&desks).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_token_made_at_one_hub_counts_at_the_other_and_once_revoked_at_neither() {
    let (first, second) = two().await;
    let name = || Text::try_from("ann").unwrap();
    let token = first.hub.create_token(aye_core::Role::Operator, name(), "test").await.unwrap();
    let credential = second.hub.credential(&token).await.unwrap().unwrap();
    let ask = first.raise("k", None).await;
    first.hub.revoke_token(&credential.id, "test").await.unwrap();
    // Whatever the second hub has heard of it by now, its answer is not taken.
    let call = AnswerCall { token: Some(credential.id.clone()), ..call(&ask, "ann", "no", None) };
    let refused = second.hub.answer(call).await.unwrap_err();
    assert!(matches!(refused, Problem::NotAllowed("this token was revoked")), "{refused}");
    assert!(second.hub.credential(&token).await.unwrap().is_none());
    credential.revoked.cancelled().await;
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_command_given_at_one_hub_reaches_an_adapter_that_waits_at_another() {
    let (first, second) = two().await;
    let registration = json!({"kind": "claude", "reach": "driven", "cwd": "/w"});
    first.hub.register(agent("a"), serde_json::from_value(registration).unwrap()).await.unwrap();
    let waiting = TaskTracker::new().spawn({
        let hub = second.hub.clone();
        async move { hub.commands(&agent("a"), 0, Duration::from_secs(60)).await.unwrap() }
    });
    first.hub.command(agent("a"), Command::Interrupt, "ann".into()).await.unwrap();
    assert_eq!(waiting.await.unwrap().len(), 1);
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_hub_that_was_far_behind_learns_all_and_its_followers_miss_nothing() {
    let (first, second) = two().await;
    let mut follower = second.hub.follow();
    let begun = second.hub.last_seq().await.unwrap();
    follower.has_seen(begun);
    for n in 0..60 {
        first.raise(&format!("k{n}"), None).await;
    }
    let last = first.hub.last_seq().await.unwrap();
    for seq in begun + 1..=last {
        assert_eq!(next_change(&mut follower).await.seq, seq);
    }
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn what_somebody_else_writes_is_followed_by_no_hub() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let name = url.split(['/', '?']).nth(3).unwrap().to_owned();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    let ask = first.raise("k", None).await;
    second.hub.ask(&ask.id).await.unwrap();
    cluster.sql(
        &name,
        "UPDATE commits SET n = n + 1;
         INSERT INTO audit SELECT seq + 1, at, kind, who, agent, ask, detail, hash FROM audit ORDER BY seq DESC LIMIT 1",
    );
    for desk in [&first, &second] {
        let refused = desk.answer(&ask, "no").await.unwrap_err();
        assert!(matches!(refused, Problem::Store(StoreError::RolledBack { .. })), "{refused}");
        let refused = desk.hub.ask(&ask.id).await.unwrap_err();
        assert!(matches!(refused, Problem::Store(StoreError::RolledBack { .. })), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn rows_that_stand_are_read_anew_where_the_log_of_their_changes_is_gone_and_not_if_they_were_changed() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let name = url.split(['/', '?']).nth(3).unwrap().to_owned();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    cluster.sql(&name, "CREATE RULE forget AS ON INSERT TO stood DO INSTEAD NOTHING");
    let operator = aye_core::Role::Operator;
    let token = first.hub.create_token(operator, Text::try_from("ann").unwrap(), "test").await.unwrap();
    assert!(second.hub.credential(&token).await.unwrap().is_some());
    cluster.sql(&name, "UPDATE tokens SET mac = 'x' WHERE name = 'ann'");
    first.raise("k", None).await;
    let refused = second.hub.snapshot().await.unwrap_err();
    assert!(refused.to_string().contains("is not what the hubs left"), "{refused}");
    assert!(first.hub.snapshot().await.is_ok());
}
