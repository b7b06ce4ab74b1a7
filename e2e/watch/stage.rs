//! The real Claude Code in a real tmux, a hub, `aye watch`, and a scripted model behind it all.

use crate::support::{Hub, aye, claude, eventually};
use aye_testkit::model::Model;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Stage {
    pub hub: Hub,
    pub model: Model,
    watch: Option<Child>,
    socket: String,
    dir: tempfile::TempDir,
}

impl Stage {
    /// A session that was started by nobody we know, and somebody who watches.
    pub fn asking(steps: Vec<Vec<Value>>) -> Self {
        let mut stage = Self::new(steps);
        stage.start_session(&[]);
        stage.start_watch(&[]);
        stage
    }

    pub fn new(steps: Vec<Vec<Value>>) -> Self {
        Self::with_model(Model::scripted(steps))
    }

    pub fn with_model(model: Model) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let stage = Self {
            hub: Hub::start(),
            model,
            watch: None,
            socket: format!("aye-watch-{}-{n}", std::process::id()),
            dir: tempfile::Builder::new().prefix("aye").tempdir().unwrap(),
        };
        fs::create_dir_all(stage.config()).unwrap();
        fs::create_dir_all(stage.work()).unwrap();
        let known = json!({
            "hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
            "customApiKeyResponses": {"approved": ["sk-ant-fake"], "rejected": []},
            "projects": {stage.work().to_str().unwrap(): {
                "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true, "allowedTools": []}},
        });
        fs::write(stage.config().join(".claude.json"), known.to_string()).unwrap();
        stage
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// What the agent's program is called with, wherever it runs.
    pub fn claude(&self) -> Vec<String> {
        let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
        let mut command = vec![
            "env".to_owned(),
            format!("ANTHROPIC_BASE_URL={}", self.model.url),
            "ANTHROPIC_API_KEY=sk-ant-fake".into(),
            setting("CLAUDE_CONFIG_DIR", &self.config()),
            setting("HOME", &self.root()),
        ];
        let quiet = ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1"];
        command.extend(quiet.map(str::to_owned));
        command.push(claude().to_str().unwrap().to_owned());
        command
    }

    pub fn start_session(&self, arguments: &[&str]) {
        self.start_session_in("main", arguments);
    }

    /// A session of Claude Code in a tmux session of this name.
    pub fn start_session_in(&self, name: &str, arguments: &[&str]) {
        let work = self.work();
        let session =
            ["new-session", "-d", "-s", name, "-x", "100", "-y", "45", "-c", work.to_str().unwrap()];
        let mut command = self.tmux_command(&session);
        // One argument each, which tmux then runs as they are.
        let output = command.args(self.claude()).args(arguments).arg("do it").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    pub fn start_watch(&mut self, arguments: &[&str]) {
        let mut command = aye(&self.hub.home);
        command.arg("watch").arg("--config-dir").arg(self.config()).args(arguments);
        let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        self.watch = Some(child);
    }

    pub fn kill_watch(&mut self) {
        let mut watch = self.watch.take().unwrap();
        watch.kill().unwrap();
        watch.wait().unwrap();
    }

    fn tmux_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").args(["-u", "-L", &self.socket, "-f", "/dev/null"]).args(arguments);
        command
    }

    pub fn tmux(&self, arguments: &[&str]) -> Output {
        self.tmux_command(arguments).output().expect("tmux must be installed")
    }

    /// A person at the keyboard.
    pub fn press(&self, keys: &[&str]) {
        let mut arguments = vec!["send-keys", "-t", "main"];
        arguments.extend(keys);
        assert!(self.tmux(&arguments).status.success());
    }

    pub fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p", "-t", "main"]).stdout).unwrap()
    }

    pub fn sees(&self, words: &str) {
        let screen = || self.screen().contains(words).then_some(());
        eventually(&format!("the terminal to show {words:?}"), screen);
    }

    /// The one ask about a tool call that is open, once it is.
    pub fn ask(&self) -> Value {
        self.open(|ask| !ask["tool_use_id"].is_null())
    }

    /// The ask that only says that the session waits, and what its terminal shows. On a loaded machine it can come
    /// before any other, because the transcript comes late.
    pub fn waits(&self) -> Value {
        self.open(|ask| ask["tool_use_id"].is_null())
    }

    fn open(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        eventually("the session's ask", || {
            let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
            list["asks"].as_array()?.iter().find(|ask| is_it(ask)).cloned()
        })
    }

    pub fn answer(&self, answer: Value) -> Value {
        let ask = self.ask();
        let recorded = self.hub.answer(&ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
        ask
    }

    /// Answers, and waits until the transcript has proven it.
    pub fn confirmed(&self, answer: Value) {
        let settled = self.settled(&self.answer(answer));
        assert_eq!(settled["receipt"], "confirmed", "{settled}\n{}", self.screen());
    }

    pub fn settled(&self, ask: &Value) -> Value {
        self.until(ask, |ask| {
            !matches!(ask["receipt"].as_str(), None | Some("pending" | "delivered" | "unknown"))
        })
    }

    pub fn until(&self, ask: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually("the ask to be as expected", || Some(self.hub.ask(ask)).filter(|ask| is_so(ask)))
    }

    /// The one agent, once it is in this state.
    pub fn agent_is(&self, state: &str) {
        let is_so = || self.agents().first().is_some_and(|agent| agent["state"] == state).then_some(());
        eventually(&format!("the agent to be {state}"), is_so);
    }

    pub fn agents(&self) -> Vec<Value> {
        let list = self.hub.get("/api/agents?all=true", &self.hub.operator()).body;
        list["agents"].as_array().unwrap().clone()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the terminal showed:\n{}", self.screen().trim_end());
            eprintln!("the trail:\n{}", String::from_utf8_lossy(&self.hub.aye(&["log"]).stdout));
        }
        if let Some(watch) = &mut self.watch {
            drop(watch.kill());
            drop(watch.wait());
        }
        self.tmux(&["kill-server"]);
    }
}
