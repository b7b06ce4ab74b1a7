//! A long past, written straight into the database: what a hub has after years, in seconds.

use crate::asks::body;
use anyhow::Context;
use aye_core::trail::{Chain, ChainKey, Line};
use aye_core::{Answer, AskId, Body, Digest, Kind};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction};
use serde_json::{Value, json};
use std::path::Path;

/// How many asks an agent raises before it ends.
const ASKS_OF_AN_AGENT: usize = 100;
/// The text of an ask repeats; that saves time here and none in the hub.
const TEXTS: usize = 24;
/// The hub keeps no more changes than these.
const CHANGES_KEPT: usize = 200_000;

struct Text {
    kind: Kind,
    body: String,
    digest: Digest,
    answer: Value,
}

/// Adds ended asks until there are `total`, with their agents, their audit lines and what the
/// surfaces were told of the last of them.
pub fn extend(database: &Path, total: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(database)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -400_000)?;
    let tx = connection.transaction()?;
    let found: usize = tx.query_row("SELECT count(*) FROM asks", [], |row| row.get(0))?;
    let texts = (0..TEXTS).map(text).collect::<anyhow::Result<Vec<_>>>()?;
    let mut past = Past { chain: chain(&tx)?, key: key(database)?, tx: &tx };
    for n in found..total {
        past.ask(n, &texts[n % TEXTS], n + CHANGES_KEPT / 2 >= total)?;
    }
    tx.execute("DELETE FROM outbox WHERE seq <= (SELECT max(seq) FROM outbox) - ?1", [CHANGES_KEPT])?;
    tx.commit()?;
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")?;
    Ok(())
}

fn text(n: usize) -> anyhow::Result<Text> {
    let (question, body) = body(n);
    let kind = if question { Kind::Question } else { Kind::Permission };
    let answer = match question {
        true => json!({"answers": [{"selected": ["SQLite"]}]}),
        false => json!({"decision": "allow", "scope": "once"}),
    };
    // Read and written again, so that it is there as the hub writes it.
    let body = Body::decode(kind, body).map_err(|invalid| anyhow::anyhow!("{invalid}"))?;
    let answer = Answer::read(&body, answer).map_err(|invalid| anyhow::anyhow!("{invalid}"))?.to_json();
    Ok(Text { kind, digest: Digest::of("/work", &body), body: body.to_json().to_string(), answer })
}

/// The hub's own key, beside the database that the hub made.
fn key(database: &Path) -> anyhow::Result<ChainKey> {
    let text = std::fs::read_to_string(database.with_file_name("chain.key"))?;
    let digits = text.get(..64).context("chain.key is damaged")?;
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16)?;
    }
    Ok(ChainKey::new(bytes))
}

fn chain(tx: &Transaction) -> anyhow::Result<Chain> {
    let head = tx
        .query_row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", [], |row| {
            Ok(Chain { lines: row.get(0)?, head: row.get(1)? })
        })
        .optional()?;
    Ok(head.unwrap_or_default())
}

struct Past<'a> {
    chain: Chain,
    key: ChainKey,
    tx: &'a Transaction<'a>,
}

impl Past<'_> {
    fn ask(&mut self, n: usize, text: &Text, published: bool) -> anyhow::Result<()> {
        let at = Timestamp::from_second(1_600_000_000 + i64::try_from(n)?).context("a time")?;
        let agent = format!("past-{}", n / ASKS_OF_AN_AGENT);
        if n.is_multiple_of(ASKS_OF_AN_AGENT) {
            self.tx
                .prepare_cached(
                    "INSERT INTO agents (id, kind, reach, host, cwd, title, report, created_at)
                     VALUES (?1, 'claude', 'hooked', 'host', '/work', 'A session', 'ended', ?2)",
                )?
                .execute((&agent, at.as_millisecond()))?;
            self.audit(at, "agent.registered", &agent, &agent, None, json!({"kind": "claude"}))?;
        }
        // Spread like random ids, and the same in every run.
        let id = AskId::from_random((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
        let (by, receipt) = (json!({"name": "somebody", "surface": "web"}), "confirmed");
        self.tx
            .prepare_cached(
                "INSERT INTO asks (id, agent, key, cwd, kind, body, digest, created_at, state, answer, by,
                     ended_at, receipt)
                 VALUES (?1, ?2, ?3, '/work', ?4, ?5, ?6, ?7, 'answered', ?8, ?9, ?7, ?10)",
            )?
            .execute((
                id.as_str(),
                &agent,
                format!("{agent}/{n}"),
                text.kind.as_str(),
                &text.body,
                text.digest.as_str(),
                at.as_millisecond(),
                text.answer.to_string(),
                by.to_string(),
                receipt,
            ))?;
        let raised = json!({"kind": text.kind, "digest": text.digest, "deadline": null});
        self.audit(at, "ask.raised", &agent, &agent, Some(&id), raised)?;
        let answered = json!({"digest": text.digest, "answer": text.answer, "by": by, "why": null});
        self.audit(at, "ask.answered", "somebody (web)", &agent, Some(&id), answered)?;
        if published {
            let standing = [
                json!({"state": "open", "receipt": null, "answer": null, "by": null, "ended_at": null, "note": null}),
                json!({"state": "answered", "receipt": receipt, "answer": text.answer, "by": by, "ended_at": at, "note": null}),
            ];
            let mut insert = self
                .tx
                .prepare_cached("INSERT INTO outbox (type, subject, detail) VALUES ('ask', ?1, ?2)")?;
            for standing in standing {
                insert.execute((id.as_str(), standing.to_string()))?;
            }
        }
        Ok(())
    }

    fn audit(
        &mut self,
        at: Timestamp,
        kind: &str,
        who: &str,
        agent: &str,
        ask: Option<&AskId>,
        detail: Value,
    ) -> anyhow::Result<()> {
        let line = Line {
            seq: self.chain.lines + 1,
            at,
            kind: kind.to_owned(),
            who: who.to_owned(),
            agent: Some(agent.to_owned()),
            ask: ask.map(|ask| ask.as_str().to_owned()),
            detail,
        };
        let hash = line.hash(&self.chain.head, Some(&self.key));
        self.tx
            .prepare_cached(
                "INSERT INTO audit (seq, at, kind, who, agent, ask, detail, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute((
                line.seq,
                at.as_millisecond(),
                kind,
                who,
                agent,
                &line.ask,
                line.detail.to_string(),
                &hash,
            ))?;
        self.chain = Chain { head: hash, lines: line.seq };
        Ok(())
    }
}
