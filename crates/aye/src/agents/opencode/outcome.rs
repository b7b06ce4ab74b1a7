//! How an ask ended, as OpenCode is told it, and what it must then show.

use super::requests::{REJECT, dismissed};
use super::translate::{self, ToolCall};
use crate::agents::NO_REASON;
use crate::protocol::Resolution;
use aye_core::{Answer, Choice, Questions, Receipt, Reply, Verdict};
use serde_json::{Value, json};

/// What OpenCode must show of the call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    Allowed,
    Refused,
    /// These answers, in the order of the questions.
    Answers(Value),
}

/// A reply: the last part of its path, its body, and how OpenCode tells of it.
pub struct WireReply {
    pub by: &'static str,
    pub body: Value,
    pub echo: Value,
    pub expected: Expected,
    /// OpenCode must be interrupted once it has taken it.
    pub ends_turn: bool,
}

const ONCE: &str = "once";

/// The reply to a permission. How far an approval reaches is kept by the hub, which is then asked again each time:
/// what OpenCode would keep reaches further than what was shown.
pub fn decision(resolution: &Resolution) -> WireReply {
    match &resolution.outcome.answer {
        Some(Answer::Permission(Verdict::Allow { input: None, .. })) => once(),
        Some(Answer::Permission(Verdict::Deny { interrupt: true, message })) => {
            let words = message.as_ref().map(|message| message.as_str());
            WireReply { ends_turn: words.is_some(), ..refusal(words) }
        }
        // Without words a refusal ends the turn.
        _ => refusal(Some(resolution.outcome.message.as_deref().unwrap_or(NO_REASON))),
    }
}

pub fn once() -> WireReply {
    let (body, echo) = (json!({ "reply": ONCE }), json!(ONCE));
    WireReply { by: "reply", body, echo, expected: Expected::Allowed, ends_turn: false }
}

pub fn refusal(words: Option<&str>) -> WireReply {
    let mut body = json!({ "reply": REJECT });
    if let Some(words) = words {
        body["message"] = words.into();
    }
    WireReply { by: "reply", body, echo: json!(REJECT), expected: Expected::Refused, ends_turn: false }
}

/// The reply to questions. Nothing is made up for a question that nobody answered.
pub fn answers(asked: &Questions, call: Option<&ToolCall>, answer: Option<&Answer>) -> WireReply {
    let given: Vec<_> = match answer {
        Some(Answer::Question(Reply::Each { answers })) => answers.iter().map(in_words).collect(),
        Some(Answer::Question(Reply::Skip { .. })) => vec![Vec::new(); asked.questions.len()],
        _ => return turned_away(),
    };
    let expected = match translate::leaves_plan(asked, call).then(|| given.concat()) {
        None => Expected::Answers(json!(given)),
        Some(picked) if picked == [translate::YES] => Expected::Allowed,
        Some(picked) if picked == [translate::NO] => Expected::Refused,
        // OpenCode takes whatever is not exactly its "No" for a yes.
        Some(_) => return turned_away(),
    };
    let (given, body) = (json!(given), json!({ "answers": given }));
    WireReply { by: "reply", body, echo: given, expected, ends_turn: false }
}

/// Ends the turn.
pub fn turned_away() -> WireReply {
    WireReply {
        by: REJECT,
        body: json!({}),
        echo: dismissed(),
        expected: Expected::Refused,
        ends_turn: false,
    }
}

fn in_words(choice: &Choice) -> Vec<String> {
    match choice {
        Choice::Skipped { .. } | Choice::Secret { .. } => Vec::new(),
        Choice::Given { selected, text, .. } => {
            selected.iter().cloned().chain(text.iter().map(|text| text.to_string())).collect()
        }
    }
}

/// How OpenCode begins to say that a call was refused.
const REFUSALS: [&str; 2] = ["The user rejected permission", "The user dismissed this question"];
/// The turn was ended while it ran, which says nothing of the answer.
const ABORTED: &str = "Tool execution aborted";

/// What a call that has ended says of our answer.
pub fn judge(expected: &Expected, state: &Value) -> Option<(Receipt, String)> {
    let error = state["error"].as_str().unwrap_or_default();
    let completed = match state["status"].as_str() {
        Some("completed") => true,
        Some("error") if error != ABORTED => false,
        _ => return None,
    };
    let refused = !completed && REFUSALS.iter().any(|words| error.starts_with(words));
    let seen = match completed {
        true => "OpenCode says that the call has completed".to_owned(),
        false => format!("OpenCode says: {}", error.chars().take(200).collect::<String>()),
    };
    Some(match expected {
        Expected::Allowed if !refused => (Receipt::Confirmed, seen),
        Expected::Refused if refused => (Receipt::Confirmed, seen),
        Expected::Answers(ours) if completed && state["metadata"]["answers"] == *ours => {
            (Receipt::Confirmed, "OpenCode shows the same answers".into())
        }
        Expected::Answers(_) if completed => {
            (Receipt::Disputed, format!("OpenCode shows other answers: {}", state["metadata"]["answers"]))
        }
        Expected::Allowed | Expected::Refused | Expected::Answers(_) => (Receipt::Disputed, seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::Body;

    fn told(custom: bool, tool: &str, answer: Value) -> (Value, Expected) {
        let question = json!({"question": "Switch?", "header": "Build Agent", "custom": custom,
            "options": [{"label": "Yes", "description": "."}, {"label": "No", "description": "."}]});
        let Ok(body) = translate::questions(&json!({"questions": [question]})) else { panic!() };
        let Body::Question(asked) = &body else { panic!() };
        let call = ToolCall { tool: tool.into(), input: Default::default() };
        let answered = answers(asked, Some(&call), Some(&Answer::read(&body, answer).unwrap()));
        (answered.echo, answered.expected)
    }

    #[test]
    fn a_plan_is_approved_by_yes_alone() {
        let yes = json!({"answers": [{"selected": ["Yes"]}]});
        let no = json!({"answers": [{"selected": ["No"]}]});
        let plan = |answer: &Value| told(false, "plan_exit", answer.clone());
        assert_eq!(plan(&yes), (json!([["Yes"]]), Expected::Allowed));
        assert_eq!(plan(&no), (json!([["No"]]), Expected::Refused));
        for skipped in [json!({"skip": true}), json!({"answers": [{"skip": true}]})] {
            assert_eq!(plan(&skipped), (dismissed(), Expected::Refused));
            let unanswered = json!([[]]);
            assert_eq!(told(true, "question", skipped), (unanswered.clone(), Expected::Answers(unanswered)));
        }
    }
}
