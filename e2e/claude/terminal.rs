//! `aye run` and `aye attach` in a real terminal, with somebody who types there.

use super::{Story, bash, which_database};
use crate::support::{code, complained, eventually, printed};
use aye_testkit::model::{text, tool};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

struct Terminal {
    name: String,
}

impl Terminal {
    /// Somebody types this command there, after `aye`.
    fn with(story: &Story, arguments: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("aye-story-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let aye = story.command(&[], "");
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX").args(["-u", "-L", &name, "-f", "/dev/null", "new-session", "-d"]);
        tmux.args(["-x", "150", "-y", "60", "env"]);
        for (variable, value) in aye.get_envs().filter_map(|(variable, value)| Some((variable, value?))) {
            tmux.arg(format!("{}={}", variable.to_str().unwrap(), value.to_str().unwrap()));
        }
        // What the program ends with stays on the screen, and Ctrl-C is for the program alone.
        tmux.args(["sh", "-c", "trap : INT; \"$@\"; echo ended $?; cat", "sh", env!("CARGO_BIN_EXE_aye")])
            .args(arguments);
        let started = tmux.current_dir(story.work.path()).output().expect("tmux must be installed");
        assert!(started.status.success(), "{started:?}");
        Self { name }
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-u", "-L", &self.name]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        printed(&output)
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J"])
    }

    fn shows(&self, words: &str) {
        eventually(&format!("{words:?} on the screen"), || self.screen().contains(words).then_some(()));
    }

    /// The prompt line is there, and nothing on it.
    fn waits(&self) {
        let last = || self.screen().lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
        eventually("an empty prompt line", || (last().as_deref() == Some(">")).then_some(()));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(Command::new("tmux").args(["-L", &self.name, "kill-server"]).output());
    }
}

/// What the model was sent last has these words.
fn model_reads(story: &Story, words: &str) {
    let last = || story.model.requests().last().map(|request| request["messages"].to_string());
    eventually(&format!("the model to read {words:?}"), || last()?.contains(words).then_some(()));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_run_is_a_chat_that_survives_an_interrupt_and_can_be_resumed() {
    let story = Story::new(vec![
        vec![tool("toolu_q", "AskUserQuestion", which_database())],
        vec![text("Taken.")],
        vec![tool("toolu_b", "Bash", bash("touch never"))],
        vec![text("Third.")],
    ]);
    let terminal = Terminal::with(&story, &["run", "begin"]);
    terminal.shows("Type a number");
    terminal.waits();
    terminal.keys(&["2", "Enter"]);
    story.told("toolu_q", "\"Which DB?\"=\"SQLite\"");
    terminal.shows("Taken.");
    terminal.waits();

    terminal.keys(&["second prompt", "Enter"]);
    model_reads(&story, "second prompt");
    terminal.shows("Type allow");
    let ask = story.hub.open_ask();
    terminal.keys(&["C-c"]);
    terminal.shows("Ctrl-C again ends the run.");
    let taken_back = story.hub.once(&ask, "the request to be withdrawn", |ask| ask["state"] == "withdrawn");
    assert_eq!(taken_back["receipt"], Value::Null);
    terminal.waits();
    assert!(!story.has("never") && !terminal.screen().contains("ended "));

    terminal.keys(&["third prompt", "Enter"]);
    model_reads(&story, "third prompt");
    terminal.shows("Third.");
    terminal.waits();
    terminal.keys(&["C-d"]);
    terminal.shows("ended 0");
    let agent = story.agent();
    let id = agent["id"].as_str().unwrap();
    terminal.shows(&format!("Go on later: aye run --resume {id}"));

    let elsewhere = tempfile::tempdir().unwrap();
    let mut again = story.command(&["--resume", id, "--once"], "what did I choose?");
    let again = again.current_dir(elsewhere.path()).output().unwrap();
    assert_eq!(code(&again), Some(0), "{}", complained(&again));
    model_reads(&story, "what did I choose?");
    model_reads(&story, "SQLite");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn commands_steer_a_detached_run_and_the_model_is_told() {
    let story = Story::new(vec![
        vec![text("First.")],
        vec![tool("toolu_q", "AskUserQuestion", which_database())],
        vec![text("Last.")],
    ]);
    let started = story.command(&["--detach"], "begin here").output().unwrap();
    assert_eq!(code(&started), Some(0), "{}", complained(&started));
    let id = printed(&started).trim().to_owned();
    let until = |state: &str| eventually(state, || (story.agent()["state"] == state).then_some(()));
    until("idle");
    assert_eq!(code(&story.hub.aye(&["send", "begin here", "and now this"])), Some(0));
    model_reads(&story, "and now this");
    let ask = story.hub.open_ask();
    assert_eq!(code(&story.hub.aye(&["interrupt", &id[..10]])), Some(0));
    story.hub.once(&ask, "the request to be withdrawn", |ask| ask["state"] == "withdrawn");
    until("idle");
    assert_eq!(code(&story.hub.aye(&["send", &id, "go on"])), Some(0));
    model_reads(&story, "go on");
    until("idle");
    assert_eq!(code(&story.hub.aye(&["stop", &id])), Some(0));
    until("ended");
    assert_eq!(story.model.result_of("toolu_q")["is_error"], json!(true));
    let account = std::fs::read_to_string(story.hub.home.join(format!("runs/{id}.log"))).unwrap();
    for words in ["First.", "and now this", "Which DB?", "go on", "Last."] {
        assert!(account.contains(words), "{words} in {account}");
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn answers_and_prompts_typed_where_a_run_is_attached_reach_the_model() {
    let story = Story::new(vec![
        vec![text("First.")],
        vec![tool("toolu_b", "Bash", bash("touch by-hand"))],
        vec![text("Second.")],
    ]);
    let started = story.command(&["--detach"], "begin").output().unwrap();
    let id = printed(&started).trim().to_owned();
    let terminal = Terminal::with(&story, &["attach", &id]);
    terminal.shows("First.");
    terminal.waits();
    terminal.keys(&["please go on", "Enter"]);
    model_reads(&story, "please go on");
    terminal.shows("Type allow");
    terminal.waits();
    let ask = story.hub.open_ask();
    terminal.keys(&["allow", "Enter"]);
    terminal.shows("Second.");
    assert!(story.has("by-hand"));
    story.confirmed(&ask);
    terminal.waits();
    terminal.keys(&["C-d"]);
    terminal.shows("It goes on.");
    assert_eq!(story.agent()["state"], "idle");
    story.steer("stop", json!({}));
}
