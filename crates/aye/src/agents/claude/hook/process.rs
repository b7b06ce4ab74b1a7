//! The process of the agent that called us: perhaps our parent, perhaps behind a shell.

use crate::agents::supervise::SUPERVISOR;
use crate::processes::{Stat, line_of};
use rustix::process::{Pid, getppid, test_kill_process};
use serde::{Deserialize, Serialize};

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
        let above = || line_of(parent, DEEPEST);
        let is_shell = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.is_shell());
        let told = named.filter(|named| above().any(|pid| pid == *named));
        let pid = told.or_else(|| above().find(|pid| !is_shell(pid))).unwrap_or(parent);
        Some(Self::known(pid))
    }

    /// Our process right above the agent, if `aye claude` started it.
    pub fn supervisor() -> Option<u32> {
        std::env::var(SUPERVISOR).ok()?.parse().ok()
    }

    pub fn myself() -> Self {
        Self::known(std::process::id())
    }

    fn known(pid: u32) -> Self {
        Self { pid, started: Stat::of(pid).as_ref().and_then(started) }
    }

    pub fn is_gone(&self) -> bool {
        match (&self.started, Stat::of(self.pid)) {
            (Some(then), Some(stat)) => {
                matches!(stat.state(), Some("Z" | "X")) || started(&stat).as_ref() != Some(then)
            }
            (Some(_), None) => true,
            (None, _) => i32::try_from(self.pid)
                .ok()
                .and_then(Pid::from_raw)
                .is_none_or(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH)),
        }
    }
}

fn started(stat: &Stat) -> Option<String> {
    stat.started().map(|ticks| ticks.to_string())
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
