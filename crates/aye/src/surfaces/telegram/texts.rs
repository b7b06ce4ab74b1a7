//! What people write: for an ask, for a run, or to start one.

use super::access::{Person, Place, admit};
use super::bot_loop::BotLoop;
use super::commands::Parsed;
use super::ended::too_late;
use super::memory::{Content, SentMessage};
use super::queue::Job;
use super::runs::Task;
use super::waiting_texts::IncomingText;
use super::wire::{Message, Replied};
use crate::hub::Problem;
use crate::surfaces::form::{Draft, FormStep, typed};
use crate::surfaces::words;
use aye_core::Surface;
use jiff::SignedDuration;
use std::collections::BTreeSet;

/// A text that comes so long after its question ended was not meant for it.
const STILL_MEANT: SignedDuration = SignedDuration::from_mins(10);

const NOT_USED: &str = "Your message was not used. If it has the secret, delete it here.";
const SECRET_OPEN: &str =
    "An open request asks for a secret, which can be given on the page or in a terminal.";
const STILL_POSSIBLE: &str =
    "Reply to a question to answer it, to a run's message to write to that run, or start a run with /new.";

impl BotLoop {
    pub(super) async fn message(&mut self, update: i64, message: Message) -> Result<(), Problem> {
        if let Some(new) = message.migrate_to_chat_id {
            return self.group_moved(message.chat.id, new).await;
        }
        let from = message.from.as_ref();
        let Some(person) = admit(&self.settings, from, message.sender_chat.as_ref(), &message.chat) else {
            let user = from.map(|user| user.id);
            tracing::warn!(
                user,
                chat = message.chat.id,
                "a message from somebody or somewhere not listed is ignored; if it is yours, put both numbers into config.toml"
            );
            return Ok(());
        };
        let person = Person { topic: message.topic(), ..person };
        self.reopen_chat(person.chat);
        let (place, message_id) = (person.place(), message.message_id);
        let addressed = self.is_addressed(&message, &person);
        let Some(text) = message.text.as_deref().filter(|text| !text.trim().is_empty()) else {
            return match message.has_media() && addressed {
                true => self.media(update, &message, &person).await,
                false => Ok(()),
            };
        };
        if message.forward_origin.is_some() {
            if addressed {
                self.say(
                    place,
                    Some(message_id),
                    "Forwarded messages are ignored. If you mean it, send the text yourself.",
                );
            }
            return Ok(());
        }
        let replied = message.reply_to_message.as_ref().map(|replied| replied.message_id);
        let (text, written_at, until) = (text.to_owned(), message.written_at(), self.hub.clock().now());
        let said = IncomingText { update, person, text, message_id, replied, addressed, written_at, until };
        match self.whole(said).await? {
            Some(said) => self.take_text(said).await,
            None => Ok(()),
        }
    }

    /// In a group people talk to each other: only what names the bot, replies to it or was asked for is meant for it.
    fn is_addressed(&self, message: &Message, person: &Person) -> bool {
        if person.chat > 0 {
            return true;
        }
        let replied = message.reply_to_message.as_ref();
        let to_me = |replied: &Replied| {
            let me = replied.from.as_ref().map(|from| from.id) == Some(self.me.id);
            me || self.knows(person.chat, replied.message_id)
        };
        let words = message.text.as_deref().or(message.caption.as_deref()).unwrap_or_default();
        replied.is_some_and(|replied| to_me(replied))
            || self.names_me(words).is_some()
            || self.memory.waiting_for(person).is_some()
    }

    /// Where a text names the bot.
    fn names_me(&self, text: &str) -> Option<std::ops::Range<usize>> {
        if self.me.username.is_empty() {
            return None;
        }
        let name = format!("@{}", self.me.username.to_ascii_lowercase());
        let at = text.to_ascii_lowercase().find(&name)?;
        let end = at + name.len();
        let goes_on = text[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (!goes_on).then_some(at..end)
    }

    /// A whole text, on its way to where it belongs.
    pub(super) async fn take_text(&mut self, said: IncomingText) -> Result<(), Problem> {
        let (place, message_id) = (said.person.place(), Some(said.message_id));
        let chat = place.chat;
        match super::commands::parse(&said.text, &self.me.username) {
            Parsed::Ours(slash, rest) => return self.command(&said, slash, rest).await,
            Parsed::Others => return Ok(()),
            Parsed::Unknown(_) if chat < 0 => return Ok(()),
            Parsed::Unknown(command) => {
                self.say(place, message_id, &format!("Unknown command: {command}. Send /help for the list."));
                return Ok(());
            }
            Parsed::Text => {}
        }
        if said.replied.is_some_and(|to| !self.knows(chat, to)) {
            self.wait_for_calls(chat).await;
        }
        let meant = said.replied.and_then(|to| self.memory.numbered(chat, to)).cloned();
        if let Some(message) = meant {
            match &message.shows {
                Content::Ask(_) => {
                    return self.text_for(said.update, message, &said.text, &said.person, message_id).await;
                }
                Content::Run(shown) => {
                    let task = Task::of(&said, said.text.clone());
                    return self.prompt_unless_old(shown.agent.clone(), task).await;
                }
                Content::List(_) | Content::Offer(_) | Content::Choice(_) => {
                    self.say(place, message_id, "Please use the buttons of that message.");
                    return Ok(());
                }
            }
        }
        let waiting = self.memory.waiting_for(&said.person).cloned();
        if let Some(message) = waiting
            && self.is_still_meant(&message).await?
        {
            return self.text_for(said.update, message, &said.text, &said.person, message_id).await;
        }
        if !said.addressed || self.keep_from_runs(place, said.message_id).await? {
            return Ok(());
        }
        let text = self.without_my_name(&said.text);
        if self.offer_as_answer(said.update, &said.person, &text, said.message_id).await? {
            return Ok(());
        }
        if self.starting.contains_key(&place) {
            return self.hold_text(said).await;
        }
        self.work(Task::of(&said, text)).await
    }

    /// While a question for a secret is shown in a chat, what somebody writes there may be the secret. It must not become a
    /// prompt, nor be kept: says so, and gives true.
    pub(super) async fn keep_from_runs(&mut self, place: Place, message_id: i64) -> Result<bool, Problem> {
        let messages = self.memory.messages.values().filter(|message| message.chat == place.chat);
        let shown = messages.flat_map(|message| {
            let asked = message.as_ask().filter(|_| message.is_current()).map(|shown| &shown.ask);
            asked.into_iter().chain(message.announced())
        });
        for id in shown.cloned().collect::<BTreeSet<_>>() {
            let Some(ask) = self.find_ask(&id).await? else { continue };
            if ask.state.is_open() && ask.body.why_not_on(Surface::Telegram).is_some() {
                self.say(place, Some(message_id), &format!("{SECRET_OPEN} {NOT_USED} {STILL_POSSIBLE}"));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn without_my_name(&self, text: &str) -> String {
        match self.names_me(text) {
            Some(name) => format!("{}{}", &text[..name.start], &text[name.end..]).trim().to_owned(),
            None => text.to_owned(),
        }
    }

    fn knows(&self, chat: i64, message: i64) -> bool {
        self.memory.numbered(chat, message).is_some()
    }

    /// Whether a text that a message waited for is likely meant for it.
    async fn is_still_meant(&self, message: &SentMessage) -> Result<bool, Problem> {
        let Some(shown) = message.as_ask() else { return Ok(false) };
        let Some(ask) = self.find_ask(&shown.ask).await? else { return Ok(false) };
        let now = self.hub.clock().now();
        Ok(ask.state.ended_at().is_none_or(|at| now.duration_since(at) < STILL_MEANT))
    }

    pub(super) async fn text_for(
        &mut self,
        update: i64,
        message: SentMessage,
        text: &str,
        person: &Person,
        message_id: Option<i64>,
    ) -> Result<(), Problem> {
        let Some(shown) = message.as_ask().cloned() else { return Ok(()) };
        let Some(ask) = self.find_ask(&shown.ask).await? else { return Ok(()) };
        self.put_reaction(message.chat, Job::Ask(ask.id.clone()));
        let stopped = Draft { typing: None, ..shown.draft.clone() };
        if !ask.state.is_open() {
            self.say(
                person.place(),
                message_id,
                &format!("{} Your text was not used.", sentence(&too_late(&ask, &person.by()))),
            );
            return self.go_on(update, message, stopped, person).await;
        }
        if let Some(why) = ask.body.why_not_on(Surface::Telegram) {
            self.say(person.place(), message_id, &format!("{} {NOT_USED}", sentence(why)));
            return Ok(());
        }
        match typed(&ask.body, &ask.extras.can, shown.draft, person.as_who(), text) {
            FormStep::Stale(why) => {
                self.say(person.place(), message_id, why);
                Ok(())
            }
            FormStep::Draft(draft) => self.go_on(update, message, draft, person).await,
            FormStep::Answer(answer) => {
                if let Err(words) = self.answer(update, shown.digest, &ask, answer, person).await? {
                    self.say(
                        person.place(),
                        message_id,
                        &format!("{} Your text was not used.", sentence(&words)),
                    );
                }
                self.go_on(update, message, stopped, person).await
            }
        }
    }

    pub(super) fn edited(&mut self, message: &Message) {
        let person =
            admit(&self.settings, message.from.as_ref(), message.sender_chat.as_ref(), &message.chat);
        if let Some(person) = person.filter(|person| self.is_addressed(message, person)) {
            let words = "Edits do not change what was already sent. Send a new message instead.";
            let place = Place { topic: message.topic(), ..person.place() };
            self.say(place, Some(message.message_id), words);
        }
    }
}

fn sentence(words: &str) -> String {
    format!("{}.", words::sentence(words.trim_end_matches('.')))
}
