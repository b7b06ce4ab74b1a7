//! The real program in a home of its own, and what the system says it costs.

use anyhow::{Context, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Hub {
    pub address: String,
    pub socket: PathBuf,
    pub operator: String,
    /// From the start of the process to its first line.
    pub started_in: Duration,
    program: PathBuf,
    home: PathBuf,
    child: Child,
}

impl Hub {
    pub fn start(program: &Path, home: &Path) -> anyhow::Result<Self> {
        // Logged as it is by default, because that is what people run.
        let log = fs::OpenOptions::new().create(true).append(true).open(home.with_extension("log"))?;
        let mut command = Command::new(program);
        command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]).env("AYE_HOME", home);
        for name in ["AYE_URL", "AYE_TOKEN", "AYE_LOG", "AYE_DATABASE_URL"] {
            command.env_remove(name);
        }
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let line = lines.next().context("the hub ended before it listened")??;
        let started_in = start.elapsed();
        let address = line.strip_prefix("aye is listening on http://").context("an unknown first line")?;
        let address = address.to_owned();
        // The sign-in link comes next; a hub whose output nobody reads must not be stopped by it.
        lines.next().context("no sign-in link")??;
        let socket = home.join("aye.sock");
        let (program, home, operator) = (program.to_owned(), home.to_owned(), String::new());
        // Made before anything can fail, so that the hub ends with it.
        let mut hub = Self { address, socket, operator, started_in, program, home, child };
        hub.operator = hub.token("operator")?;
        Ok(hub)
    }

    /// A new token for the network; the one in `operator.token` counts on the Unix socket only.
    pub fn token(&self, role: &str) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["token", "create", "--role", role]).env("AYE_HOME", &self.home);
        let made = command.env_remove("AYE_URL").env_remove("AYE_TOKEN").output()?;
        ensure!(made.status.success(), "no token: {}", String::from_utf8_lossy(&made.stderr));
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }

    pub fn database(&self) -> PathBuf {
        self.home.join("aye.db")
    }

    /// Processor time of the hub so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&format!("/proc/{}/stat", self.child.id()))
    }

    pub fn memory(&self) -> anyhow::Result<Memory> {
        memory_of(self.child.id())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, and the wait for its end.
    pub fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )?;
        let ended = self.child.wait()?;
        ensure!(ended.success(), "the hub ended with {ended}");
        Ok(())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

/// In bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub resident: u64,
    pub proportional: u64,
    /// Of this process alone: what it shares with others is left out.
    pub private: u64,
    pub peak: u64,
}

pub fn memory_of(pid: u32) -> anyhow::Result<Memory> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(Memory {
        resident: kilobytes(&rollup, "Rss:")?,
        proportional: kilobytes(&rollup, "Pss:")?,
        private: kilobytes(&rollup, "Private_Clean:")? + kilobytes(&rollup, "Private_Dirty:")?,
        peak: kilobytes(&status, "VmHWM:")?,
    })
}

/// Processor time of a process so far, to the nanosecond: many that do next to nothing would each be rounded to
/// nothing. Threads that have ended are left out.
pub fn cpu_of_process(pid: u32) -> anyhow::Result<Duration> {
    let mut spent = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let nanos = text.split(' ').next().context("an unknown schedstat line")?;
        spent += Duration::from_nanos(nanos.parse()?);
    }
    Ok(spent)
}

/// Processor time of this program so far.
pub fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("/proc/self/stat")
}

/// Processor time of all that this program has started and that has ended.
pub fn cpu_of_children() -> anyhow::Result<Duration> {
    ticks("/proc/self/stat", 13)
}

pub fn cpu_of(stat: &str) -> anyhow::Result<Duration> {
    ticks(stat, 11)
}

/// The time as a program and in the system, from this field on.
fn ticks(stat: &str, field: usize) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(stat)?;
    // The name may contain anything; the fields after it do not.
    let fields = stat.rsplit_once(") ").context("an unknown stat line")?.1;
    let ticks: u64 =
        fields.split(' ').skip(field).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

fn kilobytes(text: &str, name: &str) -> anyhow::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
    let number = line.trim().split(' ').next().context("no number")?;
    Ok(number.parse::<u64>()? * 1024)
}
