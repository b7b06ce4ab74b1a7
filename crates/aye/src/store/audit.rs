//! The audit trail: written in the same transaction as what it tells of, read back by `log`; `verify/` checks it.

use super::asks::{json, time};
use super::keying::{KEYED, REKEYED};
use super::row_mac::pass_by;
use super::{Reader, StoreError, Tx, one};
use aye_core::trail::{Chain, ChainKey, GENESIS, Line};
use aye_core::{AgentId, AskId, Proof};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use serde_json::Value;

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
        self.chain = append(self.connection, &self.chain, &line, self.key)?;
        Ok(())
    }
}

/// Writes the line after this chain, and returns the chain with it.
pub(super) fn append(
    connection: &Connection,
    chain: &Chain,
    line: &Line,
    key: &ChainKey,
) -> Result<Chain, StoreError> {
    let hash = line.hash(&chain.head, Some(key));
    let mut statement = connection.prepare_cached(
        "INSERT INTO audit (seq, at, kind, who, agent, ask, detail, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let written = statement.execute((
        line.seq,
        line.at.as_millisecond(),
        &line.kind,
        &line.who,
        &line.agent,
        &line.ask,
        line.detail.to_string(),
        &hash,
    ))?;
    one(written, "audit", &line.seq.to_string())?;
    Ok(Chain { head: hash, lines: line.seq })
}

pub fn chain_head(connection: &Connection) -> Result<Chain, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")?;
    let head =
        statement.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).optional()?;
    Ok(head.map_or_else(Chain::default, |(seq, head)| Chain { head, lines: seq.cast_unsigned() }))
}

/// Whether the newest line of this chain is in the trail.
pub(super) fn has_line(connection: &Connection, chain: &Chain) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM audit WHERE seq = ?1 AND hash = ?2")?;
    Ok(statement.exists((chain.lines, &chain.head))?)
}

impl Reader {
    /// What allowing took by the policy that was last in force; none if an older version wrote the line of it. Where the
    /// trail was changed, it is not known, and so the most.
    pub fn last_proof(&self) -> Result<Option<Proof>, StoreError> {
        let found = self.newest_own_line(|line| {
            matches!(line.kind.as_str(), "hub.started" | "policy.read").then(|| line.detail["proof"].clone())
        });
        match pass_by("audit", found)? {
            Some(proof) => Ok(proof.and_then(|proof| serde_json::from_value(proof).ok())),
            None => Ok(Some(Proof::Passkey)),
        }
    }

    /// What `look` finds first in the lines written with the hub's present key, newest first. Each is checked before it
    /// is looked at.
    pub(super) fn newest_own_line<T>(
        &self,
        mut look: impl FnMut(&Line) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(key) = self.key() else { return Ok(None) };
        let sql = "SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit ORDER BY seq DESC";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut next: Option<(Line, String)> = None;
        loop {
            let this = match rows.next()? {
                Some(row) => Some((read_line(row)?, row.get::<_, String>("hash")?)),
                None => None,
            };
            if let Some((line, hash)) = next {
                let previous = this.as_ref().map_or(GENESIS, |(_, hash)| hash);
                if line.hash(previous, Some(key)) != hash {
                    return Err(StoreError::Foreign { table: "audit", id: line.seq.to_string() });
                }
                let found = look(&line);
                let begins = matches!(line.kind.as_str(), KEYED | REKEYED);
                if found.is_some() || begins {
                    return Ok(found);
                }
            }
            if this.is_none() {
                return Ok(None);
            }
            next = this;
        }
    }

    /// How many lines the trail has.
    pub fn count_lines(&self) -> Result<u64, StoreError> {
        Ok(self.connection.query_row("SELECT count(*) FROM audit", [], |row| row.get(0))?)
    }

    /// Calls `each` with every line and its hash, oldest first.
    pub fn whole_trail<E: From<StoreError>>(
        &self,
        mut each: impl FnMut(Line, String) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit ORDER BY seq";
        let mut statement = self.connection.prepare(sql).map_err(StoreError::from)?;
        let mut rows = statement.query([]).map_err(StoreError::from)?;
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            let hash = row.get("hash").map_err(StoreError::from)?;
            each(read_line(row)?, hash)?;
        }
        Ok(())
    }

    /// Calls `each` with the lines that fit, oldest first.
    pub fn trail<E: From<StoreError>>(
        &self,
        filter: &AuditFilter,
        mut each: impl FnMut(Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT * FROM (
                 SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit
                 WHERE (:agent IS NULL OR agent = :agent) AND (:ask IS NULL OR ask = :ask)
                   AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
                   AND (:who IS NULL OR instr(lower(who), lower(:who)) > 0)
                   AND (:kind IS NULL OR substr(kind, 1, length(:kind)) = :kind)
                 ORDER BY seq DESC LIMIT :limit
             ) ORDER BY seq";
        let mut statement = self.connection.prepare(sql).map_err(StoreError::from)?;
        let params = named_params! {
            ":agent": filter.agent,
            ":ask": filter.ask,
            ":since": filter.since.map(Timestamp::as_millisecond),
            ":until": filter.until.map(Timestamp::as_millisecond),
            ":who": filter.who,
            ":kind": filter.kind,
            ":limit": filter.limit.map_or(-1, i64::from),
        };
        let mut rows = statement.query(params).map_err(StoreError::from)?;
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            each(read_line(row)?)?;
        }
        Ok(())
    }
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
