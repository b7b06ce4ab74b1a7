//! Asks: what a person must decide, and its state.

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
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// An ask as everybody sees it: what was raised, and its state.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub id: AskId,
    pub key: Key,
    pub agent: AgentId,
    /// Where the agent worked when it asked; the digest covers it.
    pub cwd: String,
    /// The agent's own name for the tool call behind this ask, where it has one.
    pub tool_use_id: Option<String>,
    /// Which of the agent's sub-agents asks, in words; none where the agent itself does.
    pub sub_agent: Option<String>,
    pub body: Body,
    /// Shown beside it while it is open; outside the digest.
    pub extras: Extras,
    pub digest: Digest,
    pub created_at: Timestamp,
    pub deadline: Option<Timestamp>,
    /// What allowing it takes, as it was when the ask was raised. Outside the digest.
    pub proof: Proof,
    /// The system itself told that the agent's process works in the folder; else that is the agent's word.
    pub cwd_checked: bool,
    pub state: State,
}

impl Ask {
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
        let mut ask = serializer.serialize_struct("Ask", 21)?;
        ask.serialize_field("id", &self.id)?;
        ask.serialize_field("key", &self.key)?;
        ask.serialize_field("agent", &self.agent)?;
        ask.serialize_field("cwd", &self.cwd)?;
        ask.serialize_field("tool_use_id", &self.tool_use_id)?;
        ask.serialize_field("sub_agent", &self.sub_agent)?;
        ask.serialize_field("kind", &self.body.kind())?;
        ask.serialize_field("digest", &self.digest)?;
        ask.serialize_field("created_at", &self.created_at)?;
        ask.serialize_field("deadline", &self.deadline)?;
        match self.proof {
            Proof::None => ask.skip_field("proof")?,
            Proof::Passkey => ask.serialize_field("proof", &self.proof)?,
        }
        match self.cwd_checked {
            false => ask.skip_field("cwd_checked")?,
            true => ask.serialize_field("cwd_checked", &true)?,
        }
        match self.extras.can.is_everything() {
            true => ask.skip_field("can")?,
            false => ask.serialize_field("can", &self.extras.can)?,
        }
        ask.serialize_field("body", &self.body)?;
        ask.serialize_field("display", &self.display())?;
        ask.serialize_field("state", self.state.name())?;
        ask.serialize_field("receipt", &self.state.receipt())?;
        ask.serialize_field("answer", &self.state.answer())?;
        ask.serialize_field("by", &self.state.by())?;
        ask.serialize_field("ended_at", &self.state.ended_at())?;
        ask.serialize_field("note", &self.state.note())?;
        ask.end()
    }
}

/// An [`Ask`] as it is written for others, and as they read it.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename = "Ask")]
pub struct AskView {
    pub id: AskId,
    pub key: Key,
    pub agent: AgentId,
    pub cwd: String,
    pub tool_use_id: Option<String>,
    pub sub_agent: Option<String>,
    pub kind: Kind,
    pub digest: Digest,
    pub created_at: Timestamp,
    pub deadline: Option<Timestamp>,
    /// What allowing it takes; left out where that is nothing.
    #[schemars(default)]
    pub proof: Proof,
    /// The system itself told that the agent's process works in the folder; left out where that is the agent's word.
    #[schemars(default)]
    pub cwd_checked: bool,
    /// What its agent can take from here; left out where that is everything.
    #[schemars(default)]
    pub can: Can,
    pub body: Body,
    /// What a person sees of a permission, made by the hub from tool and input; null for questions and plans.
    pub display: Option<Display>,
    pub state: AskState,
    pub receipt: Option<Receipt>,
    pub answer: Option<Answer>,
    pub by: Option<By>,
    pub ended_at: Option<Timestamp>,
    pub note: Option<String>,
}

/// The same before its body and answer are read, which need to know the kind. Fields of a newer hub are ignored.
#[derive(Deserialize)]
struct AskDraft {
    id: AskId,
    key: Key,
    agent: AgentId,
    cwd: String,
    tool_use_id: Option<String>,
    sub_agent: Option<String>,
    kind: Kind,
    digest: Digest,
    created_at: Timestamp,
    deadline: Option<Timestamp>,
    #[serde(default)]
    proof: Proof,
    #[serde(default)]
    cwd_checked: bool,
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
        let answer = draft.answer.map(|answer| Answer::decode(draft.kind, answer)).transpose();
        let body = Body::decode(draft.kind, draft.body).map_err(|invalid| invalid.under("body"))?;
        let display = match &body {
            Body::Permission(permission) => Some(Display::checked(draft.display, permission)),
            Body::Question(_) | Body::Plan(_) => None,
        };
        Ok(Self {
            id: draft.id,
            key: draft.key,
            agent: draft.agent,
            cwd: draft.cwd,
            tool_use_id: draft.tool_use_id,
            sub_agent: draft.sub_agent,
            kind: draft.kind,
            digest: draft.digest,
            created_at: draft.created_at,
            deadline: draft.deadline,
            proof: draft.proof,
            cwd_checked: draft.cwd_checked,
            can: draft.can,
            body,
            display,
            state: draft.state,
            receipt: draft.receipt,
            answer: answer.map_err(|invalid| invalid.under("answer"))?,
            by: draft.by,
            ended_at: draft.ended_at,
            note: draft.note,
        })
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
            id: AskId::from_random(1),
            key: Key::try_from("k").unwrap(),
            agent: AgentId::try_from("a").unwrap(),
            cwd: "/src".into(),
            tool_use_id: Some("toolu_1".into()),
            sub_agent: Some("Explore: tests".into()),
            digest: Digest::of("/src", &body),
            created_at: Timestamp::from_second(1).unwrap(),
            deadline: None,
            proof: Proof::Passkey,
            cwd_checked: true,
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
            id: ask.id.clone(),
            key: ask.key.clone(),
            agent: ask.agent.clone(),
            cwd: ask.cwd.clone(),
            tool_use_id: ask.tool_use_id.clone(),
            sub_agent: ask.sub_agent.clone(),
            kind: Kind::Plan,
            digest: ask.digest.clone(),
            created_at: ask.created_at,
            deadline: None,
            proof: Proof::Passkey,
            cwd_checked: true,
            can: ask.extras.can.clone(),
            body,
            display: None,
            state: AskState::Answered,
            receipt: Some(Receipt::Unknown),
            answer: ask.state.answer().cloned(),
            by: ask.state.by().cloned(),
            ended_at: Some(Timestamp::from_second(2).unwrap()),
            note: Some("died".into()),
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
