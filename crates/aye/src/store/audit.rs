//! The audit trail: written in the same transaction as what it tells of, read back by `log` and `verify`.

use super::asks::{self, json, time, unreadable};
use super::{StoreError, Tx};
use aye_core::trail::{Broken, Chain, Line};
use aye_core::{AgentId, AskId, Digest};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub agent: Option<String>,
    pub ask: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Part of a person's or a rule's name.
    pub who: Option<String>,
    /// How the kind begins: `ask`, `receipt.disputed`, …
    pub kind: Option<String>,
    /// The newest so many.
    pub limit: Option<u32>,
}

/// What a check of the trail found when it found nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub lines: u64,
    pub asks: u64,
    pub head: String,
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("the chain is broken: {0}")]
    Chain(#[from] Broken),
    #[error("the trail does not contain that head: its end was cut off, or it is another trail")]
    Cut,
    #[error("asks were raised or ended behind the trail's back")]
    Untold,
    #[error("ask {ask}: {problem}")]
    Ask { ask: String, problem: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Tx<'_> {
    pub fn audit(
        &mut self,
        at: Timestamp,
        kind: &str,
        who: &str,
        agent: Option<&AgentId>,
        ask: Option<&AskId>,
        detail: Value,
    ) -> Result<(), StoreError> {
        let line = Line {
            seq: self.chain.lines + 1,
            at,
            kind: kind.to_owned(),
            who: who.to_owned(),
            agent: agent.map(|agent| agent.as_str().to_owned()),
            ask: ask.map(|ask| ask.as_str().to_owned()),
            detail,
        };
        let hash = line.hash(&self.chain.head);
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO audit (seq, at, kind, who, agent, ask, detail, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        statement.execute((
            line.seq,
            at.as_millisecond(),
            &line.kind,
            &line.who,
            &line.agent,
            &line.ask,
            line.detail.to_string(),
            &hash,
        ))?;
        self.chain = Chain { head: hash, lines: line.seq };
        Ok(())
    }
}

pub fn chain_head(connection: &Connection) -> Result<Chain, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")?;
    let head =
        statement.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).optional()?;
    Ok(head.map_or_else(Chain::default, |(seq, head)| Chain { head, lines: seq.cast_unsigned() }))
}

/// Calls `each` with the lines that fit, oldest first.
pub fn read(
    connection: &Connection,
    filter: &AuditFilter,
    mut each: impl FnMut(Line) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(
        "SELECT * FROM (
             SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit
             WHERE (:agent IS NULL OR agent = :agent) AND (:ask IS NULL OR ask = :ask)
               AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
               AND (:who IS NULL OR instr(lower(who), lower(:who)) > 0)
               AND (:kind IS NULL OR substr(kind, 1, length(:kind)) = :kind)
             ORDER BY seq DESC LIMIT :limit
         ) ORDER BY seq",
    )?;
    let mut rows = statement.query(named_params! {
        ":agent": filter.agent,
        ":ask": filter.ask,
        ":since": filter.since.map(Timestamp::as_millisecond),
        ":until": filter.until.map(Timestamp::as_millisecond),
        ":who": filter.who,
        ":kind": filter.kind,
        ":limit": filter.limit.map_or(-1, i64::from),
    })?;
    while let Some(row) = rows.next()? {
        each(read_line(row)?)?;
    }
    Ok(())
}

/// Follows the chain from its first line, and compares every ask with what the trail says of it.
///
/// With `contains`, the trail must also pass through a head that was noted earlier.
pub fn verify(connection: &mut Connection, contains: Option<&str>) -> Result<Verified, VerifyError> {
    let tx = connection.transaction().map_err(StoreError::from)?;
    let mut chain = Chain::default();
    let mut statement = tx
        .prepare("SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit ORDER BY seq")
        .map_err(StoreError::from)?;
    let mut rows = statement.query([]).map_err(StoreError::from)?;
    let (mut asks_raised, mut asks_ended) = (0, 0);
    let mut receipts: HashMap<String, (String, Value)> = HashMap::new();
    let mut passed = contains.is_none();
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        let line = read_line(row)?;
        let hash: String = row.get("hash").map_err(StoreError::from)?;
        chain.follow(&line, &hash)?;
        passed |= contains == Some(hash.as_str());
        let Some(id) = &line.ask else { continue };
        let wrong = |problem| VerifyError::Ask { ask: id.clone(), problem };
        match line.kind.as_str() {
            "ask.raised" => {
                asks_raised += 1;
                let ask =
                    find_ask(&tx, id)?.ok_or_else(|| wrong("the trail knows it, the database does not"))?;
                let digest = Digest::of(&ask.cwd, &ask.body);
                if line.detail["digest"] != digest.as_str() || ask.digest != digest {
                    return Err(wrong("its text is not the one that was raised"));
                }
                let as_raised = line.detail["key"] == ask.key.as_str()
                    && line.agent.as_deref() == Some(ask.agent.as_str())
                    && line.at == ask.created_at;
                if !as_raised {
                    return Err(wrong("it was not raised as the trail says"));
                }
            }
            "ask.answered" | "ask.expired" | "ask.withdrawn" => {
                asks_ended += 1;
                let ask =
                    find_ask(&tx, id)?.ok_or_else(|| wrong("the trail knows it, the database does not"))?;
                let answer = ask.state.answer().map_or(Value::Null, aye_core::Answer::to_json);
                let as_told = line.kind == format!("ask.{}", ask.state.name())
                    && line.detail["answer"] == answer
                    && line.detail["by"] == serde_json::to_value(ask.state.by()).map_err(unreadable)?
                    && Some(line.at) == ask.state.ended_at();
                if !as_told {
                    return Err(wrong("it did not end as the trail says"));
                }
                if ask.state.receipt().is_some() {
                    receipts.insert(id.clone(), ("pending".into(), Value::Null));
                }
            }
            kind => {
                if let Some(receipt) = kind.strip_prefix("receipt.") {
                    receipts.insert(id.clone(), (receipt.to_owned(), line.detail["evidence"].clone()));
                }
            }
        }
    }
    drop(rows);
    drop(statement);
    let (all, ended): (u64, u64) = tx
        .query_row("SELECT count(*), count(ended_at) FROM asks", [], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?))
        })
        .map_err(StoreError::from)?;
    if (all, ended) != (asks_raised, asks_ended) {
        return Err(VerifyError::Untold);
    }
    compare_receipts(&tx, receipts)?;
    if !passed {
        return Err(VerifyError::Cut);
    }
    Ok(Verified { lines: chain.lines, asks: all, head: chain.head })
}

/// Every outcome has got as far as the last that the trail says of it, and no further.
fn compare_receipts(
    connection: &Connection,
    mut told: HashMap<String, (String, Value)>,
) -> Result<(), VerifyError> {
    let wrong = |ask: String| VerifyError::Ask { ask, problem: "its receipt is not the one in the trail" };
    let mut statement = connection
        .prepare("SELECT id, receipt, evidence FROM asks WHERE receipt IS NOT NULL")
        .map_err(StoreError::from)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
    });
    for row in rows.map_err(StoreError::from)? {
        let (id, receipt, evidence) = row.map_err(StoreError::from)?;
        if told.remove(&id) != Some((receipt, Value::from(evidence))) {
            return Err(wrong(id));
        }
    }
    told.into_keys().next().map_or(Ok(()), |id| Err(wrong(id)))
}

fn find_ask(connection: &Connection, id: &str) -> Result<Option<aye_core::Ask>, StoreError> {
    asks::ask(connection, &AskId::try_from(id).map_err(unreadable)?)
}

fn read_line(row: &Row) -> Result<Line, StoreError> {
    Ok(Line {
        seq: row.get::<_, u64>("seq")?,
        at: time(row.get("at")?)?,
        kind: row.get("kind")?,
        who: row.get("who")?,
        agent: row.get("agent")?,
        ask: row.get("ask")?,
        detail: json(&row.get::<_, String>("detail")?)?,
    })
}
