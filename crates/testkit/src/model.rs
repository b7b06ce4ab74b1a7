//! A model that says what a test wrote down: Anthropic's messages API on loopback, streamed. What the
//! agent sends it next is the only proof of what the agent took for an answer.

use crate::patience::{PATIENCE, eventually};
pub use crate::scenario::{text, tool};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub struct Model {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Vec<Value>>>,
    heard: Mutex<Vec<Value>>,
}

impl Model {
    /// Each step is the blocks of one message; after the last the model says that it is done.
    pub fn scripted(steps: Vec<Vec<Value>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { script: Mutex::new(steps.into()), ..Shared::default() });
        let serving = shared.clone();
        // Ends with the test's process; every connection is closed after one reply.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = serving.clone();
                thread::spawn(move || reply(stream, &shared));
            }
        });
        Self { url, shared }
    }

    /// What the model is told of this tool call, once the agent tells it.
    pub fn result_of(&self, tool_use_id: &str) -> Value {
        eventually("the agent to pass on a tool's result", || {
            let heard = self.shared.heard.lock().unwrap();
            let messages =
                heard.iter().flat_map(|request| request["messages"].as_array().into_iter().flatten());
            let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
            let mut results = blocks.filter(|block| block["tool_use_id"] == tool_use_id);
            results.next_back().cloned()
        })
    }

    /// The words in that result.
    pub fn told(&self, tool_use_id: &str) -> String {
        let content = &self.result_of(tool_use_id)["content"];
        match content {
            Value::String(words) => words.clone(),
            blocks => {
                blocks.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).collect()
            }
        }
    }
}

fn reply(mut stream: TcpStream, shared: &Shared) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Some((path, body)) = request(&stream) else { return };
    if !path.starts_with("/v1/messages") || path.contains("count_tokens") {
        return send(&mut stream, "application/json", "{}");
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    // Titles and the like are asked for on the side, with hardly any tools, and are not part of the story.
    let on_the_side = asked["tools"].as_array().is_none_or(|tools| tools.len() < 2);
    let streamed = asked["stream"] == true;
    let blocks = if on_the_side {
        vec![text("ok")]
    } else {
        shared.heard.lock().unwrap().push(asked);
        shared.script.lock().unwrap().pop_front().unwrap_or_else(|| vec![text("I am done.")])
    };
    let calls_tools = blocks.iter().any(|block| block["type"] == "tool_use");
    let stop = if calls_tools { "tool_use" } else { "end_turn" };
    match streamed {
        true => send(&mut stream, "text/event-stream", &streamed_message(&blocks, stop)),
        false => send(&mut stream, "application/json", &message(&blocks, Some(stop)).to_string()),
    }
}

fn message(blocks: &[Value], stop: Option<&str>) -> Value {
    json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": "scripted", "content": blocks,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 10},
    })
}

fn streamed_message(blocks: &[Value], stop: &str) -> String {
    let mut out = String::new();
    let mut event = |content: Value| {
        out += &format!("event: {}\ndata: {content}\n\n", content["type"].as_str().unwrap());
    };
    event(json!({"type": "message_start", "message": message(&[], None)}));
    for (i, block) in blocks.iter().enumerate() {
        let (start, delta) = match block["type"].as_str() {
            Some("text") => {
                (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": block["text"]}))
            }
            _ => {
                let start =
                    json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}});
                (start, json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}))
            }
        };
        event(json!({"type": "content_block_start", "index": i, "content_block": start}));
        event(json!({"type": "content_block_delta", "index": i, "delta": delta}));
        event(json!({"type": "content_block_stop", "index": i}));
    }
    event(
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 10}}),
    );
    event(json!({"type": "message_stop"}));
    out
}

fn request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn send(stream: &mut TcpStream, kind: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // An agent that was ended meanwhile does not listen.
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}
