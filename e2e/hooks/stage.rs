//! The real Claude Code in a real terminal, a hub, and a scripted model behind it all.

use crate::support::terminal::Terminal;
use crate::support::{Hub, claude, eventually};
use aye_testkit::model::Model;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Stage {
    pub hub: Hub,
    pub model: Model,
    dir: tempfile::TempDir,
    terminal: Terminal,
}

impl Stage {
    pub fn new(model: Model) -> Self {
        Self::with_config(model, "")
    }

    /// A hub with this `config.toml`.
    pub fn with_config(model: Model, config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("config.toml"), config).unwrap();
        let stage = Self { hub: Hub::start_in(home), model, dir, terminal: Terminal::default() };
        fs::create_dir_all(stage.config_dir()).unwrap();
        fs::create_dir_all(stage.work()).unwrap();
        let known = json!({
            "hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
            "customApiKeyResponses": {"approved": ["sk-ant-fake"], "rejected": []},
            "projects": {stage.work().canonicalize().unwrap().to_str().unwrap(): {
                "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true, "allowedTools": []}},
        });
        fs::write(stage.config_dir().join(".claude.json"), known.to_string()).unwrap();
        stage
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub fn config_dir(&self) -> PathBuf {
        self.dir.path().join("claude")
    }

    fn environment(&self, command: &mut Command) {
        command.env("ANTHROPIC_BASE_URL", &self.model.url).env("ANTHROPIC_API_KEY", "sk-ant-fake");
        command.env("CLAUDE_CONFIG_DIR", self.config_dir()).env("HOME", self.dir.path());
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
        command.env("IS_SANDBOX", "1").env("AYE_CLAUDE", claude()).env("AYE_HOME", &self.hub.home);
        for name in ["AYE_URL", "AYE_TOKEN", "AYE_DRIVEN", "AYE_LOG", "CLAUDE_PID", "CLAUDECODE"] {
            command.env_remove(name);
        }
        command.current_dir(self.work());
    }

    /// Starts a program in the terminal.
    fn start(&self, program: &Path, arguments: &[&str]) {
        self.terminal.start(program.to_str().unwrap(), arguments, |command| self.environment(command));
    }

    /// `aye claude` in the mode that people have.
    pub fn aye_claude_as_it_comes(&self, arguments: &[&str]) {
        self.start(Path::new(env!("CARGO_BIN_EXE_aye")), &[&["claude"], arguments].concat());
    }

    /// `aye claude`, asking for everything.
    pub fn aye_claude(&self, arguments: &[&str]) {
        let all = [&["claude", "--permission-mode", "default"], arguments].concat();
        self.start(Path::new(env!("CARGO_BIN_EXE_aye")), &all);
    }

    /// `aye claude` in a terminal that does not say that it is tmux.
    pub fn aye_claude_outside_tmux(&self, variables: &[(&str, &str)]) {
        let mut arguments: Vec<String> = ["-u", "TMUX", "-u", "TMUX_PANE"].map(Into::into).into();
        arguments.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
        let path = std::env::var("PATH").unwrap();
        arguments.push(format!("PATH={}:{path}", self.bin().display()));
        let claude = [env!("CARGO_BIN_EXE_aye"), "claude", "--permission-mode", "default", "do it"];
        arguments.extend(claude.map(Into::into));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.start(Path::new("/usr/bin/env"), &arguments);
    }

    /// Programs that the session finds before all others.
    pub fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    /// The person's own program, without us.
    pub fn plain_claude(&self, arguments: &[&str]) {
        self.start(&claude(), &[&["--permission-mode", "default"], arguments].concat());
    }

    /// A command of ours in the project's folder.
    pub fn aye(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aye"));
        self.environment(command.args(arguments));
        command.output().unwrap()
    }

    pub fn screen(&self) -> String {
        self.terminal.screen()
    }

    /// The text that can be seen now.
    pub fn visible(&self) -> String {
        self.terminal.visible()
    }

    /// The session sets its own title again and again.
    pub fn has_title(&self, words: &str) {
        eventually(&format!("the title {words:?}"), || self.terminal.title().contains(words).then_some(()));
    }

    pub fn sees(&self, words: &str) {
        self.terminal.sees(words);
    }

    /// The session's own file says so a moment after the screen shows it.
    pub fn says_that_it_waits(&self) {
        let sessions = self.config_dir().join("sessions");
        eventually("the session to say that it waits", || {
            let files = fs::read_dir(&sessions).ok()?.flatten();
            let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
            texts.any(|text| text.contains("\"waiting\"")).then_some(())
        });
    }

    pub fn press(&self, keys: &[&str]) {
        self.terminal.press(keys);
    }

    pub fn type_line(&self, words: &str) {
        self.terminal.type_line(words);
    }

    pub fn asks(&self) -> Vec<Value> {
        let list = self.hub.get("/api/asks?state=all", &self.hub.operator()).body;
        list["asks"].as_array().cloned().unwrap_or_default()
    }

    /// The ask, once its receipt is settled.
    pub fn settled(&self, ask: &Value) -> Value {
        self.hub
            .once(ask, "the receipt", |ask| !matches!(ask["receipt"].as_str(), Some("pending" | "delivered")))
    }

    /// The ask, once it has ended.
    pub fn ended(&self, ask: &Value) -> Value {
        eventually("the ask to end", || Some(self.hub.ask(ask)).filter(|ask| ask["state"] != "open"))
    }

    /// The one agent, once it is in this state.
    pub fn agent_is(&self, state: &str) -> Value {
        eventually(&format!("the agent to be {state}"), || {
            let list = self.hub.get("/api/agents?all=true", &self.hub.operator()).body;
            list["agents"].get(0).filter(|agent| agent["state"] == state).cloned()
        })
    }

    /// SIGKILL for what runs in the terminal.
    pub fn kill_the_session(&self) {
        self.terminal.kill();
    }

    /// SIGKILL for every hook that waits.
    pub fn kill_the_hooks(&self) {
        let home = format!("AYE_HOME={}", self.hub.home.display());
        let hooks = waiting_hooks(&home);
        assert!(!hooks.is_empty());
        hooks.iter().for_each(|hook| signal_to(hook, Signal::KILL));
    }

    pub fn two_hooks_wait(&self) {
        let home = format!("AYE_HOME={}", self.hub.home.display());
        eventually("two hooks", || (waiting_hooks(&home).len() == 2).then_some(()));
    }

    /// Who stays beside the session.
    pub fn followers(&self) -> Vec<String> {
        let home = format!("AYE_HOME={}", self.hub.home.display());
        ours(&home, |line| line.contains("\0--follow\0"))
    }

    pub fn stop_the_followers(&self) {
        self.followers().iter().for_each(|follower| signal_to(follower, Signal::STOP));
    }

    pub fn continue_the_followers(&self) {
        self.followers().iter().for_each(|follower| signal_to(follower, Signal::CONT));
    }

    /// The follower that types the answer to this ask, once it has taken it over.
    pub fn is_followed(&self, ask: &Value) -> String {
        eventually("the ask to be followed", || {
            let sessions = fs::read_dir(self.hub.home.join("hooked")).ok()?.flatten();
            let notes =
                sessions.flat_map(|session| fs::read_dir(session.path()).into_iter().flatten().flatten());
            let pids = notes.filter_map(|note| {
                let name = note.file_name().into_string().ok()?;
                let pid = name.strip_prefix(ask["id"].as_str()?)?.strip_prefix('.')?.strip_suffix(".ask")?;
                Some(format!("/proc/{pid}"))
            });
            let followers = self.followers();
            pids.into_iter().find(|pid| followers.contains(pid))
        })
    }

    /// SIGKILL for it.
    pub fn kill_the_follower_of(&self, ask: &Value) {
        let follower = self.is_followed(ask);
        signal_to(&follower, Signal::KILL);
        eventually("the follower to end", || (!self.followers().contains(&follower)).then_some(()));
    }

    /// No hook of this stage waits any more.
    pub fn no_hook_waits(&self) {
        let home = format!("AYE_HOME={}", self.hub.home.display());
        eventually("the hooks to end", || waiting_hooks(&home).is_empty().then_some(()));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the terminal showed:\n{}", self.screen().trim_end());
            eprintln!("the trail:\n{}", String::from_utf8_lossy(&self.aye(&["log"]).stdout));
        }
    }
}

/// `process` is its folder in `/proc`.
fn signal_to(process: &str, signal: Signal) {
    let pid = process.rsplit('/').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    kill_process(pid.unwrap(), signal).unwrap();
}

/// Our hooks among all processes.
fn waiting_hooks(home: &str) -> Vec<String> {
    ours(home, |line| line.ends_with("\0hook\0"))
}

fn ours(home: &str, is_one: impl Fn(&str) -> bool) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(path.join(name)).unwrap_or_default()).into_owned();
        is_one(&read("cmdline")) && read("environ").split('\0').any(|variable| variable == home)
    };
    processes.filter(is_ours).map(|path| path.display().to_string()).collect()
}
