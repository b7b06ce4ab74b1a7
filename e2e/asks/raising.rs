//! Raising: once by its key, and only what makes sense.

use super::{Room, error};
use crate::support::{Reply, saying, yes_or_no};
use serde_json::{Value, json};

#[test]
fn an_ask_is_seen_as_it_was_raised() {
    let room = Room::new();
    room.hub.register(&room.bot, "bot", json!({"kind": "claude", "cwd": "/src"}));
    let body = json!({"questions": [{
        "question": "Which store?", "header": "Store", "multi_select": true, "free_text": true,
        "options": [{"label": "SQLite", "description": "embedded", "preview": "x"}, {"label": "a, b", "description": ""}],
    }]});
    let raise = json!({
        "key": "session/toolu_1", "agent": "bot", "kind": "question", "body": body,
        "timeout": "5m", "tool_use_id": "toolu_1",
    });
    let raised = room.try_raise(raise);
    assert_eq!(raised.status, 201);
    let ask = raised.body;
    let expected = json!({
        "id": ask["id"], "key": "session/toolu_1", "agent": "bot", "cwd": "/src", "tool_use_id": "toolu_1",
        "sub_agent": null, "kind": "question", "digest": ask["digest"], "created_at": ask["created_at"],
        "deadline": ask["deadline"], "body": body, "display": null, "state": "open", "receipt": null, "answer": null,
        "by": null, "ended_at": null, "note": null,
    });
    assert_eq!(ask, expected);
    let time = |field: &str| ask[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(time("deadline").duration_since(time("created_at")), jiff::SignedDuration::from_mins(5));
    assert_eq!(room.hub.ask(&ask), ask);
    assert_eq!(room.all_asks(), json!({"asks": [ask]}));
    let list = |query: &str| room.hub.get(&format!("/api/asks?{query}"), &room.hub.operator()).body;
    assert_eq!(list("state=open"), json!({"asks": [ask]}));
    assert_eq!(list("state=answered"), json!({"asks": []}));
    assert_eq!(list("agent=other"), json!({"asks": []}));
}

#[test]
fn an_agent_never_seen_is_registered_as_a_script() {
    let room = Room::new();
    room.question("k");
    let agent = room.hub.get("/api/agents/bot", &room.hub.operator()).body;
    let expected = json!({
        "id": "bot", "kind": "script", "reach": "script", "host": "", "cwd": "", "title": "", "session": null,
        "state": "waiting", "asks": "unknown", "cost": null, "open_asks": 1, "outline": null, "created_at": agent["created_at"],
    });
    assert_eq!(agent, expected);
}

#[test]
fn the_same_key_again_is_the_same_ask_whatever_became_of_it() {
    let room = Room::new();
    let raise = json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no()});
    let first = room.try_raise(raise.clone());
    assert_eq!(first.status, 201);
    let again = room.try_raise(raise.clone());
    assert_eq!((again.status, &again.body), (200, &first.body));

    let answered = room.hub.answer(&first.body, saying("yes")).body;
    let again = room.try_raise(raise.clone());
    assert_eq!((again.status, &again.body), (200, &answered));

    let other = room.hub.agent("other");
    let theirs = json!({"key": "k", "agent": "other", "kind": "question", "body": yes_or_no()});
    let theirs = room.hub.post("/api/asks", &other, theirs);
    assert_eq!((theirs.status, &theirs.body["state"]), (201, &json!("open")), "a key is the agent's own");
    assert_ne!(theirs.body["id"], first.body["id"]);

    // What was approved in one folder is not approved in another.
    room.hub.register(&room.bot, "bot", json!({"cwd": "/elsewhere"}));
    assert_eq!(room.try_raise(raise).status, 409);
}

#[test]
fn the_same_key_with_another_body_is_refused() {
    let room = Room::new();
    let ask = room.question("k");
    let other =
        json!({"questions": [{"question": "Go on!", "options": [{"label": "yes"}, {"label": "no"}]}]});
    for (kind, body) in [("question", other), ("plan", json!({"plan": "Go on?"}))] {
        let reply = room.try_raise(json!({"key": "k", "agent": "bot", "kind": kind, "body": body}));
        let why = "this key was already used for another request";
        assert_eq!((reply.status, reply.body), (409, error(why)));
    }
    assert_eq!(room.hub.answer(&ask, saying("yes")).status, 200);
    let reply = room.try_raise(json!({"key": "k", "agent": "bot", "kind": "plan", "body": {"plan": "x"}}));
    assert_eq!(reply.status, 409, "nor is an old approval returned for something else");
}

#[test]
fn raised_many_times_at_once_an_ask_is_still_one() {
    let room = Room::new();
    let raise =
        || room.try_raise(json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no()}));
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..16).map(|_| scope.spawn(raise)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 15);
    assert!(replies.iter().all(|reply| reply.body == replies[0].body));
}

#[test]
fn a_timeout_must_be_one() {
    let room = Room::new();
    for timeout in
        [json!("soon"), json!("0s"), json!(0), json!("-5s"), json!(-5), json!(1.5), json!(true), json!([])]
    {
        let raise =
            json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no(), "timeout": timeout});
        let reply = room.try_raise(raise);
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!("timeout")), "{timeout}");
    }
    for (i, timeout) in
        [json!("5m"), json!("1h 30m"), json!(300), json!(null), json!(i64::MAX)].into_iter().enumerate()
    {
        let raise = json!({"key": i.to_string(), "agent": "bot", "kind": "question", "body": yes_or_no(), "timeout": timeout});
        assert_eq!(room.try_raise(raise).status, 201, "{timeout}");
    }
}

#[test]
fn a_raise_that_makes_no_sense_raises_nothing() {
    let room = Room::new();
    let question = |question: Value| json!({"questions": [question]});
    let option = |label: &str| json!({"label": label});
    let cases = [
        (json!({"key": ""}), "key"),
        (json!({"key": "a b"}), "key"),
        (json!({"key": "x".repeat(257)}), "key"),
        (json!({"key": null}), "key"),
        (json!({"kind": "order"}), "kind"),
        (json!({"body": null}), "body"),
        (json!({"body": {}}), "body.questions"),
        (json!({"body": {"questions": []}}), "body"),
        (json!({"body": question(json!({"question": "?"}))}), "body.questions[0]"),
        (json!({"body": question(json!({"question": " ", "free_text": true}))}), "body.questions[0]"),
        (
            json!({"body": question(json!({"question": "?", "options": [option("a"), option("a")]}))}),
            "body.questions[0]",
        ),
        (
            json!({"body": question(json!({"question": "?", "options": [{"text": "a"}]}))}),
            "body.questions[0].options[0].text",
        ),
        (json!({"kind": "plan", "body": {"plan": " "}}), "body.plan"),
        (json!({"kind": "permission", "body": {"tool": "Bash"}}), "body.input"),
        (json!({"kind": "permission", "body": {"tool": "Bash", "input": {}, "scopes": []}}), "body"),
        (json!({"colour": "red"}), "colour"),
    ];
    for (changes, field) in cases {
        let mut raise = json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no()});
        raise.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let reply = room.try_raise(raise);
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{changes}: {}", reply.body);
    }
    assert_eq!(room.all_asks(), json!({"asks": []}));
}
