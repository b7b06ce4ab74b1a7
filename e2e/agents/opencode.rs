//! What only OpenCode does.

use super::{OPENCODE, Stage};
use crate::support::{complained, eventually, printed};
use aye_testkit::model::{Model, text, tool};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn stage(steps: Vec<Value>) -> Stage {
    Stage::new(&OPENCODE, Model::scripted(steps.into_iter().map(|call| vec![call]).collect()))
}

fn once() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_file_is_shown_as_a_diff_before_it_changes_and_a_refusal_carries_words() {
    let stage = stage(vec![
        tool("call_1", "write", json!({"filePath": "note.txt", "content": "one\ntwo\n"})),
        tool("call_2", "edit", json!({"filePath": "note.txt", "oldString": "two", "newString": "three"})),
        tool("call_3", "edit", json!({"filePath": "note.txt", "oldString": "three", "newString": "four"})),
        tool("call_4", "webfetch", json!({"url": "http://127.0.0.1:9/", "format": "text"})),
    ]);
    let note = stage.work.path().join("note.txt");
    let run = stage.run(&[]);
    let written = stage.answer(once());
    assert_eq!((&written["body"]["tool"], &written["display"]["kind"]), (&json!("Write"), &json!("diff")));
    stage.model.told("call_1");
    let edited = stage.ask();
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "one\ntwo\n");
    assert_eq!(edited["body"]["tool"], "Edit");
    assert!(edited["display"]["text"].as_str().unwrap().contains("-two\n+three\n"), "{edited}");
    let changed = stage.hub.answer(&edited, json!({"decision": "allow", "scope": "once", "input": {}}));
    assert!(changed.body.to_string().contains("takes no other input"), "{}", changed.body);
    stage.answer(once());
    stage.model.told("call_2");
    let refused = stage.answer(json!({"decision": "deny", "message": "three is enough"}));
    stage.told("call_3", "three is enough");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "one\nthree\n");
    // Without words the turn goes on as well.
    let fetch = stage.answer(json!({"decision": "deny"}));
    assert_eq!(fetch["body"]["tool"], "WebFetch");
    stage.told("call_4", "(no reason given)");
    for ask in [written, edited, refused, fetch] {
        stage.confirmed(&ask);
    }
    assert!(run.wait_with_output().unwrap().status.success());
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn several_questions_take_several_picks_and_words() {
    let option = |label: &str| json!({"label": label, "description": "."});
    let questions = json!([
        {"question": "Which DB?", "header": "DB", "options": [option("SQLite"), option("PostgreSQL")]},
        {"question": "Which parts?", "header": "Parts", "multiple": true, "options": [option("auth"), option("log")]},
        {"question": "Which port?", "header": "Port", "options": [option("80"), option("443")]},
    ]);
    let stage = stage(vec![tool("call_q", "question", json!({"questions": questions}))]);
    let run = stage.run(&[]);
    let ask = stage.ask();
    let response = stage.hub.answer(&ask, json!({"response": "whatever"}));
    assert!(response.body.to_string().contains("and nothing else"), "{}", response.body);
    stage.answer(json!({"answers": [
        {"text": "MariaDB, exactly 10.6"}, {"selected": ["auth", "log"], "text": "metrics"}, {"skip": true}]}));
    for words in ["MariaDB, exactly 10.6", "auth, log, metrics"] {
        stage.told("call_q", words);
    }
    stage.confirmed(&ask);
    assert!(run.wait_with_output().unwrap().status.success());
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_refusal_that_interrupts_ends_the_turn_and_the_session_goes_on_later() {
    let stage = stage(vec![(OPENCODE.runs)("call_1", "touch never")]);
    let run = stage.run(&[]);
    let ask = stage.answer(json!({"decision": "deny", "interrupt": true}));
    run.wait_with_output().unwrap();
    stage.confirmed(&ask);
    assert_eq!(stage.model.requests().len(), 1);
    let session = stage.agent()["session"].as_str().unwrap().to_owned();
    let again = stage.command(&["--resume", &session], "go on").output().unwrap();
    assert!(again.status.success(), "{again:?}");
    stage.told("call_1", "rejected permission");
    assert!(!stage.has("never"));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_session_of_another_folder_does_not_go_on_here() {
    let stage = stage(vec![text("Done.")]);
    assert!(stage.run(&[]).wait_with_output().unwrap().status.success());
    let session = stage.agent()["session"].as_str().unwrap().to_owned();
    let asked = stage.model.requests().len();
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().to_str().unwrap();
    let again = stage.command(&["--resume", &session, "--cwd", folder], "go on").output().unwrap();
    let said = format!("{again:?}");
    assert!(!again.status.success() && said.contains("no such session in this folder"), "{said}");
    assert_eq!(stage.model.requests().len(), asked);
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_run_in_the_background_takes_further_prompts_and_what_it_kept_open_is_refused() {
    let stage = stage(vec![
        (OPENCODE.runs)("call_1", "touch first"),
        text("One."),
        (OPENCODE.runs)("call_2", "touch never"),
        (OPENCODE.runs)("call_3", "touch third"),
    ]);
    let started = stage.command(&["--detach"], "do it").output().unwrap();
    assert!(started.status.success(), "{started:?}");
    stage.answer(once());
    stage.model.told("call_1");
    eventually("the turn to end", || (stage.agent()["state"] == "idle").then_some(()));
    stage.steer("prompt", json!({"text": "now the second"}));
    let second = stage.ask();
    stage.steer("interrupt", json!({}));
    stage.once(&second, "the ask to end", |ask| ask["state"] == "withdrawn");
    eventually("the turn to end", || (stage.agent()["state"] == "idle").then_some(()));
    stage.steer("prompt", json!({"text": "now the third"}));
    let third = stage.answer(once());
    assert_eq!(third["display"]["text"], "touch third");
    stage.model.told("call_3");
    assert!(stage.has("first") && !stage.has("never") && stage.has("third"));
    stage.steer("stop", json!({}));
    eventually("the run to end", || (stage.agent()["state"] == "ended").then_some(()));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_command_outside_of_the_folder_is_asked_for_once_and_its_folder_is_shown() {
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().canonicalize().unwrap();
    let input = json!({"command": "touch there", "description": "x", "workdir": folder});
    let stage = stage(vec![
        tool("call_1", "bash", input),
        tool("call_2", "read", json!({"filePath": "/etc/hostname"})),
    ]);
    let run = stage.run(&[]);
    let ask = stage.answer(once());
    assert_eq!(
        (&ask["body"]["tool"], &ask["body"]["input"]["command"]),
        (&json!("Bash"), &json!("touch there"))
    );
    assert_eq!(ask["body"]["input"]["workdir"], json!(folder));
    assert!(ask["display"].to_string().contains(folder.to_str().unwrap()), "{ask}");
    stage.model.told("call_1");
    assert!(folder.join("there").exists());
    stage.confirmed(&ask);
    let read = stage.answer(json!({"decision": "deny"}));
    assert_eq!(
        (&read["body"]["tool"], &read["body"]["input"]),
        (&json!("Read"), &json!({"file_path": "/etc/hostname"}))
    );
    assert!(run.wait_with_output().unwrap().status.success());
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_program_with_the_password_that_answers_ends_the_run() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stage = stage(vec![
        (OPENCODE.runs)("call_1", "printenv OPENCODE_SERVER_PASSWORD > password"),
        (OPENCODE.runs)("call_2", "sleep 60"),
    ]);
    let mut command = stage.command(&[], "do it");
    let run = command.args(["--", "--port", &port.to_string()]).spawn().unwrap();
    stage.answer(once());
    stage.model.told("call_1");
    // A program that OpenCode starts gets its password, and so could answer for a person.
    let password = std::fs::read_to_string(stage.work.path().join("password")).unwrap();
    let ask = stage.ask();
    assert_eq!(ask["display"]["text"], "sleep 60");
    let listed = call(port, password.trim(), "GET", "/permission", "");
    let listed: Value = serde_json::from_str(listed.split_once("\r\n\r\n").unwrap().1).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let taken =
        call(port, password.trim(), "POST", &format!("/permission/{id}/reply"), r#"{"reply":"once"}"#);
    assert!(taken.ends_with("true"), "{taken}");
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let said = printed(&output) + &complained(&output);
    assert!(said.contains("Somebody else answered a request of OpenCode"), "{said}");
    let ended = stage.once(&ask, "the ask to end", |ask| ask["state"] != "open");
    assert_eq!(ended["state"], "withdrawn", "{ended}");
    assert!(ended["note"].as_str().unwrap().contains("nothing shows that it was allowed"), "{ended}");
    let alarms = stage.hub.get("/api/alarms", &stage.hub.operator()).body;
    assert_eq!(alarms["asks"][0]["id"], ask["id"], "{alarms}");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn what_is_refused_because_something_else_was_ends_as_cancelled_by_the_agent() {
    let calls = vec![(OPENCODE.runs)("call_1", "touch one"), (OPENCODE.runs)("call_2", "touch two")];
    let stage = Stage::new(&OPENCODE, Model::scripted(vec![calls]));
    let run = stage.run(&[]);
    let asks = eventually("both requests", || Some(stage.open_asks()).filter(|asks| asks.len() == 2));
    assert_eq!(stage.hub.answer(&asks[0], json!({"decision": "deny", "message": "not now"})).status, 200);
    let other = stage.once(&asks[1], "the other to end", |ask| ask["state"] != "open");
    assert_eq!((&other["state"], &other["note"]), (&json!("withdrawn"), &json!("cancelled by the agent")));
    assert_eq!(stage.hub.answer(&asks[1], once()).status, 409);
    stage.confirmed(&asks[0]);
    run.wait_with_output().unwrap();
    assert!(!stage.has("one") && !stage.has("two"));
}

/// A call of OpenCode's server, and all that it replies.
fn call(port: u16, password: &str, method: &str, path: &str, body: &str) -> String {
    let basic = data_encoding::BASE64.encode(format!("opencode:{password}").as_bytes());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Basic {basic}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
