//! What is kept of each message, chat and run.

use super::form::{Action, Draft};
use super::memory::random;
use crate::hub::Problem;
use aye_core::{AgentId, AskId, Digest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One message that shows an ask. There may be more than one in a chat: when no reply came to the sending of
/// the first, nobody knows whether it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Copy {
    pub id: String,
    pub ask: AskId,
    /// Of what it shows; an answer given on it is bound to that.
    pub digest: Digest,
    pub chat: i64,
    /// Known once Telegram said it, or once somebody pressed a button of it.
    pub message: Option<i64>,
    /// It may not be there, and another was sent in its place.
    pub lost: bool,
    /// Other messages that belong to it.
    #[serde(default)]
    pub sides: Vec<Side>,
    /// What stands behind each button.
    pub tokens: BTreeMap<String, Action>,
    pub draft: Draft,
    /// A digest of what it shows now.
    pub shown: String,
    pub reminded: bool,
    /// What a person decided on a plan that had been refused by itself.
    pub done: Option<String>,
    /// It shows how its ask ended, and that will not change.
    pub settled: bool,
    pub made_at: Timestamp,
}

impl Copy {
    pub fn new(ask: AskId, digest: Digest, chat: i64, now: Timestamp) -> Result<Self, Problem> {
        Ok(Self {
            id: random()?,
            ask,
            digest,
            chat,
            message: None,
            lost: false,
            sides: vec![],
            tokens: BTreeMap::new(),
            draft: Draft::default(),
            shown: String::new(),
            reminded: false,
            done: None,
            settled: false,
            made_at: now,
        })
    }

    /// The token of a button, made when it is first shown.
    pub fn token(&mut self, action: &Action) -> Result<String, Problem> {
        if let Some((token, _)) = self.tokens.iter().find(|(_, known)| *known == action) {
            return Ok(token.clone());
        }
        let token = random()?;
        self.tokens.insert(token.clone(), action.clone());
        Ok(token)
    }
}

/// A message that belongs to one that shows an ask: whoever replies to it means that ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// None where it could not be sent and will not be tried again.
    pub message: Option<i64>,
    pub what: SideKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideKind {
    /// Of a plan, or of the question with this number.
    Part {
        question: usize,
    },
    File {
        question: usize,
    },
    Reminder,
    /// Asks this person to type.
    Prompt {
        user: i64,
    },
}

impl Copy {
    pub fn sides_like(&self, what: SideKind) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(move |side| side.what == what)
    }

    /// A message that is there only for a while: a reminder, or a request to type.
    pub fn passing(&self, is_meant: impl Fn(SideKind) -> bool) -> Option<i64> {
        self.sides.iter().filter(|side| is_meant(side.what)).find_map(|side| side.message)
    }

    pub fn is_shown_by(&self, message: i64) -> bool {
        self.message == Some(message) || self.sides.iter().any(|side| side.message == Some(message))
    }
}

/// One message that shows how a run goes, from a prompt to the end of its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    pub id: String,
    pub agent: AgentId,
    pub chat: i64,
    pub message: Option<i64>,
    pub lost: bool,
    /// Behind its Cancel button.
    pub token: String,
    /// It shows the events after this number.
    pub since: u64,
    /// Who pressed Cancel; that can be done once.
    pub cancelled: Option<String>,
    pub shown: String,
    pub has_file: bool,
    /// That it came to its end was said aloud.
    #[serde(default)]
    pub rung: bool,
    /// Other messages that belong to it.
    #[serde(default)]
    pub sides: Vec<i64>,
    /// It shows the end.
    pub done: bool,
    pub made_at: Timestamp,
}

impl Card {
    pub fn new(agent: AgentId, chat: i64, since: u64, now: Timestamp) -> Result<Self, Problem> {
        Ok(Self {
            id: random()?,
            agent,
            chat,
            message: None,
            lost: false,
            token: random()?,
            since,
            cancelled: None,
            shown: String::new(),
            has_file: false,
            rung: false,
            sides: vec![],
            done: false,
            made_at: now,
        })
    }
}

/// What a chat works on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatNote {
    pub project: Option<String>,
    pub agent: Option<AgentId>,
}

/// An agent that was started from a chat is at home there: its asks are shown nowhere else on Telegram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Homed {
    pub chat: i64,
    pub name: String,
    pub at: Timestamp,
}
