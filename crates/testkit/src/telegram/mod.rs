//! A stand-in for Telegram's Bot API, on loopback: as strict as the real one about markup, what it changes in texts,
//! lengths, links, how often a bot may speak and what it hears in groups, and able to fail. Each rule names its
//! source where it stands. Tests play the people.

mod calls;
mod cleaning;
mod html;
mod picture;
mod server;
mod state;
mod updates;

pub use calls::seen;
pub use html::{Entity, Marked};

use crate::patience::eventually;
use serde_json::{Value, json};
use state::Shared;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

pub const TOKEN: &str = "110201543:FAKE-token_for-tests";
/// The bot itself, as `getMe` tells it.
pub const BOT: i64 = 110_201_543;
pub const NAME: &str = "aye_test_bot";

pub struct Telegram {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: i64,
    pub chat: i64,
    /// The topic of a forum that it is in.
    pub topic: Option<i64>,
    /// As people see it.
    pub text: String,
    /// The same, with what is marked in it.
    pub marked: Marked,
    /// As the bot sent it.
    pub html: String,
    pub buttons: Vec<Button>,
    /// The same buttons, as they are.
    pub rows: Vec<Vec<Button>>,
    /// It asks whoever it names to reply.
    pub force_reply: bool,
    pub silent: bool,
    pub reply_to: Option<i64>,
    /// Its name and text.
    pub file: Option<(String, String)>,
    pub edits: u32,
    pub deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    pub label: String,
    pub data: Option<String>,
    pub url: Option<String>,
}

/// What somebody who pressed a button was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub alert: bool,
}

/// How a call can go wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Refused for now; the chat stays shut for so many seconds.
    TooMany(u64),
    BadGateway,
    /// The connection breaks, and nothing was done.
    CloseBefore,
    /// It was done, and the connection breaks before anybody hears of it.
    CloseAfter,
    HangBefore,
    HangAfter,
    Refuse(u16, String),
}

fn kind(chat: i64) -> &'static str {
    if chat < 0 { "supergroup" } else { "private" }
}

impl Message {
    pub fn labels(&self) -> Vec<&str> {
        self.buttons.iter().map(|button| button.label.as_str()).collect()
    }

    /// The data of the button that begins like this.
    #[track_caller]
    pub fn data(&self, label: &str) -> String {
        let button = self.buttons.iter().find(|button| button.label.contains(label));
        let data = button.and_then(|button| button.data.clone());
        data.unwrap_or_else(|| panic!("no button {label:?} among {:?}", self.labels()))
    }
}

impl Telegram {
    /// Its second lasts as long as this says.
    pub fn start(second: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::new(TOKEN, second));
        server::serve(listener, shared.clone());
        Self { url, shared }
    }

    /// The next call of this method meets this.
    pub fn fail(&self, method: &str, fault: Fault) {
        self.shared.state().faults.push_back((method.to_owned(), fault));
    }

    /// Every so many calls, but for those that ask for updates, one meets this.
    pub fn fail_every(&self, calls: usize, fault: Fault) {
        self.shared.state().every = Some((calls, fault));
    }

    pub fn fail_no_more(&self) {
        let mut state = self.shared.state();
        state.every = None;
        state.faults.clear();
    }

    /// From now on this chat is closed to the bot; Telegram says so with this code and these words.
    pub fn shut(&self, chat: i64, code: u16, words: &str) {
        self.shared.state().shut.insert(chat, (code, words.to_owned()));
    }

    /// When the bot tried to speak in a chat that is closed to it, in Telegram's seconds.
    pub fn tries(&self, chat: i64) -> Vec<f64> {
        let state = self.shared.state();
        state.tries.iter().filter(|(tried, _)| *tried == chat).map(|(_, at)| *at).collect()
    }

    /// A group becomes a supergroup, with another number.
    pub fn migrate(&self, chat: i64, to: i64) {
        self.shared.state().migrated.insert(chat, to);
    }

    /// The same, and the group's last message says so.
    pub fn migrate_and_tell(&self, user: i64, chat: i64, to: i64) {
        self.migrate(chat, to);
        self.send(user, chat, json!({ "migrate_to_chat_id": to }));
    }

    /// Somebody is not in this group.
    pub fn leave(&self, chat: i64, user: i64) {
        self.shared.state().left.insert((chat, user));
    }

    /// From now on presses are answered too late.
    pub fn expire_presses(&self) {
        self.shared.state().presses_expire = true;
    }

    pub fn open_again(&self, chat: i64) {
        self.shared.state().shut.remove(&chat);
    }

    /// The bot hears everything that is said in groups.
    pub fn without_privacy(&self) {
        self.shared.state().hears_all = true;
    }

    /// Somebody set a webhook for this bot.
    pub fn set_webhook(&self, url: &str) {
        self.shared.state().webhook = url.to_owned();
        self.poll_from_elsewhere();
    }

    /// The commands that the bot offers in people's menus.
    pub fn commands(&self) -> Vec<(String, String)> {
        self.shared.state().commands.clone()
    }

    /// Every call that was let through to a chat: the method and the message it made or changed.
    pub fn made(&self, chat: i64) -> Vec<(String, i64)> {
        let state = self.shared.state();
        let here = state.made.iter().filter(|made| made.chat == chat);
        here.map(|made| (made.method.clone(), made.message)).collect()
    }

    /// A picture as somebody sends it, by the name under which the bot can fetch it.
    pub fn photo(&self, id: &str, bytes: &[u8]) -> Value {
        self.shared.state().files.insert(id.to_owned(), bytes.to_vec());
        json!([{ "file_id": id, "file_unique_id": id, "width": 90, "height": 90, "file_size": bytes.len() }])
    }

    /// Batches of updates come last first.
    pub fn send_backwards(&self) {
        self.shared.state().backwards = true;
    }

    /// What a real server would not have taken.
    pub fn complaints(&self) -> Vec<String> {
        self.shared.state().complaints.clone()
    }

    pub fn calls(&self, method: &str) -> usize {
        self.shared.state().calls.iter().filter(|call| *call == method).count()
    }

    /// Calls that get no reply and were not given up yet.
    pub fn hanging(&self) -> usize {
        self.shared.state().hanging
    }

    /// Whether the bot said that it is done with an update.
    pub fn is_confirmed(&self, update: i64) -> bool {
        self.shared.state().confirmed.iter().any(|offset| *offset > update)
    }

    pub fn confirmed(&self, update: i64) {
        eventually("the bot to confirm an update", || self.is_confirmed(update).then_some(()));
    }

    /// What a chat shows now, oldest first.
    pub fn messages(&self, chat: i64) -> Vec<Message> {
        let state = self.shared.state();
        state.messages.iter().filter(|message| message.chat == chat && !message.deleted).cloned().collect()
    }

    /// The first message in a chat whose text has these words, once there is one.
    #[track_caller]
    pub fn message(&self, chat: i64, words: &str) -> Message {
        self.message_where(chat, words, |message| message.text.contains(words))
    }

    #[track_caller]
    pub fn message_where(&self, chat: i64, what: &str, is_it: impl Fn(&Message) -> bool) -> Message {
        eventually(&format!("a message in {chat}: {what}"), || {
            self.messages(chat).into_iter().find(|message| is_it(message))
        })
    }

    /// This message, once it has these words.
    #[track_caller]
    pub fn changed(&self, message: &Message, words: &str) -> Message {
        self.message_where(message.chat, words, |found| found.id == message.id && found.text.contains(words))
    }

    /// This message, once a button of it begins like this.
    #[track_caller]
    pub fn with_button(&self, message: &Message, label: &str) -> Message {
        let has = |found: &Message| found.buttons.iter().any(|button| button.label.starts_with(label));
        self.message_where(message.chat, label, |found| found.id == message.id && has(found))
    }

    /// Presses a button and returns the press.
    #[track_caller]
    pub fn press(&self, user: i64, message: &Message, label: &str) -> String {
        self.press_data(user, message.chat, message.id, &message.data(label))
    }

    pub fn press_data(&self, user: i64, chat: i64, message: i64, data: &str) -> String {
        let mut state = self.shared.state();
        let id = format!("press-{}", state.presses.len());
        state.presses.insert(id.clone(), None);
        let mut pressed =
            json!({"message_id": message, "date": now(), "chat": {"id": chat, "type": kind(chat)}});
        if let Some(topic) = state.topic_of(chat, message) {
            pressed["message_thread_id"] = json!(topic);
            pressed["is_topic_message"] = json!(true);
        }
        state.update(json!({"callback_query": {
            "id": id, "from": person(user), "chat_instance": "1", "data": data, "message": pressed,
        }}));
        self.shared.changed.notify_all();
        id
    }

    /// What whoever pressed was told.
    #[track_caller]
    pub fn notice(&self, press: &str) -> Notice {
        eventually("a press to be answered", || self.shared.state().presses.get(press).cloned().flatten())
    }

    /// Presses, and returns what the person is told.
    #[track_caller]
    pub fn told(&self, user: i64, message: &Message, label: &str) -> Notice {
        let press = self.press(user, message, label);
        self.notice(&press)
    }

    pub fn say(&self, user: i64, chat: i64, text: &str) -> i64 {
        self.send(user, chat, json!({ "text": text }))
    }

    /// In a topic of a forum, which is there from now on.
    pub fn say_in(&self, user: i64, chat: i64, topic: i64, text: &str) -> i64 {
        self.shared.state().topics.insert((chat, topic), false);
        self.send(user, chat, json!({"text": text, "message_thread_id": topic, "is_topic_message": true}))
    }

    pub fn close_topic(&self, chat: i64, topic: i64) {
        self.shared.state().topics.insert((chat, topic), true);
    }

    /// Deletes a topic with all of its messages.
    pub fn delete_topic(&self, chat: i64, topic: i64) {
        let mut state = self.shared.state();
        state.topics.remove(&(chat, topic));
        let inside =
            state.messages.iter_mut().filter(|found| (found.chat, found.topic) == (chat, Some(topic)));
        inside.for_each(|message| message.deleted = true);
    }

    pub fn reply(&self, user: i64, to: &Message, text: &str) -> i64 {
        let mut fields = json!({"text": text, "reply_to_message": replied(to)});
        if let Some(topic) = to.topic {
            fields["message_thread_id"] = json!(topic);
            fields["is_topic_message"] = json!(true);
        }
        self.send(user, to.chat, fields)
    }

    /// A message with these fields; returns the number of its update.
    pub fn send(&self, user: i64, chat: i64, fields: Value) -> i64 {
        self.update_with("message", user, chat, fields)
    }

    pub fn edit(&self, user: i64, chat: i64, text: &str) -> i64 {
        self.update_with("edited_message", user, chat, json!({ "text": text }))
    }

    fn update_with(&self, field: &str, user: i64, chat: i64, fields: Value) -> i64 {
        let mut state = self.shared.state();
        state.last_message += 1;
        let written = (chat, state.last_message);
        state.written.insert(written);
        let mut message = json!({
            "message_id": state.last_message, "date": now(), "from": person(user), "chat": {"id": chat, "type": kind(chat)},
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        if chat < 0 && !state.hears_all && !updates::is_for_the_bot(&message) {
            return state.last_update;
        }
        let update = state.update(json!({ field: message }));
        self.shared.changed.notify_all();
        update
    }

    /// An update that was sent before comes once more.
    pub fn send_again(&self, update: i64) {
        let mut state = self.shared.state();
        let found = state.history.iter().find(|(id, _)| *id == update).cloned();
        state.waiting.extend(found);
        self.shared.changed.notify_all();
    }

    /// Somebody deletes a message of the bot's.
    pub fn delete(&self, message: &Message) {
        let mut state = self.shared.state();
        let found = state.messages.iter_mut().find(|found| found.id == message.id);
        found.expect("a message of this bot").deleted = true;
    }

    /// The number of the last update.
    pub fn last_update(&self) -> i64 {
        self.shared.state().last_update
    }

    /// Another program asks for this bot's updates.
    pub fn poll_from_elsewhere(&self) {
        self.shared.state().polls += 1;
        self.shared.changed.notify_all();
    }
}

/// A message of the bot's, as a reply to it names it.
pub fn replied(to: &Message) -> Value {
    let from = json!({ "id": BOT, "is_bot": true, "first_name": "Aye", "username": NAME });
    json!({ "message_id": to.id, "chat": { "id": to.chat }, "from": from })
}

/// As Telegram dates messages.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn person(user: i64) -> Value {
    json!({ "id": user, "is_bot": false, "first_name": format!("User{user}") })
}
