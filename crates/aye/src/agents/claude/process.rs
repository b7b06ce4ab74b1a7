//! The agent's process and the pipes to it.

use crate::config::Stdin;
use anyhow::Context;
use rustix::fs::{Access, OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How to start an agent.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    /// This program itself, which becomes the agent's once it has left our session.
    pub ourselves: &'a Path,
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub cwd: &'a Path,
    pub mode: Option<&'a str>,
    pub resume: Option<&'a str>,
    pub stdin: Stdin,
}

/// Our end of what the agent reads. Dropping it tells the agent that nothing more comes.
pub enum Input {
    Pipe(ChildStdin),
    /// The runtime's type for pipes, whose way of waiting suits a terminal as well.
    Pty(pipe::Sender),
}

impl Input {
    pub async fn write_line(&mut self, line: &str) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        match self {
            Input::Pipe(pipe) => {
                pipe.write_all(&bytes).await?;
                pipe.flush().await
            }
            Input::Pty(pty) => pty.write_all(&bytes).await,
        }
    }
}

/// An agent that runs, and our ends of its pipes.
pub struct Agent {
    pub child: Child,
    pub input: Input,
    pub output: ChildStdout,
    /// What it complains about; never straight to a terminal on which approvals are typed.
    pub errors: ChildStderr,
}

impl Agent {
    /// Ends the agent and whatever it started and left behind in its session.
    pub async fn kill(child: &mut Child) -> io::Result<()> {
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(Err(error)) = leader.map(|leader| kill_process_group(leader, Signal::KILL)) {
            tracing::debug!(%error, "the agent leads no group");
        }
        child.kill().await
    }
}

/// The command that [`leave_session`] serves.
pub const ASIDE: &str = "aside";

/// Becomes the program that is named, in a session of its own: a program that shares our terminal could type
/// answers into it.
pub fn leave_session(program: &OsStr, arguments: &[OsString]) -> anyhow::Error {
    use std::os::unix::process::CommandExt;
    if let Err(error) = rustix::process::setsid() {
        return anyhow::Error::new(error).context("cannot leave this session");
    }
    let failed = std::process::Command::new(program).args(arguments).exec();
    anyhow::Error::new(failed).context(format!("cannot start {}", program.display()))
}

/// Where a program is, as the system would look for it.
fn find(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = std::env::split_paths(&path).map(|folder| folder.join(program)).collect();
    if program.components().count() > 1 {
        places = vec![program.to_path_buf()];
    }
    places.into_iter().find(|place| place.is_file() && rustix::fs::access(place, Access::EXEC_OK).is_ok())
}

/// No shell, a session of its own (so that neither Ctrl-C nor our terminal is its), and none of our credentials.
pub fn spawn(start: &Start) -> anyhow::Result<Agent> {
    let program = find(start.program).with_context(|| {
        format!(
            "cannot start {}; is it installed? AYE_CLAUDE or `command` in config.toml names another",
            start.program.display()
        )
    })?;
    let mut command = Command::new(start.ourselves);
    command.arg(ASIDE).arg("--").arg(std::path::absolute(program)?);
    command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    command.args([
        "--permission-prompt-tool",
        "stdio",
        "--include-partial-messages",
        "--replay-user-messages",
    ]);
    if let Some(mode) = start.mode {
        command.arg(format!("--permission-mode={mode}"));
    }
    if let Some(session) = start.resume {
        command.arg(format!("--resume={session}"));
    }
    command.args(start.arguments).current_dir(start.cwd).env_remove("AYE_TOKEN").env("AYE_DRIVEN", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let ours = match start.stdin {
        Stdin::Pipe => {
            command.stdin(Stdio::piped());
            None
        }
        Stdin::Pty => {
            let (ours, theirs) = pseudo_terminal().context("cannot open a pseudo-terminal")?;
            command.stdin(theirs);
            Some(ours)
        }
    };
    let mut child = command.spawn().with_context(|| format!("cannot start {}", start.ourselves.display()))?;
    let output = child.stdout.take().context("the agent has no output")?;
    let errors = child.stderr.take().context("the agent has no standard error")?;
    let input = match (ours, child.stdin.take()) {
        (Some(pty), _) => Input::Pty(pty),
        (None, Some(pipe)) => Input::Pipe(pipe),
        (None, None) => anyhow::bail!("the agent has no input"),
    };
    Ok(Agent { child, input, output, errors })
}

/// Raw, so that no byte is echoed, changed or taken for a command, and no line is too long.
fn pseudo_terminal() -> io::Result<(pipe::Sender, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = PathBuf::from(OsStr::from_bytes(ptsname(&ours, Vec::new())?.as_bytes()));
    let theirs: OwnedFd = open_without_control(&name)?;
    let mut settings = tcgetattr(&theirs)?;
    settings.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &settings)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK | OFlags::RDWR)?;
    Ok((pipe::Sender::from_file_unchecked(File::from(ours))?, theirs))
}

fn open_without_control(terminal: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NOCTTY.bits().cast_signed();
    Ok(File::options().read(true).write(true).custom_flags(flags).open(terminal)?.into())
}
