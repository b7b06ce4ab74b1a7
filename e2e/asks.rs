//! The life of an ask over HTTP: what is taken, what is refused, and that a refusal changes nothing.

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Hub, Reply, path_of, saying, yes_or_no};

/// A hub with one agent, as most tests need it.
struct Room {
    hub: Hub,
    bot: String,
}

impl Room {
    fn new() -> Self {
        let hub = Hub::start();
        let bot = hub.agent("bot");
        Self { hub, bot }
    }

    fn raise(&self, key: &str, kind: &str, body: Value) -> Value {
        self.hub.raise(&self.bot, "bot", key, kind, body)
    }

    fn question(&self, key: &str) -> Value {
        self.raise(key, "question", yes_or_no())
    }

    fn try_raise(&self, raise: Value) -> Reply {
        self.hub.post("/api/asks", &self.bot, raise)
    }

    fn try_answer(&self, ask: &Value, call: Value) -> Reply {
        self.hub.post(&path_of(ask, "/answer"), &self.hub.operator(), call)
    }

    fn resolution(&self, ask: &Value) -> Reply {
        self.hub.get(&path_of(ask, "/resolution"), &self.bot)
    }

    fn receipt(&self, ask: &Value, receipt: &str) -> Reply {
        self.hub.post(&path_of(ask, "/receipt"), &self.bot, json!({"receipt": receipt}))
    }

    fn withdraw(&self, ask: &Value, withdrawal: Value) -> Reply {
        self.hub.post(&path_of(ask, "/withdraw"), &self.bot, withdrawal)
    }

    fn all_asks(&self) -> Value {
        self.hub.get("/api/asks", &self.hub.operator()).body
    }
}

/// An ask with some fields changed, and all others as they were.
fn with(ask: &Value, changes: Value) -> Value {
    let mut ask = ask.clone();
    for (field, value) in changes.as_object().unwrap() {
        assert!(ask.get(field).is_some(), "an ask has no {field}");
        ask[field] = value.clone();
    }
    ask
}

fn error(why: &str) -> Value {
    json!({"error": why})
}

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
        "kind": "question", "digest": ask["digest"], "created_at": ask["created_at"],
        "deadline": ask["deadline"], "body": body, "state": "open", "receipt": null, "answer": null,
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
        "state": "waiting", "cost": null, "open_asks": 1, "created_at": agent["created_at"],
    });
    assert_eq!(agent, expected);
}

#[test]
fn an_unknown_ask_is_not_found() {
    let room = Room::new();
    let unknown = json!({"id": "0000000000"});
    let call = json!({"answer": saying("yes"), "digest": "sha256:0"});
    let replies = [
        room.hub.get(&path_of(&unknown, ""), &room.hub.operator()),
        room.try_answer(&unknown, call),
        room.resolution(&unknown),
        room.receipt(&unknown, "delivered"),
        room.withdraw(&unknown, json!({"why": "cancelled"})),
    ];
    for reply in replies {
        assert_eq!((reply.status, reply.body), (404, error("there is no such ask")));
    }
    for id in ["%20", "a%2Fb", "%ff", "%00", &"x".repeat(65), "..%2Ftokens"] {
        let reply = room.hub.get(&format!("/api/asks/{id}"), &room.hub.operator());
        assert_eq!((reply.status, reply.body), (404, error("there is nothing by that name")), "{id}");
    }
}

#[test]
fn a_second_answer_is_refused_and_names_the_first() {
    let room = Room::new();
    let ask = room.question("k");
    let first = room.hub.answer(&ask, saying("yes"));
    assert_eq!(first.status, 200);
    let by = json!({"name": room.hub.person(), "surface": "api"});
    let answered = with(
        &ask,
        json!({
            "state": "answered", "receipt": "pending", "answer": saying("yes"), "by": by,
            "ended_at": first.body["ended_at"],
        }),
    );
    assert_eq!(first.body, answered);

    let name = room.hub.person();
    let why = format!("this ask was already answered by {} (api)", name.as_str().unwrap());
    let late = [
        json!({"answer": saying("no"), "digest": ask["digest"]}),
        json!({"answer": saying("yes"), "digest": ask["digest"]}),
        json!({"answer": saying("no"), "digest": "sha256:0"}),
        json!({"answer": {"nonsense": 1}, "digest": ask["digest"]}),
        json!({"answer": saying("maybe"), "digest": ask["digest"], "key": "k"}),
    ];
    for call in late {
        let second = room.try_answer(&ask, call.clone());
        assert_eq!((second.status, second.body), (409, json!({"error": why, "ask": answered})), "{call}");
    }
    assert_eq!(room.hub.ask(&ask), answered);
}

#[test]
fn of_many_answers_at_once_exactly_one_counts() {
    let room = Room::new();
    let ask = room.question("k");
    let answer = |label: &'static str| room.hub.answer(&ask, saying(label));
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let callers: Vec<_> =
            (0..16).map(|i| scope.spawn(move || answer(if i % 2 == 0 { "yes" } else { "no" }))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!(won.len(), 1);
    for reply in lost {
        assert_eq!((reply.status, &reply.body["ask"]), (409, &won[0].body));
    }
    assert_eq!(room.hub.ask(&ask), won[0].body);
}

#[test]
fn an_answer_to_something_else_than_was_shown_is_refused() {
    let room = Room::new();
    let ask = room.question("k");
    let other = room.raise("other", "plan", json!({"plan": "p"}));
    for digest in [&other["digest"], &json!("sha256:0"), &json!("")] {
        let reply = room.try_answer(&ask, json!({"answer": saying("yes"), "digest": digest}));
        let why = "the ask is not the one that was shown: look at it again before answering";
        assert_eq!((reply.status, reply.body), (412, json!({"error": why, "ask": ask})));
    }
    for (call, field) in [
        (json!({"answer": saying("yes")}), "digest"),
        (json!({"answer": saying("yes"), "digest": null}), "digest"),
        (json!({"digest": ask["digest"]}), "answer"),
        (json!({"answer": saying("yes"), "digest": ask["digest"], "key": ""}), "key"),
        (json!({"answer": saying("yes"), "digest": ask["digest"], "force": true}), "force"),
    ] {
        let reply = room.try_answer(&ask, call.clone());
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{call}");
    }
    assert_eq!(room.hub.ask(&ask), ask);
}

#[test]
fn an_invalid_answer_names_the_field_and_changes_nothing() {
    let room = Room::new();
    let questions = json!({"questions": [
        {"question": "Store?", "header": "Pick", "options": [{"label": "SQLite"}, {"label": "Postgres"}]},
        {"question": "Features?", "header": "Pick", "options": [{"label": "dark"}, {"label": "i18n"}],
         "multi_select": true, "free_text": true},
    ]});
    let permission = json!({
        "tool": "Bash", "input": {"command": "ls"},
        "scopes": [{"scope": "once"}, {"scope": "session", "rule": "ls for this session"}],
    });
    let question = room.raise("q", "question", questions);
    let permission = room.raise("p", "permission", permission);
    let plan = room.raise("l", "plan", json!({"plan": "1. do it"}));
    let (ok, skip) = (json!({"selected": ["SQLite"]}), json!({"skip": true}));
    let cases = [
        (&question, json!(null), "answer"),
        (&question, json!([]), "answer"),
        (&question, json!({}), "answer.answers"),
        (&question, json!({"answers": []}), "answer.answers"),
        (&question, json!({"answers": [ok]}), "answer.answers"),
        (&question, json!({"answers": [ok, skip, skip]}), "answer.answers"),
        (&question, json!({"answers": [{}, skip]}), "answer.answers[0].selected"),
        (&question, json!({"answers": [{"selected": []}, skip]}), "answer.answers[0].selected"),
        (&question, json!({"answers": [{"selected": ["sqlite"]}, skip]}), "answer.answers[0].selected"),
        (
            &question,
            json!({"answers": [{"selected": ["SQLite", "Postgres"]}, skip]}),
            "answer.answers[0].selected",
        ),
        (&question, json!({"answers": [{"text": "mine"}, skip]}), "answer.answers[0].text"),
        (&question, json!({"answers": [{"selected": "SQLite"}, skip]}), "answer.answers[0].selected"),
        (
            &question,
            json!({"answers": [{"selected": ["SQLite"], "skip": true}, skip]}),
            "answer.answers[0].skip",
        ),
        (&question, json!({"answers": [{"skip": false}, skip]}), "answer.answers[0].skip"),
        (&question, json!({"answers": [ok, {"selected": ["dark", "dark"]}]}), "answer.answers[1].selected"),
        (&question, json!({"answers": [ok, {"selected": ["dark"], "text": " "}]}), "answer.answers[1].text"),
        (
            &question,
            json!({"answers": [ok, {"selected": ["dark"], "colour": 1}]}),
            "answer.answers[1].colour",
        ),
        (&question, json!({"answers": [ok, skip], "response": "x"}), "answer.answers"),
        (&question, json!({"response": ""}), "answer.response"),
        (&question, json!({"response": "x", "message": "y"}), "answer.message"),
        (&question, json!({"decision": "allow"}), "answer.decision"),
        (&permission, json!({}), "answer.decision"),
        (&permission, json!({"decision": "yes"}), "answer.decision"),
        (&permission, json!({"decision": "outline"}), "answer.decision"),
        (&permission, json!({"decision": true}), "answer.decision"),
        (&permission, json!({"decision": "allow"}), "answer.scope"),
        (&permission, json!({"decision": "allow", "scope": "always"}), "answer.scope"),
        (&permission, json!({"decision": "allow", "scope": "once", "input": "ls"}), "answer.input"),
        (&permission, json!({"decision": "allow", "scope": "once", "message": "x"}), "answer.message"),
        (&permission, json!({"decision": "deny", "message": ""}), "answer.message"),
        (&permission, json!({"decision": "deny", "scope": "once"}), "answer.scope"),
        (&permission, saying("yes"), "answer.decision"),
        (&plan, json!({"decision": "allow", "scope": "once"}), "answer.scope"),
        (&plan, json!({"decision": "allow", "plan": ""}), "answer.plan"),
        (&plan, json!({"decision": "outline", "message": "x"}), "answer.message"),
        (&plan, json!("allow"), "answer"),
    ];
    for (ask, answer, field) in cases {
        let reply = room.hub.answer(ask, answer.clone());
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{answer}: {}", reply.body);
        assert!(reply.body["error"].as_str().is_some_and(|why| !why.is_empty()), "{answer}");
    }
    for ask in [&question, &permission, &plan] {
        assert_eq!(room.hub.ask(ask), *ask);
        assert_eq!(room.resolution(ask).status, 204);
    }
}

#[test]
fn each_form_of_answer_reaches_the_agent_as_it_was_given() {
    let room = Room::new();
    let questions = || {
        json!({"questions": [
            {"question": "Store?", "header": "Pick", "options": [{"label": "a, b"}, {"label": "c"}], "free_text": true},
            {"question": "More?", "header": "Pick", "options": [{"label": "d"}], "multi_select": true, "free_text": true},
        ]})
    };
    let permission = || json!({"tool": "Bash", "input": {"command": "ls"}, "scopes": [{"scope": "once"}, {"scope": "session"}]});
    let plan = || json!({"plan": "p"});
    let cases = [
        (
            "question",
            questions(),
            json!({"answers": [{"selected": ["a, b"]}, {"selected": ["d"], "text": "e", "notes": "f"}]}),
            "answered",
            json!(null),
        ),
        (
            "question",
            questions(),
            json!({"answers": [{"text": "z"}, {"skip": true}]}),
            "answered",
            json!(null),
        ),
        ("question", questions(), json!({"response": "neither"}), "answered", json!("neither")),
        ("question", questions(), json!({"skip": true}), "declined", json!(null)),
        ("question", questions(), json!({"skip": true, "message": "later"}), "declined", json!("later")),
        ("permission", permission(), json!({"decision": "allow", "scope": "session"}), "allow", json!(null)),
        (
            "permission",
            permission(),
            json!({"decision": "allow", "scope": "once", "input": {"command": "ls -l"}}),
            "allow",
            json!(null),
        ),
        (
            "permission",
            permission(),
            json!({"decision": "deny", "message": "no", "interrupt": true}),
            "deny",
            json!("no"),
        ),
        ("plan", plan(), json!({"decision": "allow"}), "allow", json!(null)),
        ("plan", plan(), json!({"decision": "allow", "plan": "q"}), "allow", json!(null)),
        ("plan", plan(), json!({"decision": "deny", "message": "no"}), "deny", json!("no")),
        ("plan", plan(), json!({"decision": "outline"}), "outline", json!(null)),
    ];
    for (i, (kind, body, answer, decision, message)) in cases.into_iter().enumerate() {
        let ask = room.raise(&format!("k{i}"), kind, body);
        let recorded = room.hub.answer(&ask, answer.clone());
        assert_eq!((recorded.status, &recorded.body["answer"]), (200, &answer));
        let outcome = json!({"decision": decision, "answer": answer, "message": message});
        assert_eq!(room.resolution(&ask).body, json!({"state": "answered", "outcome": outcome}));
    }
}

#[test]
fn the_same_key_again_is_the_same_ask_whatever_became_of_it() {
    let room = Room::new();
    let raise = json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no()});
    let first = room.try_raise(raise.clone());
    assert_eq!(first.status, 201);
    let again = room.try_raise(raise.clone());
    assert_eq!((again.status, &again.body), (200, &first.body));
    // An agent that moved on to another folder still means the same ask.
    room.hub.register(&room.bot, "bot", json!({"cwd": "/elsewhere"}));
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
}

#[test]
fn the_same_key_with_another_body_is_refused() {
    let room = Room::new();
    let ask = room.question("k");
    let other =
        json!({"questions": [{"question": "Go on!", "options": [{"label": "yes"}, {"label": "no"}]}]});
    for (kind, body) in [("question", other), ("plan", json!({"plan": "Go on?"}))] {
        let reply = room.try_raise(json!({"key": "k", "agent": "bot", "kind": kind, "body": body}));
        let why = "this key was used for another ask, and a key names one ask for ever";
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
fn an_answer_sent_again_under_its_key_is_not_answered_again() {
    let room = Room::new();
    let ask = room.question("k");
    let call = |label: &str, key: &str| json!({"answer": saying(label), "digest": ask["digest"], "key": key});
    let first = room.try_answer(&ask, call("yes", "act-1"));
    assert_eq!(first.status, 200);
    let again = room.try_answer(&ask, call("yes", "act-1"));
    assert_eq!((again.status, &again.body), (200, &first.body));
    let other = [
        call("no", "act-1"),
        call("yes", "act-2"),
        json!({"answer": saying("yes"), "digest": ask["digest"]}),
    ];
    for call in other {
        let refused = room.try_answer(&ask, call.clone());
        assert_eq!((refused.status, &refused.body["ask"]), (409, &first.body), "{call}");
    }
    assert_eq!(room.receipt(&ask, "delivered").status, 200);
    let again = room.try_answer(&ask, call("yes", "act-1"));
    assert_eq!((again.status, &again.body["receipt"]), (200, &json!("delivered")));
}

#[test]
fn an_ask_that_nobody_answers_in_time_expires_and_says_so() {
    let room = Room::new();
    let raise = json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no(), "timeout": "1s"});
    let ask = room.try_raise(raise.clone()).body;
    let waited = Instant::now();
    let resolution = room.hub.get(&path_of(&ask, "/resolution?wait=30"), &room.bot);
    assert!(waited.elapsed() > Duration::from_millis(500), "it was not open at all");
    assert!(waited.elapsed() < Duration::from_secs(5), "it expired late");
    let message = "Nobody answered in time. This was not approved; do not take it as an answer.";
    let outcome = json!({"decision": "expired", "answer": null, "message": message});
    assert_eq!((resolution.status, resolution.body), (200, json!({"state": "expired", "outcome": outcome})));

    let late = room.hub.answer(&ask, saying("yes"));
    let expired = with(
        &ask,
        json!({
            "state": "expired", "receipt": "pending", "note": "nobody answered in time",
            "ended_at": late.body["ask"]["ended_at"],
        }),
    );
    let why = "nobody answered in time, and the agent has been told so";
    assert_eq!((late.status, late.body), (410, json!({"error": why, "ask": expired})));
    assert_eq!(room.hub.answer(&ask, json!({"nonsense": true})).status, 410);
    assert_eq!(room.withdraw(&ask, json!({"why": "cancelled"})).status, 409);
    assert_eq!(room.try_raise(raise).body, expired);
    let delivered = room.receipt(&ask, "delivered");
    assert_eq!((delivered.status, &delivered.body["receipt"]), (200, &json!("delivered")));
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

/// Sends a body as these bytes.
fn post_bytes(room: &Room, path: &str, token: &str, body: &[u8]) -> Reply {
    let token = format!("Bearer {token}");
    let headers = [("Authorization", &*token), ("Content-Type", "application/json")];
    room.hub.call("POST", path, &headers, Some(body))
}

/// A value made exactly as long as wanted by one string in it, which is `"…"` before.
fn as_long_as(length: usize, value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let (before, after) = text.split_once('…').unwrap();
    let filling = "x".repeat(length - before.len() - after.len());
    format!("{before}{filling}{after}").into_bytes()
}

#[test]
fn a_body_may_have_256_kilobytes_and_a_raise_four_megabytes() {
    const ORDINARY: usize = 256 * 1024;
    const LARGE: usize = 4 * 1024 * 1024;
    let room = Room::new();
    let ask = room.question("k");
    let too_large = |limit: usize| error(&format!("the body may have at most {limit} bytes"));
    let call = json!({"answer": {"response": "…"}, "digest": ask["digest"]});
    let answer =
        |bytes| post_bytes(&room, &path_of(&ask, "/answer"), &room.hub.operator(), &as_long_as(bytes, &call));
    for length in [ORDINARY + 1, 10 * ORDINARY] {
        let refused = answer(length);
        assert_eq!((refused.status, refused.body), (413, too_large(ORDINARY)));
    }
    assert_eq!(room.hub.ask(&ask), ask);
    assert_eq!(answer(ORDINARY).status, 200);

    let raise = |key: &str, length| {
        let raise = json!({"key": key, "agent": "bot", "kind": "plan", "body": {"plan": "…"}});
        post_bytes(&room, "/api/asks", &room.bot, &as_long_as(length, &raise))
    };
    assert_eq!(raise("a", 3_000_000).status, 201);
    assert_eq!(raise("b", LARGE).status, 201);
    for length in [LARGE + 1, 4 * LARGE] {
        let refused = raise("c", length);
        assert_eq!((refused.status, refused.body), (413, too_large(LARGE)));
    }
    // Without a length said beforehand, the limit is the same.
    let token = &room.bot;
    let mut request = format!(
        "POST /api/agents/bot/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        room.hub.address
    );
    let chunk = "x".repeat(0x10000);
    for _ in 0..5 {
        request += &format!("10000\r\n{chunk}\r\n");
    }
    let refused = room.hub.raw(format!("{request}0\r\n\r\n").as_bytes());
    assert_eq!((refused.status, refused.body), (413, too_large(ORDINARY)));
    assert_eq!(room.all_asks()["asks"].as_array().unwrap().len(), 3);
}

#[test]
fn json_that_different_readers_read_differently_is_refused() {
    let room = Room::new();
    let raise =
        |body: &str| format!(r#"{{"key":"k","agent":"bot","kind":"plan","body":{body}}}"#).into_bytes();
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep_objects = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("no JSON", b"key=k".to_vec()),
        ("cut short", br#"{"key":"k""#.to_vec()),
        ("something after the end", [raise(r#"{"plan":"x"}"#), b"{}".to_vec()].concat()),
        ("a byte order mark", ["\u{feff}".as_bytes(), &raise(r#"{"plan":"x"}"#)].concat()),
        ("100,000 deep arrays", deep(100_000).into_bytes()),
        ("100,000 deep arrays never closed", "[".repeat(100_000).into_bytes()),
        ("100,000 deep objects", raise(&deep_objects)),
        ("a key twice", br#"{"key":"a","key":"k","agent":"bot","kind":"plan","body":{"plan":"x"}}"#.to_vec()),
        ("a key twice, deeper", raise(r#"{"plan":"x","plan":"rm -rf /"}"#)),
        ("a key twice, spelled differently", raise(r#"{"plan":"x","pl\u0061n":"y"}"#)),
        (
            "bytes that are not UTF-8",
            raise(r#"{"plan":"?"}"#).into_iter().map(|b| if b == b'?' { 0xff } else { b }).collect(),
        ),
        ("an overlong encoding", [b"{\"plan\":\"".as_slice(), b"\xc0\xaf", b"\"}"].concat()),
        ("UTF-16", "{\"key\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("half a surrogate", raise(r#"{"plan":"\ud800"}"#)),
        ("a raw control character", raise("{\"plan\":\"a\nb\"}")),
        ("no number", raise(r#"{"plan":NaN}"#)),
        ("a number beyond all bounds", raise(r#"{"plan":1e999}"#)),
    ];
    for (what, bytes) in cases {
        let reply = post_bytes(&room, "/api/asks", &room.bot, &bytes);
        assert_eq!(reply.status, 400, "{what}: {}", reply.body);
        assert!(reply.body["error"].as_str().unwrap().starts_with("not acceptable JSON: "), "{what}");
    }
    assert_eq!(room.all_asks(), json!({"asks": []}));
    let taken = post_bytes(&room, "/api/asks", &room.bot, &raise(r#"{"plan":"\u0000\ud83d\ude00 ü"}"#));
    assert_eq!((taken.status, &taken.body["body"]), (201, &json!({"plan": "\0😀 ü"})));
}

#[test]
fn what_is_taken_can_be_read_by_everybody_however_deep_it_is() {
    let room = Room::new();
    let mut taken = 0;
    for depth in 1..140 {
        let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let raise = format!(
            r#"{{"key":"k{depth}","agent":"bot","kind":"permission","body":{{"tool":"T","input":{{"a":{nested}}}}}}}"#
        );
        let event = format!(r#"{{"events":[{{"a":{nested}}}]}}"#);
        let raised = post_bytes(&room, "/api/asks", &room.bot, raise.as_bytes()).status;
        assert!([201, 400].contains(&raised), "{depth}: {raised}");
        if taken == 0 && raised == 400 {
            taken = depth - 1;
        }
        let reported = post_bytes(&room, "/api/agents/bot/events", &room.bot, event.as_bytes()).status;
        assert!([204, 400].contains(&reported), "{depth}: {reported}");
    }
    assert!(taken > 32, "only {taken} levels are taken");
    let list = room.hub.aye(&["list", "--json"]);
    assert!(list.status.success(), "{list:?}");
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list["asks"].as_array().unwrap().len(), taken);
    let mut follower = room.hub.follow("?after=0", &room.hub.operator());
    for _ in 0..taken {
        follower.next();
    }
}

#[test]
fn a_wait_for_the_end_is_woken_by_it() {
    let room = Room::new();
    for i in 0..20 {
        let ask = room.question(&format!("k{i}"));
        let start = Instant::now();
        let resolution = std::thread::scope(|scope| {
            let wait = scope.spawn(|| room.hub.get(&path_of(&ask, "/resolution?wait=30"), &room.bot));
            assert_eq!(room.hub.answer(&ask, saying("no")).status, 200);
            wait.join().unwrap()
        });
        let outcome = json!({"decision": "answered", "answer": saying("no"), "message": null});
        assert_eq!(
            (resolution.status, resolution.body),
            (200, json!({"state": "answered", "outcome": outcome}))
        );
        assert!(start.elapsed() < Duration::from_secs(10), "the wait was not woken");
    }
}

#[test]
fn a_wait_that_ends_first_says_nothing() {
    let room = Room::new();
    let ask = room.question("k");
    let start = Instant::now();
    let reply = room.hub.get(&path_of(&ask, "/resolution?wait=1"), &room.bot);
    assert_eq!((reply.status, reply.body), (204, Value::Null));
    assert!(start.elapsed() >= Duration::from_secs(1));
    let start = Instant::now();
    assert_eq!(room.resolution(&ask).status, 204);
    assert_eq!(room.hub.get(&path_of(&ask, "/resolution?wait=0"), &room.bot).status, 204);
    assert!(start.elapsed() < Duration::from_secs(1));
    for wait in ["-1", "soon", "1.5", "99999999999999999999"] {
        assert_eq!(room.hub.get(&path_of(&ask, &format!("/resolution?wait={wait}")), &room.bot).status, 400);
    }
}

#[test]
fn a_wait_outlives_the_hub_that_was_asked() {
    let mut hub = Hub::start();
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    hub.kill();
    hub.restart();
    let resolution = hub.get(&path_of(&ask, "/resolution?wait=30"), &bot);
    assert_eq!((resolution.status, &resolution.body["outcome"]["answer"]), (200, &saying("yes")));
}

#[test]
fn an_ask_settled_in_the_agents_terminal_is_withdrawn_with_its_answer() {
    let room = Room::new();
    let ask = room.question("k");
    let invalid = room.withdraw(&ask, json!({"why": "terminal", "answer": saying("maybe")}));
    assert_eq!((invalid.status, &invalid.body["field"]), (422, &json!("answer.answers[0].selected")));
    for why in [json!({}), json!({"why": "bored"}), json!({"why": "cancelled", "by": "me"})] {
        assert_eq!(room.withdraw(&ask, why.clone()).status, 422, "{why}");
    }
    assert_eq!(room.hub.ask(&ask), ask);

    let withdrawal = json!({"why": "terminal", "answer": saying("yes")});
    let gone = room.withdraw(&ask, withdrawal.clone());
    let withdrawn = with(
        &ask,
        json!({
            "state": "withdrawn", "answer": saying("yes"), "note": "answered in the agent's own terminal",
            "ended_at": gone.body["ended_at"],
        }),
    );
    assert_eq!((gone.status, &gone.body), (200, &withdrawn));
    assert_eq!(room.withdraw(&ask, withdrawal).body, withdrawn, "saying it again is not an error");
    assert_eq!(room.withdraw(&ask, json!({"why": "gone"})).status, 409);

    let late = room.hub.answer(&ask, saying("no"));
    let why = "this ask is no longer open: answered in the agent's own terminal";
    assert_eq!((late.status, late.body), (409, json!({"error": why, "ask": withdrawn})));
    let outcome =
        json!({"decision": "withdrawn", "answer": null, "message": "answered in the agent's own terminal"});
    assert_eq!(room.resolution(&ask).body, json!({"state": "withdrawn", "outcome": outcome}));
    assert_eq!(room.receipt(&ask, "delivered").status, 409, "nothing went to the agent");
}

#[test]
fn an_answered_ask_cannot_be_withdrawn() {
    let room = Room::new();
    let ask = room.question("k");
    let answered = room.hub.answer(&ask, saying("yes")).body;
    let late = room.withdraw(&ask, json!({"why": "cancelled"}));
    assert_eq!((late.status, &late.body["ask"]), (409, &answered));
    assert_eq!(room.hub.ask(&ask), answered);
}

#[test]
fn receipts_go_forwards_only() {
    let room = Room::new();
    let after = |reports: &[&str]| {
        let ask = room.question(&format!("k{}", reports.join("-")));
        assert_eq!(room.receipt(&ask, reports[0]).status, 409, "nothing to acknowledge while it is open");
        room.hub.answer(&ask, saying("yes"));
        reports.iter().map(|report| room.receipt(&ask, report).status).collect::<Vec<_>>()
    };
    assert_eq!(after(&["delivered", "delivered", "confirmed", "confirmed"]), [200; 4]);
    assert_eq!(after(&["confirmed", "delivered"]), [200, 409]);
    assert_eq!(after(&["confirmed", "disputed"]), [200, 409]);
    assert_eq!(after(&["delivered", "pending"]), [200, 409]);
    assert_eq!(after(&["delivered", "undelivered"]), [200, 409]);
    assert_eq!(after(&["delivered", "disputed", "confirmed"]), [200, 200, 409]);
    assert_eq!(after(&["delivered", "superseded", "delivered"]), [200, 200, 409]);
    assert_eq!(after(&["undelivered", "delivered"]), [200, 409]);
    assert_eq!(after(&["unknown", "delivered", "confirmed"]), [200, 409, 200]);
    assert_eq!(after(&["delivered", "unknown", "disputed"]), [200, 200, 200]);
}

#[test]
fn a_receipt_shows_what_it_was_concluded_from() {
    let room = Room::new();
    let ask = room.question("k");
    let answered = room.hub.answer(&ask, saying("yes")).body;
    let report = |receipt: &str, evidence: &str| {
        let report = json!({"receipt": receipt, "evidence": evidence});
        room.hub.post(&path_of(&ask, "/receipt"), &room.bot, report)
    };
    let delivered = report("delivered", "written to the pipe");
    assert_eq!(
        delivered.body,
        with(&answered, json!({"receipt": "delivered", "note": "written to the pipe"}))
    );
    let disputed = report("disputed", "the transcript says no").body;
    assert_eq!(disputed, with(&answered, json!({"receipt": "disputed", "note": "the transcript says no"})));
    let refused = report("delivered", "written again");
    let why = "the receipt is disputed and cannot become delivered";
    assert_eq!((refused.status, refused.body), (409, json!({"error": why, "ask": disputed})));
    for receipt in [json!({}), json!({"receipt": "lost"}), json!({"receipt": null})] {
        let reply = room.hub.post(&path_of(&ask, "/receipt"), &room.bot, receipt);
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!("receipt")));
    }
    assert_eq!(room.hub.ask(&ask), disputed);
}

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
    assert_eq!(late.body["error"], "this ask is no longer open: the agent is gone");
    let agents = |query: &str| room.hub.get(&format!("/api/agents{query}"), &room.hub.operator()).body;
    assert_eq!(agents("")["agents"].as_array().unwrap().len(), 1);
    assert_eq!(agents("?all=true")["agents"].as_array().unwrap().len(), 2);
    assert_eq!(room.resolution(&open).status, 401, "its token went with it");
    assert_eq!(room.hub.agent("bot"), room.bot, "and comes back with it");
    assert_eq!(room.resolution(&open).body["state"], "withdrawn");
}

/// Two questions at once, as an agent puts them through its own tool.
fn two_questions() -> Value {
    json!({"questions": [
        {"question": "Store?", "header": "Store", "options": [{"label": "SQLite", "description": "embedded"}, {"label": "Postgres"}]},
        {"question": "Features?", "header": "More", "options": [{"label": "Dark mode"}, {"label": "i18n"}],
         "multi_select": true, "free_text": true},
    ]})
}

impl Room {
    fn tool_call(&self, tool: &str) -> Value {
        let raise = json!({
            "key": format!("key-of-{tool}"), "agent": "bot", "kind": "question", "body": two_questions(),
            "tool_use_id": tool,
        });
        let raised = self.try_raise(raise);
        assert_eq!(raised.status, 201, "{}", raised.body);
        raised.body
    }

    fn pending(&self, agent: &str) -> Value {
        self.hub.get(&format!("/api/agents/{agent}/pending-questions"), &self.hub.operator()).body
    }

    fn answer_question(&self, agent: &str, answer: Value) -> Reply {
        self.hub.post(&format!("/api/agents/{agent}/answer-question"), &self.hub.operator(), answer)
    }
}

#[test]
fn pending_questions_are_found_by_agent_or_session() {
    let room = Room::new();
    let nothing = json!({"pending": false, "questions": []});
    assert_eq!(room.pending("nobody"), nothing);
    room.hub.register(&room.bot, "bot", json!({"kind": "claude", "session": "5e55-1011"}));
    assert_eq!(room.pending("bot"), nothing);
    let ask = room.tool_call("toolu_1");
    room.raise("plan", "plan", json!({"plan": "not a question"}));
    let expected = json!({"pending": true, "questions": [{
        "toolId": "toolu_1", "sessionId": "5e55-1011", "timestamp": ask["created_at"],
        "questions": [
            {"question": "Store?", "header": "Store", "multiSelect": false, "options": [
                {"label": "SQLite", "description": "embedded"}, {"label": "Postgres", "description": ""},
            ]},
            {"question": "Features?", "header": "More", "multiSelect": true, "options": [
                {"label": "Dark mode", "description": ""}, {"label": "i18n", "description": ""},
            ]},
        ],
    }]});
    assert_eq!(room.pending("bot"), expected);
    assert_eq!(room.pending("5e55-1011"), expected);
    assert_eq!(room.pending("5e55"), nothing);

    let answers = json!({"tool_call_id": "toolu_1", "answers": ["SQLite", ["Dark mode", "i18n"]]});
    let answered = room.answer_question("5e55-1011", answers);
    assert_eq!((answered.status, answered.body), (200, json!({"success": true})));
    assert_eq!(
        room.hub.ask(&ask)["answer"],
        json!({"answers": [{"selected": ["SQLite"]}, {"selected": ["Dark mode", "i18n"]}]})
    );
    assert_eq!(room.pending("bot"), nothing);
}

#[test]
fn free_text_must_be_marked_as_such() {
    let room = Room::new();
    let ask = room.tool_call("toolu_1");
    let refused = [
        (json!(["MySQL", ["i18n"]]), "answer.answers[0].selected"),
        (json!(["sqlite", ["i18n"]]), "answer.answers[0].selected"),
        (json!(["SQLite", "my own"]), "answer.answers[1].selected"),
        (json!(["SQLite", ["i18n", "my own"]]), "answer.answers[1].selected"),
        (json!([{"text": "my own"}, ["i18n"]]), "answer.answers[0].text"),
        (json!(["SQLite", {"text": " "}]), "answer.answers[1].text"),
        (json!(["SQLite", {"txt": "my own"}]), "answer.answers[1].txt"),
        (json!(["SQLite", []]), "answer.answers[1].selected"),
        (json!(["SQLite", [1]]), "answer.answers[1].selected[0]"),
        (json!(["SQLite"]), "answer.answers"),
        (json!(["SQLite", "i18n", "i18n"]), "answer.answers"),
        (json!([]), "answer.answers"),
        (json!(["SQLite", 1]), "answers[1]"),
        (json!([null, "i18n"]), "answers[0]"),
    ];
    for (answers, field) in refused {
        let reply = room.answer_question("bot", json!({"tool_call_id": "toolu_1", "answers": answers}));
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{answers}: {}", reply.body);
    }
    assert_eq!(room.answer_question("bot", json!({"tool_call_id": "toolu_1"})).body["field"], "answers");
    assert_eq!(room.hub.ask(&ask), ask);
    let answers = json!({"tool_call_id": "toolu_1", "answers": ["SQLite", {"text": "my own"}]});
    assert_eq!(room.answer_question("bot", answers).body, json!({"success": true}));
    let expected = json!({"answers": [{"selected": ["SQLite"]}, {"text": "my own"}]});
    assert_eq!(room.hub.ask(&ask)["answer"], expected);
}

#[test]
fn without_a_tool_call_only_the_one_pending_question_is_answered() {
    let room = Room::new();
    let (first, second) = (room.tool_call("toolu_1"), room.tool_call("toolu_2"));
    let answers = json!(["SQLite", "i18n"]);
    let unsaid = room.answer_question("bot", json!({"answers": answers}));
    let why = "several questions are pending: say which by tool_call_id";
    assert_eq!((unsaid.status, unsaid.body), (422, json!({"error": why, "field": "tool_call_id"})));
    let unknown = room.answer_question("bot", json!({"tool_call_id": "toolu_3", "answers": answers}));
    assert_eq!((unknown.status, unknown.body), (404, error("no such question is pending")));
    assert_eq!((room.hub.ask(&first), room.hub.ask(&second)), (first.clone(), second.clone()));

    let said = room.answer_question("bot", json!({"tool_call_id": "toolu_2", "answers": answers}));
    assert_eq!(said.status, 200);
    assert_eq!(room.hub.ask(&first), first);
    assert_eq!(room.answer_question("bot", json!({"answers": answers})).status, 200);
    assert_eq!(room.hub.ask(&first)["state"], "answered");

    let none = room.answer_question("bot", json!({"answers": answers}));
    assert_eq!((none.status, none.body), (404, error("no such question is pending")));
    let nobody = room.answer_question("nobody", json!({"answers": answers}));
    assert_eq!((nobody.status, nobody.body), (404, error("there is no such agent")));
}

#[test]
fn only_a_driven_agent_takes_commands() {
    let room = Room::new();
    let operator = room.hub.operator();
    let send = |what: &str, body: Value| room.hub.post(&format!("/api/agents/bot/{what}"), &operator, body);
    let each = [("prompt", json!({"text": "go on"})), ("interrupt", json!({})), ("stop", json!({}))];
    for (what, body) in &each {
        assert_eq!(send(what, body.clone()).status, 404, "{what}");
    }
    for reach in ["hooked", "watched", "script"] {
        room.hub.register(&room.bot, "bot", json!({"reach": reach}));
        for (what, body) in &each {
            let refused = send(what, body.clone());
            let why = "only an agent started by `aye run` takes prompts, interrupts and stops";
            assert_eq!((refused.status, refused.body), (409, error(why)), "{what} {reach}");
        }
    }
    let commands = |query: &str| room.hub.get(&format!("/api/agents/bot/commands{query}"), &room.bot).body;
    assert_eq!(commands(""), json!({"commands": []}));

    room.hub.register(&room.bot, "bot", json!({"reach": "driven"}));
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
        let start = Instant::now();
        let commands = std::thread::scope(|scope| {
            let path = format!("/api/agents/bot/commands?after={after}&wait=30");
            let wait = scope.spawn(|| {
                let path = path;
                room.hub.get(&path, &room.bot)
            });
            let sent = room.hub.post("/api/agents/bot/interrupt", &room.hub.operator(), json!({}));
            after = sent.body["n"].as_u64().unwrap();
            wait.join().unwrap()
        });
        assert_eq!(commands.body, json!({"commands": [{"n": after, "command": {"type": "interrupt"}}]}));
        assert!(start.elapsed() < Duration::from_secs(10), "the wait was not woken");
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
        "session": "s-1", "pid": std::process::id(), "state": "idle", "cost": 0.1,
    });
    let agent = room.hub.register(&room.bot, "bot", told);
    let expected = json!({
        "id": "bot", "kind": "claude", "reach": "driven", "host": "here", "cwd": "/src", "title": "Fix it",
        "session": "s-1", "state": "idle", "cost": 0.1, "open_asks": 0, "created_at": agent["created_at"],
    });
    assert_eq!(agent, expected);
    let later = room.hub.register(&room.bot, "bot", json!({"cost": 0.30000000000000004, "state": "working"}));
    assert_eq!(later, with(&expected, json!({"cost": 0.30000000000000004, "state": "working"})));
    assert_eq!(room.hub.get("/api/agents/s-1", &room.hub.operator()).body, later);
    for (told, field) in [
        (json!({"state": "waiting"}), "state"),
        (json!({"reach": "magic"}), "reach"),
        (json!({"kind": ""}), "kind"),
        (json!({"pid": -1}), "pid"),
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
