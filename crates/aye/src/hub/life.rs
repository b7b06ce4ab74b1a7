//! Signs of life. An adapter that has not been heard of for a minute makes its agent lost; one that waits at an open
//! connection of this machine is there as long as that is. After a hub start everybody is counted from zero, because
//! the silence may have been ours.
//!
//! Hubs that share a database tell each other of whom they heard, and an agent is lost when none of them has. A hub that has
//! not been able to say and hear that for a minute on end marks nobody as lost.

use crate::store::AgentRow;
use aye_core::AgentId;
use jiff::{SignedDuration, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

pub const SILENCE: SignedDuration = SignedDuration::from_secs(60);

/// Who has not told the others for so long has to begin anew.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(20);

#[derive(Default)]
pub struct Life {
    known: Mutex<LastHeard>,
}

#[derive(Default)]
struct LastHeard {
    heard: HashMap<AgentId, Timestamp>,
    lost: HashSet<AgentId>,
    /// How many connections each waits at whose end would be noticed.
    present: HashMap<AgentId, usize>,
    /// Whether there are other hubs to be told.
    is_shared: bool,
    /// Heard of since they were told.
    unsaid: HashSet<AgentId>,
    /// Since when, and when last, they were told.
    saying: Option<(Timestamp, Timestamp)>,
}

impl Life {
    /// These agents are there at the start.
    pub fn starts(&self, agents: &[AgentRow], is_shared: bool, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_shared = is_shared;
        for agent in agents {
            let id = agent.profile.id.clone();
            if agent.lost {
                known.lost.insert(id);
            } else {
                known.heard.insert(id, now);
            }
        }
    }

    /// Notes a sign of life, and says whether the agent had been lost.
    pub fn heard(&self, agent: &AgentId, now: Timestamp) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.heard.insert(agent.clone(), now);
        if known.is_shared {
            known.unsaid.insert(agent.clone());
        }
        known.lost.remove(agent)
    }

    /// Another hub says so.
    pub fn is_lost(&self, agent: &AgentId, is_lost: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match is_lost {
            true => known.lost.insert(agent.clone()),
            false => known.lost.remove(agent),
        };
    }

    /// The agents of which the other hubs should be told.
    pub fn take_unsaid(&self) -> Vec<AgentId> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut heard = std::mem::take(&mut known.unsaid);
        heard.extend(known.present.keys().cloned());
        heard.into_iter().collect()
    }

    pub fn was_not_said(&self, agents: Vec<AgentId>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).unsaid.extend(agents);
    }

    pub fn was_said(&self, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = known.saying.filter(|(_, last)| now.duration_since(*last) <= LONGEST_PAUSE);
        known.saying = Some((goes_on.map_or(now, |(since, _)| since), now));
    }

    /// Whether the silence of agents that others heard of cannot be ours.
    pub fn can_tell_silence(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.saying.is_some_and(|(since, last)| last.duration_since(since) >= SILENCE)
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
        let (life, agent) = (Life::default(), AgentId::try_from("a").unwrap());
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

    #[test]
    fn who_could_not_tell_the_others_for_a_while_marks_nobody_as_lost_for_a_minute() {
        let (life, agent) = (Life::default(), AgentId::try_from("a").unwrap());
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        life.starts(&[], true, at(0));
        for seconds in [0, 20, 40] {
            life.was_said(at(seconds));
            assert!(!life.can_tell_silence());
        }
        life.was_said(at(60));
        assert!(life.can_tell_silence());
        life.was_said(at(81));
        assert!(!life.can_tell_silence());
        life.heard(&agent, at(81));
        let unsaid = life.take_unsaid();
        assert_eq!(unsaid, [agent]);
        assert!(life.take_unsaid().is_empty());
        life.was_not_said(unsaid);
        assert_eq!(life.take_unsaid().len(), 1);
    }
}
