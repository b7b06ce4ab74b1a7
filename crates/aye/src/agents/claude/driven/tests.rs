//! The driver as what it is: events in, effects out, and nothing else.

use super::ClaudeCode;
use crate::agents::driven::asks::{AskNews, ToRaise};
use crate::agents::driven::{Driver, Event, RunEvent};
use crate::agents::lines::Line;
use crate::config::AsksBy;
use crate::protocol::Resolution;
use aye_core::{AskView, AsksFor, Body, Kind, Receipt, Withdrawal};
use serde_json::{Value, json};

type Effect = crate::agents::driven::Effect<String>;

fn driver() -> Driver<ClaudeCode> {
    let claude =
        ClaudeCode::new("/src".into(), aye_policy::OwnPlaces::default(), "run".into(), AsksBy::Control);
    Driver::new(claude, "run".into())
}

fn line(driver: &mut Driver<ClaudeCode>, line: Value) -> Vec<Effect> {
    driver.handle(Event::Input(Line::Whole(line.to_string().into_bytes())))
}

fn ask_for(driver: &mut Driver<ClaudeCode>, request: &str, command: &str) -> Vec<Effect> {
    let tool = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}, "tool_use_id": "t1"});
    line(driver, json!({"type": "control_request", "request_id": request, "request": tool}))
}

/// The hub's word that it recorded what was raised.
fn recorded(driver: &mut Driver<ClaudeCode>, effects: &[Effect]) -> Vec<Effect> {
    let [Effect::Raise(ToRaise { request, body, .. })] = effects else { panic!("{effects:?}") };
    let ask = AskView::from_json(json!({
        "id": "ask1", "key": "k", "agent": "a", "cwd": "/src", "kind": body.kind(), "body": body,
        "digest": format!("sha256:{}", "0".repeat(64)), "created_at": "2026-01-01T00:00:00Z", "state": "open",
    }))
    .unwrap();
    driver.handle(AskNews::Raised { request: request.clone(), ask: Box::new(ask) }.into())
}

fn resolve(driver: &mut Driver<ClaudeCode>, request: &str, resolution: Value) -> Vec<Effect> {
    let body = json!({"tool": "Bash", "input": {"command": "ls"}});
    let body = Body::decode(Kind::Permission, body).unwrap();
    let resolution = Resolution::read(&body, resolution);
    driver.handle(AskNews::Resolved { request: request.into(), resolution }.into())
}

fn allowed() -> Value {
    let answer = json!({"decision": "allow", "scope": "once"});
    json!({"state": "answered", "outcome": {"decision": "allow", "answer": answer}})
}

fn returned(driver: &mut Driver<ClaudeCode>, content: &str, is_error: bool) -> Vec<Effect> {
    let result =
        json!({"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": is_error});
    line(driver, json!({"type": "user", "message": {"role": "user", "content": [result]}}))
}

/// The lines for the agent among the effects, inner part only.
fn replies(effects: &[Effect]) -> Vec<Value> {
    let lines = effects.iter().filter_map(|effect| match effect {
        Effect::Write(line) | Effect::Deliver { message: line, .. } => Some(line),
        _ => None,
    });
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["response"].clone()).collect()
}

fn withdrawn(effects: &[Effect]) -> Vec<(&str, Withdrawal)> {
    let found = effects.iter().filter_map(|effect| match effect {
        Effect::Withdraw { ask, why, .. } => Some((ask.as_str(), *why)),
        _ => None,
    });
    found.collect()
}

fn receipts(effects: &[Effect]) -> Vec<Receipt> {
    let found = effects.iter().filter_map(|effect| match effect {
        Effect::Receipt { receipt, .. } => Some(*receipt),
        _ => None,
    });
    found.collect()
}

#[test]
fn an_answer_is_delivered_once_and_confirmed_by_the_transcript() {
    let mut driver = driver();
    let raised = ask_for(&mut driver, "r1", "ls");
    recorded(&mut driver, &raised);
    let delivered = resolve(&mut driver, "r1", allowed());
    assert_eq!(
        replies(&delivered)[0]["response"],
        json!({"behavior": "allow", "updatedInput": {"command": "ls"}})
    );
    assert_eq!(replies(&resolve(&mut driver, "r1", allowed())), Vec::<Value>::new());
    assert_eq!(receipts(&returned(&mut driver, "done", false)), [Receipt::Confirmed]);
    assert_eq!(receipts(&returned(&mut driver, "done", false)), []);
}

#[test]
fn nobody_in_time_and_an_answer_that_cannot_be_read_are_refusals() {
    let unreadable = json!({"state": "answered", "outcome": {"answer": {"decision": "maybe"}}});
    for resolution in
        [json!({"state": "expired", "outcome": {}}), unreadable, json!({}), json!({"state": "new"})]
    {
        let mut driver = driver();
        let raised = ask_for(&mut driver, "r1", "ls");
        recorded(&mut driver, &raised);
        let told = replies(&resolve(&mut driver, "r1", resolution.clone()));
        assert_eq!(told[0]["response"]["behavior"], "deny", "{resolution}");
    }
}

#[test]
fn what_the_hub_never_records_is_refused() {
    let mut driver = driver();
    ask_for(&mut driver, "r1", "ls");
    let effects =
        driver.handle(AskNews::NotRaised { request: "r1".into(), why: "the hub is full".into() }.into());
    let told = replies(&effects);
    assert_eq!(told[0]["response"]["behavior"], "deny");
    assert!(told[0]["response"]["message"].as_str().unwrap().contains("the hub is full"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Tell(RunEvent::Trouble(_)))));
}

#[test]
fn a_cancelled_request_is_withdrawn_and_gets_no_answer() {
    let mut driver = driver();
    let raised = ask_for(&mut driver, "r1", "ls");
    recorded(&mut driver, &raised);
    let effects = line(&mut driver, json!({"type": "control_cancel_request", "request_id": "r1"}));
    assert_eq!((withdrawn(&effects), replies(&effects)), (vec![("ask1", Withdrawal::Cancelled)], vec![]));
    assert_eq!(replies(&resolve(&mut driver, "r1", allowed())), Vec::<Value>::new());
}

#[test]
fn a_request_cancelled_before_the_hub_recorded_it_is_withdrawn_as_soon_as_it_has() {
    let mut driver = driver();
    let raised = ask_for(&mut driver, "r1", "ls");
    line(&mut driver, json!({"type": "control_cancel_request", "request_id": "r1"}));
    assert_eq!(withdrawn(&recorded(&mut driver, &raised)), [("ask1", Withdrawal::Cancelled)]);
}

#[test]
fn the_end_of_the_agent_withdraws_what_is_open_and_leaves_what_was_delivered_unknown() {
    let mut driver = driver();
    let raised = ask_for(&mut driver, "r1", "ls");
    recorded(&mut driver, &raised);
    assert_eq!(withdrawn(&driver.handle(Event::Closed)), [("ask1", Withdrawal::Gone)]);
    let raised = ask_for(&mut driver, "r2", "ls");
    recorded(&mut driver, &raised);
    resolve(&mut driver, "r2", allowed());
    assert_eq!(receipts(&driver.handle(Event::Closed)), [Receipt::Unknown]);
    assert_eq!(driver.handle(Event::Closed), []);
}

#[test]
fn a_refusal_after_an_approval_is_disputed_and_told() {
    let mut driver = driver();
    let raised = ask_for(&mut driver, "r1", "ls");
    recorded(&mut driver, &raised);
    resolve(&mut driver, "r1", allowed());
    let effects = returned(&mut driver, "The user doesn't want to proceed with this tool use.", true);
    assert_eq!(receipts(&effects), [Receipt::Disputed]);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Tell(RunEvent::NotConfirmed { .. }))));
}

#[test]
fn a_second_request_under_an_id_that_waits_raises_nothing() {
    let mut driver = driver();
    ask_for(&mut driver, "r1", "ls");
    let effects = ask_for(&mut driver, "r1", "rm -rf /");
    assert!(matches!(&effects[..], [Effect::Tell(RunEvent::Trouble(_))]), "{effects:?}");
}

/// The modes that the hub is told.
fn modes(effects: &[Effect]) -> Vec<AsksFor> {
    let found = effects.iter().filter_map(|effect| match effect {
        Effect::Register(known) => known.asks,
        _ => None,
    });
    found.collect()
}

fn begins_in(driver: &mut Driver<ClaudeCode>, mode: &str) -> Vec<Effect> {
    line(driver, json!({"type": "system", "subtype": "init", "session_id": "s", "permissionMode": mode}))
}

#[test]
fn a_run_names_its_mode_whatever_the_settings_say() {
    let claude = || ClaudeCode::new("/src".into(), Default::default(), "run".into(), AsksBy::Control);
    let named = |mode: Option<&str>| {
        let claude = claude().started(mode.map(str::to_owned), None);
        let arguments = crate::agents::driven::AgentProtocol::arguments(&claude);
        let modes =
            arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix("--permission-mode="));
        modes.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(named(None), ["default"]);
    assert_eq!(named(Some("plan")), ["plan"]);
}

#[test]
fn a_run_that_begins_in_a_mode_that_asks_for_less_ends() {
    let claude = || ClaudeCode::new("/src".into(), Default::default(), "run".into(), AsksBy::Control);
    let checked = |mode: Option<&str>| {
        Driver::new(claude().started(mode.map(str::to_owned), None).checking_mode(), "run".into())
    };
    for (mode, found) in
        [(None, "bypassPermissions"), (None, "auto"), (Some("acceptEdits"), "bypassPermissions")]
    {
        let mut driver = checked(mode);
        let effects = begins_in(&mut driver, found);
        assert!(effects.contains(&Effect::End) && driver.has_failed(), "{found}: {effects:?}");
    }
    for (mode, found) in
        [(None, "default"), (None, "manual"), (None, "plan"), (Some("bypassPermissions"), "default")]
    {
        let effects = begins_in(&mut checked(mode), found);
        assert_eq!(modes(&effects), [AsksFor::Everything], "{found}");
        assert!(!effects.contains(&Effect::End), "{found}");
    }
    // The person's own arguments have the last word.
    let effects = begins_in(&mut driver(), "bypassPermissions");
    assert_eq!((modes(&effects), effects.contains(&Effect::End)), (vec![AsksFor::Nothing], false));
}

#[test]
fn a_mode_that_changes_during_the_session_is_told_and_ends_nothing() {
    let mut driver = Driver::new(
        ClaudeCode::new("/src".into(), Default::default(), "run".into(), AsksBy::Control).checking_mode(),
        "run".into(),
    );
    begins_in(&mut driver, "default");
    let status =
        json!({"type": "system", "subtype": "status", "status": null, "permissionMode": "acceptEdits"});
    assert_eq!(modes(&line(&mut driver, status)), [AsksFor::Some]);
    let effects = begins_in(&mut driver, "acceptEdits");
    assert_eq!((modes(&effects), effects.contains(&Effect::End)), (vec![AsksFor::Some], false));
    let other = json!({"type": "system", "subtype": "status", "status": "compacting"});
    assert_eq!(modes(&line(&mut driver, other)), []);
}
