//! From a verdict about a request or a plan to keys, each with the dialog that must be on the screen for it.

use super::plan::{Plan, Step, Unplannable};
use super::prompt::{DialogCall, DialogChoice, PromptDialog, Words};
use super::screen::ExpectedScreen;
use crate::agents::NO_REASON;
use crate::agents::claude::receipts::Expected;
use crate::agents::tmux::keys::{Key, TypeableText};
use aye_core::{Answer, Decision, PlanVerdict, Verdict};
use std::sync::Arc;

pub fn decide(
    prompt: PromptDialog,
    call: DialogCall,
    answer: &Answer,
    message: Option<&str>,
) -> Result<Plan, Unplannable> {
    let with_words = prompt.row_for(DialogChoice::DenyWith);
    let (row, words) = match (answer, with_words) {
        (
            Answer::Permission(Verdict::Allow { input: None, .. })
            | Answer::Plan(PlanVerdict::Allow { plan: None }),
            _,
        ) => (Some(prompt.row_for(DialogChoice::Allow).ok_or(Unplannable::NotOffered)?), None),
        (Answer::Permission(Verdict::Deny { interrupt: false, .. }) | Answer::Plan(_), Some(row))
            if !is_allow(answer) =>
        {
            // Without any words the terminal would end the whole turn.
            (Some(row), Some(TypeableText::new(message.unwrap_or(NO_REASON))?))
        }
        (
            Answer::Permission(Verdict::Deny { .. })
            | Answer::Plan(PlanVerdict::Deny { .. } | PlanVerdict::Outline),
            _,
        ) => (prompt.row_for(DialogChoice::Deny), None),
        (Answer::Permission(_) | Answer::Plan(_), _) => return Err(Unplannable::NotOffered),
        (Answer::Question(_), _) => return Err(Unplannable::Misfit),
    };
    let expected = match (is_allow(answer), &words) {
        (true, _) => Expected::Allowed,
        (false, Some(words)) => Expected::Refused { message: words.as_str().to_owned(), interrupt: false },
        (false, None) => Expected::Refused { message: NO_REASON.into(), interrupt: true },
    };
    let (at, opens) = (prompt.at(), !row.is_some_and(|row| prompt.takes_words_at_once(row)));
    let (first, call) = (Arc::new(prompt), Arc::new(call));
    let page = |at, words| ExpectedScreen::Prompt { first: first.clone(), call: call.clone(), at, words };
    let step = |at, words, key| Step { page: page(at, words), key };
    let mut steps = Vec::new();
    // Without a row that refuses, Escape does.
    let Some(row) = row else {
        steps.push(step(at, Words::None, Key::Escape));
        return Ok(Plan { steps, expected });
    };
    steps.extend((at..row).map(|at| step(at, Words::None, Key::Down)));
    steps.extend((row + 1..=at).rev().map(|at| step(at, Words::None, Key::Up)));
    match words {
        None => steps.push(step(row, Words::None, Key::Enter)),
        Some(words) => {
            let typed = Words::Typed(words.as_str().to_owned());
            let ready = if opens { Words::Empty } else { Words::None };
            if opens {
                steps.push(step(row, Words::None, Key::Tab));
            }
            steps.push(step(row, ready, Key::Text(words)));
            steps.push(step(row, typed, Key::Enter));
        }
    }
    Ok(Plan { steps, expected })
}

fn is_allow(answer: &Answer) -> bool {
    answer.decision() == Decision::Allow
}
