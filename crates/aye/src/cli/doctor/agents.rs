//! Which agents are here, and how each can be reached.

use crate::config::{Config, KNOWN_AGENTS, KnownAgent, ProtocolName, Way};
use crate::home::Home;
use aye_core::visible::one_line;
use futures_util::future::join_all;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// A program that says nothing by then is not asked further.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

#[derive(Serialize)]
pub struct FoundAgent {
    kind: String,
    name: String,
    /// Where it is, if it is.
    program: Option<PathBuf>,
    version: Option<String>,
    /// The last version that the tests passed with; there is none for an agent that config.toml alone has.
    tested: Option<&'static str>,
    reached: Vec<&'static str>,
}

pub async fn look(home: &Home) -> Vec<FoundAgent> {
    let config = Config::load(&home.config()).unwrap_or_default();
    let known = KNOWN_AGENTS.iter().map(|known| known.kind);
    join_all(known.chain(config.own_kinds()).map(|kind| look_for(kind, &config))).await
}

async fn look_for(kind: &str, config: &Config) -> FoundAgent {
    let profile = config.agent(kind).unwrap_or_default();
    let program = profile.find(kind);
    let version = match &program {
        Some(program) => version_of(program).await,
        None => None,
    };
    let known = KnownAgent::of(kind);
    let reached = known.map(|known| known.ways_in_words()).unwrap_or_else(|| {
        let way = if profile.speaks() == ProtocolName::Acp { Way::Acp } else { Way::Driven };
        vec![way.in_words()]
    });
    FoundAgent {
        kind: kind.to_owned(),
        name: known.map_or(kind, |known| known.name).to_owned(),
        program,
        version,
        tested: known.map(|known| known.tested),
        reached,
    }
}

/// What it says of itself; none of our credentials are for it.
async fn version_of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_remove("AYE_TOKEN").stdin(Stdio::null()).kill_on_drop(true);
    let said = tokio::time::timeout(LONGEST_LOOK, command.output()).await.ok()?.ok()?;
    version_in(&String::from_utf8_lossy(&said.stdout))
}

/// The first word that looks like a version.
fn version_in(said: &str) -> Option<String> {
    let words = said.split(|c: char| c.is_whitespace() || "(),".contains(c));
    let mut words = words.map(|word| word.trim_start_matches('v'));
    let version = words.find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') && word.len() < 40
    })?;
    Some(version.trim_end_matches('.').to_owned())
}

impl FoundAgent {
    pub fn is_here(&self) -> bool {
        self.program.is_some()
    }

    /// One line: what it is, its version beside the tested one, and the ways to it.
    pub fn in_words(&self) -> String {
        let version = match (&self.program, self.version.as_deref()) {
            (None, _) => "not installed".into(),
            (Some(_), None) => "version unknown".into(),
            (Some(_), Some(version)) => one_line(version),
        };
        let tested = match self.tested {
            None => "not tested".to_owned(),
            Some(tested) if self.is_here() && version == tested => "tested".to_owned(),
            Some(tested) => format!("tested: {tested}"),
        };
        let version = format!("{version} ({tested})");
        format!("{:<12} {version:<34} {}", one_line(&self.name), self.reached.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_say_of_themselves() {
        for (said, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0", Some("0.166.0")),
            ("GitHub Copilot CLI v1.0.3.\nRun it.", Some("1.0.3")),
            ("kimi, version 1.24-rc.1", Some("1.24-rc.1")),
            ("no idea", None),
            ("", None),
        ] {
            assert_eq!(version_in(said).as_deref(), version, "{said}");
        }
    }
}
