//! However much an agent waits, people get in.

use crate::support::{Hub, PATIENCE, aye, eventually, yes_or_no};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// As many calls of one token may be under way.
const MOST: usize = 512;
/// As many long bodies of one token are read at once.
const MOST_LONG: usize = 4;
/// As many WebSockets of one token may be open.
const MOST_SOCKETS: usize = 256;

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

#[test]
fn a_token_has_a_few_hundred_sockets_and_everybody_else_gets_in() {
    let hub = Hub::start();
    let viewer = hub.token("viewer");
    let bearer = format!("Bearer {viewer}");
    let open = || hub.try_follow("", &[("Authorization", &bearer)]);
    let mut held: Vec<_> =
        (0..MOST_SOCKETS).map(|_| open().unwrap_or_else(|status| panic!("{status}"))).collect();
    assert_eq!(open().err(), Some(503));
    assert_eq!(hub.get("/api/asks?state=open", &viewer).status, 200, "its calls are counted apart");
    let other = hub.token("viewer");
    drop(hub.follow("", &other));
    assert_eq!(hub.call_unix("GET", "/api/asks?state=open", &hub.operator(), json!(null)).status, 200);
    drop(held.pop());
    eventually("room for another", || open().ok());
}

/// A socket keeps its connection's slot, so descriptors never run out: viewers are refused before, and operators are not.
#[test]
fn sockets_of_many_tokens_leave_descriptors_for_operators() {
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let home = dir.path().join("home");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 512 && exec \"$0\" up --no-open --listen 127.0.0.1:0"]);
    limited.arg(env!("CARGO_BIN_EXE_aye"));
    limited.envs(aye(&home).get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.env_remove("AYE_URL").env_remove("AYE_TOKEN").env_remove("AYE_DATABASE_URL");
    let hub = Hub::start_with(limited, home);
    let (viewers, operator) = ([hub.token("viewer"), hub.token("viewer")], hub.token("operator"));
    let mut held = Vec::new();
    let refused = viewers.iter().cycle().take(512).find_map(|token| {
        match hub.try_follow("", &[("Authorization", &format!("Bearer {token}"))]) {
            Ok(follower) => {
                held.push(follower);
                None
            }
            Err(status) => Some(status),
        }
    });
    assert_eq!((refused, held.len() > 150), (Some(503), true), "{} are open", held.len());
    let mut follower = hub.follow("", &operator);
    assert_eq!(follower.next()["type"], "snapshot");
    assert_eq!(hub.get("/api/asks?state=open", &operator).status, 200);
    assert!(hub.aye(&["list"]).status.success());
}

#[test]
fn a_body_that_nobody_reads_does_not_hold_its_connection() {
    let hub = Hub::start();
    let head = format!("Host: {}\r\nContent-Type: application/json\r\nContent-Length: 100000", hub.address);
    for (path, token) in
        [("/api/asks/x/seen", hub.token("operator")), ("/api/asks/x/seen", "wrong".to_owned())]
    {
        let mut stream = hub.connect();
        write!(stream, "POST {path} HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {token}\r\n\r\n{{").unwrap();
        // To its end: the hub closes the connection after its reply.
        assert!(reply_on(stream).starts_with("HTTP/1.1 4"));
    }
}

#[test]
fn long_bodies_of_one_token_are_read_a_few_at_a_time() {
    const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let hub = Hub::start();
    let token = hub.agent("long");
    hub.register(&token, "long", json!({"kind": "script"}));
    let body = |key: usize| {
        let plan = json!({"plan": "x".repeat(300_000)});
        json!({"key": key.to_string(), "agent": "long", "kind": "plan", "body": plan}).to_string()
    };
    let announce = |key: usize| {
        let mut stream = hub.connect();
        let head = format!("Host: {}\r\nContent-Type: application/json\r\nConnection: close", hub.address);
        let head = format!("{head}\r\nAuthorization: Bearer {token}\r\nExpect: 100-continue");
        let length = body(key).len();
        write!(stream, "POST /api/asks HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n").unwrap();
        stream
    };
    // The hub says so once it begins to read a body.
    let is_read = |mut stream: &TcpStream| {
        stream.set_nonblocking(false).unwrap();
        let mut reply = [0; GO_ON.len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, GO_ON);
    };
    let mut read: Vec<_> = (0..MOST_LONG).map(announce).collect();
    read.iter().for_each(is_read);
    let further = announce(MOST_LONG);
    hub.raise(&token, "long", "short", "question", yes_or_no());
    assert!(!has_reply(&further));
    let mut first = read.remove(0);
    first.write_all(body(0).as_bytes()).unwrap();
    assert!(reply_on(first).starts_with("HTTP/1.1 201 "));
    is_read(&further);
}
