//! Asks: what a person must decide. Immutable once raised.

use crate::answer::Answer;
use crate::digest::Digest;
use crate::ids::{AgentId, AskId, Key, Text};
use crate::invalid::{Invalid, decode};
use crate::lifecycle::{Receipt, State};
use crate::proof::Proof;
use crate::who::By;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

const MOST_QUESTIONS: usize = 32;
const MOST_OPTIONS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Question,
    Permission,
    Plan,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Question => "question",
            Kind::Permission => "permission",
            Kind::Plan => "plan",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Kind::Question, Kind::Permission, Kind::Plan]
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or("must be question, permission or plan")
    }
}

/// What the ask says, in one of three forms.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Body {
    Question(Questions),
    Permission(Permission),
    Plan(Plan),
}

impl Body {
    pub fn decode(kind: Kind, body: Value) -> Result<Self, Invalid> {
        match kind {
            Kind::Question => decode(body).map(Body::Question),
            Kind::Permission => decode(body).map(Body::Permission),
            Kind::Plan => decode(body).map(Body::Plan),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Body::Question(_) => Kind::Question,
            Body::Permission(_) => Kind::Permission,
            Body::Plan(_) => Kind::Plan,
        }
    }

    /// A body is plain data, so this cannot fail; null would only ever make a digest that matches nothing.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "QuestionsDraft")]
#[non_exhaustive]
pub struct Questions {
    pub questions: Vec<Question>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuestionsDraft {
    questions: Vec<Question>,
}

impl TryFrom<QuestionsDraft> for Questions {
    type Error = String;

    fn try_from(draft: QuestionsDraft) -> Result<Self, String> {
        Questions::new(draft.questions)
    }
}

impl Questions {
    pub fn new(questions: Vec<Question>) -> Result<Self, String> {
        if (1..=MOST_QUESTIONS).contains(&questions.len()) {
            Ok(Self { questions })
        } else {
            Err(format!("there must be 1 to {MOST_QUESTIONS} questions"))
        }
    }
}

/// One question with what may be picked. Two questions may share a header: answers go by position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "QuestionDraft")]
#[non_exhaustive]
pub struct Question {
    pub question: String,
    pub header: String,
    pub options: Vec<Offer>,
    pub multi_select: bool,
    pub free_text: bool,
}

/// A question before it is checked.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionDraft {
    pub question: String,
    #[serde(default)]
    pub header: String,
    #[serde(default)]
    pub options: Vec<Offer>,
    #[serde(default)]
    pub multi_select: bool,
    #[serde(default)]
    pub free_text: bool,
}

/// One thing that may be picked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    pub label: String,
    #[serde(default)]
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

impl TryFrom<QuestionDraft> for Question {
    type Error = String;

    fn try_from(draft: QuestionDraft) -> Result<Self, String> {
        if draft.question.trim().is_empty() {
            return Err("the question must not be empty".into());
        }
        if draft.options.len() > MOST_OPTIONS {
            return Err(format!("there may be at most {MOST_OPTIONS} options"));
        }
        if draft.options.is_empty() && !draft.free_text {
            return Err("a question needs options, or free_text, or nobody can answer it".into());
        }
        let mut labels = HashSet::new();
        for offer in &draft.options {
            if offer.label.trim().is_empty() {
                return Err("an option's label must not be empty".into());
            }
            if !labels.insert(offer.label.as_str()) {
                return Err(format!("two options are labelled {:?}", offer.label));
            }
        }
        Ok(Self {
            question: draft.question,
            header: draft.header,
            options: draft.options,
            multi_select: draft.multi_select,
            free_text: draft.free_text,
        })
    }
}

/// May this tool run with this input?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "PermissionDraft")]
#[non_exhaustive]
pub struct Permission {
    pub tool: String,
    pub input: Map<String, Value>,
    pub display: Display,
    pub scopes: Vec<ScopeOffer>,
}

/// A permission before it is checked. Without a display, the whole input is shown as JSON.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionDraft {
    pub tool: String,
    pub input: Map<String, Value>,
    pub display: Option<Display>,
    pub scopes: Option<Vec<ScopeOffer>>,
}

impl TryFrom<PermissionDraft> for Permission {
    type Error = String;

    fn try_from(draft: PermissionDraft) -> Result<Self, String> {
        if draft.tool.trim().is_empty() {
            return Err("the tool must have a name".into());
        }
        let display = draft.display.unwrap_or_else(|| {
            Display::new(DisplayKind::Json, serde_json::to_string_pretty(&draft.input).unwrap_or_default())
        });
        let scopes = draft.scopes.unwrap_or_else(|| vec![ScopeOffer::once()]);
        let mut seen = HashSet::new();
        if scopes.is_empty() || !scopes.iter().all(|offer| seen.insert(offer.scope)) {
            return Err("scopes must offer at least one, and each only once".into());
        }
        Ok(Self { tool: draft.tool, input: draft.input, display, scopes })
    }
}

impl Permission {
    /// Whether what is displayed is the input itself, and not only somebody's word for it.
    pub fn displays_its_input(&self) -> bool {
        let whole = serde_json::to_string_pretty(&self.input).unwrap_or_default();
        self.display.kind == DisplayKind::Json && self.display.text == whole
    }

    pub fn offer(&self, scope: Scope) -> Option<&ScopeOffer> {
        self.scopes.iter().find(|offer| offer.scope == scope)
    }
}

/// What a person sees before approving.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Display {
    pub kind: DisplayKind,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<Hunk>>,
    /// The commands that a compound command consists of, each for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Why a command may do more than its parts show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
}

impl Display {
    pub fn new(kind: DisplayKind, text: String) -> Self {
        Self { kind, text, hunks: None, parts: Vec::new(), caution: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisplayKind {
    Command,
    Diff,
    Json,
}

/// A part of a unified diff; each line begins with a space, `+` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hunk {
    pub old_start: u64,
    pub new_start: u64,
    pub lines: Vec<String>,
}

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Once,
    Session,
    Always,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Always => "always",
        })
    }
}

/// A scope on offer, with the rule it would add in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopeOffer {
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_by: Option<Keeper>,
}

/// Who remembers an approval that reaches further than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keeper {
    /// The agent itself, by a rule of its own that it suggested.
    Agent,
    Hub,
}

impl ScopeOffer {
    pub fn once() -> Self {
        Self { scope: Scope::Once, rule: None, kept_by: None }
    }

    /// An agent that names no rule of its own leaves it to the hub.
    pub fn keeper(&self) -> Keeper {
        let unsaid = if self.rule.is_some() { Keeper::Agent } else { Keeper::Hub };
        self.kept_by.unwrap_or(unsaid)
    }
}

/// May this plan be carried out?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub plan: Text,
}

/// An ask as everybody sees it: what was raised, and how it stands.
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
    pub digest: Digest,
    pub created_at: Timestamp,
    pub deadline: Option<Timestamp>,
    /// What allowing it takes, as it stood when the ask was raised. Outside the digest.
    pub proof: Proof,
    pub state: State,
}

impl Serialize for Ask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ask = serializer.serialize_struct("Ask", 18)?;
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
        ask.serialize_field("body", &self.body)?;
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
    pub body: Body,
    /// `open`, `answered`, `expired` or `withdrawn`.
    pub state: String,
    pub receipt: Option<Receipt>,
    pub answer: Option<Answer>,
    pub by: Option<By>,
    pub ended_at: Option<Timestamp>,
    pub note: Option<String>,
}

/// The same before its body and answer are read, which need to know the kind. Fields of a newer hub pass by.
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
    body: Value,
    state: String,
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
            body: Body::decode(draft.kind, draft.body).map_err(|invalid| invalid.under("body"))?,
            state: draft.state,
            receipt: draft.receipt,
            answer: answer.map_err(|invalid| invalid.under("answer"))?,
            by: draft.by,
            ended_at: draft.ended_at,
            note: draft.note,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn refused(kind: Kind, body: Value, field: &str, words: &str) {
        let error = Body::decode(kind, body).unwrap_err();
        assert_eq!(error.field, field);
        assert!(error.problem.contains(words), "{error}");
    }

    #[test]
    fn a_question_nobody_could_answer_is_refused() {
        let q = |q: Value| json!({"questions": [q]});
        refused(Kind::Question, json!({"questions": []}), "", "1 to 32 questions");
        refused(
            Kind::Question,
            q(json!({"question": " ", "free_text": true})),
            "questions[0]",
            "must not be empty",
        );
        refused(Kind::Question, q(json!({"question": "x"})), "questions[0]", "needs options");
        refused(
            Kind::Question,
            q(json!({"question": "x", "options": [{"label": "a"}, {"label": "a"}]})),
            "questions[0]",
            "two options are labelled \"a\"",
        );
        refused(
            Kind::Question,
            q(json!({"question": "x", "multiSelect": true})),
            "questions[0].multiSelect",
            "unknown field",
        );
    }

    #[test]
    fn a_permission_without_a_display_shows_its_whole_input() {
        let body = Body::decode(Kind::Permission, json!({"tool": "X", "input": {"b": 1, "a": 2}})).unwrap();
        assert_eq!(
            body.to_json(),
            json!({"tool": "X", "input": {"b": 1, "a": 2},
                   "display": {"kind": "json", "text": "{\n  \"b\": 1,\n  \"a\": 2\n}"},
                   "scopes": [{"scope": "once"}]})
        );
    }

    #[test]
    fn a_permission_offers_each_scope_once_and_never_none() {
        let permission = |scopes: Value| json!({"tool": "X", "input": {}, "scopes": scopes});
        refused(Kind::Permission, permission(json!([])), "", "at least one");
        refused(Kind::Permission, permission(json!([{"scope": "once"}, {"scope": "once"}])), "", "only once");
        refused(
            Kind::Permission,
            permission(json!([{"scope": "forever"}])),
            "scopes[0].scope",
            "unknown variant",
        );
    }

    #[test]
    fn an_empty_plan_is_refused() {
        refused(Kind::Plan, json!({"plan": "\n"}), "plan", "must not be empty");
    }

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
            body,
            state: "answered".into(),
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
