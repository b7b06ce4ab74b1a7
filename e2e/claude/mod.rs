//! The real Claude Code, driven by `aye run`, with a scripted model behind it. Each story checks what the
//! model was told in the end, which is the only proof.

mod kills;
mod permissions;
mod plans;
mod questions;
mod terminal;
mod turns;

use crate::support::{Hub, aye, claude, eventually, printed};
use aye_testkit::model::Model;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

struct Story {
    hub: Hub,
    model: Model,
    work: tempfile::TempDir,
}

impl Story {
    fn new(steps: Vec<Vec<Value>>) -> Self {
        Self::with(Model::scripted(steps))
    }

    fn with(model: Model) -> Self {
        Self { hub: Hub::start(), model, work: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str], prompt: &str) -> Command {
        let mut command: Command = aye(&self.hub.home);
        command.args(["run"]).args(arguments).args([prompt]);
        command.current_dir(self.work.path()).env("AYE_CLAUDE", claude());
        command.env("ANTHROPIC_BASE_URL", &self.model.url).env("ANTHROPIC_API_KEY", "sk-ant-fake");
        command.env("CLAUDE_CONFIG_DIR", self.work.path().join(".config")).env("HOME", self.work.path());
        command
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("IS_SANDBOX", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Child {
        self.command(arguments, "do it").spawn().unwrap()
    }

    /// The one ask that is open, once it is.
    fn ask(&self) -> Value {
        eventually("the agent's ask", || self.open_asks().into_iter().next())
    }

    fn open_asks(&self) -> Vec<Value> {
        let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
        list["asks"].as_array().unwrap().clone()
    }

    fn answer(&self, answer: Value) -> Value {
        let ask = self.ask();
        let recorded = self.hub.answer(&ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
        ask
    }

    /// The ask once this holds.
    fn once(&self, ask: &Value, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.hub.ask(ask)).filter(|ask| holds(ask)))
    }

    /// The ask once its receipt is settled.
    fn settled(&self, ask: &Value) -> Value {
        self.once(ask, "the receipt", |ask| !matches!(ask["receipt"].as_str(), Some("pending" | "delivered")))
    }

    #[track_caller]
    fn confirmed(&self, ask: &Value) {
        let settled = self.settled(ask);
        assert_eq!(settled["receipt"], "confirmed", "{settled}");
    }

    /// The agent as the hub knows it, ended or not.
    fn agent(&self) -> Value {
        eventually("the agent", || {
            let list = self.hub.get("/api/agents?all=true", &self.hub.operator()).body;
            list["agents"].get(0).cloned()
        })
    }

    fn steer(&self, how: &str, body: Value) {
        let path = format!("/api/agents/{}/{how}", self.agent()["id"].as_str().unwrap());
        let queued = self.hub.post(&path, &self.hub.operator(), body);
        assert!(queued.status < 300, "{queued:?}");
    }

    fn has(&self, file: &str) -> bool {
        self.work.path().join(file).exists()
    }

    /// What the model was told of this tool call has these words.
    #[track_caller]
    fn told(&self, tool_use_id: &str, words: &str) {
        let told = self.model.told(tool_use_id);
        assert!(told.contains(words), "{words:?} in {told:?}");
    }
}

/// A run that ended well, and all that it printed.
fn ended(run: Child) -> Output {
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn said(run: Child) -> String {
    printed(&ended(run))
}

fn option(label: &str) -> Value {
    json!({"label": label, "description": "."})
}

fn which_database() -> Value {
    json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [option("PostgreSQL"), option("SQLite")]}]})
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "x"})
}

fn read_json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}
