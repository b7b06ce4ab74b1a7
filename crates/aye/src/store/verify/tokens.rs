//! Every token is the one that was made, with the role it was made with, and revoked if the trail says so.

use super::super::{Reader, TokenRow};
use super::VerifyError;
use aye_core::trail::Line;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub struct Tokens {
    told: HashMap<String, RecordedToken>,
}

struct RecordedToken {
    agent: Option<String>,
    at: Timestamp,
    detail: Value,
    kept: bool,
    revoked: Option<Timestamp>,
}

impl RecordedToken {
    /// Earlier versions said less of a token, and nothing when they forgot an agent's.
    fn is_of_an_earlier_version(&self) -> bool {
        self.detail.get("digest").is_none()
    }

    fn may_be_gone(&self) -> bool {
        self.is_of_an_earlier_version() && self.detail["role"] == "agent"
    }

    fn is(&self, row: &TokenRow) -> bool {
        let same = match self.is_of_an_earlier_version() {
            true => self.detail["role"] == json!(row.role) && self.detail["name"] == json!(row.name),
            false => {
                let told = TokenRow { kept: self.detail["kept"] == true, ..row.clone() }.told();
                self.detail == told && self.kept == row.kept && self.at == row.created_at
            }
        };
        same && self.agent.as_deref() == row.agent.as_ref().map(|agent| agent.as_str())
    }
}

impl Tokens {
    pub fn take(&mut self, line: &Line) -> Result<(), VerifyError> {
        let Some(id) = line.detail["token"].as_str() else { return Ok(()) };
        if line.kind == "token.created" {
            if self.told.get(id).is_some_and(|told| told.revoked.is_some()) {
                return Err(wrong(id, "it was revoked, and made again"));
            }
            // One that was there has given way: it came from an earlier agent.key.
            let told = RecordedToken {
                agent: line.agent.clone(),
                at: line.at,
                kept: line.detail["kept"] == true,
                detail: line.detail.clone(),
                revoked: None,
            };
            self.told.insert(id.to_owned(), told);
            return Ok(());
        }
        let Some(told) = self.told.get_mut(id) else {
            return Err(wrong(id, "it changed before it was made"));
        };
        match line.kind.as_str() {
            "token.kept" => told.kept = true,
            "token.revoked" => told.revoked = Some(line.at),
            "token.forgotten" => drop(self.told.remove(id)),
            _ => {}
        }
        Ok(())
    }

    /// The hub reads its tokens when it starts, and says which of them act for a person from then on.
    pub fn take_start(&self, line: &Line) -> Result<(), VerifyError> {
        let Some(operators) = line.detail["operators"].as_array() else { return Ok(()) };
        let said: HashSet<&str> = operators.iter().filter_map(Value::as_str).collect();
        let acts = |told: &RecordedToken| told.detail["role"] == "operator" && told.revoked.is_none();
        if let Some(id) = said.iter().find(|id| !self.told.get(**id).is_some_and(acts)) {
            return Err(wrong(id, "a hub started with it, and it was not in force then"));
        }
        let known = self.told.iter().filter(|(_, told)| acts(told));
        match known.map(|(id, _)| id).find(|id| !said.contains(id.as_str())) {
            Some(id) => Err(wrong(id, "a hub started without it, and it was in force then")),
            None => Ok(()),
        }
    }

    /// How many tokens there are.
    pub fn finish(mut self, db: &Reader) -> Result<u64, VerifyError> {
        let rows = db.tokens()?;
        for (row, revoked) in &rows {
            let Some(told) = self.told.remove(&row.id) else {
                return Err(wrong(&row.id, "the trail does not know it"));
            };
            if !told.is(row) {
                return Err(wrong(&row.id, "it is not the one that was made"));
            }
            if told.revoked != *revoked {
                return Err(wrong(&row.id, "it was not revoked as the trail says"));
            }
        }
        match self.told.iter().find(|(_, told)| !told.may_be_gone()) {
            Some((id, _)) => Err(wrong(id, "the trail knows it, the database does not")),
            None => Ok(rows.len() as u64),
        }
    }
}

fn wrong(token: &str, problem: &'static str) -> VerifyError {
    VerifyError::Token { token: token.to_owned(), problem }
}
