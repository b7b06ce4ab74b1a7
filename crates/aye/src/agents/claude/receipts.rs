//! Whether the agent took the answer: its own transcript is the proof, and nothing else is.

use super::wire::ToolResult;
use aye_core::Receipt;
use serde_json::{Map, Value};

/// What the transcript must show for the tool call we answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Structured answers by question text, equal to ours.
    Answers(Map<String, Value>),
    /// Our words, somewhere in the result.
    Words(String),
    /// A result that does not say refused.
    Allowed,
    /// A result that carries our message; a turn we ended may show none.
    Refused { message: String, interrupt: bool },
}

/// How the agent words a refusal of its own; a result like this means that our approval was not what counted.
const REFUSALS: [&str; 4] = [
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Permission to use",
    "Tool permission stream closed before response received",
];

/// What a result says of our answer, and on what grounds. `detail` is the structured part beside it.
pub fn judge(expected: &Expected, result: &ToolResult, detail: Option<&Value>) -> (Receipt, String) {
    let seen = || format!("the agent's transcript shows: {}", excerpt(&result.text));
    match expected {
        Expected::Answers(ours) => {
            let theirs = detail.and_then(|detail| detail.get("answers")).and_then(Value::as_object);
            match theirs {
                Some(theirs) if same_answers(ours, theirs) => {
                    (Receipt::Confirmed, "the same answers in the transcript".into())
                }
                Some(theirs) => (
                    Receipt::Disputed,
                    format!(
                        "the agent's transcript shows other answers: {}",
                        excerpt(&Value::Object(theirs.clone()).to_string())
                    ),
                ),
                None => (Receipt::Disputed, seen()),
            }
        }
        Expected::Words(words) if result.text.contains(words.as_str()) => {
            (Receipt::Confirmed, "our words in the transcript".into())
        }
        Expected::Allowed if !(result.is_error && is_refusal(&result.text)) => {
            (Receipt::Confirmed, "a result in the transcript".into())
        }
        Expected::Refused { message, .. } if result.text.contains(message.as_str()) => {
            (Receipt::Confirmed, "our message in the transcript".into())
        }
        // The turn was ended together with the refusal, and the agent says so in words of its own.
        Expected::Refused { interrupt: true, .. } if result.is_error => {
            (Receipt::Confirmed, "the refusal in the transcript".into())
        }
        Expected::Words(_) | Expected::Allowed | Expected::Refused { .. } => (Receipt::Disputed, seen()),
    }
}

fn same_answers(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    ours.len() == theirs.len() && ours.iter().all(|(question, answer)| theirs.get(question) == Some(answer))
}

fn is_refusal(text: &str) -> bool {
    REFUSALS.iter().any(|refusal| text.contains(refusal))
}

/// Evidence is for people to read, and nobody approves by it, so it may be cut.
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 300;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(expected: Expected, text: &str, is_error: bool, detail: Option<Value>) -> Receipt {
        let result = ToolResult { tool_use_id: "t".into(), text: text.into(), is_error };
        judge(&expected, &result, detail.as_ref()).0
    }

    fn answers(value: Value) -> Expected {
        Expected::Answers(value.as_object().unwrap().clone())
    }

    #[test]
    fn answers_are_compared_by_their_structure_never_by_a_sentence() {
        let ours = || answers(json!({"Which?": "SQLite"}));
        let detail = |answers: Value| Some(json!({ "answers": answers }));
        assert_eq!(
            judged(ours(), "whatever it says", false, detail(json!({"Which?": "SQLite"}))),
            Receipt::Confirmed
        );
        assert_eq!(
            judged(ours(), "SQLite", false, detail(json!({"Which?": "PostgreSQL"}))),
            Receipt::Disputed
        );
        assert_eq!(judged(ours(), "SQLite", false, detail(json!({}))), Receipt::Disputed);
        assert_eq!(judged(ours(), "SQLite", true, None), Receipt::Disputed);
    }

    #[test]
    fn an_allowed_tool_may_fail_by_itself_but_not_be_refused() {
        assert_eq!(judged(Expected::Allowed, "done", false, None), Receipt::Confirmed);
        assert_eq!(judged(Expected::Allowed, "exit code 1", true, None), Receipt::Confirmed);
        let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected.";
        assert_eq!(judged(Expected::Allowed, refused, true, None), Receipt::Disputed);
    }

    #[test]
    fn a_refusal_carries_our_message() {
        let refused = |interrupt| Expected::Refused { message: "not on a friday".into(), interrupt };
        assert_eq!(judged(refused(false), "not on a friday", true, None), Receipt::Confirmed);
        assert_eq!(judged(refused(false), "deployed", false, None), Receipt::Disputed);
        assert_eq!(
            judged(refused(true), "[Request interrupted by user for tool use]", true, None),
            Receipt::Confirmed
        );
        assert_eq!(judged(refused(true), "deployed", false, None), Receipt::Disputed);
    }
}
