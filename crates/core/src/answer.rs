//! Answers, and whether one fits its ask. An [`Answer`] exists only after it was checked against its ask, or was read back
//! from the store.

use crate::body::{Body, Kind, Permission, Question, Questions, Scope};
use crate::ids::Text;
use crate::invalid::{Invalid, decode};
use crate::secret::{NOT_KEPT, Sealed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// What the agent is told about a question that the person skipped.
pub const SKIPPED: &str = "(skipped by the user)";

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Answer {
    Question(Reply),
    Permission(Verdict),
    Plan(PlanVerdict),
}

/// A reply to all questions of an ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reply {
    /// One entry per question, in order.
    Each { answers: Vec<Choice> },
    /// One reply to all questions, in the person's own words.
    Response { response: Text },
    /// All declined.
    Skip {
        skip: Yes,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Text>,
    },
}

/// What was chosen for one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Choice {
    Skipped {
        skip: Yes,
    },
    /// A secret was given, and is not kept: this is all that is recorded of it.
    Secret {
        secret: Sealed,
    },
    Given {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        selected: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<Text>,
        #[serde(skip_serializing_if = "Option::is_none")]
        notes: Option<Text>,
    },
}

/// A flag that is either present or absent; `false` is refused, because it would be a second way to say "absent".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "bool", into = "bool")]
#[schemars(with = "bool")]
pub struct Yes;

impl TryFrom<bool> for Yes {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value { Ok(Yes) } else { Err("may only be true, or left out") }
    }
}

impl From<Yes> for bool {
    fn from(Yes: Yes) -> bool {
        true
    }
}

/// The decision on a permission.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Verdict {
    Allow {
        scope: Scope,
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Map<String, Value>>,
    },
    Deny {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Text>,
        interrupt: bool,
    },
}

/// The decision on a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum PlanVerdict {
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        plan: Option<Text>,
    },
    Deny {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Text>,
    },
    /// Pause, and show an outline first.
    Outline,
}

/// How an ask ended, in one word. Only `answered` and `allow` let the agent go ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Answered,
    Declined,
    Allow,
    Deny,
    Outline,
    Expired,
    Withdrawn,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Answered => "answered",
            Decision::Declined => "declined",
            Decision::Allow => "allow",
            Decision::Deny => "deny",
            Decision::Outline => "outline",
            Decision::Expired => "expired",
            Decision::Withdrawn => "withdrawn",
        }
    }
}

impl Answer {
    /// Reads an answer and checks it against its ask; the error names the field.
    pub fn read(body: &Body, value: Value) -> Result<Self, Invalid> {
        let answer = Self::decode(body.kind(), value)?;
        answer.check(body)?;
        Ok(answer)
    }

    /// Reads back an answer that was checked when it was recorded.
    pub fn decode(kind: Kind, value: Value) -> Result<Self, Invalid> {
        match kind {
            Kind::Question => decode::<ReplyDraft>(value)?.finish().map(Answer::Question),
            Kind::Permission => decode_verdict(value).map(Answer::Permission),
            Kind::Plan => decode_plan_verdict(value).map(Answer::Plan),
        }
    }

    fn check(&self, body: &Body) -> Result<(), Invalid> {
        match (self, body) {
            (Answer::Question(reply), Body::Question(questions)) => reply.check(questions),
            (Answer::Permission(verdict), Body::Permission(permission)) => verdict.check(permission),
            (Answer::Plan(_), Body::Plan(_)) => Ok(()),
            (Answer::Question(_), Body::Permission(_) | Body::Plan(_))
            | (Answer::Permission(_), Body::Question(_) | Body::Plan(_))
            | (Answer::Plan(_), Body::Question(_) | Body::Permission(_)) => {
                Err(Invalid::new("", format!("this is not an answer to a {}", body.kind())))
            }
        }
    }

    /// Serializing plain data cannot fail; null would not be a valid answer.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// One word for what was decided.
    pub fn decision(&self) -> Decision {
        match self {
            Answer::Question(Reply::Skip { .. }) => Decision::Declined,
            // All questions skipped one by one also means declined: a script must not take it for an answer.
            Answer::Question(Reply::Each { answers }) if answers.iter().all(Choice::is_skipped) => {
                Decision::Declined
            }
            Answer::Question(Reply::Each { .. } | Reply::Response { .. }) => Decision::Answered,
            Answer::Permission(Verdict::Allow { .. }) | Answer::Plan(PlanVerdict::Allow { .. }) => {
                Decision::Allow
            }
            Answer::Permission(Verdict::Deny { .. }) | Answer::Plan(PlanVerdict::Deny { .. }) => {
                Decision::Deny
            }
            Answer::Plan(PlanVerdict::Outline) => Decision::Outline,
        }
    }

    /// Whether this answer lets the agent do what it asked for, so that it takes the same proof as any approval. Words
    /// for a question that can allow something may be taken for an approval, so they count as one.
    pub fn allows(&self, body: &Body) -> bool {
        match (self, body) {
            (Answer::Question(Reply::Each { answers }), Body::Question(asked)) => {
                let mut both = asked.questions.iter().zip(answers);
                both.any(|(question, choice)| choice.allows(question))
            }
            (Answer::Question(Reply::Response { .. }), _) => body.has_allowing_option(),
            (Answer::Question(_) | Answer::Permission(_) | Answer::Plan(_), _) => {
                self.decision() == Decision::Allow
            }
        }
    }

    /// What the person wrote to the agent beside the decision itself.
    pub fn message(&self) -> Option<&str> {
        let text = match self {
            Answer::Question(Reply::Each { .. }) => None,
            Answer::Question(Reply::Response { response }) => Some(response),
            Answer::Question(Reply::Skip { message, .. })
            | Answer::Permission(Verdict::Deny { message, .. })
            | Answer::Plan(PlanVerdict::Deny { message }) => message.as_ref(),
            Answer::Permission(Verdict::Allow { .. })
            | Answer::Plan(PlanVerdict::Allow { .. } | PlanVerdict::Outline) => None,
        };
        text.map(Text::as_str)
    }
}

/// A reply before its form is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyDraft {
    answers: Option<Vec<ChoiceDraft>>,
    response: Option<Text>,
    skip: Option<Yes>,
    message: Option<Text>,
}

impl ReplyDraft {
    fn finish(self) -> Result<Reply, Invalid> {
        let stray_message = self.message.is_some() && self.skip.is_none();
        match (self.answers, self.response, self.skip) {
            _ if stray_message => Err(Invalid::new("message", "goes only with skip")),
            (Some(answers), None, None) => {
                let finish = |(i, draft): (usize, ChoiceDraft)| {
                    draft.finish().map_err(|e| e.under(&format!("answers[{i}]")))
                };
                let answers = answers.into_iter().enumerate().map(finish).collect::<Result<_, _>>()?;
                Ok(Reply::Each { answers })
            }
            (None, Some(response), None) => Ok(Reply::Response { response }),
            (None, None, Some(skip)) => Ok(Reply::Skip { skip, message: self.message }),
            (None, None, None) => Err(Invalid::new("answers", "give answers, a response, or skip")),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                Err(Invalid::new("answers", "give only one of answers, response and skip"))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChoiceDraft {
    skip: Option<Yes>,
    secret: Option<Sealed>,
    #[serde(default)]
    selected: Vec<String>,
    text: Option<Text>,
    notes: Option<Text>,
}

impl ChoiceDraft {
    fn finish(self) -> Result<Choice, Invalid> {
        let alone = self.selected.is_empty() && self.text.is_none() && self.notes.is_none();
        match (self.skip, self.secret) {
            (Some(skip), None) if alone => Ok(Choice::Skipped { skip }),
            (Some(Yes), _) => Err(Invalid::new("skip", "a skipped question takes nothing else")),
            (None, Some(secret)) if alone => Ok(Choice::Secret { secret }),
            (None, Some(_)) => Err(Invalid::new("secret", "goes with nothing else")),
            (None, None) => Ok(Choice::Given { selected: self.selected, text: self.text, notes: self.notes }),
        }
    }
}

impl Reply {
    fn check(&self, questions: &Questions) -> Result<(), Invalid> {
        let answers = match self {
            Reply::Each { answers } => answers,
            Reply::Skip { .. } => return Ok(()),
            Reply::Response { .. } if questions.questions.iter().any(|question| question.secret) => {
                return Err(Invalid::new("response", "one of these asks for a secret: answer each question"));
            }
            Reply::Response { .. } if questions.questions.iter().any(|question| question.free_text) => {
                return Ok(());
            }
            Reply::Response { .. } => {
                return Err(Invalid::new(
                    "response",
                    "these questions take no free text: pick an option, or skip",
                ));
            }
        };
        let (given, asked) = (answers.len(), questions.questions.len());
        if given != asked {
            return Err(Invalid::new(
                "answers",
                format!("{asked} questions were asked and {given} answered: answer each, or skip it"),
            ));
        }
        for (i, (choice, question)) in answers.iter().zip(&questions.questions).enumerate() {
            choice.check(question).map_err(|error| error.under(&format!("answers[{i}]")))?;
        }
        Ok(())
    }
}

impl Choice {
    fn is_skipped(&self) -> bool {
        matches!(self, Choice::Skipped { .. })
    }

    fn allows(&self, question: &Question) -> bool {
        match self {
            Choice::Skipped { .. } => false,
            Choice::Secret { .. } | Choice::Given { text: Some(_), .. } => question.has_allowing_option(),
            Choice::Given { selected, .. } => {
                question.options.iter().any(|offer| offer.allows && selected.contains(&offer.label))
            }
        }
    }

    fn check(&self, question: &Question) -> Result<(), Invalid> {
        let (selected, text) = match self {
            Choice::Skipped { .. } => return Ok(()),
            Choice::Secret { .. } => {
                return Err(Invalid::new("secret", "says what was recorded, and is no answer by itself"));
            }
            Choice::Given { notes: Some(_), .. } if question.secret => {
                return Err(Invalid::new("notes", "a secret takes no notes"));
            }
            Choice::Given { selected, text, notes: _ } => (selected, text),
        };
        let mut seen = HashSet::new();
        for label in selected {
            if !question.options.iter().any(|offer| offer.label == *label) {
                return Err(Invalid::new("selected", format!("{label:?} was not offered")));
            }
            if !seen.insert(label) {
                return Err(Invalid::new("selected", format!("{label:?} is picked twice")));
            }
        }
        if text.is_some() && !question.free_text {
            return Err(Invalid::new("text", "this question takes no free text"));
        }
        match (selected.len() + usize::from(text.is_some()), question.multi_select) {
            (0, _) => Err(Invalid::new("selected", "nothing is picked: pick something, or skip")),
            (2.., false) => Err(Invalid::new(
                if text.is_some() { "text" } else { "selected" },
                "this question takes exactly one answer",
            )),
            (1, false) | (1.., true) => Ok(()),
        }
    }

    /// The choice as one line for an agent: picks joined with `", "`, a pick that contains a comma in quotes, free text last.
    pub fn in_words(&self) -> String {
        match self {
            Choice::Skipped { .. } => SKIPPED.to_owned(),
            Choice::Secret { .. } => NOT_KEPT.to_owned(),
            Choice::Given { selected, text, .. } => {
                let several = selected.len() + usize::from(text.is_some()) > 1;
                let quote = |label: &String| match several && label.contains(',') {
                    true => format!("\"{label}\""),
                    false => label.clone(),
                };
                let words = selected.iter().map(quote);
                let words = words.chain(text.iter().map(|text| text.as_str().to_owned()));
                words.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl Verdict {
    fn check(&self, permission: &Permission) -> Result<(), Invalid> {
        match self {
            Verdict::Allow { scope, .. } if permission.offer(*scope).is_none() => {
                Err(Invalid::new("scope", format!("{scope} was not offered")))
            }
            Verdict::Allow { .. } | Verdict::Deny { .. } => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowDraft {
    scope: Scope,
    input: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyDraft {
    message: Option<Text>,
    #[serde(default)]
    interrupt: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowPlanDraft {
    plan: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyPlanDraft {
    message: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn decode_verdict(value: Value) -> Result<Verdict, Invalid> {
    let (decision, rest) = split_decision(value)?;
    match decision.as_str() {
        "allow" => decode(rest).map(|AllowDraft { scope, input }| Verdict::Allow { scope, input }),
        "deny" => decode(rest).map(|DenyDraft { message, interrupt }| Verdict::Deny { message, interrupt }),
        _ => Err(Invalid::new("decision", "a permission takes allow or deny")),
    }
}

fn decode_plan_verdict(value: Value) -> Result<PlanVerdict, Invalid> {
    let (decision, rest) = split_decision(value)?;
    match decision.as_str() {
        "allow" => decode(rest).map(|AllowPlanDraft { plan }| PlanVerdict::Allow { plan }),
        "deny" => decode(rest).map(|DenyPlanDraft { message }| PlanVerdict::Deny { message }),
        "outline" => decode(rest).map(|Nothing {}| PlanVerdict::Outline),
        _ => Err(Invalid::new("decision", "a plan takes allow, deny or outline")),
    }
}

/// Reads the tag first, so that the fields of each decision can be checked strictly and by name.
fn split_decision(value: Value) -> Result<(String, Value), Invalid> {
    let Value::Object(mut fields) = value else {
        return Err(Invalid::new("", "must be an object"));
    };
    match fields.shift_remove("decision") {
        Some(Value::String(decision)) => Ok((decision, Value::Object(fields))),
        Some(_) => Err(Invalid::new("decision", "must be a string")),
        None => Err(Invalid::new("decision", "is missing")),
    }
}

#[cfg(test)]
mod tests;
