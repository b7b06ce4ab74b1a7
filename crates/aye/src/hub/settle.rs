//! What adapters do with an ask after raising it: wait for its end, report what became of the
//! outcome, or take the ask back.

use super::change::change;
use super::write_budget::EVENT;
use super::{Hub, Problem, alarms};
use crate::protocol::Resolution;
use crate::store::{Reader, Tx, json_length};
use aye_core::lifecycle::Delivery;
use aye_core::{AgentId, Answer, Ask, AskEvent, AskId, Can, Invalid, Receipt, Refused, Withdrawal};
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

impl Hub {
    /// Waits until the ask has ended, but no longer than `wait`.
    pub async fn resolution(
        &self,
        id: &AskId,
        agent: &AgentId,
        wait: Duration,
    ) -> Result<Option<Resolution>, Problem> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            let mut ended = self.inner.feed.wait_for(id.as_str());
            let ask = self.find_ask(id, Reader::ask_with_secret).await?;
            only_by(agent, &ask)?;
            if let Some(resolution) = Resolution::of(&ask) {
                return Ok(Some(resolution));
            }
            if tokio::time::timeout_at(until, ended.woken()).await.is_err() {
                return Ok(None);
            }
        }
    }

    pub async fn receipt(&self, id: AskId, agent: AgentId, delivery: Delivery) -> Result<Ask, Problem> {
        let now = self.inner.clock.now();
        self.inner.store.write(move |tx| take_receipt(tx, &id, &agent, delivery, now)).await
    }

    /// Changes what the agent can take as an answer to an open ask.
    pub async fn set_can(&self, id: AskId, agent: AgentId, can: Can) -> Result<Ask, Problem> {
        let (now, budget) = (self.inner.clock.now(), self.inner.write_budget.clone());
        let work = move |tx: &mut Tx| {
            let mut ask = own_ask(tx, &id, &agent)?;
            if !ask.state.is_open() {
                return Err(Problem::Refused { refused: Refused::Ended, ask: Box::new(ask) });
            }
            if ask.extras.can != can {
                // All of its row is written again.
                budget.spend(&agent, EVENT + json_length(&ask)?, now)?;
                ask.extras.can = can;
                tx.set_extras(&ask.id, &ask.extras)?;
                tx.publish_ask(&ask)?;
            }
            Ok(ask)
        };
        self.inner.store.write(work).await
    }

    pub async fn withdraw(
        &self,
        id: AskId,
        agent: AgentId,
        why: Withdrawal,
        answer: Option<Value>,
    ) -> Result<Ask, Problem> {
        let now = self.inner.clock.now();
        let length = answer.as_ref().map(json_length).transpose()?;
        let budget = self.inner.write_budget.clone();
        let work = move |tx: &mut Tx| {
            let ask = own_ask(tx, &id, &agent)?;
            let answer = answer.map(|answer| Answer::read(&ask.body, answer)).transpose();
            let answer = answer.map_err(|invalid| invalid.under("answer"))?;
            let answer = answer.map(|answer| tx.seal(&ask, &answer)).transpose()?;
            let is_new = ask.state.is_open();
            let ask = change(tx, ask, AskEvent::Withdraw { why, answer }, agent.as_str(), now)?;
            if let Some(length) = length.filter(|_| is_new) {
                budget.charge(&agent, length, now);
            }
            alarms::note(tx, &ask)?;
            Ok(ask)
        };
        self.inner.store.write(work).await
    }
}

/// A receipt that is refused has written nothing.
pub fn take_receipt(
    tx: &mut Tx,
    id: &AskId,
    agent: &AgentId,
    delivery: Delivery,
    now: Timestamp,
) -> Result<Ask, Problem> {
    let ask = own_ask(tx, id, agent)?;
    let says_from_what = delivery.evidence.as_ref().is_some_and(|evidence| !evidence.trim().is_empty());
    if delivery.receipt == Receipt::Confirmed && !says_from_what {
        return Err(Invalid::new("evidence", "must say what the confirmation was concluded from").into());
    }
    let ask = change(tx, ask, AskEvent::Receipt(delivery), agent.as_str(), now)?;
    alarms::note(tx, &ask)?;
    Ok(ask)
}

/// A secret is not kept for an agent that nobody hears of any more.
pub fn give_up_secrets(tx: &mut Tx, agent: &AgentId, now: Timestamp) -> Result<(), Problem> {
    for id in tx.undelivered_asks_of(agent)? {
        let Some(ask) = tx.ask(&id)?.filter(|ask| ask.body.has_secret()) else { continue };
        let evidence = Some("the agent was silent, and the secret was not kept for it".into());
        let undelivered = Delivery { receipt: Receipt::Undelivered, evidence };
        change(tx, ask, AskEvent::Receipt(undelivered), "hub", now)?;
    }
    Ok(())
}

fn own_ask(tx: &Tx, id: &AskId, agent: &AgentId) -> Result<Ask, Problem> {
    let ask = tx.ask(id)?.ok_or(Problem::NoSuchAsk)?;
    only_by(agent, &ask)?;
    Ok(ask)
}

fn only_by(agent: &AgentId, ask: &Ask) -> Result<(), Problem> {
    match ask.agent == *agent {
        true => Ok(()),
        false => Err(Problem::NotAllowed("only the agent that raised this ask may do that")),
    }
}
