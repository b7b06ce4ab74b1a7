//! Texts that wait. Telegram's apps cut a text of more than 4,096 characters into several messages, and what was written
//! as one arrives as one. What comes while a run is being started goes to that run.

use super::access::{Person, Place};
use super::asks::after;
use super::bot_loop::BotLoop;
use super::html::{LONGEST, length};
use crate::hub::Problem;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Apps cut where they find a good place, but not before the middle.
const MAY_GO_ON: usize = LONGEST / 2;
/// How long the next message may take, in Telegram's seconds.
const NEXT_PART: f64 = 2.0;
const LONGEST_TEXT: usize = 64 * LONGEST;

/// What somebody wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IncomingText {
    /// The number under which it counts as done.
    pub update: i64,
    pub person: Person,
    pub text: String,
    /// The message itself, and the one it replies to.
    #[serde(rename = "here")]
    pub message_id: i64,
    pub replied: Option<i64>,
    /// It is meant for the bot, in any chat.
    pub addressed: bool,
    /// When it was written, if Telegram said so.
    #[serde(default)]
    pub written_at: Option<Timestamp>,
    /// How long its next part is waited for.
    pub until: Timestamp,
}

impl BotLoop {
    /// The text if it is whole. One that may go on is kept, on disk, until its next part comes or does not.
    pub(super) async fn whole(&mut self, said: IncomingText) -> Result<Option<IncomingText>, Problem> {
        let (place, user) = (said.person.place(), said.person.id);
        let goes_on = length(&said.text) >= MAY_GO_ON;
        let now = self.hub.clock().now();
        let held = self.memory.held.get(&(place, user)).filter(|held| now < held.until).cloned();
        if held.is_none() && !goes_on {
            return Ok(Some(said));
        }
        let update = said.update;
        let until = after(now, self.settings.pace.seconds(NEXT_PART));
        let said = match held {
            // The parts count under a number of their own: the first of them is done with when it is kept.
            None => IncomingText { update: -said.update, until, ..said },
            Some(held) => IncomingText { text: joined(&held.text, &said.text), until, ..held },
        };
        let mut memos = self.memory.put_handled(update);
        memos.push(self.memory.put_held(said.clone()));
        self.save(memos).await?;
        if goes_on && said.text.len() < LONGEST_TEXT {
            return Ok(None);
        }
        self.take_held(place, user).await?;
        Ok(None)
    }

    /// Keeps a text for the run that is being started; several become one prompt.
    pub(super) async fn hold_text(&mut self, said: IncomingText) -> Result<(), Problem> {
        let key = (said.person.place(), said.person.id);
        let (held, until) = (self.memory.held.get(&key).cloned(), self.hub.clock().now());
        if held.as_ref().is_some_and(|held| held.text.len() >= LONGEST_TEXT) {
            self.say(
                key.0,
                Some(said.message_id),
                "A run is just being started. Send this again in a moment.",
            );
            return Ok(());
        }
        let mut memos = self.memory.put_handled(said.update);
        let held = match held {
            Some(held) => IncomingText { text: format!("{}\n{}", held.text, said.text), until, ..held },
            None => IncomingText { update: -said.update, until, ..said },
        };
        memos.push(self.memory.put_held(held));
        self.save(memos).await
    }

    /// When the next text that waits is to be taken.
    pub(super) fn next_held_text(&self) -> Option<Timestamp> {
        let held = self.memory.held.iter().filter(|((place, _), _)| !self.starting.contains_key(place));
        held.map(|(_, said)| said.until).min()
    }

    /// Texts whose next part did not come, and those whose run is started.
    pub(super) async fn take_held_texts(&mut self) -> Result<(), Problem> {
        let now = self.hub.clock().now();
        let due = self.memory.held.iter().filter(|(_, said)| said.until <= now);
        for (place, user) in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.take_held(place, user).await?;
        }
        Ok(())
    }

    async fn take_held(&mut self, place: Place, user: i64) -> Result<(), Problem> {
        if self.starting.contains_key(&place) {
            return Ok(());
        }
        let Some(said) = self.memory.held.get(&(place, user)).cloned() else { return Ok(()) };
        if !self.memory.is_handled(said.update) {
            let update = said.update;
            self.take_text(said).await?;
            self.note_done(update).await?;
        }
        let memo = self.memory.drop_held(place, user);
        self.save(vec![memo]).await
    }
}

/// A part that fills a message was cut within its text; any other at the end of a line or a word.
fn joined(first: &str, next: &str) -> String {
    let is_full = length(first).is_multiple_of(LONGEST);
    format!("{first}{}{next}", if is_full { "" } else { "\n" })
}
