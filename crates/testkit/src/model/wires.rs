//! The other APIs by which agents reach a model. A script is written once, in the blocks of Anthropic's messages, and
//! said in each of them.

use serde_json::{Map, Value, json};

/// Which API a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Messages,
    /// OpenAI's responses: Codex.
    Responses,
    /// OpenAI's chat completions: Qwen, OpenCode and many more.
    Chat,
    /// Google's: Gemini CLI.
    Gemini,
}

impl Wire {
    pub fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        match path {
            "/v1/messages" => Some(Self::Messages),
            "/v1/responses" => Some(Self::Responses),
            "/v1/chat/completions" => Some(Self::Chat),
            _ if path.ends_with("enerateContent") => Some(Self::Gemini),
            _ => None,
        }
    }

    /// Titles and the like are asked for on the side, with hardly any tools, and are not part of the story.
    pub fn is_on_the_side(self, asked: &Value) -> bool {
        let tools = asked["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Messages => tools.len() < 2,
            Self::Responses | Self::Chat => tools.is_empty(),
            Self::Gemini => tools.is_empty() || !asked["generationConfig"]["responseJsonSchema"].is_null(),
        }
    }

    /// What the model is told of its tool calls, by their ids.
    pub fn results(asked: &Value) -> Vec<(String, Value)> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let messages = list(&asked["messages"]);
        let blocks = messages.iter().flat_map(|message| list(&message["content"]));
        let claude = blocks.filter(|block| block["type"] == "tool_result");
        let claude = claude.map(|block| (id(&block["tool_use_id"]), block["content"].clone()));
        let chat = messages.iter().filter(|message| message["role"] == "tool");
        let chat = chat.map(|message| (id(&message["tool_call_id"]), message["content"].clone()));
        let items = list(&asked["input"]).into_iter().filter(|item| !item["output"].is_null());
        let responses = items.map(|item| (id(&item["call_id"]), item["output"].clone()));
        let parts = list(&asked["contents"]).into_iter().flat_map(|content| list(&content["parts"]));
        let gemini =
            parts.map(|part| part["functionResponse"].clone()).filter(|response| !response.is_null());
        let gemini = gemini.map(|response| {
            // Gemini CLI puts the name of the tool before the id.
            let (name, id) = (format!("{}__", id(&response["name"])), id(&response["id"]));
            (id.strip_prefix(&name).unwrap_or(&id).to_owned(), response["response"].clone())
        });
        claude.chain(chat).chain(responses).chain(gemini).collect()
    }
}

/// What a result says, in words.
pub fn words(told: &Value) -> String {
    match told {
        Value::String(words) => words.clone(),
        Value::Array(blocks) => {
            blocks.iter().map(|block| block["text"].as_str().unwrap_or_default()).collect()
        }
        Value::Object(fields) => match fields.get("output").or(fields.get("error")) {
            Some(Value::String(words)) => words.clone(),
            _ => told.to_string(),
        },
        _ => told.to_string(),
    }
}

/// One message as server-sent events: the name, if this API names them, and the data.
pub fn events(wire: Wire, blocks: &[Value], asked: &Value) -> Vec<(Option<&'static str>, String)> {
    match wire {
        Wire::Messages => Vec::new(),
        Wire::Responses => responses(blocks, asked),
        Wire::Chat => {
            let chunk = |delta: Value, finish: Value| {
                let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
                json!({"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
                    "choices": [choice], "usage": usage()})
            };
            let (delta, finish) = chat(blocks);
            let said = [chunk(delta, Value::Null), chunk(json!({}), finish.into())];
            let said = said.into_iter().map(|chunk| (None, chunk.to_string()));
            said.chain([(None, "[DONE]".to_owned())]).collect()
        }
        Wire::Gemini => vec![(None, gemini(blocks).to_string())],
    }
}

/// The same message at once.
pub fn whole(wire: Wire, blocks: &[Value]) -> Value {
    match wire {
        Wire::Gemini => gemini(blocks),
        Wire::Messages | Wire::Responses | Wire::Chat => {
            let (mut message, finish) = chat(blocks);
            if let Some(calls) = message["tool_calls"].as_array_mut() {
                calls.iter_mut().filter_map(Value::as_object_mut).for_each(|call| {
                    call.shift_remove("index");
                });
            }
            json!({"id": "chat", "object": "chat.completion", "created": 1, "model": "scripted",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage()})
        }
    }
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
}

fn responses(blocks: &[Value], asked: &Value) -> Vec<(Option<&'static str>, String)> {
    let is_custom = |name: &Value| {
        let tools = asked["tools"].as_array().into_iter().flatten();
        tools.into_iter().any(|tool| tool["name"] == *name && tool["type"] == "custom")
    };
    let item = |(n, block): (usize, &Value)| match block["type"].as_str() {
        Some("tool_use") if is_custom(&block["name"]) => json!({
            "type": "custom_tool_call", "id": format!("ctc_{n}"), "call_id": block["id"],
            "name": block["name"], "input": block["input"]["input"]}),
        Some("tool_use") => json!({
            "type": "function_call", "id": format!("fc_{n}"), "call_id": block["id"],
            "name": block["name"], "arguments": block["input"].to_string()}),
        _ => json!({
            "type": "message", "role": "assistant", "id": format!("msg_{n}"),
            "content": [{"type": "output_text", "text": block["text"]}]}),
    };
    let done = |(n, item): (usize, Value)| {
        let event = json!({"type": "response.output_item.done", "output_index": n, "item": item});
        (Some("response.output_item.done"), event.to_string())
    };
    let created = json!({"type": "response.created", "response": {"id": "resp"}});
    let usage = json!({"input_tokens": 10, "input_tokens_details": null, "output_tokens": 5,
        "output_tokens_details": null, "total_tokens": 15});
    let completed = json!({"type": "response.completed", "response": {"id": "resp", "usage": usage}});
    let items = blocks.iter().enumerate().map(item).enumerate().map(done);
    std::iter::once((Some("response.created"), created.to_string()))
        .chain(items)
        .chain([(Some("response.completed"), completed.to_string())])
        .collect()
}

fn chat(blocks: &[Value]) -> (Value, &'static str) {
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use").enumerate();
    let calls: Vec<_> = calls
        .map(|(n, block)| {
            let function = json!({"name": block["name"], "arguments": block["input"].to_string()});
            json!({"index": n, "id": block["id"], "type": "function", "function": function})
        })
        .collect();
    let words: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    match calls.is_empty() {
        true => (json!({"role": "assistant", "content": words}), "stop"),
        false => (json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls"),
    }
}

fn gemini(blocks: &[Value]) -> Value {
    let part = |block: &Value| match block["type"].as_str() {
        Some("tool_use") => {
            let call = json!({"name": block["name"], "args": block["input"], "id": block["id"]});
            json!({"functionCall": call, "thoughtSignature": "c2ln"})
        }
        _ => Value::Object(Map::from_iter([("text".to_owned(), block["text"].clone())])),
    };
    let parts: Vec<_> = blocks.iter().map(part).collect();
    let content = json!({"role": "model", "parts": parts});
    json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "modelVersion": "scripted",
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}})
}
