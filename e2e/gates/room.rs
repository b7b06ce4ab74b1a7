//! However much an agent waits, people get in.

use crate::support::{Hub, PATIENCE, eventually, yes_or_no};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

/// As many calls of one token may be under way.
const MOST: usize = 512;

fn waiting(hub: &Hub, token: &str, ask: &str) -> TcpStream {
    let mut stream = hub.connect();
    let path = format!("/api/asks/{ask}/resolution?wait=600");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n", hub.address)
        .unwrap();
    stream
}

fn has_reply(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.peek(&mut [0]).is_ok()
}

/// All of a reply after which the connection is closed.
fn reply_on(mut stream: TcpStream) -> String {
    stream.set_nonblocking(false).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn an_agent_that_waits_as_often_as_it_can_keeps_nobody_out() {
    let hub = Hub::start();
    let token = hub.agent("greedy");
    hub.register(&token, "greedy", json!({"kind": "script"}));
    let ask = hub.raise(&token, "greedy", "k", "question", yes_or_no());
    let id = ask["id"].as_str().unwrap();
    // One more than it may have, so that exactly one is refused.
    let mut held: Vec<_> = (0..=MOST).map(|_| waiting(&hub, &token, id)).collect();
    let refused = eventually("the agent to be refused", || held.iter().position(has_reply));
    let refused = reply_on(held.swap_remove(refused));
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(
        refused.contains("retry-after: 5\r\n") && refused.contains("too many calls with this token"),
        "{refused}"
    );
    let now = || hub.get(&format!("/api/asks/{id}/resolution?wait=0"), &token);
    assert_eq!(now().status, 503);
    // Everybody else gets in, and the answer reaches all who wait.
    let other = hub.agent("modest");
    hub.register(&other, "modest", json!({"kind": "script"}));
    assert_eq!(hub.get("/api/asks?state=open", &hub.operator()).status, 200);
    assert_eq!(hub.call_unix("GET", "/api/asks?state=open", &hub.operator(), json!(null)).status, 200);
    // One that leaves makes room for another.
    drop(held.pop());
    eventually("room again", || (now().status == 204).then_some(()));
    assert_eq!(hub.answer(&ask, crate::support::saying("yes")).status, 200);
    for mut stream in held {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"HTTP/1.1 200");
    }
}
