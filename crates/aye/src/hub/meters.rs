//! Figures for whoever watches the hub from outside: how much there is, from the store, and what
//! happened since the start, counted here. A counter that begins at zero with the process is what
//! Prometheus expects.

use super::{Hub, Problem};
use crate::store::{AskCount, DatabaseRefused, Reader, StoreError};
use aye_core::{AgentState, Ask, By, Decision, Kind, State};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// From a second to a day.
const SECONDS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 43200.0, 86400.0];
const GROUPS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Rules come and go with the file, and several may decide together: names beyond these share one.
const MOST_RULES: usize = 500;

#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub bounds: &'static [f64],
    /// How many fell under each bound and over the one before; the last is beyond them all.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.sum += value;
    }
}

/// What happened since the hub started.
#[derive(Debug, Clone)]
pub struct Counted {
    /// From raise to a person's answer, by the kind of ask.
    pub time_to_answer: Vec<(Kind, Histogram)>,
    /// By the rule's name and what it decided: `allow`, `deny` or `ask`.
    pub decisions: BTreeMap<(String, &'static str), u64>,
    pub commit_groups: Histogram,
    /// What rules allowed and could not be recorded.
    pub unrecorded: u64,
}

pub struct Figures {
    /// None while the database is away.
    pub kept: Option<StoredFigures>,
    /// None if the database is a file.
    pub server: Option<ServerFigures>,
    /// Operators and viewers.
    pub connected: (u32, u32),
    pub counted: Counted,
}

/// How much there is.
pub struct StoredFigures {
    pub asks: Vec<AskCount>,
    pub agents: Vec<(AgentState, u64)>,
}

/// How it goes with the server of the database.
pub struct ServerFigures {
    pub is_there: bool,
    /// How often it was lost.
    pub losses: u64,
    /// Commits of other hubs that this one has not learned of yet.
    pub behind: u64,
}

pub struct Meters {
    counted: Mutex<Counted>,
}

impl Default for Meters {
    fn default() -> Self {
        let kinds = [Kind::Question, Kind::Permission, Kind::Plan];
        let counted = Counted {
            time_to_answer: kinds.map(|kind| (kind, Histogram::new(SECONDS))).into(),
            decisions: BTreeMap::new(),
            commit_groups: Histogram::new(GROUPS),
            unrecorded: 0,
        };
        Self { counted: Mutex::new(counted) }
    }
}

impl Meters {
    pub fn commit(&self, group: usize) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        // No group is so large that a float would not hold its size.
        counted.commit_groups.observe(group as f64);
    }

    /// Counts the time a person took to answer.
    pub fn answered(&self, ask: &Ask) {
        let Some(at) = ask.state.ended_at() else { return };
        let seconds = at.duration_since(ask.created_at).as_secs_f64();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let meter = counted.time_to_answer.iter_mut().find(|(kind, _)| *kind == ask.body.kind());
        meter.into_iter().for_each(|(_, meter)| meter.observe(seconds));
    }

    /// Counts what was decided of a new ask without a person; `asking` is the rule that wants one asked.
    pub fn raised(&self, ask: &Ask, asking: Option<String>) {
        let (rule, verdict) = match (&ask.state, asking) {
            (State::Answered { by: By::Rule { rule }, answer, .. }, _) => {
                (family(rule.as_str()), if answer.decision() == Decision::Allow { "allow" } else { "deny" })
            }
            (_, Some(rule)) => (rule, "ask"),
            (_, None) => return,
        };
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (rule, verdict);
        let room = counted.decisions.len() < MOST_RULES || counted.decisions.contains_key(&key);
        let key = if room { key } else { ("others".to_owned(), verdict) };
        *counted.decisions.entry(key).or_insert(0) += 1;
    }

    /// Counts an answer by a rule that left no trace in the trail.
    pub fn unrecorded(&self) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).unrecorded += 1;
    }

    pub fn counted(&self) -> Counted {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// There are as many grants, and as many people who approve in advance, as anybody likes.
fn family(rule: &str) -> String {
    let families = ["grant", "approved in advance"];
    let of = |family: &&str| rule.strip_prefix(*family).is_some_and(|rest| rest.starts_with(' '));
    families.into_iter().find(of).unwrap_or(rule).to_owned()
}

impl Hub {
    pub async fn figures(&self) -> Result<Figures, Problem> {
        let read = |db: &Reader| Ok(StoredFigures { asks: db.ask_counts()?, agents: db.agent_counts()? });
        let kept = match self.inner.store.read(read).await {
            // Whoever watches the hub must be able to see that.
            Err(StoreError::Away(_)) => None,
            kept => Some(kept?),
        };
        let losses = self.inner.store.losses();
        let server = losses.map(|losses| {
            let is_there = self.away().is_none() && self.database_refused().is_none();
            let behind = self.inner.store.behind();
            ServerFigures { is_there, losses, behind }
        });
        let connected = self.inner.attendance.connected();
        Ok(Figures { kept, server, connected, counted: self.inner.meters.counted() })
    }

    /// Why the database is neither read nor written although it is there, if so.
    pub fn database_refused(&self) -> Option<DatabaseRefused> {
        self.inner.store.refused()
    }

    /// Why the database cannot be used right now, if so.
    pub fn away(&self) -> Option<String> {
        self.inner.store.away()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_falls_under_it() {
        let mut histogram = Histogram::new(&[1.0, 10.0]);
        [0.0, 1.0, 1.5, 10.0, 11.0].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.counts, [2, 2, 1]);
        assert_eq!(histogram.sum, 23.5);
    }

    #[test]
    fn grants_are_counted_together_and_rules_by_name() {
        assert_eq!(family("grant k3f9"), "grant");
        assert_eq!(family("approved in advance by ann"), "approved in advance");
        assert_eq!(family("rule 1 (grant x)"), "rule 1 (grant x)");
        assert_eq!(family("auto_approve"), "auto_approve");
    }
}
