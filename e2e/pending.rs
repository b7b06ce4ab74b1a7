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
    let expected =
        json!([{"tool_use_id": "toolu_1", "session": "s", "cwd": "/src/web", "questions": questions()}]);
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
