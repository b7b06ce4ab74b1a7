use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn assistant(id: &str, name: &str) -> Value {
    json!({"message": {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {"questions": []}}]},
        "type": "assistant", "sessionId": "s", "isSidechain": false})
}

fn asks(id: &str) -> Value {
    assistant(id, "AskUserQuestion")
}

fn user(content: Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}, "isSidechain": false})
}

fn returns(id: &str) -> Value {
    user(json!([{"type": "tool_result", "tool_use_id": id, "content": "ok"}]))
}

fn says(words: &str) -> Value {
    user(json!(words))
}

fn blob(line: &Value) -> Value {
    json!({"type": "api-request-blob", "message": line["message"]})
}

fn file(lines: &[Value], spaced: bool) -> tempfile::NamedTempFile {
    let mut text = String::new();
    for line in lines {
        let line = line.to_string();
        // Other writers put spaces behind colons; inside strings that changes nothing that matters here.
        text += &if spaced { line.replace("\":", "\": ") } else { line };
        text.push('\n');
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[track_caller]
fn pending(lines: &[Value]) -> Vec<String> {
    let ids = |spaced| {
        let open = open_calls(file(lines, spaced).path(), "AskUserQuestion").unwrap();
        open.into_iter().map(|open| open.tool_use_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(true), ids(false));
    ids(false)
}

const NONE: [&str; 0] = [];

#[test]
fn a_question_is_pending_until_its_result_or_a_turn() {
    assert_eq!(pending(&[says("go"), asks("a")]), ["a"]);
    assert_eq!(pending(&[says("go"), asks("a"), returns("a")]), NONE);
    assert_eq!(pending(&[says("go"), asks("a"), says("never mind")]), NONE);
    assert_eq!(pending(&[says("go"), asks("a"), assistant("b", "Bash"), returns("b")]), ["a"]);
    assert_eq!(pending(&[asks("a"), asks("b"), returns("a")]), ["b"]);
    assert_eq!(pending(&[]), NONE);
}

#[test]
fn words_inside_strings_and_lines_that_repeat_messages_mislead_nobody() {
    let quoted = asks("x").to_string();
    assert_eq!(pending(&[says("go"), user(json!([{"type": "text", "text": quoted.clone()}]))]), NONE);
    let talk = json!({"type": "assistant", "message": {"content": [{"type": "text", "text": quoted}]}});
    assert_eq!(pending(&[says("go"), talk]), NONE);
    assert_eq!(pending(&[says("go"), blob(&asks("a"))]), NONE);
    assert_eq!(pending(&[says("go"), asks("a"), blob(&returns("a")), blob(&says("x"))]), ["a"]);
    let echo = user(json!([{"type": "tool_result", "tool_use_id": "b", "content": "\"tool_use_id\":\"a\""}]));
    assert_eq!(pending(&[says("go"), asks("a"), echo]), ["a"]);
    assert_eq!(
        pending(&[says("go"), asks("a"), user(json!([{"type": "text", "text": "tool_result"}]))]),
        NONE
    );
    assert_eq!(pending(&[says("go"), assistant("a", "NotAskUserQuestion")]), NONE);
}

#[test]
fn a_turn_written_late_passes_over_no_call_made_after_it() {
    let at = |mut line: Value, second: u8| {
        line["timestamp"] = json!(format!("2026-11-18T20:48:{second:02}.819Z"));
        line
    };
    assert_eq!(pending(&[at(asks("a"), 46), at(says("go"), 45)]), ["a"]);
    assert_eq!(pending(&[at(asks("a"), 46), at(says("never mind"), 47)]), NONE);
}

#[test]
fn a_sub_agents_prompt_is_no_turn() {
    let mut aside = says("look it up");
    aside["isSidechain"] = json!(true);
    assert_eq!(pending(&[says("go"), asks("a"), aside]), ["a"]);
}

#[test]
fn a_question_before_much_that_says_nothing_of_it_is_found() {
    let filler: Vec<_> = (0..200).map(|i| returns(&format!("{i}{}", "x".repeat(200_000)))).collect();
    let lines: Vec<_> = [says("go"), asks("a")].into_iter().chain(filler).collect();
    assert_eq!(pending(&lines), ["a"]);
}

#[test]
fn other_calls_are_looked_for_near_the_end_alone() {
    let filler: Vec<_> = (0..200).map(|i| returns(&format!("{i}{}", "x".repeat(200_000)))).collect();
    let first = [asks("a"), assistant("b", "Bash"), assistant("plan", "ExitPlanMode")];
    let lines = file(&[&first, &filler[..], &[assistant("c", "Bash"), asks("d")]].concat(), false);
    let ids = |open: io::Result<Vec<OpenCall>>| {
        open.unwrap().into_iter().map(|open| open.tool_use_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(calls_for_a_person(lines.path())), ["a", "plan", "d"]);
    assert_eq!(ids(recent_open_calls(lines.path())), ["c", "d"]);
}

#[test]
fn a_line_that_is_too_long_still_counts() {
    let long = || "x".repeat(2 * LONGEST);
    assert_eq!(pending(&[asks("a"), says(&long())]), NONE);
    let mut result = returns("a");
    result["toolUseResult"] = json!(long());
    assert_eq!(pending(&[asks("a"), asks("b"), result]), ["b"]);
    let mut question = asks("a");
    question["message"]["content"][0]["input"]["questions"] = json!([long()]);
    let lines = file(&[question, returns("b")], false);
    let open = open_calls(lines.path(), "AskUserQuestion").unwrap();
    assert_eq!((open.len(), open[0].input.clone()), (1, None));
}

#[test]
fn the_last_line_counts_without_its_end_if_it_is_whole() {
    let text = format!("{}\n{}", says("go"), asks("a"));
    let open = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        open_calls(file.path(), "AskUserQuestion").unwrap().len()
    };
    assert_eq!(open(&text), 1);
    assert_eq!(open(&text[..text.len() - 1]), 0);
}

/// The same, told line by line.
fn told_plainly(lines: &[Value]) -> Vec<String> {
    let mut pending = Pending::default();
    for line in lines {
        let line = line::decode(line.to_string().as_bytes()).unwrap();
        pending.see(line, false, |name| name == "AskUserQuestion");
    }
    pending.into_open().into_iter().map(|open| open.tool_use_id).collect()
}

fn any_line() -> impl Strategy<Value = Value> {
    let id = prop::sample::select(vec!["a", "b", "toolu_1", "toolu_11"]);
    let padding = prop::sample::select(vec![0_usize, 10, 40_000, 300_000]);
    (0..8, id, padding).prop_map(|(kind, id, padding)| {
        let mut line = match kind {
            0 | 1 => asks(id),
            2 => returns(id),
            3 => says(&asks(id).to_string()),
            4 => blob(&returns(id)),
            5 => assistant(id, "Bash"),
            6 => json!({"type": "user", "isMeta": true, "message": {"content": "\"user\""}}),
            _ => returns(&format!("{id}-other")),
        };
        line["padding"] = json!("\"user\" AskUserQuestion ".repeat(padding / 23));
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn searching_finds_what_reading_every_line_finds(lines in prop::collection::vec(any_line(), 0..30)) {
        prop_assert_eq!(pending(&lines), told_plainly(&lines));
    }
}
