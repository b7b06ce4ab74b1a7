//! The texts that agents are writing now. The store has a row for each, at most a second behind, so whatever is not known
//! here is read from there: after a restart, from another hub, or because other texts needed the room.

mod taking;
#[cfg(test)]
mod tests;

pub use taking::{Numbered, Taken, Taking};

use crate::store::SoFar;
use aye_core::AgentId;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Of a text that is longer, only this much is kept until it is complete.
const LONGEST_SO_FAR: usize = 1024 * 1024;
/// Pieces after a gap that are remembered.
const MOST_AHEAD: usize = 256;
/// How soon the store is asked again for what is missing before a piece: another hub may have it.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

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

/// Adds a piece, to the last one if it goes on with that.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(before)
            if before.id == piece.id
                && before.from.saturating_add(before.text.chars().count() as u64) == piece.from =>
        {
            before.text.push_str(&piece.text);
        }
        _ => pieces.push(piece),
    }
}

/// How a text goes on, as an event says it.
#[derive(Clone, Copy)]
struct Delta<'a> {
    id: &'a str,
    /// How many characters came before; adapters of earlier versions do not say.
    from: Option<u64>,
    text: &'a str,
}

impl<'a> Delta<'a> {
    fn of(event: &'a Value) -> Option<Self> {
        if event["type"] != "text" {
            return None;
        }
        let (id, text) = (event["id"].as_str()?, event["delta"].as_str()?);
        Some(Self { id, from: event["from"].as_u64(), text })
    }
}

/// A text as far as it came.
#[derive(Clone)]
struct Streaming {
    id: String,
    text: String,
    /// How many came, also of a text that is too long to be kept whole.
    characters: u64,
    is_cut: bool,
    is_written: bool,
    /// It is forgotten once it is written.
    is_leaving: bool,
    /// Pieces that came after a gap, with where they begin. They are added once another hub has written what is missing.
    ahead: Vec<(u64, String)>,
    /// When the store was last asked for more of it.
    looked: Instant,
}

impl Streaming {
    fn begun(id: &str) -> Self {
        Self::kept(id, String::new())
    }

    /// As the store has it.
    fn kept(id: &str, text: String) -> Self {
        Self {
            id: id.to_owned(),
            characters: text.chars().count() as u64,
            // One that was cut ends less than a character before the limit.
            is_cut: text.len() + char::MAX.len_utf8() > LONGEST_SO_FAR,
            text,
            is_written: true,
            is_leaving: false,
            ahead: Vec::new(),
            looked: Instant::now(),
        }
    }

    fn joins_on(&self, from: Option<u64>) -> bool {
        from.is_none_or(|from| from <= self.characters)
    }

    /// Adds what is new of a piece, and returns where that piece begins. What comes after a gap is only remembered: a text
    /// that is kept is always a beginning of the whole.
    fn add(&mut self, delta: Delta) -> u64 {
        let from = delta.from.unwrap_or(self.characters);
        if from > self.characters {
            let bytes: usize = self.ahead.iter().map(|(_, text)| text.len()).sum();
            if self.ahead.len() == MOST_AHEAD || bytes + delta.text.len() > LONGEST_SO_FAR {
                self.ahead.clear();
            }
            self.ahead.push((from, delta.text.to_owned()));
            return from;
        }
        let known = usize::try_from(self.characters - from).unwrap_or(usize::MAX);
        let Some((at, _)) = delta.text.char_indices().nth(known) else { return from };
        let new = &delta.text[at..];
        self.characters += new.chars().count() as u64;
        if !self.is_cut {
            let fits = new.floor_char_boundary(LONGEST_SO_FAR.saturating_sub(self.text.len()));
            self.text.push_str(&new[..fits]);
            self.is_cut = fits < new.len();
            self.is_written &= fits == 0;
        }
        self.close_gap();
        from
    }

    /// Adds what came after a gap that is no more.
    fn close_gap(&mut self) {
        if self.ahead.iter().any(|(from, _)| *from <= self.characters) {
            for (from, text) in std::mem::take(&mut self.ahead) {
                self.add(Delta { id: "", from: Some(from), text: &text });
            }
        }
    }

    /// As the store has it, with what came after that.
    fn kept_with(id: &str, text: String, ahead: Vec<(u64, String)>) -> Self {
        let mut text = Self { ahead, ..Self::kept(id, text) };
        text.close_gap();
        text
    }
}

/// Each agent's texts; the one that went on last is the last.
#[derive(Default)]
pub struct Streams {
    texts: Mutex<HashMap<AgentId, Vec<Streaming>>>,
    /// Something came that is not written yet.
    pub added: Notify,
}

/// A version of a text that is to be written.
pub struct Unwritten {
    pub agent: AgentId,
    pub id: String,
    pub text: String,
    characters: u64,
}

impl Streams {
    fn texts(&self) -> MutexGuard<'_, HashMap<AgentId, Vec<Streaming>>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self, agent: &AgentId, id: &str) -> Option<Streaming> {
        self.texts().get(agent)?.iter().find(|text| text.id == id).cloned()
    }

    fn names_of(&self, agent: &AgentId) -> Vec<String> {
        let texts = self.texts();
        texts.get(agent).into_iter().flatten().map(|text| text.id.clone()).collect()
    }

    /// Takes a report that only brings further pieces of known texts, for which nothing need be written now, and returns them
    /// to be passed on. None if it is another, or if it is numbered and its pieces could be added twice.
    pub fn go_on(&self, agent: &AgentId, events: &[Value], is_numbered: bool) -> Option<Vec<Piece>> {
        let deltas = events.iter().map(Delta::of).collect::<Option<Vec<_>>>()?;
        let mut all = self.texts();
        let texts = all.get_mut(agent)?;
        let mut ends: HashMap<&str, u64> = HashMap::new();
        for delta in &deltas {
            let text = texts.iter().find(|text| text.id == delta.id)?;
            if is_numbered && delta.from == Some(0) && text.characters > 0 {
                return None;
            }
            let end = ends.entry(delta.id).or_insert(text.characters);
            let from = delta.from.or((!is_numbered).then_some(*end))?;
            match from <= *end {
                true => *end = (*end).max(from + delta.text.chars().count() as u64),
                false if text.looked.elapsed() < BETWEEN_LOOKS => {}
                false => return None,
            }
        }
        let mut pieces = Vec::new();
        for delta in deltas {
            let text = texts.iter_mut().find(|text| text.id == delta.id)?;
            let from = text.add(delta);
            push(&mut pieces, piece(agent, delta, from));
        }
        texts.sort_by_key(|text| ends.contains_key(text.id.as_str()));
        if texts.iter().any(|text| !text.is_written) {
            self.added.notify_one();
        }
        Some(pieces)
    }

    /// What a report that is on disk did to the texts.
    pub fn settle(&self, agent: &AgentId, taken: Taken) {
        let mut all = self.texts();
        let texts = all.entry(agent.clone()).or_default();
        texts.retain(|text| !taken.over.contains(&text.id));
        for new in taken.texts {
            match texts.iter().position(|text| text.id == new.id) {
                // As much of it came meanwhile, or more.
                Some(at) if texts[at].characters >= new.characters => {
                    (texts[at].looked, texts[at].ahead) = (new.looked, new.ahead);
                }
                Some(at) => {
                    texts.remove(at);
                    texts.push(new);
                }
                None => texts.push(new),
            }
        }
        if texts.iter().any(|text| !text.is_written) {
            self.added.notify_one();
        }
        if texts.is_empty() {
            all.remove(agent);
        }
    }

    /// The names of the texts that are ahead of the store, of one agent or of all.
    pub fn names_of_unwritten(&self, of: Option<&AgentId>) -> Vec<(AgentId, String)> {
        let texts = self.texts();
        let texts = texts.iter().filter(|(agent, _)| of.is_none_or(|of| of == *agent));
        let unwritten = |text: &&Streaming| !text.is_written;
        texts
            .flat_map(|(agent, texts)| {
                texts.iter().filter(unwritten).map(|text| (agent.clone(), text.id.clone()))
            })
            .collect()
    }

    pub fn unwritten(&self, (agent, id): (AgentId, String)) -> Option<Unwritten> {
        let Streaming { text, characters, .. } = self.text(&agent, &id).filter(|text| !text.is_written)?;
        Some(Unwritten { agent, id, text, characters })
    }

    /// What became of a version that was to be written. What came since is still to be.
    pub fn written(&self, version: &Unwritten, became: SoFar) {
        let mut all = self.texts();
        let Some(texts) = all.get_mut(&version.agent) else { return };
        let is_it = |text: &Streaming| text.id == version.id && text.characters == version.characters;
        let Some(at) = texts.iter().position(is_it) else { return };
        match became {
            SoFar::Written if texts[at].is_leaving => drop(texts.remove(at)),
            SoFar::Written => texts[at].is_written = true,
            SoFar::Kept(text) if text.starts_with(&version.text) => {
                let ahead = std::mem::take(&mut texts[at].ahead);
                texts[at] = Streaming::kept_with(&version.id, text, ahead);
            }
            SoFar::Kept(_) => texts[at].is_written = true,
            SoFar::Over => drop(texts.remove(at)),
        }
        if texts.is_empty() {
            all.remove(&version.agent);
        }
    }

    /// Puts what came since it was written into what was read of a conversation.
    pub fn bring_up_to_date(&self, agent: &AgentId, events: &mut [(u64, Value)]) {
        let all = self.texts();
        let Some(texts) = all.get(agent) else { return };
        for (_, event) in events {
            if event["type"] == "text"
                && event["partial"] == true
                && let Some(text) = texts.iter().find(|text| event["id"] == text.id)
                && event["text"].as_str().is_some_and(|kept| kept.len() < text.text.len())
            {
                event["text"] = json!(text.text);
            }
        }
    }

    /// A text is complete: another hub wrote it.
    pub fn forget_text(&self, agent: &AgentId, event: &Value) {
        let mut all = self.texts();
        let (Some(id), Some(texts)) = (completes(event), all.get_mut(agent)) else { return };
        texts.retain(|text| text.id != id);
        if texts.is_empty() {
            all.remove(agent);
        }
    }

    /// The agent ended or was lost, as another hub says: its texts are forgotten once they are written.
    pub fn let_go(&self, agent: &AgentId) {
        let mut all = self.texts();
        let Some(texts) = all.get_mut(agent) else { return };
        texts.retain(|text| !text.is_written);
        texts.iter_mut().for_each(|text| text.is_leaving = true);
        if texts.is_empty() {
            all.remove(agent);
        }
    }

    pub fn forget(&self, agent: &AgentId) {
        self.texts().remove(agent);
    }

    #[cfg(test)]
    pub fn agents(&self) -> usize {
        self.texts().len()
    }
}

fn piece(agent: &AgentId, delta: Delta, from: u64) -> Piece {
    Piece { agent: agent.clone(), id: delta.id.to_owned(), from, text: delta.text.to_owned() }
}

/// The text that this event is all of.
fn completes(event: &Value) -> Option<&str> {
    event["id"].as_str().filter(|_| event["type"] == "text" && event["partial"] != true)
}
