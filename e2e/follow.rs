//! Followers of all changes: a snapshot, then every change in order, each exactly once, and answers back.

use crate::support::socket::{Follower, number};
use crate::support::{Hub, path_of, saying, yes_or_no};
use serde_json::{Value, json};
use tungstenite::{Bytes, Message};

/// Numbers that many a reader gets wrong in the last digit, and text that tempts to be changed on its way.
fn awkward() -> Value {
    let floats: Vec<f64> =
        (1..2000_u32).map(|i| f64::from(i).sqrt() * 10f64.powi(i.cast_signed() % 60 - 30)).collect();
    json!({
        "type": "text", "z": 1, "a": null, "floats": floats, "integers": [u64::MAX, i64::MIN, 0],
        "text": "\u{0}\u{1b}[31m\u{202e}😀 \"\\/ </script> \u{2028}",
    })
}

/// Lets everything happen that a follower is told of, and returns the number of the last change.
fn a_full_session(hub: &Hub) -> u64 {
    let (bot, other) = (hub.agent("bot"), hub.agent("other"));
    let profile = json!({"kind": "claude", "reach": "driven", "cwd": "/src", "session": "s-1", "cost": 0.1});
    hub.register(&bot, "bot", profile);
    hub.post("/api/agents/bot/events", &bot, json!({"events": [awkward(), {"type": "text", "text": "two"}]}));
    let question = hub.raise(&bot, "bot", "q", "question", yes_or_no());
    let permission = json!({"tool": "Edit", "input": {"z": 1, "a": awkward()}});
    let permission = hub.raise(&bot, "bot", "p", "permission", permission);
    let plan = hub.raise(&other, "other", "l", "plan", json!({"plan": "# ü\n\u{1b}[2J"}));
    assert_eq!(hub.answer(&question, saying("no")).status, 200);
    assert_eq!(hub.answer(&question, saying("yes")).status, 409);
    for receipt in ["delivered", "confirmed", "disputed"] {
        let report = json!({"receipt": receipt, "evidence": format!("saw {receipt}")});
        hub.post(&path_of(&question, "/receipt"), &bot, report);
    }
    let edited = json!({"decision": "allow", "scope": "once", "input": {"b": awkward(), "a": 0.1}});
    assert_eq!(hub.answer(&permission, edited).status, 200);
    assert_eq!(hub.post(&path_of(&plan, "/withdraw"), &other, json!({"why": "cancelled"})).status, 200);
    let brief =
        json!({"key": "t", "agent": "other", "kind": "plan", "body": {"plan": "x"}, "timeout": "0.05s"});
    let brief = hub.post("/api/asks", &other, brief).body;
    assert_eq!(hub.get(&path_of(&brief, "/resolution?wait=30"), &other).body["state"], "expired");
    hub.register(&bot, "bot", json!({"title": "A new title", "state": "idle", "cost": 1.0 / 3.0}));
    let left_open = hub.raise(&bot, "bot", "open", "question", yes_or_no());
    hub.register(&other, "other", json!({"state": "ended"}));
    hub.post("/api/agents/bot/events", &bot, json!({"events": [{"type": "last"}]}));
    assert_eq!(hub.ask(&left_open), left_open);
    hub.follow("", &hub.operator()).next()["seq"].as_u64().unwrap()
}

#[test]
fn a_follower_begins_with_what_is_open_now() {
    let hub = Hub::start();
    assert_eq!(
        hub.follow("", &hub.operator()).next(),
        json!({"type": "snapshot", "seq": 0, "asks": [], "agents": [], "notices": []})
    );
    a_full_session(&hub);
    let snapshot = hub.follow("", &hub.token("viewer")).next();
    let read = |path: &str| hub.get(path, &hub.operator()).body;
    let expected = json!({
        "type": "snapshot", "seq": snapshot["seq"],
        "asks": read("/api/asks?state=open")["asks"], "agents": read("/api/agents")["agents"], "notices": [],
    });
    assert_eq!(snapshot, expected);
    assert_eq!(
        (expected["asks"].as_array().unwrap().len(), expected["agents"].as_array().unwrap().len()),
        (1, 1)
    );
}

#[test]
fn changes_are_numbered_without_a_gap_and_say_what_changed() {
    let hub = Hub::start();
    let mut follower = hub.follow("", &hub.operator());
    assert_eq!(follower.next()["seq"], 0);
    let bot = hub.agent("bot");
    let working = hub.register(&bot, "bot", json!({"kind": "claude"}));
    assert_eq!(follower.next(), json!({"type": "agent", "seq": 1, "agent": working}));
    hub.post("/api/agents/bot/events", &bot, json!({"events": [{"type": "text", "text": "hi"}]}));
    let event = json!({"type": "event", "seq": 2, "agent": "bot", "event": {"type": "text", "text": "hi"}});
    assert_eq!(follower.next(), event);
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    assert_eq!(follower.next(), json!({"type": "ask", "seq": 3, "ask": ask}));
    let mut waiting = working.clone();
    (waiting["state"], waiting["open_asks"]) = (json!("waiting"), json!(1));
    assert_eq!(follower.next(), json!({"type": "agent", "seq": 4, "agent": waiting}));
    let answered = hub.answer(&ask, saying("yes")).body;
    assert_eq!(follower.next(), json!({"type": "ask", "seq": 5, "ask": answered}));
    assert_eq!(follower.next(), json!({"type": "agent", "seq": 6, "agent": working}));
    let delivered = hub.post(&path_of(&ask, "/receipt"), &bot, json!({"receipt": "delivered"})).body;
    assert_eq!(follower.next(), json!({"type": "ask", "seq": 7, "ask": delivered}));
    // What is refused or said again changes nothing, and nobody is told.
    assert_eq!(hub.answer(&ask, saying("no")).status, 409);
    hub.post(&path_of(&ask, "/receipt"), &bot, json!({"receipt": "delivered"}));
    hub.register(&bot, "bot", json!({"kind": "claude"}));
    let ended = hub.register(&bot, "bot", json!({"state": "ended"}));
    assert_eq!(follower.next(), json!({"type": "agent", "seq": 8, "agent": ended}));
}

#[test]
fn who_catches_up_gets_byte_for_byte_what_was_seen_live() {
    let mut hub = Hub::start();
    let mut live = hub.follow("", &hub.operator());
    assert_eq!(number(&live.text()), 0);
    let last = a_full_session(&hub);
    let seen = live.texts_until(last);
    let numbers: Vec<u64> = seen.iter().map(|text| number(text)).collect();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    assert!(last > 20, "{last} changes are too few to mean anything");

    for restarted in [false, true] {
        if restarted {
            hub.kill();
            hub.restart();
        }
        for after in 0..last {
            let missed = hub.follow(&format!("?after={after}"), &hub.operator()).texts_until(last);
            for (missed, seen) in missed.iter().zip(&seen[usize::try_from(after).unwrap()..]) {
                assert_eq!(missed, seen);
            }
            assert_eq!(missed.len() as u64, last - after);
        }
    }
    // Numbering goes on where it stopped, for those who are up to date as well.
    let mut follower = hub.follow(&format!("?after={last}"), &hub.operator());
    let raised = hub.raise(&hub.agent("bot"), "bot", "new", "plan", json!({"plan": "x"}));
    assert_eq!(follower.next(), json!({"type": "ask", "seq": last + 1, "ask": raised}));
}

#[test]
fn numbers_survive_the_store_to_the_last_digit() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let permission = json!({"tool": "T", "input": awkward()});
    let ask = hub.raise(&bot, "bot", "k", "permission", permission);
    assert_eq!(ask["body"]["input"], awkward());
    assert_eq!(hub.ask(&ask), ask);
    let again = json!({"key": "k", "agent": "bot", "kind": "permission", "body": ask["body"]});
    assert_eq!(hub.post("/api/asks", &bot, again).status, 200, "what was shown is what was asked");
}

#[test]
fn a_number_from_the_future_begins_anew() {
    let hub = Hub::start();
    let last = a_full_session(&hub);
    for after in [last + 1, last + 1_000_000, i64::MAX.cast_unsigned(), u64::MAX] {
        let snapshot = hub.follow(&format!("?after={after}"), &hub.operator()).next();
        assert_eq!((&snapshot["type"], &snapshot["seq"]), (&json!("snapshot"), &json!(last)), "{after}");
    }
    let token = format!("Bearer {}", hub.operator());
    for query in ["?after=-1", "?after=x", "?after=1.5", "?after=18446744073709551616", "?before=1"] {
        assert_eq!(hub.try_follow(query, &[("Authorization", &token)]).err(), Some(400), "{query}");
    }
    let plain = hub.get("/api/ws", &hub.operator());
    assert_eq!(plain.status, 400, "it is a WebSocket");
}

#[test]
fn a_change_falls_neither_between_nor_twice_while_others_write() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    hub.register(&bot, "bot", json!({}));
    const ROUNDS: u64 = 60;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..ROUNDS {
                hub.post("/api/agents/bot/events", &bot, json!({"events": [{"n": i}, {"n": i}, {"n": i}]}));
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                let mut after = 0;
                while after < 3 * ROUNDS + 1 {
                    // Comes, sees a few, goes, and comes back for the rest.
                    let mut follower = hub.follow(&format!("?after={after}"), &hub.operator());
                    for _ in 0..10.min(3 * ROUNDS + 1 - after) {
                        after += 1;
                        assert_eq!(number(&follower.text()), after);
                    }
                }
            });
            scope.spawn(|| {
                let mut follower = hub.follow("", &hub.operator());
                let mut seq = number(&follower.text());
                while seq < 3 * ROUNDS + 1 {
                    seq += 1;
                    assert_eq!(number(&follower.text()), seq);
                }
            });
        }
    });
}

#[test]
fn many_large_open_asks_come_in_a_snapshot_and_the_pages_after_it() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let mut live = hub.follow("", &hub.operator());
    live.next();
    // Quotes grow each time they are written as JSON inside JSON, and so does the display made from them.
    let quotes = json!({"tool": "T", "input": {"text": "\"".repeat(1_500_000)}});
    let mut asks = vec![hub.raise(&bot, "bot", "quotes", "permission", quotes)];
    assert_eq!(live.next()["ask"], asks[0]);
    assert_eq!(live.next()["type"], "agent");
    for i in 0..3 {
        let plan = json!({"plan": "x".repeat(3_500_000)});
        asks.push(hub.raise(&bot, "bot", &format!("k{i}"), "plan", plan));
        assert_eq!(live.next()["ask"], asks[i + 1]);
    }
    let snapshot = hub.follow("", &hub.operator()).next();
    let mut found = snapshot["asks"].as_array().unwrap().clone();
    let mut next = snapshot["next"].clone();
    assert!(found.len() < asks.len() && next.is_string(), "they are too much to be sent at once");
    while let Some(after) = next.as_str() {
        let page = hub.get(&format!("/api/asks?state=open&after={after}"), &hub.operator()).body;
        found.extend(page["asks"].as_array().unwrap().clone());
        next = page["next"].clone();
    }
    assert_eq!(found, asks);
    let mut late = hub.follow("?after=0", &hub.operator());
    let missed: Vec<Value> = (0..5).map(|_| late.next()).filter(|message| message["type"] == "ask").collect();
    assert_eq!(missed.iter().map(|message| message["ask"].clone()).collect::<Vec<_>>(), asks);
}

/// A hub with an open question, and a follower who may answer it.
fn answering() -> (Hub, Value, Follower) {
    let hub = Hub::start();
    let ask = hub.raise(&hub.agent("bot"), "bot", "k", "question", yes_or_no());
    let mut follower = hub.follow("", &hub.operator());
    assert_eq!(follower.next()["type"], "snapshot");
    (hub, ask, follower)
}

#[test]
fn an_answer_over_the_socket_gets_its_result() {
    let (hub, ask, mut follower) = answering();
    let frame = |label: &str, key: Value| json!({"type": "answer", "id": ask["id"], "answer": saying(label), "digest": ask["digest"], "key": key});
    let result = follower.say(frame("yes", json!("act-1")));
    let answered = hub.ask(&ask);
    assert_eq!(result, json!({"type": "result", "key": "act-1", "status": 200, "ask": answered}));
    assert_eq!(answered["answer"], saying("yes"));
    assert_eq!(answered["by"], json!({"name": hub.person(), "surface": "api"}));
    assert_eq!(follower.say(frame("yes", json!("act-1"))), result, "sent again, it is not answered again");

    let name = hub.person();
    let why = format!("this request was already answered by {} (api)", name.as_str().unwrap());
    for (label, key) in [("no", json!("act-1")), ("no", json!("act-2")), ("yes", Value::Null)] {
        let expected = json!({"type": "result", "key": key, "status": 409, "error": why, "ask": answered});
        assert_eq!(follower.say(frame(label, key)), expected);
    }
    assert_eq!(hub.ask(&ask), answered);
}

#[test]
fn a_frame_that_cannot_be_carried_out_says_why_and_changes_nothing() {
    let (hub, ask, mut follower) = answering();
    let mut refused = |changes: Value| {
        let mut frame = json!({
            "type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"], "key": "act",
        });
        for (field, value) in changes.as_object().unwrap() {
            frame[field] = value.clone();
        }
        let result = follower.say(frame);
        assert_eq!((&result["type"], &result["key"]), (&json!("result"), &json!("act")), "{result}");
        assert!(result["error"].is_string(), "{result}");
        (result["status"].as_u64().unwrap(), result["field"].clone(), result["ask"].clone())
    };
    let nothing = Value::Null;
    assert_eq!(refused(json!({"digest": "sha256:0"})), (412, nothing.clone(), ask.clone()));
    assert_eq!(refused(json!({"id": "0000000000"})), (404, nothing.clone(), nothing.clone()));
    let invalid = |field: &str| (422, json!(field), Value::Null);
    assert_eq!(refused(json!({"answer": saying("maybe")})), invalid("answer.answers[0].selected"));
    assert_eq!(refused(json!({"answer": {"answers": []}})), invalid("answer.answers"));
    assert_eq!(refused(json!({"answer": null})), invalid("answer"));
    assert_eq!(refused(json!({"id": 1})), invalid("id"));
    assert_eq!(refused(json!({"id": "a b"})), invalid("id"));
    assert_eq!(refused(json!({"digest": null})), invalid("digest"));
    assert_eq!(refused(json!({"force": true})), invalid("force"));
    assert_eq!(refused(json!({"type": "token"})), invalid("id"), "it has other fields");
    for kind in [json!("withdraw"), json!("snapshot"), json!(""), json!(null), json!(1)] {
        assert_eq!(refused(json!({"type": kind})), (400, nothing.clone(), nothing.clone()), "{kind}");
    }
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn garbage_gets_a_result_too_and_the_socket_goes_on() {
    let (hub, ask, mut follower) = answering();
    let deep = "[".repeat(100_000);
    let twice = format!(r#"{{"type":"answer","id":"x","id":{}}}"#, ask["id"]);
    for garbage in
        ["", "hello", "{", "null", "[]", "1", r#""answer""#, "{}", &deep, &twice, r#"{"type":"answer"} {}"#]
    {
        let result = follower.say_text(garbage);
        assert_eq!((&result["status"], &result["key"]), (&json!(400), &Value::Null), "{garbage:.50}");
        assert!(result["error"].is_string(), "{garbage:.50}");
    }
    follower.send(Message::Binary(Bytes::from_static(b"{}")));
    assert_eq!(
        follower.result(),
        json!({"type": "result", "key": null, "status": 400, "error": "send text"})
    );
    assert_eq!(hub.ask(&ask), ask);
    let frame = json!({"type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"]});
    assert_eq!(follower.say(frame)["status"], 200);
}

#[test]
fn a_viewer_sees_and_does_not_answer() {
    let (hub, ask, _) = answering();
    let mut viewer = hub.follow("", &hub.token("viewer"));
    assert_eq!(viewer.next()["asks"], json!([ask]));
    let why = "this needs the role operator, and the token has the role viewer";
    let frames = [
        json!({"type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"], "key": "a"}),
        json!({"type": "ask_user_response", "conversation_id": "bot", "answers": {"Go on?": "yes"}, "key": "a"}),
        json!({"type": "anything", "key": "a"}),
    ];
    for frame in frames {
        let expected = json!({"type": "result", "key": "a", "status": 403, "error": why});
        assert_eq!(viewer.say(frame), expected);
    }
    assert_eq!(hub.ask(&ask), ask);
    let answered = hub.answer(&ask, saying("no")).body;
    assert_eq!(viewer.next()["ask"], answered);
}

#[test]
fn a_frame_beyond_the_limit_ends_the_connection() {
    const LIMIT: usize = 256 * 1024;
    let (hub, _, _) = answering();
    let mut follower = hub.follow("", &hub.token("operator"));
    assert_eq!(follower.next()["type"], "snapshot");
    let in_own_words = json!({"questions": [{"question": "Why?", "free_text": true}]});
    let ask = hub.raise(&hub.agent("bot"), "bot", "own", "question", in_own_words);
    let mut other = hub.follow("", &hub.operator());
    assert_eq!(other.next()["type"], "snapshot");
    let frame = |length: usize| {
        let frame =
            json!({"type": "answer", "id": ask["id"], "answer": {"response": "…"}, "digest": ask["digest"]});
        let frame = frame.to_string();
        frame.replace('…', &"x".repeat(length - frame.len() + '…'.len_utf8()))
    };
    follower.send(Message::text(frame(LIMIT + 1)));
    follower.end();
    assert_eq!(hub.ask(&ask), ask);
    let result = other.say_text(frame(LIMIT));
    assert_eq!(result["status"], 200, "the others go on, and what just fits is taken");
}

/// Raises two questions at once, under a tool call.
fn tool_call(hub: &Hub, tool: &str) -> Value {
    let body = json!({"questions": [
        {"question": "Store?", "options": [{"label": "SQLite"}, {"label": "a, b"}], "free_text": true},
        {"question": "Features?", "options": [{"label": "dark"}, {"label": "i18n"}], "multi_select": true, "free_text": true},
    ]});
    let bot = hub.agent("bot");
    hub.register(&bot, "bot", json!({"session": "s-1"}));
    let raise = json!({"key": tool, "agent": "bot", "kind": "question", "body": body, "tool_use_id": tool});
    let raised = hub.post("/api/asks", &bot, raise);
    assert_eq!(raised.status, 201, "{}", raised.body);
    raised.body
}

#[test]
fn a_response_by_the_text_of_its_questions_answers_them() {
    let hub = Hub::start();
    let mut follower = hub.follow("", &hub.operator());
    let picked = json!({"selected": ["SQLite"]});
    let cases = [
        (json!({"Store?": "SQLite", "Features?": "i18n"}), json!([picked, {"selected": ["i18n"]}])),
        (
            json!({"Features?": ["dark", "i18n"], "Store?": "SQLite"}),
            json!([picked, {"selected": ["dark", "i18n"]}]),
        ),
        (
            json!({"Store?": "a, b", "Features?": ["i18n"]}),
            json!([{"selected": ["a, b"]}, {"selected": ["i18n"]}]),
        ),
        (
            json!({"Store?": {"text": "mine"}, "Features?": {"text": "more"}}),
            json!([{"text": "mine"}, {"text": "more"}]),
        ),
    ];
    for (i, (answers, expected)) in cases.into_iter().enumerate() {
        let tool = format!("toolu_{i}");
        let ask = tool_call(&hub, &tool);
        let conversation = if i % 2 == 0 { "bot" } else { "s-1" };
        let result = follower.say(json!({
            "type": "ask_user_response", "conversation_id": conversation, "tool_call_id": tool,
            "answers": answers, "key": tool,
        }));
        let answered = hub.ask(&ask);
        assert_eq!(result, json!({"type": "result", "key": tool, "status": 200, "ask": answered}));
        assert_eq!(answered["answer"], json!({"answers": expected}));
    }
}

#[test]
fn a_response_that_does_not_fit_its_questions_is_refused() {
    let hub = Hub::start();
    let mut follower = hub.follow("", &hub.operator());
    let ask = tool_call(&hub, "toolu_1");
    let mut respond = |changes: Value| {
        let mut frame = json!({
            "type": "ask_user_response", "conversation_id": "bot", "tool_call_id": "toolu_1",
            "answers": {"Store?": "SQLite", "Features?": "i18n"}, "key": "r",
        });
        for (field, value) in changes.as_object().unwrap() {
            frame[field] = value.clone();
        }
        let result = follower.say(frame);
        assert_eq!(result["key"], "r");
        (result["status"].as_u64().unwrap(), result["field"].clone(), result["error"].clone())
    };
    let said = |status: u64, field: Value, why: &str| (status, field, json!(why));
    let field = |field: &str| json!(field);
    let mut answers = |answers: Value| respond(json!({"answers": answers}));
    assert_eq!(
        answers(json!({"Store?": "SQLite", "Features?": "i18n", "Colour?": "red"})),
        said(422, field("answers"), "\"Colour?\" was not asked")
    );
    assert_eq!(
        answers(json!({"Store?": "SQLite"})),
        said(422, field("answers"), "\"Features?\" is not answered")
    );
    assert_eq!(
        answers(json!({"Store?": "MySQL", "Features?": "i18n"})),
        said(422, field("answer.answers[0].selected"), "\"MySQL\" was not offered")
    );
    assert_eq!(
        answers(json!({"Store?": ["SQLite", "a, b"], "Features?": "i18n"})),
        said(422, field("answer.answers[0].selected"), "this question takes exactly one answer")
    );
    assert_eq!(answers(json!({"Store?": 1, "Features?": "i18n"})).1, field("answers[\"Store?\"]"));
    assert_eq!(answers(json!(["SQLite", "i18n"])).1, field("answers"));
    assert_eq!(
        respond(json!({"tool_call_id": "toolu_2"})),
        said(404, Value::Null, "no such question is pending")
    );
    assert_eq!(
        respond(json!({"conversation_id": "nobody"})),
        said(404, Value::Null, "there is no such agent")
    );
    let second = tool_call(&hub, "toolu_2");
    assert_eq!(
        respond(json!({"tool_call_id": null})),
        said(422, field("tool_call_id"), "several questions are pending: say which by tool_call_id")
    );
    assert_eq!((hub.ask(&ask), hub.ask(&second)), (ask.clone(), second));
}

#[test]
fn a_response_to_a_tool_call_that_named_another_ask_before_needs_its_digest() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let raise = |key: &str, words: &str| {
        let body = json!({"questions": [{"question": words, "options": [{"label": "yes"}]}]});
        let raise = json!({"key": key, "agent": "bot", "kind": "question", "body": body, "tool_use_id": "t"});
        hub.post("/api/asks", &bot, raise).body
    };
    let first = raise("k1", "Go on?");
    let taken_back = format!("/api/asks/{}/withdraw", first["id"].as_str().unwrap());
    assert_eq!(hub.post(&taken_back, &bot, json!({"why": "cancelled"})).status, 200);
    let second = raise("k2", "Go on? ");
    let mut follower = hub.follow("", &hub.operator());
    let mut respond = |question: &str, digest: &Value| {
        let answers = json!({question: "yes"});
        let mut frame = json!({"type": "ask_user_response", "conversation_id": "bot", "tool_call_id": "t"});
        frame["answers"] = answers;
        frame["digest"] = digest.clone();
        follower.say(frame)
    };
    let refused = respond("Go on? ", &Value::Null);
    assert_eq!((&refused["status"], &refused["field"]), (&json!(422), &json!("digest")), "{refused}");
    assert_eq!(respond("Go on?", &first["digest"])["status"], 409);
    assert_eq!(hub.ask(&second), second);
    assert_eq!(respond("Go on? ", &second["digest"])["status"], 200);
}

#[test]
fn two_questions_with_the_same_text_cannot_be_answered_by_it() {
    let hub = Hub::start();
    let same = json!({"question": "Which?", "options": [{"label": "a"}]});
    let ask = hub.raise(&hub.agent("bot"), "bot", "k", "question", json!({"questions": [same, same]}));
    let mut follower = hub.follow("", &hub.operator());
    let result = follower
        .say(json!({"type": "ask_user_response", "conversation_id": "bot", "answers": {"Which?": "a"}}));
    assert_eq!((&result["status"], &result["field"]), (&json!(422), &json!("answers")), "{result}");
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn two_followers_agree_and_only_one_answers() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let mut followers = [hub.follow("", &hub.operator()), hub.follow("", &hub.token("operator"))];
    for follower in &mut followers {
        assert_eq!(follower.next()["seq"], 0);
    }
    const ASKS: usize = 20;
    let asks: Vec<Value> =
        (0..ASKS).map(|i| hub.raise(&bot, "bot", &format!("k{i}"), "question", yes_or_no())).collect();
    // Both answer everything at once, each differently; each records its results and the changes in order.
    let heard: Vec<(Vec<Value>, Vec<Value>)> = std::thread::scope(|scope| {
        let talking: Vec<_> = followers
            .iter_mut()
            .zip(["yes", "no"])
            .map(|(follower, label)| {
                let asks = &asks;
                scope.spawn(move || {
                    for ask in asks {
                        let frame = json!({
                            "type": "answer", "id": ask["id"], "answer": saying(label), "digest": ask["digest"],
                        });
                        follower.send(Message::text(frame.to_string()));
                    }
                    let (mut results, mut changes) = (Vec::new(), Vec::new());
                    // Each ask is raised and answered; the agent begins to wait and stops.
                    while results.len() < ASKS || changes.len() < 2 * ASKS + 2 {
                        let message = follower.next();
                        if message["type"] == "result" { results.push(message) } else { changes.push(message) }
                    }
                    (results, changes)
                })
            })
            .collect();
        talking.into_iter().map(|talking| talking.join().unwrap()).collect()
    });
    let (one, two) = (&heard[0], &heard[1]);
    assert_eq!(one.1, two.1, "both saw the same changes in the same order");
    for (i, ask) in asks.iter().enumerate() {
        let (won, lost) = match one.0[i]["status"] == 200 {
            true => (&one.0[i], &two.0[i]),
            false => (&two.0[i], &one.0[i]),
        };
        assert_eq!((&won["status"], &lost["status"]), (&json!(200), &json!(409)));
        assert_eq!(won["ask"], lost["ask"]);
        assert_eq!(hub.ask(ask), won["ask"]);
    }
}

#[test]
fn a_hub_that_stops_says_so_to_its_followers() {
    let (mut hub, _, mut follower) = answering();
    assert!(hub.stop().success());
    let close = follower.end().expect("a reason");
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1001, "the hub is stopping"));
}
