//! What no hook is called for, and hooks that are killed: whoever follows the session asks instead.

use super::stage::Stage;
use super::{DIALOG, sqlite, which_database};
use crate::support::is_older_claude;
use aye_testkit::model::{Model, text, tool};
use serde_json::json;

fn allow() -> serde_json::Value {
    json!({"decision": "allow", "scope": "once"})
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn in_the_mode_that_people_have_what_no_hook_is_called_for_is_asked_and_answered() {
    let run = json!({"command": "for i in 1 2; do touch made$i; done", "description": "x"});
    let stage = Stage::new(Model::scripted(vec![vec![tool("toolu_b", "Bash", run)]]));
    stage.aye_claude_as_it_comes(&["do it"]);
    // Older versions have no such mode, and call the hook.
    if !is_older_claude() {
        let dialog = stage.hub.open_ask();
        assert_eq!(dialog["can"]["answer"], false);
        let words = dialog["body"]["questions"][0]["question"].as_str().unwrap();
        assert!(words.contains("Auto mode can't check actions"), "{words}");
        let agent = stage.agent_is("waiting");
        assert_eq!((&agent["reach"], &agent["id"]), (&json!("hooked"), &dialog["agent"]));
        stage.press(&["Enter"]);
        assert_eq!(stage.ended(&dialog)["state"], "withdrawn");
    }
    let ask = stage.hub.open_ask();
    assert_eq!((&ask["kind"], &ask["tool_use_id"]), (&json!("permission"), &json!("toolu_b")));
    stage.hub.answer_next(allow());
    stage.model.result_of("toolu_b");
    assert!(stage.work().join("made2").exists());
    let is_confirmed = || (stage.hub.ask(&ask)["receipt"] == "confirmed").then_some(());
    crate::support::eventually("the transcript to prove it", is_confirmed);
    stage.agent_is("idle");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn the_ask_of_a_hook_that_is_killed_is_taken_back_and_asked_anew() {
    let model = Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]);
    let stage = Stage::new(model);
    stage.aye_claude(&["do it"]);
    let first = stage.hub.open_ask();
    stage.sees(DIALOG);
    stage.kill_the_hooks();
    assert_eq!(stage.ended(&first)["state"], "withdrawn");
    let again = stage.hub.open_ask();
    assert_eq!((&again["tool_use_id"], &again["body"]), (&first["tool_use_id"], &first["body"]));
    assert_ne!(again["key"], first["key"]);
    stage.hub.answer_next(sqlite());
    assert!(stage.model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_plan_without_a_file_is_asked_with_what_the_transcript_has() {
    let plan = vec![text("First this."), tool("toolu_p", "ExitPlanMode", json!({"plan": "1. everything"}))];
    let stage = Stage::new(Model::scripted(vec![plan]));
    stage.aye_claude(&["--permission-mode", "plan", "plan it"]);
    let ask = stage.hub.answer_next(json!({"decision": "allow"}));
    assert_eq!((&ask["kind"], &ask["body"]["plan"]), (&json!("plan"), &json!("1. everything")));
    let told = stage.model.told("toolu_p");
    assert!(told.contains("approved"), "{told}");
    assert!(is_older_claude() || !told.contains("edited"), "{told}");
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn nobody_follows_a_session_that_has_ended() {
    let stage = Stage::new(Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]));
    stage.aye_claude(&["do it"]);
    stage.hub.open_ask();
    assert_eq!(stage.followers().len(), 1);
    stage.kill_the_session();
    crate::support::eventually("the follower to end", || stage.followers().is_empty().then_some(()));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_known_late_has_its_title_and_its_tmux_session() {
    let mut stage =
        Stage::new(Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]));
    stage.hub.kill();
    stage.aye_claude(&["begin here"]);
    stage.sees(DIALOG);
    stage.hub.restart();
    stage.press(&["2"]);
    let agent = crate::support::eventually("the title", || {
        let list = stage.hub.get("/api/agents", &stage.hub.operator()).body;
        list["agents"].get(0).filter(|agent| agent["title"] == "begin here").cloned()
    });
    assert_eq!((&agent["reach"], &agent["tmux"]), (&json!("hooked"), &json!("0")));
    stage.type_line("/rename Databases");
    crate::support::eventually("the new title", || {
        let list = stage.hub.get("/api/agents", &stage.hub.operator()).body;
        (list["agents"][0]["title"] == "Databases").then_some(())
    });
}
