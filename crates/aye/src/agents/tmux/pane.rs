//! The pane a session runs in: found from its process, read, and typed into. Every program is called with
//! its arguments as they are, never through a shell.

use super::keys::Key;
use crate::processes::{Process, line_of};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// tmux answers at once, or not at all.
const SLOWEST: Duration = Duration::from_secs(5);
/// Deeper trees of processes are not looked at.
const DEEPEST: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pane {
    /// The server's socket, where it is not the usual one.
    socket: Option<PathBuf>,
    /// `%N`: a name would match others that begin like it.
    id: String,
    /// As a person names it: session, window and pane.
    pub name: String,
    /// The process it was found by: a pane may outlive it and run something else.
    process: Process,
}

/// Why a session cannot be typed into.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPane {
    #[error("its process is not known here")]
    NoProcess,
    #[error("it does not run in tmux")]
    NotInTmux,
    #[error("its tmux pane is gone")]
    Gone,
    #[error("tmux is not installed")]
    NoTmux,
    #[error("tmux did not do what it was told: {0}")]
    Failed(String),
}

impl Pane {
    pub async fn of(process: Option<Process>) -> Result<Self, NoPane> {
        let process = process.ok_or(NoPane::NoProcess)?;
        let socket = server_of(process.pid);
        let listed = tmux(
            socket.as_ref(),
            &[
                "list-panes",
                "-a",
                "-F",
                "#{pane_id} #{pane_pid} #{session_name}:#{window_index}.#{pane_index}",
            ],
        )
        .await;
        let listed = match listed {
            Err(NoPane::Failed(_)) => return Err(NoPane::NotInTmux),
            listed => listed?,
        };
        let fields = |line: &str| {
            let mut fields = line.splitn(3, ' ').map(str::to_owned);
            Some((fields.next()?, fields.next()?.parse::<u32>().ok()?, fields.next()?))
        };
        let panes: Vec<_> = listed.lines().filter_map(fields).collect();
        let mut above = line_of(process.pid, DEEPEST);
        let pane = above.find_map(|pid| panes.iter().find(|(_, leader, _)| *leader == pid));
        let (id, _, name) = pane.ok_or(NoPane::NotInTmux)?;
        let is_id =
            id.strip_prefix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        match is_id {
            true => Ok(Self { socket, id: id.clone(), name: name.clone(), process }),
            false => Err(NoPane::NotInTmux),
        }
    }

    /// The tmux session that it belongs to, by the name that people gave it.
    pub fn session(&self) -> &str {
        self.name.split(':').next().unwrap_or_default()
    }

    /// What the pane shows.
    pub async fn screen(&self) -> Result<String, NoPane> {
        self.tmux(&["capture-pane", "-p", "-t", &self.id]).await
    }

    /// Its columns and lines.
    pub async fn size(&self) -> Result<(usize, usize), NoPane> {
        let shown =
            self.tmux(&["display-message", "-p", "-t", &self.id, "#{pane_width} #{pane_height}"]).await?;
        let size = shown
            .trim()
            .split_once(' ')
            .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        size.ok_or_else(|| NoPane::Failed("it does not tell the size of the pane".into()))
    }

    /// In copy mode keys would go to tmux.
    pub async fn leave_modes(&self) -> Result<(), NoPane> {
        for _ in 0..3 {
            let mode = self.tmux(&["display-message", "-p", "-t", &self.id, "#{pane_in_mode}"]).await?;
            if mode.trim() == "0" {
                return Ok(());
            }
            self.tmux(&["send-keys", "-X", "-t", &self.id, "cancel"]).await?;
        }
        Err(NoPane::Failed("the pane stays in copy mode".into()))
    }

    pub async fn press(&self, key: &Key) -> Result<(), NoPane> {
        if let Key::Text(text) = key
            && let Some(pasted) = text.to_paste()
        {
            let buffer = format!("aye-{}", std::process::id());
            self.tmux(&["set-buffer", "-b", &buffer, "--", &pasted]).await?;
            // Bracketed, with its line breaks as they are.
            return self
                .tmux(&["paste-buffer", "-p", "-r", "-d", "-b", &buffer, "-t", &self.id])
                .await
                .map(drop);
        }
        let arguments = key.arguments();
        let mut all = vec!["send-keys", "-t", &self.id];
        all.extend(arguments.iter().map(String::as_str));
        self.tmux(&all).await.map(drop)
    }

    async fn tmux(&self, arguments: &[&str]) -> Result<String, NoPane> {
        if !self.process.is_alive() {
            return Err(NoPane::Gone);
        }
        match tmux(self.socket.as_ref(), arguments).await {
            Err(NoPane::Failed(said)) if says_gone(&said) => Err(NoPane::Gone),
            other => other,
        }
    }
}

/// The tmux session that the terminal of a process is in.
pub async fn session_of(process: Process) -> Option<String> {
    Some(Pane::of(Some(process)).await.ok()?.session().to_owned())
}

fn says_gone(said: &str) -> bool {
    ["can't find pane", "no server running", "error connecting"].iter().any(|gone| said.contains(gone))
}

/// The server that the process itself was started under.
fn server_of(pid: u32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let tmux = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"TMUX="))?;
    let socket = tmux.split(|byte| *byte == b',').next().filter(|socket| socket.starts_with(b"/"))?;
    Some(PathBuf::from(OsString::from_vec(socket.to_vec())))
}

async fn tmux(socket: Option<&PathBuf>, arguments: &[&str]) -> Result<String, NoPane> {
    let mut command = Command::new("tmux");
    // Text is text, whatever the locale of this process.
    command.arg("-u");
    if let Some(socket) = socket {
        command.arg("-S").arg(socket);
    }
    command.args(arguments.iter().map(|argument| OsStr::from_bytes(argument.as_bytes())));
    command.env_remove("TMUX").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(SLOWEST, command.output()).await;
    let output = output.map_err(|_| NoPane::Failed("it does not answer".into()))?;
    match output {
        Ok(Output { status, stdout, .. }) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
        Ok(Output { stderr, .. }) => Err(NoPane::Failed(String::from_utf8_lossy(&stderr).trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(NoPane::NoTmux),
        Err(error) => Err(NoPane::Failed(error.to_string())),
    }
}
