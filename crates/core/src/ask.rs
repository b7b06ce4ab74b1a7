//! Asks: what a person must decide, and how it stands.

use crate::answer::Answer;
use crate::body::{Body, Kind};
use crate::can::Can;
use crate::digest::Digest;
use crate::display::{Display, Extras};
use crate::ids::{AgentId, AskId, Key};
use crate::invalid::{Invalid, decode};
use crate::lifecycle::{AskState, Receipt, State};
use crate::proof::Proof;
use crate::who::By;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use std::ops::Deref;

/// What was raised, but for the body. It never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskHead {
    pub id: AskId,
    pub key: Key,
    pub agent: AgentId,
    /// Where the agent worked when it asked; the digest covers it.
    pub cwd: String,
    /// The agent's own name for the tool call behind this ask, where it has one.
    pub tool_use_id: Option<String>,
    /// Which of the agent's sub-agents asks, in words; none where the agent itself does.
    pub sub_agent: Option<String>,
    pub digest: Digest,
    pub created_at: Timestamp,
    pub deadline: Option<Timestamp>,
    /// What allowing it takes, as it stood when the ask was raised; left out where that is nothing. Outside the digest.
    #[serde(default, skip_serializing_if = "Proof::is_none")]
    pub proof: Proof,
    /// The system itself told that the agent's process works in the folder; left out where that is the agent's word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cwd_checked: bool,
}

impl AskHead {
    pub fn new(id: AskId, key: Key, agent: AgentId, cwd: &str, body: &Body, created_at: Timestamp) -> Self {
        let (digest, cwd) = (Digest::of(cwd, body), cwd.to_owned());
        let (tool_use_id, sub_agent, deadline, proof, cwd_checked) = Default::default();
        Self { id, key, agent, cwd, tool_use_id, sub_agent, digest, created_at, deadline, proof, cwd_checked }
    }

    /// The tool call that it belongs to, or else its key: how programs name it that know agents and not our asks.
    pub fn tool_call(&self) -> &str {
        self.tool_use_id.as_deref().unwrap_or(self.key.as_str())
    }
}

/// An ask: what was raised, and how it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub head: AskHead,
    pub body: Body,
    /// Shown beside it while it is open; outside the digest.
    pub extras: Extras,
    pub state: State,
}

impl Deref for Ask {
    type Target = AskHead;

    fn deref(&self) -> &AskHead {
        &self.head
    }
}

impl Ask {
    pub fn open(head: AskHead, body: Body) -> Self {
        Self { head, body, extras: Extras::default(), state: State::Open }
    }

    /// Whether something was allowed by the answer to a question, which does not say so by itself.
    pub fn allowed_by_question(&self) -> bool {
        match &self.body {
            Body::Question(_) => self.state.answer().is_some_and(|answer| answer.allows(&self.body)),
            Body::Permission(_) | Body::Plan(_) => false,
        }
    }

    /// What a person sees of a permission.
    pub fn display(&self) -> Option<Display> {
        match &self.body {
            Body::Permission(permission) => Some(Display::of(permission, &self.extras)),
            Body::Question(_) | Body::Plan(_) => None,
        }
    }
}

impl Serialize for Ask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = AskView {
            head: &self.head,
            kind: self.body.kind(),
            can: self.extras.can.clone(),
            body: &self.body,
            display: self.display(),
            status: AskStatus {
                state: AskState::from(&self.state),
                receipt: self.state.receipt(),
                answer: self.state.answer(),
                by: self.state.by().cloned(),
                ended_at: self.state.ended_at(),
                note: self.state.note().map(str::to_owned),
            },
        };
        view.serialize(serializer)
    }
}

/// An [`Ask`] as it is written for others, and as they read it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Ask")]
pub struct AskView<H = AskHead, B = Body, A = Answer> {
    #[serde(flatten)]
    pub head: H,
    pub kind: Kind,
    /// What its agent can take from here; left out where that is everything.
    #[serde(default, skip_serializing_if = "Can::is_everything")]
    pub can: Can,
    pub body: B,
    /// What a person sees of a permission, made by the hub from tool and input; null for questions and plans.
    pub display: Option<Display>,
    #[serde(flatten)]
    pub status: AskStatus<A>,
}

/// How an ask stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskStatus<A = Answer> {
    pub state: AskState,
    pub receipt: Option<Receipt>,
    pub answer: Option<A>,
    pub by: Option<By>,
    pub ended_at: Option<Timestamp>,
    pub note: Option<String>,
}

impl Deref for AskView {
    type Target = AskHead;

    fn deref(&self) -> &AskHead {
        &self.head
    }
}

/// The same before its body and answer are read, which need to know the kind. Fields of a newer hub pass by. Its fields are
/// named one by one because flattened ones would all be copied first.
#[derive(Deserialize)]
struct AskDraft {
    id: AskId,
    key: Key,
    agent: AgentId,
    cwd: String,
    tool_use_id: Option<String>,
    sub_agent: Option<String>,
    digest: Digest,
    created_at: Timestamp,
    deadline: Option<Timestamp>,
    #[serde(default)]
    proof: Proof,
    #[serde(default)]
    cwd_checked: bool,
    kind: Kind,
    #[serde(default)]
    can: Can,
    body: Value,
    display: Option<Value>,
    state: AskState,
    receipt: Option<Receipt>,
    answer: Option<Value>,
    by: Option<By>,
    ended_at: Option<Timestamp>,
    note: Option<String>,
}

impl AskView {
    pub fn from_json(value: Value) -> Result<Self, Invalid> {
        let draft: AskDraft = decode(value)?;
        let AskDraft { id, key, agent, cwd, tool_use_id, sub_agent, digest, created_at, .. } = draft;
        let AskDraft { deadline, proof, cwd_checked, kind, can, body, display, .. } = draft;
        let AskDraft { state, receipt, answer, by, ended_at, note, .. } = draft;
        let head = AskHead {
            id,
            key,
            agent,
            cwd,
            tool_use_id,
            sub_agent,
            digest,
            created_at,
            deadline,
            proof,
            cwd_checked,
        };
        let answer = answer.map(|answer| Answer::decode(kind, answer)).transpose();
        let answer = answer.map_err(|invalid| invalid.under("answer"))?;
        let body = Body::decode(kind, body).map_err(|invalid| invalid.under("body"))?;
        let display = match &body {
            Body::Permission(permission) => Some(Display::checked(display, permission)),
            Body::Question(_) | Body::Plan(_) => None,
        };
        let status = AskStatus { state, receipt, answer, by, ended_at, note };
        Ok(Self { head, kind, can, body, display, status })
    }
}

impl<'de> Deserialize<'de> for AskView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Text;
    use serde_json::json;

    #[test]
    fn what_is_written_for_others_is_read_back_whole() {
        let body = Body::decode(Kind::Plan, json!({"plan": "1. x"})).unwrap();
        let ask = Ask {
            head: AskHead {
                tool_use_id: Some("toolu_1".into()),
                sub_agent: Some("Explore: tests".into()),
                proof: Proof::Passkey,
                cwd_checked: true,
                ..AskHead::new(
                    AskId::from_random(1),
                    Key::try_from("k").unwrap(),
                    AgentId::try_from("a").unwrap(),
                    "/src",
                    &body,
                    Timestamp::from_second(1).unwrap(),
                )
            },
            state: State::Answered {
                answer: Answer::read(&body, json!({"decision": "outline"})).unwrap(),
                by: By::Rule { rule: Text::try_from("r").unwrap() },
                key: None,
                at: Timestamp::from_second(2).unwrap(),
                delivery: crate::lifecycle::Delivery {
                    receipt: Receipt::Unknown,
                    evidence: Some("died".into()),
                },
            },
            body: body.clone(),
            extras: Extras { can: Can::elsewhere("there"), ..Extras::default() },
        };
        let view = AskView::from_json(serde_json::to_value(&ask).unwrap()).unwrap();
        let expected = AskView {
            head: ask.head.clone(),
            kind: Kind::Plan,
            can: ask.extras.can.clone(),
            body,
            display: None,
            status: AskStatus {
                state: AskState::Answered,
                receipt: Some(Receipt::Unknown),
                answer: ask.state.answer().cloned(),
                by: ask.state.by().cloned(),
                ended_at: Some(Timestamp::from_second(2).unwrap()),
                note: Some("died".into()),
            },
        };
        assert_eq!(view, expected);
    }

    #[test]
    fn the_digest_covers_kind_folder_and_body() {
        let plan = |text: &str| Body::decode(Kind::Plan, json!({"plan": text})).unwrap();
        let digest = Digest::of("/src", &plan("a"));
        assert_eq!(
            digest.as_str(),
            format!(
                "sha256:{}",
                crate::digest::sha256_hex(br#"{"body":{"plan":"a"},"cwd":"/src","kind":"plan"}"#)
            )
        );
        assert_ne!(digest, Digest::of("/src", &plan("b")));
        assert_ne!(digest, Digest::of("/other", &plan("a")));
    }
}
