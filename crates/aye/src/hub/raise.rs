use super::change::publish_agent;
use super::decide::{Lookup, Reading, decide};
use super::{Hub, Problem};
use crate::store::{self, AgentRow, NewAsk, Tx};
use aye_core::{AgentId, Ask, AskId, Body, Digest, Key, Report};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// An ask as an adapter raises it.
#[derive(Debug, Clone)]
pub struct Raise {
    pub key: Key,
    pub agent: AgentId,
    pub body: Body,
    pub timeout: Option<SignedDuration>,
    pub tool_use_id: Option<String>,
    pub sub_agent: Option<String>,
}

#[derive(Debug)]
pub struct Raised {
    pub ask: Ask,
    pub new: bool,
}

impl Hub {
    /// Raising the same key again returns the same ask, whatever became of it meanwhile.
    pub async fn raise(&self, raise: Raise) -> Result<Raised, Problem> {
        let now = self.inner.clock.now();
        let id =
            AskId::from_random(getrandom::u64().map_err(|_| Problem::Conflict("no randomness to be had"))?);
        self.heard(&raise.agent).await?;
        let timeout = raise.timeout.or_else(|| self.policy().timeout.of(raise.body.kind()));
        let raise = Raise { timeout, ..raise };
        let lookup = Lookup { policy: self.policy(), places: self.inner.policy.places() };
        let (raise, read) = match lookup.is_quick(&raise.body) {
            true => (raise, None),
            false => self.read_policy(raise, lookup.clone()).await?,
        };
        let work = move |tx: &mut Tx| record(tx, raise, id, &lookup, read, now);
        let (raised, asking) = self.inner.store.write(work).await?;
        if raised.new {
            self.inner.meters.raised(&raised.ask, asking);
        }
        // The timers also end what comes while nobody is there to answer.
        if timeout.is_some() || self.inner.attendance.is_unattended(now) {
            self.inner.sooner.notify_one();
        }
        Ok(raised)
    }

    /// Off the writer's thread, for what takes its time to be read.
    async fn read_policy(&self, raise: Raise, lookup: Lookup) -> Result<(Raise, Option<Reading>), Problem> {
        let id = raise.agent.clone();
        let agent = self.inner.store.read(move |db| store::agents::agent(db, &id)).await?;
        let agent =
            agent.unwrap_or_else(|| AgentRow::unannounced(raise.agent.clone(), self.inner.clock.now()));
        let read = tokio::task::spawn_blocking(move || {
            let reading = lookup.read(&raise.body, &agent);
            (raise, Some(reading))
        });
        read.await.map_err(|_| Problem::Conflict("the policy could not be read for this ask"))
    }
}

/// The ask, and the rule that wants a person asked.
fn record(
    tx: &mut Tx,
    raise: Raise,
    id: AskId,
    lookup: &Lookup,
    read: Option<Reading>,
    now: Timestamp,
) -> Result<(Raised, Option<String>), Problem> {
    let agent = match tx.agent(&raise.agent)? {
        Some(agent) => agent,
        None => register_script(tx, &raise.agent, now)?,
    };
    if let Some(ask) = tx.ask_by_key(&raise.agent, &raise.key)? {
        return match ask.digest == Digest::of(&agent.profile.cwd, &raise.body) {
            true => Ok((Raised { ask, new: false }, None)),
            false => Err(Problem::KeyReused),
        };
    }
    if agent.report == Report::Ended {
        tx.put_agent(&AgentRow { report: Report::Working, lost: false, ..agent.clone() })?;
    }
    let reading = read.unwrap_or_else(|| lookup.read(&raise.body, &agent));
    let asking = reading.rule_that_asks();
    // To the millisecond, which is what the store keeps.
    let deadline = raise.timeout.and_then(|timeout| now.saturating_add(timeout).ok());
    let deadline = deadline.and_then(|deadline| Timestamp::from_millisecond(deadline.as_millisecond()).ok());
    let ask = tx.insert_ask(NewAsk {
        id,
        agent: raise.agent.clone(),
        key: raise.key,
        cwd: agent.profile.cwd.clone(),
        tool_use_id: raise.tool_use_id,
        sub_agent: raise.sub_agent,
        body: raise.body,
        created_at: now,
        deadline,
    })?;
    let detail =
        json!({ "kind": ask.body.kind(), "key": ask.key, "digest": ask.digest, "deadline": ask.deadline });
    tx.audit(now, "ask.raised", raise.agent.as_str(), Some(&raise.agent), Some(&ask.id), detail)?;
    let ask = decide(tx, ask, &agent, reading, now)?;
    if ask.state.is_open() {
        tx.publish_ask(&ask)?;
        if agent.open_asks == 0 {
            publish_agent(tx, &raise.agent)?;
        }
    }
    Ok((Raised { ask, new: true }, asking))
}

/// An agent nobody announced is a script.
fn register_script(tx: &mut Tx, id: &AgentId, now: Timestamp) -> Result<AgentRow, Problem> {
    let row = AgentRow::unannounced(id.clone(), now);
    tx.put_agent(&row)?;
    tx.audit(now, "agent.registered", id.as_str(), Some(id), None, json!({ "kind": "script" }))?;
    Ok(row)
}
