//! Whether the agent took the answer: its own transcript is the proof, and nothing else is.

use super::transcript::returned::in_words;
use super::wire::ToolResult;
use aye_core::Receipt;
use aye_core::visible::shorten;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the transcript must show for the tool call we answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Expected {
    /// Structured answers by question text, equal to ours.
    Answers(Map<String, Value>),
    /// Answers that were typed: to each question, every way in which the terminal may write it.
    Typed(Vec<(String, Vec<String>)>),
    /// That the questions were declined.
    Declined,
    /// Our words, and no others.
    Words(String),
    /// A result that does not say refused.
    Allowed,
    /// A failure that is our message; where we ended the turn, the agent may say so in its own words.
    Refused { message: String, interrupt: bool },
}

/// What a result says about the tool call: it ran, it was refused, or neither can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Ran,
    Refused,
    Unknown,
}

impl Fate {
    /// Reads the sentence for the model. Only for results that have no structured field about it.
    pub fn by_words(result: &ToolResult) -> Self {
        match result.is_error {
            false => Fate::Ran,
            true if is_refusal(&result.text) => Fate::Refused,
            true if FAILURES.iter().any(|failure| starts_like(&result.text, failure)) => Fate::Ran,
            true => Fate::Unknown,
        }
    }
}

/// How the agent begins a refusal of its own; a result like this means that our approval was not what counted.
const REFUSALS: [&str; 8] = [
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    REFUSED_TO_SUB_AGENT,
    "Permission for this action",
    "Permission for this command was denied",
    "Permission to use",
    "Tool permission request failed",
    "Tool permission stream closed before response received",
];
/// The same to a sub-agent, which goes on with its turn.
pub const REFUSED_TO_SUB_AGENT: &str = "Permission for this tool use was denied";
/// How the failure of a tool that ran begins.
const FAILURES: [&str; 2] = ["Exit code ", "<tool_use_error>"];
/// How it begins to say that the turn was ended.
const INTERRUPTED: &str = "[Request interrupted by user";
/// How it begins to tell the model of a reply to all of its questions.
const RESPONDED: &str = "The user responded: ";

/// What a result says of our answer, and on what grounds. `detail` is the structured part beside it, `feedback`
/// what the person wrote with a refusal.
pub fn judge(
    expected: &Expected,
    result: &ToolResult,
    detail: Option<&Value>,
    fate: Fate,
    feedback: Option<&str>,
) -> (Receipt, String) {
    let seen = || format!("the agent's transcript shows: {}", excerpt(&result.text));
    // A result that matches nothing known is no proof of either.
    let otherwise = || match fate {
        Fate::Ran | Fate::Refused => (Receipt::Disputed, seen()),
        Fate::Unknown => (Receipt::Unknown, seen()),
    };
    let answers = |same: &dyn Fn(&Map<String, Value>) -> bool| match detail
        .and_then(|detail| detail.get("answers"))
        .and_then(Value::as_object)
    {
        Some(theirs) if same(theirs) => (Receipt::Confirmed, "the same answers in the transcript".into()),
        Some(theirs) => {
            let theirs = excerpt(&Value::Object(theirs.clone()).to_string());
            (Receipt::Disputed, format!("the agent's transcript shows other answers: {theirs}"))
        }
        None => otherwise(),
    };
    match expected {
        Expected::Answers(ours) => answers(&|theirs| same_answers(ours, theirs)),
        Expected::Typed(ours) => answers(&|theirs| {
            let says = |(question, forms): &(String, Vec<String>)| {
                theirs.get(question).is_some_and(|given| forms.contains(&in_words(given)))
            };
            !result.is_error && ours.iter().all(says)
        }),
        Expected::Declined if fate == Fate::Refused => {
            (Receipt::Confirmed, "declined in the transcript".into())
        }
        Expected::Words(words) if !result.is_error && same_words(words, &result.text, detail) => {
            (Receipt::Confirmed, "our words in the transcript".into())
        }
        Expected::Allowed if fate == Fate::Ran => (Receipt::Confirmed, "a result in the transcript".into()),
        Expected::Refused { message, .. } if result.is_error && is_ours(message, result, fate, feedback) => {
            (Receipt::Confirmed, "our message in the transcript".into())
        }
        // The turn was ended together with the refusal, and the agent says so in words of its own.
        Expected::Refused { interrupt: true, .. }
            if result.is_error && (fate == Fate::Refused || result.text.starts_with(INTERRUPTED)) =>
        {
            (Receipt::Confirmed, "the refusal in the transcript".into())
        }
        Expected::Declined | Expected::Words(_) | Expected::Allowed | Expected::Refused { .. } => otherwise(),
    }
}

fn same_answers(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    ours.len() == theirs.len() && ours.iter().all(|(question, answer)| theirs.get(question) == Some(answer))
}

/// The structured reply counts where there is one; the sentence is for the model.
fn same_words(ours: &str, text: &str, detail: Option<&Value>) -> bool {
    let structured = detail.and_then(|detail| detail.get("response")).and_then(Value::as_str);
    let theirs = structured.unwrap_or_else(|| text.strip_prefix(RESPONDED).unwrap_or(text));
    theirs.trim() == ours.trim() || (structured.is_none() && text.trim() == ours.trim())
}

/// A short message may be in any output by chance, so it counts alone or beside a refusal.
fn is_ours(message: &str, result: &ToolResult, fate: Fate, feedback: Option<&str>) -> bool {
    let message = message.trim();
    feedback.is_some_and(|words| words.trim() == message)
        || result.text.trim() == message
        || (fate == Fate::Refused && result.text.contains(message))
}

fn is_refusal(text: &str) -> bool {
    REFUSALS.iter().any(|refusal| text.starts_with(refusal))
}

fn starts_like(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

/// Evidence is for people to read, and nobody approves by it, so it may be cut.
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 300;
    shorten(text, LONGEST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(expected: Expected, text: &str, is_error: bool, detail: Option<Value>) -> Receipt {
        let result = ToolResult { tool_use_id: "t".into(), text: text.into(), is_error, images: Vec::new() };
        judge(&expected, &result, detail.as_ref(), Fate::by_words(&result), None).0
    }

    const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected.";

    #[test]
    fn what_matches_nothing_known_neither_confirms_nor_disputes() {
        for expected in [
            Expected::Allowed,
            Expected::Declined,
            Expected::Refused { message: "no".into(), interrupt: false },
            Expected::Refused { message: "no".into(), interrupt: true },
        ] {
            assert_eq!(judged(expected, "a sentence from next year", true, None), Receipt::Unknown);
        }
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
        assert_eq!(judged(ours(), REJECTED, true, None), Receipt::Disputed);
        assert_eq!(judged(ours(), "SQLite", true, None), Receipt::Unknown);
        let forms = vec!["a, b".to_owned(), "\"a, b\"".to_owned()];
        let typed =
            || Expected::Typed(vec![("One?".into(), vec!["a".into()]), ("Many?".into(), forms.clone())]);
        for (theirs, is_error, expected) in [
            (json!({"One?": "a", "Many?": "\"a, b\""}), false, Receipt::Confirmed),
            (json!({"One?": "a", "Many?": ["a", "b"]}), false, Receipt::Confirmed),
            (json!({"One?": "a", "Many?": "a, b"}), true, Receipt::Disputed),
            (json!({"One?": "a", "Many?": "a"}), false, Receipt::Disputed),
            (json!({"One?": "a"}), false, Receipt::Disputed),
        ] {
            assert_eq!(judged(typed(), "words", is_error, detail(theirs.clone())), expected, "{theirs}");
        }
        assert_eq!(judged(typed(), "a, b", false, None), Receipt::Disputed);
        assert_eq!(judged(Expected::Declined, REJECTED, true, None), Receipt::Confirmed);
        assert_eq!(judged(Expected::Declined, "a", false, detail(json!({"One?": "a"}))), Receipt::Disputed);
    }

    #[test]
    fn an_allowed_tool_may_fail_by_itself_but_not_be_refused() {
        assert_eq!(judged(Expected::Allowed, "done", false, None), Receipt::Confirmed);
        assert_eq!(judged(Expected::Allowed, "exit code 1", true, None), Receipt::Confirmed);
        let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected.";
        assert_eq!(judged(Expected::Allowed, refused, true, None), Receipt::Disputed);
    }

    #[test]
    fn an_approval_is_disputed_by_the_agents_own_words_and_not_by_output_like_them() {
        let failed = "Tool permission request failed: Error: stream closed";
        assert_eq!(judged(Expected::Allowed, failed, true, None), Receipt::Disputed);
        let denied = "Permission to use Bash has been denied.";
        assert_eq!(judged(Expected::Allowed, denied, true, None), Receipt::Disputed);
        let output = "Exit code 1\nPermission to use /dev/kvm is missing";
        assert_eq!(judged(Expected::Allowed, output, true, None), Receipt::Confirmed);
    }

    #[test]
    fn a_reply_is_our_words_and_nothing_that_merely_contains_them() {
        let words = |words: &str| Expected::Words(words.into());
        let silence = "The user did not answer the questions.";
        assert_eq!(judged(words("no"), silence, false, None), Receipt::Disputed);
        assert_eq!(judged(words("no"), "The user responded: no", false, None), Receipt::Confirmed);
        assert_eq!(judged(words("no"), "The user responded: not now", false, None), Receipt::Disputed);
        assert_eq!(judged(words("no"), "no", false, None), Receipt::Confirmed);
        assert_eq!(judged(words("no"), REJECTED, true, None), Receipt::Disputed);
        assert_eq!(judged(words("no"), "no", true, None), Receipt::Unknown);
        let detail = |response: &str| Some(json!({"answers": {}, "response": response}));
        assert_eq!(judged(words("no"), "as they said", false, detail("no")), Receipt::Confirmed);
        assert_eq!(judged(words("no"), "The user responded: no", false, detail("yes")), Receipt::Disputed);
        let unlikely = "The user responded: this is how I begin";
        assert_eq!(judged(words(unlikely), unlikely, false, None), Receipt::Confirmed);
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
        assert_eq!(judged(refused(true), "exit code 1", true, None), Receipt::Disputed);
        let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected.";
        assert_eq!(judged(refused(true), rejected, true, None), Receipt::Confirmed);
        assert_eq!(judged(refused(false), rejected, true, None), Receipt::Disputed);
        let said = format!("{rejected} the user said:\nnot on a friday");
        assert_eq!(judged(refused(false), &said, true, None), Receipt::Confirmed);
    }

    #[test]
    fn a_tool_that_ran_in_spite_of_a_refusal_is_noticed_however_short_the_message() {
        let refused = || Expected::Refused { message: "no".into(), interrupt: false };
        let ran = "Everything up-to-date, nothing to do";
        assert_eq!(judged(refused(), ran, false, None), Receipt::Disputed);
        let failed = format!("Exit code 1\n{ran}");
        assert_eq!(judged(refused(), &failed, true, None), Receipt::Disputed);
        assert_eq!(judged(refused(), ran, true, None), Receipt::Unknown);
        assert_eq!(judged(refused(), "no", false, None), Receipt::Disputed);
        assert_eq!(judged(refused(), "no", true, None), Receipt::Confirmed);
    }
}
