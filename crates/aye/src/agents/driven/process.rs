//! The agent's process and the pipes to it.

use super::Writer;
use crate::agents::DRIVEN;
use crate::agents::lines::{LONGEST, Line, next_line};
use crate::agents::supervise::{FORCE, supervise};
use crate::config::Stdin;
use crate::processes::require_program;
use anyhow::Context;
use futures_util::FutureExt;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long a supervisor may take to end its agent by force.
const LONGEST_END: Duration = Duration::from_secs(2);

/// How to start an agent.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// This program itself, which supervises the agent in a session of its own.
    pub ourselves: &'a Path,
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub environment: Vec<(&'static str, String)>,
    pub cwd: &'a Path,
    pub stdin: Stdin,
    /// The environment variable that names another program, if there is one.
    pub variable: Option<&'a str>,
}

/// Our end of what the agent reads. Dropping it tells the agent that nothing more comes.
pub enum Input {
    Pipe(ChildStdin),
    /// The runtime's type for pipes, whose way of waiting suits a terminal as well.
    Pty(pipe::Sender),
}

impl Writer<String> for Input {
    async fn write(&mut self, line: String) -> io::Result<()> {
        let mut bytes = line.into_bytes();
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

/// Our ends of what the agent reads and writes.
pub struct Pipes {
    pub input: Input,
    pub output: ChildStdout,
}

impl Pipes {
    /// For agents that read and write a message a line.
    pub fn by_lines(self, inputs: mpsc::Sender<Line>, tasks: &mut JoinSet<()>) -> Input {
        tasks.spawn(read_lines(self.output, LONGEST, inputs).boxed());
        self.input
    }
}

/// To the end, or until nobody listens.
pub async fn read_lines(pipe: impl AsyncRead + Unpin, longest: usize, lines: mpsc::Sender<Line>) {
    let mut reader = BufReader::with_capacity(64 * 1024, pipe);
    while let Ok(Some(line)) = next_line(&mut reader, longest).await {
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

/// An agent that runs, and our ends of its pipes.
pub struct Agent {
    pub process: AgentProcess,
    pub pipes: Pipes,
    /// Its standard error; never passed straight to a terminal on which approvals are typed.
    pub errors: ChildStderr,
}

/// The supervisor that leads the agent's session. Dropping it ends the agent.
pub struct AgentProcess(Child);

impl AgentProcess {
    /// The agent itself and everything it starts is below this one.
    pub fn id(&self) -> Option<u32> {
        self.0.id()
    }

    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Asks the agent to end, and says whether it was still there to be asked.
    pub fn terminate(&mut self) -> bool {
        let runs = matches!(self.0.try_wait(), Ok(None));
        runs && self.leader().is_some_and(|leader| kill_process(leader, Signal::TERM).is_ok())
    }

    /// Ends the agent and whatever it started and left behind in its session.
    pub async fn kill(&mut self) -> io::Result<ExitStatus> {
        // The supervisor must outlive the agent to reap it, so it is told first; killing the group would kill both.
        if let Some(Err(error)) = self.leader().map(|leader| kill_process(leader, FORCE)) {
            tracing::debug!(%error, "the supervisor has ended");
        }
        let ended = timeout(LONGEST_END, self.0.wait()).await;
        self.kill_group();
        match ended {
            Ok(status) => status,
            Err(_) => self.0.wait().await,
        }
    }

    fn leader(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    fn kill_group(&self) {
        let Some(leader) = self.leader() else { return };
        // Until it has left our session it leads no group.
        let killed = kill_process_group(leader, Signal::KILL).or_else(|_| kill_process(leader, Signal::KILL));
        if let Err(error) = killed {
            tracing::debug!(%error, "the agent could not be killed");
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// The command that [`run_in_own_session`] serves.
pub const OWN_SESSION: &str = "own-session";

/// With it, the program gets SIGTERM when the process that started [`run_in_own_session`] is gone. A parent-death SIGKILL
/// would end a launcher before it could pass the signal on to the program that it started.
pub const WITH_PARENT: &str = "--with-parent";

/// Runs the program that is named in a session of its own: a program that shares our terminal could type answers
/// into it.
pub async fn run_in_own_session(
    program: &OsStr,
    arguments: &[OsString],
    with_parent: bool,
) -> anyhow::Result<u8> {
    rustix::process::setsid().context("cannot leave this session")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    let supervised =
        async { supervise(&command).await.with_context(|| format!("cannot run {}", program.display())) };
    if !with_parent {
        return supervised.await;
    }
    let mut told_to_end = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot be bound to its parent")?;
    let too_late = async {
        told_to_end.recv().await;
        // A server may wait for a turn that never ends.
        sleep(LONGEST_END).await;
    };
    tokio::select! {
        code = supervised => code,
        () = too_late => {
            kill_process_group(getpid(), Signal::KILL)?;
            anyhow::bail!("{} did not end by itself", program.display())
        }
    }
}

/// No shell, a session of its own (so that neither Ctrl-C nor our terminal is its), and none of our credentials.
pub fn spawn(start: &Launch) -> anyhow::Result<Agent> {
    let program = require_program(start.program, start.variable)?;
    let mut command = Command::new(start.ourselves);
    command.arg(OWN_SESSION).arg("--").arg(std::path::absolute(program)?);
    command.args(start.arguments).current_dir(start.cwd).env_remove("AYE_TOKEN").env(DRIVEN, "1");
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
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
    Ok(Agent { process: AgentProcess(child), pipes: Pipes { input, output }, errors })
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
