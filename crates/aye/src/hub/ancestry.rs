//! Which process runs inside which: what an agent starts must not answer the agent's own asks.

use super::{Hub, Problem};
use crate::processes::{Process, Stat};
use crate::store::Reader;
use aye_core::AgentId;
use rustix::process::getuid;
use std::os::unix::fs::MetadataExt;

/// Deeper trees of processes are not looked at.
const DEEPEST: usize = 256;
/// How often processes that change are looked at again.
const MOST_LOOKS: usize = 20;

/// This process and no other that gets its number later; one that has ended is still itself until it is collected.
pub fn this_process(pid: u32) -> Option<(u32, u64)> {
    Some((pid, Stat::of(pid)?.started()?))
}

/// The process itself and all that started it, nearest first, each with its start time. Empty where that cannot be
/// seen: a line that is cut short would make what runs inside an agent look as if it did not.
pub fn ancestors(pid: u32) -> Vec<(u32, u64)> {
    // Processes end and are adopted while they are looked at, so only what is seen twice counts.
    let mut seen = line_to_the_first(pid);
    for _ in 0..MOST_LOOKS {
        let again = line_to_the_first(pid);
        if again.is_some() && again == seen {
            return seen.unwrap_or_default();
        }
        seen = again;
    }
    Vec::new()
}

/// None unless every process is seen, up to the one that nothing started.
fn line_to_the_first(pid: u32) -> Option<Vec<(u32, u64)>> {
    let mut line = Vec::new();
    let mut next = Some(pid);
    while let Some(pid) = next {
        if line.len() == DEEPEST {
            return None;
        }
        let stat = Stat::of(pid)?;
        line.push((pid, stat.started()?));
        next = stat.parent();
    }
    Some(line)
}

/// The processes from a caller up to one that it says is its agent's, both included; none if that process is not
/// above the caller, or is one that no agent can be.
///
/// Whoever names a process makes everything below it an agent's, so that nothing there may answer. A hook has to
/// name the program that called it, which is above itself; but neither what the hub itself runs in nor a shell
/// that a person types into is an agent, nor is anything above such a shell: a terminal, a tmux server, a login.
fn way_up(caller: u32, pid: u32) -> Option<Vec<(u32, u64)>> {
    let mut way = ancestors(caller);
    let end = way.iter().position(|(ancestor, _)| *ancestor == pid)?;
    way.truncate(end + 1);
    let is_ours =
        || std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == getuid().as_raw());
    let holds_the_hub = || is_below(std::process::id(), pid);
    let has_a_person = || way.iter().any(|(pid, _)| is_typed_into(*pid)) || is_above_a_person(pid);
    let fits = caller == pid || (is_ours() && !holds_the_hub() && !has_a_person());
    fits.then_some(way)
}

/// Tells whether a person types into this shell: it leads a terminal's session, or was started in one without anything to run.
fn is_typed_into(pid: u32) -> bool {
    let is_interactive = |stat: &Stat| stat.session() == Some(pid) || has_nothing_to_run(pid);
    Stat::of(pid).is_some_and(|stat| stat.is_shell() && stat.has_terminal() && is_interactive(&stat))
}

/// Tells whether a shell's arguments name neither a script nor a command, as those of `bash` within `bash` do not.
fn has_nothing_to_run(pid: u32) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0).filter(|argument| !argument.is_empty());
    let is_plain_option = |argument: &[u8]| {
        argument.starts_with(b"--") || (argument.starts_with(b"-") && !argument.contains(&b'c'))
    };
    arguments.next().is_some() && arguments.all(is_plain_option)
}

/// Tells whether a shell that a person types into runs below this process. Where processes cannot be listed, one may.
fn is_above_a_person(pid: u32) -> bool {
    let Ok(listed) = std::fs::read_dir("/proc") else { return true };
    let mut all = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    all.any(|other| other != pid && is_typed_into(other) && is_below(other, pid))
}

/// Whether a process runs inside another, or is the same.
fn is_below(pid: u32, above: u32) -> bool {
    ancestors(pid).iter().any(|(ancestor, _)| *ancestor == above)
}

/// Whether a process is the other's own child.
pub fn is_parent(parent: u32, pid: u32) -> bool {
    Stat::of(pid).and_then(|stat| stat.parent()) == Some(parent)
}

impl Hub {
    /// The agent inside whose process a process runs. An agent that says it has ended still counts
    /// while its process is there: saying so must not make anybody an operator.
    pub async fn agent_around(&self, process: Option<(u32, u64)>) -> Result<Option<AgentId>, Problem> {
        let ancestors = process.map(|(pid, _)| ancestors(pid)).unwrap_or_default();
        // Whoever hides where they come from is not taken for a person, and neither is a process that only got the
        // number of one that has ended.
        let is_seen = process.is_some() && ancestors.first() == process.as_ref();
        if cfg!(target_os = "linux") && !is_seen {
            return Err(Problem::NotAllowed("it cannot be seen which process this comes from"));
        }
        Ok(self.inner.store.read(move |db| db.agent_of_processes(&ancestors)).await?)
    }

    /// Whether a caller on the Unix socket may say that this process is its agent's.
    pub async fn may_name(&self, agent: &AgentId, caller: u32, pid: u32) -> Result<bool, Problem> {
        if pid == 1 {
            return Ok(false);
        }
        // What runs inside an agent cannot make the hub look at another process of it than the one it knows.
        let known = self.agent_process(agent).await?;
        let is_inside = |(known, _): &(u32, u64)| *known != pid && is_below(caller, *known);
        if known.is_some_and(|known| is_inside(&known)) {
            return Ok(false);
        }
        match is_below(pid, caller) {
            true => Ok(true),
            false => self.may_name_above(caller, pid).await,
        }
    }

    /// The same for a process above the caller's.
    pub async fn may_name_above(&self, caller: u32, pid: u32) -> Result<bool, Problem> {
        let Some(mut way) = way_up(caller, pid) else { return Ok(false) };
        let Some(named) = way.pop() else { return Ok(false) };
        let read = move |db: &Reader| {
            let is_known = db.agent_of_processes(&[named])?.is_some();
            // Nothing inside an agent names what is above that agent.
            Ok(is_known || db.agent_of_processes(&way)?.is_none())
        };
        Ok(self.inner.store.read(read).await?)
    }

    /// The agent's process, while it is there.
    async fn agent_process(&self, agent: &AgentId) -> Result<Option<(u32, u64)>, Problem> {
        let agent = agent.clone();
        let row = self.inner.store.read(move |db| db.agent(&agent)).await?;
        let process = row.and_then(|row| row.profile.process);
        Ok(process.filter(|process| Process::from(*process).is_alive()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_child_runs_inside_its_parent_and_not_the_other_way_round() {
        let me = this_process(std::process::id()).unwrap();
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
    fn a_process_above_is_an_agents_only_if_no_person_types_into_it_and_no_hub_runs_in_it() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (from_child, from_me) = (way_up(child.id(), me), way_up(me, me));
        let elsewhere = way_up(me, child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(from_child, None, "this process is the hub's");
        assert_eq!(from_me.map(|way| way.len()), Some(1));
        assert_eq!(elsewhere, None, "it is not above");
    }

    #[test]
    fn a_process_that_is_gone_has_no_ancestors() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(ancestors(child.id()), vec![]);
    }
}
