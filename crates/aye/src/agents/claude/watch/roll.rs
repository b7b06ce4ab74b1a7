//! Which sessions the hub already knows by a better way.

use crate::client::Client;
use hyper::Method;
use serde_json::Value;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const BETWEEN_CALLS: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Roll {
    /// When it was asked for: what came later may be missing.
    pub at: Instant,
    pub known: HashSet<String>,
}

/// Asks the hub again and again; while the hub is away, the last word stays.
pub async fn call(person: Client, roll: watch::Sender<Option<Roll>>) {
    loop {
        let at = Instant::now();
        match person.insist(Method::GET, "/api/agents", None).await {
            Ok(reply) => drop(roll.send_replace(Some(Roll { at, known: known(&reply) }))),
            Err(error) => tracing::warn!(%error, "the hub does not say which sessions it knows"),
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
