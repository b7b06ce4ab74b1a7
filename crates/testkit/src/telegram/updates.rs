//! What the bot is told of, and when. Sources: "Getting updates" in the Bot API's documentation (offsets, the limit
//! of 100, the one poll at a time), and "Privacy mode" in Telegram's introduction to bots.

use super::calls::{Reply, error, ok};
use super::state::Shared;
use super::{BOT, NAME};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MOST_UPDATES: u64 = 100;
const LONGEST_POLL: f64 = 50.0;

pub fn get_updates(shared: &Shared, body: &Value) -> Reply {
    let mut state = shared.state();
    if !state.webhook.is_empty() {
        return error(
            409,
            "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
        );
    }
    state.polls += 1;
    let me = state.polls;
    shared.changed.notify_all();
    if let Some(offset) = body["offset"].as_i64() {
        state.waiting.retain(|(id, _)| *id >= offset);
        state.confirmed.push(offset);
    }
    let wait = body["timeout"].as_f64().unwrap_or_default().min(LONGEST_POLL);
    let until = Instant::now() + shared.second.mul_f64(wait);
    let limit = body["limit"].as_u64().unwrap_or(MOST_UPDATES).clamp(1, MOST_UPDATES);
    let allowed = |update: &Value| {
        let kinds = body["allowed_updates"].as_array();
        kinds.is_none_or(|kinds| kinds.iter().filter_map(Value::as_str).any(|kind| update[kind].is_object()))
    };
    loop {
        if state.polls != me {
            return error(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            );
        }
        let waiting = state.waiting.iter().map(|(_, update)| update.clone()).filter(allowed);
        let mut found: Vec<_> = waiting.take(limit as usize).collect();
        let left = until.saturating_duration_since(Instant::now());
        if !found.is_empty() || left.is_zero() {
            if state.backwards {
                found.reverse();
            }
            return ok(json!(found));
        }
        state = shared.changed.wait_timeout(state, left.min(Duration::from_millis(200))).unwrap().0;
    }
}

/// Whether a bot in privacy mode is shown this message of a group: commands, replies to it, and what happens to the
/// group itself. Commands for another bot are not.
pub fn is_for_the_bot(message: &Value) -> bool {
    let Some(text) = message["text"].as_str().or_else(|| message["caption"].as_str()) else {
        return message["reply_to_message"]["from"]["id"] == BOT || !has_media(message);
    };
    if message["reply_to_message"]["from"]["id"] == BOT {
        return true;
    }
    let word = text.split_whitespace().next().unwrap_or_default();
    let Some(command) = word.strip_prefix('/') else { return false };
    command.split_once('@').is_none_or(|(_, name)| name.eq_ignore_ascii_case(NAME))
}

fn has_media(message: &Value) -> bool {
    [
        "photo",
        "voice",
        "document",
        "video",
        "audio",
        "sticker",
        "animation",
        "video_note",
        "location",
        "contact",
    ]
    .iter()
    .any(|field| message.get(field).is_some())
}
