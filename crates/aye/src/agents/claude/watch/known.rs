//! Which sessions the hub already knows by a better way.

use super::watcher::WatchEvent;
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{AgentsQuery, calls};
use aye_core::{Agent, AgentState, Reach};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

const BETWEEN_CALLS: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct KnownSessions {
    /// When it was asked for: what came later may be missing.
    pub at: Instant,
    pub sessions: HashSet<String>,
}

/// Asks the hub again and again; while the hub is away, the last list stays.
pub async fn poll(
    home: Home,
    known_sessions: watch::Sender<Option<KnownSessions>>,
    events: mpsc::Sender<WatchEvent>,
) {
    let mut complained = false;
    loop {
        let at = Instant::now();
        // Made again each time: a hub that starts later brings the token along.
        let reply = match Client::for_person(&home) {
            Ok(person) => {
                let agents = person.call(&calls::AGENTS, "", &AgentsQuery::default(), &(), Try::Once).await;
                agents.map_err(anyhow::Error::from)
            }
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => {
                complained = false;
                known_sessions.send_replace(Some(KnownSessions { at, sessions: known(&reply.agents) }));
            }
            Err(error) if !complained => {
                complained = true;
                drop(events.send(WatchEvent::Trouble(format!("{error:#}"))).await);
            }
            Err(error) => tracing::debug!(%error, "the hub is still away"),
        }
        tokio::time::sleep(BETWEEN_CALLS).await;
    }
}

/// Driven or hooked, and not over.
fn known(agents: &[Agent]) -> HashSet<String> {
    let known = agents.iter().filter(|agent| {
        matches!(agent.reach, Reach::Driven | Reach::Hooked) && agent.state != AgentState::Ended
    });
    known.filter_map(|agent| agent.session.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn driven_and_hooked_sessions_are_known_until_they_end() {
        let agent = |reach: &str, state: &str, session: Option<&str>| {
            let agent = json!({
                "id": "a", "kind": "claude", "reach": reach, "host": "", "cwd": "", "title": "", "session": session,
                "state": state, "open_asks": 0, "created_at": "2026-01-01T00:00:00Z"});
            serde_json::from_value(agent).unwrap()
        };
        let agents = [
            agent("driven", "working", Some("a")),
            agent("hooked", "lost", Some("b")),
            agent("hooked", "ended", Some("c")),
            agent("watched", "working", Some("d")),
            agent("driven", "working", None),
        ];
        assert_eq!(known(&agents), HashSet::from(["a".to_owned(), "b".to_owned()]));
    }
}
