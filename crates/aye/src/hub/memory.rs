//! What the hub keeps for a surface that must not forget it when everything is restarted.

use super::agents::{commands_of, queue_command};
use super::{Command, Hub, Problem};
use crate::store::Tx;
use aye_core::{AgentId, Surface};
use serde_json::Value;

/// What only the hub that talks to Telegram may do, where several share a database.
pub const TELEGRAM_LEASE: &str = "telegram";

/// One thing to remember, or without a body to forget.
#[derive(Debug, Clone, PartialEq)]
pub struct Memo {
    pub kind: &'static str,
    pub key: String,
    pub body: Option<Value>,
}

impl Hub {
    /// All of it or none, and on disk when this returns.
    pub async fn remember(&self, surface: Surface, memos: Vec<Memo>) -> Result<(), Problem> {
        let hub = self.clone();
        self.inner.store.write(move |tx| keep(tx, &hub, surface, memos)).await
    }

    pub async fn recall(
        &self,
        surface: Surface,
        kind: &'static str,
    ) -> Result<Vec<(String, Value)>, Problem> {
        Ok(self.inner.store.read(move |db| db.recall(surface, kind)).await?)
    }

    /// Queues a command and remembers that in the same moment, so that it is not queued twice.
    pub async fn command_and_remember(
        &self,
        id: AgentId,
        command: Command,
        who: String,
        surface: Surface,
        memos: Vec<Memo>,
    ) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let (hub, agent) = (self.clone(), id.clone());
        let work = move |tx: &mut Tx| {
            queue_command(tx, &agent, command, &who, now)?;
            keep(tx, &hub, surface, memos)
        };
        self.inner.store.write(work).await?;
        self.inner.feed.wake(&commands_of(&id));
        Ok(())
    }
}

fn keep(tx: &mut Tx, hub: &Hub, surface: Surface, memos: Vec<Memo>) -> Result<(), Problem> {
    if surface == Surface::Telegram && !tx.has_lease(TELEGRAM_LEASE, &hub.inner.id)? {
        return Err(Problem::Conflict("another hub talks to Telegram now"));
    }
    for memo in memos {
        match &memo.body {
            Some(body) => tx.put_memory(surface, memo.kind, &memo.key, body)?,
            None => tx.forget_memory(surface, memo.kind, &memo.key)?,
        }
    }
    Ok(())
}
