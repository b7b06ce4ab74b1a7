//! The process of the agent that called us: perhaps our parent, perhaps behind a shell.

use rustix::process::{Pid, getppid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::fs;

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"];
const DEEPEST: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// With the process id this names one process for ever, where the system tells.
    started: Option<String>,
}

impl Process {
    /// Newer versions tell their own process id; the others are the nearest one above us that is no shell.
    pub fn of_agent() -> Option<Self> {
        let parent = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())?;
        let named = std::env::var("CLAUDE_PID").ok().and_then(|pid| pid.parse::<u32>().ok());
        if named == Some(parent) {
            return Some(Self::known(parent));
        }
        let above = || std::iter::successors(Some(parent), |pid| Stat::of(*pid)?.parent()).take(DEEPEST);
        let is_shell = |pid: &u32| Stat::of(*pid).is_some_and(|stat| SHELLS.contains(&stat.name.as_str()));
        let told = named.filter(|named| above().any(|pid| pid == *named));
        let pid = told.or_else(|| above().find(|pid| !is_shell(pid))).unwrap_or(parent);
        Some(Self::known(pid))
    }

    pub fn myself() -> Self {
        Self::known(std::process::id())
    }

    fn known(pid: u32) -> Self {
        Self { pid, started: Stat::of(pid).and_then(|stat| stat.started()) }
    }

    pub fn is_gone(&self) -> bool {
        match (&self.started, Stat::of(self.pid)) {
            (Some(started), Some(stat)) => stat.is_dead() || stat.started().as_ref() != Some(started),
            (Some(_), None) => true,
            (None, _) => i32::try_from(self.pid)
                .ok()
                .and_then(Pid::from_raw)
                .is_none_or(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH)),
        }
    }
}

/// `/proc/PID/stat`, where there is one.
struct Stat {
    name: String,
    fields: Vec<String>,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name may itself contain spaces and parentheses.
        let (head, fields) = stat.rsplit_once(") ")?;
        let name = head.split_once('(')?.1.to_owned();
        Some(Self { name, fields: fields.split_ascii_whitespace().map(str::to_owned).collect() })
    }

    fn parent(&self) -> Option<u32> {
        self.fields.get(1)?.parse().ok().filter(|parent| *parent != 0)
    }

    fn started(&self) -> Option<String> {
        self.fields.get(19).cloned()
    }

    fn is_dead(&self) -> bool {
        self.fields.first().is_some_and(|state| state == "Z" || state == "X")
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_gone_once_it_has_ended_whether_or_not_somebody_looked() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::known(child.id());
        assert!(!process.is_gone());
        child.kill().unwrap();
        aye_testkit::patience::eventually("the process to die", || process.is_gone().then_some(()));
        child.wait().unwrap();
        assert!(process.is_gone());
    }

    #[test]
    fn another_process_under_the_same_id_is_not_the_one_that_was() {
        let me = Process::myself();
        assert!(!me.is_gone());
        assert!(Process { started: Some("1".into()), ..me }.is_gone());
    }
}
