//! Finds the agent that a person means: by the beginning of an id, or by a title, folder, tmux session or process that only one has.

use crate::client::{Client, Try};
use crate::protocol::{AgentsQuery, calls};
use crate::surfaces::terminal::{in_a_line, shorten};
use aye_core::agent::names;
use aye_core::visible::one_line;
use aye_core::{Agent, AgentState};
use std::path::{Path, PathBuf};

/// Candidates that are listed.
const MOST_LISTED: usize = 10;

/// No agent is meant, or more than one could be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotNamed(String);

pub async fn find(client: &Client, name: &str) -> anyhow::Result<Agent> {
    let known = client.call(&calls::AGENTS, "", &AgentsQuery { all: true }, &(), Try::Once).await?.agents;
    Ok(pick(known, name, std::fs::canonicalize(name).ok())?)
}

/// `folder` is what the name leads to as a path from here, if it does.
fn pick(known: Vec<Agent>, name: &str, folder: Option<PathBuf>) -> Result<Agent, NotNamed> {
    let name = name.trim();
    let is = |agent: &Agent| agent.id.as_str() == name || agent.session.as_deref() == Some(name);
    let begins = |agent: &Agent| {
        let session = agent.session.as_ref().is_some_and(|session| session.starts_with(name));
        agent.id.as_str().starts_with(name) || session
    };
    let title = name.to_lowercase();
    let is_called = |agent: &Agent| {
        let cwd = Path::new(&agent.cwd);
        agent.title.to_lowercase().starts_with(&title)
            || agent.tmux.as_deref() == Some(name)
            || agent.pid.is_some_and(|pid| pid.to_string() == name)
            || cwd == Path::new(name)
            || cwd.file_name().is_some_and(|last| last == name)
            || folder.as_deref() == Some(cwd)
    };
    let lives = |agent: &Agent| agent.state != AgentState::Ended;
    // A folder is used again and again: whoever has ended in it is not meant while somebody runs there.
    let ways: [&dyn Fn(&Agent) -> bool; 4] =
        [&|a| is(a) && lives(a), &is, &|a| lives(a) && (begins(a) || is_called(a)), &|a| {
            begins(a) || is_called(a)
        }];
    let fits = |way: &&dyn Fn(&Agent) -> bool| known.iter().any(way);
    let Some(way) = ways.iter().find(|way| !name.is_empty() && fits(way)) else {
        return Err(NotNamed(format!(
            "there is no agent {name:?}; `aye agents` lists those that run, and `aye agents --all` all of them"
        )));
    };
    let mut meant: Vec<_> = known.into_iter().filter(|agent| way(agent)).collect();
    match (meant.pop(), meant.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            meant.extend(last);
            Err(NotNamed(ambiguous(name, &meant)))
        }
    }
}

fn ambiguous(name: &str, meant: &[Agent]) -> String {
    let mut words =
        format!("{name:?} could be any of these; type the beginning of an id, a tmux session or a process:");
    let names = names(meant);
    for agent in meant.iter().take(MOST_LISTED) {
        let (name, cwd) = (shorten(&in_a_line(&names[&agent.id]), 60), one_line(&agent.cwd));
        words += &format!("\n  {}  {}  {name}  {cwd}", agent.id, agent.state);
    }
    if let Some(more) = meant.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
        words += &format!("\n  and {more} more");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agent(id: &str, title: &str, cwd: &str, state: &str) -> Agent {
        serde_json::from_value(json!({"id": id, "kind": "claude", "reach": "driven", "host": "here", "cwd": cwd,
            "title": title, "session": format!("session-of-{id}"), "state": state, "cost": null, "open_asks": 0,
            "outline": null, "created_at": "2026-01-01T00:00:00Z"}))
        .unwrap()
    }

    fn known() -> Vec<Agent> {
        vec![
            agent("claude-a1", "Fix the parser", "/src/web", "ended"),
            agent("claude-a2", "Fix the parser", "/src/web", "idle"),
            agent("claude-b1", "Write docs", "/src/docs", "working"),
            agent("claude-b", "Tidy up", "/srv/docs", "ended"),
            agent("claude-c1", "Run tests", "/srv/api", "working"),
            agent("claude-c2", "Run tests twice", "/src/api", "working"),
        ]
    }

    #[track_caller]
    fn picks(name: &str, id: &str) {
        assert_eq!(pick(known(), name, None).unwrap().id.as_str(), id, "{name}");
    }

    #[test]
    fn an_agent_is_found_by_the_beginning_of_an_id_its_title_its_folder_or_its_tmux_session() {
        picks("claude-b1", "claude-b1");
        picks("claude-b", "claude-b");
        picks("session-of-claude-a1", "claude-a1");
        picks("session-of-claude-c1", "claude-c1");
        picks("claude-a", "claude-a2");
        picks("write docs", "claude-b1");
        picks("Run tests twice", "claude-c2");
        picks("web", "claude-a2");
        picks("/src/api", "claude-c2");
        picks("docs", "claude-b1");
        picks("Tidy up", "claude-b");
        assert_eq!(pick(known(), ".", Some("/src/docs".into())).unwrap().id.as_str(), "claude-b1");
        let in_tmux =
            Agent { tmux: Some("main".into()), pid: Some(4711), ..agent("claude-d", "x", "/y", "idle") };
        let known: Vec<_> = known().into_iter().chain([in_tmux]).collect();
        for name in ["main", "4711"] {
            assert_eq!(pick(known.clone(), name, None).unwrap().id.as_str(), "claude-d");
        }
    }

    #[test]
    fn a_name_that_fits_nobody_or_several_is_refused_with_the_candidates() {
        for nobody in ["nonsense", "", " ", "laude-a1", "src"] {
            assert!(pick(known(), nobody, None).unwrap_err().to_string().contains("no agent"), "{nobody:?}");
        }
        let several = pick(known(), "api", None).unwrap_err().to_string();
        assert!(several.contains("claude-c1") && several.contains("claude-c2"), "{several}");
        assert!(!several.contains("claude-b1"), "{several}");
        let all = pick(known(), "claude", None).unwrap_err().to_string();
        assert!(
            all.contains("claude-a2") && all.contains("claude-b1") && !all.contains("claude-a1"),
            "{all}"
        );
    }
}
