//! A terminal that people's own programs run in: a tmux server of its own, which ends with the test.

use super::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Terminal {
    socket: String,
}

impl Default for Terminal {
    fn default() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { socket: format!("aye-test-{}-{n}", std::process::id()) }
    }
}

impl Terminal {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").args(["-L", &self.socket, "-f", "/dev/null"]).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("tmux must be installed")
    }

    /// Starts a program in it, with the environment and in the folder that `set_up` gives it.
    pub fn start(&self, program: &str, arguments: &[&str], set_up: impl FnOnce(&mut Command)) {
        let mut command = self.command(&["new-session", "-d", "-x", "140", "-y", "50", "--", program]);
        set_up(command.args(arguments));
        let started = command.output().unwrap();
        assert!(started.status.success(), "{started:?}");
        self.run(&["set-option", "-g", "remain-on-exit", "on"]);
    }

    /// The text in it, with what has scrolled away.
    pub fn screen(&self) -> String {
        let shown = self.run(&["capture-pane", "-p", "-S", "-"]);
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// The text in it, without what has scrolled away.
    pub fn visible(&self) -> String {
        let shown = self.run(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// True if it shows this now.
    pub fn shows(&self, words: &str) -> bool {
        self.visible().contains(words)
    }

    /// The title that a program in it set last.
    pub fn title(&self) -> String {
        let shown = self.run(&["display-message", "-p", "#{pane_title}"]);
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    pub fn sees(&self, words: &str) {
        eventually(&format!("{words:?} on the screen"), || self.screen().contains(words).then_some(()));
    }

    pub fn no_longer_sees(&self, words: &str) {
        let gone = || (!self.screen().contains(words)).then_some(());
        eventually(&format!("{words:?} to leave the screen"), gone);
    }

    pub fn press(&self, keys: &[&str]) {
        for key in keys {
            assert!(self.run(&["send-keys", key]).status.success());
        }
    }

    pub fn type_line(&self, words: &str) {
        assert!(self.run(&["send-keys", "-l", words]).status.success());
        // Enter in the same breath would be taken for pasted text.
        self.sees(words);
        self.press(&["Enter"]);
    }

    /// The process that was started in it.
    pub fn pid(&self) -> u32 {
        let shown = self.run(&["display-message", "-p", "#{pane_pid}"]);
        String::from_utf8_lossy(&shown.stdout).trim().parse().unwrap()
    }

    /// SIGKILL for what runs in it.
    pub fn kill(&self) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
