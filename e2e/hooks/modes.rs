//! Sessions in modes that ask for less, as everybody is shown them.

use super::stage::Stage;
use crate::support::eventually;
use aye_testkit::model::{Model, text};

fn asks(stage: &Stage, expected: &str) {
    eventually(&format!("the agent's mode to ask for {expected}"), || {
        let list = stage.hub.get("/api/agents", &stage.hub.operator()).body;
        list["agents"].get(0).filter(|agent| agent["asks"] == expected).map(drop)
    });
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_joined_session_that_asks_for_nothing_is_shown_as_that() {
    let stage = Stage::new(Model::scripted(vec![vec![text("Done it.")]]));
    stage.aye_claude_as_it_comes(&["--permission-mode", "bypassPermissions", "do it"]);
    stage.sees("Done it.");
    asks(&stage, "nothing");
    let listed = String::from_utf8(stage.aye(&["agents"]).stdout).unwrap();
    assert!(listed.contains("asks for nothing"), "{listed}");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_mode_that_is_changed_in_the_terminal_is_shown() {
    let stage = Stage::new(Model::scripted(vec![vec![text("First done.")], vec![text("Second done.")]]));
    stage.aye_claude(&["do it"]);
    stage.sees("First done.");
    asks(&stage, "everything");
    stage.press(&["BTab"]);
    stage.sees("accept edits on");
    stage.type_line("go on");
    stage.sees("Second done.");
    asks(&stage, "some");
}
