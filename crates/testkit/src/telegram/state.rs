//! What the stand-in knows: its chats, what waits for the bot, and how often the bot may speak.

use super::calls::{Reply, error, migrated};
use super::{Fault, Message, Notice};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Telegram's own limits, in its seconds: "My bot is hitting limits" in Telegram's questions and answers on bots.
/// Edits are counted like messages, which is stricter than the real service.
const GAP_ALONE: f64 = 1.0;
const GROUP_PER_MINUTE: usize = 20;
const EVERYWHERE_PER_SECOND: usize = 30;

pub struct Shared {
    pub token: String,
    /// How long a second of its clock lasts.
    pub second: Duration,
    start: Instant,
    state: Mutex<State>,
    pub changed: Condvar,
}

#[derive(Default)]
pub struct State {
    pub messages: Vec<Message>,
    pub last_message: i64,
    pub waiting: Vec<(i64, Value)>,
    /// Everything that ever waited, so that it can come again.
    pub history: Vec<(i64, Value)>,
    pub last_update: i64,
    /// Presses, and what the bot said to them.
    pub presses: HashMap<String, Option<Notice>>,
    pub faults: VecDeque<(String, Fault)>,
    pub every: Option<(usize, Fault)>,
    pub calls: Vec<String>,
    pub counted: usize,
    /// What a real server would have refused.
    pub complaints: Vec<String>,
    /// Calls that get no reply.
    pub hanging: usize,
    pub polls: u64,
    /// How often updates were confirmed up to a number.
    pub confirmed: Vec<i64>,
    pub backwards: bool,
    /// Chats where the bot may not speak, and how it is told.
    pub shut: HashMap<i64, (u16, String)>,
    /// Groups that became supergroups, and the numbers they have since.
    pub migrated: HashMap<i64, i64>,
    /// Calls to such chats, and when they came.
    pub tries: Vec<(i64, f64)>,
    /// Topics of forums, by chat and thread, and whether they are closed.
    pub topics: HashMap<(i64, i64), bool>,
    /// People who are not in a group, by group.
    pub left: HashSet<(i64, i64)>,
    /// What people wrote, by chat and number.
    pub written: HashSet<(i64, i64)>,
    /// Presses are answered too late.
    pub presses_expire: bool,
    /// Privacy mode is off.
    pub hears_all: bool,
    pub webhook: String,
    pub commands: Vec<(String, String)>,
    /// What the bot can fetch, by its name.
    pub files: HashMap<String, Vec<u8>>,
    pub made: Vec<Made>,
    said: HashMap<i64, Vec<f64>>,
    quiet_until: HashMap<i64, f64>,
}

/// A call that made or changed a message.
pub struct Made {
    pub method: String,
    pub chat: i64,
    pub message: i64,
}

impl Shared {
    pub fn new(token: &str, second: Duration) -> Self {
        Self {
            token: token.to_owned(),
            second,
            start: Instant::now(),
            state: Mutex::new(State { last_update: 700, last_message: 100, ..State::default() }),
            changed: Condvar::new(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its clock, in seconds.
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() / self.second.as_secs_f64()
    }
}

impl State {
    /// Whether somebody can reply to this.
    pub fn has_message(&self, chat: i64, id: i64) -> bool {
        let own = |message: &Message| message.chat == chat && message.id == id && !message.deleted;
        self.written.contains(&(chat, id)) || self.messages.iter().any(own)
    }

    pub fn update(&mut self, mut update: Value) -> i64 {
        self.last_update += 1;
        update["update_id"] = json!(self.last_update);
        self.waiting.push((self.last_update, update.clone()));
        self.history.push((self.last_update, update));
        self.last_update
    }

    /// Whether the bot may speak in this chat now; if not, how long it must wait.
    pub fn may_speak(&mut self, chat: i64, now: f64) -> Result<(), u64> {
        let quiet = self.quiet_until.get(&chat).copied().unwrap_or_default();
        if now < quiet {
            self.complaints.push(format!("spoke in {chat} {:.2} s before it was allowed again", quiet - now));
            return Err((quiet - now).ceil() as u64);
        }
        let recent = |times: &[f64], within: f64| times.iter().filter(|at| now - **at < within).count();
        let here = self.said.get(&chat).map(Vec::as_slice).unwrap_or_default();
        let often = match chat < 0 {
            true => recent(here, 60.0) >= GROUP_PER_MINUTE,
            false => recent(here, GAP_ALONE) > 0,
        };
        let everywhere: usize = self.said.values().map(|times| recent(times, 1.0)).sum();
        if often || everywhere >= EVERYWHERE_PER_SECOND {
            self.complaints.push(format!("spoke too often in {chat}"));
            return Err(3);
        }
        self.said.entry(chat).or_default().push(now);
        Ok(())
    }

    /// How the bot is told that it may not speak in this chat at all.
    pub fn refusal(&mut self, chat: i64, now: f64) -> Option<Reply> {
        let refusal = match (self.shut.get(&chat), self.migrated.get(&chat)) {
            (Some((code, words)), _) => error(*code, words),
            (None, Some(new)) => migrated(*new),
            (None, None) => return None,
        };
        self.tries.push((chat, now));
        Some(refusal)
    }

    /// The refusal of a topic that takes no messages.
    pub fn topic_refusal(&self, chat: i64, topic: Option<i64>) -> Option<Reply> {
        match self.topics.get(&(chat, topic?)) {
            Some(false) => None,
            Some(true) => Some(error(400, "Bad Request: TOPIC_CLOSED")),
            None => Some(error(400, "Bad Request: message thread not found")),
        }
    }

    /// The topic that a message of the bot is in.
    pub fn topic_of(&self, chat: i64, message: i64) -> Option<i64> {
        let found = self.messages.iter().find(|found| (found.chat, found.id) == (chat, message));
        found.and_then(|message| message.topic)
    }

    pub fn hush(&mut self, chat: i64, seconds: u64, now: f64) {
        self.quiet_until.insert(chat, now + seconds as f64);
    }

    /// The fault that this call meets.
    pub fn fault(&mut self, method: &str) -> Option<Fault> {
        if let Some(at) = self.faults.iter().position(|(meant, _)| meant == method) {
            return self.faults.remove(at).map(|(_, fault)| fault);
        }
        let (every, fault) = self.every.clone().filter(|_| method != "getUpdates")?;
        self.counted += 1;
        (self.counted.is_multiple_of(every)).then_some(fault)
    }
}
