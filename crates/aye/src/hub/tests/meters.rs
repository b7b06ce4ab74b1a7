use super::*;
use aye_core::AgentState;
use std::collections::BTreeMap;
use store::AskCount;

/// The counts that are kept, and the same counted anew.
async fn both_counts(desk: &Desk) -> (Vec<AskCount>, Vec<AskCount>) {
    let kept = desk.hub.inner.store.read(store::Reader::ask_counts).await.unwrap();
    let asks = desk.hub.asks(AskFilter { limit: 100, ..AskFilter::default() }).await.unwrap().asks;
    let mut anew = BTreeMap::new();
    for ask in asks {
        let receipt = ask.state.receipt().map_or("none", Receipt::as_str);
        *anew.entry((ask.body.kind().as_str(), ask.state.name(), receipt)).or_insert(0) += 1;
    }
    let count = |((kind, state, receipt), asks): ((&str, &str, &str), u64)| AskCount {
        kind: kind.to_owned(),
        state: state.to_owned(),
        receipt: receipt.to_owned(),
        asks,
    };
    let anew = anew.into_iter().map(count).collect();
    (kept.into_iter().filter(|count| count.asks > 0).collect(), anew)
}

#[tokio::test]
async fn the_counts_kept_are_the_counts_that_are_through_every_change() {
    let mut desk = Desk::new().await;
    let (open, expired) = (desk.raise("open", None).await, desk.raise("expires", Some(5)).await);
    let (answered, withdrawn) = (desk.raise("answered", None).await, desk.raise("withdrawn", None).await);
    desk.answer(&answered, "no").await.unwrap();
    desk.answer(&answered, "again").await.unwrap_err();
    let delivered = Delivery { receipt: Receipt::Delivered, evidence: None };
    desk.hub.receipt(answered.id.clone(), agent("agent"), delivered).await.unwrap();
    desk.hub.withdraw(withdrawn.head.id, agent("agent"), Withdrawal::Cancelled, None).await.unwrap();
    desk.pass(6).await;
    assert_eq!(desk.hub.ask(&expired.id).await.unwrap().state.name(), "expired");
    assert!(desk.hub.ask(&open.id).await.unwrap().state.is_open());

    let (kept, anew) = both_counts(&desk).await;
    assert_eq!(kept, anew);
    assert_eq!(kept.len(), 4);
    desk.crash_and_restart().await;
    assert_eq!(both_counts(&desk).await.0, kept);
}

#[tokio::test]
async fn only_a_persons_answer_is_timed_and_only_once() {
    let desk = Desk::new().await;
    let ask = desk.raise("k", None).await;
    desk.advance(SignedDuration::from_secs(90));
    let answer = call(&ask, "ann", "no", Some("same"));
    desk.hub.answer(answer.clone()).await.unwrap();
    desk.hub.answer(answer).await.unwrap();
    let delivered = Delivery { receipt: Receipt::Delivered, evidence: None };
    desk.hub.receipt(ask.head.id, agent("agent"), delivered).await.unwrap();
    desk.hub.inner.store.close().await;

    let counted = desk.hub.inner.meters.counted();
    let plans = counted.time_to_answer.iter().find(|(kind, _)| *kind == Kind::Plan).unwrap();
    assert_eq!((plans.1.counts.iter().sum::<u64>(), plans.1.sum), (1, 90.0));
    assert!(counted.commit_groups.counts.iter().sum::<u64>() >= 3);
}

#[tokio::test]
async fn every_agent_is_counted_in_its_state() {
    let desk = Desk::on_sqlite(SILENCE).await;
    let report = |state| Registration { state: Some(state), ..Registration::default() };
    desk.raise("k", None).await;
    desk.hub.register(agent("gone"), report(ReportedState::Idle)).await.unwrap();
    desk.hub.register(agent("done"), report(ReportedState::Ended)).await.unwrap();
    desk.pass(61).await;
    desk.hub.heard(&agent("agent")).await.unwrap();
    desk.hub.register(agent("busy"), report(ReportedState::Working)).await.unwrap();
    let figures = desk.hub.figures().await.unwrap();
    let expected = [
        (AgentState::Working, 1),
        (AgentState::Waiting, 1),
        (AgentState::Idle, 0),
        (AgentState::Lost, 1),
        (AgentState::Ended, 1),
    ];
    assert_eq!(figures.kept.unwrap().agents, expected);
    desk.hub.inner.store.close().await;
}

#[tokio::test]
async fn decisions_are_counted_by_rule_and_verdict_and_their_names_do_not_grow_without_end() {
    let desk = Desk::new().await;
    let config = "[[policy.rules]]\nname = \"say \\\"no\\\"\"\ntool = \"Rm\"\naction = \"deny\"\n\
        [[policy.rules]]\ntool = \"Ls\"\naction = \"ask\"\n[policy]\nauto_approve = [\"Read\"]";
    std::fs::write(desk.dir.path().join("config.toml"), config).unwrap();
    desk.hub.reload_policy().await.unwrap();
    for (key, tool) in [("1", "Rm"), ("2", "Rm"), ("3", "Ls"), ("4", "Read"), ("5", "Other"), ("5", "Other")]
    {
        let body = Body::decode(Kind::Permission, json!({ "tool": tool, "input": {} })).unwrap();
        desk.hub.raise(Raise { body, ..raise("agent", key, "x", None) }).await.unwrap();
    }
    let ask = desk.raise("k", None).await;
    for n in 0..1000 {
        desk.hub.inner.meters.raised(&ask, Some(format!("made up {n}")));
    }
    let decisions = desk.hub.inner.meters.counted().decisions;
    let times = |rule: &str, verdict| decisions.get(&(rule.to_owned(), verdict)).copied();
    assert_eq!(times("rule 1 (say \"no\")", "deny"), Some(2));
    assert_eq!(times("rule 2", "ask"), Some(1));
    assert_eq!(times("auto_approve", "allow"), Some(1));
    assert_eq!((decisions.len(), decisions.values().sum::<u64>()), (501, 1004));
    desk.hub.inner.store.close().await;
}
