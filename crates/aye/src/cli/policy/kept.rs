//! What people allowed for longer than once and an agent keeps by a rule of its own: what it was told, and whether its
//! settings file still has it.

use crate::client::{CallError, Client, Try};
use crate::processes::host;
use crate::protocol::{AgentsQuery, AsksQuery, calls};
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use aye_core::visible::one_line;
use aye_core::{Agent, AgentState, Answer, AskId, AskView, Body, Keeper, Kind, Receipt, Scope, Verdict};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Pages of answered permissions that are looked through, the newest first.
const MOST_PAGES: usize = 10;
const PAGE: u32 = 200;

/// Where Claude Code keeps a rule, by the words that end its description.
const PLACES: [(&str, Place); 4] = [
    (" in this project's local settings", Place::Project("settings.local.json")),
    (" in this project's settings, for everybody who works on it", Place::Project("settings.json")),
    (" in your settings, for every project", Place::Person),
    (" for this session", Place::Session),
];

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Project(&'static str),
    Person,
    Session,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    /// The file has it.
    There,
    /// The file does not have it.
    Gone,
    /// It is kept by the session alone, and ends with it.
    Session,
    /// The file cannot be read from here.
    Unknown,
}

/// One rule that an agent was given.
#[derive(Debug, PartialEq, Serialize)]
pub struct Kept {
    ask: AskId,
    agent: String,
    /// As Claude Code writes it.
    rule: String,
    file: Option<PathBuf>,
    found: Found,
}

/// The newest first.
pub async fn by_agents(client: &Client) -> Result<Vec<Kept>, CallError> {
    let agents = client.call(&calls::AGENTS, "", &AgentsQuery { all: true }, &(), Try::Once).await?.agents;
    let (kind, decided_by) = (Some(Kind::Permission), Some("people".into()));
    let mut query = AsksQuery {
        state: Some("answered".into()),
        limit: Some(PAGE),
        kind,
        decided_by,
        ..AsksQuery::default()
    };
    let mut kept: Vec<Kept> = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = client.call(&calls::ASKS, "", &query, &(), Try::Once).await?;
        for ask in &page.asks {
            let agent = agents.iter().find(|agent| agent.id == ask.agent);
            let new = agent.map(|agent| of(ask, agent, &host())).unwrap_or_default();
            kept.extend(
                new.into_iter()
                    .filter(|new| {
                        // The same rule for the same place stands there once.
                        !kept.iter().any(|known| {
                            known.rule == new.rule && known.file == new.file && new.file.is_some()
                        })
                    })
                    .collect::<Vec<_>>(),
            );
        }
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    Ok(kept)
}

fn of(ask: &AskView, agent: &Agent, here: &str) -> Vec<Kept> {
    let (Body::Permission(permission), Some(Answer::Permission(Verdict::Allow { scope, .. }))) =
        (&ask.body, &ask.status.answer)
    else {
        return Vec::new();
    };
    let arrived = matches!(ask.status.receipt, Some(Receipt::Delivered | Receipt::Confirmed));
    let offer = permission.scopes.iter().find(|offer| offer.scope == *scope && *scope != Scope::Once);
    let words = offer.filter(|offer| offer.keeper() == Keeper::Agent).and_then(|offer| offer.rule.as_deref());
    let Some(words) = words.filter(|_| arrived) else { return Vec::new() };
    let each = words.split("; ").filter_map(|words| {
        let (rule, place) =
            PLACES.iter().find_map(|(end, place)| Some((words.strip_suffix(end)?, *place)))?;
        let rule = rule.strip_prefix("allow ").unwrap_or(rule).to_owned();
        let file = match place {
            Place::Session if agent.state == AgentState::Ended => return None,
            Place::Session => None,
            Place::Project(name) => Some(Path::new(&ask.cwd).join(".claude").join(name)),
            Place::Person => settings_of_the_person(),
        };
        let found = match &file {
            None if place == Place::Session => Found::Session,
            Some(file) if agent.host == here => has(file, &rule),
            Some(_) | None => Found::Unknown,
        };
        Some(Kept { ask: ask.id.clone(), agent: ask.agent.to_string(), rule, file, found })
    });
    each.collect()
}

fn settings_of_the_person() -> Option<PathBuf> {
    let named = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    Some(named.or_else(|| Some(std::env::home_dir()?.join(".claude")))?.join("settings.json"))
}

fn has(file: &Path, rule: &str) -> Found {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Found::Gone,
        Err(_) => return Found::Unknown,
    };
    let Ok(settings) = serde_json::from_slice::<Value>(&text) else { return Found::Unknown };
    let allowed = settings["permissions"]["allow"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |rule: &str| allowed.iter().any(|allowed| allowed == rule);
    match has(rule) || rule.split(", ").all(has) {
        true => Found::There,
        false => Found::Gone,
    }
}

impl Kept {
    pub fn in_words(&self) -> String {
        let file =
            self.file.as_ref().map(|file| one_line(&file.to_string_lossy()).into_owned()).unwrap_or_default();
        let state = match self.found {
            Found::There => format!("in {file}; remove it there to take it back"),
            Found::Gone => format!("no longer in {file}: the agent asks again"),
            Found::Session => format!("ends with the session; aye stop {} ends that", self.agent),
            Found::Unknown => format!("told to {}; look into {file} where it runs", self.agent),
        };
        format!("{}  {}\n    {}\n", paint(NAME, &self.ask), one_line(&self.rule), paint(DIM, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(scope: &str, receipt: &str, rule: &str, agent_host: &str, cwd: &Path) -> Vec<(String, Found)> {
        let ask = json!({"id": "k3v9m2pqxx", "key": "k", "agent": "claude-1", "cwd": cwd, "kind": "permission",
            "body": {"tool": "Bash", "input": {"command": "x"}, "scopes": [{"scope": "once"},
                {"scope": "session", "rule": rule}, {"scope": "always", "rule": rule}]},
            "digest": "sha256:00", "created_at": "2026-01-01T00:00:00Z", "state": "answered", "receipt": receipt,
            "answer": {"decision": "allow", "scope": scope}, "by": {"name": "ann", "surface": "web"}});
        let agent = json!({"id": "claude-1", "kind": "claude", "reach": "driven", "host": agent_host, "cwd": cwd,
            "title": "", "session": null, "state": "idle", "cost": null, "open_asks": 0, "outline": null,
            "created_at": "2026-01-01T00:00:00Z"});
        let (ask, agent) = (AskView::from_json(ask).unwrap(), serde_json::from_value(agent).unwrap());
        of(&ask, &agent, "here").into_iter().map(|kept| (kept.rule, kept.found)).collect()
    }

    #[test]
    fn what_an_agent_was_told_is_held_against_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".claude")).unwrap();
        let file = dir.path().join(".claude/settings.local.json");
        std::fs::write(
            &file,
            json!({"permissions": {"allow": ["Bash(touch two *)", "Read(//a/**)"]}}).to_string(),
        )
        .unwrap();
        let local = |rule: &str| format!("allow {rule} in this project's local settings");
        let there = |rule: &str| kept("always", "confirmed", &local(rule), "here", dir.path());
        assert_eq!(there("Bash(touch two *)"), [("Bash(touch two *)".into(), Found::There)]);
        assert_eq!(there("Bash(touch two *), Read(//a/**)")[0].1, Found::There);
        assert_eq!(there("Bash(rm *)"), [("Bash(rm *)".into(), Found::Gone)]);
        let elsewhere = kept("always", "delivered", &local("Bash(ls)"), "there", dir.path());
        assert_eq!(elsewhere, [("Bash(ls)".into(), Found::Unknown)]);
        let session = "allow Bash(ls) for this session; allow Read(//a/**) for this session";
        let session = kept("session", "confirmed", session, "here", dir.path());
        assert_eq!(session, [("Bash(ls)".into(), Found::Session), ("Read(//a/**)".into(), Found::Session)]);
        assert_eq!(kept("once", "confirmed", &local("Bash(ls)"), "here", dir.path()), []);
        assert_eq!(kept("always", "undelivered", &local("Bash(ls)"), "here", dir.path()), []);
        std::fs::write(&file, "not JSON").unwrap();
        assert_eq!(there("Bash(touch two *)")[0].1, Found::Unknown);
    }
}
