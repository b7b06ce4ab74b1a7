//! What became of an answer that was typed, by what the transcript shows.

use crate::agents::claude::receipts::{excerpt, judge};
use crate::agents::claude::tmux::plan::Meant;
use crate::agents::claude::transcript::pending::Closed;
use crate::agents::claude::transcript::returned::in_words;
use aye_core::{Question, Receipt};
use serde_json::json;

/// What became of an answer whose keys were typed, `submitted` by us or left at that.
pub fn receipt(meant: &Meant, questions: &[Question], closed: &Closed, submitted: bool) -> (Receipt, String) {
    let Closed::Returned(returned) = closed else {
        return (Receipt::Superseded, "the session went on without an answer".into());
    };
    let (result, answers) = (&returned.result, returned.answers());
    let is_meant = match (meant, answers) {
        (Meant::Declined, _) => result.is_error,
        (Meant::Verdict(expected), _) => {
            judge(expected, result, returned.detail.as_ref()).0 == Receipt::Confirmed
        }
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
        (true, _) => (Receipt::Confirmed, "the same answer in the transcript".into()),
        (false, true) => {
            (Receipt::Disputed, format!("the agent's transcript shows another answer: {}", shown()))
        }
        (false, false) => (Receipt::Superseded, format!("the terminal was first: {}", shown())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::claude::transcript::returned::{Beside, Returned};
    use crate::agents::claude::wire::ToolResult;
    use aye_core::{Body, Kind};
    use serde_json::Value;

    fn questions() -> Vec<Question> {
        let options = json!([{"label": "a"}, {"label": "a, b"}, {"label": "\"c\""}]);
        let questions = json!({"questions": [
            {"question": "One?", "options": options, "free_text": true},
            {"question": "Many?", "options": options, "multi_select": true, "free_text": true}]});
        let Ok(Body::Question(body)) = Body::decode(Kind::Question, questions) else { panic!("questions") };
        body.questions
    }

    fn returned(is_error: bool, answers: Value) -> Closed {
        let result =
            ToolResult { tool_use_id: "t".into(), text: "words".into(), is_error, images: Vec::new() };
        let beside = Beside { detail: Some(json!({ "answers": answers })), ..Beside::default() };
        Closed::Returned(Box::new(Returned::new(result, &beside)))
    }

    #[test]
    fn the_receipt_tells_ours_from_theirs_and_who_submitted_it() {
        let questions = questions();
        let meant = Meant::Answers(vec![vec!["a".into()], vec!["a, b".into(), "\"a, b\"".into()]]);
        let told = |closed: &Closed, submitted| receipt(&meant, &questions, closed, submitted).0;
        let ours = returned(false, json!({"One?": "a", "Many?": "\"a, b\""}));
        let theirs = returned(false, json!({"One?": "a", "Many?": "a"}));
        assert_eq!((told(&ours, true), told(&ours, false)), (Receipt::Confirmed, Receipt::Confirmed));
        assert_eq!((told(&theirs, true), told(&theirs, false)), (Receipt::Disputed, Receipt::Superseded));
        assert_eq!(told(&returned(true, json!({})), true), Receipt::Disputed);
        assert_eq!(told(&Closed::PassedOver, true), Receipt::Superseded);
        let declined = receipt(&Meant::Declined, &questions, &returned(true, json!({})), true).0;
        assert_eq!(declined, Receipt::Confirmed);
    }
}
