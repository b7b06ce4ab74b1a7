//! What a button does, and what a press of it makes of the half-filled answer. No I/O: the same after a restart.

use crate::surfaces::form::{Draft, FormStep, NO_LONGER, TextKind, Who};
use aye_core::{AskId, Body, Scope};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a button does. It names the question it was shown under, so that it cannot act on another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    Pick {
        question: usize,
        option: usize,
    },
    Toggle {
        question: usize,
        option: usize,
    },
    Done {
        question: usize,
    },
    Words {
        question: usize,
    },
    Notes {
        question: usize,
    },
    Skip {
        question: usize,
    },
    /// Declines all questions, where this one cannot be skipped alone.
    SkipAll {
        question: usize,
    },
    Back {
        question: usize,
    },
    /// From the review to one question.
    Change {
        question: usize,
    },
    /// The answers as the review shows them.
    Send,
    StopTyping,
    AllowOnce,
    AllowSession,
    AllowAlways,
    Deny,
    DenyWhy,
    Approve,
    Outline,
    /// Lets a plan pass that was refused while an outline is awaited.
    PassPlan,
    DropPlan,
    /// Stops what a run is doing; it goes on with the next prompt.
    #[serde(rename = "cancel")]
    Stop,
    /// From a list: this ask, or all of it, with its buttons.
    Show {
        ask: AskId,
    },
    ShowAll,
    /// The text that is offered answers the question that this message shows.
    Answer {
        #[serde(alias = "copy")]
        message: String,
    },
    /// It is for the chat's run, or starts one.
    Prompt,
    /// Runs are in this project, or with this agent.
    Choose {
        name: String,
    },
    /// It is for nobody.
    Drop,
}

const MOVED_ON: &str = "That button belongs to an earlier question.";

/// What a press of this button by this person makes of the form.
pub fn press(body: &Body, draft: Draft, action: &Action, who: Who) -> FormStep {
    match action {
        Action::Pick { question, .. }
        | Action::Toggle { question, .. }
        | Action::Done { question }
        | Action::Words { question }
        | Action::Notes { question }
        | Action::Skip { question }
        | Action::SkipAll { question }
        | Action::Back { question }
            if *question != draft.at =>
        {
            FormStep::Stale(MOVED_ON)
        }
        Action::Pick { option, .. } => draft.pick(body, *option, who),
        Action::Toggle { option, .. } => draft.toggle(*option, who),
        Action::Done { .. } => draft.done(body),
        Action::Words { .. } => draft.wait_for(who, TextKind::Words),
        Action::Notes { .. } => draft.wait_for(who, TextKind::Notes),
        Action::Skip { .. } => draft.skip(body, who),
        Action::SkipAll { .. } => FormStep::Answer(json!({ "skip": true })),
        Action::Back { question } => draft.go_to(question.saturating_sub(1)),
        Action::Change { question } if draft.reviewed => draft.go_to(*question),
        Action::Change { .. } => FormStep::Stale(NO_LONGER),
        Action::Send => draft.send(body),
        Action::StopTyping if draft.typing.is_none() => FormStep::Stale(NO_LONGER),
        Action::StopTyping => draft.stop_typing(),
        Action::AllowOnce => FormStep::Answer(json!({ "decision": "allow", "scope": Scope::Once })),
        Action::AllowSession => FormStep::Answer(json!({ "decision": "allow", "scope": Scope::Session })),
        Action::AllowAlways => FormStep::Answer(json!({ "decision": "allow", "scope": Scope::Always })),
        Action::Deny => FormStep::Answer(json!({ "decision": "deny" })),
        Action::DenyWhy => draft.wait_for(who, TextKind::Reason),
        Action::Approve => FormStep::Answer(json!({ "decision": "allow" })),
        Action::Outline => FormStep::Answer(json!({ "decision": "outline" })),
        // These belong to no answer; whoever holds the message acts on them.
        Action::PassPlan
        | Action::DropPlan
        | Action::Stop
        | Action::Show { .. }
        | Action::ShowAll
        | Action::Answer { .. }
        | Action::Prompt
        | Action::Choose { .. }
        | Action::Drop => FormStep::Stale(NO_LONGER),
    }
}

#[cfg(test)]
mod tests;
