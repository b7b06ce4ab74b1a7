//! The protocols that agents are driven by.

use schemars::JsonSchema;
use serde::Deserialize;

/// What an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolName {
    #[default]
    ClaudeCode,
    Codex,
    /// The server of OpenCode.
    #[serde(rename = "opencode")]
    OpenCode,
    /// The Agent Client Protocol.
    Acp,
}
