//! What an ask says: questions, a permission or a plan. Immutable once raised, and covered by the digest.

use crate::digest::{write_array, write_canonical, write_object, write_string};
use crate::display::Before;
use crate::ids::Text;
use crate::invalid::{Invalid, decode};
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
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

    /// Whether a question asks for something that must not be kept.
    pub fn has_secret(&self) -> bool {
        match self {
            Body::Question(asked) => asked.questions.iter().any(|question| question.secret),
            Body::Permission(_) | Body::Plan(_) => false,
        }
    }

    /// Whether this is a question by which something can be allowed.
    pub fn has_allowing_option(&self) -> bool {
        match self {
            Body::Question(asked) => asked.questions.iter().any(Question::has_allowing_option),
            Body::Permission(_) | Body::Plan(_) => false,
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

    /// The same as canonical JSON, which has its fields in this order. Every ask that is read is checked by its digest, so
    /// no tree is built for it; and every field is named here, so that none can be left out of it.
    pub(crate) fn write_canonical(&self, out: &mut String) {
        match self {
            Body::Question(Questions { questions }) => {
                out.push_str("{\"questions\":");
                write_array(questions, out, Question::write_canonical);
            }
            Body::Permission(Permission { tool, input, display, scopes }) => {
                out.push('{');
                if let Some(display) = display {
                    out.push_str("\"display\":");
                    write_canonical(display, out);
                    out.push(',');
                }
                out.push_str("\"input\":");
                write_object(input, out);
                out.push_str(",\"scopes\":");
                write_array(scopes, out, ScopeOffer::write_canonical);
                out.push_str(",\"tool\":");
                write_string(tool, out);
            }
            Body::Plan(Plan { plan }) => {
                out.push_str("{\"plan\":");
                write_string(plan.as_str(), out);
            }
        }
        out.push('}');
    }
}

fn write_flag(flag: bool, out: &mut String) {
    out.push_str(if flag { "true" } else { "false" });
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
    /// What is answered goes to the agent and is not kept; left out where it is not so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

impl Question {
    pub fn has_allowing_option(&self) -> bool {
        self.options.iter().any(|offer| offer.allows)
    }

    fn write_canonical(&self, out: &mut String) {
        let Question { question, header, options, multi_select, free_text, secret } = self;
        out.push_str("{\"free_text\":");
        write_flag(*free_text, out);
        out.push_str(",\"header\":");
        write_string(header, out);
        out.push_str(",\"multi_select\":");
        write_flag(*multi_select, out);
        out.push_str(",\"options\":");
        write_array(options, out, Offer::write_canonical);
        out.push_str(",\"question\":");
        write_string(question, out);
        if *secret {
            out.push_str(",\"secret\":true");
        }
        out.push('}');
    }
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
    #[serde(default)]
    pub secret: bool,
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
    /// Picking it allows something, like an approval of a permission or a plan; left out where it is not so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows: bool,
}

impl Offer {
    fn write_canonical(&self, out: &mut String) {
        let Offer { label, description, preview, allows } = self;
        out.push('{');
        if *allows {
            out.push_str("\"allows\":true,");
        }
        out.push_str("\"description\":");
        write_string(description, out);
        out.push_str(",\"label\":");
        write_string(label, out);
        if let Some(preview) = preview {
            out.push_str(",\"preview\":");
            write_string(preview, out);
        }
        out.push('}');
    }
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
            secret: draft.secret,
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

/// A permission as it was written down, kept as it is: its digest covers every word.
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

    /// What an adapter once said of it.
    pub(crate) fn told(&self) -> Option<&Value> {
        self.display.as_ref()
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

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Always => "always",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
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

impl Keeper {
    fn as_str(self) -> &'static str {
        match self {
            Keeper::Agent => "agent",
            Keeper::Hub => "hub",
        }
    }
}

impl ScopeOffer {
    pub fn once() -> Self {
        Self { scope: Scope::Once, rule: None, kept_by: None }
    }

    fn write_canonical(&self, out: &mut String) {
        let ScopeOffer { scope, rule, kept_by } = self;
        out.push('{');
        if let Some(keeper) = kept_by {
            out.push_str("\"kept_by\":");
            write_string(keeper.as_str(), out);
            out.push(',');
        }
        if let Some(rule) = rule {
            out.push_str("\"rule\":");
            write_string(rule, out);
            out.push(',');
        }
        out.push_str("\"scope\":");
        write_string(scope.as_str(), out);
        out.push('}');
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

#[cfg(test)]
mod tests;
