//! The lines it writes, as the real one writes them.

use serde_json::{Map, Value, json};

pub fn started(arguments: &[String]) -> Value {
    let secrets = ["AYE_TOKEN"].map(|name| (name, std::env::var_os(name).is_some()));
    let secrets: Vec<_> = secrets.iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
    let cwd = std::env::current_dir().unwrap();
    json!({"type": "started", "pid": std::process::id(), "arguments": arguments, "cwd": cwd, "secrets": secrets,
        "environment": std::env::vars().map(|(name, _)| name).collect::<Vec<_>>()})
}

pub fn init(session: &str) -> Value {
    let cwd = std::env::current_dir().unwrap();
    json!({
        "type": "system", "subtype": "init", "session_id": session, "cwd": cwd, "model": "scripted",
        "permissionMode": "default", "tools": ["AskUserQuestion", "Bash", "Edit", "ExitPlanMode", "Read", "Write"],
        "claude_code_version": "0.0.0",
    })
}

/// Everything we are asked for is granted at once.
pub fn reply(id: &Value, request: &Value) -> Value {
    let response = match request["subtype"].as_str() {
        Some("initialize") => json!({"commands": [], "models": [], "output_style": "default"}),
        _ => json!({}),
    };
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
}

pub fn assistant(session: &str, parent: Option<&str>, block: &Value) -> Value {
    let stop = (block["type"] == "tool_use").then_some("tool_use");
    json!({
        "type": "assistant", "session_id": session, "parent_tool_use_id": parent,
        "message": {
            "id": "msg_scripted", "type": "message", "role": "assistant", "model": "scripted", "content": [block],
            "stop_reason": stop, "usage": {"input_tokens": 10, "output_tokens": 10},
        },
    })
}

/// A part of a message that streams in.
pub fn streamed(session: &str, event: &Value) -> Value {
    json!({"type": "stream_event", "session_id": session, "parent_tool_use_id": null, "event": event})
}

/// A prompt that it has now taken up, for those who asked to be told.
pub fn echo(session: &str, prompt: &Value) -> Value {
    json!({"type": "user", "session_id": session, "message": prompt, "isReplay": true})
}

pub fn request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

pub fn can_use_tool(block: &Value, with: &Map<String, Value>) -> Value {
    let mut request = json!({
        "subtype": "can_use_tool", "tool_name": block["name"], "display_name": block["name"], "input": block["input"],
        "tool_use_id": block["id"],
    });
    request.as_object_mut().unwrap().extend(with.clone());
    request
}

pub fn cancel(id: &str) -> Value {
    json!({"type": "control_cancel_request", "request_id": id})
}

pub fn tool_result(
    session: &str,
    parent: Option<&str>,
    tool: &Value,
    content: &str,
    is_error: bool,
    detail: &Value,
) -> Value {
    let result =
        json!({"type": "tool_result", "tool_use_id": tool, "content": content, "is_error": is_error});
    json!({
        "type": "user", "session_id": session, "parent_tool_use_id": parent,
        "message": {"role": "user", "content": [result]}, "tool_use_result": detail,
    })
}

pub fn result(session: &str, failed: bool, words: &str, turns: usize) -> Value {
    let subtype = if failed { "error_during_execution" } else { "success" };
    json!({
        "duration_ms": 1200, "duration_api_ms": 900, "type": "result", "subtype": subtype, "is_error": failed, "num_turns": turns,
        "result": words, "session_id": session, "total_cost_usd": 0.0125,
        "usage": {"input_tokens": 100, "output_tokens": 20}, "permission_denials": [],
    })
}
