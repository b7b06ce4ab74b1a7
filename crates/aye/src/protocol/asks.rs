//! Asks on the wire: raised, listed, answered, ended, taken back.

use crate::webauthn::Assertion;
use aye_core::invalid::decode;
use aye_core::{
    AgentId, Answer, AnswerKey, Ask, AskId, AskState, AskView, Before, Body, By, Can, Decision, Digest,
    Expiry, FolderText, Invalid, Key, Kind, PlanVerdict, ShortText, State, Withdrawal,
};
use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// An ask as an adapter raises it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAsk {
    pub key: Key,
    pub agent: AgentId,
    pub kind: Kind,
    /// With `before` in a permission.
    #[schemars(with = "aye_core::RaisedBody")]
    pub body: Value,
    /// The folder it is asked in. Where that is not the agent's registered one, nothing that is bound to a folder
    /// allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<FolderText>,
    /// How long a person has. Without it, there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// The agent's own name for the tool call behind this ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<ShortText>,
    /// Which of its sub-agents asks, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<ShortText>,
    /// What the agent can take from here.
    #[serde(default, skip_serializing_if = "Can::is_everything")]
    pub can: Can,
}

impl NewAsk {
    pub fn new(key: Key, agent: AgentId, body: &Body) -> Self {
        let (cwd, timeout, tool_use_id, sub_agent, can) = Default::default();
        let (kind, body) = (body.kind(), body.to_json());
        Self { key, agent, kind, body, cwd, timeout, tool_use_id, sub_agent, can }
    }

    /// What the agent's machine says of the file that would change.
    pub fn with_before(mut self, before: Option<Before>) -> Self {
        if let Some(before) = before.and_then(|before| serde_json::to_value(before).ok()) {
            self.body["before"] = before;
        }
        self
    }
}

/// How long a person has, more than no time: `"300s"`, `"5m"`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout(SignedDuration);

const NO_TIMEOUT: &str = "must be a duration such as \"300s\" or \"5m\"";

impl TryFrom<SignedDuration> for Timeout {
    type Error = &'static str;

    fn try_from(duration: SignedDuration) -> Result<Self, Self::Error> {
        if duration.is_positive() { Ok(Self(duration)) } else { Err(NO_TIMEOUT) }
    }
}

impl From<Timeout> for SignedDuration {
    fn from(timeout: Timeout) -> Self {
        timeout.0
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duration: Option<SignedDuration> = match Value::deserialize(deserializer)? {
            Value::String(text) => text.parse().ok(),
            Value::Number(seconds) => seconds.as_i64().map(SignedDuration::from_secs),
            _ => None,
        };
        duration.ok_or(NO_TIMEOUT).and_then(Self::try_from).map_err(de::Error::custom)
    }
}

impl Serialize for Timeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#}", self.0))
    }
}

impl JsonSchema for Timeout {
    fn schema_name() -> Cow<'static, str> {
        "Timeout".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "More than no time: \"300s\", \"5m\", or a number of seconds.",
            "type": ["string", "integer"],
        })
    }
}

/// An ask that was raised just now, or earlier under the same key.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RaisedAsk")]
pub struct RaisedAsk<A = AskView> {
    #[serde(flatten)]
    pub ask: A,
    /// Set where a rule allowed this and the record is still on its way to the disk. Should the ask be unknown when its
    /// receipt is reported, send this to `/api/asks/{id}/late` as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voucher: Option<OpaqueVoucher>,
}

/// Only the hub knows what is in it, and checks that when it comes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OpaqueVoucher(Value);

impl OpaqueVoucher {
    pub fn of(content: &impl Serialize) -> Self {
        Self(json!(content))
    }

    pub fn read<T: DeserializeOwned>(self) -> Result<T, Invalid> {
        decode(self.0)
    }
}

/// From one tree, which a flattened ask would copy.
impl<'de> Deserialize<'de> for RaisedAsk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_fields(Map::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl RaisedAsk {
    fn from_fields(mut fields: Map<String, Value>) -> Result<Self, Invalid> {
        let voucher = fields.remove("voucher").filter(|voucher| !voucher.is_null()).map(OpaqueVoucher);
        Ok(Self { ask: AskView::from_json(Value::Object(fields))?, voucher })
    }
}

/// How an ask is raised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaiseQuery {
    /// What a rule allows at once is told in brief: whoever raised it knows what was asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
}

/// What a rule allowed at once, told in brief.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AllowedAsk")]
pub struct AllowedAsk<A = Answer> {
    pub id: AskId,
    pub answer: A,
    pub by: By,
    /// As in a whole reply.
    pub voucher: OpaqueVoucher,
}

/// The reply to a raise.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RaiseReply")]
#[serde(untagged)]
pub enum RaiseReply<A = AskView> {
    Whole(Box<RaisedAsk<A>>),
    Brief(Box<AllowedAsk>),
}

/// Only a whole reply says what was asked.
impl<'de> Deserialize<'de> for RaiseReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        if fields.contains_key("body") {
            return RaisedAsk::from_fields(fields)
                .map(|raised| Self::Whole(Box::new(raised)))
                .map_err(de::Error::custom);
        }
        let AllowedAsk { id, answer, by, voucher } =
            decode::<AllowedAsk<Value>>(Value::Object(fields)).map_err(de::Error::custom)?;
        if !matches!(by, By::Rule { .. }) {
            return Err(de::Error::custom("only a rule allows something at once"));
        }
        // Only a permission is ever allowed so.
        let answer = Answer::decode(Kind::Permission, answer).map_err(de::Error::custom)?;
        Ok(Self::Brief(Box::new(AllowedAsk { id, answer, by, voucher })))
    }
}

/// A call that ran before its record was on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// As it was raised.
    pub ask: NewAsk,
    /// As it came with the reply. Without it, or with one that is not ours, all that is recorded is that the agent
    /// says it ran this.
    pub voucher: Option<OpaqueVoucher>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Asks")]
pub struct Asks<A = AskView> {
    pub asks: Vec<A>,
    /// There are more than these: the list goes on with after=, or before= where it begins with the newest, and this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<AskId>,
}

/// Which asks are meant.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AsksQuery {
    pub state: Option<StateFilter>,
    pub agent: Option<AgentId>,
    /// How the id begins.
    pub id: Option<AskId>,
    pub kind: Option<Kind>,
    pub decided_by: Option<DeciderFilter>,
    /// The rule or grant that decided, as `by.rule` names it.
    pub rule: Option<String>,
    /// Words anywhere in the ask, its answer, or who and where it came from.
    pub words: Option<String>,
    /// Only asks raised before this one.
    pub before: Option<AskId>,
    /// Only asks raised after this one.
    pub after: Option<AskId>,
    pub limit: Option<u32>,
    /// Of an export.
    pub format: Option<ExportFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateFilter {
    Open,
    Answered,
    Expired,
    Withdrawn,
    /// Any but open.
    Ended,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeciderFilter {
    People,
    Rules,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    #[default]
    Json,
    Csv,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAnswer {
    #[schemars(with = "aye_core::Answer")]
    pub answer: Value,
    /// Of the ask as it was shown.
    pub digest: Digest,
    /// The sender's own name for this act: sending it again is not answering again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<AnswerKey>,
    /// By a passkey, for exactly this answer; needed to allow an ask whose `proof` is `passkey`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<Assertion>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// Seconds.
    pub wait: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Withdraw {
    pub why: Withdrawal,
    /// What was answered in the agent's own terminal.
    #[schemars(with = "Option<aye_core::Answer>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

impl From<Withdrawal> for Withdraw {
    fn from(why: Withdrawal) -> Self {
        Self { why, answer: None }
    }
}

/// How an ask ended, as its adapter needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Resolution")]
pub struct Resolution<A = Answer> {
    pub state: AskState,
    pub outcome: Outcome<A>,
    /// Who answered, a person or a rule.
    pub by: Option<By>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct Outcome<A = Answer> {
    pub decision: Decision,
    pub answer: Option<A>,
    /// What the agent should be told in words, where there is something to tell.
    pub message: Option<String>,
}

/// What an agent is told whose plan is to be outlined first.
const WRITE_AN_OUTLINE: &str = "Not approved yet: the person wants to read an outline first. Write the outline of \
    your plan as plain text in your reply, and do not send a new plan until you are asked to.";

impl Resolution {
    pub fn of(ask: &Ask) -> Option<Self> {
        let outcome = match &ask.state {
            State::Open => return None,
            State::Answered { answer, .. } => Outcome::answered(answer),
            State::Expired { why: Expiry::Deadline, .. } => Outcome::expired(
                "Nobody answered in time. This was not approved; do not take it as an answer.",
            ),
            State::Expired { why: Expiry::Unattended, .. } => Outcome::expired(
                "Nobody is there to answer. This was not approved; do not take it as an answer.",
            ),
            State::Withdrawn { .. } => Outcome {
                decision: Decision::Withdrawn,
                answer: None,
                message: ask.state.note().map(str::to_owned),
            },
        };
        Some(Self { state: AskState::from(&ask.state), outcome, by: ask.state.by().cloned() })
    }

    /// The same for people to read.
    pub fn without_secrets(&self, body: &Body) -> Self {
        let mut shown = self.clone();
        shown.outcome.answer.take_if(|_| body.has_secret());
        shown
    }

    /// How an ask ended, as everybody sees it.
    pub fn of_view(ask: &AskView) -> Option<Self> {
        let outcome = match (ask.status.state, &ask.status.answer) {
            (AskState::Open, _) => return None,
            (AskState::Answered, Some(answer)) => Outcome::answered(answer),
            (AskState::Answered | AskState::Expired, _) => {
                Outcome { decision: Decision::Expired, answer: None, message: ask.status.note.clone() }
            }
            (AskState::Withdrawn, _) => {
                Outcome { decision: Decision::Withdrawn, answer: None, message: ask.status.note.clone() }
            }
        };
        Some(Self { state: ask.status.state, outcome, by: ask.status.by.clone() })
    }

    /// What a rule decided at once, which nobody needs to wait for.
    pub fn by_rule(ask: &AskView) -> Option<Self> {
        let (Some(By::Rule { .. }), Some(answer)) = (&ask.status.by, &ask.status.answer) else { return None };
        Some(Self { state: ask.status.state, outcome: Outcome::answered(answer), by: ask.status.by.clone() })
    }

    /// Of what a rule allowed at once.
    pub fn allowed(allowed: &AllowedAsk) -> Self {
        let outcome = Outcome::answered(&allowed.answer);
        Self { state: AskState::Answered, outcome, by: Some(allowed.by.clone()) }
    }

    /// As the hub sent it. What does not fit the ask is no approval.
    pub fn read(body: &Body, sent: Value) -> Self {
        let lost = |why: String| {
            let outcome = Outcome::expired(&format!("The answer was lost: {why}"));
            Self { state: AskState::Expired, outcome, by: None }
        };
        match serde_json::from_value(sent) {
            Ok(sent) => Self::fitting(body, sent).unwrap_or_else(|invalid| lost(invalid.to_string())),
            Err(error) => lost(error.to_string()),
        }
    }

    fn fitting(body: &Body, sent: Resolution<Value>) -> Result<Self, Invalid> {
        let Resolution { state, outcome: Outcome { decision, answer, message }, by } = sent;
        let answer = match state {
            AskState::Answered => Some(Answer::read(body, answer.unwrap_or_default())?),
            AskState::Open | AskState::Expired | AskState::Withdrawn => None,
        };
        Ok(Self { state, outcome: Outcome { decision, answer, message }, by })
    }
}

impl Outcome {
    fn answered(answer: &Answer) -> Self {
        let message = match answer {
            Answer::Plan(PlanVerdict::Outline) => Some(WRITE_AN_OUTLINE),
            Answer::Question(_) | Answer::Permission(_) | Answer::Plan(_) => answer.message(),
        };
        Self {
            decision: answer.decision(),
            answer: Some(answer.clone()),
            message: message.map(str::to_owned),
        }
    }

    fn expired(message: &str) -> Self {
        Self { decision: Decision::Expired, answer: None, message: Some(message.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_read_back_as_it_was_written() {
        for sent in [json!("5m"), json!("1h 30m"), json!(300), json!("0.05s")] {
            let timeout: Timeout = serde_json::from_value(sent.clone()).unwrap();
            assert_eq!(serde_json::from_value::<Timeout>(json!(timeout)).unwrap(), timeout, "{sent}");
        }
        for wrong in [json!("0s"), json!(-5), json!(1.5), json!("soon"), json!(true)] {
            assert!(serde_json::from_value::<Timeout>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_the_hub_says_is_read_back_and_what_does_not_fit_the_ask_approves_nothing() {
        let body = Body::decode(Kind::Permission, json!({"tool": "Bash", "input": {}})).unwrap();
        let answer = Answer::read(&body, json!({"decision": "allow", "scope": "once"})).unwrap();
        let by = Some(By::Rule { rule: "r".try_into().unwrap() });
        let allowed = Resolution { state: AskState::Answered, outcome: Outcome::answered(&answer), by };
        assert_eq!(Resolution::read(&body, serde_json::to_value(&allowed).unwrap()), allowed);
        let session = json!({"decision": "allow", "scope": "session"});
        for sent in [
            json!({}),
            json!({"state": "new", "outcome": {"decision": "allow"}}),
            json!({"state": "answered", "outcome": {"decision": "allow"}}),
            json!({"state": "answered", "outcome": {"decision": "allow", "answer": session}}),
            json!({"state": "expired", "outcome": {"decision": "expired", "answer": answer}}),
        ] {
            let read = Resolution::read(&body, sent.clone());
            assert_eq!((read.state, read.outcome.answer), (AskState::Expired, None), "{sent}");
        }
    }

    #[test]
    fn what_a_rule_allowed_is_read_in_brief_and_a_brief_word_of_anybody_else_is_not() {
        let answer = json!({"decision": "allow", "scope": "once"});
        let brief = json!({"id": "ask1", "answer": answer, "by": {"rule": "r"}, "voucher": {"mac": "x"}});
        let reply: RaiseReply = serde_json::from_value(brief.clone()).unwrap();
        assert_eq!(serde_json::to_value(&reply).unwrap(), brief);
        let RaiseReply::Brief(allowed) = reply else { panic!("{reply:?}") };
        let resolution = Resolution::allowed(&allowed);
        assert_eq!((resolution.state, resolution.outcome.decision), (AskState::Answered, Decision::Allow));
        let person = json!({"name": "p", "surface": "web"});
        for (field, other) in [("by", person), ("by", Value::Null), ("answer", json!({})), ("id", json!(1))] {
            let mut sent = brief.clone();
            sent[field] = other;
            assert!(serde_json::from_value::<RaiseReply>(sent.clone()).is_err(), "{sent}");
        }
    }
}
