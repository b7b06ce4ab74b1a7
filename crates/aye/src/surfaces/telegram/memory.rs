//! What the bot must not forget when the hub is restarted; the hub keeps it. Whatever changes here is on
//! disk before it is acted on.

use super::held::Said;
pub use super::kept::{Card, ChatNote, Copy, Homed, Side, SideKind};
use super::menu::Menu;
use crate::hub::{Hub, Memo, NO_RANDOMNESS, Problem};
use aye_core::{AgentId, AskId, Surface};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::{HashMap, HashSet, VecDeque};

const COPY: &str = "copy";
const CARD: &str = "card";
const CHAT: &str = "chat";
const HOME: &str = "home";
const HANDLED: &str = "handled";
const MENU: &str = "menu";
const HELD: &str = "held";
pub const START: &str = "start";

/// Telegram sends an update again until it is confirmed; these are known to be done.
const HANDLED_KEPT: usize = 1000;
/// Buttons under older messages are no longer known.
const KEPT: SignedDuration = SignedDuration::from_hours(24 * 7);

/// Whose button a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    Copy(String),
    Card(String),
    Menu(String),
}

#[derive(Debug, Default)]
pub struct Memory {
    pub copies: HashMap<String, Copy>,
    pub by_ask: HashMap<AskId, Vec<String>>,
    pub cards: HashMap<String, Card>,
    pub menus: HashMap<String, Menu>,
    /// Texts that may go on in the next message, by chat and person.
    pub held: HashMap<(i64, i64), Said>,
    pub chats: HashMap<i64, ChatNote>,
    pub homes: HashMap<AgentId, Homed>,
    tokens: HashMap<String, Holder>,
    handled: VecDeque<i64>,
    known: HashSet<i64>,
    count: u64,
}

impl Memory {
    pub async fn recall(hub: &Hub) -> Result<Self, Problem> {
        let mut memory = Self::default();
        for copy in all::<Copy>(hub, COPY).await? {
            memory.index_copy(copy.1);
        }
        for card in all::<Card>(hub, CARD).await? {
            memory.index_card(card.1);
        }
        for menu in all::<Menu>(hub, MENU).await? {
            memory.index_menu(menu.1);
        }
        for (_, said) in all::<Said>(hub, HELD).await? {
            memory.held.insert((said.person.chat, said.person.id), said);
        }
        for (chat, note) in all::<ChatNote>(hub, CHAT).await? {
            if let Ok(chat) = chat.parse() {
                memory.chats.insert(chat, note);
            }
        }
        for (agent, home) in all::<Homed>(hub, HOME).await? {
            if let Ok(agent) = AgentId::try_from(agent) {
                memory.homes.insert(agent, home);
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

    fn index_copy(&mut self, copy: Copy) {
        for token in copy.tokens.keys() {
            self.tokens.insert(token.clone(), Holder::Copy(copy.id.clone()));
        }
        let of_ask = self.by_ask.entry(copy.ask.clone()).or_default();
        if !of_ask.contains(&copy.id) {
            of_ask.push(copy.id.clone());
        }
        self.copies.insert(copy.id.clone(), copy);
    }

    fn index_card(&mut self, card: Card) {
        self.tokens.insert(card.token.clone(), Holder::Card(card.id.clone()));
        self.cards.insert(card.id.clone(), card);
    }

    fn index_menu(&mut self, menu: Menu) {
        for token in menu.tokens.keys() {
            self.tokens.insert(token.clone(), Holder::Menu(menu.id.clone()));
        }
        self.menus.insert(menu.id.clone(), menu);
    }

    /// Whether a list announces this ask in a chat.
    pub fn is_listed(&self, ask: &AskId, chat: i64) -> bool {
        self.menus.values().any(|menu| menu.chat == chat && menu.announces(ask))
    }

    pub fn is_listed_anywhere(&self, ask: &AskId) -> bool {
        self.menus.values().any(|menu| menu.announces(ask))
    }

    pub fn put_menu(&mut self, menu: Menu) -> Memo {
        let memo = Memo { kind: MENU, key: menu.id.clone(), body: Some(json!(menu)) };
        self.index_menu(menu);
        memo
    }

    /// A list that may not be there announces nothing: its asks come by themselves.
    pub fn drop_menu(&mut self, id: &str) -> Vec<Memo> {
        let Some(menu) = self.menus.remove(id) else { return vec![] };
        for token in menu.tokens.keys() {
            self.tokens.remove(token);
        }
        vec![forget(MENU, menu.id)]
    }

    pub fn put_held(&mut self, said: Said) -> Memo {
        let (chat, user) = (said.person.chat, said.person.id);
        let memo = Memo { kind: HELD, key: format!("{chat}:{user}"), body: Some(json!(said)) };
        self.held.insert((chat, user), said);
        memo
    }

    pub fn drop_held(&mut self, chat: i64, user: i64) -> Memo {
        self.held.remove(&(chat, user));
        forget(HELD, format!("{chat}:{user}"))
    }

    pub fn holder(&self, token: &str) -> Option<Holder> {
        self.tokens.get(token).cloned()
    }

    /// The messages that show this ask in a chat, oldest first.
    pub fn copies_in(&self, ask: &AskId, chat: i64) -> Vec<Copy> {
        let ids = self.by_ask.get(ask).map(Vec::as_slice).unwrap_or_default();
        let copies = ids.iter().filter_map(|id| self.copies.get(id));
        copies.filter(|copy| copy.chat == chat).cloned().collect()
    }

    pub fn copy_of_message(&self, chat: i64, message: i64) -> Option<&Copy> {
        self.copies.values().find(|copy| copy.chat == chat && copy.is_shown_by(message))
    }

    pub fn card_of_message(&self, chat: i64, message: i64) -> Option<&Card> {
        let is_it = |card: &&Card| card.message == Some(message) || card.sides.contains(&message);
        self.cards.values().filter(|card| card.chat == chat).find(is_it)
    }

    /// The message that waits for a text of this person.
    pub fn waiting_for(&self, chat: i64, user: i64) -> Option<&Copy> {
        let waits = |copy: &&Copy| {
            copy.chat == chat && copy.draft.typing.as_ref().is_some_and(|typing| typing.user == user)
        };
        self.copies.values().filter(waits).max_by_key(|copy| copy.made_at)
    }

    /// The newest of this run's messages that does not show its end yet.
    pub fn active_card(&self, agent: &AgentId) -> Option<&Card> {
        let active = self.cards.values().filter(|card| card.agent == *agent && !card.done && !card.lost);
        active.max_by_key(|card| card.since)
    }

    pub fn is_handled(&self, update: i64) -> bool {
        self.known.contains(&update)
    }

    pub fn put_copy(&mut self, copy: Copy) -> Memo {
        let memo = Memo { kind: COPY, key: copy.id.clone(), body: Some(json!(copy)) };
        self.index_copy(copy);
        memo
    }

    pub fn put_card(&mut self, card: Card) -> Memo {
        let memo = Memo { kind: CARD, key: card.id.clone(), body: Some(json!(card)) };
        self.index_card(card);
        memo
    }

    pub fn put_chat(&mut self, chat: i64, note: ChatNote) -> Memo {
        let memo = Memo { kind: CHAT, key: chat.to_string(), body: Some(json!(note)) };
        self.chats.insert(chat, note);
        memo
    }

    pub fn put_home(&mut self, agent: AgentId, home: Homed) -> Memo {
        let memo = Memo { kind: HOME, key: agent.to_string(), body: Some(json!(home)) };
        self.homes.insert(agent, home);
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

    pub fn drop_copy(&mut self, id: &str) -> Vec<Memo> {
        let Some(copy) = self.copies.remove(id) else { return vec![] };
        for token in copy.tokens.keys() {
            self.tokens.remove(token);
        }
        if let Some(of_ask) = self.by_ask.get_mut(&copy.ask) {
            of_ask.retain(|known| known != id);
            if of_ask.is_empty() {
                self.by_ask.remove(&copy.ask);
            }
        }
        vec![forget(COPY, copy.id)]
    }

    /// Forgets what is long over, so that this does not grow for ever. An ask that is still open stays.
    pub fn forget_old(
        &mut self,
        is_open: impl Fn(&AskId) -> bool,
        is_alive: impl Fn(&AgentId) -> bool,
        now: Timestamp,
    ) -> Vec<Memo> {
        let is_old = |at: Timestamp| now.duration_since(at) > KEPT;
        let copies = self.copies.values().filter(|copy| is_old(copy.made_at) && !is_open(&copy.ask));
        let copies: Vec<_> = copies.map(|copy| copy.id.clone()).collect();
        let mut memos: Vec<_> = copies.iter().flat_map(|id| self.drop_copy(id)).collect();
        let cards: Vec<_> = self
            .cards
            .values()
            .filter(|card| is_old(card.made_at) && !is_alive(&card.agent))
            .cloned()
            .collect();
        for card in cards {
            self.tokens.remove(&card.token);
            self.cards.remove(&card.id);
            memos.push(forget(CARD, card.id));
        }
        let menus: Vec<_> = self
            .menus
            .values()
            .filter(|menu| is_old(menu.made_at) && !menu.lists_any(&is_open))
            .map(|menu| menu.id.clone())
            .collect();
        memos.extend(menus.iter().flat_map(|id| self.drop_menu(id)));
        let homes: Vec<_> = self
            .homes
            .iter()
            .filter(|(agent, home)| is_old(home.at) && !is_alive(agent))
            .map(|(agent, _)| agent.clone())
            .collect();
        for agent in homes {
            self.homes.remove(&agent);
            memos.push(forget(HOME, agent.to_string()));
        }
        memos
    }
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

/// 128 bits that nobody can guess, in 32 characters.
pub fn random() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| NO_RANDOMNESS)?;
    Ok(aye_core::digest::hex(&bytes))
}
