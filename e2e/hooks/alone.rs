//! Hubs that are not there, go and come back, and sessions that end.

use super::stage::Stage;
use super::{DIALOG, sqlite, which_database};
use aye_testkit::model::{Model, tool};

fn two_questions() -> Model {
    let ask = |id: &str| vec![tool(id, "AskUserQuestion", which_database())];
    Model::scripted(vec![ask("toolu_1"), ask("toolu_2")])
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn without_a_hub_the_session_goes_on_as_always_and_a_hub_that_comes_later_is_asked() {
    let mut stage = Stage::new(two_questions());
    stage.hub.stop();
    stage.aye_claude(&["do it"]);
    stage.sees(DIALOG);
    stage.no_hook_waits();
    stage.hub.restart();
    stage.press(&["2"]);
    assert!(stage.model.told("toolu_1").contains("\"Which DB?\"=\"SQLite\""));
    let ask = stage.hub.answer_next(sqlite());
    assert_eq!(ask["tool_use_id"], "toolu_2");
    assert!(stage.model.told("toolu_2").contains("\"Which DB?\"=\"SQLite\""));
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
    assert_eq!(stage.asks().len(), 1);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_hub_that_is_killed_while_a_hook_waits_delivers_the_answer_after_its_restart() {
    let mut stage = Stage::new(two_questions());
    stage.aye_claude(&["do it"]);
    let before = stage.hub.open_ask();
    stage.hub.kill();
    stage.hub.restart();
    let ask = stage.hub.answer_next(sqlite());
    assert_eq!(ask["id"], before["id"]);
    assert!(stage.model.told("toolu_1").contains("\"Which DB?\"=\"SQLite\""));
    assert_eq!(stage.settled(&ask)["receipt"], "confirmed");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn the_terminal_answers_while_the_hub_is_away_and_the_hub_hears_of_it() {
    let mut stage =
        Stage::new(Model::scripted(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]]));
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.sees(DIALOG);
    stage.hub.kill();
    stage.press(&["2"]);
    stage.model.result_of("toolu_q");
    stage.hub.restart();
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["answer"]), (&"withdrawn".into(), &sqlite()));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_that_ends_ends_its_agent_and_takes_its_asks_along() {
    let stage = Stage::new(two_questions());
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.sees(DIALOG);
    stage.press(&["Escape"]);
    stage.ended(&ask);
    stage.sees("eclined to answer");
    stage.type_line("/exit");
    stage.agent_is("ended");
    crate::support::eventually("the notes to go", || {
        stage.hub.home.join("hooked").read_dir().unwrap().next().is_none().then_some(())
    });
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_that_is_killed_leaves_no_hook_and_no_ask_behind() {
    let stage = Stage::new(two_questions());
    stage.aye_claude(&["do it"]);
    let ask = stage.hub.open_ask();
    stage.kill_the_session();
    stage.no_hook_waits();
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["note"]), (&"withdrawn".into(), &"the agent is gone".into()));
    stage.agent_is("ended");
}
