//! A half-filled answer, and what a press or a typed text makes of it. No I/O: the same steps after a restart.

use aye_core::{AskId, Body, Can, Question, Questions, Scope};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What has been filled in so far on one message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// The question on show; after the last of several, all answers are shown once more before they are sent.
    pub at: usize,
    /// The answers were all shown once: from then on, changing one leads back there.
    pub reviewed: bool,
    /// One a question, as far as anybody came.
    pub entries: Vec<Entry>,
    pub typing: Option<Typing>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    pub picks: Vec<usize>,
    pub text: Option<String>,
    pub notes: Option<String>,
    pub skipped: bool,
    /// Who filled it in last.
    pub by: Option<String>,
}

/// The next message of this person is taken as this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typing {
    pub user: i64,
    /// Their name, to be addressed by.
    #[serde(default)]
    pub name: String,
    pub what: TextKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// An answer in their own words.
    Words,
    Notes,
    /// Why a tool or a plan is refused.
    Reason,
}

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
    /// Interrupts a run.
    Cancel,
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
    /// It is for nobody.
    Drop,
}

/// What comes of a press or a text.
#[derive(Debug, Clone, PartialEq)]
pub enum FormStep {
    /// The form goes on.
    Draft(Draft),
    /// It is complete.
    Answer(Value),
    /// Nothing happens, and this is why.
    Stale(&'static str),
}

const MOVED_ON: &str = "That button belongs to an earlier question.";
const NOTHING_PICKED: &str = "Nothing is selected yet. Select an option first, or skip.";
const INCOMPLETE: &str = "A question has no answer yet. Answer it first, or skip it.";
const NO_LONGER_TAKEN: &str = "This agent cannot take that any more. Please use the buttons.";
pub const NO_LONGER: &str = "This button no longer works.";

/// Whoever presses or types.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    pub user: i64,
    pub name: &'a str,
}

impl Draft {
    pub fn entry(&self, question: usize) -> Entry {
        self.entries.get(question).cloned().unwrap_or_default()
    }

    fn entry_mut(&mut self, question: usize) -> &mut Entry {
        if self.entries.len() <= question {
            self.entries.resize(question + 1, Entry::default());
        }
        &mut self.entries[question]
    }

    /// More than one person filled this in.
    pub fn is_shared(&self) -> bool {
        let mut people = self.entries.iter().filter_map(|entry| entry.by.as_ref());
        let first = people.next();
        people.any(|other| Some(other) != first)
    }

    fn wait_for(mut self, who: Who, what: TextKind) -> FormStep {
        self.typing = Some(Typing { user: who.user, name: who.name.to_owned(), what });
        FormStep::Draft(self)
    }

    /// On to the next question. The answers to several are shown before they are sent.
    fn go_on(mut self, body: &Body) -> FormStep {
        self.typing = None;
        let Body::Question(asked) = body else { return FormStep::Stale(NO_LONGER) };
        let of = asked.questions.len();
        if of == 1 {
            return self.answer(asked);
        }
        self.at = match self.reviewed {
            true => (0..of).find(|question| !self.entry(*question).is_complete()).unwrap_or(of),
            false => self.at + 1,
        };
        self.reviewed |= self.at == of;
        FormStep::Draft(self)
    }

    fn answer(&self, asked: &Questions) -> FormStep {
        let choices: Vec<_> =
            asked.questions.iter().enumerate().map(|(i, question)| self.entry(i).choice(question)).collect();
        FormStep::Answer(json!({ "answers": choices }))
    }
}

impl Entry {
    fn choice(&self, question: &Question) -> Value {
        if self.skipped {
            return json!({ "skip": true });
        }
        let labels = question.options.iter().enumerate().filter(|(i, _)| self.picks.contains(i));
        let mut choice = json!({ "selected": labels.map(|(_, offer)| &offer.label).collect::<Vec<_>>() });
        for (field, text) in [("text", &self.text), ("notes", &self.notes)] {
            if let Some(text) = text {
                choice[field] = json!(text);
            }
        }
        choice
    }

    fn is_empty(&self) -> bool {
        self.picks.is_empty() && self.text.is_none()
    }

    fn is_complete(&self) -> bool {
        self.skipped || !self.is_empty()
    }

    /// What was given, in words for the person who gave it.
    pub fn in_words(&self, question: &Question) -> String {
        if self.skipped {
            return "(skipped)".into();
        }
        let labels = question.options.iter().enumerate().filter(|(i, _)| self.picks.contains(i));
        let words = labels.map(|(_, offer)| offer.label.clone()).chain(self.text.clone());
        words.collect::<Vec<_>>().join(", ")
    }
}

/// What a press of this button by this person makes of the form.
pub fn press(body: &Body, mut draft: Draft, action: &Action, who: Who) -> FormStep {
    let by = Some(who.name.to_owned());
    let question = match action {
        Action::Pick { question, .. }
        | Action::Toggle { question, .. }
        | Action::Done { question }
        | Action::Words { question }
        | Action::Notes { question }
        | Action::Skip { question }
        | Action::Back { question } => Some(*question),
        Action::Change { .. }
        | Action::Send
        | Action::StopTyping
        | Action::AllowOnce
        | Action::AllowSession
        | Action::AllowAlways
        | Action::Deny
        | Action::DenyWhy
        | Action::Approve
        | Action::Outline
        | Action::PassPlan
        | Action::DropPlan
        | Action::Cancel
        | Action::Show { .. }
        | Action::ShowAll
        | Action::Answer { .. }
        | Action::Prompt
        | Action::Drop => None,
    };
    if question.is_some_and(|question| question != draft.at) {
        return FormStep::Stale(MOVED_ON);
    }
    match action {
        Action::Pick { option, .. } => {
            let entry = draft.entry_mut(draft.at);
            *entry = Entry { picks: vec![*option], notes: entry.notes.take(), by, ..Entry::default() };
            draft.go_on(body)
        }
        Action::Toggle { option, .. } => {
            let entry = draft.entry_mut(draft.at);
            entry.skipped = false;
            entry.by = by;
            match entry.picks.iter().position(|pick| pick == option) {
                Some(at) => drop(entry.picks.remove(at)),
                None => entry.picks.push(*option),
            }
            draft.typing = None;
            FormStep::Draft(draft)
        }
        Action::Done { .. } if draft.entry(draft.at).is_empty() => FormStep::Stale(NOTHING_PICKED),
        Action::Done { .. } => draft.go_on(body),
        Action::Words { .. } => draft.wait_for(who, TextKind::Words),
        Action::Notes { .. } => draft.wait_for(who, TextKind::Notes),
        Action::Skip { .. } => {
            *draft.entry_mut(draft.at) = Entry { skipped: true, by, ..Entry::default() };
            draft.go_on(body)
        }
        Action::Back { .. } => {
            draft.typing = None;
            draft.at = draft.at.saturating_sub(1);
            FormStep::Draft(draft)
        }
        Action::Change { question } if draft.reviewed => {
            draft.typing = None;
            draft.at = *question;
            FormStep::Draft(draft)
        }
        Action::Change { .. } => FormStep::Stale(NO_LONGER),
        Action::Send => match body {
            Body::Question(asked) if draft.at != asked.questions.len() => FormStep::Stale(NO_LONGER),
            Body::Question(asked) if (0..draft.at).all(|question| draft.entry(question).is_complete()) => {
                draft.answer(asked)
            }
            Body::Question(_) => FormStep::Stale(INCOMPLETE),
            Body::Permission(_) | Body::Plan(_) => FormStep::Stale(NO_LONGER),
        },
        Action::StopTyping if draft.typing.is_none() => FormStep::Stale(NO_LONGER),
        Action::StopTyping => {
            draft.typing = None;
            FormStep::Draft(draft)
        }
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
        | Action::Cancel
        | Action::Show { .. }
        | Action::ShowAll
        | Action::Answer { .. }
        | Action::Prompt
        | Action::Drop => FormStep::Stale(NO_LONGER),
    }
}

/// What a text makes of the form. A reply to the message counts even where nobody was asked to type.
pub fn typed(body: &Body, can: &Can, mut draft: Draft, who: Who, text: &str) -> FormStep {
    let wanted = match (&draft.typing, body) {
        (Some(typing), _) if typing.user == who.user => typing.what,
        (_, Body::Question(_)) => TextKind::Words,
        (_, Body::Permission(_) | Body::Plan(_)) => {
            return FormStep::Stale(
                "Please use the buttons. A message alone neither allows nor denies anything.",
            );
        }
    };
    let text = text.trim().to_owned();
    match (wanted, body) {
        (TextKind::Reason, Body::Permission(_) | Body::Plan(_)) if !can.reason => {
            FormStep::Stale(NO_LONGER_TAKEN)
        }
        (TextKind::Reason, Body::Permission(_) | Body::Plan(_)) => {
            FormStep::Answer(json!({ "decision": "deny", "message": text }))
        }
        (TextKind::Notes, Body::Question(_)) if !can.notes => FormStep::Stale(NO_LONGER_TAKEN),
        (TextKind::Notes, Body::Question(_)) => {
            draft.entry_mut(draft.at).notes = Some(text);
            draft.typing = None;
            FormStep::Draft(draft)
        }
        (TextKind::Words, Body::Question(asked)) => {
            let Some(question) = asked.questions.get(draft.at) else {
                return FormStep::Stale(
                    "All questions are answered. Send the answers with the button, or change one first.",
                );
            };
            if !question.free_text || !can.text {
                return FormStep::Stale("This question takes only its own options. Please use the buttons.");
            }
            let entry = draft.entry_mut(draft.at);
            entry.skipped = false;
            entry.by = Some(who.name.to_owned());
            entry.text = Some(text);
            if question.multi_select && !question.options.is_empty() {
                draft.typing = None;
                return FormStep::Draft(draft);
            }
            entry.picks.clear();
            draft.go_on(body)
        }
        (TextKind::Reason, Body::Question(_))
        | (TextKind::Notes | TextKind::Words, Body::Permission(_) | Body::Plan(_)) => {
            FormStep::Stale(NO_LONGER)
        }
    }
}

#[cfg(test)]
mod tests;
