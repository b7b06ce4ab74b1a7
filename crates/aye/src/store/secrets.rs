//! Answers to secret questions, between the person and the agent. Everything else that is written has them sealed.

use super::asks::{json, unreadable};
use super::{BUSY, Reader, StoreError, Tx};
use crate::random::random_hex;
use aye_core::{Answer, Ask, AskId, State};
use rusqlite::{Connection, OptionalExtension};
use std::time::Duration;

const SALT_BYTES: usize = 16;
const FOR_READERS: Duration = Duration::from_millis(50);

impl Tx<'_> {
    /// The answer as it is recorded. One that was given before is sealed as it was then, so that it is recognised.
    pub fn seal(&self, ask: &Ask, answer: &Answer) -> Result<Answer, StoreError> {
        if !ask.body.has_secret() {
            return Ok(answer.clone());
        }
        let salt = match ask.state.answer().and_then(Answer::salt) {
            Some(salt) => salt.to_owned(),
            None => random_hex::<SALT_BYTES>().map_err(unreadable)?,
        };
        Ok(answer.sealed(&ask.body, &salt, self.key))
    }

    /// Keeps what was given until it is delivered.
    pub fn put_secret(&self, ask: &AskId, answer: &Answer) -> Result<(), StoreError> {
        let mut statement =
            self.connection.prepare_cached("INSERT INTO secrets (ask, answer) VALUES (?1, ?2)")?;
        statement.execute((ask.as_str(), answer.to_json().to_string()))?;
        Ok(())
    }

    /// Overwrites it in the database. Once that is committed, the log of earlier pages is emptied as well.
    pub fn forget_secret(&mut self, ask: &AskId) -> Result<(), StoreError> {
        self.connection.pragma_update(None, "secure_delete", true)?;
        let deleted = self.connection.execute("DELETE FROM secrets WHERE ask = ?1", [ask.as_str()]);
        self.connection.pragma_update(None, "secure_delete", false)?;
        self.forgets |= deleted? > 0;
        Ok(())
    }
}

impl Reader {
    /// The ask with what its agent is to be told. What is not what a person answered is told to nobody.
    pub fn ask_with_secret(&self, id: &AskId) -> Result<Option<Ask>, StoreError> {
        let Some(mut ask) = self.ask(id)? else { return Ok(None) };
        let recorded = ask.state.answer().cloned();
        let (Some(recorded), Some(key)) = (recorded, self.key()) else { return Ok(Some(ask)) };
        let Some(salt) = recorded.salt() else { return Ok(Some(ask)) };
        let mut statement = self.connection.prepare_cached("SELECT answer FROM secrets WHERE ask = ?1")?;
        let found: Option<String> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
        let Some(found) = found else { return Ok(Some(ask)) };
        let given = Answer::decode(ask.body.kind(), json(&found)?).map_err(unreadable)?;
        if given.sealed(&ask.body, salt, key) != recorded {
            return Err(StoreError::Foreign { table: "secrets", id: id.to_string() });
        }
        if let State::Answered { answer, .. } = &mut ask.state {
            *answer = given;
        }
        Ok(Some(ask))
    }
}

/// Empties the log, whose earlier pages have what was deleted. Somebody who reads for longer than everybody else can wait
/// keeps it from being emptied; it is then tried again with the next change.
pub fn empty_log(connection: &Connection) -> bool {
    let empty = || {
        connection.busy_timeout(FOR_READERS)?;
        let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        connection.busy_timeout(BUSY)?;
        Ok::<_, rusqlite::Error>(busy == 0)
    };
    empty().unwrap_or_else(|error| {
        tracing::warn!(%error, "the log of the database could not be emptied");
        false
    })
}
