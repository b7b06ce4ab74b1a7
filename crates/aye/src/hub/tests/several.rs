//! Several hubs on one PostgreSQL database.

use super::conversations::{complete, delta_at};
use super::policy::decision;
use super::*;
use crate::protocol::ReportNumber;
use aye_testkit::postgres::Cluster;
use aye_testkit::proxy::Proxy;

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

/// Sees all changes after the start, up to this one, each once and in order.
async fn sees_all(follower: &mut Follower, begun: u64, last: u64) {
    for seq in begun + 1..=last {
        assert_eq!(next_change(follower).await.seq, seq);
    }
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
    // Whatever the second hub has heard of it by now, nothing is done with it.
    assert!(!second.hub.counts_everywhere(&credential).await.unwrap());
    let call = AnswerCall { token: Some(credential.id.clone()), ..call(&ask, "ann", "no", None) };
    let refused = second.hub.answer(call).await.unwrap_err();
    assert!(matches!(refused, Problem::NotAllowed("this token was revoked")), "{refused}");
    let by = (name(), "ann".to_owned(), Some(credential.id.clone()));
    let digest = ask.digest.clone();
    let refused =
        second.hub.approve_plan(agent("agent"), PlanApproval::Allow, digest, by, None).await.unwrap_err();
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
    sees_all(&mut follower, begun, last).await;
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn followers_miss_nothing_where_connections_that_listen_are_cut() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    let mut follower = second.hub.follow();
    let mut begun = second.hub.last_seq().await.unwrap();
    follower.has_seen(begun);
    for n in 0..4 {
        assert!(cluster.cut_listeners(&name_in(&url)) > 0 || n > 0);
        first.raise(&format!("k{n}"), None).await;
        let last = first.hub.last_seq().await.unwrap();
        sees_all(&mut follower, begun, last).await;
        begun = last;
    }
    close(&[&first, &second]).await;
}

/// The texts of the conversation as the store has them, whatever a hub holds in memory.
async fn kept(desk: &Desk) -> Vec<Value> {
    let read = |db: &store::Reader| db.events(&agent("a"), EventPage::After(0), 100);
    let events = desk.hub.inner.store.read(read).await.unwrap();
    events.into_iter().map(|(_, event)| event).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_text_whose_pieces_come_to_two_hubs_is_one_text_and_stays_complete() {
    let (first, second) = two().await;
    let (first, second) = (first.talks().await, second);
    let whole: String = (0..40).map(|n| format!("{n} ")).collect();
    let mut from = 0;
    for n in 0..40 {
        let (piece, desk) = (format!("{n} "), if n % 2 == 0 { &first } else { &second });
        desk.say(vec![delta_at("t", from, &piece)]).await;
        from += piece.len();
        if n % 3 == 0 {
            desk.hub.write_texts(None).await.unwrap();
        }
        let texts = kept(&first).await;
        let [so_far] = &texts[..] else { panic!("{texts:?}") };
        assert!(whole.starts_with(so_far["text"].as_str().unwrap()), "{so_far}");
    }
    // Pieces that one hub has and has not written, when the text is completed at the other.
    for desk in [&first, &second] {
        desk.say(vec![delta_at("t", 0, &whole), delta_at("t", from, "more")]).await;
    }
    second.say(vec![complete("t", &whole)]).await;
    for desk in [&first, &second] {
        desk.hub.write_texts(None).await.unwrap();
        desk.say(vec![delta_at("t", from, "late")]).await;
        desk.hub.write_texts(None).await.unwrap();
        assert_eq!(kept(desk).await, [complete("t", &whole)]);
    }
    assert_eq!((first.hub.inner.streams.agents(), second.hub.inner.streams.agents()), (0, 0));
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn followers_miss_nothing_where_notifications_get_lost() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let first = Desk::on(&url).await;
    let (dir, proxy) = (second_home(&first), Proxy::to(&cluster.socket()));
    let section = format!("[store]\nurl = \"{}\"\n", cluster.through(&proxy, &url));
    std::fs::write(Home::at(dir.path()).config(), section).unwrap();
    proxy.lose_notifications();
    let hub = open(&dir, &first.clock).await;
    let second = Desk { dir, clock: first.clock.clone(), hub };
    let mut follower = second.hub.follow();
    let begun = second.hub.last_seq().await.unwrap();
    follower.has_seen(begun);
    for n in 0..3 {
        first.raise(&format!("k{n}"), None).await;
    }
    let last = first.hub.last_seq().await.unwrap();
    sees_all(&mut follower, begun, last).await;
    eventually("a notification to get lost", || (proxy.notifications_lost() > 0).then_some(()));
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_report_that_one_hub_wrote_adds_nothing_when_it_comes_again_to_another() {
    let (first, second) = two().await;
    let first = first.talks().await;
    let number = |n| ReportNumber { reporter: Key::try_from("r").unwrap(), n };
    for n in 1..5 {
        for desk in [&first, &second, &first] {
            let event = json!({ "type": "tool", "id": n });
            desk.hub.report(agent("a"), vec![event], Vec::new(), Some(number(n))).await.unwrap();
        }
    }
    let ids: Vec<_> = kept(&second).await.iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_process_of_another_machine_with_the_same_name_is_not_looked_at() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let desk = Desk::on(&url).await;
    let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    for name in ["here", "there"] {
        let told = Registration { pid: Some(process.id()), ..on_this_machine() };
        desk.hub.register(agent(name), told).await.unwrap();
    }
    cluster.sql(&name_in(&url), "UPDATE processes SET place = 'elsewhere' WHERE agent = 'there'");
    process.kill().unwrap();
    process.wait().unwrap();
    desk.hub.tick().await.unwrap();
    let state = |name: &'static str| {
        let hub = desk.hub.clone();
        async move { hub.agent(name).await.unwrap().state }
    };
    assert_eq!(state("here").await, aye_core::AgentState::Ended);
    assert_ne!(state("there").await, aye_core::AgentState::Ended);
    close(&[&desk]).await;
}

/// In the tables that hubs read and write all the time.
const NEWER_COLUMNS: &str = "
    ALTER TABLE asks ADD COLUMN newer TEXT; ALTER TABLE tokens ADD COLUMN newer TEXT; ALTER TABLE agents ADD COLUMN newer TEXT;
    ALTER TABLE audit ADD COLUMN newer TEXT; ALTER TABLE outbox ADD COLUMN newer TEXT; ALTER TABLE grants ADD COLUMN newer TEXT;
    ALTER TABLE processes ADD COLUMN newer TEXT; ALTER TABLE passkeys ADD COLUMN newer TEXT;
    UPDATE schema_version SET version = 99";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn hubs_go_on_while_a_newer_one_adds_columns() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    let mut follower = second.hub.follow();
    let begun = second.hub.last_seq().await.unwrap();
    follower.has_seen(begun);
    let operator = aye_core::Role::Operator;
    for round in ["before", "after"] {
        let token = first.hub.create_token(operator, Text::try_from(round).unwrap(), "test").await.unwrap();
        for (desk, place) in [(&first, "first"), (&second, "second")] {
            // More often than there are connections.
            for n in 0..6 {
                let key = format!("{round}-{place}-{n}");
                let ask = desk.hub.raise(raise("agent", &key, "1. x", None)).await.unwrap().ask;
                assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
                desk.answer(&ask, "no").await.unwrap();
                let filter = AskFilter { limit: 100, ..AskFilter::default() };
                assert!(!desk.hub.asks(filter).await.unwrap().asks.is_empty());
                assert!(desk.hub.tokens().await.unwrap().iter().any(|it| it.name.as_str() == round));
                desk.hub.tick().await.unwrap();
            }
            assert!(desk.hub.credential(&token).await.unwrap().is_some());
        }
        if round == "before" {
            cluster.sql(&name_in(&url), NEWER_COLUMNS);
        }
    }
    let last = first.hub.last_seq().await.unwrap();
    sees_all(&mut follower, begun, last).await;
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_running_hub_that_a_newer_schema_excludes_neither_reads_nor_writes() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let desk = Desk::on(&url).await;
    let ask = desk.raise("k", None).await;
    let oldest = cluster.sql(&name_in(&url), "SELECT oldest FROM schema_version");
    cluster.sql(&name_in(&url), "UPDATE schema_version SET oldest = 99");
    let refused = desk.answer(&ask, "no").await.unwrap_err();
    assert!(matches!(refused, Problem::Store(StoreError::Outdated { oldest: 99, .. })), "{refused}");
    let refused = desk.hub.ask(&ask.id).await.unwrap_err();
    assert!(matches!(refused, Problem::Store(StoreError::Outdated { .. })), "{refused}");
    cluster.sql(&name_in(&url), &format!("UPDATE schema_version SET oldest = {oldest}"));
    assert_eq!(desk.answer(&ask, "no").await.unwrap().state.name(), "answered");
    close(&[&desk]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_hub_that_starts_while_others_write_knows_all_that_they_wrote() {
    let first = Desk::on(&Cluster::shared().new_database()).await;
    let operator = aye_core::Role::Operator;
    let writing = TaskTracker::new().spawn({
        let hub = first.hub.clone();
        async move {
            let mut tokens = Vec::new();
            for n in 0..30 {
                let name = Text::try_from(format!("t{n}")).unwrap();
                tokens.push(hub.create_token(operator, name, "test").await.unwrap());
            }
            tokens
        }
    });
    let mut desks = Vec::new();
    while !writing.is_finished() {
        let desk = first.beside().await;
        desk.hub.close().await;
        desks.push(desk);
    }
    let last = first.beside().await;
    for token in writing.await.unwrap() {
        assert!(last.hub.credential(&token).await.unwrap().is_some());
    }
    close(&[&first, &last]).await;
}

/// The name of the database, for what a test does in it by hand.
fn name_in(url: &str) -> String {
    url.split(['/', '?']).nth(3).unwrap().to_owned()
}

async fn is_lost(desk: &Desk) -> bool {
    desk.hub.agent("agent").await.unwrap().state == aye_core::AgentState::Lost
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn an_agent_that_any_hub_hears_of_is_not_lost_and_otherwise_once_and_found_at_any() {
    let (cluster, later) = (Cluster::shared(), SignedDuration::from_secs(20));
    let url = cluster.new_database();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    let age = || cluster.sql(&name_in(&url), "UPDATE life SET heard = heard - 70000");
    first.raise("k", None).await;
    for _ in 0..4 {
        age();
        first.hub.heard(&agent("agent")).await.unwrap();
        first.hub.tick().await.unwrap();
        second.hub.tick().await.unwrap();
        first.clock.advance(later);
    }
    assert!(!is_lost(&second).await);
    age();
    second.hub.tick().await.unwrap();
    first.hub.tick().await.unwrap();
    assert!(is_lost(&first).await && is_lost(&second).await);
    // The hub that did not find it lost has heard of it, and finds it again.
    eventually_async("it is found", || async {
        first.hub.heard(&agent("agent")).await.unwrap();
        !is_lost(&second).await
    })
    .await;
    let kinds = first.trail().await;
    let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
    assert_eq!((count("agent.lost"), count("agent.found")), (1, 1));
    close(&[&first, &second]).await;
}

async fn eventually_async<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(std::time::Instant::now() < until, "{what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn nothing_is_refused_for_want_of_people_while_somebody_is_at_another_hub() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let first = Desk::on_with(&url, "[policy]\nwhen_unattended = \"reject\"").await;
    let second = first.beside().await;
    let there = second.hub.attend(aye_core::Role::Operator);
    second.hub.tick().await.unwrap();
    let ask = first.raise("k", None).await;
    first.pass(60).await;
    assert!(first.hub.ask(&ask.id).await.unwrap().state.is_open());
    drop(there);
    cluster.sql(&name_in(&url), "UPDATE hubs SET attended = attended - 60000");
    first.hub.tick().await.unwrap();
    assert_eq!(first.hub.ask(&ask.id).await.unwrap().state.name(), "expired");
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn one_hub_has_a_lease_and_another_once_it_has_run_out_or_was_given_back() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    let lasts = SignedDuration::from_secs(60);
    let take = |desk: &Desk| {
        let hub = desk.hub.clone();
        async move { hub.take_lease(TELEGRAM_LEASE, lasts).await.unwrap() }
    };
    let remember = |desk: &Desk, value: u8| {
        let hub = desk.hub.clone();
        let memo = Memo { kind: "note", key: "a".into(), body: Some(json!(value)) };
        async move { hub.remember(Surface::Telegram, vec![memo]).await }
    };
    assert!(take(&first).await && take(&first).await && !take(&second).await);
    remember(&first, 1).await.unwrap();
    assert!(remember(&second, 2).await.is_err());
    cluster.sql(&name_in(&url), "UPDATE leases SET until = until - 120000");
    assert!(take(&second).await && !take(&first).await);
    // One that was stopped for a while, and does not know it yet, changes nothing any more.
    assert!(remember(&first, 3).await.is_err());
    assert_eq!(second.hub.recall(Surface::Telegram, "note").await.unwrap(), [("a".to_owned(), json!(1))]);
    second.hub.give_lease_back(TELEGRAM_LEASE).await.unwrap();
    assert!(take(&first).await);
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_preview_is_shown_once_by_whichever_hub_and_a_forged_ticket_never() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let first = Desk::on(&url).await;
    let second = first.beside().await;
    let ask = first.raise("k", None).await;
    first.hub.keep_preview("one", &ask.id, [1, 2]).await.unwrap();
    assert_eq!(second.hub.take_preview("one").await.unwrap(), Some((ask.id.clone(), [1, 2])));
    assert_eq!(first.hub.take_preview("one").await.unwrap(), None);
    for change in ["until = until + 1", "detail = '[\"other\",[0,0]]'"] {
        first.hub.keep_preview("two", &ask.id, [1, 2]).await.unwrap();
        cluster.sql(&name_in(&url), &format!("UPDATE tickets SET {change}"));
        assert_eq!(first.hub.take_preview("two").await.unwrap(), None);
    }
    first.hub.keep_preview("three", &ask.id, [1, 2]).await.unwrap();
    cluster.sql(&name_in(&url), "UPDATE tickets SET until = until - 70000");
    assert_eq!(first.hub.take_preview("three").await.unwrap(), None);
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_hub_that_stands_still_in_the_middle_of_a_group_gives_way_to_the_others() {
    let (first, second) = two().await;
    let ask = second.raise("k", None).await;
    let (begun, has_begun) = oneshot::channel();
    let (go_on, may_go_on) = std::sync::mpsc::sync_channel::<()>(1);
    let stuck = TaskTracker::new().spawn({
        let store = first.hub.inner.store.clone();
        async move {
            let stand_still = move |_: &mut store::Tx| {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok::<_, StoreError>(())
            };
            store.write(stand_still).await
        }
    });
    has_begun.await.unwrap();
    assert_eq!(second.answer(&ask, "no").await.unwrap().state.name(), "answered");
    go_on.send(()).unwrap();
    let given_up = stuck.await.unwrap();
    assert!(matches!(given_up, Err(StoreError::Away(_))), "{given_up:?}");
    assert_eq!(first.raise("after", None).await.state, State::Open);
    assert_eq!(first.hub.ask(&ask.id).await.unwrap().state.name(), "answered");
    close(&[&first, &second]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn what_somebody_else_writes_is_followed_by_no_hub() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let name = name_in(&url);
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
    let name = name_in(&url);
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_grant_from_before_the_start_stays_revoked_whatever_somebody_puts_back() {
    let url = Cluster::shared().new_database();
    let mut first = Desk::on(&url).await;
    let here = Registration { cwd: Some("/src/web".into()), ..Registration::default() };
    first.hub.register(agent("agent"), here).await.unwrap();
    let granted = first.run("k1", "make").await;
    first.decide(&granted, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    first.crash_and_restart().await;
    assert_eq!(decision(&first.run("k2", "make").await), "allow");
    let second = first.beside().await;
    second.hub.revoke_grant(format!("g-{}", granted.id), "ann".to_owned()).await.unwrap();
    let name = url.trim_start_matches("postgres:///").split('?').next().unwrap();
    Cluster::shared().sql(name, "UPDATE grants SET ended_at = NULL");
    for (desk, key) in [(&first, "k3"), (&second, "k4")] {
        assert_eq!(decision(&desk.run(key, "make").await), "open");
        assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
        desk.hub.close().await;
    }
}
