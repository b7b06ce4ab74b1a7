//! Requests of sub-agents, whose dialogs Claude Code does not open while a hook waits.

use super::stage::Stage;
use crate::support::{eventually, is_older_claude};
use aye_testkit::model::{Model, tool};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Longer than a dialog takes to go once it took a key.
const BETWEEN_KEYS: Duration = Duration::from_secs(2);

const PROMPT: &str = "do as the script says";

fn allow() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

/// A sub-agent in the background for each command, which runs it.
fn model(commands: &[&str]) -> Model {
    let start = |n: usize| {
        json!({"description": format!("number {n}"), "prompt": PROMPT, "subagent_type": "general-purpose",
            "run_in_background": true})
    };
    let starts = (0..commands.len()).map(|n| tool(&format!("toolu_a{n}"), "Agent", start(n))).collect();
    let run = |(n, command): (usize, &&str)| {
        vec![tool(&format!("toolu_s{n}"), "Bash", json!({"command": command, "description": "as it says"}))]
    };
    Model::scripted(vec![starts]).with_sub_agents(PROMPT, commands.iter().enumerate().map(run).collect())
}

fn started(commands: &[&str]) -> Stage {
    let stage = Stage::new(model(commands));
    stage.aye_claude(&["do it"]);
    stage
}

impl Stage {
    fn ask_about(&self, command: &str) -> Value {
        let is_it = |ask: &Value| ask["body"]["input"]["command"] == command;
        eventually("the sub-agent's ask", || self.hub.open_asks().into_iter().find(is_it))
    }

    /// The text of the dialog that the terminal shows.
    fn dialog(&self) -> Option<String> {
        let screen = self.visible();
        Some(screen.rsplit_once("Bash command · from the general-purpose agent")?.1.to_owned())
    }

    /// The terminal shows the dialog about this command, and the session's file says so.
    fn shows_dialog(&self, command: &str) {
        let is_shown = || self.dialog()?.contains(command).then_some(());
        eventually(&format!("the dialog about {command:?}"), is_shown);
        self.says_that_it_waits();
    }

    /// A dialog that has only just been drawn drops keys, so the key is pressed again, but never into the next dialog.
    fn allows_at_the_keyboard(&self, command: &str) {
        let mut pressed: Option<Instant> = None;
        eventually("the dialog to take the key", || {
            let is_shown = self.dialog().is_some_and(|dialog| dialog.contains(command));
            if is_shown && pressed.is_none_or(|at| at.elapsed() > BETWEEN_KEYS) {
                self.press(&["1"]);
                pressed = Some(Instant::now());
            }
            (!is_shown).then_some(())
        });
    }

    fn confirmed(&self, ask: &Value) {
        let is_confirmed = |ask: &Value| ask["receipt"] == "confirmed";
        self.hub.once(ask, "the transcript to prove it", is_confirmed);
    }

    fn answers(&self, ask: &Value, answer: Value) {
        let recorded = self.hub.answer(ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
    }

    fn receipts_of(&self, ask: &Value) -> Vec<String> {
        let log = self.aye(&["log", "--json"]);
        let lines = String::from_utf8(log.stdout).unwrap();
        let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let about = entries.filter(|entry| entry["ask"] == ask["id"]);
        let kinds = about.map(|entry| entry["kind"].as_str().unwrap_or_default().to_owned());
        kinds.filter(|kind| kind.starts_with("receipt.")).collect()
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_sub_agents_dialog_appears_and_the_answer_is_typed() {
    let stage = started(&["touch below"]);
    let ask = stage.ask_about("touch below");
    assert_eq!((&ask["sub_agent"], &ask["tool_use_id"]), (&json!("general-purpose"), &json!("toolu_s0")));
    stage.shows_dialog("touch below");
    stage.no_hook_waits();
    let edited = json!({"decision": "allow", "scope": "once", "input": {"command": "ls"}});
    assert_eq!(stage.hub.answer(&ask, edited).status, 422);
    stage.answers(&ask, allow());
    stage.confirmed(&ask);
    assert!(stage.work().join("below").exists());
    assert_eq!(stage.receipts_of(&ask), ["receipt.unknown", "receipt.delivered", "receipt.confirmed"]);
    assert_eq!(stage.asks().len(), 1);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_sub_agent_is_refused_with_words_through_its_dialog() {
    let stage = started(&["touch below"]);
    let ask = stage.ask_about("touch below");
    stage.shows_dialog("touch below");
    stage.answers(&ask, json!({"decision": "deny", "message": "not on a friday"}));
    assert!(stage.model.told("toolu_s0").contains("not on a friday"));
    stage.confirmed(&ask);
    assert!(!stage.work().join("below").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_dialog_answered_in_the_terminal_takes_the_ask_back() {
    let stage = started(&["touch below; while [ ! -e stop ]; do sleep 0.1; done"]);
    let ask = stage.ask_about("touch below; while [ ! -e stop ]; do sleep 0.1; done");
    stage.shows_dialog("touch below");
    stage.is_followed(&ask);
    stage.allows_at_the_keyboard("touch below");
    // While it runs.
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &allow()));
    fs::write(stage.work().join("stop"), "").unwrap();
    stage.model.result_of("toolu_s0");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_sub_agent_that_is_stopped_takes_its_ask_back_unanswered() {
    let stage = started(&["touch below"]);
    let ask = stage.ask_about("touch below");
    stage.shows_dialog("touch below");
    stage.is_followed(&ask);
    if is_older_claude() {
        stage.press(&["Escape"]);
        let ended = stage.ended(&ask);
        assert_eq!((&ended["state"], &ended["answer"]["decision"]), (&json!("withdrawn"), &json!("deny")));
        return;
    }
    stage.press(&["C-x", "C-k", "C-x", "C-k"]);
    let ended = stage.ended(&ask);
    assert_eq!(ended["state"], "withdrawn");
    assert_ne!(ended["answer"]["decision"], "allow", "{ended}");
    assert!(!stage.work().join("below").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn of_two_sub_agents_one_is_shown_and_the_other_stays_answerable() {
    let stage = started(&["touch one", "touch two"]);
    let asks = [stage.ask_about("touch one"), stage.ask_about("touch two")];
    stage.sees("from the general-purpose agent");
    let names = ["touch one", "touch two"];
    let shown = usize::from(stage.visible().contains("touch two"));
    let held = 1 - shown;
    assert!(!stage.visible().contains("1 of 2"), "{}", stage.visible());
    // Through its hook, with all that a hook can deliver.
    stage.answers(
        &asks[held],
        json!({"decision": "allow", "scope": "once", "input": {"command": "touch other"}}),
    );
    stage.confirmed(&asks[held]);
    assert!(stage.work().join("other").exists());
    stage.shows_dialog(names[shown]);
    stage.answers(&asks[shown], allow());
    stage.confirmed(&asks[shown]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn the_next_dialog_appears_once_the_one_before_is_answered() {
    let stage = started(&["touch one", "touch two"]);
    let asks = [stage.ask_about("touch one"), stage.ask_about("touch two")];
    stage.sees("from the general-purpose agent");
    let names = ["touch one", "touch two"];
    let first = usize::from(stage.visible().contains("touch two"));
    stage.shows_dialog(names[first]);
    stage.is_followed(&asks[first]);
    stage.allows_at_the_keyboard(names[first]);
    assert_eq!(stage.ended(&asks[first])["state"], "withdrawn");
    stage.shows_dialog(names[1 - first]);
    stage.answers(&asks[1 - first], allow());
    stage.confirmed(&asks[1 - first]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_answer_given_while_the_dialog_is_handed_over_is_typed_once() {
    let stage = started(&["touch below"]);
    let ask = stage.ask_about("touch below");
    // Nobody is there to type while the hook hands over.
    eventually("the follower", || (stage.followers().len() == 1).then_some(()));
    stage.stop_the_followers();
    stage.shows_dialog("touch below");
    stage.no_hook_waits();
    stage.answers(&ask, allow());
    assert_eq!(stage.hub.ask(&ask)["receipt"], "pending");
    stage.continue_the_followers();
    stage.confirmed(&ask);
    assert_eq!(stage.receipts_of(&ask), ["receipt.unknown", "receipt.delivered", "receipt.confirmed"]);
    assert_eq!(stage.asks().len(), 1);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_killed_follower_is_replaced_while_a_dialog_is_handed_over() {
    let stage = started(&["touch below"]);
    let ask = stage.ask_about("touch below");
    stage.shows_dialog("touch below");
    for _ in 0..3 {
        eventually("one that stands by", || (stage.followers().len() == 2).then_some(()));
        stage.is_followed(&ask);
        stage.kill_the_follower_of(&ask);
    }
    stage.answers(&ask, allow());
    stage.confirmed(&ask);
    assert_eq!(stage.receipts_of(&ask), ["receipt.unknown", "receipt.delivered", "receipt.confirmed"]);
    assert_eq!(stage.asks().len(), 1);
    eventually("the one that stood by to end", || (stage.followers().len() == 1).then_some(()));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn the_ask_of_a_killed_hook_of_a_sub_agent_is_asked_anew() {
    let stage = started(&["touch below"]);
    let first = stage.ask_about("touch below");
    stage.kill_the_hooks();
    assert_eq!(stage.ended(&first)["state"], "withdrawn");
    let again = stage.ask_about("touch below");
    assert_ne!(again["key"], first["key"]);
    stage.answers(&again, allow());
    stage.confirmed(&again);
    assert!(stage.work().join("below").exists());
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn outside_tmux_somebody_is_told_and_the_hook_goes_on_waiting() {
    let stage = Stage::new(model(&["touch below"]));
    let notices = stage.with_notices();
    stage.aye_claude_outside_tmux(&[("DISPLAY", ":0")]);
    let ask = stage.ask_about("touch below");
    let id = ask["id"].as_str().unwrap();
    let notice =
        eventually("a notice", || fs::read_to_string(&notices).ok().filter(|text| text.ends_with('\n')));
    assert_eq!(
        notice,
        format!(
            "--app-name=aye|A sub-agent of Claude Code is waiting|aye show {id}, and then: aye answer {id} --allow\n"
        )
    );
    stage.has_title(&format!("aye: a sub-agent is waiting (aye show {id})"));
    assert!(!stage.visible().contains("Bash command"), "{}", stage.visible());
    stage.answers(&ask, allow());
    stage.confirmed(&ask);
    assert_eq!(stage.receipts_of(&ask), ["receipt.delivered", "receipt.confirmed"]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn outside_tmux_aye_handover_lets_the_terminal_show_the_dialog() {
    let stage = Stage::new(model(&["touch below"]));
    stage.aye_claude_outside_tmux(&[]);
    let ask = stage.ask_about("touch below");
    stage.has_title("aye: a sub-agent is waiting");
    let nobody = stage.aye(&["handover", "nobody"]);
    assert_eq!(nobody.status.code(), Some(6), "{nobody:?}");
    let released = stage.aye(&["handover", ask["agent"].as_str().unwrap()]);
    assert_eq!(released.status.code(), Some(0), "{released:?}");
    assert!(String::from_utf8_lossy(&released.stdout).contains("Its terminal shows the dialog now"));
    stage.shows_dialog("touch below");
    let refused = eventually("the ask to be the terminal's", || {
        Some(stage.hub.ask(&ask)).filter(|ask| ask["can"]["answer"] == false)
    });
    assert!(refused["can"]["why"].as_str().unwrap().contains("answer it in its terminal"), "{refused}");
    let nothing = stage.aye(&["handover", ask["agent"].as_str().unwrap()]);
    assert!(String::from_utf8_lossy(&nothing.stdout).contains("Nothing is held back"), "{nothing:?}");
    stage.is_followed(&ask);
    stage.allows_at_the_keyboard("touch below");
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &allow()));
    stage.model.result_of("toolu_s0");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn outside_tmux_a_key_in_the_terminal_lets_it_show_the_dialog() {
    let stage = Stage::new(model(&["touch below"]));
    stage.aye_claude_outside_tmux(&[]);
    let ask = stage.ask_about("touch below");
    stage.has_title("aye: a sub-agent is waiting");
    // The system tells of input at most every eight seconds, and the session reads an answer of the terminal as it starts.
    let shown = || {
        stage.press(&["Down"]);
        stage.visible().contains("from the general-purpose agent").then_some(())
    };
    eventually("the dialog", shown);
    stage.is_followed(&ask);
    stage.press(&["Escape"]);
    assert_eq!(stage.ended(&ask)["state"], "withdrawn");
}

impl Stage {
    /// A `notify-send` that writes its arguments to this file.
    fn with_notices(&self) -> std::path::PathBuf {
        let (program, notices) = (self.bin().join("notify-send"), self.bin().join("notices"));
        fs::create_dir_all(self.bin()).unwrap();
        let script = format!("#!/bin/sh\nIFS='|'\nprintf '%s\\n' \"$*\" >> '{}'\n", notices.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        notices
    }
}
