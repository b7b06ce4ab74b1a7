//! The table in docs/agents.md says what the stories say.

use super::AGENTS;
use super::stories::STORIES;

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
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");
    let document = std::fs::read_to_string(path).unwrap();
    assert!(document.contains(&table()), "docs/agents.md must have this table:\n{}", table());
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
    }
}
