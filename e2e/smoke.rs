//! The shortest way an ask can go: a script asks, a person answers, the script goes on.

use crate::support::{Hub, aye, eventually};
use serde_json::{Value, json};
use std::process::Stdio;

#[test]
fn a_script_asks_and_a_person_answers_on_the_command_line() {
    let hub = Hub::start();
    let mut script = aye(&hub.home);
    script.args([
        "ask",
        "Which colours?",
        "--option",
        "red: warm",
        "--option",
        "blue, light",
        "--multi",
        "--text",
    ]);
    let script = script.stdout(Stdio::piped()).spawn().unwrap();
    let id = eventually("the ask", || {
        let list: Value = serde_json::from_slice(&hub.aye(&["list", "--json"]).stdout).unwrap();
        list["asks"][0]["id"].as_str().map(str::to_owned)
    });
    let answered = hub.aye(&["answer", &id, "1", "blue, light", "--text", "and green"]);
    assert!(answered.status.success(), "{answered:?}");
    let script = script.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(script.stdout).unwrap(), "red\nblue, light\nand green\n");
    assert_eq!(script.status.code(), Some(0));

    let ask: Value = serde_json::from_slice(&hub.aye(&["show", &id, "--json"]).stdout).unwrap();
    assert_eq!(ask["state"], "answered");
    assert_eq!(ask["receipt"], "delivered");
    assert_eq!(
        ask["answer"],
        json!({"answers": [{"selected": ["red", "blue, light"], "text": "and green"}]})
    );
    assert_eq!(ask["by"]["surface"], "terminal");
    assert!(hub.aye(&["verify"]).status.success());
}
