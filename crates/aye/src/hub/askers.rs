//! What is known of the agents that ask again and again, so that the next ask of one needs no look at the store: the
//! agent as it stands, and the keys it has used.

use crate::store::AgentRow;
use aye_core::{AgentId, Key};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of an agent that has asked more often before the hub was started, the store is asked about every key.
pub const MOST_READ: u32 = 2_000;
/// Of all agents together; beyond that, the store is asked as well.
const MOST_KEYS: usize = 500_000;
/// Beyond that, all are read from the store again.
const MOST_AGENTS: usize = 5_000;

#[derive(Default)]
pub struct Askers {
    known: Mutex<Known>,
    hasher: RandomState,
}

#[derive(Default)]
struct Known {
    agents: HashMap<AgentId, (u64, AgentRow)>,
    keys: HashMap<AgentId, Keys>,
    count: usize,
}

/// Hashes of all keys used: those raised since the hub was started, and once they were read, the earlier ones. A false
/// positive costs one lookup; there are no false negatives.
#[derive(Default)]
struct Keys {
    used: HashSet<u64>,
    are_all: bool,
    are_too_many: bool,
}

/// Whether a key can have been used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    New,
    Possible,
    /// The keys from before the start have still to be read.
    Unread,
}

impl Askers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the key before the store is asked about it or given it, so that whatever is read later is complete with it.
    pub fn uses(&self, agent: &AgentId, key: &Key) -> Use {
        let hash = self.hasher.hash_one(key);
        let mut known = self.known();
        let is_full = known.count >= MOST_KEYS;
        let keys = match known.keys.get_mut(agent) {
            Some(keys) => keys,
            None => known.keys.entry(agent.clone()).or_default(),
        };
        if is_full && !keys.are_too_many {
            let dropped = std::mem::take(&mut keys.used).len();
            keys.are_too_many = true;
            known.count -= dropped;
            return Use::Possible;
        }
        match (keys.are_too_many, keys.are_all) {
            (true, _) => Use::Possible,
            (false, are_all) => {
                let is_new = keys.used.insert(hash);
                known.count += usize::from(is_new);
                match (is_new, are_all) {
                    (false, _) => Use::Possible,
                    (true, true) => Use::New,
                    (true, false) => Use::Unread,
                }
            }
        }
    }

    /// These were used before the start; none if they are too many to be held.
    pub fn has_used(&self, agent: &AgentId, before: Option<Vec<Key>>) {
        let hashes = before.map(|keys| keys.iter().map(|key| self.hasher.hash_one(key)).collect::<Vec<_>>());
        let mut known = self.known();
        let keys = known.keys.entry(agent.clone()).or_default();
        let was = keys.used.len();
        match hashes {
            Some(hashes) if !keys.are_too_many => {
                keys.used.extend(hashes);
                keys.are_all = true;
            }
            Some(_) | None => {
                keys.used = HashSet::new();
                keys.are_too_many = true;
            }
        }
        let is = keys.used.len();
        known.count = known.count + is - was;
    }

    /// The agent, if it has not changed since it was read.
    pub fn agent(&self, agent: &AgentId, version: u64) -> Option<AgentRow> {
        let known = self.known();
        known.agents.get(agent).filter(|(read, _)| *read == version).map(|(_, row)| row.clone())
    }

    /// As it was read after the store had this version of it.
    pub fn is(&self, version: u64, row: AgentRow) {
        let mut known = self.known();
        if known.agents.len() >= MOST_AGENTS {
            known.agents.clear();
        }
        known.agents.insert(row.profile.id.clone(), (version, row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn agent() -> AgentId {
        AgentId::try_from("a").unwrap()
    }

    fn key(name: impl ToString) -> Key {
        Key::try_from(name.to_string()).unwrap()
    }

    #[test]
    fn a_key_is_new_only_once_all_that_were_used_are_known() {
        let askers = Askers::default();
        assert_eq!(askers.uses(&agent(), &key("1")), Use::Unread);
        // Raised while the others are being read.
        assert_eq!(askers.uses(&agent(), &key("2")), Use::Unread);
        askers.has_used(&agent(), Some(vec![key("0"), key("1")]));
        for used in 0..=2 {
            assert_eq!(askers.uses(&agent(), &key(used)), Use::Possible, "{used}");
        }
        assert_eq!(askers.uses(&agent(), &key("3")), Use::New);
        assert_eq!(askers.uses(&agent(), &key("3")), Use::Possible);
    }

    #[test]
    fn of_too_many_keys_none_is_new() {
        let askers = Askers::default();
        askers.has_used(&agent(), None);
        assert_eq!(askers.uses(&agent(), &key("1")), Use::Possible);
        let other = AgentId::try_from("b").unwrap();
        askers.has_used(&other, Some(Vec::new()));
        askers.known().count = MOST_KEYS;
        assert_eq!(askers.uses(&other, &key("1")), Use::Possible);
        askers.has_used(&other, Some(Vec::new()));
        assert_eq!(askers.uses(&other, &key("2")), Use::Possible);
    }

    #[test]
    fn an_agent_is_known_as_long_as_it_does_not_change() {
        let askers = Askers::default();
        let row = AgentRow::unannounced(agent(), Timestamp::UNIX_EPOCH);
        askers.is(1, row.clone());
        assert_eq!(askers.agent(&agent(), 1), Some(row.clone()));
        assert_eq!(askers.agent(&agent(), 2), None);
        let other = AgentId::try_from("b").unwrap();
        assert_eq!(askers.agent(&other, 1), None);
        askers.is(2, AgentRow::unannounced(other, Timestamp::UNIX_EPOCH));
        assert_eq!(askers.agent(&agent(), 1), Some(row), "another that is read takes nothing away");
    }

    #[test]
    fn no_more_agents_are_held_than_fit() {
        let askers = Askers::default();
        for n in 0..=MOST_AGENTS {
            let id = AgentId::try_from(format!("a{n}")).unwrap();
            askers.is(1, AgentRow::unannounced(id, Timestamp::UNIX_EPOCH));
            assert!(askers.known().agents.len() <= MOST_AGENTS);
        }
        let last = AgentId::try_from(format!("a{MOST_AGENTS}")).unwrap();
        assert!(askers.agent(&last, 1).is_some());
    }
}
