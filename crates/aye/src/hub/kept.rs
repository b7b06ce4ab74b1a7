//! What people allowed for longer than once and an agent keeps by a rule of its own: what it was told, and whether its
//! settings file still has it.

use super::problem::on_another_thread;
use super::{Hub, Problem};
use crate::claude_settings::{self, Destination};
use crate::processes::host;
use crate::protocol::{KeptRule, KeptStatus};
use crate::store::AgentRow;
use aye_core::{AgentId, Answer, Ask, Body, Keeper, ReportedState, Verdict};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A settings file is small; a larger one is something else.
const LARGEST: u64 = 4 * 1024 * 1024;

impl Hub {
    /// Of the latest asks, the newest first.
    pub async fn kept_by_agents(&self) -> Result<Vec<KeptRule>, Problem> {
        let given = self
            .inner
            .store
            .read(|db| {
                let asks = db.lasting_approvals()?.into_iter();
                let with_agent = |ask: Ask| Ok(db.agent(&ask.agent)?.map(|agent| (ask, agent)));
                asks.filter_map(|ask| with_agent(ask).transpose()).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        on_another_thread("the settings of agents could not be read", move || {
            let mut kept: Vec<KeptRule> = Vec::new();
            for (ask, agent) in &given {
                for rule in of(ask, agent, &host()) {
                    // The same rule stands once in a file, and counts once for a session.
                    let is_known = kept.iter().any(|known| {
                        (&known.rule, &known.file) == (&rule.rule, &rule.file)
                            && (rule.file.is_some() || known.agent == rule.agent)
                    });
                    if !is_known {
                        kept.push(rule);
                    }
                }
            }
            kept
        })
        .await
    }
}

/// `here` is the machine whose files can be looked into.
fn of(ask: &Ask, agent: &AgentRow, here: &str) -> Vec<KeptRule> {
    let (Body::Permission(permission), Some(Answer::Permission(Verdict::Allow { scope, .. }))) =
        (&ask.body, ask.state.answer())
    else {
        return Vec::new();
    };
    let offer = permission.offer(*scope).filter(|offer| offer.keeper() == Keeper::Agent);
    let Some(words) = offer.and_then(|offer| offer.rule.as_deref()) else { return Vec::new() };
    let has_ended = agent.report == ReportedState::Ended;
    let rules = claude_settings::read(words).into_iter();
    let rules = rules.filter(|(_, place)| !(has_ended && *place == Some(Destination::Session)));
    let rules = rules.map(|(rule, place)| {
        // A session keeps its settings where it began, whatever folder it asks from.
        let folders = [agent.profile.first_cwd.as_str(), ask.cwd.as_str()].map(Path::new);
        let file = place.and_then(|place| claude_settings::file(place, folders[0]));
        let (file, found) = match (place, file) {
            (Some(Destination::Session), _) => (None, KeptStatus::Session),
            (Some(place), Some(file)) if agent.profile.host == here => look(place, file, folders[1], rule),
            (_, file) => (file, KeptStatus::Unknown),
        };
        KeptRule {
            ask: ask.id.clone(),
            agent: ask.agent.clone(),
            rule: rule.strip_prefix("allow ").unwrap_or(rule).to_owned(),
            words: in_words(found, file.as_deref(), &ask.agent),
            file,
            found,
            by: ask.state.by().cloned(),
            at: ask.state.ended_at(),
        }
    });
    rules.collect()
}

fn look(place: Destination, file: PathBuf, other_folder: &Path, rule: &str) -> (Option<PathBuf>, KeptStatus) {
    let found = has(&file, rule);
    let elsewhere = claude_settings::file(place, other_folder).filter(|other| *other != file);
    match elsewhere {
        Some(other) if found != KeptStatus::There && has(&other, rule) == KeptStatus::There => {
            (Some(other), KeptStatus::There)
        }
        // The session may have had another home than we.
        _ if place == Destination::Person && found == KeptStatus::Gone => (Some(file), KeptStatus::Unknown),
        _ => (Some(file), found),
    }
}

fn has(file: &Path, rule: &str) -> KeptStatus {
    // Only what is a file: reading anything else may never end.
    let settings = match fs::metadata(file) {
        Ok(about) if about.is_file() && about.len() <= LARGEST => fs::read(file).ok(),
        Err(error) if error.kind() == ErrorKind::NotFound => return KeptStatus::Gone,
        Ok(_) | Err(_) => None,
    };
    let settings = settings.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    match settings.and_then(|settings| claude_settings::has(&settings, rule)) {
        Some(true) => KeptStatus::There,
        Some(false) => KeptStatus::Gone,
        None => KeptStatus::Unknown,
    }
}

fn in_words(found: KeptStatus, file: Option<&Path>, agent: &AgentId) -> String {
    match (found, file.map(Path::display)) {
        (KeptStatus::There, Some(file)) => format!("in {file}; remove it there to take it back"),
        (KeptStatus::Gone, Some(file)) => format!("no longer in {file}: the agent asks again"),
        (KeptStatus::Session, _) => format!("ends with the session of {agent}"),
        (_, Some(file)) => format!("told to {agent}; look into {file} where it runs to take it back"),
        (_, None) => format!("told to {agent}, which keeps it in its own way; take it back there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::lifecycle::Delivery;
    use aye_core::{AskHead, AskId, By, Kind, Receipt, Scope, State};
    use jiff::Timestamp;
    use serde_json::json;

    fn answered(scope: Scope, rule: &str, cwd: &Path) -> Ask {
        let scopes = json!([{"scope": "once"}, {"scope": "session", "rule": rule, "kept_by": "agent"},
            {"scope": "always", "rule": rule, "kept_by": "agent"}]);
        let body = json!({"tool": "Bash", "input": {"command": "x"}, "scopes": scopes});
        let body = Body::decode(Kind::Permission, body).unwrap();
        let (id, key) = (AskId::from_random(1), "k".try_into().unwrap());
        let at = Timestamp::UNIX_EPOCH;
        let head = AskHead::new(id, key, "claude-1".try_into().unwrap(), &cwd.to_string_lossy(), &body, at);
        let answer = Answer::Permission(Verdict::Allow { scope, input: None });
        let by = By::Rule { rule: "rule 1".try_into().unwrap() };
        let delivery = Delivery { receipt: Receipt::Confirmed, evidence: None };
        Ask { state: State::Answered { answer, by, key: None, at, delivery }, ..Ask::open(head, body) }
    }

    fn kept(
        scope: Scope,
        rule: &str,
        host: &str,
        (began, asked): (&Path, &Path),
    ) -> Vec<(String, KeptStatus)> {
        let mut agent = AgentRow::unannounced("claude-1".try_into().unwrap(), Timestamp::UNIX_EPOCH);
        agent.profile.host = host.into();
        agent.profile.first_cwd = began.to_string_lossy().into_owned();
        let kept = of(&answered(scope, rule, asked), &agent, "here").into_iter();
        kept.map(|kept| (kept.rule, kept.found)).collect()
    }

    #[test]
    fn what_an_agent_was_told_is_held_against_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        fs::create_dir_all(dir.path().join(".claude")).unwrap();
        let file = dir.path().join(".claude/settings.local.json");
        fs::write(&file, json!({"permissions": {"allow": ["Bash(touch two *)"]}}).to_string()).unwrap();
        let local = |rule: &str| format!("allow {rule} in this project's local settings");
        let there = |rule: &str| kept(Scope::Always, &local(rule), "here", (dir.path(), &below));
        assert_eq!(there("Bash(touch two *)"), [("Bash(touch two *)".into(), KeptStatus::There)]);
        assert_eq!(there("Bash(rm *)"), [("Bash(rm *)".into(), KeptStatus::Gone)]);
        let asked_above = kept(Scope::Always, &local("Bash(touch two *)"), "here", (&below, dir.path()));
        assert_eq!(asked_above[0].1, KeptStatus::There);
        let elsewhere = kept(Scope::Always, &local("Bash(ls)"), "there", (dir.path(), dir.path()));
        assert_eq!(elsewhere, [("Bash(ls)".into(), KeptStatus::Unknown)]);
        let session = "allow Bash(ls) for this session; allow Read(//a/**) for this session";
        let session = kept(Scope::Session, session, "here", (dir.path(), dir.path()));
        assert_eq!(
            session,
            [("Bash(ls)".into(), KeptStatus::Session), ("Read(//a/**)".into(), KeptStatus::Session)]
        );
        assert_eq!(kept(Scope::Once, &local("Bash(ls)"), "here", (dir.path(), dir.path())), []);
        let own = kept(Scope::Always, "Always allow", "here", (dir.path(), dir.path()));
        assert_eq!(own, [("Always allow".into(), KeptStatus::Unknown)]);
        fs::write(&file, "not JSON").unwrap();
        assert_eq!(there("Bash(touch two *)")[0].1, KeptStatus::Unknown);
        // A pipe that nobody writes to would hold us up for ever.
        fs::remove_file(&file).unwrap();
        std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert_eq!(there("Bash(touch two *)")[0].1, KeptStatus::Unknown);
    }
}
