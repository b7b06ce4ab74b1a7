use super::row_mac::{ASKS, pass_by};
use super::sql::{Column, Row, params};
use super::{AgentRow, Reader, StoreError, Tx, one};
use aye_core::lifecycle::Delivery;
use aye_core::{
    AgentId, Answer, AnswerKey, Ask, AskHead, AskId, Body, By, Digest, Evidence, Expiry, Extras, Key, Kind,
    Proof, Receipt, State, Withdrawal,
};
use jiff::Timestamp;
use rusqlite::ToSql;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::LazyLock;

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
    /// Takes the ask as it is raised: open, or as a rule ended it in the same moment. Returns the bytes of its text.
    pub fn insert_ask(&self, ask: &Ask) -> Result<u64, StoreError> {
        let may_have_extras = ask.body.kind() == Kind::Permission || ask.extras != Extras::default();
        let has_extras = may_have_extras && ask.state.is_open();
        let extras = has_extras.then(|| serde_json::to_string(&ask.extras));
        let extras = extras.transpose().map_err(unreadable)?;
        let sql = "INSERT INTO asks (id, agent, key, cwd, tool_use_id, sub_agent, kind, body, digest, created_at, deadline, proof,
                 extras, cwd_checked, state, answer, by, answer_key, why, ended_at, receipt, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)";
        let end = End::of(&ask.state)?;
        let mac = self.mac_of_ask(ask, &end)?;
        let body = ask.body.to_json().to_string();
        let length = body.len() + extras.as_ref().map_or(0, String::len);
        let put = self.connection.execute(
            sql,
            params![
                ask.id.as_str(),
                ask.agent.as_str(),
                ask.key.as_str(),
                ask.cwd,
                ask.tool_use_id,
                ask.sub_agent,
                ask.body.kind().as_str(),
                body,
                ask.digest.as_str(),
                ask.created_at.as_millisecond(),
                ask.deadline.map(Timestamp::as_millisecond),
                proof_word(ask)?,
                extras,
                ask.cwd_checked,
                end.state,
                end.answer,
                end.by,
                end.key,
                end.why,
                end.ended_at,
                ask.state.receipt().map(Receipt::as_str),
                mac,
            ],
        )?;
        self.ask_names().into_iter().for_each(|names| names.asked(ask));
        one(put, "asks", ask.id.as_str())?;
        Ok(length as u64)
    }

    /// Ends an open ask. One conditional write: whoever comes second changes nothing.
    pub fn end_ask(&self, ask: &Ask, state: &State) -> Result<bool, StoreError> {
        if state.is_open() {
            return Ok(false);
        }
        let sql = "UPDATE asks SET state = ?2, answer = ?3, by = ?4, answer_key = ?5, why = ?6, ended_at = ?7, receipt = ?8,
                 extras = NULL, mac = ?9
             WHERE id = ?1 AND state = 'open'";
        let end = End::of(state)?;
        let (id, receipt) = (ask.id.as_str(), state.receipt().map(Receipt::as_str));
        let mac = self.mac_of_ask(ask, &end)?;
        let values = params![id, end.state, end.answer, end.by, end.key, end.why, end.ended_at, receipt, mac];
        Ok(self.connection.execute(sql, values)? == 1)
    }

    /// The MAC of an ask in this state.
    fn mac_of_ask(&self, ask: &Ask, end: &End) -> Result<String, StoreError> {
        self.mac(
            &ASKS,
            params![
                ask.id.as_str(),
                ask.agent.as_str(),
                ask.key.as_str(),
                ask.tool_use_id,
                ask.sub_agent,
                ask.cwd_checked,
                ask.digest.as_str(),
                ask.created_at.as_millisecond(),
                ask.deadline.map(Timestamp::as_millisecond),
                proof_word(ask)?,
                end.state,
                end.answer,
                end.by,
                end.why,
                end.ended_at,
            ],
        )
    }

    pub fn set_extras(&self, id: &AskId, extras: &Extras) -> Result<(), StoreError> {
        let extras = serde_json::to_string(extras).map_err(unreadable)?;
        let sql = "UPDATE asks SET extras = ?2 WHERE id = ?1";
        self.connection.execute(sql, params![id.as_str(), extras]).map(drop)
    }

    pub fn set_receipt(&self, id: &AskId, from: Receipt, to: &Delivery) -> Result<bool, StoreError> {
        let sql = "UPDATE asks SET receipt = ?3, evidence = ?4 WHERE id = ?1 AND receipt = ?2";
        let values = params![id.as_str(), from.as_str(), to.receipt.as_str(), to.evidence.as_deref()];
        Ok(self.connection.execute(sql, values)? == 1)
    }
}

impl Reader {
    /// An ask for decisions: exactly as the hub wrote it, or an error.
    pub fn ask(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        self.ask_by_id(&ASK_BY_ID, id, Self::read_own)
    }

    /// The same by the agent's own name for it.
    pub fn ask_by_key(&self, agent: &AgentId, key: &Key) -> Result<Option<Ask>, StoreError> {
        let is_it = |ask: &Ask| (&ask.agent, &ask.key) == (agent, key);
        self.one_ask(&ASK_BY_KEY, params![agent.as_str(), key.as_str()], Self::read_own, is_it)
    }

    /// An ask to show. What is open is shown only as its digest says.
    pub fn ask_to_show(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        self.ask_by_id(&self.select_by_id()?, id, |_, row| read_shown(row))
    }

    /// An ask as it is in the database, to be checked.
    pub fn ask_to_check(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        self.ask_by_id(&self.select_by_id()?, id, |_, row| read_row(row))
    }

    fn select_by_id(&self) -> Result<Cow<'static, str>, StoreError> {
        match self.is_the_hubs() {
            true => Ok(Cow::Borrowed(&ASK_BY_ID)),
            false => Ok(Cow::Owned(format!("SELECT {} FROM asks {BY_ID}", self.ask_columns()?))),
        }
    }

    /// What is read of an ask, as far as the database has it.
    pub(super) fn ask_columns(&self) -> Result<Cow<'static, str>, StoreError> {
        match self.is_the_hubs() {
            true => Ok(Cow::Borrowed(ASK_COLUMNS)),
            false => self.connection.present_columns("asks", ASK_COLUMNS).map(Cow::Owned),
        }
    }

    fn ask_by_id(&self, sql: &str, id: &AskId, read: ReadAsk) -> Result<Option<Ask>, StoreError> {
        self.one_ask(sql, params![id.as_str()], read, |ask| ask.id == *id)
    }

    /// `is_it`: an index that somebody changed may lead to another.
    fn one_ask(
        &self,
        sql: &str,
        params: &[&dyn ToSql],
        read: ReadAsk,
        is_it: impl Fn(&Ask) -> bool,
    ) -> Result<Option<Ask>, StoreError> {
        match self.connection.first(sql, params, |row| read(self, row))? {
            Some(ask) if !is_it(&ask) => Err(StoreError::Foreign { table: "asks", id: ask.id.to_string() }),
            found => Ok(found),
        }
    }

    /// Of these asks, those that are exactly as the hub wrote them; the others hold up nobody.
    fn own_asks(&self, which: &str, params: &[&dyn ToSql], most: usize) -> Result<Vec<AskId>, StoreError> {
        let mut ids = Vec::new();
        let sql = format!("SELECT {ASK_COLUMNS} FROM asks {which}");
        self.connection.each(&sql, params, |row| {
            ids.extend(pass_by("asks", self.read_own(row))?.map(|ask| ask.head.id));
            let is_enough = ids.len() == most;
            Ok::<_, StoreError>(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(ids)
    }

    /// The MAC covers the digest, and the digest what was asked.
    fn read_own(&self, row: &Row) -> Result<Ask, StoreError> {
        self.check_ours(&ASKS, row)?;
        let ask = read_row(row)?;
        match ask.digest == Digest::of(&ask.cwd, &ask.body) {
            true => Ok(ask),
            false => Err(StoreError::Foreign { table: "asks", id: ask.id.to_string() }),
        }
    }

    /// The agent that raises an ask, and whether it has used this key before.
    pub fn asker(&self, agent: &AgentId, key: &Key) -> Result<(Option<AgentRow>, bool), StoreError> {
        let sql = "SELECT 1 FROM asks WHERE agent = ?1 AND key = ?2";
        let is_used = self.connection.exists(sql, params![agent.as_str(), key.as_str()])?;
        Ok((self.agent(agent)?, is_used))
    }

    /// All keys that an agent has used, if they are no more than so many.
    pub fn keys_of(&self, agent: &AgentId, most: u32) -> Result<Option<Vec<Key>>, StoreError> {
        let sql = "SELECT key FROM asks WHERE agent = ?1 LIMIT ?2";
        let keys = self.rows("asks", sql, params![agent.as_str(), most + 1], |row| name(row, "key"))?;
        Ok(Some(keys).filter(|keys| keys.len() <= most as usize))
    }

    /// Those whose agent can be read.
    pub fn permissions_without_extras(&self) -> Result<Vec<Ask>, StoreError> {
        let sql = format!(
            "SELECT {ASK_COLUMNS} FROM asks WHERE state = 'open' AND kind = 'permission' AND extras IS NULL"
        );
        self.rows("asks", &sql, params![], |row| {
            let ask = read_row(row)?;
            self.agent(&ask.agent).map(|_| ask)
        })
    }

    pub fn open_asks_of(&self, agent: &AgentId) -> Result<Vec<AskId>, StoreError> {
        let which =
            format!("{} WHERE state = 'open' AND agent = ?1", self.connection.indexed_by("asks_open"));
        self.own_asks(&which, params![agent.as_str()], usize::MAX)
    }

    /// How many asks of an agent are open, and how many bytes they have.
    pub fn open_load(&self, agent: &AgentId) -> Result<(u64, u64), StoreError> {
        let sql = format!(
            "SELECT count(*), CAST(coalesce(sum(octet_length(body) + octet_length(coalesce(extras, '')) + octet_length(cwd)
                 + octet_length(coalesce(tool_use_id, '')) + octet_length(coalesce(sub_agent, ''))), 0) AS BIGINT)
             FROM asks {} WHERE state = 'open' AND agent = ?1",
            self.connection.indexed_by("asks_open")
        );
        let read = |row: &Row| Ok((row.get(0)?, row.get(1)?));
        Ok(self.connection.first(&sql, params![agent.as_str()], read)?.unwrap_or_default())
    }

    pub fn has_open_asks(&self, agent: &AgentId) -> Result<bool, StoreError> {
        let index = self.connection.indexed_by("asks_open");
        let sql = format!("SELECT 1 FROM asks {index} WHERE state = 'open' AND agent = ?1 LIMIT 1");
        self.connection.exists(&sql, params![agent.as_str()])
    }

    pub fn some_open_asks(&self) -> Result<Vec<AskId>, StoreError> {
        self.own_asks("WHERE state = 'open'", params![], AT_ONCE)
    }

    pub fn undelivered_asks_of(&self, agent: &AgentId) -> Result<Vec<AskId>, StoreError> {
        let index = self.connection.indexed_by("asks_unsettled");
        let which = format!("{index} WHERE receipt = 'pending' AND agent = ?1");
        self.own_asks(&which, params![agent.as_str()], usize::MAX)
    }

    /// How many asks of all agents were ever called so. None if a row was changed or is missing, or if they are too many to
    /// be looked at.
    pub fn asks_called(&self, tool_call: &str) -> Result<Option<u64>, StoreError> {
        const MOST: u64 = 20_000;
        let raised = "SELECT count(*) FROM audit WHERE kind = 'ask.raised'";
        let raised: u64 = self.connection.one_value(raised, params![])?;
        if raised > MOST {
            return Ok(None);
        }
        let (mut ours, mut called) = (0, 0);
        let sql = format!("SELECT {} FROM asks", ASKS.selected());
        self.connection.all(&sql, params![], |row| {
            ours += u64::from(self.is_ours(&ASKS, row, 0)?);
            // The tool call, or the key where there is none.
            let name = row.get::<Option<String>>(4)?.map_or_else(|| row.get::<String>(3), Ok)?;
            called += u64::from(name == tool_call);
            Ok(())
        })?;
        Ok((ours == raised).then_some(called))
    }

    pub fn due_asks(&self, now: Timestamp) -> Result<Vec<AskId>, StoreError> {
        let which = "WHERE state = 'open' AND deadline <= ?1 ORDER BY deadline";
        self.own_asks(which, params![now.as_millisecond()], AT_ONCE)
    }

    /// The next that is a time at all.
    pub fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT deadline FROM asks WHERE state = 'open' AND deadline IS NOT NULL ORDER BY deadline LIMIT 100";
        let mut next = None;
        self.connection.each(sql, params![], |row| {
            next = row.get(0).and_then(time).ok();
            Ok::<_, StoreError>(if next.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(next)
    }

    /// Calls `each` with the permissions raised since then, oldest first, and the kind of agent that asked.
    pub fn permissions_since(
        &self,
        since: Timestamp,
        mut each: impl FnMut(Ask, String),
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {}, (SELECT agents.kind FROM agents WHERE agents.id = asks.agent) FROM asks
             WHERE kind = 'permission' AND created_at >= ?1 ORDER BY n",
            self.ask_columns()?
        );
        self.connection.each(&sql, params![since.as_millisecond()], |row| {
            let kind: Option<String> = row.get(column::END)?;
            if let (Some(ask), Some(kind)) = (pass_by("asks", read_row(row))?, kind) {
                each(ask, kind);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// How many asks there are, and how many of them have ended.
    pub fn count_asks(&self) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT count(*), count(ended_at) FROM asks";
        Ok(self.connection.first(sql, params![], |row| Ok((row.get(0)?, row.get(1)?)))?.unwrap_or_default())
    }

    /// Calls `each` with every ask that has a receipt, the receipt and its evidence.
    pub fn receipts<E: From<StoreError>>(
        &self,
        mut each: impl FnMut(String, String, Option<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT id, receipt, evidence FROM asks WHERE receipt IS NOT NULL";
        self.connection.each(sql, params![], |row| {
            each(row.get(0)?, row.get(1)?, row.get(2)?)?;
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// How an ask stands, as it is written.
struct End<'a> {
    state: &'static str,
    answer: Option<String>,
    by: Option<String>,
    /// Does not count.
    key: Option<&'a str>,
    why: Option<String>,
    ended_at: Option<i64>,
}

impl<'a> End<'a> {
    fn of(state: &'a State) -> Result<Self, StoreError> {
        Ok(Self {
            state: state.name(),
            key: match state {
                State::Answered { key, .. } => key.as_ref().map(AnswerKey::as_str),
                State::Open | State::Expired { .. } | State::Withdrawn { .. } => None,
            },
            answer: state.answer().map(|answer| answer.to_json().to_string()),
            by: state.by().map(serde_json::to_string).transpose().map_err(unreadable)?,
            why: match state {
                State::Open | State::Answered { .. } => None,
                State::Expired { why, .. } => Some(word(why)?),
                State::Withdrawn { why, .. } => Some(word(why)?),
            },
            ended_at: state.ended_at().map(Timestamp::as_millisecond),
        })
    }
}

type ReadAsk = fn(&Reader, &Row) -> Result<Ask, StoreError>;

/// By its number: read by way of an index, a row's own id would be what the index says it is.
const BY_ID: &str = "WHERE n = (SELECT n FROM asks WHERE id = ?1)";

/// What is read of an ask: its MAC, what the MAC is over, and the rest. Named one by one, because a server refuses a prepared
/// `*` once a newer hub has added a column.
pub(super) const ASK_COLUMNS: &str = "mac, id, agent, key, tool_use_id, sub_agent, cwd_checked, digest, created_at, deadline, \
     proof, state, answer, by, why, ended_at, kind, body, cwd, extras, answer_key, receipt, evidence";

/// The places of these columns in a row.
pub(super) mod column {
    pub const ID: usize = 1;
    pub const AGENT: usize = 2;
    pub const KEY: usize = 3;
    pub const TOOL_USE_ID: usize = 4;
    pub const SUB_AGENT: usize = 5;
    pub const CWD_CHECKED: usize = 6;
    pub const DIGEST: usize = 7;
    pub const CREATED_AT: usize = 8;
    pub const DEADLINE: usize = 9;
    pub const PROOF: usize = 10;
    pub const STATE: usize = 11;
    pub const ANSWER: usize = 12;
    pub const BY: usize = 13;
    pub const WHY: usize = 14;
    pub const ENDED_AT: usize = 15;
    pub const KIND: usize = 16;
    pub const BODY: usize = 17;
    pub const CWD: usize = 18;
    pub const EXTRAS: usize = 19;
    pub const ANSWER_KEY: usize = 20;
    pub const RECEIPT: usize = 21;
    pub const EVIDENCE: usize = 22;
    /// Of what is selected after all of them.
    pub const END: usize = 23;
}

static ASK_BY_ID: LazyLock<String> = LazyLock::new(|| format!("SELECT {ASK_COLUMNS} FROM asks {BY_ID}"));
static ASK_BY_KEY: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {ASK_COLUMNS} FROM asks WHERE n = (SELECT n FROM asks WHERE agent = ?1 AND key = ?2)")
});

fn proof_word(ask: &Ask) -> Result<Option<String>, StoreError> {
    (!ask.proof.is_none()).then(|| word(&ask.proof)).transpose()
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
    let kind: Kind = row.get::<String>(column::KIND)?.parse().map_err(unreadable)?;
    let body = Body::decode(kind, json(&row.get::<String>(column::BODY)?)?).map_err(unreadable)?;
    let head = AskHead {
        id: name(row, column::ID)?,
        key: name(row, column::KEY)?,
        agent: name(row, column::AGENT)?,
        cwd: row.get(column::CWD)?,
        tool_use_id: row.get(column::TOOL_USE_ID)?,
        cwd_checked: row.get::<Option<bool>>(column::CWD_CHECKED)?.unwrap_or(false),
        sub_agent: row.get(column::SUB_AGENT)?,
        digest: Digest::from(row.get::<String>(column::DIGEST)?),
        created_at: time(row.get(column::CREATED_AT)?)?,
        deadline: row.get::<Option<i64>>(column::DEADLINE)?.map(time).transpose()?,
        proof: row.get::<Option<String>>(column::PROOF)?.map_or(Ok(Proof::None), |proof| unword(&proof))?,
    };
    let extras = match row.get::<Option<String>>(column::EXTRAS)? {
        Some(extras) => serde_json::from_str(&extras).map_err(unreadable)?,
        None => Extras::default(),
    };
    Ok(Ask { head, body, extras, state: read_state(row, kind)? })
}

fn read_state(row: &Row, kind: Kind) -> Result<State, StoreError> {
    let state: String = row.get(column::STATE)?;
    if state == "open" {
        return Ok(State::Open);
    }
    let at = time(row.get(column::ENDED_AT)?)?;
    let answer = || -> Result<Option<Answer>, StoreError> {
        let text: Option<String> = row.get(column::ANSWER)?;
        let decode = |text: String| Answer::decode(kind, json(&text)?).map_err(unreadable);
        text.map(decode).transpose()
    };
    let delivery = || -> Result<Delivery, StoreError> {
        let evidence = row.get::<Option<String>>(column::EVIDENCE)?.map(Evidence::from);
        Ok(Delivery { receipt: unword(&row.get::<String>(column::RECEIPT)?)?, evidence })
    };
    match state.as_str() {
        "answered" => Ok(State::Answered {
            answer: answer()?.ok_or_else(|| unreadable("an answered ask without an answer"))?,
            by: serde_json::from_str::<By>(&row.get::<String>(column::BY)?).map_err(unreadable)?,
            key: row
                .get::<Option<String>>(column::ANSWER_KEY)?
                .map(AnswerKey::try_from)
                .transpose()
                .map_err(unreadable)?,
            at,
            delivery: delivery()?,
        }),
        "expired" => Ok(State::Expired {
            why: unword::<Expiry>(&row.get::<String>(column::WHY)?)?,
            at,
            delivery: delivery()?,
        }),
        "withdrawn" => Ok(State::Withdrawn {
            why: unword::<Withdrawal>(&row.get::<String>(column::WHY)?)?,
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
    column: impl Column,
) -> Result<T, StoreError> {
    T::try_from(row.get::<String>(column)?).map_err(unreadable)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asks_columns_begin_with_what_its_mac_is_over_and_each_stands_where_it_is_read() {
        assert!(ASK_COLUMNS.starts_with(&format!("{}, ", ASKS.selected())));
        let named = |place: usize| ASK_COLUMNS.split(", ").nth(place);
        assert_eq!(named(column::AGENT), Some("agent"));
        assert_eq!(named(column::CWD_CHECKED), Some("cwd_checked"));
        assert_eq!(named(column::PROOF), Some("proof"));
        assert_eq!(named(column::ENDED_AT), Some("ended_at"));
        assert_eq!(named(column::BODY), Some("body"));
        assert_eq!(named(column::EXTRAS), Some("extras"));
        assert_eq!(named(column::EVIDENCE), Some("evidence"));
        assert_eq!(named(column::END), None);
    }
}
