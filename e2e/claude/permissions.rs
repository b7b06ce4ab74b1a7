//! Permissions: once, by a rule the agent suggests itself, edited, and refused.

use super::{Story, bash, ended, read_json};
use crate::support::printed;
use aye_testkit::model::tool;
use serde_json::{Value, json};

fn running(commands: &[&str]) -> Story {
    let calls = commands.iter().enumerate();
    Story::new(calls.map(|(i, command)| vec![tool(&format!("toolu_{i}"), "Bash", bash(command))]).collect())
}

/// The rule that goes with a scope, as the person is shown it.
fn rule<'a>(ask: &'a Value, scope: &str) -> &'a str {
    let scopes = ask["body"]["scopes"].as_array().unwrap();
    let offer = scopes.iter().find(|offer| offer["scope"] == scope).unwrap();
    assert_eq!(offer["kept_by"], "agent");
    offer["rule"].as_str().unwrap()
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_for_once_is_for_once() {
    let story = running(&["touch first", "touch second"]);
    let run = story.run(&[]);
    let first = story.hub.answer_next(json!({"decision": "allow", "scope": "once"}));
    assert_eq!(first["display"]["text"], "touch first");
    story.model.result_of("toolu_0");
    assert!(story.has("first"));
    let second = story.hub.answer_next(json!({"decision": "deny", "message": "once was enough"}));
    story.told("toolu_1", "once was enough");
    assert!(!story.has("second"));
    for ask in [first, second] {
        story.confirmed(&ask);
    }
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_for_the_session_lets_the_same_pass_and_writes_no_settings() {
    let story = running(&["mkdir -p made/one && make -n x", "make -n x", "touch other"]);
    let run = story.run(&[]);
    let first = story.hub.open_ask();
    assert!(rule(&first, "session").contains("for this session"), "{first}");
    story.hub.answer_next(json!({"decision": "allow", "scope": "session"}));
    // The second passes without anybody being asked.
    story.model.result_of("toolu_1");
    let asks = story.hub.get("/api/asks", &story.hub.operator()).body;
    assert_eq!(asks["asks"].as_array().unwrap().len(), 1 + story.hub.open_asks().len(), "{asks}");
    story.steer("stop", json!({}));
    run.wait_with_output().unwrap();
    story.confirmed(&first);
    assert!(!story.has(".claude/settings.local.json"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_permission_for_always_writes_exactly_the_rule_that_was_shown() {
    let story = running(&["make -n x"]);
    let run = story.run(&[]);
    let ask = story.hub.open_ask();
    let shown = rule(&ask, "always").to_owned();
    let kept =
        shown.strip_prefix("allow ").and_then(|rule| rule.strip_suffix(" in this project's local settings"));
    let kept = kept.unwrap_or_else(|| panic!("{shown}")).to_owned();
    story.hub.answer_next(json!({"decision": "allow", "scope": "always"}));
    story.model.result_of("toolu_0");
    ended(run);
    story.confirmed(&ask);
    let settings = read_json(&story.work.path().join(".claude/settings.local.json"));
    assert_eq!(settings["permissions"], json!({ "allow": [kept] }));
    // The list says what the agent keeps, and whether its settings still have it.
    let grants = || printed(&story.hub.aye(&["policy", "grants"]));
    let file = story.work.path().canonicalize().unwrap().join(".claude/settings.local.json");
    assert!(
        grants().contains(&format!("{kept}\n    in {}; remove it there", file.display())),
        "{}",
        grants()
    );
    std::fs::write(&file, "{}").unwrap();
    assert!(grants().contains(&format!("{kept}\n    no longer in {}", file.display())), "{}", grants());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_edited_command_is_what_runs() {
    let story = running(&["touch wrong"]);
    let run = story.run(&[]);
    let ask = story.hub.answer_next(
        json!({"decision": "allow", "scope": "once", "input": bash("touch edited && echo so be it")}),
    );
    story.told("toolu_0", "so be it");
    assert!(story.has("edited") && !story.has("wrong"));
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_file_is_shown_as_a_diff_and_written_as_edited() {
    let input = |content: &str| json!({"file_path": "note.txt", "content": content});
    let story = Story::new(vec![vec![tool("toolu_w", "Write", input("hello\n"))]]);
    let run = story.run(&[]);
    let ask = story.hub.open_ask();
    assert_eq!(ask["display"]["kind"], "diff");
    assert!(ask["display"]["text"].as_str().unwrap().contains("+hello"));
    let mut edited = ask["body"]["input"].clone();
    edited["content"] = "good day\n".into();
    story.hub.answer_next(json!({"decision": "allow", "scope": "once", "input": edited}));
    story.model.result_of("toolu_w");
    assert_eq!(std::fs::read_to_string(story.work.path().join("note.txt")).unwrap(), "good day\n");
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_refusal_carries_its_message_and_the_turn_goes_on() {
    let story = running(&["touch refused"]);
    let run = story.run(&[]);
    let ask = story.hub.answer_next(json!({"decision": "deny", "message": "not on a friday"}));
    story.told("toolu_0", "not on a friday");
    assert_eq!(story.model.result_of("toolu_0")["is_error"], true);
    assert!(!story.has("refused"));
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_refusal_that_interrupts_ends_the_turn() {
    let story = running(&["touch refused", "touch never"]);
    let run = story.run(&[]);
    let ask =
        story.hub.answer_next(json!({"decision": "deny", "message": "stop right there", "interrupt": true}));
    run.wait_with_output().unwrap();
    story.confirmed(&ask);
    // The model was not asked to go on: it heard the prompt, and nothing since.
    assert_eq!(story.model.requests().len(), 1);
    assert!(!story.has("refused") && !story.has("never"));
    // The session remembers the refusal.
    let session = story.agent()["session"].as_str().unwrap().to_owned();
    let again = story.command(&["--resume", &session], "go on").spawn().unwrap();
    assert_eq!(story.model.result_of("toolu_0")["is_error"], true);
    story.hub.open_ask();
    story.hub.answer_next(json!({"decision": "deny", "message": "no"}));
    ended(again);
}
