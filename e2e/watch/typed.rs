//! Every form of question, answered from afar.

use super::stage::Stage;
use super::{asks, picked, question, which_database};
use serde_json::{Value, json};

const STRANGE: [&str; 3] = ["a; b;", "\"quoted\" 'it' $HOME", "-x größer 日本語 😀"];

#[track_caller]
fn told(stage: &Stage, id: &str, words: &[&str]) {
    let told = stage.model.told(id);
    for word in words {
        assert!(told.contains(word), "{word} in {told}");
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn one_question_is_answered_by_an_option_and_by_free_text() {
    let stage = Stage::asking(vec![which_database("toolu_1"), which_database("toolu_2")]);
    stage.confirmed(picked("SQLite"));
    told(&stage, "toolu_1", &["\"Which DB?\"=\"SQLite\""]);
    stage.confirmed(json!({"answers": [{"text": "neither; use \"files\" for $5, -ok, größer 日本 😀;"}]}));
    told(&stage, "toolu_2", &["neither; use \"files\" for $5, -ok, größer 日本 😀;"]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn the_command_that_answers_waits_for_the_proof() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let id = stage.ask()["id"].as_str().unwrap().to_owned();
    let said = stage.hub.aye(&["answer", &id, "SQLite"]);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("Confirmed"), "{said}");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn several_questions_are_answered_together_and_reviewed() {
    let questions = [
        question("One?", false, &["x", "y"]),
        question("Many?", true, &["p, q", "r", "s"]),
        question("Own?", false, &["x", "y"]),
        question("None?", false, &["x", "y"]),
    ];
    let stage = Stage::asking(vec![asks("toolu_1", &questions)]);
    stage.confirmed(json!({"answers": [
        {"selected": ["y"]}, {"selected": ["s", "p, q"]}, {"text": "my own"}, {"skip": true}]}));
    let words = ["\"One?\"=\"y\"", "p, q", "s", "\"Own?\"=\"my own\"", "(skipped by the user)"];
    told(&stage, "toolu_1", &words);
    assert!(!stage.model.told("toolu_1").contains("r\""));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn several_options_are_picked_with_and_without_free_text() {
    let many = || [question("Features?", true, &["Dark mode", "Analytics", "i18n"])];
    let stage =
        Stage::asking(vec![asks("toolu_1", &many()), asks("toolu_2", &many()), asks("toolu_3", &many())]);
    stage.confirmed(json!({"answers": [{"selected": ["i18n", "Dark mode"]}]}));
    told(&stage, "toolu_1", &["\"Features?\"=\"Dark mode, i18n\""]);
    stage.confirmed(json!({"answers": [{"selected": ["Analytics"], "text": "Offline; mode, -x $1 ü日😀;"}]}));
    told(&stage, "toolu_2", &["Analytics", "Offline; mode, -x $1 ü日😀;"]);
    stage.confirmed(json!({"answers": [{"text": "none of these"}]}));
    told(&stage, "toolu_3", &["\"Features?\"=\"none of these\""]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn strange_labels_are_picked_as_they_are() {
    let stage = Stage::asking(vec![
        asks("toolu_1", &[question("Which of `these`, **exactly**; \"$x\"?", false, &STRANGE)]),
        asks("toolu_2", &[question("-Several?", true, &STRANGE), question("1. x", false, &STRANGE)]),
    ]);
    stage.confirmed(picked(STRANGE[2]));
    told(&stage, "toolu_1", &[STRANGE[2]]);
    stage.confirmed(json!({"answers": [{"selected": [STRANGE[0], STRANGE[1]]}, {"selected": [STRANGE[0]]}]}));
    // The agent itself escapes quotes where several are picked.
    told(&stage, "toolu_2", &[STRANGE[0], "quoted", "'it' $HOME"]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_option_with_a_preview_is_chosen_with_notes_and_without() {
    // Older versions draw a label over several lines in another way, which gets no keys.
    let long = match crate::support::is_older_claude() {
        true => "A list with a label",
        false => "A list with a label that takes more than one line of the screen",
    };
    let mut layout = question("Layout?", false, &["Grid", long]);
    layout["options"][0]["preview"] = json!("+--+--+\n|  |  |\n+--+--+");
    layout["options"][1]["preview"] = json!("- a\n- b");
    let both = [layout.clone(), question("Colours?", false, &["few", "many"])];
    let stage = Stage::asking(vec![asks("toolu_1", &[layout]), asks("toolu_2", &both)]);
    stage.confirmed(json!({"answers": [{"selected": [long], "notes": "keep it; subtle"}]}));
    told(&stage, "toolu_1", &["A list with a label", "keep it; subtle", "- a"]);
    stage.confirmed(json!({"answers": [{"selected": ["Grid"]}, {"selected": ["many"]}]}));
    told(&stage, "toolu_2", &["\"Layout?\"=\"Grid\"", "\"Colours?\"=\"many\"", "+--+--+"]);
}

fn with_previews(text: &str) -> Value {
    let mut layout = question(text, false, &["Grid", "List"]);
    layout["options"][0]["preview"] = json!("+--+--+\n|  |  |\n+--+--+");
    layout
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn each_question_takes_what_its_own_page_takes() {
    let plain = [question("Colours?", false, &["few", "many"]), question("Extras?", true, &["x", "y"])];
    let [first, last] = plain.clone();
    let asked = [
        asks("toolu_1", &[first, with_previews("Layout?"), last]),
        asks("toolu_2", &[with_previews("Layout?"), with_previews("Menu?")]),
    ];
    let stage = Stage::asking(asked.to_vec());
    let ask = stage.ask();
    let (plain, noted) = (
        json!({"skip": true, "text": true, "notes": false}),
        json!({"skip": false, "text": false, "notes": true}),
    );
    assert_eq!(ask["can"]["questions"], json!([plain, noted, plain]), "{ask}");
    let shown = String::from_utf8(stage.hub.aye(&["show", ask["id"].as_str().unwrap()]).stdout).unwrap();
    assert!(shown.contains("one of these; cannot be skipped alone"), "{shown}");
    let [few, grid] = ["few", "Grid"].map(|label| json!({"selected": [label]}));
    for (answers, field) in [
        (json!([few, {"text": "own"}, {"skip": true}]), "answers[1].text"),
        (json!([few, {"skip": true}, {"skip": true}]), "answers[1].skip"),
        (json!([{"selected": ["few"], "notes": "n"}, grid, {"skip": true}]), "answers[0].notes"),
    ] {
        let refused = stage.hub.answer(&ask, json!({ "answers": answers }));
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (422, &json!(format!("answer.{field}"))),
            "{}",
            refused.body
        );
        assert!(
            refused.body["error"].as_str().unwrap().contains("terminal does not take"),
            "{}",
            refused.body
        );
    }
    stage.confirmed(json!({"answers": [
        {"text": "just one"}, {"selected": ["Grid"], "notes": "keep it; subtle"}, {"skip": true}]}));
    let words = ["\"Colours?\"=\"just one\"", "Grid", "keep it; subtle", "(skipped by the user)"];
    told(&stage, "toolu_1", &words);
    // Where none of them can be skipped alone, all of them still can.
    let both = stage.ask();
    assert_eq!(both["can"]["questions"], json!([noted, noted]), "{both}");
    stage.confirmed(json!({"skip": true}));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_question_with_previews_that_is_alone_is_skipped() {
    let stage = Stage::asking(vec![asks("toolu_1", &[with_previews("Layout?")])]);
    stage.confirmed(json!({"answers": [{"skip": true}]}));
    stage.sees("eclined to answer");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_question_is_declined() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    stage.confirmed(json!({"skip": true}));
    stage.sees("eclined to answer");
    stage.press(&["go on", "Enter"]);
    assert_eq!(stage.model.result_of("toolu_1")["is_error"], true);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn text_over_several_lines_is_typed_as_it_is() {
    let many = question("Features?", true, &["Dark mode", "i18n"]);
    let stage = Stage::asking(vec![which_database("toolu_1"), asks("toolu_2", &[many])]);
    stage.confirmed(json!({"answers": [{"text": "two; lines;\n\nand $3;"}]}));
    told(&stage, "toolu_1", &["two; lines;\n\nand $3;"]);
    stage.confirmed(json!({"answers": [{"selected": ["i18n"], "text": "and\nmore"}]}));
    told(&stage, "toolu_2", &["i18n", "and\nmore"]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_answer_that_does_not_get_there_is_asked_again_under_a_key_that_names_the_first() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let first = stage.answer(json!({"answers": [{"text": "a\u{7}bell"}]}));
    let settled = stage.settled(&first);
    assert_eq!(settled["receipt"], "undelivered", "{settled}");
    assert!(settled["note"].as_str().unwrap().contains("control characters"), "{settled}");
    let again = stage.ask();
    let named = again["key"].as_str().unwrap().contains(first["id"].as_str().unwrap());
    assert!(named && again["body"] == first["body"], "{again}");
    stage.confirmed(picked("SQLite"));
    told(&stage, "toolu_1", &["SQLite"]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_note_that_the_terminal_does_not_take_is_refused_and_the_question_stays() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    let refused = stage.hub.answer(&ask, json!({"answers": [{"selected": ["SQLite"], "notes": "now"}]}));
    assert_eq!(refused.status, 422);
    assert!(refused.body["error"].as_str().unwrap().contains("terminal does not take"), "{}", refused.body);
    assert_eq!(stage.hub.ask(&ask)["state"], "open");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn programs_that_know_only_agents_and_tool_calls_answer_watched_sessions_too() {
    let many = question("Features?", true, &["Dark mode", "i18n"]);
    let stage = Stage::asking(vec![asks("toolu_1", &[question("One?", false, &["x", "y"]), many])]);
    let ask = stage.ask();
    let agent = stage.agents().into_iter().find(|agent| agent["id"] == ask["agent"]).unwrap();
    assert_eq!(agent["reach"], "watched");
    let session = agent["session"].as_str().unwrap();
    let pending =
        stage.hub.get(&format!("/api/agents/{session}/pending-questions"), &stage.hub.operator()).body;
    let (first, operator) = (&pending["questions"][0], stage.hub.operator());
    assert_eq!((&first["toolId"], &first["sessionId"]), (&json!("toolu_1"), &json!(session)));
    assert_eq!(first["questions"][1]["multiSelect"], true);
    let answer: Value =
        json!({"tool_call_id": "toolu_1", "answers": [{"text": "own"}, ["Dark mode", "i18n"]]});
    let done = stage.hub.post(&format!("/api/agents/{session}/answer-question"), &operator, answer);
    assert_eq!(done.body, json!({"success": true}));
    told(&stage, "toolu_1", &["\"One?\"=\"own\"", "\"Features?\"=\"Dark mode, i18n\""]);
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
}
