//! The scripted agent behaves, where it shall, like the real one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use aye_testkit::agent::{answers, heard, scripted_agent};
use aye_testkit::scenario::{text, tool};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Agent {
    fn start(steps: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scenario = json!({"heard": "heard.jsonl", "steps": steps});
        std::fs::write(folder.path().join("scenario.json"), scenario.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_scripted-agent"));
        command.args(["-p", "--input-format", "stream-json"]).current_dir(&folder).env_remove("AYE_SCENARIO");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, output, folder }
    }

    fn tell(&mut self, line: Value) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn prompt(&mut self) {
        self.tell(json!({"type": "user", "message": {"role": "user", "content": "do it"}}));
    }

    /// Lines up to the first of this type.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended before {kind}");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["type"] == kind {
                return line;
            }
        }
    }

    fn end(&mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().unwrap().code()
    }
}

fn question() -> Value {
    tool(
        "toolu_q",
        "AskUserQuestion",
        json!({"questions": [{"question": "Go on?", "options": [{"label": "yes"}, {"label": "no"}]}]}),
    )
}

#[test]
fn a_question_waits_for_its_answer_and_the_transcript_shows_it() {
    let mut agent = Agent::start(json!([[text("Hello."), question()]]));
    agent.tell(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize"}}));
    assert_eq!(agent.until("control_response")["response"]["request_id"], "i");
    agent.prompt();
    assert_eq!(agent.until("system")["subtype"], "init");
    assert_eq!(agent.until("assistant")["message"]["content"][0]["text"], "Hello.");
    let request = agent.until("control_request");
    let mut input = request["request"]["input"].clone();
    input["answers"] = json!({"Go on?": "yes"});
    agent.tell(json!({"type": "control_response", "response": {"subtype": "success", "request_id": request["request_id"],
        "response": {"behavior": "allow", "updatedInput": input}}}));
    let told = agent.until("user");
    assert_eq!(told["tool_use_result"]["answers"], json!({"Go on?": "yes"}));
    assert_eq!(agent.until("result")["subtype"], "success");
    let file = agent.folder.path().join("heard.jsonl");
    assert_eq!(agent.end(), Some(0));
    assert_eq!(heard(&file)[0]["arguments"], json!(["-p", "--input-format", "stream-json"]));
    assert_eq!(answers(&file)[0].0, request["request_id"].as_str().unwrap());
}

#[test]
fn an_interrupt_takes_the_request_back_and_breaks_the_turn_off() {
    let mut agent = Agent::start(json!([[question()], {"do": "turn"}, [text("Again.")]]));
    agent.prompt();
    let request = agent.until("control_request");
    agent.tell(json!({"type": "control_request", "request_id": "x", "request": {"subtype": "interrupt"}}));
    assert_eq!(agent.until("control_cancel_request")["request_id"], request["request_id"]);
    assert_eq!(agent.until("result")["subtype"], "error_during_execution");
    agent.prompt();
    assert_eq!(agent.until("assistant")["message"]["content"][0]["text"], "Again.");
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn a_line_that_is_no_json_ends_it_as_it_ends_the_real_one() {
    let mut agent = Agent::start(json!([[question()]]));
    agent.input.as_mut().unwrap().write_all(b"{\"half\":\n").unwrap();
    assert_eq!(agent.end(), Some(1));
}

#[test]
fn requests_one_after_another_are_measured() {
    let bash = tool("toolu_m", "Bash", json!({"command": "true"}));
    let steps = json!([{"do": "measure", "requests": 3, "block": bash, "times": "times"}]);
    let mut agent = Agent::start(steps);
    agent.prompt();
    for _ in 0..3 {
        let request = agent.until("control_request");
        agent.tell(json!({"type": "control_response", "response": {"subtype": "success", "request_id": request["request_id"],
            "response": {"behavior": "allow", "updatedInput": request["request"]["input"]}}}));
    }
    agent.until("result");
    let times = std::fs::read_to_string(agent.folder.path().join("times")).unwrap();
    let times: Vec<u64> = times.lines().map(|line| line.parse().unwrap()).collect();
    assert!(times.len() == 3 && times.iter().all(|time| *time > 0), "{times:?}");
    agent.end();
}

#[test]
fn the_program_is_found_from_any_crate() {
    assert!(scripted_agent().is_file());
}
