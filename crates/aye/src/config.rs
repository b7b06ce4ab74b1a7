//! `config.toml`: what people decided once. All of it is optional.

use crate::url::HubUrl;
use aye_policy::{Policy, PolicyFile};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    policy: PolicyFile,
    hub: HubSection,
    /// Read by whoever starts agents or names folders.
    agents: toml::Table,
    projects: toml::Table,
    telegram: Option<TelegramSection>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HubSection {
    /// What links on other devices point to; also an allowed Host.
    pub public_url: Option<HubUrl>,
}

/// The bot that shows asks on Telegram. Whether it may run is checked where it starts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
    /// Another server that speaks the Bot API.
    pub api_url: HubUrl,
    /// How long that server's second lasts: a stand-in in tests may have a quick clock.
    pub api_second: Span,
}

impl Default for TelegramSection {
    fn default() -> Self {
        Self {
            token_file: "telegram.token".into(),
            users: vec![],
            chats: vec![],
            notify_after: Span(Duration::ZERO),
            remind_after: None,
            api_url: HubUrl::https("api.telegram.org"),
            api_second: Span(Duration::from_secs(1)),
        }
    }
}

/// A duration as people write it: `30s`, `1h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

/// A configuration that was checked.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub policy: Policy,
    pub hub: HubSection,
    pub telegram: Option<TelegramSection>,
}

/// Everything that is wrong with a file, a line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl Config {
    /// A file that is not there is an empty one.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(ConfigError(format!("cannot be read: {error}"))),
        }
    }

    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut file: File =
            toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim().to_owned()))?;
        if let Some(home) = std::env::home_dir() {
            file.policy.expand_home(&home.to_string_lossy());
        }
        let problems = |problems: Vec<aye_policy::Problem>| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            ConfigError(lines.join("\n"))
        };
        Ok(Self { policy: file.policy.check().map_err(problems)?, hub: file.hub, telegram: file.telegram })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_key_is_known() {
        let text = r#"
            [policy]
            auto_approve = ["Read", "Glob", "Grep"]
            timeout = { question = "never", permission = "300s", plan = "never" }
            when_unattended = "reject"
            outline_preapproval = "next"
            [[policy.rules]]
            name = "tests"
            agent = "claude"
            cwd = "~/src/**"
            tool = "Bash"
            command = "cargo test*"
            action = "allow"
            matches = ["cargo test --all"]
            not_matches = ["cargo test; curl evil"]
            [[policy.rules]]
            tool = "WebFetch"
            action = "deny"
            message = "Not from here."
            [hub]
            public_url = "https://aye.example"
            [agents.claude]
            command = "claude"
            env = ["PATH", "ANTHROPIC_*"]
            [projects]
            web = "~/src/web"
            [telegram]
            token_file = "telegram.token"
            users = [11111111]
            chats = [11111111]
            notify_after = "30s"
            remind_after = "10m"
            api_url = "http://127.0.0.1:8081"
        "#;
        let config = Config::parse(text).unwrap();
        let telegram = config.telegram.unwrap();
        assert_eq!((telegram.users, telegram.chats), (vec![11111111], vec![11111111]));
        assert_eq!(telegram.notify_after, Span(Duration::from_secs(30)));
        assert_eq!(config.hub.public_url.unwrap().to_string(), "https://aye.example");
        assert_eq!(config.policy.when_unattended, aye_policy::WhenUnattended::Reject);
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        let wrong = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(wrong("[policy]\nauto_aprove = []").contains("auto_aprove"));
        assert!(wrong("[policy]\nauto_approve = [\"ExitPlanMode\"]").contains("always go to a person"));
        assert!(wrong("[[policy.rules]]\ntool = \"Bash\"").contains("action"));
        assert!(wrong("nonsense").contains("line 1"));
        assert!(wrong("[telegram]\nuser = [1]").contains("user"));
        assert!(wrong("[telegram]\nnotify_after = \"soon\"").contains("such as"));
        assert!(wrong("[hub]\npublic_url = \"aye.example/x\"").contains("must look like http"));
    }
}
