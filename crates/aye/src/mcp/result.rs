//! What a tool call gets back: a sentence for the model, and the same as data.

use crate::protocol::{Outcome, Resolution};
use aye_core::{Answer, AskId, Choice, Decision, Kind, Reply};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// How an ask ended. That nobody decided is an error, so that nothing passes for an answer.
pub fn of(resolution: &Resolution<Value>) -> CallToolResult {
    let outcome = &resolution.outcome;
    let decided = match outcome.decision {
        Decision::Answered | Decision::Declined | Decision::Allow | Decision::Deny | Decision::Outline => {
            true
        }
        Decision::Expired | Decision::Withdrawn => false,
    };
    result(decided, &in_words(outcome), json!(outcome))
}

pub fn still_open(ticket: &AskId) -> CallToolResult {
    let words = format!(
        "Nobody has answered yet. The request stays open. Ask for the answer with check_answer and the ticket {ticket}; \
         until there is one, nothing is decided."
    );
    result(true, &words, json!({ "decision": null, "ticket": ticket }))
}

/// The request is open, or was answered meanwhile.
pub fn unknown(ticket: &AskId, error: &str) -> CallToolResult {
    let words = format!(
        "It is not known yet whether anybody has answered: {error}\nAsk again with check_answer and the ticket {ticket}."
    );
    result(false, &words, json!({ "decision": null, "ticket": ticket }))
}

/// Nothing was asked, or nobody can say what became of it.
pub fn problem(problem: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(problem)])
}

fn result(decided: bool, words: &str, data: Value) -> CallToolResult {
    let mut result = match decided {
        true => CallToolResult::success(vec![ContentBlock::text(words)]),
        false => CallToolResult::error(vec![ContentBlock::text(words)]),
    };
    result.structured_content = Some(data);
    result
}

fn in_words(outcome: &Outcome<Value>) -> String {
    let message = outcome.message.as_deref().filter(|message| !message.is_empty());
    let with_reason = |words: &str| match message {
        Some(message) => format!("{words}: {message}"),
        None => format!("{words}."),
    };
    match outcome.decision {
        Decision::Answered => {
            let answer = outcome.answer.clone().unwrap_or_default();
            match Answer::decode(Kind::Question, answer) {
                Ok(Answer::Question(reply)) => format!("The person answered: {}", reply_in_words(&reply)),
                _ => with_reason("The person answered"),
            }
        }
        Decision::Declined => with_reason("The person declined to answer"),
        Decision::Allow => "The person allowed it, this once.".into(),
        Decision::Deny => with_reason("The person refused. Do not do it"),
        // These two are not asked for here.
        Decision::Outline | Decision::Expired | Decision::Withdrawn => {
            message.unwrap_or("Nobody decided. Do not take this as an answer.").to_owned()
        }
    }
}

fn reply_in_words(reply: &Reply) -> String {
    match reply {
        Reply::Each { answers } => {
            let each = answers.iter().map(|choice| match choice {
                Choice::Given { notes: Some(notes), .. } => {
                    format!("{}\nNote: {}", choice.in_words(), notes.as_str())
                }
                Choice::Given { .. } | Choice::Skipped { .. } | Choice::Secret { .. } => choice.in_words(),
            });
            each.collect::<Vec<_>>().join("\n")
        }
        Reply::Response { response } => response.as_str().to_owned(),
        Reply::Skip { .. } => aye_core::answer::SKIPPED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::AskState;

    fn told(state: AskState, decision: Decision, answer: Value, message: Option<&str>) -> (String, bool) {
        let answer = Some(answer).filter(|answer| !answer.is_null());
        let outcome = Outcome { decision, answer, message: message.map(str::to_owned) };
        let result = of(&Resolution { state, outcome, by: None });
        let text = serde_json::to_value(&result.content[0]).unwrap()["text"].as_str().unwrap().to_owned();
        (text, result.is_error == Some(true))
    }

    #[test]
    fn every_end_has_a_sentence_and_only_a_decision_is_no_error() {
        let answered = |answer| told(AskState::Answered, Decision::Answered, answer, None);
        assert_eq!(
            answered(json!({"answers": [{"selected": ["a, b", "c"], "text": "and d", "notes": "soon"}]})),
            ("The person answered: \"a, b\", c, and d\nNote: soon".into(), false)
        );
        assert_eq!(answered(json!({"response": "do it"})), ("The person answered: do it".into(), false));
        let declined = told(AskState::Answered, Decision::Declined, json!({"skip": true}), Some("not now"));
        assert_eq!(declined, ("The person declined to answer: not now".into(), false));
        let allowed = json!({"decision": "allow", "scope": "once"});
        let allowed = told(AskState::Answered, Decision::Allow, allowed, None);
        assert_eq!(allowed, ("The person allowed it, this once.".into(), false));
        let denied = told(AskState::Answered, Decision::Deny, json!({"decision": "deny"}), Some("no"));
        assert_eq!(denied, ("The person refused. Do not do it: no".into(), false));
        let expired =
            told(AskState::Expired, Decision::Expired, Value::Null, Some("Nobody answered in time."));
        assert_eq!(expired, ("Nobody answered in time.".into(), true));
        let withdrawn = told(AskState::Withdrawn, Decision::Withdrawn, Value::Null, None);
        assert!(withdrawn.1);
    }
}
