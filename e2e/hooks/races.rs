//! The hook alone, with events and a transcript as Claude Code writes them, so that every order of things
//! can be had.

use super::{sqlite, which_database};
use crate::support::{Hub, aye, ended, eventually, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Play {
    hub: Hub,
    dir: tempfile::TempDir,
}

impl Play {
    fn new() -> Self {
        let play = Self { hub: Hub::start(), dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(play.dir.path().join("projects/-src/s-1/subagents")).unwrap();
        fs::write(play.transcript(), "").unwrap();
        play
    }

    fn transcript(&self) -> PathBuf {
        self.dir.path().join("projects/-src/s-1.jsonl")
    }

    fn event(&self, name: &str, more: Value) -> Value {
        let mut event = json!({"session_id": "s-1", "transcript_path": self.transcript(), "cwd": "/src",
            "hook_event_name": name});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    fn question(&self, name: &str, more: Value) -> Value {
        let mut event = self.event(name, more);
        event["tool_name"] = "AskUserQuestion".into();
        event["tool_input"] = which_database();
        event
    }

    fn begin(&self, mut command: Command, event: &[u8]) -> Child {
        for name in ["CLAUDE_PID", "AYE_LOG"] {
            command.env_remove(name);
        }
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event).unwrap();
        child
    }

    fn hook(&self, event: &Value) -> Child {
        let mut command = aye(&self.hub.home);
        command.arg("hook");
        self.begin(command, event.to_string().as_bytes())
    }

    /// A hook that is to end by itself, and says nothing.
    fn passes(&self, event: &Value) {
        assert_silent(&self.hook(event).wait_with_output().unwrap());
    }

    /// The agent calls its tool and asks for permission.
    fn asks(&self) -> (Child, Value) {
        self.passes(&self.question("PreToolUse", json!({"tool_use_id": "toolu_1"})));
        let hook = self.hook(&self.question("PermissionRequest", json!({})));
        let ask = eventually("the ask", || {
            let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
            list["asks"].get(0).cloned()
        });
        assert_eq!(ask["key"], "toolu_1");
        (hook, ask)
    }

    /// The transcript shows this answer, given by this.
    fn shows(&self, answer: &str, source: &str) {
        let line = json!({"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "…"}]},
            "toolUseResult": {"answers": {"Which DB?": answer}},
            "permissionDecision": {"decision": "accept", "source": source}});
        let mut transcript = fs::OpenOptions::new().append(true).open(self.transcript()).unwrap();
        writeln!(transcript, "{line}").unwrap();
    }

    fn answer(&self, ask: &Value) {
        assert_eq!(self.hub.answer(ask, sqlite()).status, 200);
    }

    fn stop(&self) {
        self.passes(&self.event("Stop", json!({})));
    }
}

#[track_caller]
fn assert_silent(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

fn decision(hook: Child) -> Value {
    let output = hook.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    said["hookSpecificOutput"]["decision"].clone()
}

#[test]
fn an_answer_recorded_in_the_moment_the_terminal_answered_is_not_printed_and_its_receipt_is_true() {
    for (shown, receipt) in [("PostgreSQL", "superseded"), ("SQLite", "confirmed")] {
        let play = Play::new();
        let (hook, ask) = play.asks();
        signal(&hook, Signal::STOP);
        play.answer(&ask);
        play.shows(shown, "user_temporary");
        signal(&hook, Signal::CONT);
        assert_silent(&hook.wait_with_output().unwrap());
        let ask = play.hub.ask(&ask);
        assert_eq!((&ask["state"], &ask["receipt"]), (&json!("answered"), &json!(receipt)), "{ask}");
    }
}

#[test]
fn what_was_printed_is_delivered_and_the_next_hook_tells_what_became_of_it() {
    for (shown, source, receipt) in [
        ("SQLite", "hook", "confirmed"),
        ("PostgreSQL", "user_temporary", "superseded"),
        ("PostgreSQL", "hook", "disputed"),
    ] {
        let play = Play::new();
        let (hook, ask) = play.asks();
        play.answer(&ask);
        let decided = decision(hook);
        assert_eq!(decided["updatedInput"]["answers"], json!({"Which DB?": "SQLite"}));
        assert_eq!(play.hub.ask(&ask)["receipt"], "delivered");
        play.passes(&play.question("PostToolUse", json!({"tool_use_id": "toolu_1"})));
        assert_eq!(play.hub.ask(&ask)["receipt"], "delivered");
        play.shows(shown, source);
        play.stop();
        assert_eq!(play.hub.ask(&ask)["receipt"], receipt);
    }
}

#[test]
fn a_receipt_that_the_hub_missed_is_reported_by_a_later_session() {
    let mut play = Play::new();
    let (hook, ask) = play.asks();
    play.answer(&ask);
    decision(hook);
    play.hub.kill();
    play.shows("SQLite", "hook");
    play.passes(&play.event("SessionEnd", json!({})));
    play.hub.restart();
    let mut other = play.event("SessionStart", json!({}));
    other["session_id"] = "s-2".into();
    play.passes(&other);
    assert_eq!(play.hub.ask(&ask)["receipt"], "confirmed");
}

#[test]
fn a_hook_that_the_agent_ends_takes_its_ask_back() {
    for shown in [true, false] {
        let play = Play::new();
        let (hook, ask) = play.asks();
        if shown {
            signal(&hook, Signal::STOP);
            play.shows("SQLite", "user_temporary");
        }
        signal(&hook, Signal::TERM);
        signal(&hook, Signal::CONT);
        assert_silent(&hook.wait_with_output().unwrap());
        let ask = play.hub.ask(&ask);
        assert_eq!(ask["state"], "withdrawn");
        assert_eq!(ask["answer"], if shown { sqlite() } else { Value::Null });
    }
}

#[test]
fn an_ask_whose_hook_was_killed_is_taken_back_by_the_next_one() {
    let play = Play::new();
    let (mut hook, ask) = play.asks();
    play.stop();
    assert_eq!(play.hub.ask(&ask)["state"], "open", "its hook still waits");
    hook.kill().unwrap();
    hook.wait().unwrap();
    play.passes(&play.event("PostToolUse", json!({})));
    assert_eq!(play.hub.ask(&ask)["state"], "open", "the turn goes on, and the terminal may still answer");
    play.shows("SQLite", "user_temporary");
    play.stop();
    let ask = play.hub.ask(&ask);
    assert_eq!((&ask["state"], &ask["answer"]), (&json!("withdrawn"), &sqlite()));
}

#[test]
fn an_answer_whose_hook_was_killed_is_said_to_have_reached_nobody() {
    let play = Play::new();
    let (mut hook, ask) = play.asks();
    hook.kill().unwrap();
    hook.wait().unwrap();
    play.answer(&ask);
    play.stop();
    assert_eq!(play.hub.ask(&ask)["receipt"], "undelivered");
}

#[test]
fn sub_agents_that_ask_the_same_at_once_have_asks_of_their_own() {
    let play = Play::new();
    for sub_agent in ["a1", "a2"] {
        let id = format!("toolu_{sub_agent}");
        play.passes(&play.question("PreToolUse", json!({"tool_use_id": id, "agent_id": sub_agent})));
    }
    let mut hooks = Vec::new();
    for sub_agent in ["a1", "a2"] {
        let more = json!({"agent_id": sub_agent, "agent_type": "Explore"});
        hooks.push(play.hook(&play.question("PermissionRequest", more)));
    }
    let asks = eventually("two asks", || {
        let list = play.hub.get("/api/asks?state=open", &play.hub.operator()).body;
        list["asks"].as_array().filter(|asks| asks.len() == 2).cloned()
    });
    let mut keys: Vec<_> = asks.iter().map(|ask| ask["tool_use_id"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["toolu_a1", "toolu_a2"]);
    assert_eq!(asks[0]["sub_agent"], "Explore");
    for ask in &asks {
        play.answer(ask);
    }
    for hook in hooks {
        assert_eq!(decision(hook)["behavior"], "allow");
    }
}

#[test]
fn a_hook_ends_when_the_agent_that_called_it_does() {
    let mut play = Play::new();
    // Something that is not a shell plays the agent.
    let mut command = Command::new("timeout");
    command.args(["600", env!("CARGO_BIN_EXE_aye"), "hook"]).env("AYE_HOME", &play.hub.home);
    let event = play.question("PermissionRequest", json!({}));
    let mut agent = play.begin(command, event.to_string().as_bytes());
    eventually("the ask", || {
        play.hub.get("/api/asks?state=open", &play.hub.operator()).body["asks"].get(0).cloned()
    });
    let hook = eventually("the hook", || {
        let path = format!("/proc/{0}/task/{0}/children", agent.id());
        fs::read_to_string(path).ok()?.trim().parse::<u32>().ok()
    });
    // Not even a hub is there to say that it is over.
    play.hub.kill();
    agent.kill().unwrap();
    agent.wait().unwrap();
    eventually("the hook to end", || {
        let stat = fs::read_to_string(format!("/proc/{hook}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_hub_that_does_not_answer_holds_nobody_up() {
    let mut play = Play::new();
    play.hub.kill();
    play.passes(&play.question("PreToolUse", json!({"tool_use_id": "toolu_1"})));
    for name in ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "Notification", "SessionEnd"] {
        play.passes(&play.event(name, json!({})));
    }
    let start = Instant::now();
    play.passes(&play.question("PermissionRequest", json!({})));
    assert!(start.elapsed() > Duration::from_secs(1), "a hub that is starting is waited for");
}

#[test]
fn without_a_hub_nothing_is_left_anywhere() {
    let mut play = Play::new();
    play.hub.stop();
    fs::remove_dir_all(&play.hub.home).unwrap();
    for name in ["PreToolUse", "PermissionRequest", "PostToolUse", "SessionEnd"] {
        play.passes(&play.question(name, json!({"tool_use_id": "toolu_1"})));
    }
    assert!(!play.hub.home.exists());
}

#[test]
fn what_makes_no_sense_and_what_cannot_be_shown_is_left_to_the_terminal() {
    let play = Play::new();
    for event in ["", "{", "null", "{}", "{\"hook_event_name\":\"PermissionRequest\"}", "\u{0}\u{1}"] {
        let mut command = aye(&play.hub.home);
        command.arg("hook");
        assert_silent(&play.begin(command, event.as_bytes()).wait_with_output().unwrap());
    }
    let empty = play
        .event("PermissionRequest", json!({"tool_name": "AskUserQuestion", "tool_input": {"questions": []}}));
    play.passes(&empty);
    assert_eq!(play.hub.get("/api/asks?state=all", &play.hub.operator()).body["asks"], json!([]));
}

#[test]
fn an_agent_that_is_driven_is_asked_for_by_who_drives_it() {
    let play = Play::new();
    let mut command = aye(&play.hub.home);
    command.arg("hook").env("AYE_DRIVEN", "1");
    let event = play.question("PermissionRequest", json!({})).to_string();
    let mut hook = play.begin(command, event.as_bytes());
    assert!(ended(&mut hook).success());
    assert_eq!(play.hub.get("/api/agents?all=true", &play.hub.operator()).body["agents"], json!([]));
}

#[test]
fn an_agent_that_may_not_ask_any_more_is_left_to_its_own_terminal() {
    let play = Play::new();
    let (hook, ask) = play.asks();
    play.hub.fill(ask["agent"].as_str().unwrap());
    let all = || play.hub.get("/api/asks?state=all&limit=100", &play.hub.operator()).body["asks"].clone();
    let before = all().as_array().unwrap().len();
    play.passes(
        &play.event("PermissionRequest", json!({"tool_name": "Bash", "tool_input": {"command": "ls -l"}})),
    );
    assert_eq!(all().as_array().unwrap().len(), before);
    // What was asked before is still answered.
    play.answer(&ask);
    assert_eq!(decision(hook)["behavior"], "allow");
}

#[test]
fn a_hook_asks_again_what_a_killed_hub_had_not_written() {
    let mut play = Play::new();
    let (hook, first) = play.asks();
    play.answer(&first);
    assert_eq!(decision(hook)["behavior"], "allow");
    // The disk as it was before the second request.
    play.hub.stop();
    let kept = play.dir.path().join("aye.db");
    fs::copy(play.hub.home.join("aye.db"), &kept).unwrap();
    play.hub.restart();
    let hook = play.hook(&play.event(
        "PermissionRequest",
        json!({"tool_name": "Bash", "tool_input": {"command": "ls -l"}, "tool_use_id": "toolu_2"}),
    ));
    let open = |hub: &Hub| {
        eventually("the request", || {
            let list = hub.get("/api/asks?state=open", &hub.operator()).body;
            list["asks"].get(0).cloned()
        })
    };
    let lost = open(&play.hub);
    play.hub.kill();
    for end in ["-wal", "-shm"] {
        fs::remove_file(play.hub.home.join(format!("aye.db{end}"))).ok();
    }
    fs::copy(&kept, play.hub.home.join("aye.db")).unwrap();
    play.hub.restart();
    let again = open(&play.hub);
    assert_eq!((&again["key"], &again["body"]), (&lost["key"], &lost["body"]));
    assert_ne!(again["id"], lost["id"]);
    assert_eq!(play.hub.answer(&again, json!({"decision": "allow", "scope": "once"})).status, 200);
    assert_eq!(decision(hook)["behavior"], "allow");
}
