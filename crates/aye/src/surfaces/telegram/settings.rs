//! What must be right before the bot may run: its token, and who may answer where.

use crate::config::{Config, Span, TelegramSection};
use crate::home::Home;
use crate::url::HubUrl;
use anyhow::{Context, bail, ensure};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Accounts of Telegram's own that stand for people who stay anonymous, or for channels.
const NOBODY: [i64; 3] = [777_000, 136_817_688, 1_087_968_824];

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub token: Token,
    pub token_file: PathBuf,
    pub users: Vec<i64>,
    pub chats: Vec<i64>,
    pub notify_after: Duration,
    pub remind_after: Option<Duration>,
    pub notify_end: bool,
    pub notify_failure: bool,
    pub api_url: HubUrl,
    pub public_url: Option<HubUrl>,
    pub pace: Pace,
}

/// The bot's password. It is never printed.
#[derive(Clone, PartialEq)]
pub struct Token(String);

impl Token {
    /// Only where a call is made.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl TryFrom<String> for Token {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        match text.split_once(':') {
            Some((bot, secret))
                if !bot.is_empty()
                    && bot.chars().all(|c| c.is_ascii_digit())
                    && !secret.is_empty()
                    && secret.chars().all(plain) =>
            {
                Ok(Self(text))
            }
            _ => Err("does not look like a bot's token, 123456:ABC…"),
        }
    }
}

/// How fast the server's time runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    pub second: Duration,
}

impl Pace {
    /// A second is a second; only a stand-in for the server, in tests, has quicker ones.
    fn of_the_server() -> Self {
        let quicker =
            std::env::var("AYE_TEST_TELEGRAM_SECOND").ok().and_then(|span| Span::try_from(span).ok());
        Self { second: quicker.map_or(Duration::from_secs(1), |span| span.0.max(Duration::from_micros(100))) }
    }

    pub fn seconds(self, count: f64) -> Duration {
        self.second.mul_f64(count.clamp(0.0, 100_000.0))
    }
}

impl Settings {
    /// None where Telegram is off. Called before the home's files are made private, because a token that
    /// others could read may have been read.
    pub fn load(config: &Config, home: &Home) -> anyhow::Result<Option<Self>> {
        let Some(section) = config.telegram.clone() else { return Ok(None) };
        check_lists(&section)?;
        let file = home.path().join(&section.token_file);
        let token = read_token(&file)?;
        if !section.api_url.is_tls() && !is_here(&section.api_url) {
            tracing::warn!(api_url = %section.api_url, "the bot's token travels in the clear: whoever listens on the way can answer for you");
        }
        Ok(Some(Self {
            token,
            token_file: file,
            users: section.users,
            chats: section.chats,
            notify_after: section.notify_after.0,
            remind_after: section.remind_after.map(|span| span.0),
            notify_end: section.notify_end,
            notify_failure: section.notify_failure,
            api_url: section.api_url,
            public_url: config.hub.public_url.clone(),
            pace: Pace::of_the_server(),
        }))
    }
}

fn is_here(url: &HubUrl) -> bool {
    let (host, _) = url.address();
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn check_lists(section: &TelegramSection) -> anyhow::Result<()> {
    let hint = "Write to your bot, look for your ids in the hub's log, and list them under [telegram] in config.toml:\n  \
                users = [11111111]\n  chats = [11111111]";
    ensure!(
        !section.users.is_empty() && !section.chats.is_empty(),
        "[telegram] lists no users or no chats, so nobody could answer there. {hint}\nTo find your ids, list any number first."
    );
    if let Some(id) = section.users.iter().find(|id| NOBODY.contains(id) || **id <= 0) {
        bail!("[telegram] users: {id} is not a person, and only people answer. {hint}");
    }
    Ok(())
}

fn read_token(file: &Path) -> anyhow::Result<Token> {
    let name = file.display();
    let found = std::fs::metadata(file).with_context(|| {
        format!("[telegram] needs the bot's token in {name}: get one from @BotFather, write it there, and chmod 600 it")
    })?;
    ensure!(
        found.mode() & 0o077 == 0,
        "{name} can be read by others, who could then answer for you. If that was so for long, let @BotFather revoke \
         the token and write the new one there; then:\n  chmod 600 {name}"
    );
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Token::try_from(text.trim().to_owned())
        .map_err(|problem| anyhow::anyhow!("the content of {name} {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn load(config: &str, token: Option<(&str, u32)>) -> Result<Option<Settings>, String> {
        let dir = tempfile::tempdir().unwrap();
        if let Some((text, mode)) = token {
            let file = dir.path().join("telegram.token");
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        Settings::load(&Config::parse(config).unwrap(), &Home::at(dir.path()))
            .map_err(|error| error.to_string())
    }

    const LISTED: &str = "[telegram]\nusers = [1]\nchats = [1]";

    #[test]
    fn an_empty_list_lets_nobody_in_and_does_not_start() {
        for lists in ["", "users = [1]", "chats = [1]", "users = []\nchats = [1]"] {
            let refused = load(&format!("[telegram]\n{lists}"), Some(("1:A", 0o600))).unwrap_err();
            assert!(refused.contains("nobody could answer"), "{lists}: {refused}");
        }
        let anonymous =
            load("[telegram]\nusers = [1087968824]\nchats = [1]", Some(("1:A", 0o600))).unwrap_err();
        assert!(anonymous.contains("not a person"), "{anonymous}");
    }

    #[test]
    fn the_token_must_be_there_be_one_and_be_private() {
        assert!(load(LISTED, None).unwrap_err().contains("@BotFather"));
        assert!(load(LISTED, Some(("1:A", 0o640))).unwrap_err().contains("chmod 600"));
        let wrong = load(LISTED, Some(("secret nonsense", 0o600))).unwrap_err();
        assert!(wrong.contains("does not look like") && !wrong.contains("secret"), "{wrong}");
        let settings = load(LISTED, Some(("123:AB-c_d\n", 0o600))).unwrap().unwrap();
        assert_eq!(settings.token.expose(), "123:AB-c_d");
        assert!(!format!("{settings:?}").contains("AB-c_d"));
    }

    #[test]
    fn without_its_section_telegram_is_off() {
        assert!(load("", None).unwrap().is_none());
    }
}
