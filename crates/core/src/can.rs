//! What an agent can take from here. It says nothing of what is asked, so the digest does not cover it, and it may
//! change while the ask is open.

use crate::answer::{Answer, Choice, PlanVerdict, Reply, Verdict};
use crate::bounded::ShortText;
use crate::invalid::Invalid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is left out, it can; but a refusal does not end its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Can {
    /// Be answered from here at all.
    pub answer: bool,
    /// Where it can be answered, where that is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<ShortText>,
    /// All questions may be declined, and each of them skipped unless `questions` says otherwise.
    pub skip: bool,
    /// One reply to all questions.
    pub response: bool,
    /// Free text in place of an option.
    pub text: bool,
    /// Notes beside what was picked.
    pub notes: bool,
    /// Another input, or another plan.
    pub edit: bool,
    /// Why it was refused.
    pub reason: bool,
    pub outline: bool,
    /// A permission may be refused so that its turn ends.
    pub stop: bool,
    pub deny_ends_turn: bool,
    /// One entry per question, in order; empty if `skip`, `text` and `notes` say it for all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionCan>,
}

/// The kinds of answer that one of several questions takes. A field that is left out is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionCan {
    /// Be skipped while others are answered.
    pub skip: bool,
    pub text: bool,
    pub notes: bool,
}

impl Default for QuestionCan {
    fn default() -> Self {
        Self { skip: true, text: true, notes: true }
    }
}

impl Default for Can {
    fn default() -> Self {
        Self {
            answer: true,
            why: None,
            skip: true,
            response: true,
            text: true,
            notes: true,
            edit: true,
            reason: true,
            outline: true,
            stop: true,
            deny_ends_turn: false,
            questions: Vec::new(),
        }
    }
}

impl Can {
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Only shown here; this says where it can be answered.
    pub fn elsewhere(why: impl Into<ShortText>) -> Self {
        Self { answer: false, why: Some(why.into()), ..Self::default() }
    }

    /// Looks up a question's own entry, or else what all of them take.
    pub fn for_question(&self, question: usize) -> QuestionCan {
        let all = QuestionCan { skip: self.skip, text: self.text, notes: self.notes };
        self.questions.get(question).copied().unwrap_or(all)
    }

    /// The same with what each question takes. Whoever reads only `text` and `notes` goes by what all of them take.
    pub fn with_questions(self, questions: Vec<QuestionCan>) -> Self {
        let (text, notes) = (questions.iter().all(|can| can.text), questions.iter().all(|can| can.notes));
        let alike = QuestionCan { skip: self.skip, text, notes };
        let questions = if questions.iter().all(|can| *can == alike) { Vec::new() } else { questions };
        Self { text, notes, questions, ..self }
    }

    /// Where it can be answered, if not here.
    pub fn why_not(&self) -> Option<&str> {
        let why = self.why.as_deref().unwrap_or("this request cannot be answered from here");
        (!self.answer).then_some(why)
    }

    /// Whether the agent can take this answer; the error names what it cannot.
    pub fn take(&self, answer: &Answer) -> Result<(), Invalid> {
        if let Some(why) = self.why_not() {
            return Err(Invalid::new("", why));
        }
        let beyond = match answer {
            Answer::Question(Reply::Skip { message, .. }) => {
                [(!self.skip, "skip"), (!self.reason && message.is_some(), "message")]
            }
            Answer::Question(Reply::Response { .. }) => [(!self.response, "response"), (false, "")],
            Answer::Question(Reply::Each { answers }) => {
                return answers.iter().enumerate().try_for_each(|(i, choice)| {
                    self.take_choice(choice, self.for_question(i))
                        .map_err(|invalid| invalid.under(&format!("answers[{i}]")))
                });
            }
            Answer::Permission(Verdict::Allow { input, .. }) => {
                [(!self.edit && input.is_some(), "input"), (false, "")]
            }
            Answer::Plan(PlanVerdict::Allow { plan }) => {
                [(!self.edit && plan.is_some(), "plan"), (false, "")]
            }
            Answer::Permission(Verdict::Deny { message, interrupt }) => {
                [(!self.reason && message.is_some(), "message"), (!self.stop && *interrupt, "interrupt")]
            }
            Answer::Plan(PlanVerdict::Deny { message }) => {
                [(!self.reason && message.is_some(), "message"), (false, "")]
            }
            Answer::Plan(PlanVerdict::Outline) => [(!self.outline, "decision"), (false, "")],
        };
        self.none_of(&beyond)
    }

    fn take_choice(&self, choice: &Choice, can: QuestionCan) -> Result<(), Invalid> {
        match choice {
            Choice::Skipped { .. } => self.none_of(&[(!can.skip, "skip")]),
            Choice::Secret { .. } => Ok(()),
            Choice::Given { text, notes, .. } => self
                .none_of(&[(!can.text && text.is_some(), "text"), (!can.notes && notes.is_some(), "notes")]),
        }
    }

    fn none_of(&self, beyond: &[(bool, &str)]) -> Result<(), Invalid> {
        let why = self.why.as_deref().unwrap_or("this agent cannot take that from here");
        match beyond.iter().find(|(beyond, _)| *beyond) {
            Some((_, field)) => Err(Invalid::new(*field, why)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Kind;
    use serde_json::{Value, json};

    fn can(value: Value) -> Can {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_left_out_can_be_taken() {
        assert!(can(json!({})).is_everything());
        assert_eq!(serde_json::to_value(can(json!({"skip": false}))).unwrap()["notes"], true);
    }

    #[test]
    fn questions_are_told_apart_only_where_they_differ() {
        let (all, some) = (QuestionCan::default(), QuestionCan { text: false, ..QuestionCan::default() });
        assert!(Can::default().with_questions(vec![all, all]).is_everything());
        let alike = Can::default().with_questions(vec![some, some]);
        assert_eq!((alike.text, alike.questions.len()), (false, 0));
        let mixed = Can::default().with_questions(vec![some, all]);
        assert_eq!((mixed.text, mixed.for_question(0), mixed.for_question(1)), (false, some, all));
        let unskippable = QuestionCan { skip: false, ..all };
        assert_eq!(Can::default().with_questions(vec![unskippable]).for_question(0), unskippable);
    }

    #[test]
    fn an_answer_beyond_it_is_refused_by_the_field_that_is() {
        let text = json!({"answers": [{"selected": ["a"]}, {"text": "x", "notes": "n"}]});
        let cases = [
            (Kind::Question, text.clone(), json!({"text": false}), Some("answers[1].text")),
            (Kind::Question, text, json!({"notes": false, "skip": false}), Some("answers[1].notes")),
            (Kind::Question, json!({"skip": true}), json!({"skip": false}), Some("skip")),
            (
                Kind::Question,
                json!({"answers": [{"skip": true}]}),
                json!({"skip": false}),
                Some("answers[0].skip"),
            ),
            (
                Kind::Question,
                json!({"skip": true, "message": "m"}),
                json!({"reason": false}),
                Some("message"),
            ),
            (Kind::Question, json!({"response": "r"}), json!({"response": false}), Some("response")),
            (Kind::Question, json!({"answers": [{"selected": ["a"]}]}), json!({"text": false}), None),
            (Kind::Permission, json!({"decision": "allow", "scope": "once"}), json!({"edit": false}), None),
            (
                Kind::Permission,
                json!({"decision": "allow", "scope": "once", "input": {}}),
                json!({"edit": false}),
                Some("input"),
            ),
            (Kind::Permission, json!({"decision": "deny"}), json!({"reason": false}), None),
            (
                Kind::Permission,
                json!({"decision": "deny", "message": "m"}),
                json!({"reason": false}),
                Some("message"),
            ),
            (Kind::Permission, json!({"decision": "deny"}), json!({"stop": false}), None),
            (
                Kind::Permission,
                json!({"decision": "deny", "interrupt": true}),
                json!({"stop": false}),
                Some("interrupt"),
            ),
            (Kind::Plan, json!({"decision": "allow", "plan": "p"}), json!({"edit": false}), Some("plan")),
            (Kind::Plan, json!({"decision": "outline"}), json!({"outline": false}), Some("decision")),
            (Kind::Plan, json!({"decision": "deny"}), json!({"answer": false, "why": "ask there"}), Some("")),
        ];
        for (kind, answer, offered, field) in cases {
            let answer = Answer::decode(kind, answer).unwrap();
            let refused = can(offered.clone()).take(&answer).err();
            assert_eq!(refused.as_ref().map(|refused| refused.field.as_str()), field, "{answer:?} {offered}");
        }
        let mixed = json!({"text": false, "notes": false, "questions": [
            {"skip": false, "text": false}, {"notes": false}]});
        let both = [
            (json!([{"selected": ["a"], "notes": "n"}, {"text": "x"}]), None),
            (json!([{"selected": ["a"]}, {"skip": true}]), None),
            (json!([{"skip": true}, {"skip": true}]), Some("answers[0].skip")),
            (json!([{"text": "x"}, {"text": "x"}]), Some("answers[0].text")),
            (json!([{"selected": ["a"]}, {"selected": ["a"], "notes": "n"}]), Some("answers[1].notes")),
        ];
        for (answers, field) in both {
            let answer = Answer::decode(Kind::Question, json!({ "answers": answers })).unwrap();
            let refused = can(mixed.clone()).take(&answer).err();
            assert_eq!(refused.as_ref().map(|refused| refused.field.as_str()), field, "{answer:?}");
        }
        let decline = Answer::decode(Kind::Question, json!({"skip": true})).unwrap();
        assert_eq!(can(mixed).take(&decline), Ok(()));
        let elsewhere = Can::elsewhere("answer it in its terminal");
        let allow = Answer::decode(Kind::Plan, json!({"decision": "allow"})).unwrap();
        assert_eq!(elsewhere.take(&allow).unwrap_err().problem, "answer it in its terminal");
    }
}
