//! The audit trail: written in the same transaction as what it tells of, read back by `log`; `verify/` checks it.

use super::asks::{json, time};
use super::keying::{KEYED, REKEYED};
use super::row_mac::pass_by;
use super::sql::{Conditions, Connection, Row, containing, params};
use super::{Reader, StoreError, Tx, one};
use aye_core::trail::{Chain, ChainKey, GENESIS, Line};
use aye_core::{AgentId, AskId, Proof};
use jiff::Timestamp;
use serde_json::Value;
use std::ops::ControlFlow;

/// Lines that are held in memory at once: a server sends all that it is asked for.
const LINES_AT_ONCE: i64 = 1_000;

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
    let sql = "INSERT INTO audit (seq, at, kind, who, agent, ask, detail, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let written = connection.execute(
        sql,
        params![
            line.seq,
            line.at.as_millisecond(),
            line.kind,
            line.who,
            line.agent,
            line.ask,
            line.detail.to_string(),
            hash,
        ],
    )?;
    one(written, "audit", &line.seq.to_string())?;
    Ok(Chain { head: hash, lines: line.seq })
}

pub fn chain_head(connection: &Connection) -> Result<Chain, StoreError> {
    let sql = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1";
    let read = |row: &Row| Ok(Chain { lines: row.get::<i64>(0)?.cast_unsigned(), head: row.get(1)? });
    Ok(connection.first(sql, params![], read)?.unwrap_or_default())
}

/// The chain with all lines after this one, each of which must have been written with the key. `each` is called with them
/// before it is known that all of them are good.
pub(super) fn go_on_from(
    connection: &Connection,
    chain: &Chain,
    key: &ChainKey,
    mut each: impl FnMut(Line),
) -> Result<Chain, StoreError> {
    let not_ours = || StoreError::RolledBack { line: chain.lines };
    let sql = "SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit WHERE seq >= ?1 ORDER BY seq LIMIT ?2";
    let (mut newest, mut is_found) = (chain.clone(), chain.lines == 0);
    loop {
        let (from, mut read) = (newest.clone(), 0);
        connection.each(sql, params![from.lines, LINES_AT_ONCE], |row| {
            read += 1;
            let (line, hash) = (read_line(row)?, row.get::<String>(7)?);
            if line.seq == from.lines {
                is_found |= hash == from.head;
                return Ok(ControlFlow::Continue(()));
            }
            let is_next = is_found && line.seq == newest.lines + 1;
            if !is_next || line.hash(&newest.head, Some(key)) != hash {
                return Err(not_ours());
            }
            newest = Chain { lines: line.seq, head: hash };
            each(line);
            Ok(ControlFlow::Continue(()))
        })?;
        match (is_found, read == LINES_AT_ONCE) {
            (false, _) => return Err(not_ours()),
            (true, false) => return Ok(newest),
            (true, true) => {}
        }
    }
}

/// Whether the newest line of this chain is in the trail.
pub(super) fn has_line(connection: &Connection, chain: &Chain) -> Result<bool, StoreError> {
    connection.exists("SELECT 1 FROM audit WHERE seq = ?1 AND hash = ?2", params![chain.lines, chain.head])
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
        let sql = "SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit WHERE seq <= ?1 ORDER BY seq DESC LIMIT ?2";
        let mut found = None;
        let mut next: Option<(Line, String)> = None;
        let mut check = |line: &Line, hash: &str, previous: &str| {
            if line.hash(previous, Some(key)) != hash {
                return Err(StoreError::Foreign { table: "audit", id: line.seq.to_string() });
            }
            found = look(line);
            let begins = matches!(line.kind.as_str(), KEYED | REKEYED);
            Ok(if found.is_some() || begins { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let mut is_done = ControlFlow::Continue(());
        let (mut last, mut is_more) = (i64::MAX, true);
        while is_more && is_done.is_continue() {
            let (mut read, from) = (0, last);
            self.connection.each(sql, params![from, LINES_AT_ONCE], |row| {
                read += 1;
                last = row.get::<i64>(0)? - 1;
                let this = (read_line(row)?, row.get::<String>(7)?);
                if let Some((line, hash)) = &next {
                    is_done = check(line, hash, &this.1)?;
                }
                next = Some(this);
                Ok::<_, StoreError>(is_done)
            })?;
            is_more = read == LINES_AT_ONCE;
        }
        if let (ControlFlow::Continue(()), Some((line, hash))) = (is_done, &next) {
            let _first = check(line, hash, GENESIS)?;
        }
        Ok(found)
    }

    /// How many lines the trail has.
    pub fn count_lines(&self) -> Result<u64, StoreError> {
        self.connection.one_value("SELECT count(*) FROM audit", params![])
    }

    /// Calls `each` with every line and its hash, oldest first.
    pub fn whole_trail<E: From<StoreError>>(
        &self,
        mut each: impl FnMut(Line, String) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let (mut last, mut is_more) = (i64::MIN, true);
        while is_more {
            let (mut read, from) = (0, last);
            self.connection.each(sql, params![from, LINES_AT_ONCE], |row| {
                read += 1;
                last = row.get(0)?;
                each(read_line(row)?, row.get(7)?)?;
                Ok::<_, E>(ControlFlow::Continue(()))
            })?;
            is_more = read == LINES_AT_ONCE;
        }
        Ok(())
    }

    /// Calls `each` with the lines that fit, oldest first.
    pub fn trail<E: From<StoreError>>(
        &self,
        filter: &AuditFilter,
        mut each: impl FnMut(Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let (since, until) =
            (filter.since.map(Timestamp::as_millisecond), filter.until.map(Timestamp::as_millisecond));
        let who = filter.who.as_deref().map(containing);
        let has_who = format!("who {} :who ESCAPE '\\'", self.connection.like());
        let mut conditions = Conditions::default();
        conditions.given(":agent", &filter.agent, "agent = :agent");
        conditions.given(":ask", &filter.ask, "ask = :ask");
        conditions.given(":since", &since, "at >= :since");
        conditions.given(":until", &until, "at < :until");
        conditions.given(":who", &who, &has_who);
        conditions.given(":kind", &filter.kind, "substr(kind, 1, length(:kind)) = :kind");
        let newest = match filter.limit {
            Some(limit) => format!("LIMIT {limit}"),
            None => String::new(),
        };
        let sql = format!(
            "SELECT * FROM (
                 SELECT seq, at, kind, who, agent, ask, detail, hash FROM audit WHERE {}
                 ORDER BY seq DESC {newest}
             ) AS newest ORDER BY seq",
            conditions.text()
        );
        self.connection.each(&sql, conditions.values(), |row| {
            each(read_line(row)?)?;
            Ok(ControlFlow::Continue(()))
        })
    }
}

fn read_line(row: &Row) -> Result<Line, StoreError> {
    Ok(Line {
        seq: row.get(0)?,
        at: time(row.get(1)?)?,
        kind: row.get(2)?,
        who: row.get(3)?,
        agent: row.get(4)?,
        ask: row.get(5)?,
        detail: json(&row.get::<String>(6)?)?,
    })
}
