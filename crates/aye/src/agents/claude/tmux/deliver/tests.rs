//! Delivering into a dialog that a script draws in a real tmux, and that can be told to misbehave.

use super::super::decide::decide;
use super::super::prompt::{DialogCall, PromptDialog};
use super::*;
use crate::processes::Process;
use aye_core::{Answer, PlanVerdict};
use aye_testkit::patience::eventually;
use std::process::Command;

/// Draws the dialog, drops DROPS Enters, reads nothing for the first WAITS seconds, and then asks for something else.
const TERMINAL: &str = r#"
stty -echo; at=0; title='Exit plan mode?'; drops=DROPS
draw() {
  printf '\033[2J\033[H%s\n %s\n\n  Claude wants to exit plan mode\n\n' "$(printf '─%.0s' {1..60})" "$title"
  n=0; for row in 'Yes, and switch to default (ask each time) for this session' 'No'; do
    if [ $n = $at ]; then mark='❯'; else mark=' '; fi; n=$((n+1)); printf '  %s %s. %s\n' "$mark" $n "$row"
  done
}
draw; sleep WAITS
while IFS= read -rsn1 key; do
  case "$key" in
    $'\033') read -rsn2 arrow; [ "$arrow" = '[B' ] && at=1; [ "$arrow" = '[A' ] && at=0;;
    '') if [ $drops -gt 0 ]; then drops=$((drops-1)); else echo "$title $at" >>GIVEN; at=0; title='Something else'; fi;;
  esac
  draw
done
"#;

struct Terminal {
    name: String,
    dir: tempfile::TempDir,
}

impl Terminal {
    fn start(drops: usize, waits: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("aye-{}", dir.path().file_name().unwrap().display());
        let terminal = Self { name, dir };
        let script = TERMINAL.replace("DROPS", &drops.to_string()).replace("WAITS", &waits.to_string());
        let script = script.replace("GIVEN", &terminal.given_file().display().to_string());
        let file = terminal.dir.path().join("terminal");
        std::fs::write(&file, script).unwrap();
        let shell = format!("exec bash {}", file.display());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "30", &shell]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-u", "-L", &self.name]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn given_file(&self) -> std::path::PathBuf {
        self.dir.path().join("given")
    }

    fn given(&self) -> String {
        std::fs::read_to_string(self.given_file()).unwrap_or_default()
    }

    async fn allow(&self, is_alone: bool) -> TypingResult {
        let screen =
            || PromptDialog::read(&self.tmux(&["capture-pane", "-p"])).filter(|it| it.rows.len() == 2);
        let prompt = eventually("the dialog", screen);
        // The shell is there once it has drawn something.
        let pid = self.tmux(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap();
        let pane = Pane::of(Some(Process::now(pid))).await.unwrap();
        let call = DialogCall {
            tool: "ExitPlanMode".into(),
            input: Default::default(),
            cwd: "/".into(),
            by_sub_agent: false,
            change: None,
        };
        assert!(prompt.is_for(&call), "{prompt:?}");
        let plan = decide(prompt, call, &Answer::Plan(PlanVerdict::Allow { plan: None }), None).unwrap();
        deliver(&pane, &[], &plan, || true, || is_alone).await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(Command::new("tmux").args(["-L", &self.name, "kill-server"]).output());
    }
}

const FIRST_ROW: &str = "Exit plan mode? 0\n";

#[tokio::test]
#[ignore = "needs tmux: scripts/test installs it"]
async fn a_key_that_the_dialog_dropped_is_pressed_again() {
    for drops in [0, 1, 2] {
        let terminal = Terminal::start(drops, 0);
        assert_eq!(terminal.allow(true).await, TypingResult::All, "{drops}");
        assert_eq!(terminal.given(), FIRST_ROW, "{drops}");
    }
}

#[tokio::test]
#[ignore = "needs tmux: scripts/test installs it"]
async fn a_dialog_that_takes_no_key_is_said_to_be_unanswered() {
    let terminal = Terminal::start(99, 0);
    assert_eq!(terminal.allow(true).await, TypingResult::Some(Stopped::Ignored));
    assert_eq!(terminal.given(), "");
}

#[tokio::test]
#[ignore = "needs tmux: scripts/test installs it"]
async fn a_key_that_is_only_late_is_never_pressed_again() {
    let terminal = Terminal::start(0, 5);
    assert_eq!(terminal.allow(true).await, TypingResult::All);
    assert_eq!(terminal.given(), FIRST_ROW);
}

#[tokio::test]
#[ignore = "needs tmux: scripts/test installs it"]
async fn where_another_call_may_show_the_same_dialog_nothing_is_pressed_again() {
    let terminal = Terminal::start(1, 0);
    assert_eq!(terminal.allow(false).await, TypingResult::All);
    assert_eq!(terminal.given(), "");
}
