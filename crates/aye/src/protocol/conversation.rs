//! What an agent says and does, as surfaces show it. The hub keeps it as it came, and passes on what it does not know.

use super::agents::Image;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `left_out` says how many characters are missing at the end of a text that was too long to be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConversationEvent {
    /// A prompt went to the agent.
    Prompt {
        text: String,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: usize,
    },
    /// What the agent says: how a text goes on while it is spoken, or all of it in the end.
    Text {
        #[serde(default)]
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delta: Option<String>,
        /// How many characters of the text came before `delta`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// `text` is what was said so far.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: usize,
    },
    Tool {
        id: String,
        name: String,
        /// `{"cut": "…"}` where it was too long.
        #[serde(default)]
        input: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sub_agent: Option<String>,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: usize,
    },
    ToolResult {
        id: String,
        failed: bool,
        text: String,
        #[serde(default)]
        left_out: usize,
        #[serde(default)]
        images: Vec<Image>,
        #[serde(default)]
        images_left_out: usize,
        duration_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sub_agent: Option<String>,
    },
    Turn {
        #[serde(flatten)]
        turn: Turn,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: usize,
    },
    /// Something went wrong beside the conversation.
    Trouble {
        text: String,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: usize,
    },
    /// The agent refused a call without asking anybody.
    RefusedItself {
        #[serde(flatten)]
        call: RefusedCall,
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: usize,
    },
    /// The run is over.
    Ended { code: Option<i32> },
    #[serde(other)]
    Other,
}

/// A call that the agent's own safety check did not let run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RefusedCall {
    pub id: String,
    pub name: String,
    /// `{"cut": "…"}` where it was too long.
    pub input: Value,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<String>,
}

/// The end of a turn, as far as the agent tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Turn {
    #[serde(rename = "error")]
    pub failed: bool,
    /// Of the session so far, in dollars.
    pub cost: Option<f64>,
    pub turns: Option<u64>,
    pub duration_ms: Option<u64>,
    pub text: Option<String>,
    pub tokens: Tokens,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_written: u64,
}

impl ConversationEvent {
    /// What is of another form, as a newer adapter may send it, passes by.
    pub fn read(event: &Value) -> Self {
        Self::deserialize(event).unwrap_or(Self::Other)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
