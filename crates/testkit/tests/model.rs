//! The scripted model streams, pauses and fails as a test wants it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use aye_testkit::model::{Model, text};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

fn ask(model: &Model) -> TcpStream {
    let address = model.url.strip_prefix("http://").unwrap();
    let body = json!({"stream": true, "tools": [{}, {}], "messages": []}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST /v1/messages?beta=true HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

fn all(mut stream: TcpStream) -> String {
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

fn deltas(reply: &str) -> Vec<String> {
    let events = reply.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.map(|event| serde_json::from_str::<Value>(event).unwrap());
    events.filter_map(|event| event["delta"]["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_message_comes_in_parts_and_waits_between_them() {
    let message = json!({"do": "message", "blocks": [text("abcdef")], "deltas": 3, "pause": true});
    let model = Model::playing(json!({"steps": [message]}));
    let mut stream = ask(&model);
    let mut seen = String::new();
    while !seen.contains("\"ab\"") {
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0].into());
    }
    assert!(!seen.contains("\"cd\""));
    model.release();
    let whole = seen + &all(stream);
    assert_eq!(deltas(&whole), ["ab", "cd", "ef"]);
    assert!(whole.contains("message_stop"));
}

#[test]
fn it_fails_once_and_then_goes_on() {
    let model = Model::playing(json!({"steps": [{"do": "fail", "status": 529}, [text("here")]]}));
    assert!(all(ask(&model)).starts_with("HTTP/1.1 529"));
    assert_eq!(deltas(&all(ask(&model))), ["here"]);
    assert_eq!(deltas(&all(ask(&model))), ["I am done."]);
    assert_eq!(model.requests().len(), 3);
}
