//! Rules for a folder follow the agent's process, not what somebody says of it.

use super::{Scene, bash};
use aye_testkit::scenario::tool;
use serde_json::json;

fn rule_for(folder: &str) -> String {
    format!("[[policy.rules]]\ntool = \"Bash\"\ncwd = \"{folder}/**\"\naction = \"allow\"\n")
}

#[test]
fn a_rule_for_the_folder_of_a_run_allows_what_it_asks_there() {
    let scene = Scene::with_policy("");
    let work = scene.work.path().canonicalize().unwrap();
    scene.reread(&rule_for(work.to_str().unwrap()));
    let run = scene.run(json!([{"do": "ask", "block": bash("toolu_1", "make")}]));
    scene.end(run);
    let asks = scene.asks();
    assert_eq!(asks.len(), 1);
    assert_eq!((&asks[0]["state"], &asks[0]["by"]["rule"]), (&json!("answered"), &json!("rule 1")));
    assert_eq!((&asks[0]["cwd"], &asks[0]["cwd_checked"]), (&json!(work), &json!(true)));
}

#[test]
fn an_agents_own_token_moves_it_into_no_rules_folder() {
    let scene = Scene::with_policy(&rule_for("/srv/work"));
    let run = scene.run(json!([
        {"do": "until", "file": "moved"},
        {"do": "ask", "block": bash("toolu_1", "make")},
        {"do": "ask", "block": tool("toolu_2", "Read", json!({"file_path": "x"}))}]));
    let id = scene.agent_id();
    let token = scene.hub.call_unix("POST", &format!("/api/agents/{id}/token"), "", json!({}));
    let token = token.body["token"].as_str().unwrap();
    let moved = scene.hub.register(token, &id, json!({"cwd": "/srv/work/a", "host": "elsewhere"}));
    assert_eq!(moved["cwd"], "/srv/work/a");
    scene.make("moved");
    let ask = scene.hub.open_ask();
    // Its adapter may have set the folder right again meanwhile; neither folder lets the rule allow it.
    assert_eq!((&ask["state"], &ask["tool_use_id"]), (&json!("open"), &json!("toolu_1")));
    scene.hub.answer_next(json!({"decision": "deny"}));
    scene.hub.answer_next(json!({"decision": "deny"}));
    scene.end(run);
}
