//! The hub's `/mcp`.

use super::{delivered, initialize, note_of_withdrawn, ticket, told, yes_or_no};
use crate::support::{Hub, saying};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};

/// A POST whose reply is read as it comes.
struct Post(BufReader<TcpStream>);

impl Post {
    fn to(hub: &Hub, token: &str, session: &str, mut message: Value) -> Self {
        message["jsonrpc"] = json!("2.0");
        let (body, mut stream) = (message.to_string(), hub.connect());
        let session =
            if session.is_empty() { String::new() } else { format!("Mcp-Session-Id: {session}\r\n") };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\nConnection: close\r\n\r\n",
            hub.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    fn call(hub: &Hub, token: &str, tool: &str, arguments: Value) -> Self {
        Self::to(hub, token, "", call(1, tool, arguments))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).ok().filter(|read| *read > 0);
        read.map(|_| line.trim_end().to_owned())
    }

    /// The status, and the session if there is one.
    fn head(&mut self) -> (u16, Option<String>) {
        let status = self.line().expect("a status").split(' ').nth(1).unwrap().parse().unwrap();
        let mut session = None;
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            if name.eq_ignore_ascii_case("mcp-session-id") {
                session = Some(value.to_owned());
            }
        }
        (status, session)
    }

    /// The next message of the reply.
    fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.line()?;
            if let Some(Ok(message)) = line.strip_prefix("data: ").map(serde_json::from_str) {
                return Some(message);
            }
        }
    }

    fn response(&mut self) -> Value {
        loop {
            let message = self.next().expect("a response");
            if !message["id"].is_null() {
                return message;
            }
        }
    }

    fn close(&self) {
        self.0.get_ref().shutdown(Shutdown::Both).unwrap();
    }
}

fn call(id: u32, tool: &str, arguments: Value) -> Value {
    json!({"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[test]
fn a_question_is_answered_over_http_with_notices_meanwhile() {
    let hub = Hub::start();
    let token = hub.agent("cursor");
    let mut opened =
        Post::to(&hub, &token, "", json!({"id": 0, "method": "initialize", "params": initialize()}));
    let (status, session) = opened.head();
    assert_eq!((status, session.is_some()), (200, true));
    assert_eq!(opened.response()["result"]["serverInfo"]["name"], "aye");
    let session = session.unwrap();
    let mut ready = Post::to(&hub, &token, &session, json!({"method": "notifications/initialized"}));
    assert_eq!(ready.head().0, 202);

    let mut asked = call(1, "ask_human", yes_or_no());
    asked["params"]["_meta"] = json!({"progressToken": 7});
    let mut post = Post::to(&hub, &token, &session, asked);
    assert_eq!(post.next().expect("a notice")["method"], "notifications/progress");
    let ask = hub.answer_next(saying("yes"));
    assert_eq!(ask["agent"], "cursor");
    assert_eq!(told(&post.response()), ("The person answered: yes", false));
    delivered(&hub, &ask);
}

#[test]
fn a_closed_connection_and_a_cancel_take_the_ask_back_and_nobody_elses() {
    let hub = Hub::start();
    let (token, other) = (hub.agent("cursor"), hub.agent("other"));
    let post = Post::call(&hub, &token, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    post.close();
    note_of_withdrawn(&hub, &ask);

    let cancel = |token: &str, session: &str, id: Value| {
        let message = json!({"method": "notifications/cancelled", "params": {"requestId": id}});
        assert_eq!(Post::to(&hub, token, session, message).head().0, 202);
    };
    let mut post = Post::to(&hub, &token, "one", call(1, "ask_human", yes_or_no()));
    let ask = hub.open_ask();
    cancel(&other, "one", json!(1));
    cancel(&token, "two", json!(1));
    cancel(&token, "one", json!("1"));
    cancel(&token, "one", json!(2));
    assert_eq!(hub.ask(&ask)["state"], "open");
    cancel(&token, "one", json!(1));
    note_of_withdrawn(&hub, &ask);
    assert!(told(&post.response()).1);

    // Whose call is meant is not clear here.
    let mut first = Post::call(&hub, &token, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    let second = Post::call(&hub, &token, "ask_human", json!({"question": "And?"}));
    crate::support::eventually("both asks", || (hub.open_asks().len() == 2).then_some(()));
    cancel(&token, "", json!(1));
    assert_eq!(hub.open_asks().len(), 2);
    second.close();
    crate::support::eventually("one ask", || (hub.open_asks().len() == 1).then_some(()));
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    assert_eq!(told(&first.response()), ("The person answered: yes", false));
}

#[test]
fn a_ticket_is_good_for_its_own_agent_alone_and_after_a_restart() {
    let mut hub = Hub::start();
    let (token, other) = (hub.agent("cursor"), hub.agent("other"));
    let asked = json!({"question": "Go on?", "options": ["yes", "no"], "wait_seconds": 0});
    let ticket = ticket(&Post::call(&hub, &token, "ask_human", asked).response());
    let ask = hub.open_ask();
    assert_eq!(ask["id"], *ticket);
    hub.kill();
    hub.restart();
    let check = json!({"ticket": ticket});
    let open = Post::call(&hub, &token, "check_answer", check.clone()).response();
    assert!(told(&open).0.starts_with("Nobody has answered yet."), "{open}");
    assert_eq!(hub.answer(&ask, saying("no")).status, 200);
    assert!(told(&Post::call(&hub, &other, "check_answer", check.clone()).response()).1);
    assert_eq!(hub.ask(&ask)["receipt"], "pending");
    let answered = Post::call(&hub, &token, "check_answer", check).response();
    assert_eq!(told(&answered), ("The person answered: no", false));
    delivered(&hub, &ask);
}

#[test]
fn a_hub_that_stops_and_a_revoked_token_take_back_what_waits() {
    let mut hub = Hub::start();
    let token = hub.agent("cursor");
    let _post = Post::call(&hub, &token, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    let id = token.split('_').nth(1).unwrap();
    assert_eq!(hub.delete(&format!("/api/tokens/{id}"), &hub.operator()).status, 204);
    note_of_withdrawn(&hub, &ask);

    let _post = Post::call(&hub, &hub.agent("zed"), "ask_human", yes_or_no());
    let ask = hub.open_ask();
    assert!(hub.stop().success());
    hub.restart();
    note_of_withdrawn(&hub, &ask);
}

#[test]
fn an_agent_that_has_too_much_open_is_told_so() {
    let hub = Hub::start();
    hub.fill("cursor");
    let response = Post::call(&hub, &hub.agent("cursor"), "ask_human", yes_or_no()).response();
    let (words, is_error) = told(&response);
    assert!(is_error && words.contains("open"), "{words}");
}

#[test]
fn only_an_agent_gets_in_and_no_page_does() {
    let hub = Hub::start();
    let status = |token: &str| Post::call(&hub, token, "ask_human", yes_or_no()).head().0;
    assert_eq!(
        [status("aye_x_y"), status(&hub.token("viewer")), status(&hub.token("operator"))],
        [401, 403, 403]
    );
    let bearer = format!("Bearer {}", hub.agent("cursor"));
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = call(1, "ask_human", yes_or_no()).to_string();
    for foreign in [("Origin", "https://evil.example"), ("Host", "evil.example")] {
        let reply = hub.call("POST", "/mcp", &[headers[0], headers[1], foreign], Some(body.as_bytes()));
        assert_eq!(reply.status, 403, "{foreign:?}");
    }
    let plain =
        hub.call("POST", "/mcp", &[headers[0], ("Content-Type", "text/plain")], Some(body.as_bytes()));
    assert_eq!(plain.status, 415);
    for method in ["GET", "DELETE"] {
        assert_eq!(hub.call(method, "/mcp", &headers[..1], None).status, 405, "{method}");
    }
    assert_eq!(hub.open_asks(), Vec::<Value>::new());
}
