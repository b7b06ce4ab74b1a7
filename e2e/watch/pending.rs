//! `aye pending` on real sessions, from their files alone.

use super::prompts::{bash, in_mode};
use super::stage::Stage;
use super::which_database;
use crate::support::{aye, eventually, json_of, printed};
use aye_testkit::model::tool;
use serde_json::{Value, json};
use std::process::Output;

fn pending(stage: &Stage, flags: &[&str]) -> Output {
    let mut command = aye(&stage.hub.home);
    command.arg("pending").args(flags).env("CLAUDE_CONFIG_DIR", stage.config()).output().unwrap()
}

/// Waits until this many calls are pending, and returns them.
fn all_pending(stage: &Stage, count: usize) -> Vec<Value> {
    eventually(&format!("{count} pending"), || {
        let found = json_of(&pending(stage, &["--json"]));
        found.as_array().filter(|found| found.len() == count).cloned()
    })
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_call_that_waits_is_pending_and_one_that_runs_is_not() {
    let command = "touch begun; while [ ! -e stop ]; do sleep 0.1; done";
    let steps = vec![bash("toolu_b", command), which_database("toolu_q")];
    let stage = in_mode("default", steps);
    let waits = all_pending(&stage, 1);
    let told = (&waits[0]["kind"], &waits[0]["tool"], &waits[0]["state"], &waits[0]["input"]["command"]);
    assert_eq!(told, (&json!("permission"), &json!("Bash"), &json!("waiting"), &json!(command)));
    assert_eq!(waits[0]["title"], "do it");
    let words = printed(&pending(&stage, &[]));
    assert!(words.contains("while [ ! -e stop ]") && words.contains("waits for permission"), "{words}");
    stage.sees("Do you want to proceed?");
    stage.press(&["1"]);
    eventually("the command to run", || stage.work().join("begun").exists().then_some(()));
    all_pending(&stage, 0);
    std::fs::write(stage.work().join("stop"), "").unwrap();
    // The session may wait for its question a moment before the transcript has the result of the command.
    eventually("the question", || {
        let asked = all_pending(&stage, 1);
        (asked[0]["kind"] == "question" && asked[0]["tool_use_id"] == "toolu_q").then_some(())
    });
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_plan_is_pending_with_its_text() {
    let stage =
        in_mode("plan", vec![vec![tool("toolu_p", "ExitPlanMode", json!({"plan": "1. everything"}))]]);
    let asked = all_pending(&stage, 1);
    assert_eq!((&asked[0]["kind"], &asked[0]["plan"]), (&json!("plan"), &json!("1. everything")));
    let words = printed(&pending(&stage, &[]));
    assert!(words.contains("approve a plan: 1. everything"), "{words}");
}
