//! How an ask ended, as Codex is told it, and what it must then show.

use aye_core::{Answer, Body, Choice, Receipt, Reply, Verdict};
use serde_json::{Map, Value, json};

/// What Codex must show of the call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// It goes ahead.
    Allowed,
    /// It does not; perhaps its turn ends.
    Refused { ends_turn: bool },
    /// The model gets these answers.
    Answers { told: Value, secret: bool },
}

/// The reply to a permission.
pub fn decision(answer: Option<&Answer>) -> (Value, Expected) {
    let (decision, expected) = match answer {
        // How far an approval reaches is kept by the hub, which is then asked again each time.
        Some(Answer::Permission(Verdict::Allow { input: None, .. })) => ("accept", Expected::Allowed),
        Some(Answer::Permission(Verdict::Deny { interrupt: true, .. })) => {
            ("cancel", Expected::Refused { ends_turn: true })
        }
        _ => ("decline", Expected::Refused { ends_turn: false }),
    };
    (json!({ "decision": decision }), expected)
}

/// The reply to questions, by Codex's names for them. A question that nobody answered is told as such: Codex knows no other
/// reply, and its model would have to guess at an empty one.
pub fn answers(ids: &[String], body: &Body, answer: Option<&Answer>) -> (Value, Expected) {
    let reply = match answer {
        Some(Answer::Question(Reply::Each { answers })) => {
            let each = ids.iter().zip(answers).map(|(id, choice)| (id, in_words(choice)));
            named(each.filter(|(_, words)| !words.is_empty()))
        }
        Some(_) => named([]),
        None => unanswered(ids, NOBODY),
    };
    (reply.clone(), Expected::Answers { told: reply, secret: body.has_secret() })
}

const NOBODY: &str = "(nobody answered in time)";

/// The reply to questions that nobody answered, for this reason.
pub fn unanswered(ids: &[String], why: &str) -> Value {
    named(ids.iter().map(|id| (id, vec![why.to_owned()])))
}

fn named<'a>(answers: impl IntoIterator<Item = (&'a String, Vec<String>)>) -> Value {
    let answers = answers.into_iter().map(|(id, words)| (id.clone(), json!({ "answers": words })));
    json!({ "answers": answers.collect::<Map<_, _>>() })
}

/// Codex marks what a person adds to an option.
fn in_words(choice: &Choice) -> Vec<String> {
    match choice {
        Choice::Skipped { .. } | Choice::Secret { .. } => Vec::new(),
        Choice::Given { selected, text, notes } => {
            let own = text.iter().map(|text| text.to_string());
            let notes = notes.iter().map(|notes| format!("user_note: {notes}"));
            selected.iter().cloned().chain(own).chain(notes).collect()
        }
    }
}

/// What an item that has ended says of our decision.
pub fn judge_item(expected: &Expected, status: &str) -> Option<(Receipt, String)> {
    let declined = status == "declined";
    let seen = format!("Codex says that the call has {status}");
    match expected {
        Expected::Allowed | Expected::Refused { .. } if status == "inProgress" => None,
        Expected::Allowed if !declined => Some((Receipt::Confirmed, seen)),
        Expected::Refused { .. } if declined => Some((Receipt::Confirmed, seen)),
        Expected::Allowed | Expected::Refused { .. } => Some((Receipt::Disputed, seen)),
        Expected::Answers { .. } => None,
    }
}

/// What the model is told of the call says of our answer.
pub fn judge_output(expected: &Expected, output: &Value) -> Option<(Receipt, String)> {
    let told = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    let excerpt: String = told.chars().take(200).collect();
    match expected {
        Expected::Answers { told: ours, secret } => {
            let theirs = aye_core::json::parse(told.as_bytes()).ok();
            Some(match theirs.as_ref() == Some(ours) {
                true => (Receipt::Confirmed, "the model is told the same answers".into()),
                // What it is told may still be the secret.
                false if *secret => (Receipt::Disputed, "the model is told something else".into()),
                false => (Receipt::Disputed, format!("the model is told: {excerpt}")),
            })
        }
        Expected::Refused { ends_turn: true } => Some(match told.contains("aborted by user") {
            true => (Receipt::Confirmed, "the model is told that the user ended it".into()),
            false => (Receipt::Disputed, format!("the model is told: {excerpt}")),
        }),
        Expected::Allowed | Expected::Refused { ends_turn: false } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::Kind;

    #[test]
    fn a_question_that_nobody_answered_is_told_so_and_a_part_of_it_is_left_out() {
        let question = |text: &str| json!({"question": text, "options": [{"label": "A"}, {"label": "B"}]});
        let body = json!({"questions": [question("Which?"), question("And?")]});
        let body = Body::decode(Kind::Question, body).unwrap();
        let ids = ["q1".to_owned(), "q2".to_owned()];
        let told = |answer: Option<Value>| {
            let answer = answer.map(|answer| Answer::read(&body, answer).unwrap());
            answers(&ids, &body, answer.as_ref()).0["answers"].clone()
        };
        let nobody = json!({"answers": ["(nobody answered in time)"]});
        assert_eq!(told(None), json!({"q1": nobody, "q2": nobody}));
        let half = json!({"answers": [{"skip": true}, {"selected": ["B"]}]});
        assert_eq!(told(Some(half)), json!({"q2": {"answers": ["B"]}}));
    }
}
