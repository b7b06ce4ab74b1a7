//! A revoked token ends what it had begun, however slowly that goes.

use crate::support::{Hub, PATIENCE, eventually, path_of, saying, yes_or_no};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

fn revoke(hub: &Hub, token: &str) {
    let id = token.split('_').nth(1).unwrap();
    assert_eq!(hub.delete(&format!("/api/tokens/{id}"), &hub.operator()).status, 204);
}

fn send(hub: &Hub, text: &str) -> TcpStream {
    let mut stream = hub.connect();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

#[test]
fn an_answer_that_is_still_being_sent_when_its_token_is_revoked_is_none() {
    let hub = Hub::start();
    let (token, bot) = (hub.token("operator"), hub.agent("bot"));
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let path = path_of(&ask, "/answer");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        hub.address,
        body.len()
    );
    let mut stream = send(&hub, &format!("{head}{first}"));
    // Whoever follows sees that the hub has begun with the call: it keeps nobody waiting before the body.
    assert_eq!(hub.get("/api/me", &token).status, 200);
    revoke(&hub, &token);
    // The hub may have closed its end already.
    stream.write_all(second.as_bytes()).ok();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok();
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 401 "), "{reply}");
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn a_call_that_waits_for_its_body_is_told_that_its_token_was_revoked() {
    let hub = Hub::start();
    let token = hub.token("operator");
    let mut stream = send(
        &hub,
        &format!(
            "POST /api/tokens HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nExpect: 100-continue\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n",
            hub.address
        ),
    );
    let mut begun = [0; 25];
    stream.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 100 Continue\r\n\r\n", "the hub reads the body now");
    revoke(&hub, &token);
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok();
    assert!(reply.starts_with("HTTP/1.1 401 "), "{reply}");
}

/// By an agent each, because one alone may not have so much text open.
fn raise_large_plans(hub: &Hub, plans: usize, bytes: usize) {
    for agent in (0..plans).map(|n| format!("bot{n}")) {
        hub.raise(&hub.agent(&agent), &agent, "k", "plan", json!({"plan": "x".repeat(bytes)}));
    }
}

#[test]
fn an_export_that_is_under_way_stops_when_its_token_is_revoked() {
    const ASKS: usize = 12;
    const PLAN: usize = 3_000_000;
    let hub = Hub::start();
    raise_large_plans(&hub, ASKS, PLAN);
    let token = hub.token("viewer");
    let head = format!(
        "GET /api/history HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        hub.address
    );
    let mut stream = send(&hub, &head);
    let mut some = vec![0; 1000];
    stream.read_exact(&mut some).unwrap();
    assert!(some.starts_with(b"HTTP/1.1 200 "));
    revoke(&hub, &token);
    let mut got = some.len();
    // Until it ends; a reply that only stalls would time out.
    let ended = loop {
        match stream.read(&mut some) {
            Ok(0) => break true,
            Ok(read) => got += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    assert!(ended, "it was still open after {PATIENCE:?}");
    assert!(got < ASKS * PLAN, "all {got} bytes came");
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off_too() {
    let hub = Hub::start();
    let token = hub.token("viewer");
    raise_large_plans(&hub, 12, 3_000_000);
    let head = format!(
        "GET /api/history HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        hub.address
    );
    let mut stream = send(&hub, &head);
    let mut some = [0; 1000];
    stream.read_exact(&mut some).unwrap();
    revoke(&hub, &token);
    // Nothing is read here: that the hub has closed its end shows in what can still be written.
    eventually("the connection to be closed", || stream.write_all(b"x").is_err().then_some(()));
}
