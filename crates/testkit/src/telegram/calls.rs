//! The Bot API's methods, as strict as the real ones.

use super::html;
use super::state::Shared;
use super::{Button, Message, Notice};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LONGEST_TEXT: usize = 4096;
const LONGEST_DATA: usize = 64;
const LONGEST_NOTICE: usize = 200;
const MOST_BUTTONS: usize = 100;

/// A status and a body.
pub type Reply = (u16, Value);

pub fn ok(result: Value) -> Reply {
    (200, json!({ "ok": true, "result": result }))
}

pub fn error(code: u16, words: &str) -> Reply {
    (code, json!({ "ok": false, "error_code": code, "description": words }))
}

pub fn too_many(seconds: u64) -> Reply {
    let words = format!("Too Many Requests: retry after {seconds}");
    (
        429,
        json!({ "ok": false, "error_code": 429, "description": words, "parameters": { "retry_after": seconds } }),
    )
}

pub fn call(shared: &Shared, method: &str, body: &Value) -> Reply {
    let known: &[&str] = match method {
        "getUpdates" => &["offset", "timeout", "allowed_updates", "limit"],
        "sendMessage" => &[
            "chat_id",
            "text",
            "parse_mode",
            "link_preview_options",
            "reply_markup",
            "disable_notification",
            "reply_parameters",
        ],
        "editMessageText" => {
            &["chat_id", "message_id", "text", "parse_mode", "link_preview_options", "reply_markup"]
        }
        "deleteMessage" => &["chat_id", "message_id"],
        "answerCallbackQuery" => &["callback_query_id", "text", "show_alert"],
        "sendDocument" => &["chat_id", "document", "disable_notification", "reply_parameters"],
        _ => return error(404, "Not Found"),
    };
    let unknown = body.as_object().into_iter().flatten().find(|(field, _)| !known.contains(&field.as_str()));
    if let Some((field, _)) = unknown {
        return refuse(shared, &format!("{method} knows no {field}"));
    }
    match method {
        "getUpdates" => get_updates(shared, body),
        "sendMessage" => send(shared, body),
        "editMessageText" => edit(shared, body),
        "deleteMessage" => delete(shared, body),
        "answerCallbackQuery" => answer(shared, body),
        _ => send_document(shared, body),
    }
}

/// A mistake of the bot's, which a test can look at.
fn refuse(shared: &Shared, words: &str) -> Reply {
    shared.state().complaints.push(words.to_owned());
    error(400, &format!("Bad Request: {words}"))
}

fn get_updates(shared: &Shared, body: &Value) -> Reply {
    let mut state = shared.state();
    state.polls += 1;
    let me = state.polls;
    shared.changed.notify_all();
    if let Some(offset) = body["offset"].as_i64() {
        state.waiting.retain(|(id, _)| *id >= offset);
        state.confirmed.push(offset);
    }
    let wait = shared.second.mul_f64(body["timeout"].as_f64().unwrap_or_default());
    let until = Instant::now() + wait;
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
        let mut found: Vec<_> =
            state.waiting.iter().map(|(_, update)| update.clone()).filter(allowed).collect();
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

/// The text and the buttons, checked.
fn content(body: &Value) -> Result<(String, Vec<Button>), String> {
    let raw = body["text"].as_str().ok_or("text is missing")?;
    let text = match body["parse_mode"].as_str() {
        None => raw.to_owned(),
        Some("HTML") => html::parse(raw).map_err(|problem| format!("can't parse entities: {problem}"))?,
        Some(mode) => return Err(format!("unsupported parse_mode {mode}")),
    };
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err("message text is empty".into());
    }
    if text.encode_utf16().count() > LONGEST_TEXT {
        return Err("message is too long".into());
    }
    let rows = body["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let buttons: Vec<_> = rows.iter().flat_map(|row| row.as_array().into_iter().flatten()).collect();
    if buttons.len() > MOST_BUTTONS {
        return Err("reply markup is too long".into());
    }
    Ok((text, buttons.into_iter().map(button).collect::<Result<_, _>>()?))
}

fn button(button: &Value) -> Result<Button, String> {
    let label =
        button["text"].as_str().filter(|label| !label.trim().is_empty()).ok_or("button text is empty")?;
    let data = button["callback_data"].as_str().map(str::to_owned);
    let url = button["url"].as_str().map(str::to_owned);
    if data.as_ref().is_some_and(|data| !(1..=LONGEST_DATA).contains(&data.len()))
        || data.is_some() == url.is_some()
    {
        return Err("BUTTON_DATA_INVALID".into());
    }
    Ok(Button { label: label.to_owned(), data, url })
}

fn send(shared: &Shared, body: &Value) -> Reply {
    let Some(chat) = body["chat_id"].as_i64() else { return refuse(shared, "chat_id is missing") };
    match content(body) {
        Err(problem) => refuse(shared, &problem),
        Ok((text, buttons)) => post(shared, chat, body, text, buttons, None),
    }
}

fn send_document(shared: &Shared, body: &Value) -> Reply {
    let Some(chat) = body["chat_id"].as_str().and_then(|chat| chat.parse().ok()) else {
        return refuse(shared, "chat_id is missing");
    };
    let reply: Value = body["reply_parameters"]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let file = (body["document"]["name"].as_str(), body["document"]["text"].as_str());
    let (Some(name), Some(text)) = file else { return refuse(shared, "there is no document in the request") };
    let body =
        json!({ "disable_notification": body["disable_notification"] == "true", "reply_parameters": reply });
    post(shared, chat, &body, String::new(), vec![], Some((name.to_owned(), text.to_owned())))
}

fn post(
    shared: &Shared,
    chat: i64,
    body: &Value,
    text: String,
    buttons: Vec<Button>,
    file: Option<(String, String)>,
) -> Reply {
    let mut state = shared.state();
    if let Err(seconds) = state.may_speak(chat, shared.now()) {
        return too_many(seconds);
    }
    state.last_message += 1;
    let id = state.last_message;
    let html = body["text"].as_str().unwrap_or_default().to_owned();
    let silent = body["disable_notification"] == true;
    let reply_to = body["reply_parameters"]["message_id"].as_i64();
    state.messages.push(Message {
        id,
        chat,
        text,
        html,
        buttons,
        silent,
        reply_to,
        file,
        edits: 0,
        deleted: false,
    });
    shared.changed.notify_all();
    ok(json!({ "message_id": id, "date": 1, "chat": { "id": chat, "type": super::kind(chat) } }))
}

fn edit(shared: &Shared, body: &Value) -> Reply {
    let (Some(chat), Some(id)) = (body["chat_id"].as_i64(), body["message_id"].as_i64()) else {
        return refuse(shared, "chat_id or message_id is missing");
    };
    let (text, buttons) = match content(body) {
        Ok(content) => content,
        Err(problem) => return refuse(shared, &problem),
    };
    let mut state = shared.state();
    if let Err(seconds) = state.may_speak(chat, shared.now()) {
        return too_many(seconds);
    }
    let found = state
        .messages
        .iter_mut()
        .find(|message| message.chat == chat && message.id == id && !message.deleted);
    let Some(message) = found else { return error(400, "Bad Request: message to edit not found") };
    let html = body["text"].as_str().unwrap_or_default().to_owned();
    if (&message.html, &message.buttons) == (&html, &buttons) {
        return error(
            400,
            "Bad Request: message is not modified: specified new message content and reply markup are exactly the same",
        );
    }
    *message = Message { text, html, buttons, edits: message.edits + 1, ..message.clone() };
    shared.changed.notify_all();
    ok(json!({ "message_id": id, "chat": { "id": chat } }))
}

fn delete(shared: &Shared, body: &Value) -> Reply {
    let mut state = shared.state();
    let (chat, id) = (body["chat_id"].as_i64(), body["message_id"].as_i64());
    let found =
        state.messages.iter_mut().find(|message| Some(message.chat) == chat && Some(message.id) == id);
    match found {
        Some(message) => {
            message.deleted = true;
            ok(json!(true))
        }
        None => error(400, "Bad Request: message to delete not found"),
    }
}

fn answer(shared: &Shared, body: &Value) -> Reply {
    let text = body["text"].as_str().unwrap_or_default().to_owned();
    if text.encode_utf16().count() > LONGEST_NOTICE {
        return refuse(shared, "MESSAGE_TOO_LONG");
    }
    let mut state = shared.state();
    let press = body["callback_query_id"].as_str().and_then(|id| state.presses.get_mut(id));
    match press {
        Some(said @ None) => {
            *said = Some(Notice { text, alert: body["show_alert"] == true });
            ok(json!(true))
        }
        Some(Some(_)) | None => {
            error(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        }
    }
}
