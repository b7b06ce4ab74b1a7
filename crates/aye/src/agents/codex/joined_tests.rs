//! What follows from Codex's messages beside its terminal, without Codex.

use super::joined::{Input, JoinedCodex};
use crate::agents::joined::Terminal;
use crate::agents::joined::{JoinedProtocol, Meaning};
use crate::agents::lines::Line;
use crate::protocol::{Registration, Resolution};
use aye_core::{AsksFor, Body, Receipt};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::sync::mpsc;

type Meanings = Vec<Meaning<String>>;

struct Joined {
    codex: JoinedCodex,
    files: mpsc::Receiver<PathBuf>,
}

impl Joined {
    fn says(&mut self, message: Value) -> Meanings {
        self.codex.read(Input::Said(Line::Whole(message.to_string().into_bytes())))
    }

    fn tells(&mut self, method: &str, params: Value) -> Meanings {
        self.says(json!({ "method": method, "params": params }))
    }

    fn asks(&mut self, id: u64, command: &str) -> Meanings {
        let params = json!({"threadId": "t", "turnId": "u", "itemId": format!("call_{id}"), "cwd": "/src",
            "command": format!("/bin/bash -lc '{command}'")});
        self.says(json!({"method": "item/commandExecution/requestApproval", "id": id, "params": params}))
    }

    fn answers(&mut self, id: u64, body: &Body, answer: Value) -> Value {
        let sent = json!({"state": "answered", "outcome": {"decision": "allow", "answer": answer}});
        let written = self.codex.outcome(&id.to_string(), body, &Resolution::read(body, sent));
        serde_json::from_str(&written.message).unwrap()
    }
}

/// In a thread that is joined.
fn joined() -> Joined {
    let (files, told) = mpsc::channel(4);
    let terminal =
        Terminal { kind: "codex".into(), cwd: "/src".into(), places: aye_policy::OwnPlaces::default() };
    let mut joined = Joined { codex: JoinedCodex::new(terminal, files), files: told };
    assert_eq!(methods(&joined.codex.read(Input::Connected)), ["initialize"]);
    assert_eq!(methods(&joined.says(json!({"id": 1, "result": {}}))), ["initialized", "thread/loaded/list"]);
    assert_eq!(methods(&joined.says(json!({"id": 2, "result": {"data": ["t"]}}))), ["thread/resume"]);
    // Nothing was said in it yet.
    assert_eq!(methods(&joined.says(json!({"id": 3, "error": {"message": "no rollout found"}}))), [""; 0]);
    let active = json!({"threadId": "t", "status": {"type": "active", "activeFlags": []}});
    assert_eq!(methods(&joined.tells("thread/status/changed", active.clone())), ["thread/resume"]);
    let thread = json!({"id": "t", "path": "/rollout", "preview": "do it", "status": {"type": "active"}});
    let known = joined.says(json!({"id": 4, "result": {"thread": thread}}));
    let is_it = |known: &Registration| known.session.as_deref() == Some("t");
    assert!(
        matches!(&known[..], [Meaning::Knows(known), Meaning::Knows(_), Meaning::Knows(_)] if is_it(known))
    );
    assert_eq!(joined.files.try_recv().unwrap(), PathBuf::from("/rollout"));
    assert_eq!(methods(&joined.tells("thread/status/changed", active)), [""; 0]);
    joined
}

/// What is written by itself.
fn methods(meanings: &Meanings) -> Vec<String> {
    let lines = meanings.iter().filter_map(|meaning| match meaning {
        Meaning::Write(line) => Some(line),
        _ => None,
    });
    let method = |line: &String| {
        let message: Value = serde_json::from_str(line).unwrap();
        assert!(message["error"].is_null(), "{message}");
        message["method"].as_str().unwrap().to_owned()
    };
    lines.map(method).collect()
}

fn asked(meanings: &Meanings) -> Body {
    let body = meanings.iter().find_map(|meaning| match meaning {
        Meaning::Asks(asked) => asked.body.clone().ok(),
        _ => None,
    });
    body.expect("a request")
}

fn ended(meanings: &Meanings) -> Vec<&str> {
    let ids = meanings.iter().filter_map(|meaning| match meaning {
        Meaning::AnsweredElsewhere { id, .. } => Some(id.as_str()),
        _ => None,
    });
    ids.collect()
}

fn receipts(meanings: &Meanings) -> Vec<Receipt> {
    let receipts = meanings.iter().filter_map(|meaning| match meaning {
        Meaning::Shows { receipt, .. } => Some(*receipt),
        _ => None,
    });
    receipts.collect()
}

fn resolved(id: u64) -> (&'static str, Value) {
    ("serverRequest/resolved", json!({"threadId": "t", "requestId": id}))
}

fn completed(id: u64, status: &str) -> (&'static str, Value) {
    let item = json!({"type": "commandExecution", "id": format!("call_{id}"), "status": status});
    ("item/completed", json!({"threadId": "t", "item": item}))
}

#[test]
fn a_question_cannot_be_refused_so_that_a_rule_leaves_it_to_the_terminal() {
    let question = json!({"id": "q", "question": "Which?", "isOther": true, "options": [{"label": "A"}]});
    let asked = joined().says(json!({"method": "item/tool/requestUserInput", "id": 0, "params":
        {"threadId": "t", "turnId": "u", "itemId": "c", "questions": [question]}}));
    let can = asked.iter().find_map(|meaning| match meaning {
        Meaning::Asks(asked) => Some(&asked.can),
        _ => None,
    });
    let skip = aye_core::Answer::decode(aye_core::Kind::Question, json!({"skip": true})).unwrap();
    assert!(can.unwrap().take(&skip).is_err());
}

#[test]
fn what_is_resolved_without_us_was_answered_in_the_terminal() {
    let mut joined = joined();
    let body = asked(&joined.asks(0, "ls"));
    asked(&joined.asks(1, "ls"));
    let ours = joined.answers(0, &body, json!({"decision": "allow", "scope": "once"}));
    assert_eq!(ours, json!({"id": 0, "result": {"decision": "accept"}}));
    let tells = |joined: &mut Joined, (method, params): (&str, Value)| joined.tells(method, params);
    assert_eq!(ended(&tells(&mut joined, resolved(0))), [""; 0]);
    assert_eq!(ended(&tells(&mut joined, resolved(1))), ["1"]);
    assert_eq!(receipts(&tells(&mut joined, completed(0, "completed"))), [Receipt::Confirmed]);
    assert_eq!(receipts(&tells(&mut joined, completed(1, "completed"))), []);
    // The turn was interrupted there.
    asked(&joined.asks(2, "ls"));
    assert_eq!(ended(&joined.tells("turn/completed", json!({"threadId": "t"}))), ["2"]);
}

#[test]
fn an_answer_that_came_second_is_superseded_and_no_alarm() {
    let mut joined = joined();
    let body = asked(&joined.asks(0, "ls"));
    joined.answers(0, &body, json!({"decision": "allow", "scope": "once"}));
    let (method, params) = completed(0, "declined");
    assert_eq!(receipts(&joined.tells(method, params)), [Receipt::Superseded]);
}

#[test]
fn what_is_not_known_or_cannot_be_read_gets_no_reply_at_all() {
    let mut joined = joined();
    for message in [
        json!({"method": "item/permissions/requestApproval", "id": 7, "params": {"permissions": {}}}),
        json!({"method": "item/tool/requestUserInput", "id": 8, "params": []}),
        json!({"method": "x", "id": {}}),
        json!({"id": 99, "result": {}}),
    ] {
        assert!(joined.says(message.clone()).is_empty(), "{message}");
    }
    let twice = br#"{"method":"item/commandExecution/requestApproval","id":9,"params":{"command":"a","command":"b"}}"#;
    assert!(joined.codex.read(Input::Said(Line::Whole(twice.to_vec()))).is_empty());
}

#[test]
fn a_plan_is_shown_after_its_turn_and_decided_in_the_terminal_alone() {
    let mut joined = joined();
    let plan = json!({"type": "plan", "id": "p", "text": "1. x"});
    assert!(joined.tells("item/completed", json!({"threadId": "t", "item": plan})).is_empty());
    let asks = joined.tells("turn/completed", json!({"threadId": "t"}));
    let Some(Meaning::Asks(asked)) = asks.first() else { panic!("a plan") };
    assert!(matches!(asked.body, Ok(Body::Plan(_))) && asked.can.why_not().is_some());
    assert_eq!(ended(&joined.tells("turn/started", json!({"threadId": "t"}))), ["plan p"]);
}

#[test]
fn codexs_own_threads_are_not_joined_and_sub_agents_are_named() {
    let mut joined = joined();
    let thread = |id: &str, more: Value| {
        let mut thread = json!({"id": id});
        thread.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "thread": thread })
    };
    joined
        .tells("thread/started", thread("title", json!({"threadSource": "thread_title", "ephemeral": true})));
    joined.tells("thread/started", thread("sub", json!({"parentThreadId": "t"})));
    let active = |id: &str| json!({"threadId": id, "status": {"type": "active"}});
    assert_eq!(methods(&joined.tells("thread/status/changed", active("title"))), [""; 0]);
    assert_eq!(methods(&joined.tells("thread/status/changed", active("sub"))), ["thread/resume"]);
    let params = json!({"threadId": "sub", "itemId": "c", "cwd": "/src", "command": "/bin/sh -c ls"});
    let asks =
        joined.says(json!({"method": "item/commandExecution/requestApproval", "id": 0, "params": params}));
    assert!(matches!(&asks[..], [Meaning::Asks(asked)] if asked.sub_agent.is_some()));
}

#[test]
fn after_a_broken_connection_everything_is_asked_anew() {
    let mut joined = joined();
    asked(&joined.asks(0, "ls"));
    let again = joined.codex.read(Input::Connected);
    assert!(matches!(&again[0], Meaning::Cancels { id } if id == "0"));
    assert_eq!(methods(&again), ["initialize"]);
    joined.says(json!({"id": 1, "result": {}}));
    assert_eq!(methods(&joined.says(json!({"id": 2, "result": {"data": ["t"]}}))), ["thread/resume"]);
    asked(&joined.asks(0, "ls"));
}

#[test]
fn the_approval_policy_of_the_terminal_is_told_as_it_changes() {
    let mut joined = joined();
    let mut told = |settings: Value| {
        let params = json!({"threadId": "t", "threadSettings": settings});
        let meanings = joined.tells("thread/settings/updated", params);
        let [Meaning::Knows(known)] = &meanings[..] else { panic!("{}", meanings.len()) };
        known.asks.unwrap()
    };
    assert_eq!(told(json!({"approvalPolicy": "never", "approvalsReviewer": "user"})), AsksFor::Nothing);
    assert_eq!(told(json!({"approvalPolicy": "on-request", "approvalsReviewer": "user"})), AsksFor::Some);
    assert_eq!(
        told(json!({"approvalPolicy": "untrusted", "approvalsReviewer": "user"})),
        AsksFor::Everything
    );
    assert_eq!(told(json!({"approvalPolicy": {"granular": {"rules": false}}})), AsksFor::Some);
    assert_eq!(told(json!({})), AsksFor::Unknown);
}
