//! Requests that are unknown, malformed, repeated, or far too many.

use super::{Scene, bash, once, question, yes};
use crate::support::eventually;
use serde_json::{Value, json};

#[test]
fn a_request_that_nobody_knows_gets_an_error_and_never_silence() {
    let scene = Scene::new();
    let request = json!({"subtype": "hook_callback", "callback_id": "x"});
    let ended = scene.end(scene.run(json!([{"do": "request", "id": "new", "request": request}])));
    assert_eq!((ended.code(), scene.asks()), (Some(0), vec![]));
    let replies = scene.replies();
    assert_eq!((replies[0].0.as_str(), &replies[0].1["subtype"]), ("new", &json!("error")));
    assert!(replies[0].1["error"].as_str().unwrap().contains("hook_callback"));
}

#[test]
fn a_request_that_cannot_be_read_is_an_error_and_no_approval() {
    let malformed = [
        json!({"subtype": "can_use_tool", "input": {"command": "ls"}}),
        json!({"subtype": "can_use_tool", "tool_name": "Bash"}),
        json!({"subtype": "can_use_tool", "tool_name": ["Bash"], "input": {}}),
        json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "permission_suggestions": "all"}),
    ];
    let scene = Scene::with_policy("[policy]\nauto_approve = [\"*\"]\n");
    let steps = malformed.iter().enumerate();
    let steps: Vec<_> = steps
        .map(|(i, request)| json!({"do": "request", "id": format!("r{i}"), "request": request}))
        .collect();
    let ended = scene.end(scene.run(Value::Array(steps)));
    ended.says("so nothing is approved");
    let replies = scene.replies();
    assert_eq!(replies.len(), malformed.len());
    assert!(replies.iter().all(|(_, reply)| reply["subtype"] == "error"), "{replies:?}");
    assert_eq!((ended.code(), scene.asks()), (Some(0), vec![]));
}

#[test]
fn what_cannot_be_shown_to_a_person_is_refused() {
    let unshowable = [
        json!({"name": "AskUserQuestion", "input": {"questions": []}}),
        json!({"name": "AskUserQuestion", "input": {"questions": [{"question": "", "options": []}]}}),
        json!({"name": "ExitPlanMode", "input": {}}),
        json!({"name": "Bash", "input": "rm -rf /"}),
        json!({"name": "", "input": {}}),
    ];
    let scene = Scene::with_policy("[policy]\nauto_approve = [\"*\"]\n");
    let steps = unshowable.iter().enumerate().map(|(i, part)| {
        let mut block = part.clone();
        block["type"] = "tool_use".into();
        block["id"] = format!("toolu_{i}").into();
        json!([block])
    });
    let ended = scene.end(scene.run(steps.collect()));
    ended.says("this cannot be shown to a person");
    let replies = scene.replies();
    assert_eq!(replies.len(), unshowable.len());
    assert!(replies.iter().all(|(_, reply)| reply["response"]["behavior"] == "deny"), "{replies:?}");
    assert_eq!(scene.asks(), Vec::<Value>::new());
}

#[test]
fn asking_twice_with_one_id_is_one_ask_with_one_answer() {
    let scene = Scene::new();
    let ask = json!({"do": "ask", "request": "same", "block": bash("toolu_1", "ls"), "wait": false});
    let mut again = ask.clone();
    again["wait"] = true.into();
    let run = scene.run(json!([ask, {"do": "until", "file": "go"}, again]));
    let asked = scene.hub.open_ask();
    scene.make("go");
    let account = format!("/api/agents/{}/events", scene.agent_id());
    eventually("the second request to be noticed", || {
        let events = scene.hub.get(&account, &scene.hub.operator()).body;
        events.to_string().contains("request id same twice").then_some(())
    });
    scene.hub.answer_next(once());
    let ended = scene.end(run);
    assert_eq!((scene.asks().len(), scene.replies().len()), (1, 1));
    assert_eq!(scene.hub.ask(&asked)["receipt"], "confirmed");
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn a_second_request_under_an_id_that_waits_never_gets_the_answer_to_the_first() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "ask", "request": "same", "block": bash("toolu_1", "ls"), "wait": false},
        {"do": "ask", "request": "same", "block": bash("toolu_2", "rm -rf /"), "wait": true}]));
    let asked = scene.hub.open_ask();
    assert_eq!(asked["body"]["input"]["command"], "ls");
    scene.hub.answer_next(once());
    scene.end(run).says("used the request id same twice");
    let inputs: Vec<_> =
        scene.replies().into_iter().map(|(_, reply)| reply["response"]["updatedInput"].clone()).collect();
    assert_eq!(inputs, [json!({"command": "ls"})]);
    assert_eq!(scene.asks().len(), 1);
}

#[test]
fn another_request_under_an_id_that_was_answered_is_refused() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "ask", "request": "same", "block": bash("toolu_1", "ls")},
        {"do": "ask", "request": "same", "block": bash("toolu_2", "rm -rf /")}]));
    scene.hub.answer_next(once());
    scene.end(run);
    let replies: Vec<_> = scene.replies().into_iter().map(|(_, reply)| reply["subtype"].clone()).collect();
    assert_eq!((replies, scene.approvals()), (vec![json!("success"), json!("error")], 1));
    assert_eq!(scene.asks().len(), 1);
}

#[test]
fn the_same_request_again_after_its_answer_gets_no_old_approval() {
    let scene = Scene::new();
    let same = json!({"do": "ask", "request": "same", "block": bash("toolu_1", "ls")});
    let run = scene.run(json!([same.clone(), same]));
    scene.hub.answer_next(once());
    scene.end(run);
    assert_eq!((scene.replies().len(), scene.approvals(), scene.asks().len()), (2, 1, 1));
}

#[test]
fn a_flood_of_requests_is_answered_one_by_one_and_the_hub_stays_well() {
    let scene = Scene::with_policy("[policy]\nauto_approve = [\"Bash\"]\n");
    let flood = json!({"do": "flood", "requests": 3000, "block": bash("toolu_f", "true")});
    let ended = scene.end(scene.run(json!([flood])));
    assert_eq!((ended.code(), scene.approvals()), (Some(0), 3000), "{}", ended.err);
}

#[test]
fn a_flood_that_nobody_answers_ends_the_run() {
    let scene = Scene::new();
    let run = scene.run(json!([{"do": "flood", "requests": 3000, "block": question("toolu_f")}]));
    let ended = scene.end(run);
    assert_eq!((ended.code(), scene.approvals()), (Some(1), 0), "{}", ended.err);
    assert!((ended.out + &ended.err).contains("more than 500 things at once"));
}

#[test]
fn questions_may_have_the_old_form_and_are_never_approved_by_a_rule() {
    let scene = Scene::with_policy("[policy]\nauto_approve = [\"*\"]\n");
    let old = aye_testkit::scenario::tool(
        "toolu_q",
        "AskUserQuestion",
        json!({"question": "Go on?", "options": ["yes", "no"]}),
    );
    let run = scene.run(json!([[old]]));
    let ask = scene.hub.answer_next(yes());
    scene.end(run);
    let reply = &scene.replies()[0].1["response"]["updatedInput"];
    assert_eq!((&reply["question"], &reply["answers"]), (&json!("Go on?"), &json!({"Go on?": "yes"})));
    assert_eq!(scene.hub.ask(&ask)["receipt"], "confirmed");
}

#[test]
fn an_agent_that_may_not_ask_any_more_is_told_so_and_nothing_is_approved() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "ask", "block": bash("toolu_1", "ls")},
        {"do": "until", "file": "go"},
        {"do": "ask", "block": bash("toolu_2", "rm -r x")}]));
    let first = scene.hub.answer_next(once());
    scene.hub.fill(first["agent"].as_str().unwrap());
    scene.make("go");
    scene.end(run);
    let replies = scene.replies();
    let (_, refused) = replies.last().unwrap();
    assert_eq!((replies.len(), scene.approvals()), (2, 1), "{replies:?}");
    assert!(refused.to_string().contains("then ask again"), "{refused}");
}

#[test]
fn a_number_that_nobody_would_see_as_it_is_is_not_asked_for() {
    let scene = Scene::with_policy("[policy]\nauto_approve = [\"*\"]\n");
    // Written by hand: our own JSON has no such number.
    let input = r#"{"sum":123456789012345678901234567890}"#;
    let request = format!(
        r#"{{"type":"control_request","request_id":"r1","request":{{"subtype":"can_use_tool","tool_name":"Pay","tool_use_id":"toolu_1","input":{input}}}}}"#
    );
    let agent = scene.file("agent.sh");
    let script = format!(
        "#!/bin/sh\nread first\necho '{request}'\nwhile read line; do echo \"$line\" >> said; done\n"
    );
    std::fs::write(&agent, script).unwrap();
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let run = scene.command(json!([])).env("AYE_CLAUDE", &agent).spawn().unwrap();
    let said = eventually("the refusal", || {
        let said = std::fs::read_to_string(scene.file("said")).ok()?;
        said.contains("\"deny\"").then_some(said)
    });
    assert!(said.contains("last digit") && !said.contains("\"allow\""), "{said}");
    crate::support::signal(&run, rustix::process::Signal::TERM);
    scene.end(run);
    assert_eq!(scene.asks(), Vec::<Value>::new());
}
