//! Agents: registered by their adapters, steered by operators.

use super::change::{change, publish_agent};
use super::settle::take_receipt;
use super::streams::{Numbered, Taking};
use super::write_budget::{EVENT, REGISTRATION, WriteBudget};
use super::{Hub, Problem, names};
use crate::processes::{Process, host};
use crate::protocol::{Command, ConversationEvent, Registration, ReportNumber};
use crate::store::{AgentRow, Profile, StoreError, Tx, json_length};
use aye_core::lifecycle::Delivery;
use aye_core::{Agent, AgentId, Ask, AskEvent, AskId, Reach, Receipt, ReportedState, Withdrawal};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Characters that the trail has of each part of a refused call.
const LONGEST_IN_TRAIL: usize = 1_000;

/// A command as the trail has it: that there was a picture, and how large.
fn in_the_trail(command: &Command) -> Value {
    let mut body = json!(command);
    if let Command::Prompt { image: Some(image), .. } = command {
        body["image"] = image.in_the_trail();
    }
    body
}

impl Hub {
    pub async fn register(&self, id: AgentId, registration: Registration) -> Result<Agent, Problem> {
        let now = self.inner.clock.now();
        let ends = registration.state == Some(ReportedState::Ended);
        if !ends {
            self.heard(&id).await?;
        }
        let agent = id.clone();
        if ends {
            self.write_texts(Some(&id)).await?;
        }
        let budget = self.inner.write_budget.clone();
        let row = self.inner.store.write(move |tx| record(tx, agent, registration, &budget, now)).await?;
        if ends {
            self.inner.life.ended(&id);
            self.inner.streams.forget(&id);
            self.forget_agent_token(&id).await?;
        }
        Ok(row.agent())
    }

    /// Ends an agent whose process is gone, and whose adapter can have died at any moment with it.
    /// Its token stays: should the adapter live after all, it can still say what it knows.
    pub(super) async fn end_dead_agent(&self, id: AgentId, process: (u32, u64)) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let agent = id.clone();
        let work = move |tx: &mut Tx| {
            // It may have come back as another process since it was looked at.
            let is_it =
                |row: &AgentRow| row.profile.process == Some(process) && row.report != ReportedState::Ended;
            let Some(row) = tx.agent(&agent)?.filter(is_it) else { return Ok(()) };
            tx.put_agent(&AgentRow { report: ReportedState::Ended, lost: false, ..row })?;
            let evidence =
                Some("the agent's process is gone, and nobody reported whether it was told".into());
            end(tx, &agent, "hub", Delivery { receipt: Receipt::Unknown, evidence }, now)?;
            publish_agent(tx, &agent)
        };
        self.write_texts(Some(&id)).await?;
        self.inner.store.write(work).await?;
        self.inner.life.ended(&id);
        self.inner.streams.forget(&id);
        Ok(())
    }

    /// A sign of life; a lost agent is found again.
    pub async fn heard(&self, id: &AgentId) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        if !self.inner.life.heard(id, now) {
            return Ok(());
        }
        let id = id.clone();
        let work = move |tx: &mut Tx| {
            let Some(agent) = tx.agent(&id)?.filter(|agent| agent.lost) else { return Ok(()) };
            tx.put_agent(&AgentRow { lost: false, ..agent })?;
            tx.audit(now, "agent.found", id.as_str(), Some(&id), None, json!({}))?;
            publish_agent(tx, &id)
        };
        self.inner.store.write(work).await
    }

    /// The agent is there until this is dropped.
    pub fn stays_while_held(&self, agent: AgentId) -> Present {
        self.inner.life.comes(&agent);
        Present { hub: self.clone(), agent }
    }

    /// The conversation as it goes, and what became of outcomes meanwhile. A report whose number came before adds nothing to
    /// the conversation. Returns the asks that nobody knows: they were answered before they were written, and then never were.
    pub async fn report(
        &self,
        id: AgentId,
        events: Vec<Value>,
        receipts: Vec<(AskId, Delivery)>,
        number: Option<ReportNumber>,
    ) -> Result<Vec<AskId>, Problem> {
        self.heard(&id).await?;
        if receipts.is_empty()
            && let Some(pieces) = self.inner.streams.go_on(&id, &events, number.is_some())
        {
            self.inner.feed.pass_on(pieces);
            return Ok(Vec::new());
        }
        let now = self.inner.clock.now();
        let lengths = events.iter().map(|event| Ok(EVENT + json_length(event)?));
        let lengths = lengths.sum::<Result<u64, StoreError>>()? + number.as_ref().map_or(0, |_| EVENT);
        let events = match self.inner.write_budget.spend(&id, lengths, now) {
            Ok(()) => events,
            // Receipts were paid for with their asks.
            Err(_) if !receipts.is_empty() => Vec::new(),
            Err(refused) => return Err(refused),
        };
        let (hub, agent) = (self.clone(), id.clone());
        let work = move |tx: &mut Tx| {
            tx.agent(&id)?.ok_or(Problem::NoSuchAgent)?;
            let numbered = match &number {
                None => Numbered::No,
                Some(ReportNumber { reporter, n }) => {
                    match tx.is_new_report(&id, reporter.as_str(), *n, now)? {
                        true => Numbered::New,
                        false => Numbered::Again,
                    }
                }
            };
            if numbered != Numbered::Again {
                events.iter().try_for_each(|event| refused_itself(tx, &id, event, now))?;
            }
            let mut taking = Taking::new(&hub.inner.streams, &id, now, numbered);
            for event in events {
                taking.take(tx, event)?;
            }
            let mut taken = taking.finish(tx)?;
            hub.inner.feed.pass_on(std::mem::take(&mut taken.first));
            let mut unknown = Vec::new();
            for (ask, delivery) in receipts {
                match take_receipt(tx, &ask, &id, delivery, now) {
                    Err(fault @ (Problem::Store(_) | Problem::Fault(_))) => return Err(fault),
                    Err(Problem::NoSuchAsk) => unknown.push(ask),
                    // Nothing was written for it, and the others are not affected.
                    Err(refused) => tracing::debug!(%ask, %refused, "a receipt was not taken"),
                    Ok(_) => {}
                }
            }
            Ok((unknown, taken))
        };
        let (unknown, mut taken) = self.inner.store.write(work).await?;
        self.inner.write_budget.charge(&agent, taken.made_room, now);
        let last = std::mem::take(&mut taken.last);
        self.inner.streams.settle(&agent, taken);
        self.inner.feed.pass_on(last);
        Ok(unknown)
    }

    /// Queues a command for a driven agent; the others listen to their own terminal only.
    pub async fn command(&self, id: AgentId, command: Command, who: String) -> Result<u64, Problem> {
        let now = self.inner.clock.now();
        let agent = id.clone();
        let work = move |tx: &mut Tx| queue_command(tx, &agent, command, &who, now);
        let n = self.inner.store.write(work).await?;
        self.inner.feed.wake(&commands_of(&id));
        Ok(n)
    }

    /// Waits until there are commands after `after`, but no longer than `wait`.
    pub async fn commands(
        &self,
        id: &AgentId,
        after: u64,
        wait: Duration,
    ) -> Result<Vec<(u64, Value)>, Problem> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            let mut woken = self.inner.feed.wait_for(&commands_of(id));
            let agent = id.clone();
            let commands = self.inner.store.read(move |db| db.commands_after(&agent, after)).await?;
            if !commands.is_empty() || tokio::time::timeout_at(until, woken.woken()).await.is_err() {
                return Ok(commands);
            }
        }
    }
}

/// An agent whose adapter waits at a connection whose end is noticed.
pub struct Present {
    hub: Hub,
    agent: AgentId,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.hub.inner.life.leaves(&self.agent, self.hub.inner.clock.now());
    }
}

pub(super) fn queue_command(
    tx: &mut Tx,
    agent: &AgentId,
    command: Command,
    who: &str,
    now: Timestamp,
) -> Result<u64, Problem> {
    let row = tx.agent(agent)?.ok_or(Problem::NoSuchAgent)?;
    if row.profile.reach != Reach::Driven {
        return Err(Problem::Conflict(
            "only an agent started by `aye run` takes prompts, interrupts and stops",
        ));
    }
    if row.report == ReportedState::Ended {
        return Err(Problem::Conflict("this agent has ended"));
    }
    let n = tx.put_command(agent, &json!(command))?;
    tx.audit(now, "agent.command", who, Some(agent), None, in_the_trail(&command))?;
    Ok(n)
}

/// An ask's id has no space, so this name never wakes the wrong one.
pub(super) fn commands_of(agent: &AgentId) -> String {
    format!("commands of {agent}")
}

/// With its start time, so that a reused process id is not taken for it; none for one that has ended.
fn identified(pid: u32) -> Option<(u32, u64)> {
    super::this_process(pid).filter(|process| Process::from(*process).is_alive())
}

/// Takes out what would change who the agent is, and returns it. Rules, and the people who read of it, go by what was
/// recorded first: anything inside the agent can register it again with its token.
fn take_claims(told: &mut Registration, known: &Profile) -> Map<String, Value> {
    let is_driven = |reach: Reach| reach == Reach::Driven;
    let claims = [
        ("kind", told.kind.take_if(|kind| kind.as_str() != known.kind).map(|kind| json!(kind))),
        ("host", told.host.take_if(|host| **host != *known.host).map(|host| json!(host))),
        (
            "reach",
            told.reach.take_if(|reach| is_driven(*reach) != is_driven(known.reach)).map(|reach| json!(reach)),
        ),
    ];
    claims.into_iter().filter_map(|(field, claim)| Some((field.to_owned(), claim?))).collect()
}

fn record(
    tx: &mut Tx,
    id: AgentId,
    mut told: Registration,
    budget: &WriteBudget,
    now: Timestamp,
) -> Result<AgentRow, Problem> {
    let before = tx.agent(&id)?;
    let length = json_length(&told)?;
    if let Some(before) = &before {
        let claims = take_claims(&mut told, &before.profile);
        if !claims.is_empty() {
            budget.spend(&id, EVENT + length, now)?;
            tx.audit(now, "agent.claimed", id.as_str(), Some(&id), None, Value::Object(claims))?;
        }
    }
    let given = names::given_title(tx, &id)?;
    let named = told.pid.and_then(identified);
    let supervisor = told.supervisor.and_then(identified);
    let known = before.clone().unwrap_or_else(|| AgentRow::unannounced(id.clone(), now));
    let cwd = told.cwd.map_or(known.profile.cwd, String::from);
    // The folder of its process is what rules for a folder go by, so that process stays while it lives.
    let is_elsewhere = match known.profile.process {
        Some(process) => tx.is_process_elsewhere(&id, process)?,
        None => false,
    };
    let is_here = !tx.is_on_server() || (known.profile.host == host() && !is_elsewhere);
    // Of a process of another machine nothing is known here.
    let is_alive = |process: &(u32, u64)| !is_here || Process::from(*process).is_alive();
    let process = known.profile.process.filter(is_alive).or(named).or(known.profile.process);
    // Whoever speaks of an agent whose process is gone does not bring it back, unless they name one that lives.
    let is_over = known.report == ReportedState::Ended && process.is_some_and(|process| !is_alive(&process));
    let first_cwd = Some(known.profile.first_cwd).filter(|first| !first.is_empty());
    let row = AgentRow {
        profile: Profile {
            id: id.clone(),
            kind: told.kind.map_or(known.profile.kind, String::from),
            reach: told.reach.unwrap_or(known.profile.reach),
            host: told.host.map_or(known.profile.host, String::from),
            first_cwd: first_cwd.unwrap_or_else(|| cwd.clone()),
            cwd,
            title: given.or(told.title.map(String::from)).unwrap_or(known.profile.title),
            session: told.session.map(String::from).or(known.profile.session),
            tmux: told.tmux.map(String::from).or(known.profile.tmux),
            process,
            cost: told.cost.or(known.profile.cost),
            asks: told.asks.unwrap_or(known.profile.asks),
        },
        report: told.state.filter(|_| !is_over).unwrap_or(known.report),
        lost: false,
        ..known
    };
    let is_news = before.as_ref() != Some(&row);
    let was_over = before.as_ref().is_some_and(|before| before.report == ReportedState::Ended);
    // An end is always taken, once: whatever is said of the agent before it ends again is refused.
    if is_news && (was_over || row.report != ReportedState::Ended) {
        budget.spend(&id, REGISTRATION + length, now)?;
    }
    match &before {
        None => tx.register_agent(&row)?,
        Some(_) if is_news => tx.put_agent(&row)?,
        Some(_) => {}
    }
    for process in
        [named.filter(|named| Some(*named) != row.profile.process), supervisor].into_iter().flatten()
    {
        tx.put_process(&id, process)?;
    }
    if !is_news {
        return Ok(row);
    }
    if row.report == ReportedState::Ended && !was_over {
        let evidence = Some("the agent ended before it could be told".into());
        end(tx, &id, id.as_str(), Delivery { receipt: Receipt::Undelivered, evidence }, now)?;
    }
    publish_agent(tx, &id)?;
    tx.agent(&id)?.ok_or(Problem::NoSuchAgent)
}

fn end(
    tx: &mut Tx,
    agent: &AgentId,
    who: &str,
    undelivered: Delivery,
    now: Timestamp,
) -> Result<(), Problem> {
    tx.audit(now, "agent.ended", who, Some(agent), None, json!({}))?;
    settle_all(tx, agent, who, undelivered, now)?;
    tx.end_grants_of(agent, who, now)?;
    Ok(tx.forget_outline(agent)?)
}

/// Nothing can reach an agent that has ended: its open asks are withdrawn, and of outcomes that nobody
/// reported on we know only what `undelivered` says.
fn settle_all(
    tx: &mut Tx,
    agent: &AgentId,
    who: &str,
    undelivered: Delivery,
    now: Timestamp,
) -> Result<(), Problem> {
    for id in tx.open_asks_of(agent)? {
        let ask = tx.ask(&id)?.ok_or(Problem::NoSuchAsk)?;
        change(tx, ask, AskEvent::Withdraw { why: Withdrawal::Gone, answer: None }, who, now)?;
    }
    for id in tx.undelivered_asks_of(agent)? {
        let pending = |ask: &Ask| ask.state.receipt() == Some(Receipt::Pending);
        let Some(ask) = tx.ask(&id)?.filter(pending) else { continue };
        change(tx, ask, AskEvent::Receipt(undelivered.clone()), who, now)?;
    }
    Ok(())
}

/// Records a call that the agent refused without asking, beside the decisions of people and rules.
fn refused_itself(tx: &mut Tx, agent: &AgentId, event: &Value, now: Timestamp) -> Result<(), StoreError> {
    // Most events are something else, and some are long.
    if event["type"] != "refused_itself" {
        return Ok(());
    }
    let ConversationEvent::RefusedItself { call, .. } = ConversationEvent::read(event) else { return Ok(()) };
    let beginning = |text: &str| text.chars().take(LONGEST_IN_TRAIL).collect::<String>();
    let detail = json!({
        "tool_use_id": beginning(&call.id), "tool": beginning(&call.name), "input": beginning(&call.input.to_string()),
        "why": beginning(&call.reason), "sub_agent": call.sub_agent.as_deref().map(beginning),
    });
    tx.audit(now, "agent.refused_itself", agent.as_str(), Some(agent), None, detail)
}
