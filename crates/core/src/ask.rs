//! Asks: what a person must decide. Immutable once raised.

use crate::answer::Answer;
use crate::can::Can;
use crate::digest::Digest;
use crate::display::{Before, Display, Extras};
use crate::ids::{AgentId, AskId, Key, Text};
use crate::invalid::{Invalid, decode};
use crate::lifecycle::{AskState, Receipt, State};
use crate::proof::Proof;
use crate::who::By;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::{self, IgnoredAny};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
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

    /// The same body as it would be raised today; only asks of older versions differ from it.
    pub fn as_raised_now(&self) -> Self {
        match self {
            Body::Permission(permission) => Body::Permission(permission.clone().without_foreign_words()),
            Body::Question(_) | Body::Plan(_) => self.clone(),
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
#[serde(try_from = "StoredPermission")]
#[non_exhaustive]
pub struct Permission {
    pub tool: String,
    pub input: Map<String, Value>,
    /// What an adapter once said of an ask raised before the hub made displays itself. The digest of such an ask
    /// covers it; nobody is shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    display: Option<Value>,
    pub scopes: Vec<ScopeOffer>,
}

/// A permission as it was written down, kept as it stands: its digest covers every word.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoredPermission {
    tool: String,
    input: Map<String, Value>,
    display: Option<Value>,
    scopes: Option<Vec<ScopeOffer>>,
}

impl TryFrom<StoredPermission> for Permission {
    type Error = String;

    fn try_from(stored: StoredPermission) -> Result<Self, String> {
        if stored.tool.trim().is_empty() {
            return Err("the tool must have a name".into());
        }
        let scopes = stored.scopes.unwrap_or_else(|| vec![ScopeOffer::once()]);
        let mut seen = HashSet::new();
        if scopes.is_empty() || !scopes.iter().all(|offer| seen.insert(offer.scope)) {
            return Err("scopes must offer at least one, and each only once".into());
        }
        Ok(Self { tool: stored.tool, input: stored.input, display: stored.display, scopes })
    }
}

impl Permission {
    /// As it is raised: what the hub would grant is put into words by the hub, so other words for it are dropped.
    pub fn new(
        tool: String,
        input: Map<String, Value>,
        scopes: Option<Vec<ScopeOffer>>,
    ) -> Result<Self, String> {
        Self::try_from(StoredPermission { tool, input, display: None, scopes })
            .map(Self::without_foreign_words)
    }

    fn without_foreign_words(mut self) -> Self {
        self.display = None;
        for offer in &mut self.scopes {
            if offer.scope == Scope::Once || offer.keeper() == Keeper::Hub {
                offer.rule = None;
            }
        }
        self
    }

    pub fn offer(&self, scope: Scope) -> Option<&ScopeOffer> {
        self.scopes.iter().find(|offer| offer.scope == scope)
    }
}

/// A body as an adapter raises it.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum RaisedBody {
    Question(Questions),
    Permission(RaisedPermission),
    Plan(Plan),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RaisedPermission {
    tool: String,
    input: Map<String, Value>,
    scopes: Option<Vec<ScopeOffer>>,
    /// What the agent's machine says of the file that would change; outside the digest, dropped when the ask ends.
    before: Option<Before>,
    /// Older adapters send one. The hub makes its own.
    #[schemars(skip)]
    #[serde(rename = "display")]
    _display: Option<IgnoredAny>,
}

impl RaisedBody {
    /// The body that the digest covers, and what is only shown beside it.
    pub fn decode(kind: Kind, body: Value) -> Result<(Body, Option<Before>), Invalid> {
        match kind {
            Kind::Permission => {
                let raised: RaisedPermission = decode(body)?;
                let permission = Permission::new(raised.tool, raised.input, raised.scopes)
                    .map_err(|problem| Invalid::new("", problem))?;
                Ok((Body::Permission(permission), raised.before))
            }
            Kind::Question | Kind::Plan => Body::decode(kind, body).map(|body| (body, None)),
        }
    }
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

/// A scope on offer. `rule` is the agent's own word for a rule that the agent keeps; what the hub keeps is put into
/// words by the hub (`display.grants`).
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
    /// Shown beside it while it is open; outside the digest.
    pub extras: Extras,
    pub digest: Digest,
    pub created_at: Timestamp,
    pub deadline: Option<Timestamp>,
    /// What allowing it takes, as it stood when the ask was raised. Outside the digest.
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

    fn raised(body: Value) -> Result<(Value, Option<Before>), Invalid> {
        RaisedBody::decode(Kind::Permission, body).map(|(body, before)| (body.to_json(), before))
    }

    #[test]
    fn a_display_that_is_raised_is_dropped_and_one_that_was_stored_is_kept() {
        let stored = json!({"tool": "Bash", "input": {"command": "bash evil.sh"},
            "display": {"kind": "command", "text": "git status"}, "scopes": [{"scope": "once"}]});
        let body = Body::decode(Kind::Permission, stored.clone()).unwrap();
        assert_eq!(body.to_json(), stored, "its digest covers it");
        for display in [stored["display"].clone(), json!("nonsense"), Value::Null] {
            let mut body = stored.clone();
            body["display"] = display;
            let today =
                json!({"tool": "Bash", "input": {"command": "bash evil.sh"}, "scopes": [{"scope": "once"}]});
            assert_eq!(raised(body).unwrap(), (today, None));
        }
    }

    #[test]
    fn words_for_what_the_hub_would_grant_are_not_taken_from_who_asks() {
        let scopes = json!([
            {"scope": "once", "rule": "only looks"},
            {"scope": "session", "rule": "Bash(git status)", "kept_by": "agent"},
            {"scope": "always", "rule": "only git status", "kept_by": "hub"}]);
        let (body, _) = raised(json!({"tool": "Bash", "input": {}, "scopes": scopes})).unwrap();
        let kept = json!([
            {"scope": "once"},
            {"scope": "session", "rule": "Bash(git status)", "kept_by": "agent"},
            {"scope": "always", "kept_by": "hub"}]);
        assert_eq!(body["scopes"], kept);
    }

    #[test]
    fn what_the_machine_says_of_the_file_is_outside_the_body_and_bounded() {
        let with = |before: Value| raised(json!({"tool": "Write", "input": {}, "before": before}));
        let places = json!({"places": [{"old_start": 1, "new_start": 1, "removed": ["x"]}]});
        let (body, before) = with(places).unwrap();
        assert_eq!(body, json!({"tool": "Write", "input": {}, "scopes": [{"scope": "once"}]}));
        assert_eq!(before.unwrap().places[0].removed, ["x"]);
        let long = json!({"places": [{"old_start": 1, "new_start": 1, "removed": ["x".repeat(64 * 1024)]}]});
        assert!(with(long).unwrap_err().problem.contains("65536 bytes"));
        let smuggled = json!({"places": [{"old_start": 1, "new_start": 1, "removed": ["x\n+y"]}]});
        assert!(with(smuggled).unwrap_err().problem.contains("line break"));
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
