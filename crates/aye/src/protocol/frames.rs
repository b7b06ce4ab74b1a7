//! What goes over the WebSocket.

use super::call::Failed;
use crate::webauthn::Assertion;
use aye_core::invalid::decode;
use aye_core::{Agent, AgentId, AnswerKey, AskId, AskView, Digest, Invalid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// What a client sends. Each frame gets a `SentResult`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// Answers an ask.
    Answer(AnswerFrame),
    /// Answers a question by agent and tool call, for programs that do not know asks.
    AskUserResponse(ResponseFrame),
    /// Shows a new token of the page's session in time, so that the socket stays open.
    Token(TokenFrame),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerFrame {
    pub id: AskId,
    #[schemars(with = "aye_core::Answer")]
    pub answer: Value,
    /// Of the ask as it was shown.
    pub digest: Digest,
    /// The sender's own name for this act: sending it again is not answering again.
    pub key: Option<AnswerKey>,
    /// By a passkey, for exactly this answer; needed to allow an ask whose `proof` is `passkey`.
    pub assertion: Option<Assertion>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseFrame {
    /// The agent's id, its session's, or the tmux session it runs in.
    pub conversation_id: String,
    /// May be left out only when exactly one question is pending.
    pub tool_call_id: Option<String>,
    /// Of the question that was shown.
    pub digest: Option<Digest>,
    /// By the text of the question: a label, several labels, or `{"text": "…"}` for free text.
    pub answers: Map<String, Value>,
    pub key: Option<AnswerKey>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenFrame {
    pub token: String,
    /// Comes back with the result.
    pub key: Option<Value>,
}

impl ClientFrame {
    /// None where the `type` is not one of these. Decoded by hand, because serde's tagged enums do not tell which field
    /// does not fit.
    pub fn decode(mut frame: Value) -> Result<Option<Self>, Invalid> {
        let kind = frame.as_object_mut().and_then(|fields| fields.shift_remove("type"));
        Ok(Some(match kind.as_ref().and_then(Value::as_str) {
            Some("answer") => Self::Answer(decode(frame)?),
            Some("ask_user_response") => Self::AskUserResponse(decode(frame)?),
            Some("token") => Self::Token(decode(frame)?),
            _ => return Ok(None),
        }))
    }
}

/// What became of something that a client sent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SentResult")]
pub struct SentResult<A = AskView> {
    #[serde(rename = "type")]
    pub tag: ResultTag,
    /// The one that it was sent with.
    pub key: Option<Value>,
    /// As of HTTP.
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<A>,
    #[serde(flatten)]
    pub failed: Option<Failed<A>>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ResultTag {
    #[default]
    Result,
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_client_writes_is_what_the_hub_reads() {
        let frames = [
            ClientFrame::Answer(AnswerFrame {
                id: "a".try_into().unwrap(),
                answer: json!({"decision": "deny"}),
                digest: serde_json::from_value(json!("sha256:0")).unwrap(),
                key: None,
                assertion: None,
            }),
            ClientFrame::AskUserResponse(ResponseFrame {
                conversation_id: "bot".into(),
                tool_call_id: None,
                digest: None,
                answers: Map::from_iter([("Go on?".to_owned(), json!("yes"))]),
                key: Some("act".try_into().unwrap()),
            }),
            ClientFrame::Token(TokenFrame { token: "t".into(), key: Some(json!(1)) }),
        ];
        for frame in frames {
            assert_eq!(ClientFrame::decode(json!(frame)), Ok(Some(frame)));
        }
    }

    #[test]
    fn a_frame_that_does_not_fit_says_which_field_and_an_unknown_one_is_none() {
        let field = |frame| ClientFrame::decode(frame).unwrap_err().field;
        assert_eq!(field(json!({"type": "answer", "id": 1})), "id");
        assert_eq!(field(json!({"type": "token"})), "token");
        assert_eq!(field(json!({"type": "token", "token": "t", "force": true})), "force");
        for unknown in [json!({}), json!({"type": "result"}), json!({"type": 1}), json!(null), json!([])] {
            assert_eq!(ClientFrame::decode(unknown), Ok(None));
        }
    }
}
