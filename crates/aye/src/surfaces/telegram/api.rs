//! The Bot API's calls. A client of our own, over the HTTP and TLS that are here anyway: the libraries for it
//! bring a second HTTP client of an older version, or a minute of building, for the ten calls we make.

use super::access::Place;
use super::settings::{Pace, Settings, Token};
use super::wire::{BotUser, Chat};
use crate::transport::{Transport, TransportError};
use anyhow::Context;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, header};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::Duration;

/// How long the server holds a call for updates when there are none, in its seconds.
const LONGEST_POLL: u32 = 25;
/// How long a call may take, in the server's seconds, but never less than the other.
const TIMEOUT: f64 = 30.0;
const LEAST_TIMEOUT: Duration = Duration::from_secs(5);
const LARGEST_REPLY: usize = 16 * 1024 * 1024;

/// Why a call did not do what it was meant to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("Telegram cannot be reached: {0}")]
    Unreachable(String),
    /// The connection broke or time ran out: it may have been done all the same.
    #[error("no reply came from Telegram: {0}")]
    NoReply(String),
    #[error("Telegram has trouble of its own ({code}): {words}")]
    Trouble { code: u16, words: String },
    #[error("Telegram wants us to wait {retry_after} s")]
    TooMany { retry_after: u64 },
    #[error("another program takes this bot's updates as well ({0})")]
    Conflict(String),
    #[error("a webhook is set for this bot, so its updates go there")]
    Webhook,
    #[error("Telegram does not know this bot's token")]
    Unknown,
    #[error("Telegram refused ({code}): {words}")]
    Refused { code: u16, words: String, moved_to: Option<i64> },
}

impl ApiError {
    /// Whether the call may have been done although it failed.
    pub fn is_unsure(&self) -> bool {
        matches!(self, ApiError::NoReply(_) | ApiError::Trouble { .. })
    }
}

pub struct Bot {
    transport: Transport,
    token: Token,
    pace: Pace,
}

/// A button under a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineButton {
    pub label: String,
    pub data: String,
}

/// A message as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub text: String,
    pub html: bool,
    pub rows: Vec<Vec<InlineButton>>,
    /// A link as one more button.
    pub link: Option<(String, String)>,
    pub silent: bool,
    pub reply_to: Option<i64>,
    /// It asks whoever it names to reply, and shows this where they type.
    pub force_reply: Option<&'static str>,
}

#[derive(Deserialize)]
struct Envelope {
    ok: bool,
    #[serde(default)]
    result: Value,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl Bot {
    pub fn new(settings: &Settings) -> anyhow::Result<Self> {
        let transport = Transport::tcp(settings.api_url.clone()).context("api_url cannot be used")?;
        Ok(Self { transport, token: settings.token.clone(), pace: settings.pace })
    }

    /// What people did; with `wait`, once they did something. The offset confirms all before it, which Telegram
    /// then forgets.
    pub async fn get_updates(&self, offset: Option<i64>, wait: bool) -> Result<Value, ApiError> {
        let timeout = if wait { LONGEST_POLL } else { 0 };
        let mut body =
            json!({ "timeout": timeout, "allowed_updates": ["message", "edited_message", "callback_query"] });
        if let Some(offset) = offset {
            body["offset"] = json!(offset);
        }
        let timeout = self.pace.seconds(f64::from(LONGEST_POLL)) + self.timeout();
        self.call("getUpdates", body, timeout).await
    }

    /// Returns the message's number.
    pub async fn send(&self, place: Place, message: &Outgoing) -> Result<i64, ApiError> {
        let mut body = content(message);
        body["chat_id"] = json!(place.chat);
        if let Some(topic) = place.topic {
            body["message_thread_id"] = json!(topic);
        }
        body["disable_notification"] = json!(message.silent);
        if let Some(to) = message.reply_to {
            body["reply_parameters"] = json!({ "message_id": to, "allow_sending_without_reply": true });
        }
        number(self.call("sendMessage", body, self.timeout()).await?)
    }

    /// Who this bot is.
    pub async fn get_me(&self) -> Result<BotUser, ApiError> {
        let me = self.call("getMe", json!({}), self.timeout()).await?;
        serde_json::from_value(me).map_err(|error| self.no_reply(error))
    }

    /// The account as far as the token tells it.
    pub fn identity_from_token(&self) -> BotUser {
        let id = self.token.expose().split(':').next().and_then(|id| id.parse().ok()).unwrap_or_default();
        BotUser { id, username: String::new(), first_name: String::new() }
    }

    /// A file that somebody sent, if it is no larger than this.
    pub async fn fetch(&self, id: &str, most: usize) -> Result<Bytes, ApiError> {
        let found = self.call("getFile", json!({ "file_id": id }), self.timeout()).await?;
        let path = found["file_path"].as_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if path.is_empty() || !path.chars().all(plain) || found["file_size"].as_u64() > Some(most as u64) {
            return Err(ApiError::Refused {
                code: 400,
                words: "the file cannot be fetched".into(),
                moved_to: None,
            });
        }
        let request = Request::get(format!("/file/bot{}/{path}", self.token.expose()))
            .body(Full::new(Bytes::new()))
            .map_err(|error| ApiError::Unreachable(self.redact(error)))?;
        let fetch = async {
            let (_, file) =
                self.transport.exchange(request, most).await.map_err(|error| self.failed(error))?;
            Ok(file)
        };
        let late = |_| Err(ApiError::NoReply("a file took too long".into()));
        tokio::time::timeout(self.timeout(), fetch).await.unwrap_or_else(late)
    }

    /// The address that gets the updates instead, if one is set.
    pub async fn webhook(&self) -> Result<Option<String>, ApiError> {
        let found = self.call("getWebhookInfo", json!({}), self.timeout()).await?;
        Ok(found["url"].as_str().filter(|url| !url.is_empty()).map(str::to_owned))
    }

    pub async fn get_chat(&self, chat: i64) -> Result<Chat, ApiError> {
        let found = self.call("getChat", json!({ "chat_id": chat }), self.timeout()).await?;
        serde_json::from_value(found).map_err(|error| self.no_reply(error))
    }

    pub async fn is_member(&self, chat: i64, user: i64) -> Result<bool, ApiError> {
        let body = json!({ "chat_id": chat, "user_id": user });
        let found = self.call("getChatMember", body, self.timeout()).await?;
        Ok(match found["status"].as_str() {
            Some("creator" | "administrator" | "member") => true,
            Some("restricted") => found["is_member"] == true,
            Some(_) | None => false,
        })
    }

    /// Shows for a few seconds that the bot is typing. It needs the right to send messages, and sends none.
    pub async fn type_for_a_moment(&self, chat: i64) -> Result<(), ApiError> {
        let body = json!({ "chat_id": chat, "action": "typing" });
        self.call("sendChatAction", body, self.timeout()).await.map(drop)
    }

    pub async fn set_commands(&self, commands: &[(&str, &str)]) -> Result<(), ApiError> {
        let command = |(name, words): &(&str, &str)| json!({ "command": name, "description": words });
        let body = json!({ "commands": commands.iter().map(command).collect::<Vec<_>>() });
        self.call("setMyCommands", body, self.timeout()).await.map(drop)
    }

    pub async fn edit(&self, chat: i64, id: i64, message: &Outgoing) -> Result<(), ApiError> {
        let mut body = content(message);
        body["chat_id"] = json!(chat);
        body["message_id"] = json!(id);
        match self.call("editMessageText", body, self.timeout()).await {
            Err(ApiError::Refused { words, .. }) if words.contains("message is not modified") => Ok(()),
            other => other.map(drop),
        }
    }

    pub async fn delete(&self, chat: i64, id: i64) -> Result<(), ApiError> {
        let body = json!({ "chat_id": chat, "message_id": id });
        self.call("deleteMessage", body, self.timeout()).await.map(drop)
    }

    /// Ends the spinner on a pressed button, with a notice.
    pub async fn answer_press(&self, query: &str, words: &str, alert: bool) -> Result<(), ApiError> {
        let body = json!({ "callback_query_id": query, "text": words, "show_alert": alert });
        self.call("answerCallbackQuery", body, self.timeout()).await.map(drop)
    }

    pub async fn send_file(
        &self,
        place: Place,
        name: &str,
        text: &str,
        reply_to: Option<i64>,
    ) -> Result<i64, ApiError> {
        let boundary = boundary(text);
        let mut body = Vec::new();
        let mut field = |head: &str, content: &[u8]| {
            body.extend_from_slice(
                format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        };
        field("name=\"chat_id\"", place.chat.to_string().as_bytes());
        if let Some(topic) = place.topic {
            field("name=\"message_thread_id\"", topic.to_string().as_bytes());
        }
        field("name=\"disable_notification\"", b"true");
        if let Some(to) = reply_to {
            let reply = json!({ "message_id": to, "allow_sending_without_reply": true });
            field("name=\"reply_parameters\"", reply.to_string().as_bytes());
        }
        let head =
            format!("name=\"document\"; filename=\"{name}\"\r\nContent-Type: text/plain; charset=utf-8");
        field(&head, text.as_bytes());
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={boundary}");
        number(self.exchange("sendDocument", &kind, body.into(), self.timeout()).await?)
    }

    fn timeout(&self) -> Duration {
        self.pace.seconds(TIMEOUT).max(LEAST_TIMEOUT)
    }

    async fn call(&self, method: &str, body: Value, timeout: Duration) -> Result<Value, ApiError> {
        self.exchange(method, "application/json", body.to_string().into(), timeout).await
    }

    async fn exchange(
        &self,
        method: &str,
        kind: &str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Value, ApiError> {
        let request = Request::post(format!("/bot{}/{method}", self.token.expose()))
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(body))
            .map_err(|error| ApiError::Unreachable(self.redact(error)))?;
        let exchange = self.transport.exchange(request, LARGEST_REPLY);
        let (status, bytes) = tokio::time::timeout(timeout, exchange)
            .await
            .map_err(|_| ApiError::NoReply(format!("{method} took longer than {timeout:?}")))?
            .map_err(|error| self.failed(error))?;
        self.read(status.as_u16(), &bytes)
    }

    fn read(&self, status: u16, bytes: &[u8]) -> Result<Value, ApiError> {
        let envelope: Envelope = match serde_json::from_slice(bytes) {
            Ok(envelope) => envelope,
            // A proxy in between speaks HTML, and then nobody knows what became of the call.
            Err(_) => {
                return Err(ApiError::Trouble {
                    code: status,
                    words: "the reply is not the Bot API's".into(),
                });
            }
        };
        if envelope.ok {
            return Ok(envelope.result);
        }
        let code = envelope.error_code.unwrap_or(status);
        let words = self.redact(envelope.description.unwrap_or_default());
        let parameters = envelope.parameters;
        let retry_after = parameters.as_ref().and_then(|parameters| parameters.retry_after);
        Err(match code {
            429 => ApiError::TooMany { retry_after: retry_after.unwrap_or(5) },
            401 | 404 => ApiError::Unknown,
            409 if words.contains("webhook") => ApiError::Webhook,
            409 => ApiError::Conflict(words),
            500.. => ApiError::Trouble { code, words },
            _ => {
                let moved_to = parameters.and_then(|parameters| parameters.migrate_to_chat_id);
                ApiError::Refused { code, words, moved_to }
            }
        })
    }

    /// Replies may repeat the request, including the token.
    fn redact(&self, words: impl Display) -> String {
        words.to_string().replace(self.token.expose(), "…")
    }

    fn no_reply(&self, error: impl Display) -> ApiError {
        ApiError::NoReply(self.redact(error))
    }

    fn failed(&self, error: TransportError) -> ApiError {
        match error {
            TransportError::Interrupted(_) | TransportError::TooLong => self.no_reply(error),
            TransportError::Unreachable(_) | TransportError::Untrusted(_) | TransportError::NotOurs(_) => {
                ApiError::Unreachable(self.redact(error))
            }
        }
    }
}

fn content(message: &Outgoing) -> Value {
    let key = |key: &InlineButton| json!({ "text": key.label, "callback_data": key.data });
    let mut rows: Vec<_> =
        message.rows.iter().map(|row| json!(row.iter().map(key).collect::<Vec<_>>())).collect();
    rows.extend(message.link.iter().map(|(label, url)| json!([{ "text": label, "url": url }])));
    let mut body = json!({
        "text": message.text,
        "link_preview_options": { "is_disabled": true },
        "reply_markup": { "inline_keyboard": rows },
    });
    if let Some(placeholder) = message.force_reply {
        // In a group only whoever is named sees the field open.
        body["reply_markup"] =
            json!({ "force_reply": true, "selective": true, "input_field_placeholder": placeholder });
    }
    if message.html {
        body["parse_mode"] = json!("HTML");
    }
    body
}

fn number(message: Value) -> Result<i64, ApiError> {
    message["message_id"].as_i64().ok_or_else(|| ApiError::NoReply("the reply names no message".into()))
}

/// A line that does not occur in the text.
fn boundary(text: &str) -> String {
    let mut boundary = String::from("aye-boundary");
    while text.contains(&boundary) {
        boundary.push('-');
    }
    boundary
}
