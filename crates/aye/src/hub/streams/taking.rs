//! What a report does to texts that stream, inside its transaction.

use super::{Delta, Piece, Streaming, Streams, piece, push};
use crate::store::{StoreError, Tx};
use aye_core::AgentId;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Instant;

/// Texts of one agent that are held at once. Further ones take the place of those that rested longest.
const MOST_TEXTS: usize = 4;

/// What is known of a report by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbered {
    /// It has none.
    No,
    New,
    /// It was on disk before.
    Again,
}

/// What a report did to the texts of its agent, once it is on disk.
pub struct Taken {
    pub(super) texts: Vec<Streaming>,
    pub(super) over: Vec<String>,
    /// Bytes that were written of other texts, to make room for these.
    pub made_room: u64,
    /// To be passed on before what was written.
    pub first: Vec<Piece>,
    /// To be passed on afterwards.
    pub last: Vec<Piece>,
}

/// What a report does to the texts of its agent, worked out inside its transaction. Nothing in memory changes before that is on
/// disk: a report that failed left everything as it was, and can come again.
pub struct Taking<'a> {
    streams: &'a Streams,
    agent: &'a AgentId,
    now: Timestamp,
    report: Numbered,
    /// The texts that it is about, as they will be.
    texts: Vec<Streaming>,
    /// Those of them that the store does not have.
    begun: Vec<String>,
    /// Those that need not be held any longer.
    over: Vec<String>,
    has_written: bool,
    first: Vec<Piece>,
    last: Vec<Piece>,
}

impl<'a> Taking<'a> {
    pub fn new(streams: &'a Streams, agent: &'a AgentId, now: Timestamp, report: Numbered) -> Self {
        let (texts, begun, over) = (Vec::new(), Vec::new(), Vec::new());
        let (has_written, first, last) = (false, Vec::new(), Vec::new());
        Self { streams, agent, now, report, texts, begun, over, has_written, first, last }
    }

    /// Takes the next event of the report. Of one that comes again, everything is on disk but the pieces: they may have been lost
    /// since, and those that say where they belong do no harm.
    pub fn take(&mut self, tx: &mut Tx, event: Value) -> Result<(), StoreError> {
        let comes_again = self.report == Numbered::Again;
        match Delta::of(&event) {
            Some(delta) if delta.from.is_some() || !comes_again => self.add(tx, delta),
            None if !comes_again => self.write(tx, event),
            _ => Ok(()),
        }
    }

    fn add(&mut self, tx: &Tx, delta: Delta) -> Result<(), StoreError> {
        if !self.texts.iter().any(|text| text.id == delta.id) {
            let found = self.find(tx, delta)?;
            self.texts.extend(found);
        }
        let text = self.texts.iter_mut().find(|text| text.id == delta.id);
        let from = match text {
            Some(text) => text.add(delta),
            None => delta.from.unwrap_or(0),
        };
        let pieces = if self.has_written { &mut self.last } else { &mut self.first };
        push(pieces, piece(self.agent, delta, from));
        Ok(())
    }

    /// The text that this goes on with, from memory or from the store. None if it cannot be begun either, since its beginning
    /// is missing: then it was completed or forgotten.
    fn find(&mut self, tx: &Tx, delta: Delta) -> Result<Option<Streaming>, StoreError> {
        if self.report == Numbered::New && delta.from == Some(0) {
            // Whoever reported before called another text so.
            self.over.push(delta.id.to_owned());
            self.begun.push(delta.id.to_owned());
            return Ok(Some(Streaming::begun(delta.id)));
        }
        let is_over = self.over.iter().any(|id| id == delta.id);
        let held = self.streams.text(self.agent, delta.id).filter(|_| !is_over);
        if held.as_ref().is_some_and(|text| text.joins_on(delta.from)) {
            return Ok(held);
        }
        let kept = tx.text_so_far(self.agent, delta.id)?;
        match (kept, held) {
            (Some(kept), Some(held)) if held.text.len() >= kept.len() => {
                Ok(Some(Streaming { looked: Instant::now(), ..held }))
            }
            (Some(kept), held) => {
                let ahead = held.map(|text| text.ahead).unwrap_or_default();
                Ok(Some(Streaming::kept_with(delta.id, kept, ahead)))
            }
            // What a report began that comes again would be there, if it were not over.
            (None, _) if delta.from.unwrap_or(0) == 0 && self.report != Numbered::Again => {
                self.begun.push(delta.id.to_owned());
                Ok(Some(Streaming::begun(delta.id)))
            }
            (None, _) => {
                self.over.push(delta.id.to_owned());
                Ok(None)
            }
        }
    }

    fn write(&mut self, tx: &mut Tx, mut event: Value) -> Result<(), StoreError> {
        if event["type"] == "text"
            && let Some(id) = event["id"].as_str().map(str::to_owned)
        {
            self.keep_what_streamed(tx, &id, &mut event)?;
            self.texts.retain(|text| text.id != id);
            self.begun.retain(|begun| *begun != id);
            self.last.retain(|piece| piece.id != id);
            self.over.push(id);
        }
        self.has_written = true;
        tx.publish_event(self.agent, event, self.now)
    }

    /// A long text is told cut when it is complete: where more of the same text streamed, that is kept.
    fn keep_what_streamed(&self, tx: &Tx, id: &str, event: &mut Value) -> Result<(), StoreError> {
        let (Some(left_out), Some(cut)) = (event["left_out"].as_u64(), event["text"].as_str()) else {
            return Ok(());
        };
        let taken = self.texts.iter().find(|text| text.id == id).cloned();
        let held = taken.or_else(|| self.streams.text(self.agent, id)).map(|text| text.text);
        let kept = tx.text_so_far(self.agent, id)?;
        let goes_further = |text: &String| text.len() > cut.len() && text.starts_with(cut);
        let longest = [held, kept].into_iter().flatten().filter(goes_further).max_by_key(String::len);
        let Some(streamed) = longest else { return Ok(()) };
        let more = streamed[cut.len()..].chars().count() as u64;
        event["text"] = json!(streamed);
        match (left_out.saturating_sub(more), event.as_object_mut()) {
            (0, Some(event)) => drop(event.remove("left_out")),
            (left_out, _) => event["left_out"] = json!(left_out),
        }
        Ok(())
    }

    /// Writes the beginnings of texts, and makes room.
    pub fn finish(mut self, tx: &mut Tx) -> Result<Taken, StoreError> {
        for text in &mut self.texts {
            if self.begun.contains(&text.id) {
                tx.begin_text(self.agent, &text.id, &text.text, self.now)?;
                text.is_written = true;
                self.last.retain(|piece| piece.id != text.id);
            }
        }
        let is_here = |id: &String| self.over.contains(id) || self.texts.iter().any(|text| text.id == *id);
        let mut others = self.streams.names_of(self.agent);
        others.retain(|id| !is_here(id));
        let too_many = (others.len() + self.texts.len()).saturating_sub(MOST_TEXTS);
        let own = too_many.saturating_sub(others.len());
        let others = others.iter().take(too_many).filter_map(|id| self.streams.text(self.agent, id));
        let resting: Vec<_> = others.chain(self.texts.drain(..own)).collect();
        let mut made_room = 0;
        for text in resting {
            if !text.is_written {
                made_room += text.text.len() as u64;
                tx.continue_text(self.agent, &text.id, &text.text, self.now)?;
            }
            self.over.push(text.id);
        }
        let Self { texts, over, first, last, .. } = self;
        Ok(Taken { texts, over, made_room, first, last })
    }
}
