//! What a Prometheus sees of a hub at work.

use crate::support::socket::Stream;
use crate::support::{Hub, eventually, saying, yes_or_no};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use tungstenite::client::IntoClientRequest;

/// The page as text; the harness reads JSON only.
pub fn metrics(hub: &Hub, token: &str) -> String {
    // The operator's own token counts on the Unix socket only.
    let mut stream = match token == hub.operator() {
        true => Stream::Unix(hub.connect_unix()),
        false => Stream::Tcp(hub.connect()),
    };
    let head = format!("GET /metrics HTTP/1.1\r\nConnection: close\r\nHost: {}\r\n", hub.address);
    stream.write_all(format!("{head}Authorization: Bearer {token}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The line is there now or soon: a socket takes a moment to come and to go.
#[track_caller]
pub fn shows(hub: &Hub, line: &str) {
    let operator = hub.operator();
    eventually(line, || metrics(hub, &operator).lines().any(|found| found == line).then_some(()));
}

#[test]
fn the_figures_follow_what_people_and_rules_do() {
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let policy = "[policy]\nauto_approve = [\"Read\"]\n[[policy.rules]]\nname = 'no \"rm\"'\ntool = \"Rm\"\naction = \"deny\"\n";
    std::fs::write(home.join("config.toml"), policy).unwrap();
    let hub = Hub::start_in(home);
    let agent = hub.agent("a");
    let call = |tool: &str| json!({"tool": tool, "input": {"x": 1}});

    hub.raise(&agent, "a", "1", "permission", call("Read"));
    hub.raise(&agent, "a", "2", "permission", call("Read"));
    hub.raise(&agent, "a", "3", "permission", call("Rm"));
    hub.raise(&agent, "a", "4", "permission", call("Other"));
    let question = hub.raise(&agent, "a", "5", "question", yes_or_no());
    assert_eq!(hub.answer(&question, saying("yes")).status, 200);
    let receipt = format!("/api/asks/{}/receipt", question["id"].as_str().unwrap());
    assert_eq!(hub.post(&receipt, &agent, json!({"receipt": "delivered"})).status, 200);

    shows(&hub, r#"aye_asks{kind="permission",state="answered",receipt="pending"} 3"#);
    shows(&hub, r#"aye_asks{kind="permission",state="open",receipt="none"} 1"#);
    shows(&hub, r#"aye_asks{kind="question",state="answered",receipt="delivered"} 1"#);
    shows(&hub, r#"aye_asks{kind="plan",state="open",receipt="none"} 0"#);
    shows(&hub, r#"aye_rule_decisions_total{rule="auto_approve",verdict="allow"} 2"#);
    shows(&hub, r#"aye_rule_decisions_total{rule="rule 1 (no \"rm\")",verdict="deny"} 1"#);
    shows(&hub, r#"aye_time_to_answer_seconds_bucket{kind="question",le="86400"} 1"#);
    shows(&hub, r#"aye_time_to_answer_seconds_count{kind="question"} 1"#);
    shows(&hub, r#"aye_time_to_answer_seconds_count{kind="permission"} 0"#);
    shows(&hub, r#"aye_agents{state="waiting"} 1"#);
    let page = metrics(&hub, &hub.operator());
    assert!(page.contains("content-type: text/plain; version=0.0.4\r\n"), "{page}");
    assert!(!page.contains("aye_commit_group_size_count 0\n"), "{page}");
}

#[test]
fn who_follows_and_who_was_refused_is_counted() {
    let hub = Hub::start();
    shows(&hub, r#"aye_surfaces_connected{role="operator"} 0"#);
    let mut request = format!("ws://{}/api/ws", hub.address).into_client_request().unwrap();
    request
        .headers_mut()
        .insert("Authorization", format!("Bearer {}", hub.token("operator")).parse().unwrap());
    let stream = TcpStream::connect(&hub.address).unwrap();
    let (socket, _) = tungstenite::client(request, stream).unwrap();
    shows(&hub, r#"aye_surfaces_connected{role="operator"} 1"#);
    drop(socket);
    shows(&hub, r#"aye_surfaces_connected{role="operator"} 0"#);

    shows(&hub, "aye_wrong_tokens_total 0");
    assert!(metrics(&hub, "aye_x_y").starts_with("HTTP/1.1 401"));
    // No token at all is a mistake, not an attempt.
    assert_eq!(hub.call("GET", "/metrics", &[], None).status, 401);
    assert!(metrics(&hub, &hub.agent("a")).starts_with("HTTP/1.1 403"));
    shows(&hub, "aye_wrong_tokens_total 1");
}
