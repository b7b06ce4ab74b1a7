//! The process of the agent that called us: perhaps our parent, perhaps behind a shell.

use crate::agents::supervise::SUPERVISOR;
use crate::processes::{Process, Stat, line_of};
use rustix::process::getppid;

const DEEPEST: usize = 16;

/// Newer versions tell their own process id; the others are the nearest one above us that is no shell.
pub fn of_agent() -> Option<Process> {
    let parent = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())?;
    let named = std::env::var("CLAUDE_PID").ok().and_then(|pid| pid.parse::<u32>().ok());
    if named == Some(parent) {
        return Some(Process::now(parent));
    }
    let above = || line_of(parent, DEEPEST);
    let is_shell = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.is_shell());
    let told = named.filter(|named| above().any(|pid| pid == *named));
    let pid = told.or_else(|| above().find(|pid| !is_shell(pid))).unwrap_or(parent);
    Some(Process::now(pid))
}

/// Our process right above the agent, if `aye claude` started it.
pub fn supervisor() -> Option<u32> {
    std::env::var(SUPERVISOR).ok()?.parse().ok()
}
