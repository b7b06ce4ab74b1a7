//! The hub with a real store and a clock that the test moves.

mod alarms;
mod allow;
mod broken_policy;
mod conversations;
mod follow;
mod forged;
mod late;
mod live_rows;
mod memory;
mod meters;
mod model;
mod moving;
mod names;
mod older;
mod passkeys;
mod places;
mod policy;
mod postgres;
mod rolled_back;
mod secrets;
mod sessions;
mod several;
mod unreadable;
mod write_budget;

use super::*;
use crate::protocol::{PasskeyInfo, PlanApproval};
use aye_core::lifecycle::Delivery;
use aye_core::{
    AgentId, AnswerKey, Body, By, Key, Kind, Receipt, Refused, ReportedState, State, Surface, Text,
    Withdrawal,
};
use aye_testkit::patience::eventually;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;
use store::test_databases::{BY_HAND, SILENCE, new_home, new_home_on_sqlite};

struct Desk {
    dir: tempfile::TempDir,
    clock: Clock,
    hub: Hub,
}

impl Desk {
    async fn new() -> Self {
        Self::in_home(new_home()).await
    }

    /// On SQLite also where the tests run on another database.
    async fn on_sqlite(why: &str) -> Self {
        Self::in_home(new_home_on_sqlite(why)).await
    }

    async fn in_home(dir: tempfile::TempDir) -> Self {
        let clock = Clock::manual(Timestamp::from_second(1_000_000).unwrap());
        let hub = open(&dir, &clock).await;
        Self { dir, clock, hub }
    }

    /// What a SIGKILL leaves: whatever was committed, and nothing that was in memory.
    async fn crash_and_restart(&mut self) {
        self.hub.inner.store.close().await;
        self.hub = open(&self.dir, &self.clock).await;
    }

    /// Time passes for the hub, and for a database that has a clock of its own.
    fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
        store::test_databases::advance(self.dir.path(), by);
    }

    async fn pass(&self, seconds: i64) {
        self.advance(SignedDuration::from_secs(seconds));
        self.hub.tick().await.unwrap();
    }

    async fn raise(&self, key: &str, timeout: Option<i64>) -> Ask {
        self.hub.raise(raise("agent", key, "1. x", timeout)).await.unwrap().ask
    }

    async fn answer(&self, ask: &Ask, words: &str) -> Result<Ask, Problem> {
        self.hub.answer(call(ask, "ann", words, None)).await
    }

    async fn trail(&self) -> Vec<String> {
        self.hub.inner.store.catch_up().await.unwrap();
        let lines = self.hub.inner.store.read(|db| {
            let mut kinds = Vec::new();
            let each = |line: aye_core::trail::Line| {
                kinds.push(line.kind);
                Ok::<_, StoreError>(())
            };
            db.trail(&store::AuditFilter::default(), each)?;
            Ok(kinds)
        });
        lines.await.unwrap()
    }
}

async fn open(dir: &tempfile::TempDir, clock: &Clock) -> Hub {
    Hub::open(&Home::at(dir.path()), clock.clone()).await.unwrap()
}

/// The next numbered change; pieces of texts are left out.
async fn next_change(changes: &mut Follower) -> Arc<Change> {
    loop {
        match changes.next().await.unwrap() {
            Followed::Change(change) => return change,
            Followed::Piece(_) => {}
            Followed::Lost => panic!("lost"),
        }
    }
}

fn agent(name: &str) -> AgentId {
    AgentId::try_from(name).unwrap()
}

/// Processes are looked at only where they run.
fn on_this_machine() -> Registration {
    Registration { host: Some(crate::processes::host().into()), ..Registration::default() }
}

fn raise(name: &str, key: &str, plan: &str, timeout: Option<i64>) -> Raise {
    Raise {
        key: Key::try_from(key).unwrap(),
        agent: agent(name),
        body: Body::decode(Kind::Plan, json!({ "plan": plan })).unwrap(),
        before: None,
        cwd: None,
        timeout: timeout.map(SignedDuration::from_secs),
        tool_use_id: None,
        sub_agent: None,
        can: aye_core::Can::default(),
    }
}

fn denial(words: &str) -> Value {
    json!({ "decision": "deny", "message": words })
}

fn call(ask: &Ask, name: &str, words: &str, key: Option<&str>) -> AnswerCall {
    AnswerCall {
        ask: ask.id.clone(),
        answer: denial(words),
        digest: ask.digest.clone(),
        key: key.map(|key| AnswerKey::try_from(key).unwrap()),
        by: By::Person { name: Text::try_from(name).unwrap(), surface: Surface::Api },
        token: None,
        assertion: None,
    }
}

#[tokio::test]
async fn an_answer_a_second_before_the_deadline_wins_and_one_after_it_does_not() {
    let desk = Desk::new().await;
    let (early, late) = (desk.raise("early", Some(10)).await, desk.raise("late", Some(10)).await);
    desk.advance(SignedDuration::from_secs(9));
    assert_eq!(desk.answer(&early, "in time").await.unwrap().state.name(), "answered");
    desk.advance(SignedDuration::from_secs(2));
    // The timer has not fired yet: the deadline counts, not the timer.
    let refused = desk.answer(&late, "too late").await.unwrap_err();
    assert!(
        matches!(refused, Problem::Refused { refused: Refused::Expired, ref ask } if ask.state.name() == "expired")
    );
    assert_eq!(desk.hub.ask(&late.id).await.unwrap().state.name(), "expired");
}

#[tokio::test]
async fn a_deadline_that_passes_while_the_hub_is_down_is_kept_at_the_next_start() {
    let mut desk = Desk::new().await;
    let ask = desk.raise("k", Some(10)).await;
    desk.crash_and_restart().await;
    desk.pass(9).await;
    assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
    desk.pass(1).await;
    let ended = desk.hub.ask(&ask.id).await.unwrap();
    assert_eq!(ended.state.note(), Some("nobody answered in time"));
    assert_eq!(ended.state.receipt(), Some(Receipt::Pending));
}

#[tokio::test]
async fn the_timers_end_an_ask_by_themselves() {
    let dir = new_home();
    let hub = open(&dir, &Clock::system()).await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    hub.start_timers(&tasks, stop.clone());
    let mut call = raise("agent", "k", "x", None);
    call.timeout = Some(SignedDuration::from_millis(30));
    let ask = hub.raise(call).await.unwrap().ask;
    let ended = hub.resolution(&ask.id, &agent("agent"), Duration::from_secs(10)).await.unwrap().unwrap();
    assert_eq!(ended.outcome.decision.as_str(), "expired");
    assert!(ended.outcome.message.unwrap().contains("not approved"));
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}

#[tokio::test]
async fn an_agent_that_falls_silent_is_lost_and_found_again_and_its_asks_stay_open() {
    let desk = Desk::on_sqlite(SILENCE).await;
    let ask = desk.raise("k", None).await;
    let state = async || desk.hub.agent("agent").await.unwrap().state.to_string();
    desk.pass(59).await;
    assert_eq!(state().await, "waiting");
    desk.pass(1).await;
    assert_eq!(state().await, "lost");
    assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
    desk.hub.heard(&agent("agent")).await.unwrap();
    assert_eq!(state().await, "waiting");
    let trail = desk.trail().await;
    assert_eq!(trail[3..], ["agent.registered", "ask.raised", "agent.lost", "agent.found"]);
}

#[tokio::test]
async fn a_hooked_agent_is_not_lost_while_its_process_is_there() {
    let desk = Desk::new().await;
    let hooked = Registration {
        pid: Some(std::process::id()),
        reach: Some(aye_core::Reach::Hooked),
        ..on_this_machine()
    };
    desk.hub.register(agent("hooked"), hooked).await.unwrap();
    for _ in 0..30 {
        desk.pass(5).await;
    }
    assert_eq!(desk.hub.agent("hooked").await.unwrap().state.to_string(), "working");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_got_the_number_of_one_that_has_ended_is_not_taken_for_it() {
    let desk = Desk::new().await;
    let (pid, started) = super::this_process(std::process::id()).unwrap();
    assert_eq!(desk.hub.agent_around(Some((pid, started))).await.unwrap(), None);
    assert!(desk.hub.agent_around(Some((pid, started - 1))).await.is_err());
    assert!(desk.hub.agent_around(None).await.is_err());
}

#[tokio::test]
async fn after_a_hub_start_silence_is_counted_anew() {
    let mut desk = Desk::on_sqlite(SILENCE).await;
    desk.raise("k", None).await;
    desk.advance(SignedDuration::from_secs(50));
    desk.crash_and_restart().await;
    desk.pass(50).await;
    assert_eq!(desk.hub.agent("agent").await.unwrap().state.to_string(), "waiting");
    desk.pass(10).await;
    assert_eq!(desk.hub.agent("agent").await.unwrap().state.to_string(), "lost");
}

#[tokio::test]
async fn the_same_key_is_the_same_ask_and_never_an_old_approval_of_another() {
    let desk = Desk::new().await;
    let ask = desk.raise("k", None).await;
    let again = desk.hub.raise(raise("agent", "k", "1. x", None)).await.unwrap();
    assert_eq!((again.ask.id.clone(), again.new), (ask.id.clone(), false));
    let other = desk.hub.raise(raise("agent", "k", "2. y", None)).await;
    assert!(matches!(other, Err(Problem::KeyReused)));
    // Another agent's key is another key.
    assert!(desk.hub.raise(raise("other", "k", "1. x", None)).await.unwrap().new);
}

#[tokio::test]
async fn an_agent_that_ends_takes_its_open_asks_back_and_leaves_its_answers_undelivered() {
    let desk = Desk::new().await;
    let (open, answered) = (desk.raise("open", None).await, desk.raise("answered", None).await);
    desk.answer(&answered, "no").await.unwrap();
    let ended = Registration { state: Some(ReportedState::Ended), ..Registration::default() };
    desk.hub.register(agent("agent"), ended).await.unwrap();
    assert_eq!(desk.hub.ask(&open.id).await.unwrap().state.note(), Some("the agent is gone"));
    assert_eq!(desk.hub.ask(&answered.id).await.unwrap().state.receipt(), Some(Receipt::Undelivered));
    assert_eq!(desk.hub.agent("agent").await.unwrap().state.to_string(), "ended");
}

#[tokio::test]
async fn an_agent_whose_process_is_gone_has_ended_and_nobody_claims_to_know_what_it_was_told() {
    let desk = Desk::new().await;
    let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let alive = Registration { pid: Some(process.id()), ..on_this_machine() };
    desk.hub.register(agent("agent"), alive).await.unwrap();
    let (open, answered) = (desk.raise("open", None).await, desk.raise("answered", None).await);
    desk.answer(&answered, "no").await.unwrap();
    desk.pass(1).await;
    assert!(desk.hub.ask(&open.id).await.unwrap().state.is_open());
    process.kill().unwrap();
    process.wait().unwrap();
    desk.pass(1).await;
    assert_eq!(desk.hub.ask(&open.id).await.unwrap().state.note(), Some("the agent is gone"));
    assert_eq!(desk.hub.ask(&answered.id).await.unwrap().state.receipt(), Some(Receipt::Unknown));
    assert_eq!(desk.hub.agent("agent").await.unwrap().state.to_string(), "ended");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_sign_of_life_does_not_bring_an_agent_back_whose_process_has_ended() {
    let desk = Desk::new().await;
    let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let working = |pid| Registration { pid, state: Some(ReportedState::Working), ..on_this_machine() };
    desk.hub.register(agent("agent"), working(Some(process.id()))).await.unwrap();
    let known = crate::processes::Process::now(process.id());
    process.kill().unwrap();
    eventually("the process to die", || (!known.is_alive()).then_some(()));
    // Nobody has taken notice of its end yet: it is still listed.
    let state = async || {
        desk.pass(1).await;
        desk.hub.agent("agent").await.unwrap().state.to_string()
    };
    assert_eq!(state().await, "ended");
    desk.hub.register(agent("agent"), working(Some(process.id()))).await.unwrap();
    assert_eq!(state().await, "ended");
    desk.hub.register(agent("agent"), working(None)).await.unwrap();
    desk.pass(120).await;
    assert_eq!(state().await, "ended");
    assert_eq!(desk.trail().await.iter().filter(|kind| kind.starts_with("agent.")).count(), 2);
    desk.hub.register(agent("agent"), working(Some(std::process::id()))).await.unwrap();
    assert_eq!(state().await, "working");
    process.wait().unwrap();
}

#[tokio::test]
async fn the_operators_token_survives_a_restart_and_a_revoked_one_does_not() {
    let mut desk = Desk::new().await;
    let home = Home::at(desk.dir.path());
    let operator = home.read_operator_token().unwrap().unwrap();
    let name = Text::try_from("ann").unwrap();
    let viewer = desk.hub.create_token(aye_core::Role::Viewer, name, "test").await.unwrap();
    let id = desk.hub.credential(&viewer).await.unwrap().unwrap().id;
    desk.hub.revoke_token(&id, "test").await.unwrap();
    desk.crash_and_restart().await;
    assert!(desk.hub.credential(&operator).await.unwrap().is_some());
    assert!(desk.hub.credential(&viewer).await.unwrap().is_none());
    assert!(desk.hub.credential(&operator.replace("aye_", "aye_x")).await.unwrap().is_none());
    assert!(desk.hub.credential(&operator[..operator.len() - 1]).await.unwrap().is_none());
}

#[tokio::test]
async fn removing_the_operators_token_ends_it_and_leaves_the_others() {
    let mut desk = Desk::on_sqlite("on a server the token may be in the homes of other hubs").await;
    let home = Home::at(desk.dir.path());
    let old = home.read_operator_token().unwrap().unwrap();
    let ann = desk
        .hub
        .create_token(aye_core::Role::Operator, Text::try_from("ann").unwrap(), "test")
        .await
        .unwrap();
    std::fs::remove_file(home.operator_token()).unwrap();
    desk.crash_and_restart().await;
    let new = home.read_operator_token().unwrap().unwrap();
    assert!(desk.hub.credential(&old).await.unwrap().is_none());
    assert!(
        desk.hub.credential(&new).await.unwrap().is_some()
            && desk.hub.credential(&ann).await.unwrap().is_some()
    );
}

#[tokio::test]
async fn many_answers_share_a_commit_and_each_is_told_of_its_own() {
    let desk = Desk::new().await;
    let mut asks = Vec::new();
    for n in 0..40 {
        asks.push(desk.raise(&format!("k{n}"), None).await);
    }
    let answers = asks.iter().flat_map(|ask| [desk.answer(ask, "a"), desk.answer(ask, "b")]);
    let results = futures_util::future::join_all(answers).await;
    let won = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!((won, results.len()), (40, 80));
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Ok(_) | Err(Problem::Refused { refused: Refused::Ended, .. })))
    );
}

#[tokio::test]
async fn only_the_agent_that_raised_an_ask_may_settle_it() {
    let desk = Desk::new().await;
    let ask = desk.raise("k", None).await;
    let delivery = Delivery { receipt: Receipt::Delivered, evidence: None };
    let other = agent("other");
    let refusals = [
        desk.hub.withdraw(ask.id.clone(), other.clone(), Withdrawal::Gone, None).await.err(),
        desk.hub.receipt(ask.id.clone(), other.clone(), delivery).await.err(),
        desk.hub.resolution(&ask.id, &other, Duration::ZERO).await.err(),
    ];
    assert!(refusals.iter().all(|problem| matches!(problem, Some(Problem::NotAllowed(_)))));
    assert!(matches!(desk.hub.ask(&ask.id).await.unwrap().state, State::Open));
}

#[tokio::test]
async fn an_ask_raised_under_the_same_tool_call_while_it_is_answered_leaves_the_answer_without_effect() {
    let desk = Desk::new().await;
    let raise = |key: &str| Raise { tool_use_id: Some("t".into()), ..raise("agent", key, key, None) };
    let shown = desk.hub.raise(raise("shown")).await.unwrap().ask;
    let named = || AskReference { agent: "agent".into(), tool_call: Some("t".into()) };
    // It was looked up; before it is answered comes the second.
    let other = desk.hub.raise(raise("other")).await.unwrap().ask;
    for ask in [&shown, &other] {
        let refused = desk.hub.answer_named(call(ask, "ann", "no", None), named()).await.unwrap_err();
        assert!(matches!(refused, Problem::Invalid(invalid) if invalid.field == "digest"));
        assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
    }
}

#[tokio::test]
async fn what_the_database_calls_an_ask_does_not_decide_which_one_is_answered() {
    let mut desk = Desk::on_sqlite(BY_HAND).await;
    let raise = |name: &str, key: &str, tool: &str| {
        let call = raise(name, key, key, None);
        desk.hub.raise(Raise { tool_use_id: Some(tool.into()), ..call })
    };
    let told = |session: &str| Registration { session: Some(session.into()), ..Registration::default() };
    desk.hub.register(agent("agent"), told("s")).await.unwrap();
    let taken_back = raise("agent", "k1", "t").await.unwrap().ask;
    desk.hub.withdraw(taken_back.id.clone(), agent("agent"), Withdrawal::Cancelled, None).await.unwrap();
    let change = format!("UPDATE asks SET tool_use_id = 'u', mac = NULL WHERE id = '{}'", taken_back.id);
    store::by_hand::change_rows(&desk.database(), &change);
    let other = raise("agent", "k2", "t").await.unwrap().ask;
    desk.hub.register(agent("second"), told("other")).await.unwrap();
    let second = raise("second", "k", "t2").await.unwrap().ask;
    store::by_hand::change_rows(&desk.database(), "UPDATE agents SET session = 's' WHERE id = 'second'");
    let answer = async |desk: &Desk, ask: &Ask, name: &str, tool: &str| {
        let named = AskReference { agent: name.into(), tool_call: Some(tool.into()) };
        desk.hub.answer_named(call(ask, "ann", "no", None), named).await
    };
    let unsure = |answered: Result<Ask, Problem>| {
        assert!(matches!(answered.unwrap_err(), Problem::Invalid(invalid) if invalid.field == "digest"));
    };
    unsure(answer(&desk, &other, "agent", "t").await);
    unsure(answer(&desk, &second, "s", "t2").await);
    store::by_hand::change_rows(&desk.database(), "UPDATE agents SET session = 'other' WHERE id = 'second'");
    answer(&desk, &second, "other", "t2").await.unwrap();
    let third = raise("second", "k3", "t3").await.unwrap().ask;
    // What was asked before a start is not in its memory, and here not every row is its own.
    desk.crash_and_restart().await;
    unsure(answer(&desk, &third, "second", "t3").await);
    desk.hub.answer(call(&third, "ann", "no", None)).await.unwrap();
}

#[tokio::test]
async fn after_a_restart_a_name_that_was_used_twice_still_needs_the_digest() {
    let mut desk = Desk::on_sqlite(BY_HAND).await;
    let raise = async |desk: &Desk, name: &str, key: &str, tool: &str| {
        let call = raise(name, key, key, None);
        desk.hub.raise(Raise { tool_use_id: Some(tool.into()), ..call }).await.unwrap().ask
    };
    let told = |session: &str| Registration { session: Some(session.into()), ..Registration::default() };
    desk.hub.register(agent("agent"), told("s")).await.unwrap();
    let taken_back = raise(&desk, "agent", "k1", "t").await;
    desk.hub.withdraw(taken_back.id.clone(), agent("agent"), Withdrawal::Cancelled, None).await.unwrap();
    let (twice, once) = (raise(&desk, "agent", "k2", "t").await, raise(&desk, "agent", "k3", "u").await);
    let last = raise(&desk, "agent", "k4", "v").await;
    desk.crash_and_restart().await;
    // Somebody else takes over the session, and a name that was used in it.
    desk.hub.withdraw(once.id.clone(), agent("agent"), Withdrawal::Cancelled, None).await.unwrap();
    desk.hub.register(agent("agent"), told("other")).await.unwrap();
    desk.hub.register(agent("second"), told("s")).await.unwrap();
    let stolen = raise(&desk, "second", "k", "u").await;
    let answer = async |desk: &Desk, ask: &Ask, name: &str, tool: Option<&str>| {
        let named = AskReference { agent: name.into(), tool_call: tool.map(str::to_owned) };
        desk.hub.answer_named(call(ask, "ann", "no", None), named).await
    };
    for (ask, name, tool) in [
        (&twice, "agent", Some("t")),
        (&last, "agent", None),
        (&stolen, "s", Some("u")),
        (&stolen, "s", None),
    ] {
        let refused = answer(&desk, ask, name, tool).await.unwrap_err();
        assert!(matches!(refused, Problem::Invalid(_)), "{name} {tool:?}: {refused:?}");
    }
    answer(&desk, &last, "agent", Some("v")).await.unwrap();
    store::by_hand::change_rows(&desk.database(), &format!("DELETE FROM asks WHERE id = '{}'", twice.id));
    let next = raise(&desk, "agent", "k5", "w").await;
    assert!(matches!(answer(&desk, &next, "agent", Some("w")).await.unwrap_err(), Problem::Invalid(_)));
}
