//! The states of an ask, from open to its one end, and of the outcome on its way to the agent. `step` is the only way to
//! change an ask.

use crate::answer::Answer;
use crate::bounded::Evidence;
use crate::ids::AnswerKey;
use crate::who::By;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of an ask. All but `Open` are final.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Open,
    Answered {
        answer: Answer,
        by: By,
        /// The sender's idempotency key, so that a repeated call is recognised.
        key: Option<AnswerKey>,
        at: Timestamp,
        delivery: Delivery,
    },
    Expired {
        why: Expiry,
        at: Timestamp,
        delivery: Delivery,
    },
    Withdrawn {
        why: Withdrawal,
        /// What was answered in the agent's own terminal, if known.
        answer: Option<Answer>,
        at: Timestamp,
    },
}

/// The name of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskState {
    Open,
    Answered,
    Expired,
    Withdrawn,
}

impl From<&State> for AskState {
    fn from(state: &State) -> Self {
        match state {
            State::Open => AskState::Open,
            State::Answered { .. } => AskState::Answered,
            State::Expired { .. } => AskState::Expired,
            State::Withdrawn { .. } => AskState::Withdrawn,
        }
    }
}

impl AskState {
    pub fn as_str(self) -> &'static str {
        match self {
            AskState::Open => "open",
            AskState::Answered => "answered",
            AskState::Expired => "expired",
            AskState::Withdrawn => "withdrawn",
        }
    }
}

/// What is known about the delivery of an outcome, and on what evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    pub receipt: Receipt,
    /// What it was concluded from.
    pub evidence: Option<Evidence>,
}

impl Delivery {
    fn pending() -> Self {
        Self { receipt: Receipt::Pending, evidence: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    Pending,
    /// Written to the agent.
    Delivered,
    /// The agent shows that it took it: in its transcript, or in what it reports where it has none.
    Confirmed,
    /// The agent shows something else: an alarm.
    Disputed,
    /// The agent's terminal was first after all.
    Superseded,
    /// It did not get to the agent.
    Undelivered,
    /// The adapter died between writing and reporting, or keys were typed and no transcript came.
    Unknown,
}

impl Receipt {
    pub fn as_str(self) -> &'static str {
        match self {
            Receipt::Pending => "pending",
            Receipt::Delivered => "delivered",
            Receipt::Confirmed => "confirmed",
            Receipt::Disputed => "disputed",
            Receipt::Superseded => "superseded",
            Receipt::Undelivered => "undelivered",
            Receipt::Unknown => "unknown",
        }
    }

    /// A receipt only becomes more certain: what is settled stays, and `unknown` may still be resolved by the transcript.
    /// An outcome that did not get there is disputed as well once it is known that the agent went by another.
    fn may_become(self, next: Receipt) -> bool {
        use Receipt::{Confirmed, Delivered, Disputed, Pending, Superseded, Undelivered, Unknown};
        match (self, next) {
            (Pending, Delivered | Confirmed | Disputed | Superseded | Undelivered | Unknown)
            | (Delivered, Confirmed | Disputed | Superseded | Unknown)
            | (Unknown, Delivered | Confirmed | Disputed | Superseded | Undelivered)
            | (Undelivered, Disputed) => true,
            (Pending | Delivered | Unknown, Pending)
            | (Delivered, Delivered | Undelivered)
            | (Unknown, Unknown)
            | (Confirmed | Disputed | Superseded, _)
            | (Undelivered, Pending | Delivered | Confirmed | Superseded | Undelivered | Unknown) => false,
        }
    }
}

/// Why an ask expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    Deadline,
    /// Nobody was connected who could have answered.
    Unattended,
}

/// Why an ask was withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawal {
    Terminal,
    Cancelled,
    Gone,
    /// The agent reported that it went ahead, without proof that it was allowed to.
    Reported,
    /// Somebody answered it who is neither a person here nor the agent's own terminal: an alarm.
    SomebodyElse,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AskEvent {
    Answer { answer: Answer, by: By, key: Option<AnswerKey> },
    Expire(Expiry),
    Withdraw { why: Withdrawal, answer: Option<Answer> },
    Receipt(Delivery),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Changed(State),
    /// A repetition of an earlier event, which is not an error.
    Unchanged,
}

/// An event that is not allowed in this state. The ask is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("this ask has already ended")]
    Ended,
    #[error("nobody answered in time")]
    Expired,
    #[error("the deadline of this ask has not come yet")]
    NotDue,
    #[error("nothing went to the agent, so there is nothing to acknowledge")]
    NothingSent,
    #[error("the receipt is {} and cannot become {}", .from.as_str(), .to.as_str())]
    Receipt { from: Receipt, to: Receipt },
}

/// The only function that changes an ask. An answer at or after the deadline is too late, even if the timer has not fired
/// yet.
pub fn step(
    state: &State,
    deadline: Option<Timestamp>,
    event: AskEvent,
    now: Timestamp,
) -> Result<Step, Refused> {
    let due = deadline.is_some_and(|deadline| now >= deadline);
    match (state, event) {
        (State::Open, AskEvent::Answer { .. }) if due => Err(Refused::Expired),
        (State::Open, AskEvent::Answer { answer, by, key }) => {
            Ok(Step::Changed(State::Answered { answer, by, key, at: now, delivery: Delivery::pending() }))
        }
        (State::Open, AskEvent::Expire(Expiry::Deadline)) if !due => Err(Refused::NotDue),
        (State::Open, AskEvent::Expire(why)) => {
            Ok(Step::Changed(State::Expired { why, at: now, delivery: Delivery::pending() }))
        }
        (State::Open, AskEvent::Withdraw { why, answer }) => {
            Ok(Step::Changed(State::Withdrawn { why, answer, at: now }))
        }
        (State::Open | State::Withdrawn { .. }, AskEvent::Receipt(_)) => Err(Refused::NothingSent),

        (
            State::Answered { answer, key: Some(key), .. },
            AskEvent::Answer { answer: again, key: Some(same), .. },
        ) if *key == same && *answer == again => Ok(Step::Unchanged),
        (State::Withdrawn { why, .. }, AskEvent::Withdraw { why: same, .. }) if *why == same => {
            Ok(Step::Unchanged)
        }
        (State::Expired { .. }, AskEvent::Expire(_)) => Ok(Step::Unchanged),
        (State::Expired { .. }, AskEvent::Answer { .. }) => Err(Refused::Expired),

        (State::Answered { answer, by, key, at, delivery }, AskEvent::Receipt(next)) => {
            deliver(delivery, next).map(|change| match change {
                None => Step::Unchanged,
                Some(delivery) => Step::Changed(State::Answered {
                    answer: answer.clone(),
                    by: by.clone(),
                    key: key.clone(),
                    at: *at,
                    delivery,
                }),
            })
        }
        (State::Expired { why, at, delivery }, AskEvent::Receipt(next)) => {
            deliver(delivery, next).map(|change| match change {
                None => Step::Unchanged,
                Some(delivery) => Step::Changed(State::Expired { why: *why, at: *at, delivery }),
            })
        }

        (State::Answered { .. } | State::Withdrawn { .. }, AskEvent::Answer { .. } | AskEvent::Expire(_))
        | (
            State::Answered { .. } | State::Expired { .. } | State::Withdrawn { .. },
            AskEvent::Withdraw { .. },
        ) => Err(Refused::Ended),
    }
}

fn deliver(current: &Delivery, next: Delivery) -> Result<Option<Delivery>, Refused> {
    if current.receipt == next.receipt {
        Ok(None)
    } else if current.receipt.may_become(next.receipt) {
        Ok(Some(next))
    } else {
        Err(Refused::Receipt { from: current.receipt, to: next.receipt })
    }
}

impl State {
    pub fn name(&self) -> &'static str {
        AskState::from(self).as_str()
    }

    pub fn is_open(&self) -> bool {
        matches!(self, State::Open)
    }

    pub fn receipt(&self) -> Option<Receipt> {
        self.delivery().map(|delivery| delivery.receipt)
    }

    pub fn delivery(&self) -> Option<&Delivery> {
        match self {
            State::Answered { delivery, .. } | State::Expired { delivery, .. } => Some(delivery),
            State::Open | State::Withdrawn { .. } => None,
        }
    }

    pub fn answer(&self) -> Option<&Answer> {
        match self {
            State::Answered { answer, .. } => Some(answer),
            State::Withdrawn { answer, .. } => answer.as_ref(),
            State::Open | State::Expired { .. } => None,
        }
    }

    pub fn by(&self) -> Option<&By> {
        match self {
            State::Answered { by, .. } => Some(by),
            State::Open | State::Expired { .. } | State::Withdrawn { .. } => None,
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self {
            State::Open => None,
            State::Answered { at, .. } | State::Expired { at, .. } | State::Withdrawn { at, .. } => Some(*at),
        }
    }

    /// A note for people about how it ended.
    pub fn note(&self) -> Option<&str> {
        let evidence = self.delivery().and_then(|delivery| delivery.evidence.as_deref());
        evidence.or(self.why_unanswered())
    }

    /// Why it ended without an answer.
    pub fn why_unanswered(&self) -> Option<&'static str> {
        match self {
            State::Open | State::Answered { .. } => None,
            State::Expired { why: Expiry::Deadline, .. } => Some("nobody answered in time"),
            State::Expired { why: Expiry::Unattended, .. } => Some("nobody was there to answer"),
            State::Withdrawn { why: Withdrawal::Terminal, .. } => {
                Some("answered in the agent's own terminal")
            }
            State::Withdrawn { why: Withdrawal::Cancelled, .. } => Some("cancelled by the agent"),
            State::Withdrawn { why: Withdrawal::Gone, .. } => Some("the agent is gone"),
            State::Withdrawn { why: Withdrawal::Reported, .. } => {
                Some("reported by the agent: it says that it ran this, and nothing shows that it was allowed")
            }
            State::Withdrawn { why: Withdrawal::SomebodyElse, .. } => {
                Some("somebody else answered this, and nothing shows that it was allowed")
            }
        }
    }
}

#[cfg(test)]
mod tests;
