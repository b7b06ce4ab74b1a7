//! What the agent's own transcript shows of an answer.

use super::{Scene, bash, once, question, yes};
use crate::support::{complained, printed};
use aye_testkit::agent::scripted_agent;
use serde_json::json;

#[test]
fn an_answer_is_delivered_first_and_confirmed_once_the_transcript_shows_it() {
    let scene = Scene::new();
    let run = scene.run(json!([{"do": "ask", "block": question("toolu_q"), "late": "go"}]));
    let ask = scene.hub.answer_next(yes());
    scene.hub.once(&ask, "delivery", |ask| ask["receipt"] == "delivered");
    scene.make("go");
    scene.hub.once(&ask, "confirmation", |ask| ask["receipt"] == "confirmed");
    scene.end(run);
}

#[test]
fn an_agent_that_took_another_answer_is_disputed_and_the_person_told() {
    let scene = Scene::new();
    let claim = json!({"content": "Your questions have been answered: \"Go on?\"=\"yes\".", "tool_use_result": {"answers": {"Go on?": "no"}}});
    let run = scene.run(json!([{"do": "ask", "block": question("toolu_q"), "claims": claim}]));
    let ask = scene.hub.answer_next(yes());
    let ended = scene.end(run);
    assert_eq!(scene.hub.ask(&ask)["receipt"], "disputed");
    ended.says("ALARM: the agent shows something else");
}

#[test]
fn a_tool_that_ran_although_it_was_refused_is_disputed() {
    let scene = Scene::new();
    let run =
        scene.run(json!([{"do": "ask", "block": bash("toolu_1", "rm x"), "claims": {"content": "removed"}}]));
    let ask = scene.hub.answer_next(json!({"decision": "deny", "message": "never that"}));
    scene.end(run).says("ALARM: the agent shows something else");
    assert_eq!(scene.hub.ask(&ask)["receipt"], "disputed");
}

#[test]
fn an_agent_that_says_nothing_of_the_answer_leaves_it_delivered_only() {
    let scene = Scene::new();
    let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "toolu_1"});
    let run = scene.run(json!([{"do": "request", "id": "r", "request": request}]));
    let ask = scene.hub.answer_next(once());
    scene.end(run);
    let receipt = scene.hub.ask(&ask)["receipt"].clone();
    assert_ne!(receipt, "confirmed");
}

#[test]
fn the_agent_gets_none_of_our_credentials() {
    let scene = Scene::new();
    let run = scene.command(json!([])).env("AYE_TOKEN", scene.hub.operator()).spawn().unwrap();
    scene.end(run);
    let started = &aye_testkit::agent::heard(&scene.file("heard.jsonl"))[0];
    assert_eq!(started["secrets"], json!([]));
}

#[test]
fn through_a_pseudo_terminal_an_agent_is_driven_just_the_same() {
    let other = format!("[agents.other]\ncommand = {:?}\nstdin = \"pty\"\n", scripted_agent());
    let scene = Scene::with_policy(&other);
    let run = scene.command(json!([[question("toolu_q")]])).args(["--agent", "other"]).spawn().unwrap();
    let ask = scene.hub.answer_next(yes());
    assert_eq!(scene.end(run).code(), Some(0));
    assert_eq!(scene.hub.ask(&ask)["receipt"], "confirmed");
}

#[test]
fn claude_code_is_refused_a_pseudo_terminal_with_what_to_do_instead() {
    let scene = Scene::new();
    for arguments in [&["--stdin", "pty"][..], &["--stdin", "pty", "--detach"]] {
        let refused = scene.command(json!([])).args(arguments).output().unwrap();
        assert_eq!((refused.status.code(), printed(&refused)), (Some(1), String::new()), "{arguments:?}");
        let why = complained(&refused);
        assert!(why.contains("a pipe only: leave out --stdin pty") && why.contains("[agents.KIND]"), "{why}");
    }
    assert!(scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body["agents"] == json!([]));
}
