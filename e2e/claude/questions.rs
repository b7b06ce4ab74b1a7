//! Questions, in every form in which they can be answered.

use super::{Story, ended, option, said, which_database};
use aye_testkit::model::{text, tool};
use serde_json::{Value, json};

fn asking(questions: Value) -> Story {
    Story::new(vec![vec![tool("toolu_q", "AskUserQuestion", json!({ "questions": questions }))]])
}

fn question(words: &str, multi: bool) -> Value {
    json!({"question": words, "header": "H", "multiSelect": multi,
        "options": [option("Dark mode"), option("Analytics"), option("a, b")]})
}

/// Answers and lets the run end; the story then tells what the model read.
fn answered(story: &Story, answer: Value) -> Value {
    let run = story.run(&[]);
    let ask = story.hub.answer_next(answer);
    story.model.result_of("toolu_q");
    story.confirmed(&ask);
    ended(run);
    ask
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_question_is_answered_and_the_model_reads_the_answer() {
    let question = tool("toolu_q", "AskUserQuestion", which_database());
    let story = Story::new(vec![vec![text("I have a question."), question]]);
    let run = story.run(&[]);
    let ask = story.hub.answer_next(json!({"answers": [{"selected": ["SQLite"]}]}));
    assert_eq!((&ask["kind"], &ask["tool_use_id"]), (&json!("question"), &json!("toolu_q")));
    story.told("toolu_q", "\"Which DB?\"=\"SQLite\"");
    story.confirmed(&ask);
    let words = said(run);
    assert!(words.contains("I have a question.") && words.contains("I am done."), "{words}");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn several_questions_are_answered_each_by_its_own() {
    let story = asking(json!([question("One?", false), question("Two?", false), question("Three?", true)]));
    answered(
        &story,
        json!({"answers": [{"selected": ["Analytics"]}, {"selected": ["Dark mode"]}, {"selected": ["Analytics"]}]}),
    );
    for words in ["\"One?\"=\"Analytics\"", "\"Two?\"=\"Dark mode\"", "\"Three?\"=\"Analytics\""] {
        story.told("toolu_q", words);
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn several_picks_reach_the_model_together_and_one_with_a_comma_in_quotes() {
    let story = asking(json!([question("Many?", true)]));
    answered(&story, json!({"answers": [{"selected": ["Dark mode", "a, b"], "text": "Offline"}]}));
    let told = story.model.told("toolu_q");
    let unescaped = told.replace("\\\"", "\"");
    assert!(unescaped.contains("Dark mode, \"a, b\", Offline"), "{told}");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn free_text_and_notes_reach_the_model() {
    let story = asking(json!([question("Own?", false), question("Noted?", false)]));
    answered(
        &story,
        json!({"answers": [{"text": "größer, \"x\"\nund y"}, {"selected": ["Analytics"], "notes": "keep it subtle"}]}),
    );
    for words in ["größer", "und y", "\"Noted?\"=\"Analytics\"", "keep it subtle"] {
        story.told("toolu_q", words);
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn the_preview_of_the_chosen_option_goes_with_it() {
    let options = json!([
        {"label": "Wide", "description": ".", "preview": "+------+"},
        {"label": "Narrow", "description": ".", "preview": "+--+ narrow"}]);
    let story =
        asking(json!([{"question": "Layout?", "header": "L", "multiSelect": false, "options": options}]));
    let ask = answered(&story, json!({"answers": [{"selected": ["Narrow"]}]}));
    assert_eq!(ask["body"]["questions"][0]["options"][0]["preview"], "+------+");
    story.told("toolu_q", "+--+ narrow");
    assert!(!story.model.told("toolu_q").contains("+------+"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_skipped_question_is_said_to_be_skipped() {
    let story = asking(json!([question("One?", false), question("Two?", false)]));
    answered(&story, json!({"answers": [{"skip": true}, {"selected": ["Analytics"]}]}));
    story.told("toolu_q", "\"One?\"=\"(skipped by the user)\"");
    story.told("toolu_q", "\"Two?\"=\"Analytics\"");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn one_reply_may_stand_for_all_answers() {
    let story = asking(json!([question("One?", false), question("Two?", false)]));
    answered(&story, json!({"response": "neither; think again"}));
    story.told("toolu_q", "neither; think again");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn questions_that_are_declined_are_refused_and_the_model_reads_why() {
    let story = asking(which_database()["questions"].clone());
    answered(&story, json!({"skip": true, "message": "ask me tomorrow"}));
    story.told("toolu_q", "ask me tomorrow");
    assert_eq!(story.model.result_of("toolu_q")["is_error"], true);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_question_reaches_a_person_even_in_bypass_mode() {
    let story = Story::new(vec![
        vec![tool("toolu_b", "Bash", super::bash("touch unasked"))],
        vec![tool("toolu_q", "AskUserQuestion", which_database())],
    ]);
    let run = story.run(&["--mode", "bypassPermissions"]);
    let ask = story.hub.answer_next(json!({"answers": [{"selected": ["SQLite"]}]}));
    assert_eq!(ask["kind"], "question");
    assert!(story.has("unasked"));
    story.told("toolu_q", "\"Which DB?\"=\"SQLite\"");
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn what_the_tool_itself_rejects_never_becomes_an_ask() {
    let story = asking(json!([{"question": "Old?", "header": "H", "multiSelect": false, "options": []}]));
    let run = story.run(&[]);
    assert_eq!(story.model.result_of("toolu_q")["is_error"], true);
    ended(run);
    assert_eq!(story.hub.get("/api/asks", &story.hub.operator()).body["asks"], json!([]));
}
