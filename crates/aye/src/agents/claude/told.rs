//! The account of a run, in the order of events: for the terminal it runs in, and for every other surface.

use super::wire::{TurnResult, Usage};
use aye_core::{AskView, Receipt};
use serde_json::{Value, json};
use std::time::Duration;

/// What a tool printed is told up to here; the agent itself has all of it.
const LONGEST_RESULT: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A prompt went to the agent.
    Prompt(String),
    /// The agent speaks; this is how the text named `id` goes on.
    Speaks {
        id: String,
        delta: String,
    },
    /// What it said in the end, whole.
    Said {
        id: String,
        text: String,
    },
    ToolStarted {
        id: String,
        name: String,
        input: Value,
        sub_agent: Option<String>,
    },
    ToolEnded {
        id: String,
        failed: bool,
        text: String,
        took: Option<Duration>,
    },
    Asked(Box<AskView>),
    /// How an ask ended, in the words of the hub.
    AskEnded {
        ask: String,
        resolution: Value,
    },
    /// The agent no longer wants to know.
    Withdrawn {
        ask: String,
    },
    /// A rule decided, and nobody was asked.
    Decided {
        tool: String,
        resolution: Value,
        rule: String,
    },
    Doubt {
        ask: String,
        receipt: Receipt,
        evidence: String,
    },
    Turn(TurnResult),
    Trouble(String),
    Ended {
        code: Option<i32>,
    },
}

impl Told {
    /// As other surfaces get it; asks they see by themselves.
    pub fn event(&self) -> Option<Value> {
        Some(match self {
            Told::Prompt(text) => json!({ "type": "prompt", "text": text }),
            Told::Speaks { id, delta } => json!({ "type": "text", "id": id, "delta": delta }),
            Told::Said { id, text } => json!({ "type": "text", "id": id, "text": text }),
            Told::ToolStarted { id, name, input, sub_agent: None } => {
                json!({ "type": "tool", "id": id, "name": name, "input": input })
            }
            Told::ToolStarted { id, name, input, sub_agent } => {
                json!({ "type": "tool", "id": id, "name": name, "input": input, "sub_agent": sub_agent })
            }
            Told::ToolEnded { id, failed, text, took } => {
                let (text, left_out) = beginning(text);
                json!({
                    "type": "tool_result", "id": id, "failed": failed, "text": text, "left_out": left_out,
                    "duration_ms": took.map(|took| took.as_millis() as u64),
                })
            }
            Told::Turn(turn) => {
                let Usage {
                    input_tokens,
                    output_tokens,
                    cache_read_input_tokens,
                    cache_creation_input_tokens,
                } = turn.usage.clone().unwrap_or_default();
                json!({
                    "type": "turn", "error": turn.is_error, "cost": turn.total_cost_usd, "turns": turn.num_turns,
                    "duration_ms": turn.duration_ms, "text": turn.result,
                    "tokens": {
                        "input": input_tokens, "output": output_tokens,
                        "cache_read": cache_read_input_tokens, "cache_written": cache_creation_input_tokens,
                    },
                })
            }
            Told::Trouble(words) => json!({ "type": "trouble", "text": words }),
            Told::Ended { code } => json!({ "type": "ended", "code": code }),
            Told::Asked(_)
            | Told::AskEnded { .. }
            | Told::Withdrawn { .. }
            | Told::Decided { .. }
            | Told::Doubt { .. } => return None,
        })
    }
}

fn beginning(text: &str) -> (&str, usize) {
    match text.char_indices().nth(LONGEST_RESULT) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}
