//! `aye codex`: Codex's own screen stays live, and the first answer wins.

use super::stage::Stage;
use super::{once, sqlite};
use crate::agents::CODEX;
use crate::support::eventually;
use aye_testkit::model::{Model, tool};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// What its screen shows above a permission.
const PERMISSION: &str = "Would you like to run the following command?";
/// And below a question.
const QUESTION: &str = "enter to submit answer";

/// A dialog that is there for so long after a key has not taken it.
const LONGEST_REDRAW: Duration = Duration::from_secs(5);

fn stage(steps: Vec<Value>) -> Stage {
    Stage::new(&CODEX, Model::scripted(steps.into_iter().map(|call| vec![call]).collect()))
}

/// Outside of its sandbox, so that it asks.
fn runs(id: &str, command: &str) -> Value {
    let why = json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "why"});
    tool(id, "exec_command", why)
}

fn asks(id: &str) -> Value {
    CODEX.asks.unwrap()(id)
}

/// Starts `aye codex` with a prompt, in a folder that its person trusts.
fn start(stage: &Stage) {
    start_with(stage, &stage.hub.home);
}

/// The same, with this hub.
fn start_with(stage: &Stage, hub: &Path) {
    start_in(stage, &[], hub);
}

/// The same, with these options of Codex.
fn start_asking(stage: &Stage, options: &[&str]) {
    start_in(stage, options, &stage.hub.home);
}

fn start_in(stage: &Stage, options: &[&str], hub: &Path) {
    let arguments = ["-c", "features.default_mode_request_user_input=true"];
    stage.start(&[&arguments, options, &["do it"]].concat(), |command, work| {
        let file = work.join(".codex/config.toml");
        let mut config = std::fs::File::options().append(true).open(file).unwrap();
        write!(config, "[projects.{:?}]\ntrust_level = \"trusted\"\n", work.to_str().unwrap()).unwrap();
        command.env("AYE_HOME", hub);
    });
}

/// Answers a dialog in the terminal. Codex takes no notice of some keys that come right when it shows the dialog, so a
/// key after which the dialog stays is pressed again.
fn press_in(stage: &Stage, dialog: &str, key: &str) {
    stage.terminal.sees(dialog);
    let mut pressed: Option<Instant> = None;
    eventually(&format!("{dialog:?} to take {key}"), || {
        if !stage.terminal.shows(dialog) {
            return Some(());
        }
        if pressed.is_none_or(|at| at.elapsed() > LONGEST_REDRAW) {
            stage.terminal.press(&[key]);
            pressed = Some(Instant::now());
        }
        None
    });
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn an_answer_from_elsewhere_closes_the_dialog_and_the_model_is_told_it() {
    let stage = stage(vec![runs("call_1", "touch one"), asks("call_2"), runs("call_3", "touch three")]);
    start(&stage);
    let allowed = stage.hub.open_ask();
    assert_eq!(stage.agent_is("waiting")["tmux"], "0");
    assert_eq!(allowed["body"]["input"], json!({"command": "touch one", "description": "why"}));
    stage.terminal.sees(PERMISSION);
    assert_eq!(stage.hub.answer(&allowed, once()).status, 200);
    stage.model.told("call_1");
    assert!(stage.has("one"));
    stage.terminal.sees(QUESTION);
    stage.terminal.no_longer_sees(PERMISSION);
    let answered = stage.hub.answer_next(sqlite());
    assert!(stage.model.told("call_2").contains("SQLite"));
    stage.terminal.sees("$ touch three");
    let refused = stage.hub.answer_next(json!({"decision": "deny"}));
    assert!(stage.model.told("call_3").contains("rejected by user") && !stage.has("three"));
    for ask in [allowed, answered, refused] {
        stage.confirmed(&ask);
    }
    let agent = stage.agent_is("idle");
    assert_eq!((&agent["kind"], &agent["reach"]), (&json!("codex"), &json!("hooked")));
    assert_eq!(agent["session"].as_str().unwrap().len(), 36, "{agent}");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn an_answer_in_the_terminal_withdraws_the_ask() {
    let stage = stage(vec![asks("call_1"), runs("call_2", "touch two"), asks("call_3")]);
    start(&stage);
    let withdrawn = |ask: &Value| {
        let ended = stage.ended(ask);
        let state = (&ended["state"], &ended["note"]);
        assert_eq!(state, (&json!("withdrawn"), &json!("answered in the agent's own terminal")));
        assert_eq!(stage.hub.answer(ask, once()).status, 409);
    };
    let question = stage.hub.open_ask();
    press_in(&stage, QUESTION, "Enter");
    withdrawn(&question);
    assert!(stage.model.told("call_1").contains("PostgreSQL"));
    let permission = stage.hub.open_ask();
    press_in(&stage, PERMISSION, "y");
    withdrawn(&permission);
    stage.model.told("call_2");
    assert!(stage.has("two"));
    let interrupted = stage.hub.open_ask();
    press_in(&stage, QUESTION, "Escape");
    withdrawn(&interrupted);
    stage.agent_is("idle");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn when_both_answer_at_once_one_counts_and_nothing_is_disputed() {
    let commands = ["touch r1", "touch r2", "touch r3", "touch r4"];
    let steps = commands.iter().enumerate().map(|(n, command)| runs(&format!("call_{n}"), command));
    let stage = stage(steps.collect());
    start(&stage);
    for (n, command) in commands.iter().enumerate() {
        let ask = stage.hub.open_ask();
        assert_eq!(ask["display"]["text"], *command);
        stage.terminal.sees(&format!("$ {command}"));
        stage.terminal.sees(PERMISSION);
        // We refuse what they allow, so that it shows who was first.
        let recorded = std::thread::scope(|scope| {
            let pressed = scope.spawn(|| stage.terminal.press(&["y"]));
            let recorded = stage.hub.answer(&ask, json!({"decision": "deny"})).status;
            pressed.join().unwrap();
            recorded
        });
        let told = stage.model.told(&format!("call_{n}"));
        let refused = told.contains("rejected by user");
        let expected = if refused { "confirmed" } else { "superseded" };
        match recorded {
            200 => assert_eq!(stage.settled(&ask)["receipt"], expected, "{told}"),
            _ => assert_eq!((&stage.ended(&ask)["state"], refused), (&json!("withdrawn"), false)),
        }
        assert_eq!(stage.has(&format!("r{}", n + 1)), !refused);
        // A key that came after the dialog was gone is text in the prompt.
        stage.terminal.press(&["C-u"]);
    }
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_hub_that_is_killed_finds_the_same_ask_again_and_codex_that_is_killed_takes_it_back() {
    let mut stage = stage(vec![asks("call_1"), runs("call_2", "touch two")]);
    start(&stage);
    let before = stage.hub.open_ask();
    stage.hub.kill();
    stage.hub.restart();
    let again = stage.hub.answer_next(sqlite());
    assert_eq!(again["id"], before["id"]);
    assert!(stage.model.told("call_1").contains("SQLite"));
    stage.confirmed(&again);
    let waiting = stage.hub.open_ask();
    assert_ne!(servers_in(&stage.work()), 0);
    stage.terminal.kill();
    let ended = stage.ended(&waiting);
    assert_eq!((&ended["state"], &ended["note"]), (&json!("withdrawn"), &json!("the agent is gone")));
    stage.agent_is("ended");
    assert!(!stage.has("two"));
    eventually("Codex's server to end", || (servers_in(&stage.work()) == 0).then_some(()));
}

/// How many of Codex's servers run in a folder.
fn servers_in(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_server = |process: &std::fs::DirEntry| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).collect();
        words.contains(&&b"app-server"[..])
            && std::fs::read_link(process.path().join("cwd")).is_ok_and(|found| found == folder)
    };
    processes.filter(is_server).count()
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn without_a_hub_it_works_and_one_that_comes_later_finds_what_is_open() {
    let mut stage = stage(vec![runs("call_1", "touch one"), runs("call_2", "touch two")]);
    stage.hub.stop();
    start(&stage);
    press_in(&stage, PERMISSION, "y");
    stage.model.told("call_1");
    stage.terminal.sees("$ touch two");
    stage.hub.restart();
    let ask = stage.hub.open_ask();
    assert_eq!((&ask["body"]["tool"], &ask["display"]["text"]), (&json!("Bash"), &json!("touch two")));
    assert_eq!(stage.hub.answer(&ask, once()).status, 200);
    stage.model.told("call_2");
    stage.confirmed(&ask);
    // Whoever leaves Codex takes its server along. What its screen has not shown yet, Ctrl-C only interrupts.
    stage.terminal.sees("I am done.");
    eventually("Codex to end", || {
        stage.terminal.press(&["C-c"]);
        let list = stage.hub.get("/api/agents?all=true", &stage.hub.operator()).body;
        (list["agents"][0]["state"] == "ended").then_some(())
    });
    eventually("Codex's server to end", || (servers_in(&stage.work()) == 0).then_some(()));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn two_terminals_at_once_each_get_their_own_answers() {
    let first = stage(vec![runs("call_1", "touch first")]);
    let second = stage(vec![runs("call_2", "touch second")]);
    start(&first);
    start_with(&second, &first.hub.home);
    let asks = first.open_asks(2);
    for ask in &asks {
        let answer = match ask["display"]["text"] == "touch first" {
            true => once(),
            false => json!({"decision": "deny"}),
        };
        assert_eq!(first.hub.answer(ask, answer).status, 200);
        first.confirmed(ask);
    }
    assert_ne!(asks[0]["agent"], asks[1]["agent"]);
    first.model.told("call_1");
    assert!(second.model.told("call_2").contains("rejected by user"));
    assert!(first.has("first") && !second.has("second"));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn what_cannot_be_joined_is_refused_with_a_sentence() {
    let stage = stage(Vec::new());
    for (argument, why) in [
        ("--no-daemon", "Codex without a server cannot be joined: leave out --no-daemon"),
        ("--remote=ws://127.0.0.1:1", "aye codex starts the server that it joins: leave out --remote"),
    ] {
        let mut command = crate::support::aye(&stage.hub.home);
        (CODEX.set_up)(&mut command, &stage.work(), &stage.model.url);
        let refused = command.args(["codex", argument]).output().unwrap();
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_terminal_in_which_codex_asks_for_nothing_is_shown_as_that() {
    let stage = stage(vec![(CODEX.runs)("call_1", "touch one")]);
    start_asking(&stage, &["-a", "never", "-s", "danger-full-access"]);
    eventually("the agent's mode", || {
        let list = stage.hub.get("/api/agents", &stage.hub.operator()).body;
        list["agents"].get(0).filter(|agent| agent["asks"] == "nothing").map(drop)
    });
    stage.model.told("call_1");
    assert!(stage.has("one") && stage.hub.open_asks().is_empty());
}
