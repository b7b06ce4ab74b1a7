//! The bound on bytes that agents make the hub write.

use super::policy::RULES;
use super::*;
use aye_core::Can;
use store::test_databases::EARLY;

impl Desk {
    /// As if the agent had written as much as it may.
    fn use_up(&self, name: &str, megabytes: u64) {
        self.hub.inner.write_budget.charge(&agent(name), megabytes << 20, self.clock.now());
    }
}

fn is_refused<T: std::fmt::Debug>(done: Result<T, Problem>) -> bool {
    matches!(done, Err(Problem::WroteTooMuch { .. }))
}

#[tokio::test]
async fn an_agent_that_wrote_too_much_is_refused_until_later() {
    let desk = Desk::new().await;
    let (first, second) = (desk.raise("first", None).await, desk.raise("second", None).await);
    desk.use_up("agent", 512);
    let lines = desk.trail().await.len();
    let refused = desk.hub.raise(raise("agent", "third", "x", None)).await.unwrap_err();
    assert!(refused.to_string().ends_with("which is as much as may be: try again in 1m"), "{refused}");
    assert!(refused.to_string().starts_with("this agent has had 512 MB"), "{refused}");
    let title = Registration { title: Some("x".to_owned().into()), ..Registration::default() };
    assert!(is_refused(desk.hub.register(agent("agent"), title).await));
    let other = Registration { kind: Some("x".to_owned().try_into().unwrap()), ..Registration::default() };
    assert!(is_refused(desk.hub.register(agent("agent"), other).await));
    let can = Can { answer: false, ..Can::default() };
    assert!(is_refused(desk.hub.set_can(first.id.clone(), agent("agent"), can).await));
    assert!(is_refused(desk.hub.report(agent("agent"), vec![json!({"a": 1})], vec![], None).await));
    let ran = raise("agent", "ran", "x", None);
    let permission = json!({"tool": "Bash", "input": {"command": "ls"}});
    let ran = Raise { body: Body::decode(Kind::Permission, permission).unwrap(), ..ran };
    assert!(is_refused(desk.hub.record_late("zz".try_into().unwrap(), ran, None).await));
    assert_eq!(desk.trail().await.len(), lines, "a refusal writes nothing");

    // What was asked can still end, others go on, and so does it after a while.
    let again = desk.hub.raise(raise("agent", "first", "1. x", None)).await.unwrap();
    assert!(!again.new);
    desk.hub.withdraw(second.id.clone(), agent("agent"), Withdrawal::Cancelled, None).await.unwrap();
    desk.answer(&first, "no").await.unwrap();
    let receipt = Delivery { receipt: Receipt::Delivered, evidence: None };
    desk.hub
        .report(agent("agent"), vec![json!({"a": 1})], vec![(first.id.clone(), receipt)], None)
        .await
        .unwrap();
    assert!(desk.events_of("agent").await.is_empty());
    desk.hub.raise(raise("other", "k", "x", None)).await.unwrap();
    desk.advance(SignedDuration::from_mins(5));
    desk.raise("third", None).await;
    desk.hub.report(agent("agent"), vec![json!({"a": 1})], vec![], None).await.unwrap();
    assert_eq!(desk.events_of("agent").await.len(), 1);
}

impl Desk {
    async fn events_of(&self, name: &str) -> Vec<(u64, Value)> {
        self.hub.events(agent(name), EventPage::After(0), 1000).await.unwrap()
    }
}

#[tokio::test]
async fn an_agent_that_wrote_too_much_ends_once_for_nothing() {
    let desk = Desk::new().await;
    desk.raise("k", None).await;
    desk.use_up("agent", 512);
    desk.hub.register(agent("agent"), Registration::ended()).await.unwrap();
    assert_eq!(desk.hub.agent("agent").await.unwrap().state.to_string(), "ended");
    desk.hub.register(agent("agent"), Registration::ended()).await.unwrap();
    let title = Registration { title: Some("x".to_owned().into()), ..Registration::ended() };
    assert!(is_refused(desk.hub.register(agent("agent"), title).await));
    let back = Registration::state(ReportedState::Working);
    assert!(is_refused(desk.hub.register(agent("agent"), back).await));
}

#[tokio::test]
async fn a_call_that_a_rule_allows_is_refused_if_it_cannot_be_kept() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let body = desk.run("1", "cargo test").await.body;
    desk.use_up("agent", 512);
    let next = Raise { body, ..raise("agent", "2", "-", None) };
    assert!(is_refused(desk.hub.raise(next.clone()).await));
    desk.advance(SignedDuration::from_mins(5));
    assert!(desk.hub.raise(next).await.unwrap().voucher.is_some());
}

#[tokio::test]
async fn all_agents_together_are_bounded_and_tokens_for_new_ones() {
    let desk = Desk::new().await;
    desk.use_up("agent", 4096);
    let refused = desk.hub.raise(raise("other", "k", "x", None)).await.unwrap_err();
    assert!(refused.to_string().starts_with("the agents of this hub have had 4096 MB"), "{refused}");
    assert!(is_refused(desk.hub.hand_out_agent_token(&agent("new"), "somebody", false).await));
    desk.advance(SignedDuration::from_mins(5));
    desk.hub.hand_out_agent_token(&agent("new"), "somebody", false).await.unwrap();
}

#[tokio::test]
async fn a_text_that_streams_is_not_written_beyond_the_bound() {
    let desk = Desk::new().await.talks().await;
    desk.say(vec![super::conversations::delta_at("t", 0, "one ")]).await;
    desk.say(vec![super::conversations::delta_at("t", 4, "two")]).await;
    desk.use_up("a", 512);
    desk.hub.write_texts(None).await.unwrap();
    let kept = async || desk.hub.inner.store.read(|db| db.text_so_far(&agent("a"), "t")).await.unwrap();
    assert_eq!(kept().await.as_deref(), Some("one "));
    assert_eq!(desk.texts().await, ["one two…"], "whoever reads it now has all of it");
    desk.advance(SignedDuration::from_mins(5));
    desk.hub.write_texts(None).await.unwrap();
    assert_eq!(kept().await.as_deref(), Some("one two"));
}
