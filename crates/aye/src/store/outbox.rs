//! What the surfaces are told: numbered changes, written with what they tell of.

use super::asks::{json, unreadable};
use super::{AskFilter, StoreError, Tx, agents, asks, history};
use aye_core::{Agent, AgentId, Answer, Ask, AskId, By, Receipt};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// One numbered change.
#[derive(Debug, Clone)]
pub struct Change {
    pub seq: u64,
    pub subject: Subject,
    /// Ready to be sent, and shared by all it is sent to; none where it is too large to be held for those
    /// who are behind.
    pub text: Option<Utf8Bytes>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    Ask(Box<Ask>),
    /// An ask that is too large to be held for those who are behind.
    LargeAsk {
        id: AskId,
        ended: bool,
    },
    Agent(AgentId),
    Event(AgentId),
    Notice,
}

/// Everything a surface needs to begin, as of one number.
#[derive(Debug)]
pub struct Snapshot {
    pub seq: u64,
    /// The open asks, oldest first, as far as they are not too much to be sent at once.
    pub asks: Vec<Ask>,
    /// Where the list of open asks goes on, if it does.
    pub next: Option<AskId>,
    pub agents: Vec<Agent>,
}

/// What somebody who has seen the changes up to a number must be sent.
#[derive(Debug)]
pub enum CatchUp {
    /// The missed changes as `(seq, text)`, and whether there are more than these.
    Missed { changes: Vec<(u64, String)>, more: bool },
    /// The number is not one we can continue from.
    Unknown,
}

const CATCH_UP_AT_ONCE: usize = 256;
/// Reading for somebody who is behind stops here, however few changes that is.
const CATCH_UP_BYTES: usize = 1024 * 1024;
/// Of what is open, a snapshot has as much; the rest is fetched page by page.
const SNAPSHOT_BYTES: usize = 8 * 1024 * 1024;
/// Larger changes stay in the store: a thousand of them waiting for one slow reader would fill the memory.
const LARGEST_HELD: usize = 32 * 1024;

/// An ask's part that changes; the rest stands in the asks themselves.
#[derive(Serialize)]
struct Standing<'a> {
    state: &'a str,
    receipt: Option<Receipt>,
    answer: Option<&'a Answer>,
    by: Option<&'a By>,
    ended_at: Option<Timestamp>,
    note: Option<&'a str>,
}

/// Written as it is, without a tree in between: this runs inside the commit everybody waits for.
#[derive(Serialize)]
struct AskMessage<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    seq: u64,
    ask: &'a Ask,
}

impl Tx<'_> {
    pub fn publish_ask(&mut self, ask: &Ask) -> Result<(), StoreError> {
        let standing = Standing {
            state: ask.state.name(),
            receipt: ask.state.receipt(),
            answer: ask.state.answer(),
            by: ask.state.by(),
            ended_at: ask.state.ended_at(),
            note: ask.state.note(),
        };
        let standing = serde_json::to_string(&standing).map_err(unreadable)?;
        let seq = self.put_in_outbox("ask", ask.id.as_str(), &standing)?;
        let text = held(serde_json::to_string(&AskMessage { kind: "ask", seq, ask }).map_err(unreadable)?);
        let subject = match text {
            Some(_) => Subject::Ask(Box::new(ask.clone())),
            None => Subject::LargeAsk { id: ask.id.clone(), ended: !ask.state.is_open() },
        };
        self.changes.push(Change { seq, subject, text });
        Ok(())
    }

    pub fn publish_agent(&mut self, agent: &Agent) -> Result<(), StoreError> {
        let detail = serde_json::to_value(agent).map_err(unreadable)?;
        let seq = self.put_in_outbox("agent", agent.id.as_str(), &detail.to_string())?;
        let text = held(message("agent", seq, "agent", detail));
        self.changes.push(Change { seq, subject: Subject::Agent(agent.id.clone()), text });
        Ok(())
    }

    pub fn publish_event(&mut self, agent: &AgentId, event: Value) -> Result<(), StoreError> {
        let seq = self.put_in_outbox("event", agent.as_str(), &event.to_string())?;
        let text = held(event_message(seq, agent.as_str(), event));
        self.changes.push(Change { seq, subject: Subject::Event(agent.clone()), text });
        Ok(())
    }

    /// Something every operator should know that belongs to no agent.
    pub fn publish_notice(&mut self, notice: Value) -> Result<(), StoreError> {
        let seq = self.put_in_outbox("notice", "hub", &notice.to_string())?;
        let text = held(message("notice", seq, "notice", notice));
        self.changes.push(Change { seq, subject: Subject::Notice, text });
        Ok(())
    }

    fn put_in_outbox(&self, kind: &str, subject: &str, detail: &str) -> Result<u64, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("INSERT INTO outbox (type, subject, detail) VALUES (?1, ?2, ?3)")?;
        let seq = statement.insert((kind, subject, detail))?;
        Ok(seq.cast_unsigned())
    }

    /// Forgets all but the newest changes: who is further behind begins with a snapshot.
    pub fn prune_outbox(&self, keep: u64) -> Result<(), StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("DELETE FROM outbox WHERE seq <= (SELECT max(seq) FROM outbox) - ?1")?;
        statement.execute([keep])?;
        Ok(())
    }
}

fn held(text: String) -> Option<Utf8Bytes> {
    (text.len() <= LARGEST_HELD).then(|| text.into())
}

fn message(kind: &str, seq: u64, field: &str, content: Value) -> String {
    json!({ "type": kind, "seq": seq, field: content }).to_string()
}

fn event_message(seq: u64, agent: &str, event: Value) -> String {
    json!({ "type": "event", "seq": seq, "agent": agent, "event": event }).to_string()
}

pub fn snapshot(connection: &Connection) -> Result<Snapshot, StoreError> {
    let open = AskFilter {
        state: Some("open".into()),
        limit: u32::MAX,
        most_bytes: Some(SNAPSHOT_BYTES),
        ..AskFilter::default()
    };
    let page = history::list(connection, &open)?;
    Ok(Snapshot {
        seq: last_seq(connection)?,
        next: page.next(),
        asks: page.asks,
        agents: agents::list(connection, false)?.iter().map(agents::AgentRow::agent).collect(),
    })
}

pub fn last_seq(connection: &Connection) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'")?;
    let seq: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(seq.unwrap_or(0).cast_unsigned())
}

pub fn catch_up(connection: &Connection, after: u64) -> Result<CatchUp, StoreError> {
    let last = last_seq(connection)?;
    let mut first = connection.prepare_cached("SELECT min(seq) FROM outbox")?;
    let first: Option<i64> = first.query_row([], |row| row.get(0))?;
    let first = first.map_or(last + 1, i64::cast_unsigned);
    if after > last || after + 1 < first {
        return Ok(CatchUp::Unknown);
    }
    let mut statement = connection.prepare_cached(
        "SELECT seq, type, subject, detail FROM outbox WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    )?;
    let mut rows = statement.query((after, CATCH_UP_AT_ONCE))?;
    let mut changes = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let seq = row.get::<_, u64>(0)?;
        let (kind, subject): (String, String) = (row.get(1)?, row.get(2)?);
        let detail = json(&row.get::<_, String>(3)?)?;
        let text = match kind.as_str() {
            "ask" => message("ask", seq, "ask", ask_as_it_stood(connection, &subject, detail)?),
            "agent" | "notice" => message(&kind, seq, &kind, detail),
            _ => event_message(seq, &subject, detail),
        };
        bytes += text.len();
        changes.push((seq, text));
        if bytes >= CATCH_UP_BYTES {
            break;
        }
    }
    let more = bytes >= CATCH_UP_BYTES || changes.len() == CATCH_UP_AT_ONCE;
    Ok(CatchUp::Missed { changes, more })
}

/// The conversation of one agent, oldest first, as `(seq, event)`.
pub fn events(
    connection: &Connection,
    agent: &AgentId,
    after: u64,
    limit: u32,
) -> Result<Vec<(u64, Value)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, detail FROM outbox WHERE type = 'event' AND subject = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query((agent.as_str(), after, limit))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push((row.get::<_, u64>(0)?, json(&row.get::<_, String>(1)?)?));
    }
    Ok(events)
}

fn ask_as_it_stood(connection: &Connection, id: &str, standing: Value) -> Result<Value, StoreError> {
    let id = AskId::try_from(id).map_err(unreadable)?;
    let ask =
        asks::ask(connection, &id)?.ok_or_else(|| unreadable("a change of an ask that is not there"))?;
    let mut ask = serde_json::to_value(ask).map_err(unreadable)?;
    if let Value::Object(fields) = standing {
        for (field, value) in fields {
            ask[field.as_str()] = value;
        }
    }
    Ok(ask)
}
