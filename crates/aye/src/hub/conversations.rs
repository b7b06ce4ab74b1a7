//! What agents say and do. All of it is written as it comes, but for text that streams: its pieces are passed on at
//! once, and the text so far is written at most once a second, each version in the place of the last.

use super::{Hub, Problem};
use crate::config::Config;
use crate::store::{EventPage, StoreError, Tx};
use aye_core::AgentId;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// Of a text that is longer, only this much is kept until it is complete.
const LONGEST_SO_FAR: usize = 1024 * 1024;

/// What was added to a text that streams. It has no number: whoever misses it reads the text so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub agent: AgentId,
    /// The text that it belongs to.
    pub id: String,
    /// How many characters of the text came before.
    pub from: u64,
    pub text: String,
}

/// The text that each agent is writing now.
#[derive(Default)]
pub struct Streams {
    texts: Mutex<HashMap<AgentId, Streaming>>,
    /// Something came that is not written yet.
    added: Notify,
}

struct Streaming {
    id: String,
    text: String,
    characters: u64,
    is_written: bool,
}

impl Streaming {
    fn new(id: &str) -> Self {
        Self { id: id.to_owned(), text: String::new(), characters: 0, is_written: true }
    }

    fn add(&mut self, delta: &str) {
        self.characters += delta.chars().count() as u64;
        if self.text.len() + delta.len() <= LONGEST_SO_FAR {
            self.text.push_str(delta);
            self.is_written = false;
        }
    }

    /// The text so far as an event, if there is more of it than was written.
    fn unwritten(&mut self) -> Option<Value> {
        let is_written = std::mem::replace(&mut self.is_written, true);
        (!is_written).then(|| json!({ "type": "text", "id": self.id, "text": self.text, "partial": true }))
    }
}

/// A report taken apart.
#[derive(Debug, Default, PartialEq)]
pub struct Parts {
    /// To be passed on before anything is written.
    pub first: Vec<Piece>,
    pub events: Vec<Value>,
    /// To be passed on afterwards.
    pub last: Vec<Piece>,
}

impl Parts {
    fn add(&mut self, piece: Piece) {
        let pieces = if self.events.is_empty() { &mut self.first } else { &mut self.last };
        match pieces.last_mut() {
            Some(before) if before.id == piece.id => before.text.push_str(&piece.text),
            _ => pieces.push(piece),
        }
    }

    fn write(&mut self, event: Value) {
        self.events.push(event);
        // What is written has them, too.
        self.last.clear();
    }
}

/// The text that an event is about, and the piece of it that it brings.
fn piece_of(event: &Value) -> Option<(&str, &str)> {
    if event["type"] != "text" {
        return None;
    }
    Some((event["id"].as_str()?, event["delta"].as_str()?))
}

impl Streams {
    fn texts(&self) -> MutexGuard<'_, HashMap<AgentId, Streaming>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these are only further pieces of the text that the agent is writing: then nothing need be written now.
    pub fn goes_on(&self, agent: &AgentId, events: &[Value]) -> bool {
        let texts = self.texts();
        let Some(streaming) = texts.get(agent) else { return false };
        events.iter().all(|event| piece_of(event).is_some_and(|(id, _)| id == streaming.id))
    }

    pub fn take(&self, agent: &AgentId, events: Vec<Value>) -> Parts {
        let mut texts = self.texts();
        let mut parts = Parts::default();
        for event in events {
            let streams = texts.get_mut(agent);
            let Some((id, delta)) = piece_of(&event) else {
                let is_complete =
                    streams.as_ref().is_some_and(|text| event["type"] == "text" && event["id"] == text.id);
                match is_complete {
                    true => drop(texts.remove(agent)),
                    false => {
                        streams.and_then(Streaming::unwritten).into_iter().for_each(|text| parts.write(text))
                    }
                }
                parts.write(event);
                continue;
            };
            if let Some(another) = streams.filter(|text| text.id != id) {
                another.unwritten().into_iter().for_each(|text| parts.write(text));
                texts.remove(agent);
            }
            let text = texts.entry(agent.clone()).or_insert_with(|| Streaming::new(id));
            let from = text.characters;
            text.add(delta);
            parts.add(Piece { agent: agent.clone(), id: id.to_owned(), from, text: delta.to_owned() });
        }
        if texts.get(agent).is_some_and(|text| !text.is_written) {
            self.added.notify_one();
        }
        parts
    }

    /// Of one agent, or of any.
    fn has_unwritten(&self, of: Option<&AgentId>) -> bool {
        let texts = self.texts();
        match of {
            Some(agent) => texts.get(agent).is_some_and(|text| !text.is_written),
            None => texts.values().any(|text| !text.is_written),
        }
    }

    /// Writes what is new of the texts of this agent, or of all.
    fn write(&self, tx: &mut Tx, of: Option<&AgentId>, now: Timestamp) -> Result<(), StoreError> {
        let mut texts = self.texts();
        for (agent, text) in texts.iter_mut().filter(|(agent, _)| of.is_none_or(|of| of == *agent)) {
            let Some(event) = text.unwritten() else { continue };
            if let Err(error) = tx.publish_event(agent, event, now) {
                text.is_written = false;
                return Err(error);
            }
        }
        Ok(())
    }

    pub fn forget(&self, agent: &AgentId) {
        self.texts().remove(agent);
    }
}

impl Hub {
    /// A page of an agent's conversation, up to what it said just now.
    pub async fn events(
        &self,
        agent: AgentId,
        page: EventPage,
        limit: u32,
    ) -> Result<Vec<(u64, Value)>, Problem> {
        self.write_texts(Some(&agent)).await?;
        Ok(self.inner.store.read(move |db| db.events(&agent, page, limit)).await?)
    }

    /// Writes what is new of the texts that stream, of one agent or of all.
    pub(super) async fn write_texts(&self, of: Option<&AgentId>) -> Result<(), Problem> {
        if !self.inner.streams.has_unwritten(of) {
            return Ok(());
        }
        let (hub, of, now) = (self.clone(), of.cloned(), self.inner.clock.now());
        // Read inside the change: what completes a text comes before or after it as a whole.
        self.inner
            .store
            .write(move |tx| hub.inner.streams.write(tx, of.as_ref(), now))
            .await
            .map_err(Problem::from)
    }

    /// Once a second as long as texts stream, and not at all otherwise.
    pub(super) async fn keep_texts(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inner.streams.added.notified() => {}
            }
            if let Err(error) = self.write_texts(None).await {
                tracing::error!(%error, "a text that streams could not be written; it is tried again");
                self.inner.streams.added.notify_one();
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(BETWEEN_WRITES) => {}
            }
        }
    }

    /// Forgets what is too old, and the oldest of what is too much for one agent.
    pub(super) async fn forget_old_events(&self) -> Result<(), Problem> {
        let Ok(config) = Config::read(self.inner.policy.file()).config else { return Ok(()) };
        let kept = SignedDuration::from_hours(24 * i64::from(config.history.days));
        let oldest = self.inner.clock.now().checked_sub(kept).unwrap_or(Timestamp::MIN);
        while self.inner.store.write(move |tx| tx.forget_events_before(oldest)).await? {}
        let most = u64::from(config.history.megabytes) * 1_000_000;
        for (agent, last) in self.inner.store.read(move |db| db.conversations_over(most)).await? {
            loop {
                let agent = agent.clone();
                if !self.inner.store.write(move |tx| tx.forget_events_of(&agent, last)).await? {
                    break;
                }
            }
        }
        Ok(())
    }
}
