//! Agents on the wire: what their adapters say of them, and what they are told to do.

use super::conversation::ConversationEvent;
use crate::webauthn::Assertion;
use aye_core::{
    Agent, AgentKind, AskId, AsksFor, Evidence, FolderText, Key, Reach, Receipt, ReportedState, ShortText,
    Text,
};
use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What an adapter says of its agent. What is left out stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<AgentKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<ShortText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<FolderText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<ShortText>,
    /// The agent's own name for its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<ShortText>,
    /// The tmux session that its terminal is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmux: Option<ShortText>,
    /// The agent's process. What runs inside it can never answer over the Unix socket. Taken over the Unix socket
    /// only, and only for a process below the caller's, or for the program above it that called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The parent of that process, if it is there to adopt what the agent leaves behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ReportedState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The agent's mode, by how much it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<AsksFor>,
}

impl Registration {
    /// What is new of an agent that is known.
    pub fn state(state: ReportedState) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    pub fn ended() -> Self {
        Self::state(ReportedState::Ended)
    }

    pub fn mode(asks: AsksFor) -> Self {
        Self { asks: Some(asks), ..Self::default() }
    }
}

/// A driven run to be started.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// A folder, or the name of a project in config.toml.
    pub cwd: Text,
    pub prompt: Text,
    /// A picture that belongs to the prompt; only surfaces inside the hub send one.
    #[serde(skip)]
    pub image: Option<Image>,
    /// The agent's permission mode; those that ask for less need `allow_bypass` in config.toml.
    pub mode: Option<String>,
    /// The kind of agent; `claude` without it.
    pub agent: Option<String>,
    /// The agent's own session to go on with, of the same kind of agent.
    pub resume: Option<String>,
    /// By a passkey, for exactly the rest of this.
    #[serde(skip_serializing)]
    pub assertion: Option<Assertion>,
}

/// What runs can be started with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Projects {
    pub projects: Vec<Project>,
    /// The first is the one that a run is of unless it says otherwise.
    pub agents: Vec<StartableAgent>,
}

/// An agent that a run can be of.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StartableAgent {
    pub kind: String,
    /// The permission modes that such a run may be started in.
    pub modes: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Project {
    pub name: String,
    pub path: String,
}

/// What an adapter is to do with its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    Prompt {
        text: Text,
        /// A picture that belongs to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<Image>,
    },
    Interrupt,
    Stop,
}

/// A picture as agents take it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// Such as `image/jpeg`.
    pub media_type: String,
    /// In base64.
    pub data: String,
}

impl Image {
    /// Larger ones are refused.
    pub const LARGEST: usize = 1024 * 1024;

    /// None where it is no picture that agents take. The first bytes tell, whatever else is said of it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let media_type = match bytes {
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [0x89, b'P', b'N', b'G', ..] => "image/png",
            [b'G', b'I', b'F', b'8', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            _ => return None,
        };
        Some(Self { media_type: media_type.to_owned(), data: BASE64.encode(bytes) })
    }

    /// As the trail has it: that there was a picture, and how large.
    pub fn in_the_trail(&self) -> Value {
        json!({ "media_type": self.media_type, "characters": self.data.len() })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    pub agents: Vec<Agent>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentsQuery {
    /// Ended ones, too.
    #[serde(default)]
    pub all: bool,
}

/// The conversation as it goes, and receipts that came about meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReport {
    /// Each an object.
    #[schemars(with = "Vec<ConversationEvent>")]
    #[serde(default)]
    pub events: Vec<Value>,
    /// One that is not taken leaves the others alone.
    #[serde(default)]
    pub receipts: Vec<AskReceipt>,
    /// With it, a report that comes again adds nothing to the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<ReportNumber>,
}

/// The number of a report, by which it is known if it comes again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportNumber {
    /// Chosen at random by whoever reports, and used by nobody else.
    pub reporter: Key,
    /// Higher with each report; one report goes after another.
    pub n: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskReceipt {
    pub ask: AskId,
    pub receipt: Receipt,
    /// What it was concluded from.
    pub evidence: Option<Evidence>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reported {
    /// Asks among the receipts that were never recorded; without any, the reply is 204.
    pub unknown: Vec<AskId>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    pub events: Vec<NumberedEvent>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NumberedEvent {
    pub seq: u64,
    #[schemars(with = "ConversationEvent")]
    pub event: Value,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// The first events after this number; without it and `before`, from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The last events before this number, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Commands {
    pub commands: Vec<NumberedCommand>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NumberedCommand {
    pub n: u64,
    /// Readers ignore what they do not know.
    #[schemars(with = "Command")]
    pub command: Value,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandsQuery {
    #[serde(default)]
    pub after: u64,
    /// Seconds.
    pub wait: Option<u64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct Queued {
    /// The number under which the agent's adapter finds it.
    pub n: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    pub text: Text,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Title {
    pub title: Text,
}
