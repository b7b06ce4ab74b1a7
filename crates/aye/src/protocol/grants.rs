//! What people allowed for longer than once, as it is listed.

use aye_core::{AgentId, AskId, By};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GrantList {
    pub grants: Vec<GrantInfo>,
    /// What agents keep by rules of their own, as far as the latest asks tell.
    pub kept_by_agents: Vec<KeptRule>,
}

/// A grant as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantInfo {
    pub id: String,
    /// What it allows.
    pub words: String,
    pub tool: String,
    pub folder: String,
    /// The one agent it is for; without it, every agent in the folder.
    pub agent: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub by: By,
    pub at: Timestamp,
}

/// An approval that an agent keeps by a rule of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptRule {
    /// The ask whose answer it was.
    pub ask: AskId,
    pub agent: AgentId,
    /// As the agent writes it.
    pub rule: String,
    /// Where the agent keeps it, as far as that is known.
    pub file: Option<PathBuf>,
    pub found: KeptStatus,
    /// What that means, and how to take the approval back.
    pub words: String,
    pub by: Option<By>,
    pub at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptStatus {
    /// The file has it.
    There,
    /// The file does not have it.
    Gone,
    /// The session alone keeps it.
    Session,
    /// It cannot be looked up from here.
    Unknown,
}
