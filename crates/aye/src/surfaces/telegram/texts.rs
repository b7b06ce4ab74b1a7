//! What people write: for an ask, for a run, or to start one.

use super::desk::Desk;
use super::ended::too_late;
use super::form::{Draft, Next, typed};
use super::gate::{Person, admit};
use super::lane::Job;
use super::memory::Copy;
use super::wire::Message;
use crate::hub::Problem;
use jiff::SignedDuration;

/// A text that comes so long after its question ended was not meant for it.
const STILL_MEANT: SignedDuration = SignedDuration::from_mins(10);

impl Desk {
    pub(super) async fn message(&mut self, update: i64, message: Message) -> Result<(), Problem> {
        let from = message.from.as_ref();
        let Some(person) = admit(&self.settings, from, message.sender_chat.as_ref(), &message.chat) else {
            let user = from.map(|user| user.id);
            tracing::warn!(
                user,
                chat = message.chat.id,
                "a message from somebody or somewhere not listed passes by; if it is yours, put both numbers into config.toml"
            );
            return Ok(());
        };
        self.hear_from(person.chat);
        let here = Some(message.message_id);
        let Some(text) = message.text.as_deref().filter(|text| !text.trim().is_empty()) else {
            self.say(person.chat, here, "Text only, please: I cannot read pictures, voices or files.");
            return Ok(());
        };
        if message.forward_origin.is_some() {
            self.say(person.chat, here, "A forwarded message is not taken for your own words. If you mean it, send its text yourself.");
            return Ok(());
        }
        if let Some((command, rest)) = super::commands::read(text) {
            return self.command(update, &person, &message, command, rest).await;
        }
        let replied = message.reply_to_message.as_ref().map(|replied| replied.message_id);
        if replied.is_some_and(|to| !self.knows(person.chat, to)) {
            self.settle(person.chat).await;
        }
        let meant = replied.and_then(|to| self.memory.copy_of_message(person.chat, to)).cloned();
        if let Some(copy) = meant {
            return self.text_for(update, copy, text, &person, here).await;
        }
        let card = replied.and_then(|to| self.memory.card_of_message(person.chat, to));
        if let Some(agent) = card.map(|card| card.agent.clone()) {
            return self.prompt(update, &person, agent, text, here).await;
        }
        let waiting = self.memory.waiting_for(person.chat, person.id).cloned();
        if let Some(copy) = waiting
            && self.is_still_meant(&copy).await?
        {
            return self.text_for(update, copy, text, &person, here).await;
        }
        self.work(update, &person, text, here).await
    }

    fn knows(&self, chat: i64, message: i64) -> bool {
        self.memory.copy_of_message(chat, message).is_some()
            || self.memory.card_of_message(chat, message).is_some()
    }

    /// Whether a text that a message waited for is likely meant for it.
    async fn is_still_meant(&self, copy: &Copy) -> Result<bool, Problem> {
        let ask = self.hub.ask(&copy.ask).await?;
        let now = self.hub.clock().now();
        Ok(ask.state.ended_at().is_none_or(|at| now.duration_since(at) < STILL_MEANT))
    }

    async fn text_for(
        &mut self,
        update: i64,
        copy: Copy,
        text: &str,
        person: &Person,
        here: Option<i64>,
    ) -> Result<(), Problem> {
        let ask = self.hub.ask(&copy.ask).await?;
        self.put(copy.chat, Job::Ask(ask.id.clone()));
        let stopped = Draft { typing: None, ..copy.draft.clone() };
        if !ask.state.is_open() {
            self.say(person.chat, here, &format!("{} Your text went nowhere.", sentence(&too_late(&ask))));
            return self.go_on(update, copy, stopped, person).await;
        }
        match typed(&ask.body, copy.draft.clone(), person.id, text) {
            Next::Stale(why) => {
                self.say(person.chat, here, why);
                Ok(())
            }
            Next::Draft(draft) => self.go_on(update, copy, draft, person).await,
            Next::Answer(answer) => {
                if let Err(words) = self.answer(update, &copy, &ask, answer, person).await? {
                    self.say(person.chat, here, &format!("{} Your text went nowhere.", sentence(&words)));
                }
                self.go_on(update, copy, stopped, person).await
            }
        }
    }

    pub(super) fn edited(&mut self, message: &Message) {
        let person =
            admit(&self.settings, message.from.as_ref(), message.sender_chat.as_ref(), &message.chat);
        if let Some(person) = person {
            let words =
                "An edit changes nothing that was already sent. Send it anew if you mean it otherwise.";
            self.say(person.chat, Some(message.message_id), words);
        }
    }
}

fn sentence(words: &str) -> String {
    format!("{}.", words.trim_end_matches('.'))
}
