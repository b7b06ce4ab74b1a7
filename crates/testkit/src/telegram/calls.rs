//! The Bot API's methods, as strict as the real ones. Sources: the Bot API's documentation, and of what it does not
//! say `telegram-bot-api/Client.cpp` and tdlib (`get_inline_keyboard_button` in `td/telegram/ReplyMarkup.cpp`,
//! `LinkManager::check_link`).

use super::cleaning::{self, displayed};
use super::html::{self, Marked};
use super::state::{Made, Shared};
use super::{BOT, Button, Message, NAME, Notice};
use serde_json::{Value, json};

const LONGEST_TEXT: usize = 4096;
/// Of a text with its markup, in bytes.
const LONGEST_SOURCE: usize = 1 << 15;
const LONGEST_DATA: usize = 64;
const LONGEST_NOTICE: usize = 200;
const MOST_BUTTONS: usize = 100;
const MOST_IN_A_ROW: usize = 8;
const LONGEST_PLACEHOLDER: usize = 64;
/// Larger files cannot be fetched by bots.
const LARGEST_FILE: usize = 20 * 1024 * 1024;

/// A status and a body.
pub type Reply = (u16, Value);

pub fn ok(result: Value) -> Reply {
    (200, json!({ "ok": true, "result": result }))
}

pub fn error(code: u16, words: &str) -> Reply {
    (code, json!({ "ok": false, "error_code": code, "description": words }))
}

/// `MIGRATE` errors of `telegram-bot-api/Client.cpp`.
pub fn migrated(to: i64) -> Reply {
    let words = "Bad Request: group chat was upgraded to a supergroup chat";
    (
        400,
        json!({ "ok": false, "error_code": 400, "description": words, "parameters": { "migrate_to_chat_id": to } }),
    )
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
        "getMe" | "getWebhookInfo" => &[],
        "getUpdates" => &["offset", "timeout", "allowed_updates", "limit"],
        "getFile" => &["file_id"],
        "getChat" => &["chat_id"],
        "getChatMember" => &["chat_id", "user_id"],
        "sendChatAction" => &["chat_id", "action", "message_thread_id"],
        "setMyCommands" => &["commands"],
        "sendMessage" => &[
            "chat_id",
            "text",
            "parse_mode",
            "link_preview_options",
            "reply_markup",
            "disable_notification",
            "reply_parameters",
            "message_thread_id",
        ],
        "editMessageText" => {
            &["chat_id", "message_id", "text", "parse_mode", "link_preview_options", "reply_markup"]
        }
        "deleteMessage" => &["chat_id", "message_id"],
        "answerCallbackQuery" => &["callback_query_id", "text", "show_alert"],
        "sendDocument" => {
            &["chat_id", "document", "disable_notification", "reply_parameters", "message_thread_id"]
        }
        _ => return error(404, "Not Found"),
    };
    let unknown = body.as_object().into_iter().flatten().find(|(field, _)| !known.contains(&field.as_str()));
    if let Some((field, _)) = unknown {
        return refuse(shared, &format!("{method} knows no {field}"));
    }
    match method {
        "getMe" => ok(json!({ "id": BOT, "is_bot": true, "first_name": "Aye", "username": NAME })),
        "getWebhookInfo" => ok(json!({ "url": shared.state().webhook.clone(), "pending_update_count": 0 })),
        "getUpdates" => super::updates::get_updates(shared, body),
        "getFile" => get_file(shared, body),
        "getChat" => get_chat(shared, body),
        "getChatMember" => get_member(shared, body),
        "sendChatAction" => act(shared, body),
        "setMyCommands" => set_commands(shared, body),
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

/// What people would see of a text.
pub fn seen(text: &str, parse_mode: Option<&str>) -> Result<Marked, String> {
    if text.len() > LONGEST_SOURCE {
        return Err("text is too long".into());
    }
    let marked = match parse_mode {
        None => Marked { text: text.chars().collect(), entities: vec![] },
        Some("HTML") => html::parse(text).map_err(|problem| format!("can't parse entities: {problem}"))?,
        Some(mode) => return Err(format!("unsupported parse_mode {mode}")),
    };
    let marked = displayed(marked);
    let plain = marked.plain();
    if cleaning::is_empty(&plain) {
        return Err("message text is empty".into());
    }
    if plain.encode_utf16().count() > LONGEST_TEXT {
        return Err("message is too long".into());
    }
    Ok(marked)
}

/// The text of a message and the buttons under it, checked.
struct Content {
    marked: Marked,
    rows: Vec<Vec<Button>>,
    force_reply: bool,
}

fn content(body: &Value) -> Result<Content, String> {
    let raw = body["text"].as_str().ok_or("message text is empty")?;
    let marked = seen(raw, body["parse_mode"].as_str())?;
    let markup = &body["reply_markup"];
    let force_reply = markup["force_reply"] == true;
    let placeholder = markup["input_field_placeholder"].as_str();
    if placeholder.is_some_and(|text| !(1..=LONGEST_PLACEHOLDER).contains(&text.chars().count())) {
        return Err("the input field's placeholder has 1 to 64 characters".into());
    }
    if force_reply && markup.get("inline_keyboard").is_some() {
        return Err("can't parse reply keyboard markup: it is one kind or another".into());
    }
    let rows = markup["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let read = |row: &Value| row.as_array().into_iter().flatten().map(button).collect::<Result<Vec<_>, _>>();
    let rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let total: usize = rows.iter().map(Vec::len).sum();
    if total > MOST_BUTTONS || rows.iter().any(|row| row.is_empty() || row.len() > MOST_IN_A_ROW) {
        return Err("reply markup is too long".into());
    }
    Ok(Content { marked, rows, force_reply })
}

fn button(button: &Value) -> Result<Button, String> {
    let label = cleaning::clean(button["text"].as_str().unwrap_or_default()).trim().to_owned();
    if label.is_empty() {
        return Err("can't parse inline keyboard button: text is empty".into());
    }
    let data = button["callback_data"].as_str().map(str::to_owned);
    let url = button["url"].as_str().map(str::to_owned);
    if data.as_ref().is_some_and(|data| !(1..=LONGEST_DATA).contains(&data.len()))
        || data.is_some() == url.is_some()
    {
        return Err("BUTTON_DATA_INVALID".into());
    }
    if let Some(url) = url.as_ref().filter(|url| !is_link(url)) {
        return Err(format!("inline keyboard button URL '{url}' is invalid: Wrong HTTP URL"));
    }
    Ok(Button { label, data, url })
}

/// A name without a dot is no host, unless it is an IPv6 address.
fn is_link(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    matches!(scheme, "http" | "https") && (host.contains('.') || host.starts_with('['))
}

fn send(shared: &Shared, body: &Value) -> Reply {
    let Some(chat) = body["chat_id"].as_i64() else { return refuse(shared, "chat_id is empty") };
    match content(body) {
        Err(problem) => refuse(shared, &problem),
        Ok(content) => post(shared, "sendMessage", chat, body, content, None),
    }
}

fn send_document(shared: &Shared, body: &Value) -> Reply {
    let Some(chat) = body["chat_id"].as_str().and_then(|chat| chat.parse().ok()) else {
        return refuse(shared, "chat_id is empty");
    };
    let reply: Value = body["reply_parameters"]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let file = (body["document"]["name"].as_str(), body["document"]["text"].as_str());
    let (Some(name), Some(text)) = file else { return refuse(shared, "there is no document in the request") };
    if text.is_empty() {
        return refuse(shared, "file must be non-empty");
    }
    let topic = body["message_thread_id"].as_str().and_then(|topic| topic.parse::<i64>().ok());
    let silent = body["disable_notification"] == "true";
    let body =
        json!({ "disable_notification": silent, "reply_parameters": reply, "message_thread_id": topic });
    let content = Content { marked: Marked::default(), rows: vec![], force_reply: false };
    post(shared, "sendDocument", chat, &body, content, Some((name.to_owned(), text.to_owned())))
}

fn post(
    shared: &Shared,
    method: &str,
    chat: i64,
    body: &Value,
    content: Content,
    file: Option<(String, String)>,
) -> Reply {
    let mut state = shared.state();
    if let Some(refusal) = state.refusal(chat, shared.now()) {
        return refusal;
    }
    let topic = body["message_thread_id"].as_i64();
    if let Some(refusal) = state.topic_refusal(chat, topic) {
        return refusal;
    }
    if let Err(seconds) = state.may_speak(chat, shared.now()) {
        return too_many(seconds);
    }
    let reply = &body["reply_parameters"];
    let reply_to = reply["message_id"].as_i64().filter(|to| state.has_message(chat, *to));
    if reply["message_id"].is_i64() && reply_to.is_none() && reply["allow_sending_without_reply"] != true {
        return error(400, "Bad Request: message to be replied not found");
    }
    state.last_message += 1;
    let id = state.last_message;
    state.made.push(Made { method: method.to_owned(), chat, message: id });
    let html = body["text"].as_str().unwrap_or_default().to_owned();
    let silent = body["disable_notification"] == true;
    state.messages.push(Message {
        id,
        chat,
        topic,
        text: content.marked.plain(),
        marked: content.marked,
        html,
        buttons: content.rows.concat(),
        rows: content.rows,
        force_reply: content.force_reply,
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
    let content = match content(body) {
        Ok(content) => content,
        Err(problem) => return refuse(shared, &problem),
    };
    if content.force_reply {
        return refuse(shared, "inline keyboard expected");
    }
    let mut state = shared.state();
    if let Some(refusal) = state.refusal(chat, shared.now()) {
        return refusal;
    }
    if let Some(refusal) =
        state.topic_refusal(chat, state.topic_of(chat, id)).filter(|_| state.has_message(chat, id))
    {
        return refusal;
    }
    if let Err(seconds) = state.may_speak(chat, shared.now()) {
        return too_many(seconds);
    }
    state.made.push(Made { method: "editMessageText".to_owned(), chat, message: id });
    let found = state
        .messages
        .iter_mut()
        .find(|message| message.chat == chat && message.id == id && !message.deleted);
    let Some(message) = found else { return error(400, "Bad Request: message to edit not found") };
    if (&message.marked, &message.rows) == (&content.marked, &content.rows) {
        return error(
            400,
            "Bad Request: message is not modified: specified new message content and reply markup are exactly the same",
        );
    }
    *message = Message {
        text: content.marked.plain(),
        marked: content.marked,
        html: body["text"].as_str().unwrap_or_default().to_owned(),
        buttons: content.rows.concat(),
        rows: content.rows,
        edits: message.edits + 1,
        ..message.clone()
    };
    shared.changed.notify_all();
    ok(json!({ "message_id": id, "chat": { "id": chat } }))
}

fn delete(shared: &Shared, body: &Value) -> Reply {
    let mut state = shared.state();
    let (chat, id) = (body["chat_id"].as_i64(), body["message_id"].as_i64());
    let found = state
        .messages
        .iter_mut()
        .find(|message| Some(message.chat) == chat && Some(message.id) == id && !message.deleted);
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
    let expired = state.presses_expire;
    let press = body["callback_query_id"].as_str().and_then(|id| state.presses.get_mut(id));
    match press {
        Some(said @ None) if !expired => {
            *said = Some(Notice { text, alert: body["show_alert"] == true });
            ok(json!(true))
        }
        Some(_) | None => {
            error(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        }
    }
}

/// A chat that blocks the bot or lets it say nothing can be looked at all the same.
fn get_chat(shared: &Shared, body: &Value) -> Reply {
    let Some(chat) = body["chat_id"].as_i64() else { return refuse(shared, "chat_id is empty") };
    let state = shared.state();
    if let Some(new) = state.migrated.get(&chat) {
        return migrated(*new);
    }
    match state.shut.get(&chat) {
        Some((code, words)) if words.contains("not found") || words.contains("kicked") => error(*code, words),
        Some(_) | None => ok(json!({ "id": chat, "type": super::kind(chat) })),
    }
}

fn get_member(shared: &Shared, body: &Value) -> Reply {
    let (Some(chat), Some(user)) = (body["chat_id"].as_i64(), body["user_id"].as_i64()) else {
        return refuse(shared, "chat_id or user_id is empty");
    };
    let status = if shared.state().left.contains(&(chat, user)) { "left" } else { "member" };
    ok(json!({ "status": status, "user": { "id": user } }))
}

fn act(shared: &Shared, body: &Value) -> Reply {
    let Some(chat) = body["chat_id"].as_i64() else { return refuse(shared, "chat_id is empty") };
    shared.state().refusal(chat, shared.now()).unwrap_or_else(|| ok(json!(true)))
}

fn set_commands(shared: &Shared, body: &Value) -> Reply {
    let commands = body["commands"].as_array().cloned().unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut known = Vec::new();
    for command in &commands {
        let (name, words) = (command["command"].as_str(), command["description"].as_str());
        let (Some(name), Some(words)) = (name, words) else { return refuse(shared, "BOT_COMMAND_INVALID") };
        if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
            return refuse(shared, "BOT_COMMAND_INVALID");
        }
        if !(1..=256).contains(&words.chars().count()) {
            return refuse(shared, "BOT_COMMAND_DESCRIPTION_INVALID");
        }
        known.push((name.to_owned(), words.to_owned()));
    }
    shared.state().commands = known;
    ok(json!(true))
}

fn get_file(shared: &Shared, body: &Value) -> Reply {
    let id = body["file_id"].as_str().unwrap_or_default();
    match shared.state().files.get(id) {
        Some(bytes) if bytes.len() > LARGEST_FILE => error(400, "Bad Request: file is too big"),
        Some(bytes) => {
            ok(json!({ "file_id": id, "file_size": bytes.len(), "file_path": format!("photos/{id}") }))
        }
        None => error(400, "Bad Request: invalid file_id"),
    }
}
