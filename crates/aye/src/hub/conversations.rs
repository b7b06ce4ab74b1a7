//! What agents say and do. All of it is written as it comes, but for text that streams: its pieces are passed on at
//! once, and the text so far is written at most once a second, each version in the place of the last.

pub use super::streams::Piece;

use super::streams::Unwritten;
use super::write_budget::EVENT;
use super::{Hub, Problem};
use crate::config::Config;
use crate::store::{EventPage, Tx};
use aye_core::AgentId;
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// Texts that are copied to be written at the same time; each may be long.
const WRITTEN_AT_ONCE: usize = 16;
/// After each change that forgets, others get their turn.
const BETWEEN_FORGETTING: Duration = Duration::from_millis(10);

impl Hub {
    /// A page of an agent's conversation, up to what it said just now.
    pub async fn events(
        &self,
        agent: AgentId,
        page: EventPage,
        limit: u32,
    ) -> Result<Vec<(u64, Value)>, Problem> {
        let of = agent.clone();
        let mut events = self.inner.store.read(move |db| db.events(&of, page, limit)).await?;
        self.inner.streams.bring_up_to_date(&agent, &mut events);
        Ok(events)
    }

    /// Writes what is new of the texts that stream, of one agent or of all. One that fails holds up no other.
    pub(super) async fn write_texts(&self, of: Option<&AgentId>) -> Result<(), Problem> {
        let mut done = Ok(());
        for names in self.inner.streams.names_of_unwritten(of).chunks(WRITTEN_AT_ONCE) {
            let texts = names.iter().filter_map(|name| self.inner.streams.unwritten(name.clone()));
            let written = join_all(texts.map(|text| self.write_text(text))).await;
            done = written.into_iter().fold(done, Result::and);
        }
        done
    }

    async fn write_text(&self, version: Unwritten) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let length = EVENT + version.text.len() as u64;
        if self.inner.write_budget.spend(&version.agent, length, now).is_err() {
            // It stays in memory, and is tried again when it goes on.
            return Ok(());
        }
        let version = Arc::new(version);
        let of = version.clone();
        let work = move |tx: &mut Tx| tx.continue_text(&of.agent, &of.id, &of.text, now);
        let became = self.inner.store.write(work).await?;
        self.inner.streams.written(&version, became);
        Ok(())
    }

    /// Once a second as long as texts stream, and not at all otherwise.
    pub(super) async fn keep_texts(self, stop: CancellationToken) {
        loop {
            let added = async {
                self.inner.streams.added.notified().await;
                sleep(BETWEEN_WRITES).await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = added => {}
            }
            if let Err(error) = self.write_texts(None).await {
                tracing::error!(%error, "a text that streams could not be written; it is tried again");
                self.inner.streams.added.notify_one();
            }
        }
    }

    /// Forgets what is too old, and the oldest of what is too much for one agent.
    pub(super) async fn forget_old_events(&self) -> Result<(), Problem> {
        let Ok(config) = Config::read(self.inner.policy.file()).config else { return Ok(()) };
        let kept = SignedDuration::from_hours(24 * i64::from(config.history.days));
        let oldest = self.inner.clock.now().checked_sub(kept).unwrap_or(Timestamp::MIN);
        while self.inner.store.forget_events_before(oldest).await? {
            sleep(BETWEEN_FORGETTING).await;
        }
        let most = u64::from(config.history.megabytes) * 1_000_000;
        for (agent, last) in self.inner.store.read(move |db| db.conversations_over(most)).await? {
            while self.inner.store.forget_events_of(agent.clone(), last).await? {
                sleep(BETWEEN_FORGETTING).await;
            }
        }
        Ok(())
    }
}
