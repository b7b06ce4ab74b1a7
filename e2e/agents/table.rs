//! The tables in docs/agents.md say what the stories and the code say. `AYE_WRITE_DOCS=1` has these tests renew them.

use super::stories::STORIES;
use super::{AGENTS, Agent};
use aye::agents::acp::refusal_ends_turn;
use aye::config::{KNOWN_AGENTS, ProtocolName};
use std::sync::{Mutex, PoisonError};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");
/// One test at a time writes.
static WRITING: Mutex<()> = Mutex::new(());

fn document() -> String {
    std::fs::read_to_string(DOCUMENT).unwrap()
}

/// The document has these lines, a row or a whole table; `begins` is how the first of them begins, whatever else it says.
#[track_caller]
fn documented(begins: &str, lines: &str) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let document = document();
    if std::env::var_os("AYE_WRITE_DOCS").is_some() {
        let mut all: Vec<_> = document.lines().collect();
        let first = all.iter().position(|line| line.starts_with(begins)).expect(begins);
        let is_table = lines.contains('\n');
        let length = all[first..].iter().take_while(|line| line.starts_with('|')).count();
        all.splice(first..first + if is_table { length } else { 1 }, lines.lines());
        std::fs::write(DOCUMENT, all.join("\n") + "\n").unwrap();
        return;
    }
    assert!(
        format!("\n{document}").contains(&format!("\n{lines}\n")),
        "docs/agents.md must have this; AYE_WRITE_DOCS=1 writes it:\n{lines}"
    );
}

/// The agents of the table of what speaks ACP, in its order.
fn over_acp() -> Vec<&'static Agent> {
    let speaks_acp = |agent: &&Agent| {
        let mut known = KNOWN_AGENTS.iter();
        known.any(|known| known.kind == agent.kind && known.protocol == ProtocolName::Acp)
    };
    AGENTS.into_iter().filter(speaks_acp).collect()
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
    documented("| | Claude Code ", &table());
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
    documented("| agent | tested with |", &lines.join("\n"));
}

#[test]
fn the_modes_over_acp_are_those_that_are_offered() {
    let over_acp = KNOWN_AGENTS.iter().filter(|known| known.protocol == ProtocolName::Acp);
    let modes = over_acp.map(|known| {
        let modes: Vec<_> = known.modes.iter().map(|mode| format!("`{}`", mode.name)).collect();
        modes.join(", ")
    });
    documented("| modes |", &format!("| modes | {} |", modes.collect::<Vec<_>>().join(" | ")));
}

#[test]
fn what_a_refusal_does_over_acp_is_what_people_are_told_on_its_button() {
    let cells = over_acp().into_iter().map(|agent| match refusal_ends_turn(agent.kind) {
        true => "ends the turn",
        false => "the turn goes on",
    });
    documented("| a refusal |", &format!("| a refusal | {} |", cells.collect::<Vec<_>>().join(" | ")));
}

#[test]
fn the_agents_that_ask_questions_over_acp_are_those_of_the_stories() {
    let document = document();
    let row = document.lines().find_map(|line| line.strip_prefix("| questions | ")?.strip_suffix(" |"));
    let asks: Vec<_> = row.unwrap().split(" | ").map(|cell| cell != "none").collect();
    assert_eq!(asks, over_acp().iter().map(|agent| agent.asks.is_some()).collect::<Vec<_>>());
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
