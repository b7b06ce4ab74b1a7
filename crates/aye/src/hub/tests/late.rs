//! Calls that a rule allowed and a crash kept from being recorded.

use super::allow::refuse_asks;
use super::policy::{RULES, decision};
use super::*;
use store::test_databases::EARLY;

/// A call that was allowed and never written down, as it was raised, and what came with the reply.
async fn lost(desk: &Desk) -> (Raise, Ask, Voucher) {
    let body = desk.run("model", "cargo test").await.body;
    let raise = Raise { body, tool_use_id: Some("t".into()), ..raise("agent", "lost", "-", None) };
    desk.hub.inner.store.catch_up().await.unwrap();
    refuse_asks(desk, true);
    let raised = desk.hub.raise(raise.clone()).await.unwrap();
    desk.hub.inner.store.catch_up().await.unwrap();
    refuse_asks(desk, false);
    assert!(matches!(desk.hub.ask(&raised.ask.id).await, Err(Problem::NoSuchAsk)));
    (raise, raised.ask, raised.voucher.unwrap())
}

fn verify(desk: &Desk) {
    let home = Home::at(desk.dir.path());
    let database = store::open_to_read(&home.database()).unwrap();
    let against = store::verify::Against::in_home(&home).unwrap();
    database.verify(&against, |_, _| {}).unwrap();
}

#[tokio::test]
async fn a_call_whose_record_was_lost_is_recorded_late_and_once() {
    let mut desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let (raise, ask, voucher) = lost(&desk).await;
    desk.crash_and_restart().await;
    desk.advance(SignedDuration::from_secs(5));
    // The agent may have moved meanwhile, and the rules may be others.
    std::fs::write(desk.dir.path().join("config.toml"), "").unwrap();
    desk.hub.reload_policy().await.unwrap();
    let moved = Registration { cwd: Some("/elsewhere".into()), ..Registration::default() };
    desk.hub.register(agent("agent"), moved).await.unwrap();

    let late = desk.hub.record_late(ask.id.clone(), raise.clone(), Some(voucher.clone())).await.unwrap();
    assert!(late.new);
    let immutable = |ask: &Ask| (ask.id.clone(), ask.digest.clone(), ask.cwd.clone(), ask.created_at);
    assert_eq!(immutable(&late.ask), immutable(&ask));
    assert_eq!(decision(&late.ask), "allow");
    let rule = Text::try_from("rule 1 (tests), recorded late").unwrap();
    assert_eq!(late.ask.state.by(), Some(&By::Rule { rule }));
    assert_eq!(late.ask.tool_use_id.as_deref(), Some("t"));
    verify(&desk);

    let lines = desk.trail().await.len();
    for voucher in [Some(voucher), None] {
        let again = desk.hub.record_late(ask.id.clone(), raise.clone(), voucher).await.unwrap();
        assert_eq!((again.new, again.ask), (false, late.ask.clone()));
    }
    assert_eq!(desk.trail().await.len(), lines);
    let delivered = Delivery { receipt: Receipt::Delivered, evidence: None };
    let unknown =
        desk.hub.report(agent("agent"), vec![], vec![(ask.id.clone(), delivered)], None).await.unwrap();
    assert_eq!(unknown, []);
}

#[tokio::test]
async fn without_a_voucher_of_ours_it_is_only_what_the_agent_says_and_approves_nothing() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let (raise, ask, voucher) = lost(&desk).await;
    let other_body = desk.run("other", "rm x").await.body;
    let told = serde_json::to_value(&voucher).unwrap();
    let with = |field: &str, value: &str| {
        let mut told = told.clone();
        told[field] = json!(value);
        Some(serde_json::from_value::<Voucher>(told).unwrap())
    };
    let ours = || Some(voucher.clone());
    let other_id = AskId::try_from("another").unwrap();
    let key = |key: &str| Key::try_from(key).unwrap();
    let other_agent = agent("b");
    desk.hub.register(other_agent.clone(), Registration::default()).await.unwrap();
    let with_body = Raise { body: other_body, ..raise.clone() };
    let of_another = Raise { agent: other_agent, ..raise.clone() };
    let forged = [
        (ask.id.clone(), raise.clone(), None),
        (ask.id.clone(), raise.clone(), with("mac", &"0".repeat(64))),
        (ask.id.clone(), raise.clone(), with("rule", "rule 2")),
        (ask.id.clone(), raise.clone(), with("cwd", "/")),
        (ask.id.clone(), raise.clone(), with("at", "1999-01-01T00:00:00Z")),
        (other_id, raise.clone(), ours()),
        (ask.id.clone(), raise.clone(), ours()),
        (ask.id.clone(), with_body, ours()),
        (ask.id.clone(), of_another, ours()),
    ];
    for (n, (id, raise, voucher)) in forged.into_iter().enumerate() {
        // Each under a key of its own, so that each is new; the one with nothing else changed, too.
        let raise = Raise { key: key(&format!("forged-{n}")), ..raise };
        let recorded = desk.hub.record_late(id, raise, voucher).await.unwrap();
        assert!(recorded.new);
        let State::Withdrawn { why: Withdrawal::Reported, answer: None, .. } = recorded.ask.state else {
            panic!("{n}: {:?}", recorded.ask.state)
        };
        assert_ne!(recorded.ask.id, ask.id, "the agent's word chooses no id");
        let answered = desk.answer(&recorded.ask, "yes").await.unwrap_err();
        assert!(matches!(answered, Problem::Refused { refused: Refused::Ended, .. }));
    }
    verify(&desk);
    let question = Body::decode(Kind::Plan, json!({ "plan": "x" })).unwrap();
    let refused =
        desk.hub.record_late(ask.head.id, Raise { body: question, ..raise }, None).await.unwrap_err();
    assert!(matches!(refused, Problem::Invalid(_)));
}

#[tokio::test]
async fn what_is_recorded_is_not_changed_by_a_late_record() {
    let desk = Desk::on_sqlite_with_policy(RULES, EARLY).await;
    let (raise, _, voucher) = lost(&desk).await;
    let denied = desk.run("denied", "rm x").await;
    let of = |ask: &Ask| Raise { key: ask.key.clone(), body: ask.body.clone(), ..raise.clone() };
    let same = desk.hub.record_late(denied.id.clone(), of(&denied), Some(voucher.clone())).await.unwrap();
    assert_eq!((same.new, same.ask), (false, denied.clone()));
    for (id, raise) in
        [(denied.id.clone(), raise.clone()), (denied.id.clone(), Raise { key: denied.key.clone(), ..raise })]
    {
        let refused = desk.hub.record_late(id, raise, Some(voucher.clone())).await.unwrap_err();
        assert!(matches!(refused, Problem::KeyReused));
    }
}
