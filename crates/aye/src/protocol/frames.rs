//! What goes over the WebSocket.

use super::call::Failed;
use aye_core::{Agent, AgentId, AskId, AskView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the hub sends: a snapshot first, or what was missed, then every change, each once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Frame")]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Frame<A = AskView, G = Agent, V = Value> {
    Snapshot(Snapshot<A, G>),
    Ask {
        seq: u64,
        ask: A,
    },
    Agent {
        seq: u64,
        agent: G,
    },
    /// Something that an agent said or did.
    Event {
        seq: u64,
        agent: AgentId,
        event: V,
    },
    /// More of a text that streams. It has no number: the text so far comes as an event within a second or so.
    Piece {
        agent: AgentId,
        id: String,
        /// How many characters of the text came before.
        from: u64,
        text: String,
    },
    /// Something every operator should know that belongs to no agent.
    Notice {
        seq: u64,
        notice: V,
    },
    /// Of a newer hub, or the result of something that was sent.
    #[serde(other)]
    Other,
}

/// What became of something that a client sent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "result")]
pub struct SentResult<A = AskView> {
    /// The one that it was sent with.
    pub key: Option<Value>,
    /// As of HTTP.
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<A>,
    #[serde(flatten)]
    pub failed: Option<Failed<A>>,
}

/// All that is open, as of one number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Snapshot")]
pub struct Snapshot<A = AskView, G = Agent> {
    pub seq: u64,
    pub asks: Vec<A>,
    /// More is open than these: `GET /api/asks?state=open&after=` and this id has the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<AskId>,
    pub agents: Vec<G>,
    #[serde(default)]
    pub notices: Vec<Value>,
}

impl<A, G, V> Frame<A, G, V> {
    /// The number of a change, or of the last one that a snapshot has.
    pub fn seq(&self) -> Option<u64> {
        match self {
            Frame::Snapshot(Snapshot { seq, .. })
            | Frame::Ask { seq, .. }
            | Frame::Agent { seq, .. }
            | Frame::Event { seq, .. }
            | Frame::Notice { seq, .. } => Some(*seq),
            Frame::Piece { .. } | Frame::Other => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowQuery {
    /// The last change that was seen; without it, a snapshot comes first.
    pub after: Option<u64>,
}
