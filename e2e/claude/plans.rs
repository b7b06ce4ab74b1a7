//! Plans: approved, edited, refused, and outlined first.

use super::{Story, ended};
use aye_testkit::model::tool;
use serde_json::json;

fn planning(plans: &[&str]) -> Story {
    let calls = plans.iter().enumerate();
    Story::new(
        calls
            .map(|(i, plan)| vec![tool(&format!("toolu_{i}"), "ExitPlanMode", json!({ "plan": plan }))])
            .collect(),
    )
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_approved_plan_is_carried_out() {
    let story = planning(&["1. everything"]);
    let run = story.run(&["--mode", "plan"]);
    let ask = story.hub.answer_next(json!({"decision": "allow"}));
    assert_eq!((&ask["kind"], &ask["body"]), (&json!("plan"), &json!({"plan": "1. everything"})));
    story.told("toolu_0", "approved");
    assert!(!story.model.told("toolu_0").contains("edited"), "nobody edited it");
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_edited_plan_is_the_one_the_model_gets() {
    let story = planning(&["1. everything"]);
    let run = story.run(&["--mode", "plan"]);
    let ask = story.hub.answer_next(json!({"decision": "allow", "plan": "1. the very least"}));
    story.told("toolu_0", "the very least");
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_refused_plan_comes_back_with_the_feedback() {
    let story = planning(&["1. everything", "1. less"]);
    let run = story.run(&["--mode", "plan"]);
    let first = story.hub.answer_next(json!({"decision": "deny", "message": "smaller steps"}));
    story.told("toolu_0", "smaller steps");
    let second = story.hub.answer_next(json!({"decision": "allow"}));
    assert_eq!(second["body"], json!({"plan": "1. less"}));
    for ask in [first, second] {
        story.confirmed(&ask);
    }
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_outline_that_is_wanted_first_refuses_the_plan_and_says_so() {
    let story = planning(&["1. everything"]);
    let run = story.run(&["--mode", "plan"]);
    let ask = story.hub.answer_next(json!({"decision": "outline"}));
    story.told("toolu_0", "outline");
    assert_eq!(story.model.result_of("toolu_0")["is_error"], true);
    story.confirmed(&ask);
    ended(run);
}
