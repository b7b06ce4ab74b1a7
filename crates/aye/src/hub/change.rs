//! The only place where an ask changes: the step, its audit line and what the surfaces are told,
//! all in one transaction.

use super::Problem;
use crate::store::{StoreError, Tx};
use aye_core::{AgentId, Answer, Ask, AskEvent, Extras, Receipt, State, Step, step};
use jiff::Timestamp;
use serde_json::{Value, json};

pub fn change(tx: &mut Tx, ask: Ask, event: AskEvent, who: &str, now: Timestamp) -> Result<Ask, Problem> {
    let was_open = ask.state.is_open();
    let ask = apply(tx, ask, event, who, now)?;
    if was_open && !ask.state.is_open() && !tx.has_open_asks(&ask.agent)? {
        publish_agent(tx, &ask.agent)?;
    }
    Ok(ask)
}

/// The change alone, for an ask that nobody has seen open: its agent never stopped working.
pub fn apply(tx: &mut Tx, ask: Ask, event: AskEvent, who: &str, now: Timestamp) -> Result<Ask, Problem> {
    let state = match step(&ask.state, ask.deadline, event, now) {
        Ok(Step::Changed(state)) => state,
        Ok(Step::Unchanged) => return Ok(ask),
        Err(refused) => return Err(Problem::Refused { refused, ask: Box::new(ask) }),
    };
    let ends = ask.state.is_open();
    let written = match (ask.state.receipt(), state.delivery()) {
        _ if ends => tx.end_ask(&ask, &state)?,
        (Some(from), Some(to)) => tx.set_receipt(&ask.id, from, to)?,
        (None, _) | (_, None) => false,
    };
    if !written {
        return Err(StoreError::Unreadable(format!("ask {} changed behind the hub's back", ask.id)).into());
    }
    // Delivered, or never to be: nobody needs to know it any more.
    if !ends && ask.body.has_secret() {
        tx.forget_secret(&ask.id)?;
    }
    let ask = Ask { state, extras: if ends { Extras::default() } else { ask.extras }, ..ask };
    tell_change(tx, &ask, ends, who, now)?;
    Ok(ask)
}

/// The line of a change that was written just now, and what the surfaces are told of it.
pub fn tell_change(tx: &mut Tx, ask: &Ask, ends: bool, who: &str, now: Timestamp) -> Result<(), Problem> {
    let (kind, detail) = audit_line(ask, ends);
    tx.audit(now, &kind, who, Some(&ask.agent), Some(&ask.id), detail)?;
    Ok(tx.publish_ask(ask)?)
}

pub fn publish_agent(tx: &mut Tx, agent: &AgentId) -> Result<(), Problem> {
    let row = tx.agent(agent)?.ok_or(Problem::NoSuchAgent)?;
    Ok(tx.publish_agent(row.agent())?)
}

fn audit_line(ask: &Ask, ends: bool) -> (String, Value) {
    if ends {
        let mut detail = json!({
            "digest": ask.digest,
            "answer": ask.state.answer().map(Answer::to_json),
            "by": ask.state.by(),
            "why": match &ask.state {
                State::Expired { why, .. } => json!(why),
                State::Withdrawn { why, .. } => json!(why),
                State::Open | State::Answered { .. } => Value::Null,
            },
        });
        if ask.allowed_by_question() {
            detail["allows"] = true.into();
        }
        (format!("ask.{}", ask.state.name()), detail)
    } else {
        let receipt = ask.state.receipt().unwrap_or(Receipt::Unknown);
        let evidence = ask.state.delivery().and_then(|delivery| delivery.evidence.clone());
        (format!("receipt.{}", receipt.as_str()), json!({ "evidence": evidence }))
    }
}
