//! Signs of life. An adapter that has not been heard of for a minute makes its agent lost; after a
//! hub start everybody is counted from zero, because the silence may have been ours.

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

    /// Those who have just been silent for too long; each is named once.
    pub fn fallen_silent(&self, now: Timestamp) -> Vec<AgentId> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |at: &Timestamp| now.duration_since(*at) >= SILENCE;
        let gone: Vec<_> =
            known.heard.iter().filter(|(_, at)| silent(at)).map(|(id, _)| id.clone()).collect();
        for agent in &gone {
            known.heard.remove(agent);
            known.lost.insert(agent.clone());
        }
        gone
    }
}
