//! What a body may be: how long, how deep, and only in one way to be read.

use super::{Room, error};
use crate::support::{Reply, path_of};
use serde_json::{Value, json};

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
    let ask = room.raise("k", "question", json!({"questions": [{"question": "Why?", "free_text": true}]}));
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
fn every_short_text_of_an_agent_has_a_longest_and_the_refusal_says_which_and_how_long() {
    let room = Room::new();
    let ask = room.question("k");
    let long = |most: usize| "x".repeat(most + 1);
    let check = |reply: Reply, field: &str, most: usize| {
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{}", reply.body);
        assert!(reply.body["error"].as_str().unwrap().contains(&format!("{most} bytes")), "{}", reply.body);
    };
    for (field, most) in [("kind", 128), ("host", 1024), ("cwd", 4096), ("title", 1024), ("session", 1024)] {
        let register =
            |length: usize| room.hub.put("/api/agents/bot", &room.bot, json!({field: "x".repeat(length)}));
        check(register(most + 1), field, most);
        assert_eq!(register(most).status, 200, "{field}");
    }
    for (field, most) in [("cwd", 4096), ("tool_use_id", 1024), ("sub_agent", 1024)] {
        let raise =
            json!({"key": field, "agent": "bot", "kind": "plan", "body": {"plan": "x"}, field: long(most)});
        check(room.try_raise(raise), field, most);
    }
    let why = json!({"answer": false, "why": long(1024)});
    let raise = json!({"key": "why", "agent": "bot", "kind": "plan", "body": {"plan": "x"}, "can": why});
    check(room.try_raise(raise), "can.why", 1024);
    check(room.hub.put(&path_of(&ask, "/can"), &room.bot, why), "why", 1024);
    let receipt = json!({"receipt": "delivered", "evidence": long(4096)});
    check(room.hub.post(&path_of(&ask, "/receipt"), &room.bot, receipt), "evidence", 4096);
    let receipts = json!({"receipts": [{"ask": ask["id"], "receipt": "delivered", "evidence": long(4096)}]});
    let reported = room.hub.post("/api/agents/bot/events", &room.bot, receipts);
    check(reported, "receipts[0].evidence", 4096);
    assert_eq!(room.all_asks()["asks"], json!([room.hub.ask(&ask)]));
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
fn an_agent_that_asks_at_length_is_told_to_wait_and_everybody_else_still_gets_every_list() {
    let room = Room::new();
    let long = "x".repeat(3_900_000);
    let raise = |agent: &str, token: &str, n: usize| {
        let raise = json!({"key": format!("k{n}"), "agent": agent, "kind": "plan", "body": {"plan": long}});
        room.hub.post("/api/asks", token, raise)
    };
    let mut open = Vec::new();
    for agent in ["bot", "other"] {
        let token = room.hub.agent(agent);
        open.extend((0..4).map(|n| raise(agent, &token, n).body["id"].as_str().unwrap().to_owned()));
        let refused = raise(agent, &token, 4);
        assert_eq!(refused.status, 429);
        assert!(refused.body["error"].as_str().unwrap().contains("ask again"), "{}", refused.body);
    }
    let operator = room.hub.operator();
    let (mut listed, mut query) = (Vec::new(), String::new());
    loop {
        let page = room.hub.get(&format!("/api/asks?state=open{query}"), &operator).body;
        let asks = page["asks"].as_array().unwrap();
        assert!(asks.len() < 3, "{} at once", asks.len());
        listed.extend(asks.iter().map(|ask| ask["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("&after={next}");
    }
    assert_eq!(listed, open);
    let list = room.hub.aye(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list["asks"].as_array().unwrap().len(), open.len());
    assert!(list.get("next").is_none());
    assert!(room.hub.aye(&["show", &open[7]]).status.success());
    let snapshot = room.hub.follow("", &operator).next();
    let begun = snapshot["asks"].as_array().unwrap();
    assert_eq!(snapshot["next"], begun.last().unwrap()["id"]);
    assert!(begun.len() < open.len());
    // What is answered makes room.
    let first = &room.hub.get(&format!("/api/asks/{}", open[0]), &operator).body;
    assert_eq!(room.hub.answer(first, json!({"decision": "deny"})).status, 200);
    assert_eq!(raise("bot", &room.bot, 4).status, 201);
}

#[test]
fn a_script_that_may_not_ask_any_more_ends_with_an_error_that_says_so() {
    let room = Room::new();
    room.hub.fill("bot");
    let mut command = crate::support::aye(&room.hub.home);
    let ended = command.args(["ask", "Go on?"]).env("AYE_TOKEN", &room.bot).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.is_empty());
    assert!(String::from_utf8_lossy(&ended.stderr).contains("then ask again"), "{ended:?}");
}

#[test]
fn a_number_that_would_be_rounded_is_refused_and_nothing_is_recorded() {
    let room = Room::new();
    let raise = |number: &str| {
        let body = format!(
            r#"{{"key":"n{number}","agent":"bot","kind":"permission","body":{{"tool":"Pay","input":{{"sum":{number}}}}}}}"#
        );
        post_bytes(&room, "/api/asks", &room.bot, body.as_bytes())
    };
    for number in ["123456789012345678901234567890", "0.10000000000000001", "-9223372036854775809"] {
        let refused = raise(number);
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body["error"].as_str().unwrap().contains(number), "{}", refused.body);
    }
    let list = || room.hub.get("/api/asks?state=all", &room.hub.operator()).body["asks"].clone();
    assert_eq!(list(), json!([]));
    for (number, shown) in [("18446744073709551615", "18446744073709551615"), ("1.50", "1.5")] {
        let raised = raise(number);
        assert_eq!(raised.status, 201, "{}", raised.body);
        assert!(raised.body["display"]["text"].as_str().unwrap().contains(shown), "{}", raised.body);
    }
}
