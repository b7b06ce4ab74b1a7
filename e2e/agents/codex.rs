//! What only Codex does.

use super::{CODEX, Stage};
use crate::support::{Hub, eventually};
use aye_testkit::agent::{heard, rpc_agent};
use aye_testkit::model::{Model, tool};
use serde_json::{Value, json};

fn patch(id: &str, lines: &str) -> Value {
    let command = format!("apply_patch <<'EOF'\n*** Begin Patch\n{lines}*** End Patch\nEOF\n");
    tool(id, "exec_command", json!({ "cmd": command }))
}

fn stage(steps: Vec<Value>) -> Stage {
    Stage::new(&CODEX, Model::scripted(steps.into_iter().map(|call| vec![call]).collect()))
}

#[test]
fn a_run_of_codex_is_started_through_the_api_and_its_request_answered() {
    let work = tempfile::tempdir().unwrap();
    let turn = |status: &str| json!({"id": "u", "items": [], "status": status});
    let script = json!([
        {"await": "initialize", "line": {"id": "ID", "result": {}}},
        {"await": "thread/start", "line": {"id": "ID", "result": {"thread": {"id": "t"}}}},
        {"await": "turn/start", "line": {"id": "ID", "result": {"turn": turn("inProgress")}}},
        {"line": {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}},
        {"line": {"method": "item/commandExecution/requestApproval", "id": 7, "params": {
            "kind": "command", "threadId": "t", "turnId": "u", "itemId": "call_1",
            "command": "/bin/bash -lc 'make all'", "availableDecisions": ["accept", "cancel"]}}},
        {"await": "reply"},
        {"line": {"method": "turn/completed", "params": {"threadId": "t", "turn": turn("completed")}}},
    ]);
    std::fs::write(work.path().join("script.json"), script.to_string()).unwrap();
    let mut hub = Hub::start();
    let config =
        format!("[agents.codex]\ncommand = {:?}\n[projects]\nweb = {:?}\n", rpc_agent(), work.path());
    std::fs::write(hub.home.join("config.toml"), config).unwrap();
    hub.stop();
    hub.restart();
    let run = json!({"agent": "codex", "cwd": "web", "prompt": "build it"});
    let started = hub.post("/api/agents", &hub.operator(), run);
    assert_eq!((started.status, &started.body["kind"]), (201, &json!("codex")), "{}", started.body);
    let ask = eventually("the ask", || {
        hub.get("/api/asks?state=open", &hub.operator()).body["asks"].get(0).cloned()
    });
    assert_eq!((&ask["agent"], &ask["display"]["text"]), (&started.body["id"], &json!("make all")));
    assert_eq!(hub.answer(&ask, json!({"decision": "allow", "scope": "once"})).status, 200);
    let told = eventually("the reply", || {
        heard(&work.path().join("heard.jsonl")).into_iter().find(|message| message["id"] == 7)
    });
    assert_eq!(told["result"], json!({"decision": "accept"}));
    let id = started.body["id"].as_str().unwrap();
    assert_eq!(hub.post(&format!("/api/agents/{id}/stop"), &hub.operator(), json!({})).status, 200);
    eventually("the run to end", || {
        let agent = hub.get(&format!("/api/agents/{id}"), &hub.operator()).body;
        (agent["state"] == "ended").then_some(())
    });
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_file_is_shown_as_a_diff_before_it_changes() {
    let stage = stage(vec![
        patch("call_1", "*** Add File: note.txt\n+one\n+two\n"),
        patch("call_2", "*** Update File: note.txt\n@@\n one\n-two\n+three\n"),
        patch("call_3", "*** Delete File: note.txt\n"),
    ]);
    let note = stage.work.path().join("note.txt");
    let run = stage.run(&[]);
    let added = stage.answer(json!({"decision": "allow", "scope": "once"}));
    assert_eq!((&added["body"]["tool"], &added["display"]["kind"]), (&json!("Write"), &json!("diff")));
    assert_eq!(added["body"]["input"]["content"], "one\ntwo\n");
    stage.model.told("call_1");
    let changed = stage.ask();
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "one\ntwo\n");
    assert_eq!(changed["body"]["tool"], "Edit");
    assert!(changed["display"]["text"].as_str().unwrap().contains("-two\n+three\n"), "{changed}");
    stage.answer(json!({"decision": "allow", "scope": "once"}));
    stage.model.told("call_2");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "one\nthree\n");
    let removed = stage.answer(json!({"decision": "deny"}));
    assert_eq!(removed["body"]["tool"], "apply_patch");
    stage.model.told("call_3");
    assert!(note.exists());
    for ask in [added, changed, removed] {
        stage.confirmed(&ask);
    }
    assert!(run.wait_with_output().unwrap().status.success());
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_refusal_that_interrupts_ends_the_turn_and_the_session_goes_on_later() {
    let stage = stage(vec![(CODEX.runs)("call_1", "touch never")]);
    let run = stage.run(&[]);
    let ask = stage.answer(json!({"decision": "deny", "interrupt": true}));
    run.wait_with_output().unwrap();
    stage.confirmed(&ask);
    assert_eq!(stage.model.requests().len(), 1);
    let session = stage.agent()["session"].as_str().unwrap().to_owned();
    let again = stage.command(&["--resume", &session], "go on").output().unwrap();
    assert!(again.status.success(), "{again:?}");
    stage.told("call_1", "aborted by user");
    assert!(!stage.has("never"));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_run_in_the_background_takes_further_prompts() {
    let stage = stage(vec![
        (CODEX.runs)("call_1", "touch first"),
        aye_testkit::model::text("One."),
        (CODEX.runs)("call_2", "touch second"),
    ]);
    let started = stage.command(&["--detach"], "do it").output().unwrap();
    assert!(started.status.success(), "{started:?}");
    stage.answer(json!({"decision": "allow", "scope": "once"}));
    stage.model.told("call_1");
    eventually("the turn to end", || (stage.agent()["state"] == "idle").then_some(()));
    stage.steer("prompt", json!({"text": "now the second"}));
    let second = stage.answer(json!({"decision": "allow", "scope": "once"}));
    assert_eq!(second["display"]["text"], "touch second");
    stage.model.told("call_2");
    assert!(stage.has("first") && stage.has("second"));
    stage.steer("stop", json!({}));
    eventually("the run to end", || (stage.agent()["state"] == "ended").then_some(()));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_question_takes_words_and_no_refusal() {
    let stage = stage(vec![(CODEX.asks.unwrap())("call_q")]);
    let run = stage.run(&[]);
    let ask = stage.ask();
    let skipped = stage.hub.answer(&ask, json!({"skip": true}));
    assert!(skipped.body.to_string().contains("Codex takes one answer to each question"), "{}", skipped.body);
    stage.answer(json!({"answers": [{"text": "MariaDB, exactly 10.6", "notes": "and soon"}]}));
    stage.told("call_q", "MariaDB, exactly 10.6");
    stage.told("call_q", "user_note: and soon");
    stage.confirmed(&ask);
    assert!(run.wait_with_output().unwrap().status.success());
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_secret_reaches_the_model_and_is_not_kept() {
    let options =
        [json!({"label": "none", "description": "."}), json!({"label": "later", "description": "."})];
    let question =
        json!({"id": "key", "question": "The key?", "header": "Key", "isSecret": true, "options": options});
    let stage = stage(vec![tool("call_q", "request_user_input", json!({"questions": [question]}))]);
    let run = stage.run(&[]);
    let ask = stage.answer(json!({"answers": [{"text": "correct horse"}]}));
    assert_eq!(ask["body"]["questions"][0]["secret"], true);
    stage.told("call_q", "correct horse");
    stage.confirmed(&ask);
    let told = run.wait_with_output().unwrap();
    assert!(
        told.status.success() && !String::from_utf8_lossy(&told.stdout).contains("correct horse"),
        "{told:?}"
    );
    let files = std::fs::read_dir(&stage.hub.home).unwrap().map(|file| file.unwrap().path());
    let has_it = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(13).any(|part| part == b"correct horse")
    };
    assert_eq!(files.filter(has_it).collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
    assert!(stage.hub.aye(&["verify"]).status.success());
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn in_a_resumed_session_its_file_confirms_the_answer_to_a_question() {
    let stage = stage(vec![aye_testkit::model::text("One."), (CODEX.asks.unwrap())("call_q")]);
    assert!(stage.run(&[]).wait_with_output().unwrap().status.success());
    let session = stage.agent()["session"].as_str().unwrap().to_owned();
    let again = stage.command(&["--resume", &session], "go on").spawn().unwrap();
    let ask = stage.answer(json!({"answers": [{"selected": ["SQLite"]}]}));
    stage.told("call_q", "SQLite");
    stage.confirmed(&ask);
    assert!(again.wait_with_output().unwrap().status.success());
}
