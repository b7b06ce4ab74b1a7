//! A person at the keyboard, and everything else that may come between.

use super::stage::Stage;
use super::{asks, picked, question, which_database};
use serde_json::{Value, json};

/// Once the watcher has seen that the screen shows something else, which the ask then says.
fn cannot_be_answered(stage: &Stage, ask: &Value, answer: Value) {
    stage.until(ask, |ask| ask["can"]["answer"] == false);
    let refused = stage.hub.answer(ask, answer);
    assert_eq!(refused.status, 422);
    assert!(refused.body["error"].as_str().unwrap().contains("screen"), "{}", refused.body);
    assert_eq!(stage.hub.ask(ask)["state"], "open");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_answer_at_the_keyboard_withdraws_the_ask_and_is_shown_with_it() {
    let many = question("Features?", true, &["Dark mode", "i18n"]);
    let stage = Stage::asking(vec![asks("toolu_1", &[question("One?", false, &["x", "y"]), many])]);
    let ask = stage.ask();
    stage.sees("One?");
    stage.press(&["2"]);
    stage.sees("Features?");
    stage.press(&["1"]);
    stage.sees("[✔] Dark mode");
    stage.press(&["2"]);
    stage.sees("[✔] i18n");
    stage.press(&["Tab"]);
    stage.sees("Submit answers");
    stage.press(&["1"]);
    let ended = stage.until(&ask, |ask| ask["state"] != "open");
    assert_eq!(
        (&ended["state"], &ended["note"]),
        (&json!("withdrawn"), &json!("answered in the agent's own terminal"))
    );
    let answer = json!({"answers": [{"selected": ["y"]}, {"selected": ["Dark mode", "i18n"]}]});
    assert_eq!(ended["answer"], answer);
    assert_eq!(stage.hub.answer(&ask, answer).status, 409);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn escape_at_the_keyboard_withdraws_the_ask_as_declined() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    stage.sees("Which DB?");
    stage.press(&["Escape"]);
    let ended = stage.until(&ask, |ask| ask["state"] != "open");
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &json!({"skip": true})));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn somebody_in_the_middle_of_answering_is_not_disturbed() {
    let many = question("Features?", true, &["Dark mode", "i18n"]);
    let stage = Stage::asking(vec![asks("toolu_1", &[many])]);
    let ask = stage.ask();
    stage.sees("Features?");
    stage.press(&["2"]);
    stage.sees("[✔] i18n");
    cannot_be_answered(&stage, &ask, json!({"answers": [{"selected": ["Dark mode"]}]}));
    assert!(stage.screen().contains("[ ] Dark mode"), "{}", stage.screen());
    stage.press(&["Tab"]);
    stage.sees("Submit answers");
    stage.press(&["1"]);
    assert!(stage.model.told("toolu_1").contains("\"Features?\"=\"i18n\""));
    let ended = stage.until(&ask, |ask| ask["state"] != "open");
    assert_eq!(ended["answer"], json!({"answers": [{"selected": ["i18n"]}]}));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn both_answer_in_the_same_moment_and_the_receipt_tells_the_truth() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    stage.sees("Which DB?");
    stage.press(&["1"]);
    let recorded = stage.hub.answer(&ask, picked("SQLite"));
    let told = stage.model.told("toolu_1");
    let ended = match recorded.status {
        200 => stage.settled(&ask),
        _ => stage.until(&ask, |ask| ask["state"] == "withdrawn"),
    };
    // Whoever was first, nobody is told that the answer arrived when another did.
    match ended["receipt"].as_str() {
        Some("confirmed") => assert!(told.contains("SQLite"), "{told}"),
        None | Some("superseded" | "disputed") => assert!(told.contains("PostgreSQL"), "{told}"),
        other => panic!("{other:?}: {ended}"),
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_screen_that_does_not_show_the_question_gets_no_keys() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    stage.sees("Which DB?");
    // Too small a pane for the question to be seen.
    stage.tmux(&["split-window", "-t", "main", "sleep", "1000"]);
    stage.tmux(&["swap-pane", "-s", "main:0.1", "-t", "main:0.0"]);
    stage.tmux(&["resize-pane", "-t", "main:0.1", "-y", "5"]);
    cannot_be_answered(&stage, &ask, picked("SQLite"));
    stage.tmux(&["kill-pane", "-t", "main:0.0"]);
    stage.sees("Which DB?");
    stage.press(&["1"]);
    assert!(stage.model.told("toolu_1").contains("PostgreSQL"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn another_dialog_on_the_screen_gets_no_keys() {
    let both = [question("One?", false, &["x", "y"]), question("Two?", false, &["x", "y"])];
    let stage = Stage::asking(vec![asks("toolu_1", &both)]);
    let ask = stage.ask();
    stage.sees("One?");
    stage.press(&["Tab"]);
    stage.sees("Two?");
    stage.press(&["Tab"]);
    // A dialog in which our first key would submit nothing at all as the answer.
    stage.sees("⚠");
    cannot_be_answered(&stage, &ask, json!({"answers": [{"selected": ["x"]}, {"selected": ["y"]}]}));
    assert!(stage.screen().contains("⚠"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_pane_in_copy_mode_leaves_it_and_takes_the_answer() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    stage.ask();
    stage.sees("Which DB?");
    stage.tmux(&["copy-mode", "-t", "main"]);
    stage.confirmed(picked("SQLite"));
    assert!(stage.model.told("toolu_1").contains("\"Which DB?\"=\"SQLite\""));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_pane_that_is_gone_takes_its_asks_along() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    stage.tmux(&["kill-server"]);
    let recorded = stage.hub.answer(&ask, picked("SQLite"));
    let ended = stage.until(&ask, |ask| match recorded.status {
        200 => ask["receipt"] == "undelivered",
        _ => ask["state"] == "withdrawn",
    });
    assert_ne!(ended["receipt"], "confirmed");
    stage.until(&ask, |_| stage.agents().iter().all(|agent| agent["state"] == "ended"));
}
