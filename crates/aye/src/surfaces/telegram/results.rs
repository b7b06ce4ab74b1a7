//! What became of the calls: noted where it went well, tried otherwise where it did not.

use super::calls::{Doing, Plainness};
use super::desk::Desk;
use super::html::Page;
use super::lane::Job;
use super::memory::{Side, SideKind};
use super::menu::Menu;
use crate::hub::Problem;

/// What Telegram says of a message that is no longer there, or cannot be changed any more.
const GONE: [&str; 4] = [
    "message to edit not found",
    "message can't be edited",
    "message_id_invalid",
    "message to delete not found",
];
/// And of an address that it would not open, such as one without a dot in its name.
const NO_LINK: [&str; 3] = ["button url", "button_url_invalid", "wrong http url"];
/// And of a chat where the bot may not speak.
const SHUT: [&str; 5] = ["chat not found", "blocked", "kicked", "not enough rights", "not a member"];

/// Whether the bot may not speak in a chat for now.
pub fn is_shut(code: u16, words: &str, moved_to: Option<i64>) -> bool {
    let words = words.to_ascii_lowercase();
    moved_to.is_some() || code == 403 || SHUT.iter().any(|known| words.contains(known))
}

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
            Doing::Side { copy, what } => self.add_side(&copy, what, Some(message)).await,
            Doing::Unside { copy, message } => self.drop_side(&copy, message).await,
            Doing::ShowMenu { menu, shown } => {
                let Some(menu) = self.memory.menus.get(&menu).cloned() else { return Ok(()) };
                let memo = self.memory.put_menu(Menu { message: Some(message), shown, ..menu });
                self.save(vec![memo]).await
            }
            Doing::RemindOfList { menu } => self.reminded_of_list(&menu, Some(message)).await,
            Doing::UnremindOfList { menu } => self.reminded_of_list(&menu, None).await,
            Doing::ShowCard { card, shown } => {
                self.card_edited(&card);
                self.change_card(&card, |card| {
                    card.message = Some(message);
                    card.shown = shown;
                })
                .await
            }
            Doing::CardFile { card } => {
                self.change_card(&card, |card| {
                    card.has_file = true;
                    card.sides.push(message);
                })
                .await
            }
            Doing::Ring { card } => {
                self.change_card(&card, |card| {
                    card.rung = true;
                    card.sides.push(message);
                })
                .await
            }
        }
    }

    /// It will not be tried again.
    pub(super) async fn gave_up(&mut self, doing: &Doing) -> Result<(), Problem> {
        match doing {
            Doing::Side { copy, what } => self.add_side(copy, *what, None).await,
            Doing::CardFile { card } => self.change_card(card, |card| card.has_file = true).await,
            Doing::Ring { card } => self.change_card(card, |card| card.rung = true).await,
            Doing::RemindOfList { menu } | Doing::UnremindOfList { menu } => {
                self.reminded_of_list(menu, None).await
            }
            Doing::Words
            | Doing::Show { .. }
            | Doing::Unside { .. }
            | Doing::ShowMenu { .. }
            | Doing::ShowCard { .. } => Ok(()),
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
            // Should the edit be made late, over one that overtook it, the message is edited once more.
            Doing::Show { copy, .. } => self.change_copy(copy, |copy| copy.shown.clear()).await,
            // A second one of these would ring twice, or ask twice.
            Doing::Side { copy, what: what @ (SideKind::Reminder | SideKind::Prompt { .. }) } => {
                self.add_side(copy, *what, None).await
            }
            Doing::ShowCard { card, .. } => {
                match self.memory.cards.get(card).filter(|card| card.message.is_none()) {
                    Some(card) => {
                        let memos = self.replace_card(card.clone());
                        self.save(memos).await
                    }
                    None => self.change_card(card, |card| card.shown.clear()).await,
                }
            }
            Doing::Ring { .. } | Doing::RemindOfList { .. } => self.gave_up(doing).await,
            // Its asks are announced anew, each by itself; should it be there after all, its buttons do nothing.
            Doing::ShowMenu { menu, .. } => {
                if let Some(menu) = self.memory.menus.get_mut(menu) {
                    menu.shown.clear();
                }
                self.lose_menu(menu).await
            }
            Doing::Words
            | Doing::Side { .. }
            | Doing::Unside { .. }
            | Doing::UnremindOfList { .. }
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
            tracing::error!(chat, new, "the group has a new number: put it into chats in config.toml");
            return Ok(());
        }
        if is_shut(code, words, moved_to) {
            tracing::warn!(
                chat,
                words,
                "the bot may not speak in this chat: write to it there, or take the chat out of config.toml"
            );
            return Ok(());
        }
        if says(&NO_LINK) && !self.linkless {
            tracing::warn!(words, "Telegram takes public_url for no link: it is shown as text from now on");
            self.linkless = true;
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
            Doing::ShowMenu { menu, .. } if gone => self.lose_menu(menu).await,
            Doing::ShowMenu { menu: name, .. }
            | Doing::Show { copy: name, .. }
            | Doing::Side { copy: name, what: SideKind::Part { .. } }
            | Doing::ShowCard { card: name, .. } => {
                self.say_plainer(chat, name, words);
                Ok(())
            }
            Doing::Unside { copy, message } => self.drop_side(copy, *message).await,
            Doing::Side { .. }
            | Doing::CardFile { .. }
            | Doing::Ring { .. }
            | Doing::RemindOfList { .. }
            | Doing::UnremindOfList { .. } => self.gave_up(doing).await,
        }
    }

    async fn reminded_of_list(&mut self, id: &str, reminder: Option<i64>) -> Result<(), Problem> {
        let Some(menu) = self.memory.menus.get(id).cloned() else { return Ok(()) };
        let memo = self.memory.put_menu(Menu { reminded: true, reminder, ..menu });
        self.save(vec![memo]).await
    }

    async fn lose_menu(&mut self, id: &str) -> Result<(), Problem> {
        // An offer holds a person's text, and is sent again rather than lost.
        if self.memory.menus.get(id).is_none_or(|menu| menu.message.is_some() || !menu.is_list()) {
            return Ok(());
        }
        let memos = self.memory.drop_menu(id);
        self.save(memos).await?;
        self.resync_soon();
        Ok(())
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

    /// A side message that is there, or without a number one that will not be tried again.
    async fn add_side(&mut self, copy: &str, what: SideKind, message: Option<i64>) -> Result<(), Problem> {
        self.change_copy(copy, |copy| {
            copy.reminded |= what == SideKind::Reminder;
            copy.sides.push(Side { message, what });
        })
        .await
    }

    async fn drop_side(&mut self, copy: &str, message: i64) -> Result<(), Problem> {
        self.change_copy(copy, |copy| copy.sides.retain(|side| side.message != Some(message))).await
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
