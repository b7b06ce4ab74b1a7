//! The real Claude Code, driven by `aye run`, with a scripted model behind it. Each story checks what the
//! model was told in the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

use aye_testkit::model::{Model, text, tool};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use support::{Hub, aye, eventually};

/// The program that the test script installed; without it these tests prove nothing, and say so.
fn claude() -> PathBuf {
    let named = std::env::var_os("AYE_TEST_CLAUDE").map(PathBuf::from);
    named.expect("AYE_TEST_CLAUDE must name the real program: run scripts/test, which installs it")
}

struct Story {
    hub: Hub,
    model: Model,
    work: tempfile::TempDir,
}

impl Story {
    fn new(steps: Vec<Vec<Value>>) -> Self {
        Self { hub: Hub::start(), model: Model::scripted(steps), work: tempfile::tempdir().unwrap() }
    }

    fn run(&self, arguments: &[&str]) -> Child {
        let mut command: Command = aye(&self.hub.home);
        command.args(["run"]).args(arguments).args(["do it"]);
        command.current_dir(self.work.path()).env("AYE_CLAUDE", claude());
        command.env("ANTHROPIC_BASE_URL", &self.model.url).env("ANTHROPIC_API_KEY", "sk-ant-fake");
        command.env("CLAUDE_CONFIG_DIR", self.work.path().join(".claude")).env("HOME", self.work.path());
        command
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("IS_SANDBOX", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The one ask that is open, once it is.
    fn ask(&self) -> Value {
        eventually("the agent's ask", || {
            let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
            list["asks"].get(0).cloned()
        })
    }

    fn answer(&self, answer: Value) -> Value {
        let ask = self.ask();
        let recorded = self.hub.answer(&ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
        ask
    }

    /// How the ask stands once its receipt is settled.
    fn settled(&self, ask: &Value) -> Value {
        eventually("the receipt", || {
            let ask = self.hub.ask(ask);
            (!matches!(ask["receipt"].as_str(), Some("pending" | "delivered"))).then_some(ask)
        })
    }
}

fn ended(run: Child) -> Output {
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn which_database() -> Value {
    json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}]}]})
}

#[test]
fn a_question_is_answered_and_the_model_reads_the_answer() {
    let story = Story::new(vec![vec![
        text("I have a question."),
        tool("toolu_q", "AskUserQuestion", which_database()),
    ]]);
    let run = story.run(&[]);
    let ask = story.answer(json!({"answers": [{"selected": ["SQLite"]}]}));
    assert_eq!((&ask["kind"], &ask["tool_use_id"]), (&json!("question"), &json!("toolu_q")));
    assert!(
        story.model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""),
        "{}",
        story.model.told("toolu_q")
    );
    assert_eq!(story.settled(&ask)["receipt"], "confirmed");
    let words = String::from_utf8(ended(run).stdout).unwrap();
    assert!(words.contains("I have a question.") && words.contains("I am done."), "{words}");
}

#[test]
fn several_questions_free_text_notes_and_a_skip_reach_the_model() {
    let questions = json!({"questions": [
        {"question": "One?", "header": "A", "multiSelect": false, "options": [{"label": "x", "description": "."}, {"label": "y", "description": "."}]},
        {"question": "Many?", "header": "B", "multiSelect": true, "options": [{"label": "a, b", "description": "."}, {"label": "c", "description": "."}]},
        {"question": "Own?", "header": "C", "multiSelect": false, "options": [{"label": "x", "description": "."}, {"label": "y", "description": "."}]},
        {"question": "None?", "header": "D", "multiSelect": false, "options": [{"label": "x", "description": "."}, {"label": "y", "description": "."}]}]});
    let story = Story::new(vec![vec![tool("toolu_q", "AskUserQuestion", questions)]]);
    let run = story.run(&[]);
    let ask = story.answer(json!({"answers": [
        {"selected": ["y"], "notes": "keep it subtle"}, {"selected": ["a, b", "c"]}, {"text": "größer \"x\""}, {"skip": true}]}));
    let told = story.model.told("toolu_q");
    for words in ["\"One?\"=\"y\"", "keep it subtle", "größer", "(skipped by the user)"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    assert_eq!(story.settled(&ask)["receipt"], "confirmed");
    ended(run);
}

#[test]
fn a_question_that_is_declined_is_a_refusal_that_says_so() {
    let story = Story::new(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]);
    let run = story.run(&[]);
    let ask = story.answer(json!({"skip": true, "message": "ask me tomorrow"}));
    assert!(story.model.told("toolu_q").contains("ask me tomorrow"));
    assert_eq!(story.model.result_of("toolu_q")["is_error"], true);
    assert_eq!(story.settled(&ask)["receipt"], "confirmed");
    ended(run);
}

#[test]
fn a_permission_is_allowed_edited_or_denied() {
    let write = |content: &str| json!({"file_path": "note.txt", "content": content});
    let story = Story::new(vec![
        vec![tool("toolu_1", "Bash", json!({"command": "touch made-once", "description": "x"}))],
        vec![tool("toolu_2", "Bash", json!({"command": "touch wrong", "description": "x"}))],
        vec![tool("toolu_3", "Write", write("hello\n"))],
    ]);
    let run = story.run(&[]);
    let first = story.answer(json!({"decision": "allow", "scope": "once"}));
    assert_eq!(first["body"]["display"], json!({"kind": "command", "text": "touch made-once"}));
    story.model.result_of("toolu_1");
    assert!(story.work.path().join("made-once").exists());

    let second = story.answer(json!({"decision": "allow", "scope": "once", "input": {"command": "touch edited", "description": "x"}}));
    story.model.result_of("toolu_2");
    assert!(story.work.path().join("edited").exists() && !story.work.path().join("wrong").exists());

    let third = story.answer(json!({"decision": "deny", "message": "not on a friday"}));
    assert_eq!(third["body"]["display"]["kind"], "diff");
    assert!(story.model.told("toolu_3").contains("not on a friday"));
    assert!(!story.work.path().join("note.txt").exists());
    for ask in [first, second, third] {
        assert_eq!(story.settled(&ask)["receipt"], "confirmed");
    }
    ended(run);
}

#[test]
fn a_plan_is_refused_with_feedback_and_then_approved_edited() {
    let story = Story::new(vec![
        vec![tool("toolu_1", "ExitPlanMode", json!({"plan": "1. everything"}))],
        vec![tool("toolu_2", "ExitPlanMode", json!({"plan": "1. less"}))],
    ]);
    let run = story.run(&["--mode", "plan"]);
    let first = story.answer(json!({"decision": "deny", "message": "smaller steps"}));
    assert!(story.model.told("toolu_1").contains("smaller steps"));
    let second = story.answer(json!({"decision": "allow", "plan": "1. the very least"}));
    assert!(story.model.told("toolu_2").contains("the very least"), "{}", story.model.told("toolu_2"));
    for ask in [first, second] {
        assert_eq!(story.settled(&ask)["receipt"], "confirmed");
    }
    ended(run);
}

#[test]
fn a_hub_that_is_killed_while_the_agent_waits_delivers_the_answer_after_its_restart() {
    let mut story = Story::new(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]);
    let run = story.run(&[]);
    let before = story.ask();
    story.hub.kill();
    story.hub.restart();
    let ask = story.answer(json!({"answers": [{"selected": ["SQLite"]}]}));
    assert_eq!(ask["id"], before["id"]);
    assert!(story.model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""));
    assert_eq!(story.settled(&ask)["receipt"], "confirmed");
    ended(run);
}

#[test]
fn a_killed_adapter_leaves_no_ask_behind() {
    let story = Story::new(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]);
    let mut run = story.run(&[]);
    let ask = story.ask();
    run.kill().unwrap();
    run.wait().unwrap();
    let ended =
        eventually("the ask to end", || Some(story.hub.ask(&ask)).filter(|ask| ask["state"] != "open"));
    assert_eq!((&ended["state"], &ended["note"]), (&json!("withdrawn"), &json!("the agent is gone")));
}
