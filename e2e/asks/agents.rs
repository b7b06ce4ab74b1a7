//! Agents: what they tell of themselves, what they are told, and what is left when they end.

use super::{Room, error, with};
use crate::support::{path_of, saying, yes_or_no};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn an_agent_that_ends_leaves_nothing_open() {
    let room = Room::new();
    let [open, pending, delivered, withdrawn] = ["o", "p", "d", "w"].map(|key| room.question(key));
    let expired = json!({"key": "e", "agent": "bot", "kind": "plan", "body": {"plan": "x"}, "timeout": "1s"});
    let expired = room.try_raise(expired).body;
    for ask in [&pending, &delivered] {
        assert_eq!(room.hub.answer(ask, saying("yes")).status, 200);
    }
    assert_eq!(room.receipt(&delivered, "delivered").status, 200);
    assert_eq!(room.withdraw(&withdrawn, json!({"why": "cancelled"})).status, 200);
    assert_eq!(room.hub.get(&path_of(&expired, "/resolution?wait=30"), &room.bot).status, 200);
    let other = room.hub.agent("other");
    let others = room.hub.raise(&other, "other", "k", "question", yes_or_no());

    let ended = room.hub.register(&room.bot, "bot", json!({"state": "ended"}));
    assert_eq!((&ended["state"], &ended["open_asks"]), (&json!("ended"), &json!(0)));
    let standing = |ask: &Value| {
        let ask = room.hub.ask(ask);
        [ask["state"].clone(), ask["receipt"].clone(), ask["note"].clone()]
    };
    let untold = "the agent ended before it could be told";
    assert_eq!(standing(&open), [json!("withdrawn"), json!(null), json!("the agent is gone")]);
    assert_eq!(standing(&pending), [json!("answered"), json!("undelivered"), json!(untold)]);
    assert_eq!(standing(&expired), [json!("expired"), json!("undelivered"), json!(untold)]);
    assert_eq!(standing(&delivered), [json!("answered"), json!("delivered"), json!(null)]);
    assert_eq!(standing(&withdrawn), [json!("withdrawn"), json!(null), json!("cancelled by the agent")]);
    assert_eq!(room.hub.ask(&others), others);

    let late = room.hub.answer(&open, saying("yes"));
    assert_eq!(late.status, 409);
    assert_eq!(late.body["error"], "this request is no longer open: the agent is gone");
    let agents = |query: &str| room.hub.get(&format!("/api/agents{query}"), &room.hub.operator()).body;
    assert_eq!(agents("")["agents"].as_array().unwrap().len(), 1);
    assert_eq!(agents("?all=true")["agents"].as_array().unwrap().len(), 2);
    assert_eq!(room.resolution(&open).body["state"], "withdrawn", "a token that a person made outlives it");
}

#[test]
fn only_a_driven_agent_takes_commands() {
    let room = Room::new();
    let operator = room.hub.operator();
    let send_to = |agent: &str, what: &str, body: Value| {
        room.hub.post(&format!("/api/agents/{agent}/{what}"), &operator, body)
    };
    let send = |what: &str, body: Value| send_to("bot", what, body);
    let other = room.hub.agent("other");
    let each = [("prompt", json!({"text": "go on"})), ("interrupt", json!({})), ("stop", json!({}))];
    for (what, body) in &each {
        assert_eq!(send(what, body.clone()).status, 404, "{what}");
    }
    for reach in ["hooked", "watched", "script"] {
        room.hub.register(&other, "other", json!({"reach": reach}));
        for (what, body) in &each {
            let refused = send_to("other", what, body.clone());
            let why = "only an agent started by `aye run` takes prompts, interrupts and stops";
            assert_eq!((refused.status, refused.body), (409, error(why)), "{what} {reach}");
        }
    }
    let commands = |query: &str| room.hub.get(&format!("/api/agents/bot/commands{query}"), &room.bot).body;
    room.hub.register(&room.bot, "bot", json!({"reach": "driven"}));
    assert_eq!(commands(""), json!({"commands": []}));
    let numbers: Vec<u64> =
        each.iter().map(|(what, body)| send(what, body.clone()).body["n"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    for text in [json!({}), json!({"text": ""}), json!({"text": 1})] {
        let refused = send("prompt", text);
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!("text")));
    }
    let all = json!([
        {"n": numbers[0], "command": {"type": "prompt", "text": "go on"}},
        {"n": numbers[1], "command": {"type": "interrupt"}},
        {"n": numbers[2], "command": {"type": "stop"}},
    ]);
    assert_eq!(commands(""), json!({"commands": all}));
    assert_eq!(commands(&format!("?after={}", numbers[1])), json!({"commands": [all[2]]}));
    assert_eq!(commands(&format!("?after={}&wait=0", numbers[2])), json!({"commands": []}));

    room.hub.register(&room.bot, "bot", json!({"state": "ended"}));
    assert_eq!(send("stop", json!({})).body, error("this agent has ended"));
}

#[test]
fn a_wait_for_commands_is_woken_by_one() {
    let room = Room::new();
    room.hub.register(&room.bot, "bot", json!({"reach": "driven"}));
    let mut after = 0;
    for _ in 0..20 {
        // Far longer than this client waits for a reply: only a wake-up ends it in time.
        let commands = std::thread::scope(|scope| {
            let path = format!("/api/agents/bot/commands?after={after}&wait=600");
            let wait = scope.spawn(|| {
                let path = path;
                room.hub.get(&path, &room.bot)
            });
            let sent = room.hub.post("/api/agents/bot/interrupt", &room.hub.operator(), json!({}));
            after = sent.body["n"].as_u64().unwrap();
            wait.join().unwrap()
        });
        assert_eq!(commands.body, json!({"commands": [{"n": after, "command": {"type": "interrupt"}}]}));
    }
    let start = Instant::now();
    let none = room.hub.get(&format!("/api/agents/bot/commands?after={after}&wait=1"), &room.bot);
    assert_eq!((none.status, none.body), (200, json!({"commands": []})));
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn an_agent_tells_of_itself_and_keeps_what_it_does_not_mention() {
    let room = Room::new();
    let told = json!({
        "kind": "claude", "reach": "driven", "host": "here", "cwd": "/src", "title": "Fix it",
        "session": "s-1", "pid": std::process::id(), "state": "idle", "cost": 0.1, "asks": "some",
    });
    let agent = room.hub.register(&room.bot, "bot", told);
    let expected = json!({
        "id": "bot", "kind": "claude", "reach": "driven", "host": "here", "cwd": "/src", "title": "Fix it",
        "session": "s-1", "state": "idle", "asks": "some", "cost": 0.1, "open_asks": 0, "outline": null, "created_at": agent["created_at"],
    });
    assert_eq!(agent, expected);
    let later = room.hub.register(&room.bot, "bot", json!({"cost": 0.30000000000000004, "state": "working"}));
    assert_eq!(later, with(&expected, json!({"cost": 0.30000000000000004, "state": "working"})));
    let silent = room.hub.register(&room.bot, "bot", json!({"asks": "nothing"}));
    assert_eq!(silent, with(&later, json!({"asks": "nothing"})));
    let listed = String::from_utf8(room.hub.aye(&["agents"]).stdout).unwrap();
    assert!(listed.contains("asks for nothing"), "{listed}");
    let later = room.hub.register(&room.bot, "bot", json!({"asks": "some"}));
    assert_eq!(room.hub.get("/api/agents/s-1", &room.hub.operator()).body, later);
    for (told, field) in [
        (json!({"state": "lost"}), "state"),
        (json!({"reach": "magic"}), "reach"),
        (json!({"kind": ""}), "kind"),
        (json!({"pid": -1}), "pid"),
        (json!({"asks": "little"}), "asks"),
        (json!({"cost": "1"}), "cost"),
        (json!({"colour": "red"}), "colour"),
    ] {
        let refused = room.hub.put("/api/agents/bot", &room.bot, told.clone());
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!(field)), "{told}");
    }
    assert_eq!(room.hub.get("/api/agents/bot", &room.hub.operator()).body, later);
    assert_eq!(room.hub.put("/api/agents/a%20b", &room.bot, json!({})).status, 404);
}

#[test]
fn the_conversation_is_kept_in_order() {
    let room = Room::new();
    let report =
        |events: Value| room.hub.post("/api/agents/bot/events", &room.bot, json!({"events": events}));
    assert_eq!(report(json!([{"type": "text"}])).status, 404, "an agent first says that it is there");
    room.hub.register(&room.bot, "bot", json!({"session": "s-1"}));
    for bad in [json!(["text"]), json!([1]), json!([{"type": "text"}, null])] {
        let refused = report(bad);
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!("events")));
    }
    assert_eq!(report(json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])).status, 204);
    assert_eq!(report(json!([])).status, 204);
    assert_eq!(report(json!([{"z": 1, "a": [0.1, -0.0, 18446744073709551615u64]}])).status, 204);
    let events = room.hub.get("/api/agents/s-1/events", &room.hub.operator()).body;
    let events = events["events"].as_array().unwrap();
    let plain: Vec<_> = events.iter().map(|numbered| numbered["event"].to_string()).collect();
    let expected = [
        r#"{"type":"text","text":"one"}"#,
        r#"{"type":"text","text":"two"}"#,
        r#"{"z":1,"a":[0.1,-0.0,18446744073709551615]}"#,
    ];
    assert_eq!(plain, expected);
    let after = events[1]["seq"].as_u64().unwrap();
    let rest = room.hub.get(&format!("/api/agents/bot/events?after={after}"), &room.hub.operator()).body;
    assert_eq!(rest, json!({"events": [events[2]]}));
    let one = room.hub.get("/api/agents/bot/events?limit=1", &room.hub.operator()).body;
    assert_eq!(one, json!({"events": [events[0]]}));
}
