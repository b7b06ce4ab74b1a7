//! The terminal and the hub at once, the hub first: each story ends with what the model was told.

use super::stage::Stage;
use super::{DIALOG, sqlite, which_database};
use aye_testkit::model::{Model, text, tool};
use serde_json::{Value, json};
use std::fs;

fn touch(id: &str, file: &str) -> Value {
    tool(id, "Bash", json!({"command": format!("touch {file}"), "description": "x"}))
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_answer_from_elsewhere_reaches_the_model_and_closes_the_terminals_dialog() {
    let model = Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]);
    let stage = Stage::new(model);
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    assert_eq!(
        (&ask["kind"], &ask["key"], &ask["tool_use_id"]),
        (&json!("question"), &json!("toolu_q"), &json!("toolu_q"))
    );
    let agent = stage.agent_is("waiting");
    assert_eq!(
        (&agent["kind"], &agent["reach"], &agent["title"]),
        (&json!("claude"), &json!("hooked"), &json!("do it"))
    );
    stage.sees(DIALOG);
    stage.hub.answer_next(sqlite());
    let told = stage.model.told("toolu_q");
    assert!(told.contains("\"Which DB?\"=\"SQLite\""), "{told}");
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    stage.sees("I am done.");
    stage.agent_is("idle");
    stage.no_hook_waits();
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_is_denied_with_a_message_from_elsewhere() {
    let stage = Stage::new(Model::scripted(vec![vec![touch("toolu_b", "made")]]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.answer_next(json!({"decision": "deny", "message": "not on a friday"}));
    assert_eq!(ask["display"]["text"], "touch made");
    assert!(stage.model.told("toolu_b").contains("not on a friday"));
    assert_eq!(stage.model.result_of("toolu_b")["is_error"], true);
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    assert!(!stage.work().join("made").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_is_allowed_edited() {
    let stage = Stage::new(Model::scripted(vec![vec![touch("toolu_b", "wrong")]]));
    stage.aye_claude(&["do it"]);
    let edited = json!({"command": "touch right", "description": "x"});
    let ask = stage.hub.answer_next(json!({"decision": "allow", "scope": "once", "input": edited}));
    stage.model.result_of("toolu_b");
    assert!(stage.work().join("right").exists() && !stage.work().join("wrong").exists());
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_for_the_session_is_kept_by_the_agent_as_it_suggested() {
    let write = |id: &str, file: &str| tool(id, "Write", json!({"file_path": file, "content": "x\n"}));
    let stage = Stage::new(Model::scripted(vec![
        vec![write("toolu_1", "one.txt")],
        vec![write("toolu_2", "two.txt")],
    ]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    let offered = ask["body"]["scopes"].as_array().unwrap();
    let session = offered.iter().find(|offer| offer["scope"] == "session").expect("a rule for the session");
    assert_eq!(
        (&session["kept_by"], &session["rule"]),
        (&json!("agent"), &json!("switch to the mode acceptEdits for this session"))
    );
    stage.hub.answer_next(json!({"decision": "allow", "scope": "session"}));
    stage.model.result_of("toolu_2");
    assert!(stage.work().join("one.txt").exists() && stage.work().join("two.txt").exists());
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    assert_eq!(stage.asks().len(), 1);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_rule_decides_without_anybody_and_what_it_decided_is_confirmed() {
    let config = "[[policy.rules]]\ntool = \"Bash\"\ncommand = \"touch made\"\naction = \"allow\"\n\
        [[policy.rules]]\ntool = \"Bash\"\ncommand = \"touch *\"\naction = \"deny\"\nmessage = \"only made\"\n";
    let model = Model::scripted(vec![vec![touch("toolu_1", "made")], vec![touch("toolu_2", "other")]]);
    let stage = Stage::with_config(model, config);
    stage.aye_claude(&["do it"]);
    assert!(stage.model.told("toolu_2").contains("only made"));
    assert!(stage.work().join("made").exists() && !stage.work().join("other").exists());
    for ask in stage.asks() {
        assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    }
    assert_eq!(stage.asks().len(), 2);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_plan_is_refused_with_feedback_and_then_approved() {
    let leave_plan_mode = |id: &str| json!({"do": "message", "blocks": [text("ready"), tool(id, "ExitPlanMode", json!({}))], "pause": true});
    let model = Model::playing(json!({"steps": [leave_plan_mode("toolu_1"), leave_plan_mode("toolu_2")]}));
    let stage = Stage::new(model);
    stage.aye_claude(&["--permission-mode", "plan", "plan it"]);
    let path = &crate::support::plan_file(&stage.model);
    fs::create_dir_all(stage.config_dir().join("plans")).unwrap();
    fs::write(path, "# The plan\n\n1. everything\n").unwrap();
    stage.model.release();

    let first = stage.hub.answer_next(json!({"decision": "deny", "message": "smaller steps"}));
    assert_eq!(first["body"]["plan"], "# The plan\n\n1. everything\n");
    assert!(stage.model.told("toolu_1").contains("smaller steps"));
    fs::write(path, "# The plan\n\n1. less\n").unwrap();
    stage.model.release();
    let second = stage.hub.answer_next(json!({"decision": "allow"}));
    assert_eq!(second["body"]["plan"], "# The plan\n\n1. less\n");
    let told = stage.model.told("toolu_2");
    assert!(told.contains("approved your plan"), "{told}");
    for ask in [first, second] {
        assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    }
}
