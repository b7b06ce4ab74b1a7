//! `aye run` with a scripted agent that behaves well, or badly: whatever it does ends in a clear message,
//! leaves nothing behind, and approves nothing.

mod endings;
mod folders;
mod kills;
mod noise;
mod requests;
mod transcript;

use crate::support::{Hub, aye, complained, eventually, printed};
use aye_testkit::agent::{answers, heard, scripted_agent};
use aye_testkit::scenario::tool;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A hub, and a folder in which the scripted agent works.
struct Scene {
    hub: Hub,
    work: tempfile::TempDir,
    connections: usize,
}

impl Scene {
    fn new() -> Self {
        Self::with(Hub::start())
    }

    /// A hub that decides by these rules.
    fn with_policy(policy: &str) -> Self {
        let mut hub = Hub::start();
        std::fs::write(hub.home.join("config.toml"), policy).unwrap();
        hub.stop();
        hub.restart();
        Self::with(hub)
    }

    /// The hub decides by these rules from here on.
    fn reread(&self, policy: &str) {
        std::fs::write(self.hub.home.join("config.toml"), policy).unwrap();
        eventually("the policy to be read", || {
            let read = self.hub.get("/api/policy", &self.hub.operator()).body;
            read["rules"].as_array().is_some_and(|rules| !rules.is_empty()).then_some(())
        });
    }

    fn with(hub: Hub) -> Self {
        let connections = connections(hub.pid());
        Self { hub, work: tempfile::tempdir().unwrap(), connections }
    }

    fn command(&self, steps: Value) -> Command {
        let scenario = json!({"heard": "heard.jsonl", "steps": steps});
        std::fs::write(self.file("scenario.json"), scenario.to_string()).unwrap();
        let mut command = aye(&self.hub.home);
        command.args(["run", "do it"]).current_dir(self.work.path()).env("AYE_CLAUDE", scripted_agent());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, steps: Value) -> Child {
        self.command(steps).spawn().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// Lets the agent go on where it waits for this file.
    fn make(&self, name: &str) {
        std::fs::write(self.file(name), "").unwrap();
    }

    /// All asks there ever were.
    fn asks(&self) -> Vec<Value> {
        let states = ["open", "answered", "expired", "withdrawn"];
        let lists = states.map(|state| {
            let list = self.hub.get(&format!("/api/asks?state={state}"), &self.hub.operator()).body;
            list["asks"].as_array().unwrap().clone()
        });
        lists.concat()
    }

    fn agent_id(&self) -> String {
        eventually("the agent to be registered", || {
            let list = self.hub.get("/api/agents", &self.hub.operator()).body;
            list["agents"][0]["id"].as_str().map(str::to_owned)
        })
    }

    fn steer(&self, how: &str) {
        let path = format!("/api/agents/{}/{how}", self.agent_id());
        let queued = self.hub.post(&path, &self.hub.operator(), json!({}));
        assert!(queued.status < 300, "{queued:?}");
    }

    /// What the agent was told, by request id.
    fn replies(&self) -> Vec<(String, Value)> {
        answers(&self.file("heard.jsonl"))
    }

    fn approvals(&self) -> usize {
        self.replies().iter().filter(|(_, reply)| reply["response"]["behavior"] == "allow").count()
    }

    /// The end of a run that left nothing behind: no panic, no process, no open ask, nothing held by the hub.
    fn end(&self, run: Child) -> Ended {
        let output = run.wait_with_output().unwrap();
        let ended = Ended { out: printed(&output), err: complained(&output), output };
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        if let Some(started) = heard(&self.file("heard.jsonl")).first() {
            let process = Path::new("/proc").join(started["pid"].to_string());
            assert!(!process.exists(), "the agent was left behind");
        }
        eventually("every ask to end", || self.asks().iter().all(|ask| ask["state"] != "open").then_some(()));
        assert_eq!(self.hub.get("/api/health", "").status, 200);
        eventually("the hub to close what it opened", || {
            (connections(self.hub.pid()) <= self.connections).then_some(())
        });
        ended
    }
}

struct Ended {
    output: Output,
    out: String,
    err: String,
}

impl Ended {
    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// Said to the person who looks on.
    #[track_caller]
    fn says(&self, words: &str) {
        assert!(
            self.out.contains(words) || self.err.contains(words),
            "{words:?} in {}\n{}",
            self.out,
            self.err
        );
    }
}

/// Sockets a process holds: its files come and go as the database needs them.
fn connections(pid: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let names = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    names.filter(|name| name.to_string_lossy().starts_with("socket:")).count()
}

/// The most memory a process ever held, in megabytes.
fn most_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() / 1024
}

fn question(id: &str) -> Value {
    let options = json!([{"label": "yes", "description": "."}, {"label": "no", "description": "."}]);
    let questions = json!([{"question": "Go on?", "header": "Go", "multiSelect": false, "options": options}]);
    tool(id, "AskUserQuestion", json!({"questions": questions}))
}

fn bash(id: &str, command: &str) -> Value {
    tool(id, "Bash", json!({"command": command}))
}

fn yes() -> Value {
    json!({"answers": [{"selected": ["yes"]}]})
}

fn once() -> Value {
    json!({"decision": "allow", "scope": "once"})
}
