//! Which sessions the hub already knows by a better way.

use super::desk::Told;
use crate::client::Client;
use crate::home::Home;
use serde_json::Value;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

const BETWEEN_CALLS: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Roll {
    /// When it was asked for: what came later may be missing.
    pub at: Instant,
    pub known: HashSet<String>,
}

/// Asks the hub again and again; while the hub is away, the last word stays.
pub async fn call(home: Home, roll: watch::Sender<Option<Roll>>, told: mpsc::Sender<Told>) {
    let mut complained = false;
    loop {
        let at = Instant::now();
        // Made anew each time: a hub that starts later brings the token along.
        let reply = match Client::for_person(&home) {
            Ok(person) => person.get::<Value>("/api/agents").await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => {
                complained = false;
                roll.send_replace(Some(Roll { at, known: known(&reply) }));
            }
            Err(error) if !complained => {
                complained = true;
                drop(told.send(Told::Trouble(format!("{error:#}"))).await);
            }
            Err(error) => tracing::debug!(%error, "the hub is still away"),
        }
        tokio::time::sleep(BETWEEN_CALLS).await;
    }
}

/// Driven or hooked, and not over.
fn known(reply: &Value) -> HashSet<String> {
    let agents = reply["agents"].as_array().into_iter().flatten();
    let known = agents.filter(|agent| {
        matches!(agent["reach"].as_str(), Some("driven" | "hooked")) && agent["state"] != "ended"
    });
    known.filter_map(|agent| agent["session"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn driven_and_hooked_sessions_are_known_until_they_end() {
        let agent = |reach: &str, state: &str, session: &str| json!({"reach": reach, "state": state, "session": session});
        let reply = json!({"agents": [
            agent("driven", "working", "a"), agent("hooked", "lost", "b"), agent("hooked", "ended", "c"),
            agent("watched", "working", "d"), json!({"reach": "driven", "state": "working", "session": null})]});
        assert_eq!(known(&reply), HashSet::from(["a".to_owned(), "b".to_owned()]));
    }
}
