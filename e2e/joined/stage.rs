//! A real agent in a real terminal, a hub, and a scripted model behind it all.

use crate::agents::Agent;
use crate::support::terminal::Terminal;
use crate::support::{Hub, aye, eventually};
use aye_testkit::model::Model;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Stage {
    pub agent: &'static Agent,
    pub hub: Hub,
    pub model: Model,
    pub terminal: Terminal,
    dir: tempfile::TempDir,
}

impl Stage {
    pub fn new(agent: &'static Agent, model: Model) -> Self {
        let (dir, terminal) =
            (tempfile::Builder::new().prefix("aye").tempdir().unwrap(), Terminal::default());
        Self { agent, hub: Hub::start(), model, terminal, dir }
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// `aye` with the agent's own name and these arguments. `more` has the last word about its configuration.
    pub fn start(&self, arguments: &[&str], more: impl FnOnce(&mut Command, &Path)) {
        let all = [&[self.agent.kind], arguments].concat();
        self.terminal.start(env!("CARGO_BIN_EXE_aye"), &all, |command| {
            let ours = aye(&self.hub.home);
            for (name, value) in ours.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.current_dir(self.work()).env("HOME", self.work());
            // What does not go to the scripted model goes nowhere.
            command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1");
            (self.agent.set_up)(command, &self.work(), &self.model.url);
            more(command, &self.work());
        });
    }

    pub fn has(&self, file: &str) -> bool {
        self.work().join(file).exists()
    }

    /// The ask, once its receipt is settled.
    pub fn settled(&self, ask: &Value) -> Value {
        self.hub
            .once(ask, "the receipt", |ask| !matches!(ask["receipt"].as_str(), Some("pending" | "delivered")))
    }

    #[track_caller]
    pub fn confirmed(&self, ask: &Value) {
        let settled = self.settled(ask);
        assert_eq!(settled["receipt"], "confirmed", "{settled}");
    }

    /// The ask, once it has ended.
    pub fn ended(&self, ask: &Value) -> Value {
        self.hub.once(ask, "the ask to end", |ask| ask["state"] != "open")
    }

    /// The open asks, once there are so many.
    pub fn open_asks(&self, count: usize) -> Vec<Value> {
        eventually("the requests", || Some(self.hub.open_asks()).filter(|asks| asks.len() == count))
    }

    /// The one agent, once it is in this state.
    pub fn agent_is(&self, state: &str) -> Value {
        eventually(&format!("the agent to be {state}"), || {
            let list = self.hub.get("/api/agents?all=true", &self.hub.operator()).body;
            list["agents"].get(0).filter(|agent| agent["state"] == state).cloned()
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the terminal showed:\n{}", self.terminal.screen().trim_end());
            eprintln!("the trail:\n{}", String::from_utf8_lossy(&self.hub.aye(&["log"]).stdout));
        }
    }
}
