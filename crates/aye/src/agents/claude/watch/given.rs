//! What a transcript shows of an answer: ours, or one that was given at the keyboard.

use crate::agents::claude::receipts::excerpt;
use crate::agents::claude::tmux::plan::{Meant, written};
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
            let left = written(label).iter().rev().find_map(|form| rest.strip_prefix(form.as_str()))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::claude::wire::ToolResult;
    use aye_core::Kind;

    fn body() -> Body {
        let options = json!([{"label": "a"}, {"label": "a, b"}, {"label": "\"c\""}]);
        let questions = json!({"questions": [
            {"question": "One?", "options": options, "free_text": true},
            {"question": "Many?", "options": options, "multi_select": true, "free_text": true}]});
        Body::decode(Kind::Question, questions).unwrap()
    }

    fn returned(is_error: bool, answers: Value) -> Closed {
        let result =
            ToolResult { tool_use_id: "t".into(), text: "words".into(), is_error, images: Vec::new() };
        Closed::Returned { result, detail: Some(json!({ "answers": answers })) }
    }

    #[test]
    fn an_answer_at_the_keyboard_is_read_back_into_picks_and_words() {
        let given =
            |one: Value, many: Value| answer(&body(), &returned(false, json!({"One?": one, "Many?": many})));
        assert_eq!(
            given(json!("a, b"), json!("\"a, b\", \"\\\"c\\\"\", own, words")).unwrap(),
            json!({"answers": [{"selected": ["a, b"]}, {"selected": ["a, b", "\"c\""], "text": "own, words"}]})
        );
        assert_eq!(
            given(json!("else"), json!(["a"])).unwrap(),
            json!({"answers": [{"text": "else"}, {"selected": ["a"]}]})
        );
        assert_eq!(given(json!("a"), Value::Null).unwrap()["answers"][1], json!({"skip": true}));
        assert_eq!(answer(&body(), &returned(true, json!({}))), Some(json!({"skip": true})));
        assert_eq!(answer(&body(), &Closed::PassedOver), None);
    }

    #[test]
    fn the_receipt_tells_ours_from_theirs_and_who_submitted_it() {
        let Body::Question(questions) = body() else { panic!("questions") };
        let meant = Meant::Answers(vec![vec!["a".into()], vec!["a, b".into(), "\"a, b\"".into()]]);
        let told = |closed: &Closed, submitted| receipt(&meant, &questions.questions, closed, submitted).0;
        let ours = returned(false, json!({"One?": "a", "Many?": "\"a, b\""}));
        let theirs = returned(false, json!({"One?": "a", "Many?": "a"}));
        assert_eq!((told(&ours, true), told(&ours, false)), (Receipt::Confirmed, Receipt::Confirmed));
        assert_eq!((told(&theirs, true), told(&theirs, false)), (Receipt::Disputed, Receipt::Superseded));
        assert_eq!(told(&returned(true, json!({})), true), Receipt::Disputed);
        assert_eq!(told(&Closed::PassedOver, true), Receipt::Superseded);
        let declined = receipt(&Meant::Declined, &questions.questions, &returned(true, json!({})), true).0;
        assert_eq!(declined, Receipt::Confirmed);
    }
}
