//! What the Bot API sends us, as far as we read it. Unknown fields and kinds of updates are ignored.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Update {
    pub update_id: i64,
    pub message: Option<Message>,
    pub edited_message: Option<Message>,
    pub callback_query: Option<CallbackQuery>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Message {
    pub message_id: i64,
    #[serde(default)]
    date: i64,
    #[serde(default)]
    message_thread_id: Option<i64>,
    #[serde(default)]
    is_topic_message: bool,
    pub from: Option<User>,
    /// Set when a chat speaks in a person's place: a channel, or an administrator who stays anonymous.
    pub sender_chat: Option<Chat>,
    pub chat: Chat,
    pub text: Option<String>,
    /// The text under a picture.
    pub caption: Option<String>,
    /// The same picture in several sizes, the smallest first.
    #[serde(default)]
    pub photo: Vec<PhotoSize>,
    pub reply_to_message: Option<Box<Replied>>,
    /// Set in the last message of a group that became a supergroup: its new id.
    pub migrate_to_chat_id: Option<i64>,
    pub forward_origin: Option<Value>,
    /// Everything else: voices, files, and what happened to the chat itself.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PhotoSize {
    pub file_id: String,
    #[serde(default)]
    pub file_size: u64,
}

/// What people send that is no text.
const MEDIA: [&str; 12] = [
    "voice",
    "audio",
    "video",
    "video_note",
    "document",
    "sticker",
    "animation",
    "location",
    "contact",
    "poll",
    "venue",
    "dice",
];

impl Message {
    /// When it was written, as far as Telegram says so.
    pub fn written_at(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.date).ok().filter(|_| self.date > 0)
    }

    /// The topic that it was written in. Outside of forums a thread is only a chain of replies.
    pub fn topic(&self) -> Option<i64> {
        self.message_thread_id.filter(|_| self.is_topic_message)
    }

    /// Something was sent that cannot be read here. Pins, joins and the like are nobody's words.
    pub fn has_media(&self) -> bool {
        !self.photo.is_empty() || MEDIA.iter().any(|kind| self.other.contains_key(*kind))
    }
}

/// The message that another replies to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Replied {
    pub message_id: i64,
    pub from: Option<User>,
}

/// The bot itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BotUser {
    pub id: i64,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub first_name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CallbackQuery {
    pub id: String,
    pub from: User,
    /// Only its place is read: Telegram may no longer know more of an old one.
    pub message: Option<Pressed>,
    pub data: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Pressed {
    pub message_id: i64,
    pub chat: Chat,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct User {
    pub id: i64,
    #[serde(default)]
    pub is_bot: bool,
    #[serde(default)]
    pub first_name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Chat {
    pub id: i64,
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// One update of a batch: its number, and what it says if that can be read.
#[derive(Debug, Clone)]
pub struct ReceivedUpdate {
    pub id: i64,
    pub update: Option<Update>,
}

/// Reads a batch, oldest first, whatever order it came in. One that cannot be read must not hold up the others.
pub fn batch(result: Value) -> Vec<ReceivedUpdate> {
    let Value::Array(updates) = result else { return Vec::new() };
    let received = |update: Value| {
        let id = update["update_id"].as_i64()?;
        let update = serde_json::from_value(update).inspect_err(
            |error| tracing::warn!(id, %error, "an update from Telegram makes no sense and is ignored"),
        );
        Some(ReceivedUpdate { id, update: update.ok() })
    };
    let mut batch: Vec<_> = updates.into_iter().filter_map(received).collect();
    batch.sort_by_key(|received| received.id);
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_batch_is_read_in_order_and_what_makes_no_sense_passes_by() {
        let read = batch(json!([
            {"update_id": 3, "message": {"message_id": "seven"}},
            {"update_id": 2, "poll": {"new": "kind"}},
            {"nothing": true},
            {"update_id": 1, "message": {"message_id": 7, "chat": {"id": 5, "type": "private"}, "text": "hi", "new": 1}},
        ]));
        let seen: Vec<_> = read.iter().map(|received| (received.id, received.update.is_some())).collect();
        assert_eq!(seen, [(1, true), (2, true), (3, false)]);
    }
}
