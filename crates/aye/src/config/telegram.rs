//! `[telegram]`: the bot, and who may answer there.

use crate::url::HubUrl;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The bot that shows asks on Telegram. Whether it may run is checked where it starts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelegramSection {
    /// Under `AYE_HOME` unless it is a whole path.
    pub token_file: PathBuf,
    /// Who may answer, and where: both must be listed.
    pub users: Vec<i64>,
    pub chats: Vec<i64>,
    /// How long an ask waits for somebody at the desk before it is shown.
    pub notify_after: Span,
    /// After how long an ask that is still open is called to mind, once.
    pub remind_after: Option<Span>,
    /// Whether the end of a run rings, and whether its failure does.
    pub notify_end: bool,
    pub notify_failure: bool,
    /// Another server that speaks the Bot API.
    pub api_url: HubUrl,
}

impl Default for TelegramSection {
    fn default() -> Self {
        Self {
            token_file: "telegram.token".into(),
            users: vec![],
            chats: vec![],
            notify_after: Span(Duration::ZERO),
            remind_after: None,
            notify_end: true,
            notify_failure: true,
            api_url: HubUrl::https("api.telegram.org"),
        }
    }
}

/// A duration as people write it: `30s`, `1h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        let read =
            written.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
        read.map(Span).ok_or_else(|| format!("must be a duration such as \"30s\", not {written:?}"))
    }
}
