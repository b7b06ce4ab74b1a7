//! The lines Claude Code writes and reads on its control channel. Read tolerantly: new kinds and fields
//! come with every release. Written strictly: one bad line ends the agent.

use crate::protocol::Image;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// A line from the agent, as far as we understand it.
#[derive(Debug)]
pub enum Frame {
    /// It wants something, and waits.
    Request {
        id: String,
        request: Request,
    },
    /// It no longer wants what it asked for.
    Cancel {
        id: String,
    },
    /// It answers something that we asked.
    Response {
        id: String,
        error: Option<String>,
    },
    Init(Init),
    /// A message of the model, or of a sub-agent.
    Assistant {
        blocks: Vec<Block>,
        parent: Option<String>,
    },
    /// What tools returned; or, as an echo, a prompt of ours that the agent has now taken up.
    User {
        results: Vec<ToolResult>,
        detail: Option<Value>,
        echo: bool,
    },
    /// A text of the model begins.
    TextBegins,
    /// It goes on.
    TextDelta(String),
    /// A sub-agent was started by this tool call.
    SubAgent {
        tool_use_id: String,
        agent_id: Option<String>,
        name: String,
    },
    /// The sub-agents that work in the background now; a turn may end before they do.
    Background {
        sub_agents: usize,
    },
    /// It refused a call without asking.
    Denied(Denied),
    /// The model did not answer, and is asked again.
    Retry(Retry),
    /// Its permission mode changed.
    Mode(String),
    /// The end of a turn.
    Result(TurnResult),
    /// Something newer than this program.
    Other,
}

#[derive(Debug)]
pub enum Request {
    CanUseTool(Box<CanUseTool>),
    /// It introduces itself.
    Initialize,
    /// A request we do not know; it gets an error, never silence.
    Unknown {
        subtype: String,
    },
    /// One that we know and cannot read.
    Malformed {
        why: String,
    },
}

/// May this tool run? The input is kept as it came, byte for byte.
#[derive(Debug, Deserialize)]
pub struct CanUseTool {
    pub tool_name: String,
    pub input: Box<RawValue>,
    pub tool_use_id: Option<String>,
    pub agent_id: Option<String>,
    #[serde(default)]
    pub permission_suggestions: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
pub struct Init {
    pub session_id: Option<String>,
    pub cwd: Option<String>,
    #[serde(rename = "permissionMode")]
    pub mode: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Retry {
    pub attempt: Option<u64>,
    pub max_retries: Option<u64>,
    pub retry_delay_ms: Option<f64>,
    pub error_status: Option<u16>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    ToolUse { id: String, name: String, input: Value },
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub tool_use_id: String,
    pub text: String,
    pub is_error: bool,
    pub images: Vec<Image>,
}

/// A call that was refused without asking: by a rule, a mode, or the check of auto mode (`classifier`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Denied {
    pub tool_name: String,
    pub tool_use_id: String,
    #[serde(default)]
    pub agent_id: Option<String>,
    #[serde(default)]
    pub decision_reason_type: String,
    #[serde(default)]
    pub decision_reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct TurnResult {
    pub subtype: Option<String>,
    #[serde(default)]
    pub is_error: bool,
    pub result: Option<String>,
    pub total_cost_usd: Option<f64>,
    pub num_turns: Option<u64>,
    pub duration_ms: Option<u64>,
    pub usage: Option<Usage>,
    pub session_id: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    #[serde(default)]
    pub cache_read_input_tokens: u64,
    #[serde(default)]
    pub cache_creation_input_tokens: u64,
}

/// A line that is not what the agent's protocol promises.
#[derive(Debug, thiserror::Error)]
#[error("a line is not JSON: {0}")]
pub struct Garbage(serde_json::Error);

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type", default)]
    kind: String,
    subtype: Option<String>,
}

pub fn decode(line: &[u8]) -> Result<Frame, Garbage> {
    let head: Head = serde_json::from_slice(line).map_err(Garbage)?;
    Ok(match (head.kind.as_str(), head.subtype.as_deref()) {
        ("control_request", _) => decode_request(line),
        ("control_cancel_request", _) => match serde_json::from_slice(line) {
            Ok(WithId { request_id }) => Frame::Cancel { id: request_id },
            Err(_) => Frame::Other,
        },
        ("control_response", _) => decode_response(line),
        ("system", Some("init")) => Frame::Init(serde_json::from_slice(line).unwrap_or_default()),
        ("system", Some("status")) => decode_status(line),
        ("system", Some("api_retry")) => Frame::Retry(serde_json::from_slice(line).unwrap_or_default()),
        ("system", Some("permission_denied")) => match serde_json::from_slice(line) {
            Ok(denied) => Frame::Denied(denied),
            Err(_) => Frame::Other,
        },
        ("system", Some("task_started")) => decode_task(line),
        ("system", Some("background_tasks_changed")) => decode_background(line),
        ("stream_event", _) => decode_stream(line),
        ("assistant", _) => decode_assistant(line),
        ("user", _) => decode_user(line),
        ("result", _) => Frame::Result(serde_json::from_slice(line).unwrap_or_default()),
        _ => Frame::Other,
    })
}

fn decode_status(line: &[u8]) -> Frame {
    match serde_json::from_slice(line) {
        Ok(Init { mode: Some(mode), .. }) => Frame::Mode(mode),
        Ok(_) | Err(_) => Frame::Other,
    }
}

#[derive(Deserialize)]
struct WithId {
    request_id: String,
}

fn decode_request(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line<'a> {
        request_id: String,
        #[serde(borrow)]
        request: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Subtype {
        #[serde(default)]
        subtype: String,
    }
    let Line { request_id: id, request } = match serde_json::from_slice(line) {
        Ok(line) => line,
        Err(error) => {
            return match serde_json::from_slice(line) {
                Ok(WithId { request_id: id }) => {
                    Frame::Request { id, request: Request::Malformed { why: error.to_string() } }
                }
                // Without an id there is nobody to answer.
                Err(_) => Frame::Other,
            };
        }
    };
    let subtype = serde_json::from_str::<Subtype>(request.get()).map(|s| s.subtype).unwrap_or_default();
    let request = match subtype.as_str() {
        "can_use_tool" => match serde_json::from_str(request.get()) {
            Ok(request) => Request::CanUseTool(Box::new(request)),
            Err(error) => Request::Malformed { why: error.to_string() },
        },
        "initialize" => Request::Initialize,
        _ => Request::Unknown { subtype },
    };
    Frame::Request { id, request }
}

fn decode_response(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line {
        response: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        request_id: String,
        error: Option<String>,
    }
    match serde_json::from_slice::<Line>(line) {
        Ok(Line { response }) => Frame::Response { id: response.request_id, error: response.error },
        Err(_) => Frame::Other,
    }
}

fn decode_assistant(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line {
        message: Message,
        parent_tool_use_id: Option<String>,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        content: Vec<Value>,
    }
    let block = |block: Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(|text| Block::Text(text.to_owned())),
        Some("tool_use") => Some(Block::ToolUse {
            id: block["id"].as_str().unwrap_or_default().to_owned(),
            name: block["name"].as_str().unwrap_or_default().to_owned(),
            input: block["input"].clone(),
        }),
        _ => None,
    };
    match serde_json::from_slice::<Line>(line) {
        Ok(Line { message, parent_tool_use_id: parent }) => {
            let blocks = message.content.into_iter().map(|b| block(b).unwrap_or(Block::Other)).collect();
            Frame::Assistant { blocks, parent }
        }
        Err(_) => Frame::Other,
    }
}

fn decode_user(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line {
        message: Message,
        tool_use_result: Option<Value>,
        #[serde(default, rename = "isReplay")]
        echo: bool,
    }
    #[derive(Deserialize)]
    struct Message {
        content: Value,
    }
    let Ok(Line { message, tool_use_result: detail, echo }) = serde_json::from_slice::<Line>(line) else {
        return Frame::Other;
    };
    let blocks = message.content.as_array().cloned().unwrap_or_default();
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    let results = results.filter_map(|block| {
        Some(ToolResult {
            tool_use_id: block["tool_use_id"].as_str()?.to_owned(),
            text: result_text(&block["content"]),
            is_error: block["is_error"].as_bool().unwrap_or(false),
            images: result_images(&block["content"]),
        })
    });
    Frame::User { results: results.collect(), detail, echo }
}

fn result_images(content: &Value) -> Vec<Image> {
    let blocks = content.as_array().into_iter().flatten().filter(|block| block["type"] == "image");
    let image = |block: &Value| {
        let field = |name| block["source"][name].as_str().map(str::to_owned);
        let media_type = field("media_type").filter(|kind| kind.starts_with("image/") && kind.len() < 40)?;
        Some(Image { media_type, data: field("data")? })
    };
    blocks.filter_map(image).collect()
}

fn decode_stream(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line {
        event: Event,
        parent_tool_use_id: Option<String>,
    }
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        content_block: Part,
        #[serde(default)]
        delta: Part,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Part {
        #[serde(rename = "type")]
        kind: String,
        text: String,
    }
    let Ok(Line { event, parent_tool_use_id: None }) = serde_json::from_slice::<Line>(line) else {
        return Frame::Other;
    };
    match (event.kind.as_str(), event.content_block.kind.as_str(), event.delta.kind.as_str()) {
        ("content_block_start", "text", _) => Frame::TextBegins,
        ("content_block_delta", _, "text_delta") => Frame::TextDelta(event.delta.text),
        _ => Frame::Other,
    }
}

fn decode_task(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line {
        tool_use_id: String,
        task_id: Option<String>,
        #[serde(default)]
        description: String,
        #[serde(default)]
        subagent_type: String,
    }
    match serde_json::from_slice::<Line>(line) {
        Ok(Line { tool_use_id, task_id: agent_id, description, subagent_type })
            if !subagent_type.is_empty() =>
        {
            Frame::SubAgent { tool_use_id, agent_id, name: sub_agent_name(&subagent_type, &description) }
        }
        _ => Frame::Other,
    }
}

pub fn sub_agent_name(kind: &str, description: &str) -> String {
    match (kind, description) {
        ("", description) => description.to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, description) => format!("{kind}: {description}"),
    }
}

/// Programs that run in the background count as well in this list, but nobody waits for those.
fn decode_background(line: &[u8]) -> Frame {
    #[derive(Deserialize)]
    struct Line {
        tasks: Vec<Task>,
    }
    #[derive(Deserialize)]
    struct Task {
        #[serde(default)]
        task_type: String,
    }
    match serde_json::from_slice::<Line>(line) {
        Ok(Line { tasks }) => Frame::Background {
            sub_agents: tasks.iter().filter(|task| task.task_type == "local_agent").count(),
        },
        Err(_) => Frame::Other,
    }
}

/// A result's content is text, or a list of blocks some of which are text.
pub fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// How we answer a request to use a tool.
#[derive(Debug)]
pub enum Permit {
    Allow {
        /// The whole input to use.
        input: Box<RawValue>,
        /// Rules that the agent itself suggested and is to keep.
        rules: Vec<Value>,
    },
    Deny {
        message: String,
        interrupt: bool,
    },
}

/// One line, always complete: an object with its own fields only.
pub fn permit_line(request_id: &str, permit: &Permit) -> String {
    let response = match permit {
        Permit::Allow { input, rules } => {
            let rules = match rules.is_empty() {
                true => String::new(),
                false => format!(",\"updatedPermissions\":{}", Value::Array(rules.clone())),
            };
            format!("{{\"behavior\":\"allow\",\"updatedInput\":{}{rules}}}", one_line_json(input))
        }
        Permit::Deny { message, interrupt: false } => {
            json!({ "behavior": "deny", "message": message }).to_string()
        }
        Permit::Deny { message, interrupt: true } => {
            json!({ "behavior": "deny", "message": message, "interrupt": true }).to_string()
        }
    };
    let id = json!(request_id);
    format!(
        "{{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":{id},\"response\":{response}}}}}"
    )
}

/// JSON that came on one line has no line break outside its strings; an edited one may.
fn one_line_json(raw: &RawValue) -> String {
    match raw.get().contains(['\n', '\r']) {
        false => raw.get().to_owned(),
        true => serde_json::from_str::<Value>(raw.get()).unwrap_or_default().to_string(),
    }
}

/// A request that wants nothing but to be answered.
pub fn success_line(request_id: &str) -> String {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request_id, "response": {} },
    })
    .to_string()
}

pub fn error_line(request_id: &str, error: &str) -> String {
    json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": request_id, "error": error },
    })
    .to_string()
}

pub fn initialize_line(request_id: &str) -> String {
    control_line(request_id, json!({ "subtype": "initialize", "hooks": null }))
}

pub fn interrupt_line(request_id: &str) -> String {
    control_line(request_id, json!({ "subtype": "interrupt" }))
}

fn control_line(request_id: &str, request: Value) -> String {
    json!({ "type": "control_request", "request_id": request_id, "request": request }).to_string()
}

pub fn prompt_line(text: &str, picture: Option<&Image>) -> String {
    let content = match picture {
        None => json!(text),
        Some(Image { media_type, data }) => {
            let source = json!({ "type": "base64", "media_type": media_type, "data": data });
            json!([{ "type": "image", "source": source }, { "type": "text", "text": text }])
        }
    };
    json!({ "type": "user", "message": { "role": "user", "content": content } }).to_string()
}

/// For agents that ask by a bare `tool_use`: the answer is the tool's result.
pub fn tool_result_line(tool_use_id: &str, content: &str, is_error: bool) -> String {
    let result = json!({ "type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error });
    json!({ "type": "user", "message": { "role": "user", "content": [result] } }).to_string()
}

/// An object with fields added, the rest as it came.
pub fn with_fields(raw: &RawValue, added: Map<String, Value>) -> Result<Box<RawValue>, serde_json::Error> {
    let mut object: Map<String, Value> = serde_json::from_str(raw.get())?;
    object.extend(added);
    serde_json::value::to_raw_value(&object)
}

#[cfg(test)]
mod tests;
