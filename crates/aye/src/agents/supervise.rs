//! Keeps everything that an agent starts below one process of ours. A process whose parent ends goes to the nearest
//! child subreaper above it, or else to the system's first process; with a subreaper above the agent, `setsid`
//! and double forks leave nothing of it outside the process tree that the hub looks at.

use super::sleep_until_opt;
use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::Instant;

/// In the agent's environment: our process right above it, so that its hooks can name it to the hub.
pub const SUPERVISOR: &str = "AYE_SUPERVISOR";

/// Whether this system knows subreapers. Elsewhere a supervisor would hold nothing together.
pub const IS_KNOWN: bool = cfg!(target_os = "linux");

/// The command that [`become_bound`] serves.
pub const BOUND: &str = "bound";

/// Tells the supervisor to end the program by force.
pub const FORCE: Signal = Signal::USR1;

/// How long a program may take to end once its terminal is gone: some never do, and work on unseen.
const LONGEST_FAREWELL: Duration = Duration::from_secs(10);

/// A program below us, of which we adopt what it leaves behind.
pub struct Supervised {
    program: Pid,
    child: Signals,
    terminate: Signals,
    hangup: Signals,
    force: Signals,
    /// The terminal sends these to the program as well, and they are for the program alone.
    _handled: [Signals; 2],
}

impl Supervised {
    pub fn start(command: &Command) -> anyhow::Result<Self> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid())).context("cannot adopt orphaned processes")?;
        let on = |kind| signal(kind).context("cannot listen for signals");
        let (child, terminate) = (on(SignalKind::child())?, on(SignalKind::terminate())?);
        let (hangup, force) = (on(SignalKind::hangup())?, on(SignalKind::user_defined1())?);
        let _handled = [on(SignalKind::interrupt())?, on(SignalKind::quit())?];
        let program = Pid::from_child(&bound(command)?.spawn()?);
        Ok(Self { program, child, terminate, hangup, force, _handled })
    }

    pub fn pid(&self) -> u32 {
        self.program.as_raw_nonzero().get().unsigned_abs()
    }

    /// The exit code for a shell.
    pub async fn to_its_end(&mut self) -> anyhow::Result<u8> {
        let mut farewell_until = None;
        loop {
            if let Some(code) = collect(self.program)? {
                return Ok(code);
            }
            let passed_on = tokio::select! {
                _ = self.child.recv() => continue,
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.hangup.recv() => {
                    farewell_until = Some(Instant::now() + LONGEST_FAREWELL);
                    Signal::HUP
                }
                _ = self.force.recv() => Signal::KILL,
                () = sleep_until_opt(farewell_until) => {
                    farewell_until = None;
                    Signal::KILL
                }
            };
            pass_on(self.program, passed_on)?;
        }
    }
}

/// Runs a program to its end, and returns the exit code for a shell.
pub async fn supervise(command: &Command) -> anyhow::Result<u8> {
    Supervised::start(command)?.to_its_end().await
}

/// The same command, to be started by [`become_bound`].
pub fn bound(command: &Command) -> anyhow::Result<Command> {
    let ourselves = std::env::current_exe().context("cannot find this program itself")?;
    let mut bound = Command::new(ourselves);
    bound.arg(BOUND).arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound.env(SUPERVISOR, std::process::id().to_string());
    Ok(bound)
}

/// Becomes the program that is named, which from then on ends when its supervisor does: without that one, what it
/// starts would belong to nobody.
pub fn become_bound(program: &OsStr, arguments: &[OsString]) -> anyhow::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow::Error::new(error).context("cannot be bound to the supervisor");
    }
    let failed = Command::new(program).args(arguments).exec();
    anyhow::Error::new(failed).context(format!("cannot start {}", program.display()))
}

/// The program may have ended without our having noticed yet.
fn pass_on(program: Pid, signal: Signal) -> anyhow::Result<()> {
    match kill_process(program, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot pass a signal on to the agent"),
    }
}

/// Takes notice of every child that ended, orphans among them; the program's exit code once it is one of them.
fn collect(program: Pid) -> anyhow::Result<Option<u8>> {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) if pid == program => {
                if status.stopped() {
                    // The shell that started us sees only us stop; it continues both of us.
                    kill_process(getpid(), Signal::STOP).context("cannot stop with the agent")?;
                } else {
                    return Ok(Some(exit_code(status)));
                }
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(error).context("cannot wait for the agent"),
        }
    }
}

/// As shells tell it: what a signal ended has 128 and the signal's number.
fn exit_code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
