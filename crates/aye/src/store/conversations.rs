//! What agents said and did, by the numbers under which the surfaces were told, kept for each agent by age and size.

use super::asks::{json, name};
use super::sql::{Connection, params};
use super::{Reader, Store, StoreError, Tx};
use aye_core::AgentId;
use jiff::Timestamp;
use rusqlite::ToSql;
use serde_json::Value;

/// Which part of a conversation is read; always oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPage {
    /// The first events after this number.
    After(u64),
    /// The last events before this number.
    Before(u64),
}

/// Rows and bytes that are forgotten in one change: more would keep everybody else waiting for the writer.
const FORGOTTEN_AT_ONCE: u32 = 2_000;
const FORGOTTEN_BYTES: u64 = 4_000_000;
/// Reporters of one agent that are remembered, those that reported last.
const REPORTERS_KEPT: u32 = 64;

/// What became of a further version of a text that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SoFar {
    /// It is kept in the place of the last one.
    Written,
    /// As much of the text or more was kept already: this.
    Kept(String),
    /// Nothing was kept of the text any more: it is complete, or was forgotten.
    Over,
}

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

    /// Begins a text, of which more will come.
    pub fn begin_text(
        &mut self,
        agent: &AgentId,
        id: &str,
        text: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.publish_event(agent, so_far(id, text), at)
    }

    /// Puts more of a text in the place of what is kept of it. Where nothing is, or as much, that stays: several hubs may
    /// write one text, and a text that is complete must not go on.
    pub fn continue_text(
        &mut self,
        agent: &AgentId,
        id: &str,
        text: &str,
        at: Timestamp,
    ) -> Result<SoFar, StoreError> {
        let sql = "SELECT bytes FROM conversations WHERE agent = ?1 AND partial = ?2";
        let kept = self.connection.first(sql, params![agent.as_str(), id], |row| row.get::<u64>(0))?;
        let event = so_far(id, text);
        match kept {
            None => Ok(SoFar::Over),
            Some(bytes) if bytes < event.to_string().len() as u64 => {
                self.publish_event(agent, event, at).map(|()| SoFar::Written)
            }
            Some(_) => Ok(self.text_so_far(agent, id)?.map_or(SoFar::Over, SoFar::Kept)),
        }
    }

    /// Notes the number of a report, and says whether its reporter has not come as far before.
    pub fn is_new_report(
        &self,
        agent: &AgentId,
        reporter: &str,
        number: u32,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (agent, at) = (agent.as_str(), at.as_millisecond());
        let sql = "UPDATE reporters SET last = ?3, at = ?4 WHERE agent = ?1 AND reporter = ?2 AND last < ?3";
        if self.connection.execute(sql, params![agent, reporter, number, at])? > 0 {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM reporters WHERE agent = ?1 AND reporter = ?2";
        if self.connection.exists(sql, params![agent, reporter])? {
            return Ok(false);
        }
        let sql = "INSERT INTO reporters (agent, reporter, last, at) VALUES (?1, ?2, ?3, ?4)";
        self.connection.execute(sql, params![agent, reporter, number, at])?;
        let sql = "DELETE FROM reporters WHERE agent = ?1 AND reporter NOT IN
                   (SELECT reporter FROM reporters WHERE agent = ?1 ORDER BY at DESC, reporter LIMIT ?2)";
        self.connection.execute(sql, params![agent, REPORTERS_KEPT])?;
        Ok(true)
    }
}

/// A text that is not complete yet, as an event.
fn so_far(id: &str, text: &str) -> Value {
    serde_json::json!({ "type": "text", "id": id, "text": text, "partial": true })
}

impl Store {
    /// Forgets what is older than this, a part at a time; true if there may be more.
    pub async fn forget_events_before(&self, at: Timestamp) -> Result<bool, StoreError> {
        let forget = move |connection: &Connection| {
            let which = "at < ?1 ORDER BY at, seq";
            let forgotten = forget(connection, which, "at, seq", params![at.as_millisecond()])?;
            let sql = "DELETE FROM reporters WHERE at < ?1";
            connection.execute(sql, params![at.as_millisecond()])?;
            Ok(forgotten)
        };
        self.forget(forget).await
    }

    /// Forgets an agent's events up to this number, a part at a time; true if there may be more.
    pub async fn forget_events_of(&self, agent: AgentId, last: u64) -> Result<bool, StoreError> {
        let forget = move |connection: &Connection| {
            let which = "agent = ?1 AND seq <= ?2 ORDER BY seq";
            forget(connection, which, "seq", params![agent.as_str(), last])
        };
        self.forget(forget).await
    }

    /// On a server outside of the groups: nobody who waits for one waits for this.
    async fn forget(
        &self,
        forget: impl Fn(&Connection) -> Result<bool, StoreError> + Send + 'static,
    ) -> Result<bool, StoreError> {
        match self.is_on_server() {
            true => self.beside(forget).await,
            false => self.write(move |tx| forget(tx.connection)).await,
        }
    }
}

/// The first of these rows, in this order, and always one if there is one.
fn forget(
    connection: &Connection,
    which: &str,
    order: &str,
    params: &[&dyn ToSql],
) -> Result<bool, StoreError> {
    let sql = format!(
        "DELETE FROM conversations WHERE seq IN (SELECT seq FROM (
             SELECT seq, bytes, CAST(sum(bytes) OVER (ORDER BY {order}) AS BIGINT) AS through FROM (
                 SELECT seq, at, bytes FROM conversations WHERE {which} LIMIT {FORGOTTEN_AT_ONCE}
             ) AS first_rows
         ) AS sums WHERE through - bytes < {FORGOTTEN_BYTES})"
    );
    Ok(connection.execute(&sql, params)? > 0)
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

    /// What is kept of a text that is not complete.
    pub fn text_so_far(&self, agent: &AgentId, id: &str) -> Result<Option<String>, StoreError> {
        let sql =
            "SELECT detail FROM conversations WHERE agent = ?1 AND partial = ?2 ORDER BY seq DESC LIMIT 1";
        let detail: Option<String> =
            self.connection.first(sql, params![agent.as_str(), id], |row| row.get(0))?;
        let event = detail.map(|detail| json(&detail)).transpose()?;
        Ok(event.and_then(|event| Some(event["text"].as_str()?.to_owned())))
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
