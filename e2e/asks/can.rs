//! What an agent can take from here: data on the ask, which every answer is held against.

use super::Room;
use crate::support::{Hub, path_of, saying, yes_or_no};
use serde_json::{Value, json};

fn set_can(room: &Room, ask: &Value, can: Value) -> crate::support::Reply {
    room.hub.put(&path_of(ask, "/can"), &room.bot, can)
}

#[test]
fn an_answer_beyond_what_the_agent_can_take_is_refused_and_the_ask_stays_open() {
    let room = Room::new();
    let plain = room.question("plain");
    assert_eq!(plain.get("can"), None, "an agent that says nothing can take everything");
    let raise =
        json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no(), "can": {"skip": false}});
    let ask = room.try_raise(raise).body;
    assert_eq!((&ask["can"]["skip"], &ask["can"]["answer"]), (&json!(false), &json!(true)));
    assert_eq!(ask["digest"], plain["digest"], "it is no part of what is asked");
    let refused = room.hub.answer(&ask, json!({"skip": true}));
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("answer.skip")));
    assert_eq!(room.hub.ask(&ask), ask);
    assert_eq!(room.hub.answer(&ask, saying("yes")).status, 200);
    let body = json!({"tool": "Bash", "input": {"command": "ls"}});
    let can = json!({"stop": false, "why": "it ends no turn"});
    let raise = json!({"key": "p", "agent": "bot", "kind": "permission", "body": body, "can": can});
    let ask = room.try_raise(raise).body;
    let refused = room.hub.answer(&ask, json!({"decision": "deny", "interrupt": true}));
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("answer.interrupt")));
    assert!(refused.body["error"].as_str().unwrap().contains("it ends no turn"), "{}", refused.body);
    assert_eq!(room.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
}

#[test]
fn what_an_agent_can_take_changes_while_the_ask_is_open_and_not_after() {
    let room = Room::new();
    let ask = room.question("k");
    let there = json!({"answer": false, "why": "answer it in its terminal"});
    let changed = set_can(&room, &ask, there);
    assert_eq!((changed.status, &changed.body["can"]["answer"]), (200, &json!(false)));
    assert_eq!(room.hub.ask(&ask), changed.body);
    let refused = room.hub.answer(&ask, saying("yes"));
    assert_eq!((refused.status, &refused.body["error"]), (422, &json!("answer it in its terminal")));
    let back = set_can(&room, &ask, json!({}));
    assert_eq!(back.body, ask);
    assert_eq!(room.hub.answer(&ask, saying("yes")).status, 200);
    assert_eq!(set_can(&room, &ask, json!({"skip": false})).status, 409);
}

#[test]
fn only_the_agent_that_raised_an_ask_says_what_it_can_take() {
    let room = Room::new();
    let ask = room.question("k");
    let other = room.hub.agent("other");
    let refused = room.hub.put(&path_of(&ask, "/can"), &other, json!({"answer": false}));
    assert_eq!(refused.status, 403);
    assert_eq!(room.hub.ask(&ask), ask);
}

#[test]
fn a_rule_refuses_only_as_far_as_the_agent_can_take_a_refusal() {
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let rules = "[[policy.rules]]\ntool = \"*\"\naction = \"deny\"\nmessage = \"not now\"\n";
    std::fs::write(dir.path().join("config.toml"), rules).unwrap();
    let hub = Hub::start_in(dir.path().to_owned());
    let bot = hub.agent("bot");
    let permission = || json!({"tool": "Bash", "input": {"command": "ls"}});
    for (n, (kind, body, can, expected)) in [
        ("question", yes_or_no(), json!({}), json!({"skip": true, "message": "not now"})),
        ("question", yes_or_no(), json!({"reason": false}), json!({"skip": true})),
        // Whoever knows no refusal would take an empty answer for one.
        ("question", yes_or_no(), json!({"skip": false}), Value::Null),
        (
            "permission",
            permission(),
            json!({}),
            json!({"decision": "deny", "message": "not now", "interrupt": false}),
        ),
        (
            "permission",
            permission(),
            json!({"reason": false}),
            json!({"decision": "deny", "interrupt": false}),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let raise = json!({"key": format!("k{n}"), "agent": "bot", "kind": kind, "body": body, "can": can});
        let ask = hub.post("/api/asks", &bot, raise).body;
        let state = if expected.is_null() { "open" } else { "answered" };
        assert_eq!((&ask["state"], &ask["answer"]), (&json!(state), &expected), "{kind} {can}");
    }
}

#[test]
fn no_rule_decides_what_cannot_be_answered_from_here() {
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let rules = "[[policy.rules]]\ntool = \"Bash\"\ncommand = \"make\"\naction = \"allow\"\n\
        [[policy.rules]]\ncommand = \"rm *\"\naction = \"deny\"\nmessage = \"no\"\n";
    std::fs::write(dir.path().join("config.toml"), rules).unwrap();
    let hub = Hub::start_in(dir.path().to_owned());
    let bot = hub.agent("bot");
    let profile = json!({"kind": "claude", "reach": "driven", "cwd": "/src/web", "state": "working"});
    hub.register(&bot, "bot", profile);
    let raise = |key: &str, command: &str, can: Value| {
        let body = json!({"tool": "Bash", "input": {"command": command}});
        let ask = json!({"key": key, "agent": "bot", "kind": "permission", "body": body, "can": can});
        hub.post("/api/asks", &bot, ask).body
    };
    let elsewhere = json!({"answer": false, "why": "answer it in its terminal"});
    for (key, command) in [("a", "make"), ("b", "rm x")] {
        assert_eq!(raise(key, command, json!({}))["state"], "answered");
        assert_eq!(raise(&format!("{key}-there"), command, elsewhere.clone())["state"], "open");
    }
}
