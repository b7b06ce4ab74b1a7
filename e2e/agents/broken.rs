//! Agents that do not keep to their protocol: whatever they do, nothing is approved, and the run ends with a sentence.

use crate::support::{Hub, aye, complained, eventually, printed};
use aye_testkit::agent::{heard, rpc_agent};
use serde_json::{Value, json};
use std::process::{Child, Output, Stdio};

struct Scene {
    hub: Hub,
    work: tempfile::TempDir,
}

impl Scene {
    /// Everything is allowed by a rule here, so that whatever gets through is approved.
    fn new() -> Self {
        let mut hub = Hub::start();
        std::fs::write(hub.home.join("config.toml"), "[policy]\nauto_approve = [\"*\"]\n").unwrap();
        hub.stop();
        hub.restart();
        Self { hub, work: tempfile::tempdir().unwrap() }
    }

    fn run(&self, steps: &[Value]) -> Child {
        self.script(&[opening(), steps.to_vec()].concat())
    }

    fn script(&self, steps: &[Value]) -> Child {
        let script = Value::from(steps.to_vec()).to_string();
        std::fs::write(self.work.path().join("script.json"), script).unwrap();
        let mut command = aye(&self.hub.home);
        command.args(["run", "--agent", "codex", "do it"]).current_dir(self.work.path());
        command.env("AYE_CODEX", rpc_agent()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn heard(&self) -> Vec<Value> {
        heard(&self.work.path().join("heard.jsonl"))
    }

    /// What the agent was told in reply to its requests.
    fn replies(&self) -> Vec<Value> {
        self.heard().into_iter().filter(|message| message["method"].is_null()).collect()
    }

    #[track_caller]
    fn approved_nothing(&self) {
        let replies = self.replies();
        assert!(!Value::from(replies.clone()).to_string().contains("accept"), "{replies:?}");
    }
}

/// A session that was opened, and a turn that began.
fn opening() -> Vec<Value> {
    let thread = json!({"thread": {"id": "t"}});
    let turn = json!({"turn": {"id": "u", "items": [], "status": "inProgress"}});
    vec![
        json!({"await": "initialize", "line": {"id": "ID", "result": {}}}),
        json!({"await": "thread/start", "line": {"id": "ID", "result": thread}}),
        json!({"await": "turn/start", "line": {"id": "ID", "result": turn}}),
        json!({"line": {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}}),
    ]
}

/// As Codex quotes it.
fn approval(id: u64, command: &str) -> Value {
    let quote = if command.contains([' ', '$']) { "'" } else { "" };
    json!({"method": "item/commandExecution/requestApproval", "id": id, "params": {
        "kind": "command", "threadId": "t", "turnId": "u", "itemId": format!("call_{id}"),
        "command": format!("/bin/bash -lc {quote}{command}{quote}"), "availableDecisions": ["accept", "cancel"]}})
}

fn turn_ends() -> Value {
    json!({"line": {"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "u", "status": "completed"}}}})
}

#[track_caller]
fn ended_with(output: &Output, words: &str) {
    assert!(!output.status.success(), "{output:?}");
    let said = printed(output) + &complained(output);
    assert!(said.contains(words), "{words:?} in {said}");
}

#[test]
fn an_agent_that_keeps_to_it_is_answered() {
    let scene = Scene::new();
    let run = scene.run(&[json!({"line": approval(0, "make")}), json!({"await": "reply"}), turn_ends()]);
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.replies(), [json!({"id": 0, "result": {"decision": "accept"}})]);
}

#[test]
fn what_is_no_message_ends_the_run() {
    for (words, broken) in [
        ("cannot be read", "{\"method\":\"item/comm\n".to_owned()),
        ("cannot be read", format!("{}\n", &approval(0, "make").to_string()[..60])),
        ("never made", json!({"id": 77, "result": {"decision": "accept"}}).to_string() + "\n"),
        ("neither id nor name", "{}\n".to_owned()),
    ] {
        let scene = Scene::new();
        let output = scene.run(&[json!({"say": broken})]).wait_with_output().unwrap();
        ended_with(&output, words);
        scene.approved_nothing();
    }
}

#[test]
fn half_a_message_at_the_end_is_none() {
    let scene = Scene::new();
    let half = approval(0, "make").to_string()[..80].to_owned();
    let output = scene.run(&[json!({"say": half}), json!({"end": 0})]).wait_with_output().unwrap();
    ended_with(&output, "cannot be read");
    scene.approved_nothing();
}

#[test]
fn an_id_that_is_used_twice_ends_the_run_and_neither_request_is_approved_again() {
    let scene = Scene::new();
    let steps = [
        json!({"line": approval(0, "make")}),
        json!({"await": "reply"}),
        json!({"line": approval(0, "rm x")}),
    ];
    let output = scene.run(&steps).wait_with_output().unwrap();
    ended_with(&output, "two requests under the id 0");
    assert_eq!(scene.replies().len(), 1);
}

#[test]
fn a_request_that_reads_in_two_ways_is_refused_and_the_turn_goes_on() {
    let scene = Scene::new();
    let twice = approval(0, "make")
        .to_string()
        .replace("\"command\":\"/", "\"command\":\"/bin/sh -c ls\",\"command\":\"/");
    let steps = [json!({"say": twice + "\n"}), json!({"await": "reply"}), turn_ends()];
    let output = scene.run(&steps).wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.replies()[0]["error"]["code"], -32600, "{:?}", scene.replies());
}

#[test]
fn a_request_after_the_end_is_not_approved() {
    let scene = Scene::new();
    let late = json!({"line": approval(3, "make")});
    let output = scene.run(&[turn_ends(), late]).wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    scene.approved_nothing();
}

#[test]
fn a_flood_is_answered_once_each_or_refused() {
    let scene = Scene::new();
    let mut steps: Vec<_> = (0..600).map(|id| json!({"line": approval(id, "make $(x)")})).collect();
    steps.push(turn_ends());
    let output = scene.run(&steps).wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut ids: Vec<_> = scene.replies().iter().map(|reply| reply["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), scene.replies().len(), "no request got two replies");
}

#[test]
fn a_command_that_cannot_be_taken_apart_is_asked_whatever_the_rules_say_and_for_once_alone() {
    let scene = Scene::new();
    let mut odd = approval(0, "x");
    odd["params"]["command"] = "/bin/bash -lc 'make' extra".into();
    let mut steps = vec![json!({"line": odd}), json!({"await": "reply"}), turn_ends()];
    let run = scene.run(&steps);
    let ask = eventually("the ask", || {
        let list = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        list["asks"].get(0).cloned()
    });
    assert_eq!(ask["body"]["tool"], "Unclear");
    assert_eq!(ask["body"]["scopes"], json!([{"scope": "once"}]));
    assert!(ask["display"]["caution"].as_str().unwrap().contains("no rule decides it"), "{ask}");
    let words = scene.hub.answer(&ask, json!({"decision": "deny", "message": "why"}));
    assert!(words.body.to_string().contains("words with a refusal"), "{}", words.body);
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    assert!(run.wait_with_output().unwrap().status.success());
    assert_eq!(scene.replies(), [json!({"id": 0, "result": {"decision": "decline"}})]);
    // The same of a change that was never told of.
    let change = json!({"method": "item/fileChange/requestApproval", "id": 0, "params": {
        "threadId": "t", "turnId": "u", "itemId": "call_9"}});
    steps[0] = json!({"line": change});
    let run = scene.run(&steps);
    let ask = eventually("the ask", || {
        let list = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        list["asks"].get(0).cloned()
    });
    assert_eq!(
        (&ask["body"]["tool"], &ask["body"]["scopes"]),
        (&json!("Unclear"), &json!([{"scope": "once"}]))
    );
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    run.wait_with_output().unwrap();
}

#[test]
fn a_session_that_cannot_be_opened_ends_the_run_with_the_reason() {
    let scene = Scene::new();
    let error = json!({"code": -1, "message": "no model is configured"});
    let script = [
        json!({"await": "initialize", "line": {"id": "ID", "result": {}}}),
        json!({"await": "thread/start", "line": {"id": "ID", "error": error}}),
    ];
    let output = scene.script(&script).wait_with_output().unwrap();
    ended_with(&output, "no model is configured");
}
