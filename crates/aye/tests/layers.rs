//! The folders depend on each other in one direction only; this reads the `use` lines and holds that.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let mut open = vec![root];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

#[track_caller]
fn never_uses(folder: &str, others: &[&str]) {
    for path in sources(folder) {
        let text = fs::read_to_string(&path).unwrap();
        for other in others {
            // `cli` is not `client`.
            let name = format!("crate::{other}");
            let mut named = text.split(&name).skip(1);
            let uses = named.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
            assert!(!uses, "{} uses {other}", path.display());
        }
    }
}

#[test]
fn agents_know_the_hub_only_through_its_client() {
    never_uses("agents", &["hub", "store", "api", "surfaces", "cli"]);
}

#[test]
fn surfaces_know_neither_agents_nor_the_store() {
    never_uses("surfaces", &["agents", "store", "api", "cli"]);
}

#[test]
fn the_hub_and_the_store_know_nobody_above_them() {
    never_uses("hub", &["agents", "api", "surfaces", "cli", "client"]);
    never_uses("store", &["hub", "agents", "api", "surfaces", "cli", "client"]);
}

#[test]
fn the_api_knows_the_store_only_through_the_hub() {
    never_uses("api", &["store", "agents", "surfaces", "cli", "client"]);
}

#[test]
fn the_database_is_named_in_the_store_alone() {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join("store");
    for path in sources("").into_iter().filter(|path| !path.starts_with(&store)) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("rusqlite"), "{} names the database's library", path.display());
    }
}

#[test]
fn the_mcp_server_knows_neither_who_runs_it_nor_how_asks_reach_the_hub() {
    never_uses("mcp", &["hub", "store", "agents", "api", "surfaces", "cli", "client"]);
}

#[test]
fn the_protocol_knows_neither_of_its_ends() {
    never_uses("protocol", &["hub", "store", "agents", "api", "surfaces", "cli", "client", "transport"]);
}

#[test]
fn the_addresses_of_the_api_are_in_the_protocol_and_the_api_alone() {
    let written =
        ["protocol", "api"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder));
    for path in sources("").into_iter().filter(|path| !written.iter().any(|folder| path.starts_with(folder)))
    {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("\"/api/"), "{} names a call by its address", path.display());
    }
}
