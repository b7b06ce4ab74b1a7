//! The table in docs/agents.md says what the stories say.

use super::AGENTS;
use super::stories::STORIES;
use aye::config::{KNOWN_AGENTS, ProtocolName};

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md")).unwrap()
}

fn table() -> String {
    let names = AGENTS.map(|agent| format!("{} {}", agent.name, agent.version)).join(" | ");
    let mut lines = vec![format!("| | {names} |"), format!("|---|{}", "---|".repeat(AGENTS.len()))];
    for (story, _) in STORIES {
        let cells =
            AGENTS.map(|agent| agent.cannot(story).map_or("yes".to_owned(), |why| format!("no: {why}")));
        lines.push(format!("| {story} | {} |", cells.join(" | ")));
    }
    lines.join("\n")
}

#[test]
fn the_table_of_agents_is_that_of_the_stories() {
    assert!(document().contains(&table()), "docs/agents.md must have this table:\n{}", table());
}

#[test]
fn the_versions_that_doctor_names_are_those_of_the_stories_and_of_the_script_that_installs_them() {
    let script =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/agents.sh")).unwrap();
    let known = KNOWN_AGENTS.map(|known| (known.kind, known.name, known.tested));
    assert_eq!(AGENTS.map(|agent| (agent.kind, agent.name, agent.version)), known);
    for agent in AGENTS {
        assert!(script.contains(&format!("{} {}", agent.kind, agent.version)), "{}", agent.kind);
    }
}

#[test]
fn the_table_of_ways_is_that_of_doctor() {
    let mut lines =
        vec!["| agent | tested with | can be reached by |".to_owned(), "|---|---|---|".to_owned()];
    for known in KNOWN_AGENTS {
        let ways = known.ways_in_words().join(", ");
        lines.push(format!("| {} | {} | {ways} |", known.name, known.tested));
    }
    let table = lines.join("\n");
    assert!(document().contains(&table), "docs/agents.md must have this table:\n{table}");
}

#[test]
fn the_modes_over_acp_are_those_that_are_offered() {
    let over_acp = KNOWN_AGENTS.iter().filter(|known| known.protocol == ProtocolName::Acp);
    let modes = over_acp.map(|known| {
        let modes: Vec<_> = known.modes.iter().map(|(mode, _)| format!("`{mode}`")).collect();
        modes.join(", ")
    });
    let row = format!("| modes | {} |", modes.collect::<Vec<_>>().join(" | "));
    assert!(document().contains(&row), "docs/agents.md must have this row:\n{row}");
}

#[test]
fn every_story_that_cannot_be_told_is_one_of_the_table() {
    for agent in AGENTS {
        for (story, why) in agent.cannot {
            assert!(
                STORIES.iter().any(|(name, _)| name == story) && !why.is_empty(),
                "{}: {story}",
                agent.name
            );
        }
        assert_eq!(agent.asks.is_none(), agent.cannot("a question is answered").is_some(), "{}", agent.name);
        assert_eq!(agent.plans.is_none(), agent.cannot("a plan is approved").is_some(), "{}", agent.name);
    }
}
