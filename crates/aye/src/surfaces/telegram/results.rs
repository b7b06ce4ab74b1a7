//! What became of the calls: noted where it went well, tried otherwise where it did not.

use super::desk::{Desk, Doing, Plainness};
use super::html::Page;
use super::lane::Job;
use crate::hub::Problem;

/// What Telegram says of a message that is no longer there, or cannot be changed any more.
const GONE: [&str; 4] = [
    "message to edit not found",
    "message can't be edited",
    "message_id_invalid",
    "message to delete not found",
];
/// And of a chat where the bot may not speak.
const SHUT: [&str; 5] = ["chat not found", "blocked", "kicked", "not enough rights", "not a member"];

impl Desk {
    pub(super) async fn succeeded(&mut self, doing: Doing, message: i64) -> Result<(), Problem> {
        match doing {
            Doing::Words => Ok(()),
            Doing::Show { copy, shown } => {
                self.change_copy(&copy, |copy| {
                    copy.message = Some(message);
                    copy.shown = shown;
                })
                .await
            }
            Doing::Part { copy } => self.change_copy(&copy, |copy| copy.parts.push(message)).await,
            Doing::File { copy } => self.change_copy(&copy, |copy| copy.has_file = true).await,
            Doing::Remind { copy } => {
                self.change_copy(&copy, |copy| {
                    copy.reminded = true;
                    copy.reminder = Some(message);
                })
                .await
            }
            Doing::Unremind { copy } => self.change_copy(&copy, |copy| copy.reminder = None).await,
            Doing::ShowCard { card, shown } => {
                self.card_edited(&card);
                self.change_card(&card, |card| {
                    card.message = Some(message);
                    card.shown = shown;
                })
                .await
            }
            Doing::CardFile { card } => self.change_card(&card, |card| card.has_file = true).await,
        }
    }

    /// It may have been done, or not. Only what makes a new message is in doubt: an edit is made again.
    pub(super) async fn unsure_of(&mut self, doing: &Doing) -> Result<(), Problem> {
        match doing {
            Doing::Show { copy, .. } if self.is_unsent(copy) => {
                tracing::warn!(
                    "no reply came to a message that shows an ask; it is sent again, and either may be answered"
                );
                self.change_copy(copy, |copy| copy.lost = true).await
            }
            Doing::Remind { copy } => self.change_copy(copy, |copy| copy.reminded = true).await,
            Doing::ShowCard { card, .. } => {
                match self.memory.cards.get(card).filter(|card| card.message.is_none()) {
                    Some(card) => {
                        let memos = self.replace_card(card.clone());
                        self.save(memos).await
                    }
                    None => Ok(()),
                }
            }
            Doing::Words
            | Doing::Show { .. }
            | Doing::Part { .. }
            | Doing::File { .. }
            | Doing::Unremind { .. }
            | Doing::CardFile { .. } => Ok(()),
        }
    }

    fn is_unsent(&self, copy: &str) -> bool {
        self.memory.copies.get(copy).is_some_and(|copy| copy.message.is_none())
    }

    pub(super) async fn refused(
        &mut self,
        chat: i64,
        doing: &Doing,
        code: u16,
        words: &str,
        moved_to: Option<i64>,
    ) -> Result<(), Problem> {
        let lower = words.to_ascii_lowercase();
        let says = |known: &[&str]| known.iter().any(|known| lower.contains(known));
        if let Some(new) = moved_to {
            tracing::error!(
                chat,
                new,
                "the group has a new number: put it into chats in config.toml, and start the hub again"
            );
        } else if code == 403 || says(&SHUT) {
            tracing::warn!(
                chat,
                words,
                "the bot may not speak in this chat: write to it there, or take the chat out of config.toml"
            );
        }
        if moved_to.is_some() || code == 403 || says(&SHUT) {
            self.hold(chat);
            return Ok(());
        }
        let gone = says(&GONE);
        match doing {
            Doing::Words => Ok(()),
            Doing::Show { copy, .. } if gone => {
                self.change_copy(copy, |copy| {
                    copy.lost = true;
                    copy.message = None;
                })
                .await
            }
            Doing::ShowCard { card, .. } if gone => {
                self.change_card(card, |card| {
                    card.lost = true;
                    card.message = None;
                })
                .await
            }
            Doing::Show { copy: name, .. }
            | Doing::Part { copy: name }
            | Doing::ShowCard { card: name, .. } => {
                self.say_plainer(chat, name, words);
                Ok(())
            }
            Doing::File { copy } => self.change_copy(copy, |copy| copy.has_file = true).await,
            Doing::Remind { copy } => self.change_copy(copy, |copy| copy.reminded = true).await,
            Doing::Unremind { copy } => self.change_copy(copy, |copy| copy.reminder = None).await,
            Doing::CardFile { card } => self.change_card(card, |card| card.has_file = true).await,
        }
    }

    fn say_plainer(&mut self, chat: i64, name: &str, words: &str) {
        let now = self.plainness.get(name).copied().unwrap_or_default();
        tracing::warn!(chat, words, "Telegram refused a message; it is said more plainly");
        let next = match now {
            Plainness::Marked => Plainness::Plain,
            Plainness::Plain => Plainness::Bare,
            Plainness::Bare => {
                self.hold(chat);
                Plainness::Bare
            }
        };
        self.plainness.insert(name.to_owned(), next);
    }

    /// Nothing gets through there for now; tried again with growing pauses.
    fn hold(&mut self, chat: i64) {
        if let Some(lane) = self.lanes.get_mut(&chat) {
            lane.failed(tokio::time::Instant::now());
        }
    }

    async fn change_copy(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut super::memory::Copy),
    ) -> Result<(), Problem> {
        let Some(mut copy) = self.memory.copies.get(id).cloned() else { return Ok(()) };
        change(&mut copy);
        self.keep(copy).await
    }

    pub(super) async fn change_card(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut super::memory::Card),
    ) -> Result<(), Problem> {
        let Some(mut card) = self.memory.cards.get(id).cloned() else { return Ok(()) };
        change(&mut card);
        let memo = self.memory.put_card(card);
        self.save(vec![memo]).await
    }

    pub(super) fn say_page(&mut self, chat: i64, reply_to: Option<i64>, page: Page) {
        self.put(chat, Job::Words { page: page.fitting(), reply_to, plain: false });
    }
}
