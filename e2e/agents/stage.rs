//! A hub, a scripted model and a real agent between them.

use super::Agent;
use crate::support::{Hub, aye, eventually};
use aye_testkit::model::Model;
use serde_json::Value;
use std::process::{Child, Command, Stdio};

pub struct Stage {
    pub agent: &'static Agent,
    pub hub: Hub,
    pub model: Model,
    pub work: tempfile::TempDir,
}

impl Stage {
    pub fn new(agent: &'static Agent, model: Model) -> Self {
        Self { agent, hub: Hub::start(), model, work: tempfile::tempdir().unwrap() }
    }

    /// The hub decides by these rules.
    pub fn with_policy(mut self, policy: &str) -> Self {
        std::fs::write(self.hub.home.join("config.toml"), policy).unwrap();
        self.hub.stop();
        self.hub.restart();
        self
    }

    pub fn command(&self, arguments: &[&str], prompt: &str) -> Command {
        let mut command: Command = aye(&self.hub.home);
        command.args(["run", "--agent", self.agent.kind]).args(arguments).args([prompt]);
        command.current_dir(self.work.path()).env("HOME", self.work.path());
        // What does not go to the scripted model goes nowhere.
        command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1");
        (self.agent.set_up)(&mut command, self.work.path(), &self.model.url);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Child {
        self.command(arguments, "do it").spawn().unwrap()
    }

    /// The one ask that is open, once it is.
    pub fn ask(&self) -> Value {
        eventually("the agent's ask", || self.open_asks().into_iter().next())
    }

    pub fn open_asks(&self) -> Vec<Value> {
        self.asks("open")
    }

    pub fn asks(&self, state: &str) -> Vec<Value> {
        let list = self.hub.get(&format!("/api/asks?state={state}"), &self.hub.operator()).body;
        list["asks"].as_array().unwrap().clone()
    }

    pub fn answer(&self, answer: Value) -> Value {
        let ask = self.ask();
        let recorded = self.hub.answer(&ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
        ask
    }

    /// The ask once this holds.
    pub fn once(&self, ask: &Value, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.hub.ask(ask)).filter(|ask| holds(ask)))
    }

    /// How the ask stands once its receipt is settled.
    pub fn settled(&self, ask: &Value) -> Value {
        self.once(ask, "the receipt", |ask| !matches!(ask["receipt"].as_str(), Some("pending" | "delivered")))
    }

    #[track_caller]
    pub fn confirmed(&self, ask: &Value) {
        let settled = self.settled(ask);
        assert_eq!(settled["receipt"], "confirmed", "{settled}");
    }

    /// The agent as the hub knows it, ended or not.
    pub fn agent(&self) -> Value {
        eventually("the agent", || {
            let list = self.hub.get("/api/agents?all=true", &self.hub.operator()).body;
            list["agents"].get(0).cloned()
        })
    }

    pub fn steer(&self, how: &str, body: Value) {
        let path = format!("/api/agents/{}/{how}", self.agent()["id"].as_str().unwrap());
        let queued = self.hub.post(&path, &self.hub.operator(), body);
        assert!(queued.status < 300, "{queued:?}");
    }

    pub fn has(&self, file: &str) -> bool {
        self.work.path().join(file).exists()
    }

    /// What the model was told of this tool call has these words.
    #[track_caller]
    pub fn told(&self, tool_use_id: &str, words: &str) {
        let told = self.model.told(tool_use_id);
        assert!(told.contains(words), "{words:?} in {told:?}");
    }
}
