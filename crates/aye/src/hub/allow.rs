//! What a rule allows is answered before it is written. The agent that asks would otherwise wait for the disk
//! on every call it is free to make anyway; the record follows at once, on the way that all changes take.

use super::change::apply;
use super::claims::Claim;
use super::decide::{ByRule, PolicyReading};
use super::raise::{Raise, enter, mark_working};
use super::{Hub, Problem, Voucher};
use crate::store::{AgentRow, Tx};
use aye_core::{Ask, AskId, Proof, Report, Step, step};
use jiff::Timestamp;

/// An ask that the policy allows, and how it is to be recorded.
pub struct Allowed {
    open: Ask,
    answer: ByRule,
    ended: Ask,
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
        if agent.report == Report::Ended {
            return None;
        }
        let answer = reading.allows(&raise.body)?;
        let open = raise.clone().open(id.clone(), agent, reading, Proof::None, now);
        match step(&open.state, open.deadline, answer.event.clone(), now) {
            Ok(Step::Changed(state)) => {
                Some(Self { ended: Ask { state, ..open.clone() }, open, answer, now })
            }
            Ok(Step::Unchanged) | Err(_) => None,
        }
    }
}

impl Hub {
    /// The answered ask, once its record is on its way, and what the agent needs to have it recorded
    /// should that fail. Returns the claim if the writer is busy or failing; the caller then waits for the commit.
    pub(super) fn record_later(&self, allowed: Allowed, claim: Claim) -> Result<(Ask, Voucher), Claim> {
        let Some(place) = self.inner.store.place() else { return Err(claim) };
        let Allowed { open, answer, ended, now } = allowed;
        let meters = self.inner.meters.clone();
        let id = open.id.clone();
        let voucher = Voucher::of(&open, &answer.rule, self.inner.store.key());
        let told = move |recorded: Result<Ask, Problem>| {
            match recorded {
                Ok(ask) => meters.raised(&ask, None),
                Err(error) => {
                    tracing::error!(ask = %id, %error, "what a rule allowed could not be recorded");
                    meters.unrecorded();
                }
            }
            drop(claim);
        };
        place.write(move |tx: &mut Tx| record(tx, open, answer, now), told);
        Ok((ended, voucher))
    }
}

/// The same as if it had been waited for, of the agent as it was when it asked.
fn record(tx: &mut Tx, open: Ask, answer: ByRule, now: Timestamp) -> Result<Ask, Problem> {
    let agent = tx.agent(&open.agent)?.ok_or(Problem::NoSuchAgent)?;
    mark_working(tx, &agent)?;
    enter(tx, &open, now)?;
    apply(tx, open, answer.event, &answer.who, now)
}
