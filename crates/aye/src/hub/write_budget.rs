//! Bounds the bytes that agents make the hub write. Requests are kept for ever, so an agent that raises and withdraws in a
//! loop would fill the disk.

use super::Problem;
use aye_core::AgentId;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const MB: u64 = 1024 * 1024;
/// Bytes for one agent, all of which come back within a day. A long day of work should stay under 100 MB.
const OF_ONE: u64 = 512 * MB;
/// Bytes for all agents together: somebody who can get agent tokens can have any number of agents.
const OF_ALL: u64 = 4096 * MB;
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Agents whose use is remembered one by one. Beyond that, those that used least count only for all together.
const MOST_AGENTS: usize = 10_000;

/// Bytes of a request beside its text, up to its last receipt: its row, its lines in the trail with their evidence, and the
/// changes for surfaces.
pub const REQUEST: u64 = 16 * 1024;
/// Bytes of a change of an agent: its row, a line in the trail, and the change for surfaces.
pub const REGISTRATION: u64 = 4 * 1024;
/// Bytes of a conversation's event beside its text.
pub const EVENT: u64 = 512;

/// Bytes that were written and not given back by time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Used {
    bytes: u64,
    at: Timestamp,
}

impl Used {
    fn none(now: Timestamp) -> Self {
        Self { bytes: 0, at: now }
    }

    /// Gives back a share of the budget for the time that passed.
    fn refresh(&mut self, most: u64, now: Timestamp) {
        let passed = now.duration_since(self.at).as_millis().max(0).unsigned_abs();
        let back = u128::from(most) * passed / DAY.as_millis().unsigned_abs();
        self.bytes = self.bytes.saturating_sub(u64::try_from(back).unwrap_or(u64::MAX));
        self.at = self.at.max(now);
    }

    /// The time until this many bytes fit, if they do not fit now.
    fn wait_for(&self, bytes: u64, most: u64) -> Option<SignedDuration> {
        let missing = self.bytes.saturating_add(bytes).saturating_sub(most).min(self.bytes);
        let millis = u128::from(missing) * DAY.as_millis().unsigned_abs() / u128::from(most.max(1)) + 1;
        (missing > 0).then(|| SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)))
    }
}

struct Budgets {
    all: Option<Used>,
    agents: HashMap<AgentId, Used>,
    /// Refused since something was last taken; said once in the log.
    has_refused: bool,
}

/// The budgets of one agent and of all, and what is used of them. Kept in memory: a hub starts with unused budgets.
pub struct WriteBudget {
    of_one: u64,
    of_all: u64,
    budgets: Mutex<Budgets>,
}

impl Default for WriteBudget {
    fn default() -> Self {
        Self::of(OF_ONE, OF_ALL)
    }
}

impl WriteBudget {
    fn of(of_one: u64, of_all: u64) -> Self {
        let budgets = Budgets { all: None, agents: HashMap::new(), has_refused: false };
        Self { of_one, of_all, budgets: Mutex::new(budgets) }
    }

    /// Takes this many bytes from the budgets of the agent and of all, or none.
    pub fn spend(&self, agent: &AgentId, bytes: u64, now: Timestamp) -> Result<(), Problem> {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let (one, all) = budgets.refreshed(agent, self, now);
        let of_one = one.wait_for(bytes, self.of_one).map(|wait| (wait, "this agent has", self.of_one));
        let of_all =
            all.wait_for(bytes, self.of_all).map(|wait| (wait, "the agents of this hub have", self.of_all));
        let Some((wait, whose, most)) = of_one.into_iter().chain(of_all).max_by_key(|(wait, ..)| *wait)
        else {
            budgets.has_refused = false;
            budgets.take(agent, bytes, (one, all));
            return Ok(());
        };
        let refused = Problem::WroteTooMuch { whose, most, wait };
        if !std::mem::replace(&mut budgets.has_refused, true) {
            tracing::warn!(%agent, %refused, "an agent is refused");
        }
        Err(refused)
    }

    /// Takes them without a check, for writes whose number is bounded by earlier ones.
    pub fn charge(&self, agent: &AgentId, bytes: u64, now: Timestamp) {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let used = budgets.refreshed(agent, self, now);
        budgets.take(agent, bytes, used);
    }
}

impl Budgets {
    fn refreshed(&self, agent: &AgentId, limits: &WriteBudget, now: Timestamp) -> (Used, Used) {
        let mut one = self.agents.get(agent).copied().unwrap_or(Used::none(now));
        let mut all = self.all.unwrap_or(Used::none(now));
        one.refresh(limits.of_one, now);
        all.refresh(limits.of_all, now);
        (one, all)
    }

    fn take(&mut self, agent: &AgentId, bytes: u64, (mut one, mut all): (Used, Used)) {
        one.bytes = one.bytes.saturating_add(bytes);
        all.bytes = all.bytes.saturating_add(bytes);
        self.all = Some(all);
        if self.agents.len() >= MOST_AGENTS && !self.agents.contains_key(agent) {
            let mut used: Vec<_> = self.agents.values().map(|used| used.bytes).collect();
            let (_, half, _) = used.select_nth_unstable(MOST_AGENTS / 2);
            let half = *half;
            self.agents.retain(|_, used| used.bytes > half);
        }
        self.agents.insert(agent.clone(), one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentId {
        AgentId::try_from(name).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn wait(spent: Result<(), Problem>) -> SignedDuration {
        match spent {
            Err(Problem::WroteTooMuch { wait, .. }) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_written_comes_back_within_a_day() {
        let budget = WriteBudget::of(86_400, 1_000_000);
        budget.spend(&agent("a"), 86_400, at(0)).unwrap();
        let refused = wait(budget.spend(&agent("a"), 100, at(0)));
        assert_eq!(refused.as_secs(), 100);
        assert_eq!(wait(budget.spend(&agent("a"), 100, at(90))).as_secs(), 10);
        budget.spend(&agent("a"), 100, at(101)).unwrap();
        wait(budget.spend(&agent("a"), 100, at(101)));
        budget.spend(&agent("a"), 86_400, at(2 * 86_400)).unwrap();
        // A clock that goes back gives nothing.
        wait(budget.spend(&agent("a"), 1, at(0)));
    }

    #[test]
    fn one_agent_leaves_the_others_theirs_and_all_have_an_end() {
        let budget = WriteBudget::of(100, 250);
        for name in ["a", "b"] {
            budget.spend(&agent(name), 100, at(0)).unwrap();
            assert!(budget.spend(&agent(name), 1, at(0)).unwrap_err().to_string().contains("this agent"));
        }
        budget.spend(&agent("c"), 50, at(0)).unwrap();
        let refused = budget.spend(&agent("d"), 1, at(0)).unwrap_err();
        assert!(refused.to_string().contains("the agents of this hub"), "{refused}");
    }

    #[test]
    fn what_is_refused_costs_nothing_and_what_is_charged_counts() {
        let budget = WriteBudget::of(100, 1000);
        wait({
            budget.spend(&agent("a"), 60, at(0)).unwrap();
            budget.spend(&agent("a"), 60, at(0))
        });
        budget.spend(&agent("a"), 40, at(0)).unwrap();
        budget.charge(&agent("b"), 200, at(0));
        wait(budget.spend(&agent("b"), 1, at(0)));
        // More than there is at all is taken once nothing was used.
        budget.spend(&agent("c"), 500, at(0)).unwrap();
        wait(budget.spend(&agent("c"), 1, at(0)));
    }

    #[test]
    fn agents_that_are_too_many_still_count_together() {
        let budget = WriteBudget::of(100, 2 * MOST_AGENTS as u64);
        budget.spend(&agent("much"), 100, at(0)).unwrap();
        for n in 0..2 * MOST_AGENTS - 100 {
            budget.spend(&agent(&format!("a{n}")), 1, at(0)).unwrap();
        }
        assert!(budget.budgets.lock().unwrap().agents.len() <= MOST_AGENTS);
        wait(budget.spend(&agent("much"), 1, at(0)));
        wait(budget.spend(&agent("other"), 1, at(0)));
    }
}
