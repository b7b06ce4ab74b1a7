//! A half-filled answer, whatever surface it is filled in on: what is on show, what was given so far, and what each step
//! makes of it. No I/O: the same steps after a restart.

use aye_core::{Body, Can, Question, Questions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What has been filled in so far.
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

/// What comes of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum FormStep {
    /// The form goes on.
    Draft(Draft),
    /// It is complete.
    Answer(Value),
    /// Nothing happens, and this is why.
    Stale(&'static str),
}

pub const NOTHING_PICKED: &str = "Nothing is selected yet. Select an option first, or skip.";
pub const INCOMPLETE: &str = "A question has no answer yet. Answer it first, or skip it.";
const NO_LONGER_TAKEN: &str = "This agent cannot take that any more. Please use the buttons.";
pub const NO_LONGER: &str = "This button no longer works.";

/// Whoever fills it in.
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

    /// The next text of this person is taken as this.
    pub fn wait_for(mut self, who: Who, what: TextKind) -> FormStep {
        self.typing = Some(Typing { user: who.user, name: who.name.to_owned(), what });
        FormStep::Draft(self)
    }

    /// One option, and on to the next question.
    pub fn pick(mut self, body: &Body, option: usize, who: Who) -> FormStep {
        let entry = self.entry_mut(self.at);
        let (notes, by) = (entry.notes.take(), Some(who.name.to_owned()));
        *entry = Entry { picks: vec![option], notes, by, ..Entry::default() };
        self.go_on(body)
    }

    /// One option of several, on or off.
    pub fn toggle(mut self, option: usize, who: Who) -> FormStep {
        let entry = self.entry_mut(self.at);
        (entry.skipped, entry.by) = (false, Some(who.name.to_owned()));
        match entry.picks.iter().position(|pick| *pick == option) {
            Some(at) => drop(entry.picks.remove(at)),
            None => entry.picks.push(option),
        }
        self.stop_typing()
    }

    /// No more options of this question.
    pub fn done(self, body: &Body) -> FormStep {
        match self.entry(self.at).is_empty() {
            true => FormStep::Stale(NOTHING_PICKED),
            false => self.go_on(body),
        }
    }

    pub fn skip(mut self, body: &Body, who: Who) -> FormStep {
        let by = Some(who.name.to_owned());
        *self.entry_mut(self.at) = Entry { skipped: true, by, ..Entry::default() };
        self.go_on(body)
    }

    /// To another question, to change what was given.
    pub fn go_to(mut self, question: usize) -> FormStep {
        self.at = question;
        self.stop_typing()
    }

    pub fn stop_typing(mut self) -> FormStep {
        self.typing = None;
        FormStep::Draft(self)
    }

    /// The answers as they were all shown.
    pub fn send(self, body: &Body) -> FormStep {
        match body {
            Body::Question(asked) if self.at != asked.questions.len() => FormStep::Stale(NO_LONGER),
            Body::Question(asked) if (0..self.at).all(|question| self.entry(question).is_complete()) => {
                self.answer(asked)
            }
            Body::Question(_) => FormStep::Stale(INCOMPLETE),
            Body::Permission(_) | Body::Plan(_) => FormStep::Stale(NO_LONGER),
        }
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
        (TextKind::Notes, Body::Question(_)) if !can.for_question(draft.at).notes => {
            FormStep::Stale(NO_LONGER_TAKEN)
        }
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
            if !question.free_text || !can.for_question(draft.at).text {
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
