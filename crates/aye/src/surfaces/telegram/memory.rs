//! What the bot must not forget when the hub is restarted; the hub keeps it. Whatever changes here is on
//! disk before it is acted on.

use super::access::{Person, Place};
use super::bot_loop::BotLoop;
pub use super::message::{ChatNote, Content, SentMessage, Side, SideKind, StartedFrom};
use super::moved::MOVED;
use super::waiting_texts::IncomingText;
use crate::hub::{Hub, Memo, Problem};
use aye_core::{AgentId, AskId, Surface};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::{HashMap, HashSet, VecDeque};

const MESSAGE: &str = "message";
pub const CHAT: &str = "chat";
const STARTED_FROM: &str = "home";
const HANDLED: &str = "handled";
const HELD: &str = "held";
pub const START: &str = "start";

/// Telegram sends an update again until it is confirmed; these are known to be done.
const HANDLED_KEPT: usize = 1000;
/// Buttons under older messages are no longer known.
const KEPT: SignedDuration = SignedDuration::from_hours(24 * 7);

#[derive(Debug, Default)]
pub struct Memory {
    pub messages: HashMap<String, SentMessage>,
    by_ask: HashMap<AskId, Vec<String>>,
    /// Which message each button belongs to.
    tokens: HashMap<String, String>,
    /// Texts that may go on in the next message, by place and person.
    pub held: HashMap<(Place, i64), IncomingText>,
    pub chats: HashMap<Place, ChatNote>,
    pub started_from: HashMap<AgentId, StartedFrom>,
    /// Groups that became supergroups, and the ids they have since.
    pub moved: HashMap<i64, i64>,
    handled: VecDeque<i64>,
    known: HashSet<i64>,
    count: u64,
}

impl Memory {
    pub async fn recall(hub: &Hub) -> Result<Self, Problem> {
        let mut memory = Self::default();
        for (_, message) in all::<SentMessage>(hub, MESSAGE).await? {
            memory.index(message);
        }
        for (_, said) in all::<IncomingText>(hub, HELD).await? {
            memory.held.insert((said.person.place(), said.person.id), said);
        }
        for (place, note) in all::<ChatNote>(hub, CHAT).await? {
            if let Some(place) = Place::of_key(&place) {
                memory.chats.insert(place, note);
            }
        }
        for (agent, chat) in all::<StartedFrom>(hub, STARTED_FROM).await? {
            if let Ok(agent) = AgentId::try_from(agent) {
                memory.started_from.insert(agent, chat);
            }
        }
        for (old, new) in all::<i64>(hub, MOVED).await? {
            if let Ok(old) = old.parse() {
                memory.moved.insert(old, new);
            }
        }
        let mut handled = all::<u64>(hub, HANDLED).await?;
        handled.sort_by_key(|(_, count)| *count);
        for (update, count) in handled {
            if let Ok(update) = update.parse() {
                memory.handled.push_back(update);
                memory.known.insert(update);
                memory.count = count;
            }
        }
        Ok(memory)
    }

    fn index(&mut self, message: SentMessage) {
        for token in message.tokens.keys() {
            self.tokens.insert(token.clone(), message.id.clone());
        }
        if let Some(shown) = message.as_ask() {
            let of_ask = self.by_ask.entry(shown.ask.clone()).or_default();
            if !of_ask.contains(&message.id) {
                of_ask.push(message.id.clone());
            }
        }
        self.messages.insert(message.id.clone(), message);
    }

    pub fn put(&mut self, message: SentMessage) -> Memo {
        let memo = Memo { kind: MESSAGE, key: message.id.clone(), body: Some(json!(message)) };
        self.index(message);
        memo
    }

    /// Its buttons do nothing from now on.
    pub fn remove(&mut self, id: &str) -> Vec<Memo> {
        let Some(message) = self.messages.remove(id) else { return vec![] };
        for token in message.tokens.keys() {
            self.tokens.remove(token);
        }
        if let Some(shown) = message.as_ask()
            && let Some(of_ask) = self.by_ask.get_mut(&shown.ask)
        {
            of_ask.retain(|known| known != id);
            if of_ask.is_empty() {
                self.by_ask.remove(&shown.ask);
            }
        }
        vec![forget(MESSAGE, message.id)]
    }

    /// The message that a button belongs to.
    pub fn with_token(&self, token: &str) -> Option<&SentMessage> {
        self.messages.get(self.tokens.get(token)?)
    }

    /// Whether a list announces this ask, in this chat or, without one, in any.
    pub fn is_listed(&self, ask: &AskId, chat: Option<i64>) -> bool {
        let lists = self.messages.values().filter(|list| chat.is_none_or(|chat| list.chat == chat));
        lists.into_iter().any(|list| list.announced().contains(ask))
    }

    /// Whether this ask has a message anywhere, or is in a list.
    pub fn is_shown(&self, ask: &AskId) -> bool {
        self.by_ask.contains_key(ask) || self.is_listed(ask, None)
    }

    /// The messages that show this ask in a chat, oldest first.
    pub fn showing(&self, ask: &AskId, chat: i64) -> Vec<SentMessage> {
        let ids = self.by_ask.get(ask).map(Vec::as_slice).unwrap_or_default();
        let found = ids.iter().filter_map(|id| self.messages.get(id));
        found.filter(|message| message.chat == chat).cloned().collect()
    }

    /// The message that has this number, or to which the one with this number belongs.
    pub fn numbered(&self, chat: i64, number: i64) -> Option<&SentMessage> {
        self.messages.values().find(|message| message.chat == chat && message.is_shown_by(number))
    }

    /// The message that waits for a text of this person.
    pub fn waiting_for(&self, person: &Person) -> Option<&SentMessage> {
        self.all_waiting_for(person).max_by_key(|message| message.made_at)
    }

    pub fn all_waiting_for(&self, person: &Person) -> impl Iterator<Item = &SentMessage> {
        self.messages.values().filter(move |message| {
            let typing = message.as_ask().and_then(|shown| shown.draft.typing.as_ref());
            message.place() == person.place() && typing.is_some_and(|typing| typing.user == person.id)
        })
    }

    /// The newest of this run's messages that does not show its end yet.
    pub fn of_run(&self, agent: &AgentId) -> Option<&SentMessage> {
        let runs = self.messages.values().filter_map(|message| Some((message.as_run()?, message)));
        let current = runs.filter(|(run, message)| run.agent == *agent && message.is_current());
        current.max_by_key(|(run, _)| run.since).map(|(_, message)| message)
    }

    pub fn is_handled(&self, update: i64) -> bool {
        self.known.contains(&update)
    }

    pub fn put_held(&mut self, said: IncomingText) -> Memo {
        let (place, user) = (said.person.place(), said.person.id);
        let memo = Memo { kind: HELD, key: held_key(place, user), body: Some(json!(said)) };
        self.held.insert((place, user), said);
        memo
    }

    pub fn drop_held(&mut self, place: Place, user: i64) -> Memo {
        self.held.remove(&(place, user));
        forget(HELD, held_key(place, user))
    }

    pub fn put_chat(&mut self, place: Place, note: ChatNote) -> Memo {
        let memo = Memo { kind: CHAT, key: place.key(), body: Some(json!(note)) };
        self.chats.insert(place, note);
        memo
    }

    pub fn put_started_from(&mut self, agent: AgentId, chat: StartedFrom) -> Memo {
        let memo = Memo { kind: STARTED_FROM, key: agent.to_string(), body: Some(json!(chat)) };
        self.started_from.insert(agent, chat);
        memo
    }

    /// Notes that an update is done, and forgets the oldest.
    pub fn put_handled(&mut self, update: i64) -> Vec<Memo> {
        if !self.known.insert(update) {
            return vec![];
        }
        self.count += 1;
        self.handled.push_back(update);
        let mut memos = vec![Memo { kind: HANDLED, key: update.to_string(), body: Some(json!(self.count)) }];
        if self.handled.len() > HANDLED_KEPT
            && let Some(oldest) = self.handled.pop_front()
        {
            self.known.remove(&oldest);
            memos.push(forget(HANDLED, oldest.to_string()));
        }
        memos
    }

    /// Forgets what is long over, so that this does not grow forever. An ask that is still open stays.
    pub fn forget_old(
        &mut self,
        is_open: impl Fn(&AskId) -> bool,
        is_alive: impl Fn(&AgentId) -> bool,
        now: Timestamp,
    ) -> Vec<Memo> {
        let is_old = |at: Timestamp| now.duration_since(at) > KEPT;
        let is_needed = |message: &SentMessage| match &message.shows {
            Content::Ask(shown) => is_open(&shown.ask),
            Content::Run(shown) => is_alive(&shown.agent),
            Content::List(shown) => shown.asks.iter().any(&is_open),
            Content::Offer(_) | Content::Choice(_) => false,
        };
        let old = self.messages.values().filter(|message| is_old(message.made_at) && !is_needed(message));
        let old: Vec<_> = old.map(|message| message.id.clone()).collect();
        let mut memos: Vec<_> = old.iter().flat_map(|id| self.remove(id)).collect();
        self.started_from.retain(|agent, chat| {
            let is_over = is_old(chat.at) && !is_alive(agent);
            memos.extend(is_over.then(|| forget(STARTED_FROM, agent.to_string())));
            !is_over
        });
        memos
    }
}

/// How the loop changes what it remembers: on disk first.
impl BotLoop {
    pub(super) async fn keep(&mut self, message: SentMessage) -> Result<(), Problem> {
        let memo = self.memory.put(message);
        self.save(vec![memo]).await
    }

    pub(super) async fn change(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut SentMessage),
    ) -> Result<(), Problem> {
        let Some(mut message) = self.memory.messages.get(id).cloned() else { return Ok(()) };
        change(&mut message);
        self.keep(message).await
    }

    /// On disk when this returns.
    pub(super) async fn save(&mut self, memos: Vec<Memo>) -> Result<(), Problem> {
        if memos.is_empty() {
            return Ok(());
        }
        let saved = self.hub.remember(Surface::Telegram, memos).await;
        self.stale |= saved.is_err();
        saved
    }

    pub(super) fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// After a failed write, memory is read from disk again.
    pub(super) async fn reload_if_stale(&mut self) -> Result<(), Problem> {
        if self.stale {
            self.memory = Memory::recall(&self.hub).await?;
            self.stale = false;
        }
        Ok(())
    }
}

fn held_key(place: Place, user: i64) -> String {
    format!("{}:{user}", place.key())
}

pub fn forget(kind: &'static str, key: String) -> Memo {
    Memo { kind, key, body: None }
}

async fn all<T: DeserializeOwned>(hub: &Hub, kind: &'static str) -> Result<Vec<(String, T)>, Problem> {
    let rows = hub.recall(Surface::Telegram, kind).await?;
    let read = rows.into_iter().filter_map(|(key, body)| match serde_json::from_value(body) {
        Ok(body) => Some((key, body)),
        Err(error) => {
            tracing::warn!(kind, key, %error, "something remembered for Telegram cannot be read and is left alone");
            None
        }
    });
    Ok(read.collect())
}
