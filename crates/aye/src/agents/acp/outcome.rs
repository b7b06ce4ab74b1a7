//! How an ask ended, as an agent is told it over ACP, and what it must then show.

use super::Options;
use aye_core::answer::SKIPPED;
use aye_core::{Answer, Choice, Receipt, Reply, Scope, Verdict};
use serde_json::{Map, Value, json};

/// What the agent must show of the call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    Allowed,
    Refused,
    /// These answers, in the order of the questions.
    Answers(Vec<String>),
}

/// The reply to a permission, and whether the turn is to end.
pub fn decision(options: &Options, answer: Option<&Answer>) -> (Value, Expected, bool) {
    let picked = match answer {
        Some(Answer::Permission(Verdict::Allow { scope, input: None })) => {
            let further = match scope {
                Scope::Once => None,
                Scope::Session => options.for_session.as_ref(),
                Scope::Always => options.always.as_ref(),
            };
            // What the agent does not keep, the hub does.
            further.or(options.allow_once.as_ref())
        }
        _ => None,
    };
    let interrupts = matches!(answer, Some(Answer::Permission(Verdict::Deny { interrupt: true, .. })));
    match picked {
        Some(option) => (selected(&option.id), Expected::Allowed, false),
        None => (refused(options), Expected::Refused, interrupts),
    }
}

/// The reply to Qwen's questions: each answer as one text, by its number.
pub fn answers(options: &Options, answer: Option<&Answer>) -> (Value, Expected) {
    let (Some(Answer::Question(Reply::Each { answers })), Some(submit)) = (answer, &options.allow_once)
    else {
        return (refused(options), Expected::Refused);
    };
    let words = |choice: &Choice| match choice {
        Choice::Skipped { .. } | Choice::Secret { .. } => SKIPPED.to_owned(),
        Choice::Given { selected, text, .. } => {
            let own = text.iter().map(|text| text.to_string());
            selected.iter().cloned().chain(own).collect::<Vec<_>>().join(", ")
        }
    };
    let words: Vec<_> = answers.iter().map(words).collect();
    let numbered: Map<_, _> =
        words.iter().enumerate().map(|(n, text)| (n.to_string(), json!(text))).collect();
    let mut reply = selected(&submit.id);
    reply["answers"] = numbered.into();
    (reply, Expected::Answers(words))
}

/// Only what refuses once: a person who says no has not said "never".
pub fn refused(options: &Options) -> Value {
    options.reject_once.as_ref().map_or_else(cancelled, |option| selected(&option.id))
}

pub fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

/// How agents begin to say that a call was refused.
const REFUSALS: [&str; 2] = ["canceled by the user", "rejected the approval"];

/// What an update of the call says of our answer, once the call has ended.
pub fn judge(expected: &Expected, update: &Value) -> Option<(Receipt, String)> {
    let status = update["status"].as_str().filter(|status| matches!(*status, "completed" | "failed"))?;
    let text = update["content"].to_string();
    let refused = status == "failed" && REFUSALS.iter().any(|words| text.contains(words));
    let seen = format!("the agent says that the call has {status}");
    Some(match expected {
        Expected::Allowed if !refused => (Receipt::Confirmed, seen),
        Expected::Refused if status == "failed" => (Receipt::Confirmed, seen),
        Expected::Answers(ours) => {
            let theirs = update["rawOutput"]["answers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let theirs: Vec<_> =
                theirs.iter().map(|answer| answer["answer"].as_str().unwrap_or_default()).collect();
            match status == "completed" && theirs == *ours {
                true => (Receipt::Confirmed, "the agent shows the same answers".into()),
                false => (Receipt::Disputed, format!("the agent shows other answers: {}", theirs.join(", "))),
            }
        }
        Expected::Allowed | Expected::Refused => (Receipt::Disputed, seen),
    })
}
