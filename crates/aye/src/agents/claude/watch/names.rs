//! Names for agents, from people who keep a folder for each: `<dir>/<agent id>/state.json`.

use aye_core::AgentId;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct State {
    id: String,
    workspace: PathBuf,
}

/// The agents that have a name and a workspace; what cannot be read names nobody.
pub fn read(folder: &Path) -> Vec<(AgentId, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let text = fs::read(entry.path().join("state.json")).ok()?;
        let state: State = serde_json::from_slice(&text).ok()?;
        let workspace = state.workspace.canonicalize().unwrap_or(state.workspace);
        Some((AgentId::try_from(state.id).ok()?, workspace))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_by_its_state_and_nonsense_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("state.json"), text).unwrap();
        };
        write("web", r#"{"id": "web", "workspace": "/nowhere/web", "other": 1}"#);
        write("odd", r#"{"id": "a b", "workspace": "/x"}"#);
        write("half", r#"{"id": "half""#);
        fs::create_dir(dir.path().join("empty")).unwrap();
        let web = AgentId::try_from("web").unwrap();
        assert_eq!(read(dir.path()), [(web, PathBuf::from("/nowhere/web"))]);
        assert_eq!(read(Path::new("/nowhere")), []);
    }
}
