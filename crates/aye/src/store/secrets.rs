//! Answers to secret questions, between the person and the agent. Everything else that is written has them sealed.

use super::asks::{json, unreadable};
use super::sql::params;
use super::{Reader, StoreError, Tx};
use crate::random::random_hex;
use aye_core::{Answer, Ask, AskId, State};

const SALT_BYTES: usize = 16;

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
        let sql = "INSERT INTO secrets (ask, answer) VALUES (?1, ?2)";
        self.connection.execute(sql, params![ask.as_str(), answer.to_json().to_string()]).map(drop)
    }

    /// Overwrites it in the database. Once that is committed, the log of earlier pages is emptied as well.
    pub fn forget_secret(&mut self, ask: &AskId) -> Result<(), StoreError> {
        let sql = "DELETE FROM secrets WHERE ask = ?1";
        self.forgets |= self.connection.delete_for_good(sql, params![ask.as_str()])? > 0;
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
        let sql = "SELECT answer FROM secrets WHERE ask = ?1";
        let found: Option<String> = self.connection.first(sql, params![id.as_str()], |row| row.get(0))?;
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
