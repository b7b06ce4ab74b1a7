//! Signs of life. An adapter that has not been heard of for a minute makes its agent lost; one that waits at an open
//! connection of this machine is there as long as that is. After a hub start everybody is counted from zero, because
//! the silence may have been ours.

use crate::store::AgentRow;
use aye_core::AgentId;
use jiff::{SignedDuration, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

pub const SILENCE: SignedDuration = SignedDuration::from_secs(60);

pub struct Life {
    known: Mutex<LastHeard>,
}

#[derive(Default)]
struct LastHeard {
    heard: HashMap<AgentId, Timestamp>,
    lost: HashSet<AgentId>,
    /// How many connections each waits at whose end would be noticed.
    present: HashMap<AgentId, usize>,
}

impl Life {
    pub fn starting_now(agents: &[AgentRow], now: Timestamp) -> Self {
        let mut known = LastHeard::default();
        for agent in agents {
            let id = agent.profile.id.clone();
            if agent.lost {
                known.lost.insert(id);
            } else {
                known.heard.insert(id, now);
            }
        }
        Self { known: Mutex::new(known) }
    }

    /// Notes a sign of life, and says whether the agent had been lost.
    pub fn heard(&self, agent: &AgentId, now: Timestamp) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.heard.insert(agent.clone(), now);
        known.lost.remove(agent)
    }

    pub fn ended(&self, agent: &AgentId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.heard.remove(agent);
        known.lost.remove(agent);
    }

    /// From here on it is there, until it leaves as often as it came.
    pub fn comes(&self, agent: &AgentId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.present.entry(agent.clone()).or_default() += 1;
    }

    pub fn leaves(&self, agent: &AgentId, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let count = known.present.remove(agent).unwrap_or_default().saturating_sub(1);
        if count > 0 {
            known.present.insert(agent.clone(), count);
        }
        // One that has ended meanwhile is not waited for any more.
        known.heard.entry(agent.clone()).and_modify(|heard| *heard = now);
    }

    /// Those who have just been silent for too long; each is named once.
    pub fn fallen_silent(&self, now: Timestamp) -> Vec<AgentId> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |(id, at): &(&AgentId, &Timestamp)| {
            now.duration_since(**at) >= SILENCE && !known.present.contains_key(*id)
        };
        let gone: Vec<_> = known.heard.iter().filter(silent).map(|(id, _)| id.clone()).collect();
        for agent in &gone {
            known.heard.remove(agent);
            known.lost.insert(agent.clone());
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_waits_here_is_lost_a_minute_after_it_leaves() {
        let (life, agent) = (Life::starting_now(&[], Timestamp::UNIX_EPOCH), AgentId::try_from("a").unwrap());
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        life.heard(&agent, at(0));
        life.comes(&agent);
        life.comes(&agent);
        life.leaves(&agent, at(100));
        assert!(life.fallen_silent(at(1000)).is_empty());
        life.leaves(&agent, at(1000));
        assert!(life.fallen_silent(at(1059)).is_empty());
        assert_eq!(life.fallen_silent(at(1060)), std::slice::from_ref(&agent));
        // Whoever ends while it waits is not missed afterwards.
        life.heard(&agent, at(1100));
        life.comes(&agent);
        life.ended(&agent);
        life.leaves(&agent, at(1101));
        assert!(life.fallen_silent(at(2000)).is_empty());
        assert!(life.known.lock().unwrap().present.is_empty());
    }
}
