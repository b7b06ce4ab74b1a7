//! The processes of the agents that are there. Each is held by a descriptor, so that one call tells of all of them
//! whether they have ended; where the system gives none, `/proc` is read for each.

use crate::processes::Process;
use crate::store::AgentRow;
use aye_core::{AgentId, Reach};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

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
    fn ended(&self) -> HashMap<Name, bool> {
        let held = || self.descriptors.iter().filter_map(|(name, held)| Some((*name, held.as_ref()?)));
        let ended = have_ended(held().map(|(_, held)| held)).unwrap_or_default();
        held().map(|(name, _)| name).zip(ended).collect()
    }
}

/// Those that are held because somebody asks about them again and again. Beyond this many, all are held anew.
const MOST_HELD: usize = 64;

/// Processes of agents that ask: once one is held, one call of the system tells that it is there.
#[derive(Default)]
pub struct AskingProcesses(Mutex<HashMap<Name, Arc<OwnedFd>>>);

impl AskingProcesses {
    pub fn is_alive(&self, process: Name) -> bool {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&process).cloned();
        if let Some([ended]) = held.and_then(|held| have_ended([&*held].into_iter())).as_deref() {
            return !ended;
        }
        let Some(held) = hold(process) else { return Process::from(process).is_alive() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_HELD {
            all.clear();
        }
        all.insert(process, Arc::new(held));
        true
    }
}

/// Whether the processes have ended that these descriptors hold, in one call; none if the system does not tell.
#[cfg(target_os = "linux")]
fn have_ended<'a>(held: impl Iterator<Item = &'a OwnedFd>) -> Option<Vec<bool>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled: Vec<_> = held.map(|held| PollFd::new(held, PollFlags::IN)).collect();
    if let Err(error) = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        tracing::debug!(%error, "the agents' processes are looked at one by one");
        return None;
    }
    Some(polled.iter().map(|polled| !polled.revents().is_empty()).collect())
}

#[cfg(not(target_os = "linux"))]
fn have_ended<'a>(_: impl Iterator<Item = &'a OwnedFd>) -> Option<Vec<bool>> {
    None
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

    #[test]
    fn a_process_that_asks_is_held_and_its_end_is_seen_at_once() {
        let ((mut child, it), asking) = (started(), AskingProcesses::default());
        let held = || asking.0.lock().unwrap().len();
        assert!(asking.is_alive(it) && asking.is_alive(it));
        assert_eq!(held(), 1);
        assert!(!asking.is_alive((it.0, it.1 + 1)), "another one with its number");
        assert_eq!(held(), 1);
        child.kill().unwrap();
        // Not taken notice of by its parent yet, and ended all the same.
        aye_testkit::patience::eventually("the end", || (!asking.is_alive(it)).then_some(()));
        child.wait().unwrap();
        assert!(!asking.is_alive(it));
    }

    #[test]
    fn no_more_processes_are_held_than_fit() {
        let me = Process::myself();
        let (me, asking) = ((me.pid, me.started.unwrap()), AskingProcesses::default());
        for n in 0..MOST_HELD as u64 {
            asking.0.lock().unwrap().insert((me.0, n), Arc::new(hold(me).unwrap()));
        }
        assert!(asking.is_alive(me));
        assert_eq!(asking.0.lock().unwrap().len(), 1);
    }
}
