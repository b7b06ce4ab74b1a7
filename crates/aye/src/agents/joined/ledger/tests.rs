//! The ledger as what it is: meanings in, effects out.

use super::*;
use aye_core::{AskView, Can, Kind};
use serde_json::{Value, json};

/// A protocol whose inputs say what they mean.
struct Plain;

impl JoinedProtocol for Plain {
    type Input = Meaning<&'static str>;
    type Message = &'static str;

    fn read(&mut self, input: Self::Input) -> Vec<Meaning<&'static str>> {
        vec![input]
    }

    fn outcome(&mut self, _: &str, _: &Body, _: &Resolution) -> Written<&'static str> {
        Written { message: "answer", shown_by: Some("call".into()) }
    }
}

fn body() -> Body {
    Body::decode(Kind::Permission, json!({"tool": "Bash", "input": {"command": "ls"}})).unwrap()
}

fn asks() -> Meaning<&'static str> {
    Meaning::Asks(Asked {
        id: "r".into(),
        request: (),
        body: Ok(body()),
        tool_use_id: None,
        sub_agent: None,
        cwd: None,
        can: Can::default(),
        outlives_turn: false,
    })
}

fn ledger() -> Ledger<Plain> {
    let mut ledger = Ledger::new(Plain, "agent".into());
    let raised = ledger.input(asks());
    assert!(matches!(&raised[..], [Effect::Raise(raise)] if raise.request == "1/r"), "{raised:?}");
    ledger
}

fn recorded(ledger: &mut Ledger<Plain>) -> Effects<Plain> {
    recorded_as(ledger, "1/r", "ask1")
}

fn recorded_as(ledger: &mut Ledger<Plain>, request: &str, id: &str) -> Effects<Plain> {
    let ask = AskView::from_json(json!({
        "id": id, "key": "k", "agent": "a", "cwd": "/src", "kind": "permission", "body": body(),
        "digest": format!("sha256:{}", "0".repeat(64)), "created_at": "2026-01-01T00:00:00Z", "state": "open",
    }));
    ledger.news(AskNews::Raised { request: request.into(), ask: Box::new(ask.unwrap()) })
}

fn resolved(ledger: &mut Ledger<Plain>, sent: Value) -> Effects<Plain> {
    resolved_as(ledger, "1/r", sent)
}

fn resolved_as(ledger: &mut Ledger<Plain>, request: &str, sent: Value) -> Effects<Plain> {
    let resolution = Resolution::read(&body(), sent);
    ledger.news(AskNews::Resolved { request: request.into(), resolution })
}

fn allowed() -> Value {
    let answer = json!({"decision": "allow", "scope": "once"});
    json!({"state": "answered", "outcome": {"decision": "allow", "answer": answer}})
}

fn in_terminal(answer: Value) -> Meaning<&'static str> {
    Meaning::AnsweredElsewhere { id: "r".into(), answer: Some(answer) }
}

#[test]
fn what_the_terminal_answers_before_the_hub_has_it_is_withdrawn_with_that_answer() {
    let mut ledger = ledger();
    let denied = json!({"decision": "deny"});
    assert!(ledger.input(in_terminal(denied.clone())).is_empty());
    // The turn ends, which changes nothing of it.
    assert!(ledger.input(Meaning::Cancels { id: "r".into() }).is_empty());
    let effects = recorded(&mut ledger);
    let [Effect::Withdraw { what, otherwise, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((what.why, &what.answer), (Withdrawal::Terminal, &Some(denied)));
    assert_eq!(otherwise.0, Receipt::Superseded);
}

#[test]
fn an_answer_that_does_not_fit_is_left_out_so_that_the_ask_still_ends() {
    let mut ledger = ledger();
    recorded(&mut ledger);
    let effects = ledger.input(in_terminal(json!({"decision": "allow", "scope": "always"})));
    let [Effect::Withdraw { what, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((what.why, &what.answer), (Withdrawal::Terminal, &None));
}

#[test]
fn an_answer_is_written_once_and_what_the_agent_shows_is_its_receipt() {
    let mut ledger = ledger();
    recorded(&mut ledger);
    let effects = resolved(&mut ledger, allowed());
    assert!(matches!(&effects[..], [Effect::Write { message: "answer", delivers: Some(_) }]), "{effects:?}");
    assert!(resolved(&mut ledger, allowed()).is_empty());
    assert!(ledger.input(in_terminal(json!({"decision": "deny"}))).is_empty());
    let shows =
        || Meaning::Shows { call: "call".into(), receipt: Receipt::Confirmed, evidence: "seen".into() };
    assert!(matches!(&ledger.input(shows())[..], [Effect::Receipt { receipt: Receipt::Confirmed, .. }]));
    assert!(ledger.input(shows()).is_empty() && ledger.ended().is_empty());
}

#[test]
fn where_nobody_answers_the_terminal_decides() {
    let mut ledger = ledger();
    recorded(&mut ledger);
    let expired = json!({"state": "expired", "outcome": {"decision": "expired", "message": "nobody"}});
    let effects = resolved(&mut ledger, expired);
    assert!(matches!(&effects[..], [Effect::Receipt { receipt: Receipt::Superseded, .. }]), "{effects:?}");
    // What the hub will never record is the terminal's as well, and nothing is refused.
    ledger.input(asks());
    assert!(ledger.news(AskNews::NotRaised { request: "2/r".into(), why: "full".into() }).is_empty());
    assert!(ledger.input(in_terminal(json!({"decision": "deny"}))).is_empty());
}

#[test]
fn what_is_asked_again_under_the_same_name_is_raised_although_the_first_is_still_on_its_way() {
    let mut ledger = ledger();
    assert!(ledger.input(Meaning::Cancels { id: "r".into() }).is_empty());
    let again = ledger.input(asks());
    assert!(matches!(&again[..], [Effect::Raise(raise)] if raise.request == "2/r"), "{again:?}");
    let first = recorded(&mut ledger);
    assert!(matches!(&first[..], [Effect::Withdraw { ask, .. }] if ask.as_str() == "ask1"), "{first:?}");
    assert!(recorded_as(&mut ledger, "2/r", "ask2").is_empty());
    // An answer to the first that was faster than its withdrawal is not one to the second.
    assert!(resolved(&mut ledger, allowed()).is_empty());
    let effects = resolved_as(&mut ledger, "2/r", allowed());
    let [Effect::Write { delivers: Some(ask), .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(ask.as_str(), "ask2");
}
