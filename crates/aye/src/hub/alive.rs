//! The processes of the agents that are there. Each is held by a descriptor, so that one call tells of all of them
//! whether they have ended; where the system gives none, `/proc` is read for each.

use crate::processes::Process;
use crate::store::AgentRow;
use aye_core::{AgentId, Reach};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// By its number and its start.
type Name = (u32, u64);

/// The agents as they were at some state of the store.
#[derive(Default)]
pub struct Processes {
    /// Of the agents that were read.
    pub version: Option<u64>,
    agents: Vec<(AgentId, Reach, Name)>,
    descriptors: HashMap<Name, Option<OwnedFd>>,
}

/// What became of them.
#[derive(Default)]
pub struct Looked {
    pub gone: Vec<(AgentId, Name)>,
    /// No adapter reports between two hook calls, so a live process counts as the sign of life.
    pub joined: Vec<AgentId>,
}

impl Processes {
    /// Goes by these agents from here on.
    pub fn renew(&mut self, version: u64, agents: Vec<AgentRow>) {
        let named = |agent: AgentRow| Some((agent.profile.id, agent.profile.reach, agent.profile.process?));
        self.agents = agents.into_iter().filter_map(named).collect();
        let mut before = std::mem::take(&mut self.descriptors);
        for (_, _, process) in &self.agents {
            let held = before.remove(process).unwrap_or_else(|| hold(*process));
            self.descriptors.insert(*process, held);
        }
        self.version = Some(version);
    }

    pub fn look(&self) -> Looked {
        let ended = self.ended();
        let mut looked = Looked::default();
        for (agent, reach, process) in &self.agents {
            let is_gone = ended.get(process).copied().unwrap_or_else(|| !Process::from(*process).is_alive());
            match (is_gone, reach) {
                (true, _) => looked.gone.push((agent.clone(), *process)),
                (false, Reach::Hooked) => looked.joined.push(agent.clone()),
                (false, _) => {}
            }
        }
        looked
    }

    /// Whether they have ended, of those that are held.
    #[cfg(target_os = "linux")]
    fn ended(&self) -> HashMap<Name, bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let held = || self.descriptors.iter().filter_map(|(name, held)| Some((name, held.as_ref()?)));
        let mut polled: Vec<_> = held().map(|(_, held)| PollFd::new(held, PollFlags::IN)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Err(error) = poll(&mut polled, Some(&at_once)) {
            tracing::debug!(%error, "the agents' processes are looked at one by one");
            return HashMap::new();
        }
        held().zip(polled).map(|((name, _), polled)| (*name, !polled.revents().is_empty())).collect()
    }

    #[cfg(not(target_os = "linux"))]
    fn ended(&self) -> HashMap<Name, bool> {
        HashMap::new()
    }
}

/// A descriptor of this very process, and not of a later one with its number.
#[cfg(target_os = "linux")]
fn hold((pid, started): Name) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let held = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    Process::from((pid, started)).is_alive().then_some(held)
}

#[cfg(not(target_os = "linux"))]
fn hold(_: Name) -> Option<OwnedFd> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::process::{Child, Command};

    fn started() -> (Child, Name) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::now(child.id());
        (child, (process.pid, process.started.unwrap()))
    }

    fn agent(name: &str, process: Name, reach: Reach) -> AgentRow {
        let mut row = AgentRow::unannounced(AgentId::try_from(name).unwrap(), Timestamp::UNIX_EPOCH);
        (row.profile.process, row.profile.reach) = (Some(process), reach);
        row
    }

    fn names(agents: &[AgentId]) -> Vec<&str> {
        agents.iter().map(AgentId::as_str).collect()
    }

    #[test]
    fn a_process_that_ends_is_seen_once_it_has_and_never_taken_for_a_later_one() {
        let ((mut first, one), (mut second, two)) = (started(), started());
        let later = (one.0, one.1 + 1);
        let mut processes = Processes::default();
        let agents = || vec![agent("a", one, Reach::Driven), agent("b", two, Reach::Hooked)];
        processes.renew(1, [agents(), vec![agent("later", later, Reach::Driven)]].concat());
        assert!(processes.descriptors[&one].is_some() && processes.descriptors[&later].is_none());
        let looked = processes.look();
        assert_eq!(names(&looked.joined), ["b"]);
        assert_eq!(looked.gone, [(AgentId::try_from("later").unwrap(), later)]);

        first.kill().unwrap();
        // Not taken notice of by its parent yet, and ended all the same.
        aye_testkit::patience::eventually("the end", || (processes.look().gone.len() == 2).then_some(()));
        first.wait().unwrap();
        processes.renew(2, agents());
        assert_eq!(processes.look().gone, [(AgentId::try_from("a").unwrap(), one)]);
        second.kill().unwrap();
        second.wait().unwrap();
        assert_eq!(processes.look().gone.len(), 2);
        processes.renew(3, Vec::new());
        assert!(processes.look().gone.is_empty() && processes.descriptors.is_empty());
    }
}
