//! Groups that became supergroups, which gave them a new id. Only Telegram itself says so: when it refuses a call, or in
//! the last message of the old group. The new id is admitted as long as config.toml lists the old one.

use super::access::{Person, Place};
use super::bot_loop::BotLoop;
use super::html::RichText;
use super::memory::{Content, Memory, SentMessage, SideKind, forget};
use super::queue::{Job, Words};
use super::waiting_texts::IncomingText;
use crate::hub::{Memo, Problem};
use serde_json::json;

pub const MOVED: &str = "moved";
/// A group becomes a supergroup once; a chain longer than this is none.
const MOST_MOVES: usize = 4;

impl BotLoop {
    /// Goes on in the chats that those of config.toml became, as earlier hubs heard it.
    pub(super) fn follow_moves(&mut self) {
        let listed = self.settings.chats.clone();
        for old in listed {
            let new = self.memory.current_chat(old);
            if new != old {
                tracing::warn!(
                    old,
                    new,
                    "a group became a supergroup: put its new id into chats in config.toml"
                );
                self.replace_chat(old, new);
            }
        }
    }

    /// Telegram says that a group has another id now. It goes on there, and people are told once.
    pub(super) async fn group_moved(&mut self, old: i64, new: i64) -> Result<(), Problem> {
        // Only groups move, and only to groups.
        if !self.settings.chats.contains(&old) || old >= 0 || new >= 0 || old == new {
            return Ok(());
        }
        tracing::warn!(old, new, "a group became a supergroup: put its new id into chats in config.toml");
        let memos = self.memory.move_chat(old, new);
        self.save(memos).await?;
        self.replace_chat(old, new);
        let page = RichText::default()
            .text("This group became a supergroup, which gave it a new id: ")
            .code(&new.to_string())
            .text(". Requests go on here. In config.toml, put the new id into ")
            .code("chats")
            .text(" in place of ")
            .code(&old.to_string())
            .text(".");
        self.put(new, Job::Words(Words { page, loud: true, ..Words::default() }));
        self.resync_soon();
        Ok(())
    }

    fn replace_chat(&mut self, old: i64, new: i64) {
        let known = self.settings.chats.contains(&new);
        self.settings.chats.retain(|chat| *chat != old || !known);
        self.settings.chats.iter_mut().filter(|chat| **chat == old).for_each(|chat| *chat = new);
        if let Some(mut queue) = self.queues.remove(&old) {
            queue.forget_replies();
            queue.reopen();
            self.queues.entry(new).or_insert(queue);
        }
    }
}

impl Memory {
    /// The id that a chat has now.
    pub fn current_chat(&self, chat: i64) -> i64 {
        let next = |chat: &i64| self.moved.get(chat).copied();
        std::iter::successors(Some(chat), next).take(MOST_MOVES).last().unwrap_or(chat)
    }

    /// Everything of a chat belongs to another from now on. Its messages stayed behind, so what is open is sent again.
    pub fn move_chat(&mut self, old: i64, new: i64) -> Vec<Memo> {
        self.moved.insert(old, new);
        let mut memos = vec![Memo { kind: MOVED, key: old.to_string(), body: Some(json!(new)) }];
        let messages: Vec<_> =
            self.messages.values().filter(|message| message.chat == old).cloned().collect();
        for message in messages {
            memos.push(match message.is_current() {
                true => self.put(moved(message, new)),
                false => {
                    memos.extend(self.remove(&message.id));
                    continue;
                }
            });
        }
        let notes: Vec<_> =
            self.chats.iter().filter(|(place, _)| place.chat == old).map(|(place, _)| *place).collect();
        for place in notes {
            if let Some(note) = self.chats.remove(&place) {
                memos.push(forget(super::memory::CHAT, place.key()));
                memos.push(self.put_chat(Place { chat: new, ..place }, note));
            }
        }
        let runs: Vec<_> = self.started_from.iter().filter(|(_, from)| from.chat == old).collect();
        let runs: Vec<_> = runs.into_iter().map(|(agent, from)| (agent.clone(), from.clone())).collect();
        for (agent, mut from) in runs {
            from.chat = new;
            memos.push(self.put_started_from(agent, from));
        }
        let held: Vec<_> = self.held.values().filter(|said| said.person.chat == old).cloned().collect();
        for said in held {
            memos.push(self.drop_held(said.person.place(), said.person.id));
            let person = Person { chat: new, ..said.person };
            memos.push(self.put_held(IncomingText { person, replied: None, ..said }));
        }
        memos
    }
}

/// Prepares a message to be sent again in another chat, where its old number means another message.
fn moved(mut message: SentMessage, chat: i64) -> SentMessage {
    message.chat = chat;
    message.send_again();
    message.sides.retain(|side| !matches!(side.what, SideKind::Prompt { .. }));
    message.sides.iter_mut().for_each(|side| side.message = None);
    match &mut message.shows {
        Content::Offer(offer) => offer.message_id = 0,
        Content::Choice(choice) => choice.reply_to = None,
        Content::Ask(_) | Content::Run(_) | Content::List(_) => {}
    }
    message
}
