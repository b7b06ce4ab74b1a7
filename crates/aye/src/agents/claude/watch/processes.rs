//! What the system tells of other processes.

use crate::processes::{Stat, line_of};
use std::fs;
use std::path::PathBuf;

/// Deeper trees of processes are not looked at.
const DEEPEST: usize = 256;

/// A process, with the moment it started where the system tells: a number alone may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    pub pid: u32,
    pub started: Option<u64>,
}

impl Process {
    pub fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let exists = pid.is_some_and(|pid| {
            !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
        });
        let same = || match (self.started, started(self.pid)) {
            (Some(then), Some(now)) => then == now,
            _ => true,
        };
        exists && same()
    }

    /// The process itself and all that started it, nearest first.
    pub fn ancestry(&self) -> Vec<u32> {
        line_of(self.pid, DEEPEST).collect()
    }
}

/// When a process started, in the system's own ticks.
pub fn started(pid: u32) -> Option<u64> {
    Stat::of(pid)?.started()
}

/// Every process that goes by the agent's name, and the folder it works in.
pub fn running(name: &str) -> Vec<(Process, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let called = fs::read_to_string(entry.path().join("comm")).ok()?;
        let is_it = called.trim_end() == name;
        let cwd = is_it.then(|| fs::read_link(entry.path().join("cwd")).ok()).flatten()?;
        Some((Process { pid, started: started(pid) }, cwd))
    });
    found.collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let me = std::process::id();
        let myself = Process { pid: me, started: started(me) };
        assert!(myself.is_alive() && myself.started.is_some());
        assert!(!Process { started: Some(1), ..myself }.is_alive());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process { pid: child.id(), started: None };
        assert_eq!(process.ancestry()[..2], [child.id(), me]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
