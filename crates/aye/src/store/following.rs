//! Hubs that share a server. Each of their groups of changes has a number, and one comes after the other. Whoever reads or
//! writes and finds that there were groups of others first learns what they changed: the lines of the trail, which only a
//! holder of its key can have written, and the rows in force. Then everybody here is told of their changes, in order.

use super::ask_names::AskNames;
use super::head::Head;
use super::live_rows::LiveRows;
use super::outbox::{Change, Missed};
use super::{Reader, StoreError, audit};
use aye_core::AgentId;
use aye_core::trail::ChainKey;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Beyond this many changes, followers read from the store instead of getting each one.
const MOST_TOLD: u64 = 1_000;

/// What the hub knows of its database by itself, shared by all of its connections.
pub struct Shared {
    pub key: ChainKey,
    pub head: Head,
    pub live_rows: LiveRows,
    pub names: AskNames,
    pub following: Following,
}

/// What a hub is told of its database.
pub enum News {
    /// It committed these changes, and so many callers shared that.
    Own {
        changes: Vec<Change>,
        group: usize,
    },
    Others(FromOthers),
}

/// What other hubs did.
#[derive(Default)]
pub struct FromOthers {
    pub changes: Vec<Change>,
    /// There were changes that are not named here.
    pub is_cut: bool,
    /// Agents that were sent commands.
    pub commanded: HashSet<AgentId>,
    /// Tokens that count no longer.
    pub ended_tokens: Vec<String>,
}

pub type Tell = Box<dyn Fn(News) + Send>;

/// How far this hub knows what was committed.
pub struct Following {
    telling: Mutex<Telling>,
    /// The last group whose changes are known.
    learned: AtomicU64,
    /// The last group of which everybody was told.
    told: AtomicU64,
}

/// Held from the beginning of a group to its end, and while the groups of others are learned of: so there is one order.
pub struct Telling {
    /// The last change that everybody was told of.
    seq: u64,
    tell: Tell,
}

impl Following {
    pub fn new(group: u64, seq: u64, tell: Tell) -> Self {
        let telling = Mutex::new(Telling { seq, tell });
        Self { telling, learned: AtomicU64::new(group), told: AtomicU64::new(group) }
    }

    pub fn lock(&self) -> MutexGuard<'_, Telling> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None while somebody else tells of changes.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Telling>> {
        match self.telling.try_lock() {
            Ok(telling) => Some(telling),
            Err(TryLockError::Poisoned(telling)) => Some(telling.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub fn learned(&self) -> u64 {
        self.learned.load(Ordering::Acquire)
    }

    /// True if changes up to this group still have to be applied or published.
    pub fn is_behind(&self, group: u64) -> bool {
        self.told.load(Ordering::Acquire) < group
    }

    /// Applies and publishes every group up to this one. The reader sees the database after it.
    pub fn follow(&self, reader: &Reader, shared: &Shared, group: u64) -> Result<(), StoreError> {
        let mut telling = self.lock();
        self.learn(reader, shared, &telling, group)?;
        if self.is_behind(group) {
            let last = reader.last_seq()?;
            self.tell_of_others(reader, &mut telling, last)?;
            self.told.fetch_max(group, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Applies every group up to this one. A writer does this when it begins a group, and publishes after its commit, when nobody
    /// waits for the lock.
    pub fn learn(
        &self,
        reader: &Reader,
        shared: &Shared,
        telling: &Telling,
        group: u64,
    ) -> Result<(), StoreError> {
        let from = self.learned();
        if group <= from {
            return Ok(());
        }
        let mut others = FromOthers::default();
        let mut agents = HashSet::new();
        let chain = audit::go_on_from(&reader.connection, &shared.head.newest(), &shared.key, |line| {
            let Some(agent) = line.agent.and_then(|agent| AgentId::try_from(agent).ok()) else { return };
            if line.kind == "agent.command" {
                others.commanded.insert(agent.clone());
            }
            agents.insert(agent);
        })?;
        others.ended_tokens = shared.live_rows.follow(&reader.connection, from, &chain)?;
        shared.names.others_wrote(&agents);
        shared.head.advance(&chain);
        self.learned.store(group, Ordering::Release);
        if !(others.commanded.is_empty() && others.ended_tokens.is_empty()) {
            (telling.tell)(News::Others(others));
        }
        Ok(())
    }

    fn tell_of_others(&self, reader: &Reader, telling: &mut Telling, last: u64) -> Result<(), StoreError> {
        while telling.seq < last {
            let missed = match last - telling.seq <= MOST_TOLD {
                true => reader.missed(telling.seq, last)?,
                false => Missed::Unknown,
            };
            match missed {
                Missed::Known { changes, through } => {
                    telling.seq = through;
                    (telling.tell)(News::Others(FromOthers { changes, ..FromOthers::default() }));
                }
                Missed::Unknown => telling.skip_to(last),
            }
        }
        Ok(())
    }

    /// The group of this hub is committed. What others changed before is told first.
    pub fn committed(
        &self,
        reader: &Reader,
        telling: &mut Telling,
        group: Option<u64>,
        (changes, callers): (Vec<Change>, usize),
    ) {
        if let Some(group) = group {
            self.learned.store(group, Ordering::Release);
            let first = changes.first().map(|change| change.seq);
            if self.is_behind(group - 1) {
                // Somebody else is woken by this group, and tells of it.
                let Some(first) = first else { return (telling.tell)(News::Own { changes, group: callers }) };
                if let Err(error) = self.tell_of_others(reader, telling, first - 1) {
                    tracing::warn!(%error, "the changes of other hubs could not be read; followers read them themselves");
                    telling.skip_to(first - 1);
                }
            }
            self.told.fetch_max(group, Ordering::AcqRel);
        }
        if let Some(last) = changes.last() {
            telling.seq = last.seq;
        }
        (telling.tell)(News::Own { changes, group: callers });
    }
}

impl Telling {
    /// Everybody finds out for themselves what was changed up to this number.
    fn skip_to(&mut self, seq: u64) {
        self.seq = seq;
        (self.tell)(News::Others(FromOthers { is_cut: true, ..FromOthers::default() }));
    }
}
