//! `config.toml`: what people decided once. All of it is optional.

use crate::url::HubUrl;
use aye_policy::{Policy, PolicyFile};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::Path;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    policy: PolicyFile,
    hub: HubSection,
    /// Read by whoever starts agents, names folders or talks to Telegram.
    agents: toml::Table,
    projects: toml::Table,
    telegram: toml::Table,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HubSection {
    /// What links on other devices point to; also an allowed Host.
    pub public_url: Option<HubUrl>,
}

/// A configuration that was checked.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub policy: Policy,
    pub hub: HubSection,
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
        Ok(Self { policy: file.policy.check().map_err(problems)?, hub: file.hub })
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
            notify_after = "0s"
        "#;
        let config = Config::parse(text).unwrap();
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
        assert!(wrong("[hub]\npublic_url = \"aye.example/x\"").contains("must look like http"));
    }
}
