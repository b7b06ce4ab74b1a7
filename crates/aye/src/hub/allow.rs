//! What a rule allows is answered before it is written. The agent that asks would otherwise wait for the disk
//! on every call it is free to make anyway; the record follows at once, on the way that all changes take.

use super::change::tell_change;
use super::claims::Claim;
use super::decide::{ByRule, PolicyReading};
use super::raise::{Raise, enter, mark_working};
use super::write_budget::REQUEST;
use super::{Hub, Problem, Voucher};
use crate::store::{AgentRow, Tx, json_length};
use aye_core::{Ask, AskId, Proof, ReportedState, Step, step};
use jiff::Timestamp;

/// An ask that the policy allows, and how it is to be recorded.
pub struct Allowed {
    /// As it ended in the moment it was asked.
    ask: Ask,
    rule: String,
    who: String,
    now: Timestamp,
}

impl Allowed {
    /// None for what has to be looked at again within the transaction: grants, and agents that are new or ended.
    pub fn of(
        raise: &Raise,
        id: &AskId,
        agent: &AgentRow,
        reading: &PolicyReading,
        now: Timestamp,
    ) -> Option<Self> {
        if agent.report == ReportedState::Ended {
            return None;
        }
        let ByRule { rule, event, who } = reading.allows(&raise.body)?;
        let open = raise.clone().open(id.clone(), agent, reading, Proof::None, now);
        match step(&open.state, open.deadline, event, now) {
            Ok(Step::Changed(state)) => Some(Self { ask: Ask { state, ..open }, rule, who, now }),
            Ok(Step::Unchanged) | Err(_) => None,
        }
    }
}

/// The outcome of answering an allowed ask before it is written.
pub enum Early {
    /// With what the agent needs to have it recorded should that fail.
    Allowed(Box<Ask>, Voucher),
    /// The writer is busy or failing, and the caller waits for the commit.
    Waits(Claim),
}

impl Hub {
    /// Answers an ask once its record is on its way.
    pub(super) fn record_later(&self, allowed: Allowed, claim: Claim) -> Result<Early, Problem> {
        let Some(slot) = self.inner.store.queue_slot() else { return Ok(Early::Waits(claim)) };
        let Allowed { ask, rule, who, now } = allowed;
        let length = json_length(&ask.body.to_json())?;
        self.inner.write_budget.spend(&ask.agent, REQUEST + length, now)?;
        let meters = self.inner.meters.clone();
        let (id, recorded) = (ask.id.clone(), ask.clone());
        let voucher = Voucher::of(&ask, &rule, self.inner.store.key());
        let told = move |result: Result<Ask, Problem>| {
            match result {
                Ok(ask) => meters.raised(&ask, None),
                Err(error) => {
                    tracing::error!(ask = %id, %error, "what a rule allowed could not be recorded");
                    meters.unrecorded();
                }
            }
            drop(claim);
        };
        slot.write(move |tx: &mut Tx| record(tx, recorded, &who, now), told);
        Ok(Early::Allowed(Box::new(ask), voucher))
    }
}

/// The same lines as if it had been waited for, of the agent as it was when it asked.
fn record(tx: &mut Tx, ask: Ask, who: &str, now: Timestamp) -> Result<Ask, Problem> {
    if tx.has_ended(&ask.agent)?.ok_or(Problem::NoSuchAgent)? {
        let agent = tx.agent(&ask.agent)?.ok_or(Problem::NoSuchAgent)?;
        mark_working(tx, &agent)?;
    }
    enter(tx, &ask, now)?;
    tell_change(tx, &ask, true, who, now)?;
    Ok(ask)
}
