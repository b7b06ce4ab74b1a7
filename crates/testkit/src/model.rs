//! A model that says what a test wrote down, on loopback, by whatever API the agent calls it. What the agent sends
//! it next is the only proof of what the agent took for an answer.

mod wires;

use crate::patience::{PATIENCE, eventually};
use crate::scenario::{ModelAct, ModelScenario, Step, parts_of};
pub use crate::scenario::{text, tool};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use wires::Wire;

pub struct Model {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Step<ModelAct>>>,
    /// The prompt of sub-agents, and what is said to them.
    below: Mutex<Option<(String, VecDeque<Step<ModelAct>>)>>,
    /// Explanation with which the service flags every call that auto mode has it check.
    flags: Mutex<Option<String>>,
    heard: Mutex<Vec<Value>>,
    /// How many pauses may be passed.
    released: Mutex<usize>,
    release: Condvar,
}

impl Model {
    /// Each step is the blocks of one message; after the last the model says that it is done.
    pub fn scripted(steps: Vec<Vec<Value>>) -> Self {
        Self::start(steps.into_iter().map(Step::Blocks).collect())
    }

    /// A scenario as it is in a file.
    pub fn playing(scenario: Value) -> Self {
        let scenario: ModelScenario = serde_json::from_value(scenario).unwrap();
        Self::start(scenario.steps.into())
    }

    pub fn from_file(scenario: &Path) -> Self {
        Self::playing(serde_json::from_slice(&std::fs::read(scenario).unwrap()).unwrap())
    }

    fn start(steps: VecDeque<Step<ModelAct>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { script: Mutex::new(steps), ..Shared::default() });
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

    /// The same with steps of their own for sub-agents that are given this prompt, in the order in which they ask.
    #[must_use]
    pub fn with_sub_agents(self, prompt: &str, steps: Vec<Vec<Value>>) -> Self {
        let steps = steps.into_iter().map(Step::Blocks).collect();
        *self.shared.below.lock().unwrap() = Some((prompt.to_owned(), steps));
        self
    }

    /// The same with a service that finds every call unsafe, where the agent wants them checked.
    #[must_use]
    pub fn flagging_calls(self, why: &str) -> Self {
        *self.shared.flags.lock().unwrap() = Some(why.to_owned());
        self
    }

    /// Lets a message that pauses go on.
    pub fn release(&self) {
        *self.shared.released.lock().unwrap() += 1;
        self.shared.release.notify_all();
    }

    /// What the agent sent so far, without what it asks for on the side.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.heard.lock().unwrap().clone()
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

    /// What the model is told of this tool call in words, whatever the API, once the agent tells it.
    pub fn told(&self, tool_use_id: &str) -> String {
        eventually("the agent to pass on a tool's result", || self.heard_of(tool_use_id))
    }

    /// The same, if the agent told it already.
    pub fn heard_of(&self, tool_use_id: &str) -> Option<String> {
        let heard = self.shared.heard.lock().unwrap();
        let mut results = heard.iter().flat_map(Wire::results);
        results.rfind(|(id, _)| id == tool_use_id).map(|(_, told)| wires::words(&told))
    }
}

impl Shared {
    fn next(&self, asked: &Value) -> Option<Step<ModelAct>> {
        if let Some((prompt, steps)) = self.below.lock().unwrap().as_mut()
            && asked["messages"][0].to_string().contains(prompt.as_str())
        {
            return steps.pop_front();
        }
        self.script.lock().unwrap().pop_front()
    }
}

const EVENTS_FOLLOW: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

fn reply(mut stream: TcpStream, shared: &Shared) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Some((path, body)) = request(&stream) else { return };
    let Some(wire) = Wire::of(&path) else {
        return send(&mut stream, 200, "application/json", "{}");
    };
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let streamed = asked["stream"] == true || path.contains(":stream");
    let step = if wire.is_on_the_side(&asked) {
        Step::Blocks(vec![text("ok")])
    } else {
        shared.heard.lock().unwrap().push(asked.clone());
        shared.next(&asked).unwrap_or_else(|| Step::Blocks(vec![text("I am done.")]))
    };
    let (blocks, deltas, pause) = match step {
        Step::Blocks(blocks) => (blocks, 1, false),
        Step::Act(ModelAct::Message { blocks, deltas, pause }) => (blocks, deltas, pause),
        Step::Act(ModelAct::Fail { status }) => return fail(&mut stream, status),
    };
    if wire != Wire::Messages {
        if pause {
            shared.wait_for_release();
        }
        return match streamed {
            true => send_events(&mut stream, &wires::events(wire, &blocks, &asked)),
            false => send(&mut stream, 200, "application/json", &wires::whole(wire, &blocks).to_string()),
        };
    }
    let calls_tools = blocks.iter().any(|block| block["type"] == "tool_use");
    let stop = if calls_tools { "tool_use" } else { "end_turn" };
    if !streamed {
        return send(&mut stream, 200, "application/json", &message(&blocks, Some(stop)).to_string());
    }
    let mut events = streamed_message(&blocks, stop, deltas);
    if let Some(why) = shared.flags.lock().unwrap().as_ref().filter(|_| asked["safeguards"].is_array()) {
        let end = events.iter_mut().find(|event| event["type"] == "message_delta").unwrap();
        end["delta"]["safeguard_results"] = flagged(&blocks, why);
    }
    let first = events.iter().position(|event| event["type"] == "content_block_delta").map_or(0, |at| at + 1);
    let (before, after) = events.split_at(first);
    say(&mut stream, EVENTS_FOLLOW);
    before.iter().for_each(|event| send_event(&mut stream, event));
    if pause {
        shared.wait_for_release();
    }
    after.iter().for_each(|event| send_event(&mut stream, event));
}

impl Shared {
    fn wait_for_release(&self) {
        let released = self.released.lock().unwrap();
        let waited = self.release.wait_timeout_while(released, PATIENCE, |released| *released == 0);
        let mut released = waited.unwrap().0;
        *released = released.saturating_sub(1);
    }
}

fn message(blocks: &[Value], stop: Option<&str>) -> Value {
    json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": "scripted", "content": blocks,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 10},
    })
}

/// As the model's own service tells what it thinks of the calls in a message.
fn flagged(blocks: &[Value], why: &str) -> Value {
    let flagged = json!({"type": "evaluated", "outcome": "flagged", "explanation": why});
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    let calls = calls.map(|block| (block["id"].as_str().unwrap().to_owned(), flagged.clone()));
    let status = json!({"type": "available", "tool_uses": calls.collect::<serde_json::Map<_, _>>()});
    json!([{"type": "dangerous_tool_use", "status": status}])
}

/// The events of a message whose texts come in so many parts.
fn streamed_message(blocks: &[Value], stop: &str, deltas: usize) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": message(&[], None)})];
    for (i, block) in blocks.iter().enumerate() {
        let (start, parts) = match block["type"].as_str() {
            Some("text") => {
                let parts = parts_of(block["text"].as_str().unwrap(), deltas);
                let deltas = parts.into_iter().map(|part| json!({"type": "text_delta", "text": part}));
                (json!({"type": "text", "text": ""}), deltas.collect())
            }
            _ => {
                let input = json!({"type": "input_json_delta", "partial_json": block["input"].to_string()});
                (
                    json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                    vec![input],
                )
            }
        };
        events.push(json!({"type": "content_block_start", "index": i, "content_block": start}));
        let parts =
            parts.into_iter().map(|delta| json!({"type": "content_block_delta", "index": i, "delta": delta}));
        events.extend(parts);
        events.push(json!({"type": "content_block_stop", "index": i}));
    }
    let end = json!({"stop_reason": stop, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn send_events(stream: &mut TcpStream, events: &[(Option<&str>, String)]) {
    say(stream, EVENTS_FOLLOW);
    for (name, data) in events {
        let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        say(stream, &format!("{name}data: {data}\n\n"));
    }
}

fn send_event(stream: &mut TcpStream, event: &Value) {
    say(stream, &format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
}

/// As the model's own service words its trouble.
fn fail(stream: &mut TcpStream, status: u16) {
    let kind = if status == 529 { "overloaded_error" } else { "api_error" };
    let body =
        json!({"type": "error", "error": {"type": kind, "message": format!("scripted error {status}")}});
    send(stream, status, "application/json", &body.to_string());
}

fn request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut chunked) = (0, false);
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
        chunked |= line.to_ascii_lowercase().starts_with("transfer-encoding: chunked");
    }
    if chunked {
        return Some((path, chunks(&mut reader)?));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; length];
        reader.read_exact(&mut chunk).ok()?;
        body.extend(chunk);
        line.clear();
        reader.read_line(&mut line).ok()?;
        if length == 0 {
            return Some(body);
        }
    }
}

fn send(stream: &mut TcpStream, status: u16, kind: &str, body: &str) {
    let length = body.len();
    let head = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    say(stream, &format!("HTTP/1.1 {status} Scripted\r\n{head}{body}"));
}

fn say(stream: &mut TcpStream, words: &str) {
    // An agent that was ended meanwhile does not listen.
    drop(stream.write_all(words.as_bytes()));
}
