//! What the surfaces are told: numbered changes, written with what they tell of.

use super::asks::{json, unreadable};
use super::row_mac::pass_by;
use super::sql::{Row, params};
use super::{AgentRow, AskFilter, Reader, StoreError, Tx};
use aye_core::lifecycle::Delivery;
use aye_core::{Agent, AgentId, Ask, AskId, Receipt, State};
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::thread::yield_now;

/// One numbered change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub seq: u64,
    pub subject: Subject,
    /// The change written out, by the first who sends it for all who do.
    pub text: OnceLock<Bytes>,
}

impl Change {
    fn new(seq: u64, subject: Subject) -> Self {
        Self { seq, subject, text: OnceLock::new() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    Ask(Box<Ask>),
    Agent(Box<Agent>),
    /// Something that an agent said or did.
    Event(AgentId, Value),
    /// Something every operator should know that belongs to no agent.
    Notice(Value),
    /// Too large to be held in memory for those who are behind: it is read from the store.
    Large(Large),
}

impl Subject {
    /// In its place, that there is such a change.
    fn held_back(self) -> Self {
        Self::Large(match self {
            Self::Ask(ask) => Large::Ask { ended: !ask.state.is_open(), id: ask.id.clone() },
            Self::Agent(agent) => Large::Agent(agent.id),
            Self::Event(agent, _) => Large::Event(agent),
            Self::Notice(_) => Large::Notice,
            Self::Large(large) => large,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Large {
    Ask { id: AskId, ended: bool },
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
    /// The missed changes up to a number, none of them held back for its size, and whether there are more than these.
    /// Events that are no longer kept are left out.
    Missed { changes: Vec<Change>, through: u64, more: bool },
    /// The number is not one we can continue from.
    Unknown,
}

/// Changes that other hubs made, as they are held in memory.
pub enum Missed {
    /// All up to this number.
    Known { changes: Vec<Change>, through: u64 },
    /// They are not kept any more.
    Unknown,
}

const CATCH_UP_AT_ONCE: usize = 256;
/// Reading for somebody who is behind stops here, however few changes that is.
const CATCH_UP_BYTES: usize = 1024 * 1024;
/// Of what is open, a snapshot has as much; the rest is fetched page by page.
const SNAPSHOT_BYTES: usize = 8 * 1024 * 1024;
/// Larger changes stay in the store: a thousand of them waiting for one slow reader would fill the memory.
const LARGEST_HELD: usize = 32 * 1024;

/// Changes that are forgotten in one change: more would keep everybody else waiting for the writer.
const PRUNED_AT_ONCE: u32 = 2_000;

/// An ask's part that changes more than once; the rest is in the asks themselves.
#[derive(Serialize, Deserialize)]
struct OutboxState {
    state: String,
    receipt: Option<Receipt>,
    note: Option<String>,
}

impl OutboxState {
    fn of(state: &State) -> Self {
        let note = state.note().map(str::to_owned);
        Self { state: state.name().to_owned(), receipt: state.receipt(), note }
    }

    /// The state as it was, made from what became of it: once it has ended, only its receipt changes.
    fn before(self, mut state: State) -> State {
        if self.state == State::Open.name() {
            return State::Open;
        }
        let why = state.why_unanswered();
        let evidence = self.note.filter(|note| Some(note.as_str()) != why).map(Into::into);
        if let (State::Answered { delivery, .. } | State::Expired { delivery, .. }, Some(receipt)) =
            (&mut state, self.receipt)
        {
            *delivery = Delivery { receipt, evidence };
        }
        state
    }
}

impl Tx<'_> {
    pub fn publish_ask(&mut self, ask: &Ask) -> Result<(), StoreError> {
        let state = serde_json::to_string(&OutboxState::of(&ask.state)).map_err(unreadable)?;
        let seq = self.put_in_outbox("ask", ask.id.as_str(), &state)?;
        // Written only where its parts do not tell: this runs inside the commit everybody waits for.
        let is_small = ask.length_at_most().is_some_and(|most| most <= LARGEST_HELD);
        let subject = match is_small || json_length(ask)? <= LARGEST_HELD as u64 {
            true => Subject::Ask(Box::new(ask.clone())),
            false => Subject::Large(Large::Ask { id: ask.id.clone(), ended: !ask.state.is_open() }),
        };
        self.changes.push(Change::new(seq, subject));
        Ok(())
    }

    pub fn publish_agent(&mut self, agent: Agent) -> Result<(), StoreError> {
        let detail = serde_json::to_string(&agent).map_err(unreadable)?;
        let seq = self.put_in_outbox("agent", agent.id.as_str(), &detail)?;
        let subject = match detail.len() <= LARGEST_HELD {
            true => Subject::Agent(Box::new(agent)),
            false => Subject::Large(Large::Agent(agent.id)),
        };
        self.changes.push(Change::new(seq, subject));
        Ok(())
    }

    pub fn publish_event(&mut self, agent: &AgentId, event: Value, at: Timestamp) -> Result<(), StoreError> {
        let seq = self.put_in_outbox("event", agent.as_str(), "")?;
        let detail = self.put_event(seq, agent, &event, at)?;
        let subject = match detail <= LARGEST_HELD {
            true => Subject::Event(agent.clone(), event),
            false => Subject::Large(Large::Event(agent.clone())),
        };
        self.changes.push(Change::new(seq, subject));
        Ok(())
    }

    pub fn publish_notice(&mut self, notice: Value) -> Result<(), StoreError> {
        let detail = notice.to_string();
        let seq = self.put_in_outbox("notice", "hub", &detail)?;
        let subject = match detail.len() <= LARGEST_HELD {
            true => Subject::Notice(notice),
            false => Subject::Large(Large::Notice),
        };
        self.changes.push(Change::new(seq, subject));
        Ok(())
    }

    fn put_in_outbox(&self, kind: &str, subject: &str, detail: &str) -> Result<u64, StoreError> {
        // With few cores, the next request of an agent would otherwise queue behind all that others have reported.
        yield_now();
        let sql = "INSERT INTO outbox (type, subject, detail) VALUES (?1, ?2, ?3)";
        Ok(self.connection.insert(sql, params![kind, subject, detail], "seq")?.cast_unsigned())
    }

    /// Forgets some of all but the newest changes, the oldest first; true if there may be more.
    pub fn prune_outbox(&self, keep: u64) -> Result<bool, StoreError> {
        let sql = "DELETE FROM outbox WHERE seq IN
             (SELECT seq FROM outbox WHERE seq <= (SELECT max(seq) FROM outbox) - ?1 ORDER BY seq LIMIT ?2)";
        Ok(self.connection.execute(sql, params![keep, PRUNED_AT_ONCE])? > 0)
    }
}

impl Reader {
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let open = AskFilter {
            state: Some("open".into()),
            limit: u32::MAX,
            most_bytes: Some(SNAPSHOT_BYTES),
            ..AskFilter::default()
        };
        let page = self.asks(&open)?;
        Ok(Snapshot {
            seq: self.last_seq()?,
            next: page.next(),
            asks: page.asks,
            agents: self.agents(false)?.iter().map(AgentRow::agent).collect(),
        })
    }

    /// The number of the last change that is on disk.
    pub fn last_seq(&self) -> Result<u64, StoreError> {
        self.connection.last_number("outbox")
    }

    pub fn catch_up(&self, after: u64) -> Result<CatchUp, StoreError> {
        let last = self.last_seq()?;
        let first: Option<i64> = self.connection.one_value("SELECT min(seq) FROM outbox", params![])?;
        let first = first.map_or(last + 1, i64::cast_unsigned);
        if after > last || after + 1 < first {
            return Ok(CatchUp::Unknown);
        }
        let (changes, through, more) = self.changes_after(after, i64::MAX.cast_unsigned(), |whole| whole)?;
        Ok(CatchUp::Missed { changes, through, more })
    }

    /// The changes after a number up to another, at most as many as are read at once.
    pub(super) fn missed(&self, after: u64, last: u64) -> Result<Missed, StoreError> {
        let (changes, through, _) = self.changes_after(after, last, |(subject, length)| {
            let is_small = length <= LARGEST_HELD;
            (if is_small { subject } else { subject.held_back() }, length.min(LARGEST_HELD))
        })?;
        let is_whole = self.connection.exists("SELECT 1 FROM outbox WHERE seq = ?1", params![after + 1])?;
        Ok(if is_whole { Missed::Known { changes, through } } else { Missed::Unknown })
    }

    /// Also up to which number that is, and whether there may be more.
    fn changes_after(
        &self,
        after: u64,
        last: u64,
        as_held: impl Fn((Subject, usize)) -> (Subject, usize),
    ) -> Result<(Vec<Change>, u64, bool), StoreError> {
        let sql = "SELECT seq, type, subject, detail FROM outbox WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";
        let (mut changes, mut read) = (Vec::new(), 0);
        let (mut bytes, mut through) = (0, after);
        self.connection.each(sql, params![after, last, CATCH_UP_AT_ONCE], |row| {
            (read, through) = (read + 1, row.get(0)?);
            let read = pass_by("outbox", self.read_subject(through, row))?.flatten();
            if let Some((subject, length)) = read.map(&as_held) {
                bytes += length;
                changes.push(Change::new(through, subject));
            }
            let is_enough = bytes >= CATCH_UP_BYTES;
            Ok::<_, StoreError>(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok((changes, through, bytes >= CATCH_UP_BYTES || read == CATCH_UP_AT_ONCE))
    }

    /// What changed, and how many bytes that has; none if it was forgotten since.
    fn read_subject(&self, seq: u64, row: &Row) -> Result<Option<(Subject, usize)>, StoreError> {
        let (kind, subject, detail): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let mut length = detail.len();
        let subject = match kind.as_str() {
            "ask" => {
                let ask = self.ask_as_it_stood(&subject, &detail)?;
                length += usize::try_from(json_length(&ask)?).unwrap_or(usize::MAX);
                Subject::Ask(Box::new(ask))
            }
            "agent" => Subject::Agent(Box::new(serde_json::from_str(&detail).map_err(unreadable)?)),
            "notice" => Subject::Notice(json(&detail)?),
            _ => {
                let Some((event_length, event)) = self.event(seq)? else { return Ok(None) };
                length += event_length;
                Subject::Event(AgentId::try_from(subject).map_err(unreadable)?, event)
            }
        };
        Ok(Some((subject, length)))
    }

    fn ask_as_it_stood(&self, id: &str, state: &str) -> Result<Ask, StoreError> {
        let id = AskId::try_from(id).map_err(unreadable)?;
        let ask = self.ask_to_show(&id)?.ok_or_else(|| unreadable("a change of an ask that is not there"))?;
        let then: OutboxState = serde_json::from_str(state).map_err(unreadable)?;
        Ok(Ask { state: then.before(ask.state), ..ask })
    }
}

/// Counts the bytes of a value as JSON, without writing them anywhere.
pub fn json_length(value: &impl Serialize) -> Result<u64, StoreError> {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_err(unreadable)?;
    Ok(count.0 as u64)
}
