//! What became of an answer that was typed, by what the transcript shows.

use crate::agents::claude::receipts::{Expected, excerpt};
use crate::agents::claude::transcript::pending::Closed;
use aye_core::Receipt;
use serde_json::json;

/// What became of an answer whose keys were typed, `submitted` by us or left at that.
pub fn receipt(expected: &Expected, closed: &Closed, submitted: bool) -> (Receipt, String) {
    let Closed::Returned(returned) = closed else {
        return (Receipt::Superseded, "the session went on without an answer".into());
    };
    match (returned.judge(expected), submitted) {
        ((receipt @ (Receipt::Confirmed | Receipt::Unknown), evidence), _) => (receipt, evidence),
        ((_, evidence), true) => (Receipt::Disputed, evidence),
        ((_, _), false) => {
            let shown = returned.answers().map(|answers| json!(answers).to_string());
            let shown = excerpt(&shown.unwrap_or_else(|| returned.result.text.clone()));
            (Receipt::Superseded, format!("the terminal was first: {shown}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::claude::transcript::returned::{Beside, Returned};
    use crate::agents::claude::wire::ToolResult;

    #[test]
    fn the_receipt_tells_ours_from_theirs_and_who_submitted_it() {
        let expected = Expected::Typed(vec![("One?".into(), vec!["a".into()])]);
        let returned = |answer: &str| {
            let (text, images) = ("words".to_owned(), Vec::new());
            let result = ToolResult { tool_use_id: "t".into(), text, is_error: false, images };
            let detail = Some(json!({ "answers": { "One?": answer } }));
            Closed::Returned(Box::new(Returned::new(result, &Beside { detail, ..Beside::default() })))
        };
        let told = |closed: &Closed, submitted| receipt(&expected, closed, submitted).0;
        let (ours, theirs) = (returned("a"), returned("b"));
        assert_eq!((told(&ours, true), told(&ours, false)), (Receipt::Confirmed, Receipt::Confirmed));
        assert_eq!((told(&theirs, true), told(&theirs, false)), (Receipt::Disputed, Receipt::Superseded));
        assert_eq!(told(&Closed::PassedOver, true), Receipt::Superseded);
        let result =
            ToolResult { tool_use_id: "t".into(), text: "new".into(), is_error: true, images: Vec::new() };
        let new = Closed::Returned(Box::new(Returned::new(result, &Beside::default())));
        assert_eq!((told(&new, true), told(&new, false)), (Receipt::Unknown, Receipt::Unknown));
    }
}
