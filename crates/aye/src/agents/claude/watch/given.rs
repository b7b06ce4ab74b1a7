//! What a transcript shows of an answer: ours, or one that was given at the keyboard.

use crate::agents::claude::receipts::excerpt;
use crate::agents::claude::tmux::plan::Meant;
use crate::agents::claude::transcript::pending::Closed;
use aye_core::{Body, Question, Receipt};
use serde_json::{Value, json};

/// What became of an answer whose keys were typed, `submitted` by us or left at that.
pub fn receipt(meant: &Meant, questions: &[Question], closed: &Closed, submitted: bool) -> (Receipt, String) {
    let Closed::Returned { result, detail } = closed else {
        return (Receipt::Superseded, "the session went on without an answer".into());
    };
    let answers = detail.as_ref().and_then(|detail| detail["answers"].as_object());
    let is_meant = match (meant, answers) {
        (Meant::Declined, _) => result.is_error,
        (Meant::Answers(forms), Some(answers)) => {
            let says = |(question, forms): (&Question, &Vec<String>)| {
                answers.get(&question.question).is_some_and(|given| forms.contains(&in_words(given)))
            };
            !result.is_error && questions.len() == forms.len() && questions.iter().zip(forms).all(says)
        }
        (Meant::Answers(_), None) => false,
    };
    let shown = || match answers {
        Some(answers) => excerpt(&json!(answers).to_string()),
        None => excerpt(&result.text),
    };
    match (is_meant, submitted) {
        (true, _) => (Receipt::Confirmed, "the same answers in the transcript".into()),
        (false, true) => {
            (Receipt::Disputed, format!("the agent's transcript shows other answers: {}", shown()))
        }
        (false, false) => (Receipt::Superseded, format!("the terminal was first: {}", shown())),
    }
}

/// The answer that was given in the terminal, where it can be told.
pub fn answer(body: &Body, closed: &Closed) -> Option<Value> {
    let Closed::Returned { result, detail } = closed else { return None };
    match body {
        Body::Question(_) if result.is_error => Some(json!({ "skip": true })),
        Body::Question(questions) => {
            let answers = detail.as_ref()?["answers"].as_object()?;
            let choice = |question: &Question| match answers.get(&question.question).map(in_words) {
                Some(words) if !words.trim().is_empty() => choice(question, &words),
                _ => json!({ "skip": true }),
            };
            Some(json!({ "answers": questions.questions.iter().map(choice).collect::<Vec<_>>() }))
        }
        Body::Plan(_) => Some(json!({ "decision": if result.is_error { "deny" } else { "allow" } })),
        Body::Permission(_) => None,
    }
}

/// Labels as long as they are labels, the longest that fits; the rest is free text.
fn choice(question: &Question, words: &str) -> Value {
    let (mut selected, mut rest) = (Vec::new(), words);
    loop {
        let after = |label: &str| {
            let quoted = format!("\"{label}\"");
            let left = rest.strip_prefix(quoted.as_str()).or_else(|| rest.strip_prefix(label))?;
            if left.is_empty() { Some(left) } else { left.strip_prefix(", ") }
        };
        let fits = question.options.iter().filter_map(|offer| Some((&offer.label, after(&offer.label)?)));
        match fits.max_by_key(|(label, _)| label.len()) {
            Some((label, left)) => {
                selected.push(label.clone());
                rest = left;
            }
            None => break,
        }
        if rest.is_empty() {
            return json!({ "selected": selected });
        }
    }
    match selected.is_empty() {
        true => json!({ "text": rest }),
        false => json!({ "selected": selected, "text": rest }),
    }
}

fn in_words(given: &Value) -> String {
    match given {
        Value::String(words) => words.clone(),
        Value::Array(picks) => picks.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    }
}
