//! The terminal first: the ask is taken back, with what was answered there.

use super::stage::Stage;
use super::{DIALOG, sqlite, which_database};
use aye_testkit::model::{Model, tool};
use serde_json::json;

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_answer_in_the_terminal_withdraws_the_ask_and_is_shown_with_it() {
    let stage = Stage::new(Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.sees(DIALOG);
    stage.press(&["2"]);
    let told = stage.model.told("toolu_q");
    assert!(told.contains("\"Which DB?\"=\"SQLite\""), "{told}");
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &sqlite()));
    assert_eq!(ended["note"], "answered in the agent's own terminal");
    assert_eq!(stage.hub.answer(&ask, sqlite()).status, 409);
    stage.no_hook_waits();
    assert_eq!(stage.asks().len(), 1);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn escape_in_the_terminal_withdraws_the_ask_as_declined() {
    let stage = Stage::new(Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.sees(DIALOG);
    stage.press(&["Escape"]);
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &json!({"skip": true})));
    stage.no_hook_waits();
    stage.agent_is("idle");
    stage.sees("eclined to answer");
    stage.type_line("go on then");
    assert!(stage.model.told("toolu_q").contains("doesn't want to proceed"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_tool_allowed_in_the_terminal_is_no_longer_asked_for_while_it_runs() {
    let run =
        json!({"command": "touch begun; while [ ! -e stop ]; do sleep 0.1; done", "description": "waits"});
    let stage = Stage::new(Model::scripted(vec![vec![tool("toolu_b", "Bash", run)]]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.sees("Do you want to proceed?");
    stage.says_that_it_waits();
    stage.press(&["1"]);
    let ended = stage.ended(&ask);
    assert_eq!(
        (&ended["state"], &ended["answer"]),
        (&json!("withdrawn"), &json!({"decision": "allow", "scope": "once"}))
    );
    std::fs::write(stage.work().join("stop"), "").unwrap();
    stage.model.result_of("toolu_b");
    stage.no_hook_waits();
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn words_beside_a_refusal_in_the_terminal_are_shown_with_it() {
    let touch = json!({"command": "touch made", "description": "x"});
    let stage = Stage::new(Model::scripted(vec![vec![tool("toolu_b", "Bash", touch)]]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.sees("Do you want to proceed?");
    stage.press(&["Up"]);
    crate::support::eventually("the last row to be highlighted", || {
        stage
            .screen()
            .lines()
            .any(|line| line.starts_with(" ❯ ") && line.trim_end().ends_with(". No"))
            .then_some(())
    });
    stage.press(&["Tab"]);
    stage.sees("No, and tell Claude");
    stage.type_line("use mkdir");
    assert!(stage.model.told("toolu_b").contains("use mkdir"));
    let ended = stage.ended(&ask);
    assert_eq!(ended["answer"], json!({"decision": "deny", "interrupt": false, "message": "use mkdir"}));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn when_nobody_answers_in_time_the_terminal_still_decides() {
    let model = Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]);
    let stage = Stage::with_config(model, "[policy]\ntimeout = { question = \"1s\" }\n");
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    assert_eq!(stage.ended(&ask)["state"], "expired");
    stage.no_hook_waits();
    stage.sees(DIALOG);
    stage.press(&["2"]);
    assert!(stage.model.told("toolu_q").contains("\"Which DB?\"=\"SQLite\""));
    assert_eq!(stage.settled(&ask)["receipt"], "superseded");
}
