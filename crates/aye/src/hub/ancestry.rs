//! Which process runs inside which: what an agent starts must not answer the agent's own asks.

use crate::processes::{Stat, line_of};

/// Deeper trees of processes are not looked at.
const DEEPEST: usize = 256;

/// When a process started, in the system's own ticks; with the process id it names one process for ever.
/// One that has ended and that nobody has taken notice of yet is gone.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = Stat::of(pid)?;
    // A process whose first thread has ended reads the same, but its other threads still work.
    let has_ended = stat.state()? == "Z" && stat.threads()? == 1;
    stat.started().filter(|_| !has_ended)
}

/// The process itself and all that started it, nearest first, each with its start time.
pub fn ancestors(pid: u32) -> Vec<(u32, u64)> {
    line_of(pid, DEEPEST).filter_map(|pid| Some((pid, process_started(pid)?))).collect()
}

/// Whether one of these processes started the other, at whatever remove.
pub fn are_related(one: u32, other: u32) -> bool {
    let has = |ancestors: Vec<(u32, u64)>, pid: u32| ancestors.iter().any(|(ancestor, _)| *ancestor == pid);
    has(ancestors(one), other) || has(ancestors(other), one)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_child_runs_inside_its_parent_and_not_the_other_way_round() {
        let me = (std::process::id(), process_started(std::process::id()).unwrap());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let above_child = ancestors(child.id());
        let above_me = ancestors(me.0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(above_child[1], me);
        assert_eq!(above_me[0], me);
        assert!(!above_me.contains(&above_child[0]));
    }

    #[test]
    fn a_process_that_is_gone_has_no_ancestors() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(ancestors(child.id()), vec![]);
    }

    #[test]
    fn a_process_that_has_ended_is_gone_before_anybody_takes_notice() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let is_gone = || process_started(child.id()).is_none().then_some(());
        aye_testkit::patience::eventually("the child is gone", is_gone);
        let is_listed = Stat::of(child.id()).is_some();
        child.wait().unwrap();
        assert!(is_listed);
    }
}
