use super::row_mac::{ASKS, check_ours, of_params, pass_by};
use super::{AgentRow, Reader, StoreError, Tx, one};
use aye_core::lifecycle::Delivery;
use aye_core::{
    AgentId, Answer, AnswerKey, Ask, AskHead, AskId, Body, By, Digest, Evidence, Expiry, Extras, Key, Kind,
    Proof, Receipt, State, Withdrawal,
};
use jiff::Timestamp;
use rusqlite::types::{FromSql, Null};
use rusqlite::{OptionalExtension, Params, Row, named_params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// So many are ended in one go, so that others get their turn.
const AT_ONCE: usize = 256;

#[derive(Debug, Clone, Default)]
pub struct AskFilter {
    /// `open`, `answered`, `expired`, `withdrawn`, or `ended` for any but open; all without it.
    pub state: Option<String>,
    pub agent: Option<AgentId>,
    pub kind: Option<Kind>,
    pub decided_by: Option<Decider>,
    /// What people look for, in what was asked, answered, by whom and where.
    pub words: Option<String>,
    /// Only asks raised before this one.
    pub before: Option<AskId>,
    /// Only asks raised after this one.
    pub after: Option<AskId>,
    /// How the id begins, as people type it.
    pub id_prefix: Option<String>,
    pub limit: u32,
    /// As many bytes as the asks together may have in the database; one of any length always fits.
    pub most_bytes: Option<usize>,
}

/// Asks as far as a filter lets them through.
#[derive(Debug)]
pub struct AskPage {
    pub asks: Vec<Ask>,
    /// Whether there are more: the list goes on after the last of these.
    pub more: bool,
}

impl AskPage {
    /// Where the list goes on, if it does.
    pub fn next(&self) -> Option<AskId> {
        self.asks.last().filter(|_| self.more).map(|ask| ask.id.clone())
    }
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    Person,
    AnyRule,
    Rule(String),
}

impl Tx<'_> {
    /// Takes the ask as it is raised, open.
    pub fn insert_ask(&self, ask: &Ask) -> Result<(), StoreError> {
        let has_extras = ask.body.kind() == Kind::Permission || ask.extras != Extras::default();
        let extras = has_extras.then(|| serde_json::to_string(&ask.extras));
        let extras = extras.transpose().map_err(unreadable)?;
        let mac = of_params(ASKS);
        let mut statement = self.connection.prepare_cached(&format!(
            "INSERT INTO asks (id, agent, key, cwd, tool_use_id, sub_agent, kind, body, digest, created_at, deadline, proof,
                 extras, cwd_checked, mac)
             VALUES (:id, :agent, :key, :cwd, :tool_use_id, :sub_agent, :kind, :body, :digest, :created_at, :deadline, :proof,
                 :extras, :cwd_checked, {mac})"
        ))?;
        let put = statement.execute(named_params! {
            ":id": ask.id.as_str(),
            ":agent": ask.agent.as_str(),
            ":key": ask.key.as_str(),
            ":cwd": ask.cwd,
            ":tool_use_id": ask.tool_use_id,
            ":sub_agent": ask.sub_agent,
            ":kind": ask.body.kind().as_str(),
            ":body": ask.body.to_json().to_string(),
            ":digest": ask.digest.as_str(),
            ":created_at": ask.created_at.as_millisecond(),
            ":deadline": ask.deadline.map(Timestamp::as_millisecond),
            ":proof": proof_word(ask)?,
            ":extras": extras,
            ":cwd_checked": ask.cwd_checked,
            ":state": State::Open.name(),
            ":answer": Null,
            ":by": Null,
            ":why": Null,
            ":ended_at": Null,
        })?;
        self.ask_names().into_iter().for_each(|names| names.asked(ask));
        one(put, "asks", ask.id.as_str())
    }

    /// Ends an open ask. One conditional write: whoever comes second changes nothing.
    pub fn end_ask(&self, ask: &Ask, state: &State) -> Result<bool, StoreError> {
        let (key, why) = match state {
            State::Open => return Ok(false),
            State::Answered { key, .. } => (key.as_ref().map(AnswerKey::as_str), None),
            State::Expired { why, .. } => (None, Some(word(why)?)),
            State::Withdrawn { why, .. } => (None, Some(word(why)?)),
        };
        let by = state.by().map(serde_json::to_string).transpose().map_err(unreadable)?;
        let mac = of_params(ASKS);
        let mut statement = self.connection.prepare_cached(&format!(
            "UPDATE asks SET state = :state, answer = :answer, by = :by, answer_key = :answer_key, why = :why,
                 ended_at = :ended_at, receipt = :receipt, extras = NULL, mac = {mac}
             WHERE id = :id AND state = 'open'"
        ))?;
        let changed = statement.execute(named_params! {
            ":id": ask.id.as_str(),
            ":agent": ask.agent.as_str(),
            ":key": ask.key.as_str(),
            ":tool_use_id": ask.tool_use_id,
            ":sub_agent": ask.sub_agent,
            ":cwd_checked": ask.cwd_checked,
            ":digest": ask.digest.as_str(),
            ":created_at": ask.created_at.as_millisecond(),
            ":deadline": ask.deadline.map(Timestamp::as_millisecond),
            ":proof": proof_word(ask)?,
            ":state": state.name(),
            ":answer": state.answer().map(|answer| answer.to_json().to_string()),
            ":by": by,
            ":answer_key": key,
            ":why": why,
            ":ended_at": state.ended_at().map(Timestamp::as_millisecond),
            ":receipt": state.receipt().map(Receipt::as_str),
        })?;
        Ok(changed == 1)
    }

    pub fn set_extras(&self, id: &AskId, extras: &Extras) -> Result<(), StoreError> {
        let extras = serde_json::to_string(extras).map_err(unreadable)?;
        self.connection.execute("UPDATE asks SET extras = ?2 WHERE id = ?1", (id.as_str(), extras))?;
        Ok(())
    }

    pub fn set_receipt(&self, id: &AskId, from: Receipt, to: &Delivery) -> Result<bool, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("UPDATE asks SET receipt = ?3, evidence = ?4 WHERE id = ?1 AND receipt = ?2")?;
        let changed =
            statement.execute((id.as_str(), from.as_str(), to.receipt.as_str(), to.evidence.as_deref()))?;
        Ok(changed == 1)
    }
}

impl Reader {
    /// An ask for decisions: exactly as the hub wrote it, or an error.
    pub fn ask(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        self.ask_by_id(&with_mac(BY_ID), id, read_own)
    }

    /// The same by the agent's own name for it.
    pub fn ask_by_key(&self, agent: &AgentId, key: &Key) -> Result<Option<Ask>, StoreError> {
        let sql = with_mac("WHERE n = (SELECT n FROM asks WHERE agent = ?1 AND key = ?2)");
        let is_it = |ask: &Ask| (&ask.agent, &ask.key) == (agent, key);
        self.one_ask(&sql, [agent.as_str(), key.as_str()], read_own, is_it)
    }

    /// An ask to show. What is open is shown only as its digest says.
    pub fn ask_to_show(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        self.ask_by_id(&format!("SELECT * FROM asks {BY_ID}"), id, read_shown)
    }

    /// An ask as it is in the database, to be checked.
    pub fn ask_to_check(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        self.ask_by_id(&format!("SELECT * FROM asks {BY_ID}"), id, read_row)
    }

    fn ask_by_id(&self, sql: &str, id: &AskId, read: ReadAsk) -> Result<Option<Ask>, StoreError> {
        self.one_ask(sql, [id.as_str()], read, |ask| ask.id == *id)
    }

    /// `is_it`: an index that somebody changed may lead to another.
    fn one_ask(
        &self,
        sql: &str,
        params: impl Params,
        read: ReadAsk,
        is_it: impl Fn(&Ask) -> bool,
    ) -> Result<Option<Ask>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row(params, |row| Ok(read(row))).optional()?.transpose()?;
        match found {
            Some(ask) if !is_it(&ask) => Err(StoreError::Foreign { table: "asks", id: ask.id.to_string() }),
            found => Ok(found),
        }
    }

    /// Of these asks, those that are exactly as the hub wrote them; the others hold up nobody.
    fn own_asks(&self, which: &str, params: impl Params, most: usize) -> Result<Vec<AskId>, StoreError> {
        let mut statement = self.connection.prepare_cached(&with_mac(which))?;
        let mut rows = statement.query(params)?;
        let mut ids = Vec::new();
        while ids.len() < most
            && let Some(row) = rows.next()?
        {
            ids.extend(pass_by("asks", read_own(row))?.map(|ask| ask.head.id));
        }
        Ok(ids)
    }

    /// The agent that raises an ask, and whether it has used this key before.
    pub fn asker(&self, agent: &AgentId, key: &Key) -> Result<(Option<AgentRow>, bool), StoreError> {
        let mut used = self.connection.prepare_cached("SELECT 1 FROM asks WHERE agent = ?1 AND key = ?2")?;
        Ok((self.agent(agent)?, used.exists((agent.as_str(), key.as_str()))?))
    }

    /// Those whose agent can be read.
    pub fn permissions_without_extras(&self) -> Result<Vec<Ask>, StoreError> {
        let sql = "SELECT * FROM asks WHERE state = 'open' AND kind = 'permission' AND extras IS NULL";
        self.rows("asks", sql, [], |row| {
            let ask = read_row(row)?;
            self.agent(&ask.agent).map(|_| ask)
        })
    }

    pub fn open_asks_of(&self, agent: &AgentId) -> Result<Vec<AskId>, StoreError> {
        let which = "INDEXED BY asks_open WHERE state = 'open' AND agent = ?1";
        self.own_asks(which, [agent.as_str()], usize::MAX)
    }

    /// How many asks of an agent are open, and how many bytes they have.
    pub fn open_load(&self, agent: &AgentId) -> Result<(u64, u64), StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT count(*), coalesce(sum(octet_length(body) + octet_length(coalesce(extras, '')) + octet_length(cwd)
                 + octet_length(coalesce(tool_use_id, '')) + octet_length(coalesce(sub_agent, ''))), 0)
             FROM asks INDEXED BY asks_open WHERE state = 'open' AND agent = ?1",
        )?;
        Ok(statement.query_row([agent.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    /// The index is named because SQLite would take `asks_by_agent` and look through all the agent ever asked.
    pub fn has_open_asks(&self, agent: &AgentId) -> Result<bool, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT 1 FROM asks INDEXED BY asks_open WHERE state = 'open' AND agent = ?1 LIMIT 1",
        )?;
        Ok(statement.exists([agent.as_str()])?)
    }

    pub fn some_open_asks(&self) -> Result<Vec<AskId>, StoreError> {
        self.own_asks("WHERE state = 'open'", [], AT_ONCE)
    }

    pub fn undelivered_asks_of(&self, agent: &AgentId) -> Result<Vec<AskId>, StoreError> {
        let which = "INDEXED BY asks_unsettled WHERE receipt = 'pending' AND agent = ?1";
        self.own_asks(which, [agent.as_str()], usize::MAX)
    }

    /// How many asks of all agents were ever called so. None if a row was changed or is missing, or if they are too many to
    /// be looked at.
    pub fn asks_called(&self, tool_call: &str) -> Result<Option<u64>, StoreError> {
        const MOST: u64 = 20_000;
        let raised = "SELECT count(*) FROM audit WHERE kind = 'ask.raised'";
        let raised: u64 = self.connection.prepare_cached(raised)?.query_row([], |row| row.get(0))?;
        if raised > MOST {
            return Ok(None);
        }
        let sql = format!(
            "SELECT count(*) FILTER (WHERE row_is_ours(mac, {ASKS})),
                    count(*) FILTER (WHERE coalesce(tool_use_id, key) = ?1) FROM asks"
        );
        let counts = |row: &Row| Ok((row.get::<_, u64>(0)?, row.get(1)?));
        let (ours, called) = self.connection.prepare_cached(&sql)?.query_row([tool_call], counts)?;
        Ok((ours == raised).then_some(called))
    }

    pub fn due_asks(&self, now: Timestamp) -> Result<Vec<AskId>, StoreError> {
        let which = "WHERE state = 'open' AND deadline <= ?1 ORDER BY deadline";
        self.own_asks(which, [now.as_millisecond()], AT_ONCE)
    }

    /// The next that is a time at all.
    pub fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT deadline FROM asks WHERE state = 'open' AND deadline IS NOT NULL ORDER BY deadline";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(deadline) = row.get(0).map_err(StoreError::from).and_then(time) {
                return Ok(Some(deadline));
            }
        }
        Ok(None)
    }

    /// Calls `each` with the permissions raised since then, oldest first, and the kind of agent that asked.
    pub fn permissions_since(
        &self,
        since: Timestamp,
        mut each: impl FnMut(Ask, String),
    ) -> Result<(), StoreError> {
        let sql = "SELECT asks.*, agents.kind AS agent_kind FROM asks JOIN agents ON agents.id = asks.agent
             WHERE asks.kind = 'permission' AND asks.created_at >= ?1 ORDER BY n";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([since.as_millisecond()])?;
        while let Some(row) = rows.next()? {
            if let Some(ask) = pass_by("asks", read_row(row))? {
                each(ask, row.get("agent_kind")?);
            }
        }
        Ok(())
    }

    /// How many asks there are, and how many of them have ended.
    pub fn count_asks(&self) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT count(*), count(ended_at) FROM asks";
        Ok(self.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    /// Calls `each` with every ask that has a receipt, the receipt and its evidence.
    pub fn receipts<E: From<StoreError>>(
        &self,
        mut each: impl FnMut(String, String, Option<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT id, receipt, evidence FROM asks WHERE receipt IS NOT NULL";
        let mut statement = self.connection.prepare(sql).map_err(StoreError::from)?;
        let mut rows = statement.query([]).map_err(StoreError::from)?;
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            let read = || Ok::<_, StoreError>((row.get(0)?, row.get(1)?, row.get(2)?));
            let (id, receipt, evidence) = read()?;
            each(id, receipt, evidence)?;
        }
        Ok(())
    }
}

type ReadAsk = fn(&Row) -> Result<Ask, StoreError>;

/// By its number: read by way of an index, a row's own id would be what the index says it is.
const BY_ID: &str = "WHERE n = (SELECT n FROM asks WHERE id = ?1)";

fn with_mac(which: &str) -> String {
    format!("SELECT row_is_ours(mac, {ASKS}) AS ours, * FROM asks {which}")
}

fn proof_word(ask: &Ask) -> Result<Option<String>, StoreError> {
    (!ask.proof.is_none()).then(|| word(&ask.proof)).transpose()
}

/// The MAC covers the digest, and the digest what was asked.
fn read_own(row: &Row) -> Result<Ask, StoreError> {
    check_ours(row, "asks", "id")?;
    let ask = read_row(row)?;
    match ask.digest == Digest::of(&ask.cwd, &ask.body) {
        true => Ok(ask),
        false => Err(StoreError::Foreign { table: "asks", id: ask.id.to_string() }),
    }
}

/// What a person may approve is shown only as its digest says, which the approval will name.
pub(super) fn read_shown(row: &Row) -> Result<Ask, StoreError> {
    let ask = read_row(row)?;
    match ask.state.is_open() && ask.digest != Digest::of(&ask.cwd, &ask.body) {
        true => Err(StoreError::Foreign { table: "asks", id: ask.id.to_string() }),
        false => Ok(ask),
    }
}

pub(super) fn read_row(row: &Row) -> Result<Ask, StoreError> {
    let kind: Kind = row.get::<_, String>("kind")?.parse().map_err(unreadable)?;
    let body = Body::decode(kind, json(&row.get::<_, String>("body")?)?).map_err(unreadable)?;
    let head = AskHead {
        id: name(row, "id")?,
        key: name(row, "key")?,
        agent: name(row, "agent")?,
        cwd: row.get("cwd")?,
        tool_use_id: row.get("tool_use_id")?,
        cwd_checked: newer(row, "cwd_checked")?.unwrap_or(false),
        sub_agent: newer(row, "sub_agent")?,
        digest: Digest::from(row.get::<_, String>("digest")?),
        created_at: time(row.get("created_at")?)?,
        deadline: row.get::<_, Option<i64>>("deadline")?.map(time).transpose()?,
        proof: newer::<String>(row, "proof")?.map_or(Ok(Proof::None), |proof| unword(&proof))?,
    };
    let extras = match newer::<String>(row, "extras")? {
        Some(extras) => serde_json::from_str(&extras).map_err(unreadable)?,
        None => Extras::default(),
    };
    Ok(Ask { head, body, extras, state: read_state(row, kind)? })
}

/// A column that a database of an older version, opened only to look, does not have.
pub(super) fn newer<T: FromSql>(row: &Row, column: &str) -> Result<Option<T>, StoreError> {
    match row.get(column) {
        Err(rusqlite::Error::InvalidColumnName(_)) => Ok(None),
        read => Ok(read?),
    }
}

fn read_state(row: &Row, kind: Kind) -> Result<State, StoreError> {
    let state: String = row.get("state")?;
    if state == "open" {
        return Ok(State::Open);
    }
    let at = time(row.get("ended_at")?)?;
    let answer = || -> Result<Option<Answer>, StoreError> {
        let text: Option<String> = row.get("answer")?;
        let decode = |text: String| Answer::decode(kind, json(&text)?).map_err(unreadable);
        text.map(decode).transpose()
    };
    let delivery = || -> Result<Delivery, StoreError> {
        let evidence = row.get::<_, Option<String>>("evidence")?.map(Evidence::from);
        Ok(Delivery { receipt: unword(&row.get::<_, String>("receipt")?)?, evidence })
    };
    match state.as_str() {
        "answered" => Ok(State::Answered {
            answer: answer()?.ok_or_else(|| unreadable("an answered ask without an answer"))?,
            by: serde_json::from_str::<By>(&row.get::<_, String>("by")?).map_err(unreadable)?,
            key: row
                .get::<_, Option<String>>("answer_key")?
                .map(AnswerKey::try_from)
                .transpose()
                .map_err(unreadable)?,
            at,
            delivery: delivery()?,
        }),
        "expired" => Ok(State::Expired {
            why: unword::<Expiry>(&row.get::<_, String>("why")?)?,
            at,
            delivery: delivery()?,
        }),
        "withdrawn" => Ok(State::Withdrawn {
            why: unword::<Withdrawal>(&row.get::<_, String>("why")?)?,
            answer: answer()?,
            at,
        }),
        other => Err(unreadable(format!("an ask in the state {other:?}"))),
    }
}

pub(super) fn unreadable(error: impl ToString) -> StoreError {
    StoreError::Unreadable(error.to_string())
}

pub(super) fn time(millis: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(millis).map_err(unreadable)
}

pub(super) fn json(text: &str) -> Result<Value, StoreError> {
    serde_json::from_str(text).map_err(unreadable)
}

pub(super) fn name<T: TryFrom<String, Error = &'static str>>(
    row: &Row,
    column: &str,
) -> Result<T, StoreError> {
    T::try_from(row.get::<_, String>(column)?).map_err(unreadable)
}

/// The word an enum is written as, in the database as in the API.
pub(super) fn word<T: Serialize>(value: &T) -> Result<String, StoreError> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Ok(word),
        other => Err(unreadable(format!("{other:?} is not a word"))),
    }
}

pub(super) fn unword<T: DeserializeOwned>(word: &str) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(word.to_owned())).map_err(unreadable)
}
