//! What a stand-in shall do, step by step. A step is the blocks of one message, as the model's API writes
//! them, or something that only this stand-in can do. The same blocks may be said by a scripted agent, or by a
//! scripted model behind a real one.
//!
//! ```json
//! {"steps": [
//!   [{"type": "text", "text": "I have a question."},
//!    {"type": "tool_use", "id": "toolu_1", "name": "AskUserQuestion", "input": {"questions": []}}],
//!   {"do": "exit", "code": 3}
//! ]}
//! ```

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug)]
pub enum Step<Act> {
    Blocks(Vec<Value>),
    Act(Act),
}

impl<'de, Act: DeserializeOwned> Deserialize<'de> for Step<Act> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Array(blocks) => Ok(Self::Blocks(blocks)),
            act => serde_json::from_value(act).map(Self::Act).map_err(D::Error::custom),
        }
    }
}

pub fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

pub fn tool(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// So many parts of about the same length, or as many as there are letters.
pub fn parts_of(text: &str, parts: usize) -> Vec<String> {
    let letters: Vec<_> = text.chars().collect();
    letters.chunks(letters.len().div_ceil(parts.max(1)).max(1)).map(|part| part.iter().collect()).collect()
}

/// The story of a scripted model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelScenario {
    pub steps: Vec<Step<ModelAct>>,
}

/// What only a model does.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelAct {
    /// A message whose texts come in parts; it may pause after the first until it is released.
    Message {
        blocks: Vec<Value>,
        #[serde(default = "one")]
        deltas: usize,
        #[serde(default)]
        pause: bool,
    },
    /// An error instead of a message; agents try again.
    Fail { status: u16 },
}

fn one() -> usize {
    1
}

/// The story of a scripted agent. Files are named from the folder it works in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentScenario {
    /// Where each line that the agent is told goes; the first says how it was started.
    pub heard: Option<PathBuf>,
    #[serde(default = "session")]
    pub session: String,
    pub steps: Vec<Step<AgentAct>>,
}

fn session() -> String {
    "11111111-2222-4333-8444-555555555555".into()
}

/// What only an agent does.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentAct {
    /// Asks for leave to use a tool, unlike the tool calls among blocks with everything as it is wanted here.
    Ask(Box<Ask>),
    /// A tool call without a request, which a `tool_result` answers.
    Bare {
        block: Value,
    },
    /// Any request at all, known or not, whole or not; then waits for its reply.
    Request {
        id: String,
        request: Value,
    },
    /// Words that come in parts; after the first it waits for this file.
    Stream {
        text: String,
        deltas: usize,
        until: Option<PathBuf>,
    },
    /// Bytes as they are, with or without an end of line.
    Write {
        text: String,
        #[serde(default = "yes")]
        end: bool,
    },
    /// A line of this many bytes: words, or a request, whose id may be at its very end.
    LongLine {
        bytes: usize,
        #[serde(default)]
        ask: bool,
        #[serde(default)]
        id_last: bool,
    },
    /// Requests without waiting in between; then waits for the reply to each.
    Flood {
        requests: usize,
        block: Value,
    },
    /// One request after another, and how long each took, in nanoseconds, one a line.
    Measure {
        requests: usize,
        block: Value,
        times: PathBuf,
    },
    /// Says nothing until it is interrupted, unless it is stubborn, or its input ends.
    Silence {
        #[serde(default)]
        stubborn: bool,
    },
    /// Neither speaks nor reads.
    Deaf,
    /// Waits for a file.
    Until {
        file: PathBuf,
    },
    /// Ends the turn and waits for the next prompt.
    Turn,
    Exit {
        code: i32,
    },
    /// SIGKILL, by its own hand.
    Kill,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    pub block: Value,
    /// Its request id, if it must be a certain one.
    pub request: Option<String>,
    /// Further fields of the request.
    #[serde(default)]
    pub with: serde_json::Map<String, Value>,
    /// The tool call that started the sub-agent which asks.
    pub parent: Option<String>,
    #[serde(default = "yes")]
    pub wait: bool,
    /// The file it waits for after the answer, before its transcript shows anything.
    pub late: Option<PathBuf>,
    /// What its transcript claims, whatever the answer was.
    pub claims: Option<Claim>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub content: String,
    #[serde(default)]
    pub is_error: bool,
    pub tool_use_result: Option<Value>,
}

impl Ask {
    pub fn plain(block: Value) -> Self {
        Self {
            block,
            request: None,
            with: serde_json::Map::new(),
            parent: None,
            wait: true,
            late: None,
            claims: None,
        }
    }
}

fn yes() -> bool {
    true
}
