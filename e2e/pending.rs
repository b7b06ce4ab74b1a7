//! `aye pending`: what transcripts leave open, with no hub anywhere.

use crate::support::{aye, code, complained, json_of, printed};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn transcript(&self, name: &str, lines: &[Value]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, text).unwrap();
        path
    }

    fn pending(&self, paths: &[&Path], flags: &[&str]) -> Output {
        let mut command = aye(&self.path("home"));
        command.arg("pending").args(flags).args(paths).env("CLAUDE_CONFIG_DIR", self.dir.path());
        command.output().unwrap()
    }
}

fn questions() -> Value {
    json!([{"question": "Which \u{1b}[31mDB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}]}])
}

fn says(words: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": words}, "sessionId": "s", "isSidechain": false})
}

fn asks(session: &str, id: &str) -> Value {
    json!({"message": {"content": [{"type": "tool_use", "id": id, "name": "AskUserQuestion", "input": {"questions": questions()}}]},
        "type": "assistant", "sessionId": session, "cwd": "/src/web", "isSidechain": false})
}

#[test]
fn what_is_pending_is_printed_as_the_agent_asked_it() {
    let place = Place::new();
    let file = place.transcript("t/s.jsonl", &[says("go"), asks("s", "toolu_1")]);
    let expected = json!([{"kind": "question", "tool_use_id": "toolu_1", "session": "s", "cwd": "/src/web", "title": "go",
        "questions": questions()}]);
    for path in [file.as_path(), file.parent().unwrap(), place.dir.path()] {
        let output = place.pending(&[path], &["--json"]);
        assert_eq!((code(&output), json_of(&output)), (Some(0), expected.clone()));
    }
    let words = printed(&place.pending(&[&file], &[]));
    assert!(words.contains("SQLite") && words.contains("toolu_1") && !words.contains('\u{1b}'), "{words:?}");
}

#[test]
fn what_was_answered_or_passed_over_is_not() {
    let place = Place::new();
    let result = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]}});
    let answered = place.transcript("a.jsonl", &[says("go"), asks("s", "toolu_1"), result]);
    let passed = place.transcript("b.jsonl", &[says("go"), asks("s", "toolu_1"), says("never mind")]);
    let output = place.pending(&[&answered, &passed], &["--json"]);
    assert_eq!((code(&output), json_of(&output)), (Some(0), json!([])));
    assert_eq!(printed(&place.pending(&[&answered], &[])), "nothing is pending\n");
}

#[test]
fn without_a_path_the_live_sessions_are_looked_at_and_a_workspace_stands_for_its_transcripts() {
    let place = Place::new();
    let workspace = place.path("work");
    fs::create_dir_all(&workspace).unwrap();
    let workspace = workspace.canonicalize().unwrap();
    let folder: String = workspace
        .to_str()
        .unwrap()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    place.transcript(&format!("projects/{folder}/alive.jsonl"), &[asks("alive", "toolu_1")]);
    place.transcript(&format!("projects/{folder}/dead.jsonl"), &[asks("dead", "toolu_2")]);
    let session =
        json!({"pid": std::process::id(), "sessionId": "alive", "cwd": workspace, "kind": "interactive"});
    place.transcript("sessions/1.json", &[session]);
    let ids = |output: Output| {
        let found = json_of(&output);
        found.as_array().unwrap().iter().map(|ask| ask["session"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(place.pending(&[], &["--json"])), ["alive"]);
    assert_eq!(ids(place.pending(&[&workspace], &["--json"])), ["alive", "dead"]);
}

#[test]
fn what_is_not_there_is_an_error_that_says_so() {
    let place = Place::new();
    let output = place.pending(&[Path::new("/nowhere/at-all")], &["--json"]);
    assert_eq!(code(&output), Some(1));
    assert!(complained(&output).contains("/nowhere/at-all"), "{output:?}");
}

fn bash(id: &str) -> Value {
    json!({"message": {"content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("make {id}")}}]},
        "type": "assistant", "sessionId": "s", "cwd": "/src/web", "isSidechain": false})
}

#[test]
fn a_call_waits_only_where_its_session_says_so() {
    let place = Place::new();
    let session = |state: Value| {
        let mut file =
            json!({"pid": std::process::id(), "sessionId": "s", "cwd": "/src/web", "kind": "interactive"});
        file.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
        place.transcript("sessions/1.json", &[file]);
    };
    let waiting = |what: &str| session(json!({"status": "waiting", "waitingFor": what}));
    let states = |paths: &[&Path]| {
        let found = json_of(&place.pending(paths, &["--json"]));
        let each = found.as_array().unwrap().iter();
        each.map(|call| format!("{}: {}", call["tool_use_id"], call["state"])).collect::<Vec<_>>()
    };
    let [waits, perhaps] =
        ["waiting", "waiting or running"].map(|state| move |id: &str| format!("\"{id}\": \"{state}\""));
    let file = place.transcript("projects/-src-web/s.jsonl", &[says("go"), bash("one")]);
    // A session that has ended left it over.
    assert!(states(&[&file]).is_empty());
    session(json!({"status": "busy"}));
    assert!(states(&[]).is_empty());
    waiting("permission prompt");
    assert_eq!(states(&[]), [waits("one")]);
    assert_eq!(states(&[&file]), [waits("one")]);
    waiting("dialog open");
    assert_eq!(states(&[]), [perhaps("one")]);
    waiting("permission prompt");
    place.transcript("projects/-src-web/s/subagents/agent-1.jsonl", &[says("help"), bash("two")]);
    assert_eq!(states(&[]), [perhaps("one"), perhaps("two")]);
    let words = printed(&place.pending(&[], &[]));
    assert!(
        words.contains("make two") && words.contains("may be running, or wait for permission"),
        "{words}"
    );
}

#[test]
fn a_plan_is_pending_and_needs_no_session_that_says_so() {
    let place = Place::new();
    let plan = json!({"message": {"content": [{"type": "tool_use", "id": "toolu_p", "name": "ExitPlanMode", "input": {"plan": "# Tidy\n\n1. up"}}]},
        "type": "assistant", "sessionId": "s", "cwd": "/src/web", "isSidechain": false});
    let file = place.transcript("t/s.jsonl", &[says("go"), plan]);
    let found = json_of(&place.pending(&[&file], &["--json"]));
    let expected = json!([{"kind": "plan", "tool_use_id": "toolu_p", "session": "s", "cwd": "/src/web", "title": "go",
        "plan": "# Tidy\n\n1. up"}]);
    assert_eq!(found, expected);
    assert!(printed(&place.pending(&[&file], &[])).contains("approve a plan: # Tidy"));
}
