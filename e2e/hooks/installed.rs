//! Hooks that were installed for every session, and beside the ones of `aye claude`.

use super::stage::Stage;
use super::{sqlite, which_database};
use crate::support::{aye, complained, printed};
use aye_testkit::model::{Model, tool};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

fn question() -> Model {
    Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]])
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn installed_hooks_work_in_a_session_that_knows_nothing_of_us() {
    let stage = Stage::new(question());
    let settings = stage.config_dir().join("settings.json");
    fs::write(&settings, "{\n    \"env\": {\"X\": \"1\"}\n}\n").unwrap();
    let installed = stage.aye(&["hooks", "install"]);
    assert!(installed.status.success(), "{}", complained(&installed));
    assert!(printed(&stage.aye(&["hooks", "status"])).contains("installed, and calls this program"));

    stage.plain_claude(&["do it"]);
    let ask = stage.hub.answer_next(sqlite());
    assert_eq!(ask["key"], "toolu_q");
    assert!(stage.model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""));
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");

    assert!(stage.aye(&["hooks", "remove"]).status.success());
    // Claude Code writes into this file as well.
    let left: Value = serde_json::from_slice(&fs::read(&settings).unwrap()).unwrap();
    assert_eq!((&left["env"], left.get("hooks")), (&json!({"X": "1"}), None));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn hooks_that_are_there_twice_ask_once() {
    let stage = Stage::new(question());
    assert!(stage.aye(&["hooks", "install"]).status.success());
    assert!(stage.aye(&["hooks", "install", "--scope", "local"]).status.success());
    // Another program that speaks for the same hub: its line is not the same, so both are called.
    let project = stage.work().join(".claude/settings.json");
    let copy = stage.work().join("aye-copy");
    fs::copy(env!("CARGO_BIN_EXE_aye"), &copy).unwrap();
    let entry = |event: &str| {
        json!([{"matcher": "*", "hooks": [{"type": "command", "timeout": 100,
        "command": format!("exec '{}' hook", copy.display()), "x": event}]}])
    };
    let hooks: Value = ["PreToolUse", "PermissionRequest", "PostToolUse", "Stop"]
        .into_iter()
        .map(|event| (event.to_owned(), entry(event)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    fs::write(project, json!({ "hooks": hooks }).to_string()).unwrap();

    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.two_hooks_wait();
    stage.hub.answer_next(sqlite());
    assert!(stage.model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""));
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    assert_eq!(stage.asks().len(), 1);
    stage.no_hook_waits();
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn settings_of_the_persons_own_and_every_other_argument_still_count() {
    let stage = Stage::new(question());
    let own = stage.work().join("own.json");
    let hook = json!({"hooks": [{"type": "command", "command": format!("cat > {}/prompted", stage.work().display())}]});
    fs::write(&own, json!({"hooks": {"UserPromptSubmit": [hook]}}).to_string()).unwrap();
    stage.aye_claude(&["--settings", own.to_str().unwrap(), "do it"]);
    let ask = stage.hub.answer_next(sqlite());
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    let prompted: Value = serde_json::from_slice(&fs::read(stage.work().join("prompted")).unwrap()).unwrap();
    assert_eq!(prompted["prompt"], "do it");
}

/// A program that says who and how it is.
fn talking_program(stage: &Stage) -> PathBuf {
    let program = stage.work().join("talks");
    let script = "#!/bin/sh\nprintf '%s\\n' \"$$\" \"$(umask)\" \"token:$AYE_TOKEN\" \"$@\"\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn aye_claude_runs_the_persons_own_program_and_says_in_one_line_that_no_hub_is_there() {
    let mut stage = Stage::new(question());
    let program = talking_program(&stage);
    let run = |stage: &Stage| {
        let mut command = aye(&stage.hub.home);
        command.env("AYE_CLAUDE", &program).env("AYE_TOKEN", "aye_fake");
        command.args(["claude", "--help", "-p", "it's \"x\"", "--", "--settings", "--"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.wait_with_output().unwrap()
    };
    let usual = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap();
    let output = run(&stage);
    assert_eq!(complained(&output), "");
    let said = printed(&output);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[1..3], [printed(&usual).trim(), "token:"]);
    assert_eq!(lines[3], "--settings");
    assert_eq!(lines[5..], ["--help", "-p", "it's \"x\"", "--", "--settings", "--"]);

    stage.hub.stop();
    let output = run(&stage);
    let words = complained(&output);
    assert!(words.contains("requests stay in this terminal") && words.lines().count() == 1, "{words}");
    assert_eq!(printed(&output).lines().count(), lines.len());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_broken_settings_file_is_named_and_left_alone() {
    let stage = Stage::new(question());
    let settings = stage.config_dir().join("settings.json");
    fs::write(&settings, "{ oops").unwrap();
    for arguments in [["hooks", "install"], ["hooks", "remove"]] {
        let refused = stage.aye(&arguments);
        assert_eq!(refused.status.code(), Some(1));
        let words = complained(&refused);
        assert!(words.contains("settings.json is not JSON") && words.contains("left as it is"), "{words}");
    }
    assert_eq!(fs::read_to_string(&settings).unwrap(), "{ oops");
    assert!(printed(&stage.aye(&["hooks", "status"])).contains("cannot tell"));
}
