//! The protocols that agents are driven by, and what is known of such agents before one is started.

use schemars::JsonSchema;
use serde::Deserialize;

/// What an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolName {
    #[default]
    ClaudeCode,
}

/// How much an agent asks for in one of its permission modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// For everything, or it does without.
    Everything,
    /// It does some of it unasked.
    Less,
    /// For less than the person may think, so the owner of the machine must agree first.
    Bypass,
}

const CLAUDE_CODE: [(&str, Asks); 6] = [
    ("default", Asks::Everything),
    ("plan", Asks::Everything),
    ("acceptEdits", Asks::Less),
    ("dontAsk", Asks::Everything),
    ("auto", Asks::Bypass),
    ("bypassPermissions", Asks::Bypass),
];

impl ProtocolName {
    /// The permission modes that a run may be started in from afar.
    pub const fn modes(self) -> &'static [(&'static str, Asks)] {
        match self {
            Self::ClaudeCode => &CLAUDE_CODE,
        }
    }

    /// The environment variable that names the agent's program.
    pub const fn program_variable(self) -> &'static str {
        match self {
            Self::ClaudeCode => "AYE_CLAUDE",
        }
    }
}
