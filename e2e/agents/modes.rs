//! The person's own settings may name a mode that asks for nothing. A run for which nothing else was said asks all the same.

use super::{Agent, CODEX, COPILOT, GEMINI, KIMI, OPENCODE, QWEN, Stage};
use aye_testkit::model::Model;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the agent with settings by which it would ask for nothing, and expects it to ask.
fn asks_all_the_same(agent: &'static Agent, unsettle: impl Fn(&mut Command, &Path)) {
    let calls =
        ["one", "two"].map(|name| vec![(agent.runs)(&format!("call_{name}"), &format!("touch {name}"))]);
    let stage = Stage::new(agent, Model::scripted(calls.into()));
    let start = |arguments: &[&str]| {
        let mut command = stage.command(arguments, "do it");
        unsettle(&mut command, stage.work.path());
        command.stdin(Stdio::null()).spawn().unwrap()
    };
    let run = start(&[]);
    stage.ask();
    assert!(!stage.has("one"));
    let known = stage.agent();
    assert_eq!(known["asks"], "everything", "{known}");
    stage.answer(json!({"decision": "allow", "scope": "once"}));
    stage.model.told("call_one");
    assert!(stage.has("one"));
    stage.ask();
    assert!(!stage.has("two"));
    stage.answer(json!({"decision": "deny"}));
    run.wait_with_output().unwrap();
    assert!(!stage.has("two"));
}

/// Puts this before all else in a file in the agent's home.
fn prepend(work: &Path, file: &str, text: &str) {
    let file = work.join(file);
    let rest = std::fs::read_to_string(&file).unwrap_or_default();
    std::fs::write(file, format!("{text}{rest}")).unwrap();
}

fn write(work: &Path, file: &str, settings: &Value) {
    let file = work.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, settings.to_string()).unwrap();
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn codex_asks_although_its_settings_say_never() {
    let never = "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n";
    asks_all_the_same(&CODEX, |_, work| prepend(work, ".codex/config.toml", never));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn opencode_asks_although_its_settings_allow_everything() {
    asks_all_the_same(&OPENCODE, |_, _| {});
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn qwen_asks_although_its_settings_say_yolo() {
    let auth = json!({"auth": {"selectedType": "openai"}});
    let settings = json!({"security": auth, "tools": {"approvalMode": "yolo"}});
    asks_all_the_same(&QWEN, |_, work| write(work, ".qwen/settings.json", &settings));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn gemini_asks_although_its_settings_name_another_mode() {
    let settings = json!({"general": {"defaultApprovalMode": "auto_edit"}});
    asks_all_the_same(&GEMINI, |_, work| write(work, ".gemini/settings.json", &settings));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn kimi_asks_although_its_settings_say_yolo() {
    let yolo = "default_permission_mode = \"yolo\"\n";
    asks_all_the_same(&KIMI, |_, work| prepend(work, ".kimi-code/config.toml", yolo));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn copilot_asks_although_its_environment_allows_everything() {
    asks_all_the_same(&COPILOT, |command, _| {
        command.env("COPILOT_ALLOW_ALL", "true");
    });
}
