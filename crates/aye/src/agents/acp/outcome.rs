//! How an ask ended, as an agent is told it over ACP, and what it must then show.

use super::calls::texts;
use super::form::{self, Form};
use super::options::{Lasts, Options};
use aye_core::answer::SKIPPED;
use aye_core::{Answer, Choice, PlanVerdict, Receipt, Reply, Scope, Verdict};
use serde_json::{Map, Value, json};

/// What the agent must show of the call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    Allowed,
    Refused,
    PlanApproved,
    PlanRefused,
    /// These answers, in the order of the questions.
    Answers(Vec<String>),
    /// The same of a form.
    Form(Vec<String>),
}

/// The reply to a permission, and whether the turn is to end.
pub fn decision(options: &Options, answer: Option<&Answer>) -> (Value, Expected, bool) {
    let picked = match answer {
        Some(Answer::Permission(Verdict::Allow { scope, input: None })) => {
            let further = match scope {
                Scope::Once => None,
                Scope::Session => options.allowing(Lasts::Session),
                Scope::Always => options.allowing(Lasts::Always),
            };
            // What the agent does not keep, the hub does.
            further.or(options.allowing(Lasts::Once))
        }
        _ => None,
    };
    let interrupts = matches!(answer, Some(Answer::Permission(Verdict::Deny { interrupt: true, .. })));
    match picked {
        Some(option) => (option.selected(), Expected::Allowed, false),
        None => (options.refused(), Expected::Refused, interrupts),
    }
}

/// The reply to a plan. Of several ways to approve it, the one that asks for each change.
pub fn plan(options: &Options, answer: Option<&Answer>) -> (Value, Expected) {
    match (answer, options.allowing_once_as("proceed_once")) {
        (Some(Answer::Plan(PlanVerdict::Allow { plan: None })), Some(option)) => {
            (option.selected(), Expected::PlanApproved)
        }
        _ => (options.refused(), Expected::PlanRefused),
    }
}

/// The option that was picked of those that a request offers.
pub fn pick(options: &Options, answer: Option<&Answer>) -> (Value, Expected) {
    let picked = match answer {
        Some(Answer::Question(Reply::Each { answers })) => match answers.as_slice() {
            [Choice::Given { selected, .. }] => {
                selected.first().and_then(|name| options.for_once().find(|choice| choice.name == *name))
            }
            _ => None,
        },
        _ => None,
    };
    match picked {
        Some(option) if option.allows() => (option.selected(), Expected::Allowed),
        Some(option) => (option.selected(), Expected::Refused),
        None => (options.refused(), Expected::Refused),
    }
}

/// The reply to Qwen's questions: each answer as one text, by its number.
pub fn answers(options: &Options, answer: Option<&Answer>) -> (Value, Expected) {
    let (Some(Answer::Question(Reply::Each { answers })), Some(submit)) =
        (answer, options.allowing(Lasts::Once))
    else {
        return (options.refused(), Expected::Refused);
    };
    let words: Vec<_> = answers.iter().map(joined).collect();
    let numbered: Map<_, _> =
        words.iter().enumerate().map(|(n, text)| (n.to_string(), json!(text))).collect();
    let mut reply = submit.selected();
    reply["answers"] = numbered.into();
    (reply, Expected::Answers(words))
}

/// The reply to a form; and why it was declined, if that is not what the person said.
pub fn form(form: &Form, answer: Option<&Answer>) -> (Value, Expected, Option<String>) {
    let nothing = Expected::Form(Vec::new());
    match answer {
        Some(Answer::Question(Reply::Each { answers })) if !answers.iter().all(is_skipped) => {
            match form.accept(answers) {
                Ok(reply) => {
                    let given = answers.iter().filter(|choice| !is_skipped(choice));
                    (reply, Expected::Form(given.map(joined).collect()), None)
                }
                Err(why) => (form::declined(), nothing, Some(why)),
            }
        }
        Some(_) => (form::declined(), nothing, None),
        None => (form::cancelled(), nothing, None),
    }
}

fn is_skipped(choice: &Choice) -> bool {
    matches!(choice, Choice::Skipped { .. } | Choice::Secret { .. })
}

fn joined(choice: &Choice) -> String {
    match choice {
        Choice::Skipped { .. } | Choice::Secret { .. } => SKIPPED.to_owned(),
        Choice::Given { selected, text, .. } => {
            let own = text.iter().map(|text| text.to_string());
            selected.iter().cloned().chain(own).collect::<Vec<_>>().join(", ")
        }
    }
}

/// How agents say that they were refused something.
const REFUSALS: [&str; 4] =
    ["canceled by the user", "rejected the approval", "rejected this tool call", "requested revisions"];

pub fn says_refused(words: &str) -> bool {
    REFUSALS.iter().any(|refusal| words.contains(refusal))
}

/// What an update of the call says of our answer, once the call has ended.
pub fn judge(expected: &Expected, update: &Value) -> Option<(Receipt, String)> {
    let status = update["status"].as_str().filter(|status| matches!(*status, "completed" | "failed"))?;
    let failed = status == "failed";
    let refused = texts(update).any(says_refused) || says_refused(&update["rawOutput"].to_string());
    let seen = format!("the agent says that the call has {status}");
    let same = |theirs: Vec<&str>, ours: &[String]| match !failed && theirs == *ours {
        true => (Receipt::Confirmed, "the agent shows the same answers".into()),
        false => (Receipt::Disputed, format!("the agent shows other answers: {}", theirs.join(", "))),
    };
    Some(match expected {
        Expected::Answers(ours) => {
            let theirs = update["rawOutput"]["answers"].as_array().map(Vec::as_slice).unwrap_or_default();
            same(theirs.iter().map(|answer| answer["answer"].as_str().unwrap_or_default()).collect(), ours)
        }
        Expected::Form(ours) => {
            let output =
                update["rawOutput"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok())?;
            let theirs = output["answers"].as_object()?;
            same(theirs.values().map(|answer| answer.as_str().unwrap_or_default()).collect(), ours)
        }
        // A call that was allowed may itself fail, and what it prints may be anything.
        Expected::Allowed if failed && refused => (Receipt::Disputed, seen),
        Expected::Allowed => (Receipt::Confirmed, seen),
        Expected::Refused if failed => (Receipt::Confirmed, seen),
        Expected::PlanRefused if failed || refused => (Receipt::Confirmed, seen),
        Expected::PlanApproved if !failed && !refused => (Receipt::Confirmed, seen),
        Expected::Refused | Expected::PlanRefused | Expected::PlanApproved => (Receipt::Disputed, seen),
    })
}

impl Expected {
    /// Whether some agents say nothing more of such a call.
    pub fn may_pass_in_silence(&self) -> bool {
        matches!(self, Self::Refused | Self::PlanRefused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_shows_confirms_our_answer_or_is_an_alarm() {
        let said = |status: &str, words: &str| json!({"status": status, "content": [{"type": "content", "content": {"type": "text", "text": words}}]});
        let kimi = |answers: Value| json!({"status": "completed", "rawOutput": json!({ "answers": answers }).to_string()});
        let qwen =
            |answer: &str| json!({"status": "completed", "rawOutput": {"answers": [{"answer": answer}]}});
        let ours = || vec!["SQLite".to_owned()];
        let copilot =
            json!({"status": "failed", "rawOutput": {"message": "The user rejected this tool call."}});
        let (yes, no) = (Some(Receipt::Confirmed), Some(Receipt::Disputed));
        for (expected, update, receipt) in [
            (Expected::Allowed, said("in_progress", ""), None),
            (Expected::Allowed, said("completed", "it was canceled by the user"), yes),
            (Expected::Allowed, said("failed", "exit code 1"), yes),
            (Expected::Allowed, said("failed", "Tool \"x\" was canceled by the user."), no),
            (Expected::Allowed, copilot.clone(), no),
            (Expected::Refused, copilot, yes),
            (Expected::Refused, said("completed", "it ran"), no),
            (Expected::PlanApproved, said("completed", "Exited plan mode."), yes),
            (Expected::PlanApproved, said("completed", "User requested revisions."), no),
            (Expected::PlanRefused, said("completed", "User requested revisions."), yes),
            (Expected::PlanRefused, said("completed", "Exited plan mode."), no),
            (Expected::Answers(ours()), qwen("SQLite"), yes),
            (Expected::Answers(ours()), qwen("PostgreSQL"), no),
            (Expected::Form(ours()), kimi(json!({"Which?": "SQLite"})), yes),
            (Expected::Form(ours()), kimi(json!({"Which?": "PostgreSQL"})), no),
            (Expected::Form(Vec::new()), kimi(json!({})), yes),
            (Expected::Form(Vec::new()), kimi(json!({"Which?": "SQLite"})), no),
        ] {
            let judged = judge(&expected, &update).map(|(receipt, _)| receipt);
            assert_eq!(judged, receipt, "{expected:?} {update}");
        }
    }

    #[test]
    fn of_several_ways_to_approve_a_plan_the_one_is_picked_that_asks_for_each_change() {
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind, "name": id});
        let options = Options::read(
            &json!([
                option("restore_previous", "allow_once"),
                option("proceed_always", "allow_always"),
                option("proceed_once", "allow_once"),
                option("cancel", "reject_once")
            ]),
            true,
        )
        .unwrap();
        let picked =
            |answer: Option<Answer>| plan(&options, answer.as_ref()).0["outcome"]["optionId"].clone();
        assert_eq!(picked(Some(Answer::Plan(PlanVerdict::Allow { plan: None }))), "proceed_once");
        for answer in [
            Some(Answer::Plan(PlanVerdict::Deny { message: None })),
            Some(Answer::Plan(PlanVerdict::Outline)),
            None,
        ] {
            assert_eq!(picked(answer), "cancel");
        }
    }
}
