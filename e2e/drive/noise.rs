//! Lines that are not what the protocol promises; what comes after them still counts.

use super::{Scene, most_memory, question, yes};
use serde_json::json;
use std::os::unix::process::ExitStatusExt;

const MEGABYTE: usize = 1024 * 1024;

#[test]
fn garbage_is_named_and_the_next_ask_is_answered() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "write", "text": "Segmentation fault (core dumped)"},
        {"do": "write", "text": "\u{1b}[31m{\"type\":\"control_request\""},
        {"do": "write", "text": ""},
        {"do": "write", "text": "[1,2,3]"},
        {"do": "write", "text": "\"control_request\""},
        [question("toolu_q")]]));
    let ask = scene.hub.answer_next(yes());
    let ended = scene.end(run);
    ended.says("The agent wrote something that makes no sense");
    assert!(!ended.out.contains("\u{1b}[31m{"), "{:?}", ended.out);
    assert_eq!((ended.code(), scene.asks().len()), (Some(0), 1));
    assert_eq!(scene.hub.ask(&ask)["receipt"], "confirmed");
}

#[test]
fn half_a_line_and_then_silence_can_be_stopped() {
    let scene = Scene::new();
    let half = r#"{"type":"control_request","request_id":"half","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"rm"#;
    let run = scene.run(json!([{"do": "write", "text": half, "end": false}, {"do": "until", "file": "go"}, {"do": "silence"}]));
    scene.agent_id();
    scene.make("go");
    scene.steer("stop");
    let ended = scene.end(run);
    assert_eq!(ended.output.status.signal(), None);
    assert_eq!((scene.asks(), scene.approvals()), (vec![], 0));
}

#[test]
fn a_line_of_fifty_megabytes_is_passed_by_and_takes_no_memory() {
    let scene = Scene::new();
    let run = scene.run(json!([{"do": "long_line", "bytes": 50 * MEGABYTE}, [question("toolu_q")]]));
    let ask = scene.hub.open_ask();
    let most = most_memory(run.id());
    assert!(most < 100, "{most} MB");
    scene.hub.answer_next(yes());
    scene.end(run).says(&format!("a line of {} bytes, which is too long to be read", 50 * MEGABYTE));
    assert_eq!(scene.hub.ask(&ask)["receipt"], "confirmed");
}

#[test]
fn a_request_of_fifty_megabytes_is_refused_wherever_its_id_stands() {
    for id_last in [false, true] {
        let scene = Scene::new();
        let long = json!({"do": "long_line", "bytes": 50 * MEGABYTE, "ask": true, "id_last": id_last});
        let ended = scene.end(scene.run(json!([long])));
        ended.says("too long to be read");
        let replies = scene.replies();
        assert_eq!(replies.len(), 1, "{replies:?}");
        assert_eq!((replies[0].0.as_str(), &replies[0].1["subtype"]), ("long", &json!("error")));
        assert_eq!((ended.code(), scene.asks()), (Some(0), vec![]));
    }
}

#[test]
fn what_is_newer_than_this_program_passes_by() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "write", "text": "{\"type\":\"brand_new\",\"request_id\":\"x\"}"},
        {"do": "write", "text": "{\"type\":\"system\",\"subtype\":\"brand_new\"}"},
        {"do": "write", "text": "{\"type\":7}"},
        {"do": "write", "text": "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"brand_new\"},{\"type\":\"tool_use\"}]}}"},
        {"do": "write", "text": "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\"}]}}"},
        {"do": "write", "text": "{\"type\":\"control_response\",\"response\":{}}"},
        {"do": "write", "text": "{\"type\":\"control_cancel_request\"}"},
        [question("toolu_q")]]));
    let ask = scene.hub.answer_next(yes());
    assert_eq!(scene.end(run).code(), Some(0));
    assert_eq!(scene.hub.ask(&ask)["receipt"], "confirmed");
}
