//! What happens because time passes: asks past their deadline end, silent agents are lost.

use super::alive::Looked;
use super::change::{change, publish_agent};
use super::life::SILENCE;
use super::{Hub, Problem};
use crate::processes::host;
use crate::store::{AgentRow, Reader, Tx};
use aye_core::{AgentId, AskEvent, AskId, Expiry, ReportedState};
use aye_policy::WhenUnattended;
use futures_util::future::join_all;
use jiff::SignedDuration;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const LONGEST_NAP: Duration = Duration::from_secs(5);
const OUTBOX_KEPT: u64 = 200_000;
const BETWEEN_PRUNES: Duration = Duration::from_secs(60 * 60);
const BETWEEN_FORGETTING: Duration = Duration::from_secs(5 * 60);

/// When something was last done that is done from time to time, however often anybody wakes up meanwhile.
struct Every {
    last: Option<Instant>,
    between: Duration,
}

impl Every {
    fn new(between: Duration) -> Self {
        Self { last: None, between }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= self.between);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

pub async fn run(hub: Hub, stop: CancellationToken) {
    let (mut prunes, mut forgets) = (Every::new(BETWEEN_PRUNES), Every::new(BETWEEN_FORGETTING));
    loop {
        match hub.tick().await {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "the timers could not do their work; they try again"),
        }
        if prunes.is_due(Instant::now())
            && let Err(error) = hub.inner.store.prune(OUTBOX_KEPT).await
        {
            tracing::error!(%error, "old changes could not be forgotten");
        }
        if forgets.is_due(Instant::now())
            && let Err(error) = hub.forget_old_events().await
        {
            tracing::error!(%error, "old conversations could not be forgotten");
        }
        let nap = hub.next_nap().await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = hub.inner.sooner.notified() => {}
            () = tokio::time::sleep(nap) => {}
        }
    }
}

impl Hub {
    /// Does what is due now. What cannot be done holds up nothing else.
    pub async fn tick(&self) -> Result<(), Problem> {
        let done = [
            self.tell_who_is_here().await,
            self.expire_due().await,
            self.reject_unattended().await,
            self.end_dead_agents().await,
            self.mark_lost().await,
        ];
        done.into_iter().collect()
    }

    async fn next_nap(&self) -> Duration {
        let deadline = self.inner.store.read(Reader::next_deadline).await.ok().flatten();
        // What is due and was not ended just now cannot be: it is not tried again and again.
        let until = |deadline| match self.inner.clock.now().duration_until(deadline) {
            nap if nap.is_positive() => nap,
            _ => SignedDuration::from_secs(1),
        };
        deadline
            .map(until)
            .and_then(|nap| Duration::try_from(nap).ok())
            .map_or(LONGEST_NAP, |nap| nap.min(LONGEST_NAP))
    }

    async fn expire_due(&self) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let next = self.inner.store.read(Reader::next_deadline).await?;
        if next.is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let due = self.inner.store.read(move |db| db.due_asks(now)).await?;
        self.expire(due, Expiry::Deadline).await.map(drop)
    }

    /// Ends each of these asks by a change of its own, and says how many were open.
    async fn expire(&self, asks: Vec<AskId>, why: Expiry) -> Result<usize, Problem> {
        let now = self.inner.clock.now();
        let expire = |id: AskId| {
            self.inner.store.write(move |tx: &mut Tx| {
                let open = tx.ask(&id)?.filter(|ask| ask.state.is_open());
                open.map(|ask| change(tx, ask, AskEvent::Expire(why), "hub", now)).transpose()
            })
        };
        let ended = join_all(asks.into_iter().map(expire)).await;
        Ok(ended.into_iter().collect::<Result<Vec<_>, Problem>>()?.into_iter().flatten().count())
    }

    /// Whether people chose that nothing waits, and nobody is there.
    pub(super) fn rejects_now(&self) -> bool {
        match self.policy().when_unattended {
            WhenUnattended::Wait => false,
            WhenUnattended::Reject(after) => {
                self.inner.attendance.is_unattended(self.inner.clock.now(), after)
            }
        }
    }

    /// If configured, open asks are rejected when nobody is connected.
    async fn reject_unattended(&self) -> Result<(), Problem> {
        let WhenUnattended::Reject(after) = self.policy().when_unattended else { return Ok(()) };
        if !self.rejects_now() || self.is_attended_elsewhere(after).await? {
            return Ok(());
        }
        while self.expire(self.inner.store.read(Reader::some_open_asks).await?, Expiry::Unattended).await? > 0
        {
        }
        Ok(())
    }

    /// An agent whose process is gone has ended, whether or not its adapter could still say so.
    async fn end_dead_agents(&self) -> Result<(), Problem> {
        let mut processes = self.inner.processes.lock().await;
        // Asked for before the agents are read: it may be of an earlier commit, never of a later one.
        let version = self.inner.store.live_rows_version();
        if processes.version != Some(version) {
            let read = |db: &Reader| Ok((db.agents(false)?, db.agents_elsewhere()?));
            let (mut agents, elsewhere) = self.inner.store.read(read).await?;
            if self.inner.store.is_on_server() {
                // Processes of other machines cannot be seen from here.
                agents.retain(|agent| agent.profile.host == host() && !elsewhere.contains(&agent.profile.id));
            }
            processes.renew(version, agents);
        }
        let Looked { gone, joined } = processes.look();
        drop(processes);
        for agent in joined {
            self.heard(&agent).await?;
        }
        for (agent, process) in gone {
            self.end_dead_agent(agent, process).await?;
        }
        Ok(())
    }

    async fn mark_lost(&self) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let mark = |id: AgentId| {
            self.inner.store.write(move |tx: &mut Tx| {
                // Whoever speaks of an agent that has ended does not bring it back, and another hub may have come first.
                let is_there = |agent: &AgentRow| agent.report != ReportedState::Ended && !agent.lost;
                let Some(agent) = tx.agent(&id)?.filter(is_there) else { return Ok(()) };
                tx.put_agent(&AgentRow { lost: true, ..agent })?;
                tx.audit(now, "agent.lost", "hub", Some(&id), None, json!({}))?;
                super::settle::give_up_secrets(tx, &id, now)?;
                publish_agent(tx, &id)
            })
        };
        let silent = match self.is_one_of_several() {
            true => self.silent_at_all_hubs().await?,
            false => self.inner.life.fallen_silent(now),
        };
        let mark = async |id: AgentId| {
            mark(id.clone()).await?;
            self.write_texts(Some(&id)).await?;
            self.inner.streams.forget(&id);
            Ok(())
        };
        join_all(silent.into_iter().map(mark)).await.into_iter().collect()
    }

    async fn silent_at_all_hubs(&self) -> Result<Vec<AgentId>, Problem> {
        if !self.inner.life.can_tell_silence() {
            return Ok(Vec::new());
        }
        let silent = self.inner.store.silent_agents(SILENCE).await?;
        silent.iter().for_each(|agent| self.inner.life.is_lost(agent, true));
        Ok(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_from_time_to_time_goes_by_the_clock_and_not_by_how_often_somebody_wakes_up() {
        let (mut every, start) = (Every::new(BETWEEN_FORGETTING), Instant::now());
        let woken = (0..10_000).filter(|_| every.is_due(start)).count();
        assert_eq!(woken, 1);
        assert!(every.is_due(start + BETWEEN_FORGETTING) && !every.is_due(start + BETWEEN_FORGETTING));
    }
}
