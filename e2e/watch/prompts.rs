//! Permissions and plans of a session in tmux, answered by keys; and whatever else it waits for.

use super::stage::Stage;
use crate::support::is_older_claude;
use aye_testkit::model::{Model, text, tool};
use serde_json::{Value, json};
use std::fs;

pub fn bash(id: &str, command: &str) -> Vec<Value> {
    vec![tool(id, "Bash", json!({"command": command, "description": "as it says"}))]
}

pub fn in_mode(mode: &str, steps: Vec<Vec<Value>>) -> Stage {
    let mut stage = Stage::new(steps);
    stage.start_session(&["--permission-mode", mode]);
    stage.start_watch(&[]);
    stage
}

fn allow() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_prompt_is_raised_whole_and_allowed_by_keys() {
    let script = "for i in 1 2; do\n  touch made$i\ndone";
    let stage =
        in_mode("default", vec![bash("toolu_1", script), bash("toolu_2", "touch two && touch three")]);
    let ask = stage.ask();
    assert_eq!((&ask["kind"], &ask["tool_use_id"]), (&json!("permission"), &json!("toolu_1")));
    assert_eq!(ask["body"]["input"], json!({"command": script, "description": "as it says"}));
    let beyond = json!({"decision": "allow", "scope": "once", "input": {"command": "ls"}});
    assert_eq!(stage.hub.answer(&ask, beyond).status, 422);
    stage.confirmed(allow());
    stage.model.result_of("toolu_1");
    assert!(stage.work().join("made2").exists());
    stage.confirmed(allow());
    stage.model.result_of("toolu_2");
    assert!(stage.work().join("three").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_prompt_is_refused_with_words_over_several_lines() {
    let write = tool("toolu_1", "Write", json!({"file_path": "new.txt", "content": "one\ntwo\n"}));
    let stage = in_mode("default", vec![vec![write], bash("toolu_2", "touch made")]);
    stage.confirmed(json!({"decision": "deny", "message": "not there;\n\nin $HOME; \"please\";"}));
    let told = stage.model.told("toolu_1");
    assert!(told.contains("not there;\n\nin $HOME; \"please\";"), "{told}");
    assert!(!stage.work().join("new.txt").exists());
    // Without a reason the turn goes on all the same.
    stage.confirmed(json!({"decision": "deny"}));
    let told = stage.model.told("toolu_2");
    assert!(told.contains("(no reason given)") && !told.contains("The user refused"), "{told}");
    assert!(!stage.work().join("made").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_edit_and_a_read_are_allowed_by_keys() {
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let mut stage = Stage::new(vec![
        vec![tool("toolu_1", "Read", json!({"file_path": "/etc/hostname"}))],
        vec![tool("toolu_2", "Read", json!({"file_path": "a.txt"}))],
        vec![tool("toolu_3", "Edit", edit)],
    ]);
    fs::write(stage.work().join("a.txt"), "one\n").unwrap();
    stage.start_session(&["--permission-mode", "default"]);
    stage.start_watch(&[]);
    assert_eq!(stage.ask()["tool_use_id"], "toolu_1");
    stage.confirmed(allow());
    assert_eq!(stage.ask()["body"]["tool"], "Edit");
    stage.confirmed(allow());
    assert_eq!(fs::read_to_string(stage.work().join("a.txt")).unwrap(), "two\n");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn two_edits_of_one_file_are_told_apart_by_what_changes() {
    let edit = |id: &str, old: &str, new: &str| {
        tool(id, "Edit", json!({"file_path": "a.txt", "old_string": old, "new_string": new}))
    };
    let wide = format!("{} 12 -wide", "word ".repeat(40));
    let mut stage = Stage::new(vec![
        vec![tool("toolu_r", "Read", json!({"file_path": "a.txt"}))],
        vec![edit("toolu_1", "one", "one more"), edit("toolu_2", "two\n", &wide)],
        vec![tool("toolu_3", "Write", json!({"file_path": "a.txt", "content": "all\nnew\n"}))],
    ]);
    fs::write(stage.work().join("a.txt"), "one\ntwo\n\tthree\n").unwrap();
    stage.start_session(&["--permission-mode", "default"]);
    stage.start_watch(&[]);
    let next = |id: &str| {
        let is_next =
            || Some(stage.ask()).filter(|ask| ask["tool_use_id"] == id && ask["can"]["answer"] != false);
        crate::support::eventually(id, is_next)
    };
    next("toolu_1");
    stage.confirmed(json!({"decision": "deny", "message": "leave it"}));
    assert_eq!(next("toolu_2")["display"]["before"], true);
    stage.confirmed(allow());
    assert!(stage.model.told("toolu_1").contains("leave it"));
    assert_eq!(fs::read_to_string(stage.work().join("a.txt")).unwrap(), format!("one\n{wide}\tthree\n"));
    next("toolu_3");
    stage.confirmed(allow());
    assert_eq!(fs::read_to_string(stage.work().join("a.txt")).unwrap(), "all\nnew\n");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn in_the_mode_that_people_have_a_session_is_shown_as_waiting_and_its_prompt_is_answered() {
    let mut stage = Stage::new(vec![bash("toolu_1", "for i in 1 2; do touch made$i; done")]);
    stage.start_session(&[]);
    stage.start_watch(&[]);
    if !is_older_claude() {
        shows_its_own_dialog_first(&stage);
    }
    let ask = stage.ask();
    assert_eq!((&ask["kind"], &ask["tool_use_id"]), (&json!("permission"), &json!("toolu_1")));
    stage.confirmed(allow());
    stage.model.result_of("toolu_1");
    assert!(stage.work().join("made2").exists());
}

/// Which only its terminal can answer.
fn shows_its_own_dialog_first(stage: &Stage) {
    let dialog = stage.waits();
    assert_eq!(dialog["kind"], "question");
    let words = dialog["body"]["questions"][0]["question"].as_str().unwrap();
    assert!(words.contains("Auto mode can't check actions"), "{words}");
    let refused = stage.hub.answer(&dialog, json!({"response": "ok"}));
    assert_eq!(refused.status, 422);
    let why = refused.body["error"].as_str().unwrap();
    assert!(why.contains("main:0.0") && why.contains(stage.work().to_str().unwrap()), "{why}");
    stage.agent_is("waiting");
    stage.press(&["Enter"]);
    stage.until(&dialog, |ask| ask["state"] == "withdrawn");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_tool_allowed_at_the_keyboard_is_no_longer_asked_for_while_it_runs() {
    let wait = "touch begun; while [ ! -e stop ]; do sleep 0.1; done";
    let stage = in_mode("default", vec![bash("toolu_1", wait)]);
    let ask = stage.ask();
    stage.sees("Do you want to proceed?");
    stage.press(&["1"]);
    let ended = stage.until(&ask, |ask| ask["state"] != "open");
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &allow()));
    fs::write(stage.work().join("stop"), "").unwrap();
    stage.model.result_of("toolu_1");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_prompt_that_does_not_fit_the_screen_is_shown_and_not_answerable() {
    let long: Vec<_> = (0..70).map(|i| format!("echo {i} > f{i}")).collect();
    let stage = in_mode("default", vec![bash("toolu_1", &long.join("\n"))]);
    let ask = stage.waits();
    let refused = stage.hub.answer(&ask, json!({"response": "ok"}));
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(
        refused.body["error"].as_str().unwrap().contains("answer it in its terminal"),
        "{}",
        refused.body
    );
    stage.agent_is("waiting");
    // Once the whole of it is on the screen, it is asked.
    stage.tmux(&["resize-window", "-t", "main", "-x", "100", "-y", "120"]);
    stage.until(&ask, |ask| ask["state"] == "withdrawn");
    assert_eq!(stage.ask()["tool_use_id"], "toolu_1");
    stage.confirmed(allow());
    stage.model.result_of("toolu_1");
    assert!(stage.work().join("f69").exists());
}

/// A model that writes its plan where it is told to, and then shows it twice.
fn planning() -> Model {
    let leave = |id: &str| json!({"do": "message", "blocks": [text("ready"), tool(id, "ExitPlanMode", json!({}))], "pause": true});
    Model::playing(json!({"steps": [leave("toolu_1"), leave("toolu_2")]}))
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_plan_is_refused_with_feedback_and_then_approved_by_keys() {
    let mut stage = Stage::with_model(planning());
    stage.start_session(&["--permission-mode", "plan"]);
    stage.start_watch(&[]);
    let path = crate::support::plan_file(&stage.model);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "# The plan\n\n1. **everything**\n").unwrap();
    stage.model.release();
    let first = stage.ask();
    assert_eq!(
        (&first["kind"], &first["body"]["plan"]),
        (&json!("plan"), &json!("# The plan\n\n1. **everything**\n"))
    );
    stage.confirmed(json!({"decision": "deny", "message": "smaller\nsteps"}));
    assert!(stage.model.told("toolu_1").contains("smaller\nsteps"));
    fs::write(&path, "# The plan\n\n1. less\n").unwrap();
    stage.model.release();
    stage.until(&first, |_| stage.ask()["tool_use_id"] == "toolu_2");
    stage.confirmed(json!({"decision": "allow"}));
    let told = stage.model.told("toolu_2");
    assert!(told.contains("approved your plan") && told.contains("1. less"), "{told}");
    assert!(is_older_claude() || !told.contains("edited"), "{told}");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_plan_without_a_file_is_raised_with_what_the_transcript_has() {
    let plan = |id: &str, input: Value| vec![text("First this, then that."), tool(id, "ExitPlanMode", input)];
    let stage =
        in_mode("plan", vec![plan("toolu_1", json!({"plan": "1. everything"})), plan("toolu_2", json!({}))]);
    assert_eq!(stage.ask()["body"]["plan"], "1. everything");
    stage.confirmed(json!({"decision": "deny"}));
    stage.sees("plan mode on");
    stage.press(&["go on", "Enter"]);
    let ask = stage.ask();
    assert!(ask["body"]["plan"].as_str().unwrap().ends_with("First this, then that."), "{ask}");
    stage.confirmed(json!({"decision": "allow"}));
    assert!(stage.model.told("toolu_2").contains("approved"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_prompt_of_a_sub_agent_is_answered_too() {
    let agent = json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose", "run_in_background": false});
    let steps = vec![
        vec![tool("toolu_a", "Agent", agent)],
        bash("toolu_s", "touch below"),
        vec![text("It is done.")],
    ];
    let stage = in_mode("default", steps);
    let ask = stage.ask();
    assert_eq!((&ask["kind"], &ask["tool_use_id"]), (&json!("permission"), &json!("toolu_s")));
    stage.confirmed(allow());
    stage.model.result_of("toolu_s");
    assert!(stage.work().join("below").exists());
}

/// A session whose sub-agent wants to run a command.
fn with_a_sub_agent() -> Stage {
    let task = json!({"description": "d", "prompt": "touch it", "subagent_type": "general-purpose"});
    let model = Model::scripted(vec![vec![tool("toolu_a", "Agent", task)]])
        .with_sub_agents("touch it", vec![bash("toolu_s", "touch below")]);
    let mut stage = Stage::with_model(model);
    stage.start_session(&["--permission-mode", "default"]);
    stage.start_watch(&[]);
    stage
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_refusal_of_a_sub_agents_prompt_is_confirmed() {
    let stage = with_a_sub_agent();
    let ask = stage.ask();
    assert_eq!(ask["tool_use_id"], "toolu_s");
    stage.confirmed(json!({"decision": "deny"}));
    assert!(stage.model.result_of("toolu_s")["is_error"] == true && !stage.work().join("below").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_sub_agents_prompt_refused_in_the_terminal_is_a_refusal() {
    let stage = with_a_sub_agent();
    let ask = stage.ask();
    stage.sees("Do you want to proceed?");
    stage.press(&["Escape"]);
    let ended = stage.until(&ask, |ask| ask["state"] == "withdrawn");
    assert_eq!(ended["answer"], json!({"decision": "deny", "interrupt": false}), "{ended}");
    assert!(stage.model.result_of("toolu_s")["is_error"] == true && !stage.work().join("below").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_second_prompt_is_asked_while_what_was_allowed_before_still_runs() {
    let wait =
        json!({"command": "touch begun; while [ ! -e stop ]; do sleep 0.1; done", "description": "waits"});
    let agent = json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose", "run_in_background": false});
    let both = vec![tool("toolu_a", "Agent", agent), tool("toolu_w", "Bash", wait)];
    let stage = in_mode("default", vec![both, bash("toolu_s", "touch below"), vec![text("It is done.")]]);
    let seen = |stage: &Stage| stage.ask()["tool_use_id"].as_str().unwrap().to_owned();
    let first = seen(&stage);
    stage.answer(allow());
    let second = crate::support::eventually("the other ask", || Some(seen(&stage)).filter(|id| *id != first));
    stage.answer(allow());
    fs::write(stage.work().join("stop"), "").unwrap();
    stage.model.result_of("toolu_w");
    stage.model.result_of("toolu_s");
    assert!([first.as_str(), second.as_str()].contains(&"toolu_s"), "{first} {second}");
    assert!(stage.work().join("below").exists());
}
