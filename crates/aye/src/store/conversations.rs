//! What agents said and did, by the numbers under which the surfaces were told, kept for each agent by age and size.

use super::asks::{json, name};
use super::sql::params;
use super::{Reader, StoreError, Tx};
use aye_core::AgentId;
use jiff::Timestamp;
use serde_json::Value;

/// Which part of a conversation is read; always oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPage {
    /// The first events after this number.
    After(u64),
    /// The last events before this number.
    Before(u64),
}

/// Rows that are forgotten in one change: more would keep everybody else waiting for the writer.
const FORGOTTEN_AT_ONCE: u32 = 2_000;

impl Tx<'_> {
    /// Keeps an event, and says how many bytes it takes. One about a text takes the place of what was kept of that
    /// text while it was not complete.
    pub(super) fn put_event(
        &self,
        seq: u64,
        agent: &AgentId,
        event: &Value,
        at: Timestamp,
    ) -> Result<usize, StoreError> {
        let text = event["id"].as_str().filter(|_| event["type"] == "text");
        if let Some(text) = text {
            let sql = "DELETE FROM conversations WHERE agent = ?1 AND partial = ?2";
            self.connection.execute(sql, params![agent.as_str(), text])?;
        }
        let partial = text.filter(|_| event["partial"] == true);
        let detail = event.to_string();
        let sql = "INSERT INTO conversations (seq, agent, at, partial, bytes, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![seq, agent.as_str(), at.as_millisecond(), partial, detail.len(), detail];
        self.connection.execute(sql, values)?;
        Ok(detail.len())
    }

    /// Forgets what is older than this, a part at a time; true if there is more.
    pub fn forget_events_before(&self, at: Timestamp) -> Result<bool, StoreError> {
        let sql =
            "DELETE FROM conversations WHERE seq IN (SELECT seq FROM conversations WHERE at < ?1 LIMIT ?2)";
        let forgotten = self.connection.execute(sql, params![at.as_millisecond(), FORGOTTEN_AT_ONCE])?;
        Ok(forgotten == FORGOTTEN_AT_ONCE as usize)
    }

    /// Forgets an agent's events up to this number, a part at a time; true if there is more.
    pub fn forget_events_of(&self, agent: &AgentId, last: u64) -> Result<bool, StoreError> {
        let sql = "DELETE FROM conversations WHERE seq IN
                   (SELECT seq FROM conversations WHERE agent = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3)";
        let forgotten = self.connection.execute(sql, params![agent.as_str(), last, FORGOTTEN_AT_ONCE])?;
        Ok(forgotten == FORGOTTEN_AT_ONCE as usize)
    }
}

impl Reader {
    /// The conversation of one agent as `(seq, event)`.
    pub fn events(
        &self,
        agent: &AgentId,
        page: EventPage,
        limit: u32,
    ) -> Result<Vec<(u64, Value)>, StoreError> {
        let (sql, from) = match page {
            EventPage::After(seq) => (
                "SELECT seq, detail FROM conversations WHERE agent = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
                seq,
            ),
            EventPage::Before(seq) => (
                "SELECT seq, detail FROM conversations WHERE agent = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3",
                seq,
            ),
        };
        let mut events = self.rows("conversations", sql, params![agent.as_str(), from, limit], |row| {
            Ok((row.get(0)?, json(&row.get::<String>(1)?)?))
        })?;
        if matches!(page, EventPage::Before(_)) {
            events.reverse();
        }
        Ok(events)
    }

    /// The event with this number, and how many bytes it takes; none if it was forgotten or replaced.
    pub(super) fn event(&self, seq: u64) -> Result<Option<(usize, Value)>, StoreError> {
        let sql = "SELECT detail FROM conversations WHERE seq = ?1";
        let detail: Option<String> = self.connection.first(sql, params![seq], |row| row.get(0))?;
        detail.map(|detail| Ok((detail.len(), json(&detail)?))).transpose()
    }

    /// Conversations larger than this, each with the number of the last event that must go.
    pub fn conversations_over(&self, most_bytes: u64) -> Result<Vec<(AgentId, u64)>, StoreError> {
        let sql = "SELECT agent, max(seq) FROM (
                 SELECT agent, seq, CAST(sum(bytes) OVER (PARTITION BY agent ORDER BY seq DESC) AS BIGINT) AS newer FROM conversations
                 WHERE agent IN (SELECT agent FROM conversations GROUP BY agent HAVING CAST(sum(bytes) AS BIGINT) > ?1)
             ) AS sums WHERE newer > ?1 GROUP BY agent";
        self.rows("conversations", sql, params![most_bytes], |row| Ok((name(row, "agent")?, row.get(1)?)))
    }
}
