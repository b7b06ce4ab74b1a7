//! Any agent asks through MCP: on standard input and output of `aye mcp`, and at the hub's `/mcp`.

mod claude;
mod http;
mod stdio;

use crate::support::Hub;
use serde_json::{Value, json};

fn initialize() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}})
}

fn yes_or_no() -> Value {
    json!({"question": "Go on?", "options": ["yes", {"label": "no", "description": "leave it"}]})
}

/// What the model is told of a tool call, and whether that is an error.
#[track_caller]
fn told(response: &Value) -> (&str, bool) {
    let result = &response["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"));
    (text, result["isError"] == true)
}

#[track_caller]
fn ticket(response: &Value) -> String {
    let ticket = response["result"]["structuredContent"]["ticket"].as_str();
    ticket.unwrap_or_else(|| panic!("no ticket in {response}")).to_owned()
}

/// The ask once it was taken back, and why.
fn note_of_withdrawn(hub: &Hub, ask: &Value) -> String {
    let ended = hub.once(ask, "the ask to end", |ask| ask["state"] != "open");
    assert_eq!(ended["state"], "withdrawn", "{ended}");
    ended["note"].as_str().unwrap_or_default().to_owned()
}

fn delivered(hub: &Hub, ask: &Value) {
    hub.once(ask, "the receipt", |ask| ask["receipt"] == "delivered");
}
