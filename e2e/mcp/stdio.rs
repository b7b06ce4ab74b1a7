//! `aye mcp`.

use super::{delivered, initialize, note_of_withdrawn, ticket, told, yes_or_no};
use crate::support::{Hub, PATIENCE, aye, ended, saying, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
}

impl Client {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = aye(home);
        command.arg("mcp").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = sync_channel(100);
        std::thread::spawn(move || {
            for line in output.lines() {
                let message = serde_json::from_str(&line.unwrap()).expect("nothing but messages is printed");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut client = Self { input: child.stdin.take(), child, messages };
        client.send(json!({"id": 0, "method": "initialize", "params": initialize()}));
        assert_eq!(client.next()["result"]["serverInfo"]["name"], "aye");
        client.send(json!({"method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn call(&mut self, id: u32, tool: &str, arguments: Value) {
        self.send(
            json!({"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}),
        );
    }

    fn next(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("a message")
    }

    fn response(&self, id: u32) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn close(mut self) {
        drop(self.input.take());
        assert!(ended(&mut self.child).success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_question_is_answered_into_the_result_of_the_tool_call() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    client.send(json!({"id": 1, "method": "tools/list"}));
    let listed = client.response(1);
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["ask_human", "check_answer"]);
    assert_eq!(hub.get("/api/agents", &hub.operator()).body, json!({"agents": []}), "nobody asked yet");

    client.call(2, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    assert_eq!(ask["body"]["questions"][0]["options"][1], json!({"label": "no", "description": "leave it"}));
    let agents = hub.get("/api/agents", &hub.operator()).body;
    let agent = &agents["agents"][0];
    assert_eq!((&agent["kind"], &agent["title"]), (&json!("mcp"), &json!("tester")), "{agents}");
    assert_eq!(hub.answer(&ask, saying("no")).status, 200);
    let response = client.response(2);
    assert_eq!(told(&response), ("The person answered: no", false));
    assert_eq!(response["result"]["structuredContent"]["answer"], saying("no"));
    delivered(&hub, &ask);

    client.call(
        3,
        "ask_human",
        json!({"question": "Which?", "options": ["a, b", "c"], "multi": true, "free_text": true}),
    );
    hub.answer_next(json!({"answers": [{"selected": ["a, b", "c"], "text": "d", "notes": "soon"}]}));
    assert_eq!(told(&client.response(3)), ("The person answered: \"a, b\", c, d\nNote: soon", false));

    client.call(4, "ask_human", json!({"question": "What is it called?"}));
    hub.answer_next(json!({"skip": true, "message": "later"}));
    assert_eq!(told(&client.response(4)), ("The person declined to answer: later", false));
    client.close();
    assert_eq!(hub.get("/api/agents", &hub.operator()).body, json!({"agents": []}));
}

#[test]
fn a_permission_in_words_goes_to_a_person_whatever_the_rules_say_and_for_once_alone() {
    let mut hub = Hub::start();
    std::fs::write(hub.home.join("config.toml"), "[policy]\nauto_approve = [\"*\"]\n").unwrap();
    hub.stop();
    hub.restart();
    let mut client = Client::start(&hub.home, &[]);
    client.call(1, "ask_human", json!({"permission": "delete the \u{202e}old branch"}));
    let ask = hub.open_ask();
    assert_eq!((&ask["kind"], &ask["body"]["tool"]), (&json!("permission"), &json!("Unclear")));
    assert_eq!(ask["body"]["scopes"], json!([{"scope": "once"}]));
    assert!(ask["display"]["caution"].as_str().unwrap().contains("no rule decides it"), "{ask}");
    let edited = hub.answer(&ask, json!({"decision": "allow", "scope": "once", "input": {"text": "x"}}));
    let stopped = hub.answer(&ask, json!({"decision": "deny", "interrupt": true}));
    for (refused, field) in [(edited, "answer.input"), (stopped, "answer.interrupt")] {
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!(field)));
        assert!(refused.body["error"].as_str().unwrap().contains("over MCP"), "{}", refused.body);
    }
    assert_eq!(hub.answer(&ask, json!({"decision": "allow", "scope": "once"})).status, 200);
    assert_eq!(told(&client.response(1)), ("The person allowed it, this once.", false));
    delivered(&hub, &ask);
    client.call(2, "ask_human", json!({"permission": "delete all branches"}));
    hub.answer_next(json!({"decision": "deny", "message": "keep main"}));
    assert_eq!(told(&client.response(2)), ("The person refused. Do not do it: keep main", false));
    client.close();
}

#[test]
fn a_client_that_wants_to_know_is_told_that_its_call_still_waits() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    let params = json!({"name": "ask_human", "arguments": yes_or_no(), "_meta": {"progressToken": "p1"}});
    client.send(json!({"id": 1, "method": "tools/call", "params": params}));
    let notice = client.next();
    assert_eq!(
        (&notice["method"], &notice["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p1"))
    );
    let further = client.next();
    assert!(further["params"]["progress"].as_f64() > notice["params"]["progress"].as_f64(), "{further}");
    hub.answer_next(saying("yes"));
    assert_eq!(told(&client.response(1)), ("The person answered: yes", false));
    // Without a token there is none.
    client.call(2, "ask_human", yes_or_no());
    hub.answer_next(saying("yes"));
    assert_eq!(client.next()["id"], 2);
    client.close();
}

#[test]
fn a_cancelled_call_and_a_client_that_is_gone_take_the_ask_back() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    client.call(1, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1}}));
    note_of_withdrawn(&hub, &ask);

    client.call(2, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    client.close();
    note_of_withdrawn(&hub, &ask);

    for how in [Signal::TERM, Signal::KILL] {
        let mut client = Client::start(&hub.home, &[]);
        client.call(1, "ask_human", yes_or_no());
        let ask = hub.open_ask();
        signal(&client.child, how);
        ended(&mut client.child);
        note_of_withdrawn(&hub, &ask);
    }
}

#[test]
fn a_ticket_outlives_its_client_and_another_one_gets_the_answer() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &["--ticket-after", "0s"]);
    client.call(1, "ask_human", yes_or_no());
    let response = client.response(1);
    let (words, is_error) = told(&response);
    assert!(words.starts_with("Nobody has answered yet.") && !is_error, "{words}");
    let ticket = ticket(&response);
    let ask = hub.open_ask();
    assert!(ask["sub_agent"].as_str().unwrap().starts_with("tester in "), "{ask}");
    // What was said of the call is no cancel of the ask any more.
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1}}));
    client.call(2, "check_answer", json!({"ticket": ticket}));
    assert!(told(&client.response(2)).0.starts_with("Nobody has answered yet."));
    client.close();
    assert_eq!(hub.ask(&ask)["state"], "open");

    let mut other = Client::start(&hub.home, &[]);
    other.call(1, "check_answer", json!({"ticket": ticket, "wait_seconds": 600}));
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    assert_eq!(told(&other.response(1)), ("The person answered: yes", false));
    delivered(&hub, &ask);
    other.call(2, "check_answer", json!({"ticket": ticket}));
    assert_eq!(told(&other.response(2)), ("The person answered: yes", false), "it can be asked for again");
    other.close();
}

#[test]
fn a_call_that_is_cancelled_before_its_ticket_was_given_takes_the_ask_back() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    client.call(1, "ask_human", json!({"question": "Go on?", "wait_seconds": 600}));
    let ask = hub.open_ask();
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1}}));
    note_of_withdrawn(&hub, &ask);
}

#[test]
fn a_ticket_leads_to_no_ask_of_another_agent() {
    let hub = Hub::start();
    let ask = hub.raise(&hub.agent("bot"), "bot", "k", "question", crate::support::yes_or_no());
    let mut client = Client::start(&hub.home, &[]);
    for ticket in [ask["id"].as_str().unwrap(), "0000000000", "../agents", ""] {
        client.call(1, "check_answer", json!({"ticket": ticket}));
        assert!(told(&client.response(1)).1, "{ticket}");
    }
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn a_call_waits_through_a_restart_of_the_hub() {
    let mut hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    client.call(1, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    hub.kill();
    hub.restart();
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    assert_eq!(told(&client.response(1)), ("The person answered: yes", false));
    delivered(&hub, &ask);
}

#[test]
fn what_cannot_be_asked_is_an_error_in_words_and_leaves_nothing_behind() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    for (arguments, why) in [
        (json!({}), "give either question or permission"),
        (json!({"question": "a", "permission": "b"}), "give either question or permission"),
        (json!({"question": " "}), "must not be empty"),
        (json!({"question": "a", "options": ["x", "x"]}), "two options are labelled"),
        (json!({"permission": "a", "options": ["x"]}), "go with question"),
        (json!({"permission": "ls", "tool": "Bash"}), "tool"),
        (json!({"question": 7}), "question"),
    ] {
        client.call(1, "ask_human", arguments);
        let response = client.response(1);
        let (words, is_error) = told(&response);
        assert!(is_error && words.contains(why), "{why:?} in {words:?}");
    }
    client.call(2, "answer_human", json!({}));
    assert!(client.response(2)["error"]["message"].is_string());
    assert_eq!(hub.get("/api/asks", &hub.operator()).body, json!({"asks": []}));
}

#[test]
fn without_a_hub_the_agent_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::start(&home.path().join("home"), &[]);
    client.call(1, "ask_human", yes_or_no());
    let response = client.response(1);
    let (words, is_error) = told(&response);
    assert!(is_error && words.contains("aye up"), "{words}");
    client.close();
}

#[test]
fn an_id_that_is_in_use_is_refused_and_the_first_call_gets_its_own_answer() {
    let hub = Hub::start();
    let mut client = Client::start(&hub.home, &[]);
    client.call(7, "ask_human", yes_or_no());
    let ask = hub.open_ask();
    client.call(7, "ask_human", json!({"question": "Another?"}));
    let refused = client.next();
    assert_eq!(refused.get("id"), None, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("the id 7 is in use"), "{why}");
    assert_eq!(hub.open_asks().len(), 1);
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    assert_eq!(told(&client.response(7)), ("The person answered: yes", false));
    // Answered, so it may be used again.
    client.call(7, "ask_human", json!({"question": "Another?"}));
    hub.answer_next(json!({"answers": [{"text": "words"}]}));
    assert_eq!(told(&client.response(7)), ("The person answered: words", false));
    client.close();
}
