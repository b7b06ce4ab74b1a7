//! Which agents are here, and how each can be reached.

use crate::config::{Config, KNOWN_AGENTS, KnownAgent};
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
    kind: &'static str,
    name: &'static str,
    /// Where it is, if it is.
    program: Option<PathBuf>,
    version: Option<String>,
    /// The last version that the tests passed with.
    tested: &'static str,
    reached: Vec<&'static str>,
}

pub async fn look(home: &Home) -> Vec<FoundAgent> {
    let config = Config::load(&home.config()).unwrap_or_default();
    join_all(KNOWN_AGENTS.map(|known| look_for(known, &config))).await
}

async fn look_for(known: KnownAgent, config: &Config) -> FoundAgent {
    let KnownAgent { kind, name, tested, .. } = known;
    let program = config.agent(kind).unwrap_or_default().find(kind);
    let version = match &program {
        Some(program) => version_of(program).await,
        None => None,
    };
    FoundAgent { kind, name, program, version, tested, reached: known.ways_in_words() }
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
        let version = match (&self.program, &self.version, self.tested) {
            (None, _, tested) => format!("not installed (tested: {tested})"),
            (Some(_), Some(version), tested) if version == tested => format!("{version} (tested)"),
            (Some(_), version, tested) => {
                let version = version.as_deref().map_or("version unknown".into(), one_line);
                format!("{version} (tested: {tested})")
            }
        };
        format!("{:<12} {version:<34} {}", self.name, self.reached.join(", "))
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
