//! Every grant is as it was made, and in force no longer than the trail says.

use super::super::grants::{self, GrantRow};
use super::VerifyError;
use aye_core::trail::Line;
use jiff::Timestamp;
use rusqlite::Connection;
use std::collections::HashMap;

pub struct Grants<'a> {
    db: &'a Connection,
    told: HashMap<String, Told>,
}

struct Told {
    /// The one agent it is for.
    agent: Option<String>,
    ended: Option<Timestamp>,
}

impl<'a> Grants<'a> {
    pub fn new(db: &'a Connection) -> Self {
        Self { db, told: HashMap::new() }
    }

    pub fn take(&mut self, line: &Line) -> Result<(), VerifyError> {
        let Some(id) = line.detail["grant"].as_str() else { return Ok(()) };
        if line.kind == "grant.made" {
            let row = grants::find(self.db, id)?
                .ok_or_else(|| wrong(id, "the trail knows it, the database does not"))?;
            if !is_as_made(&row, line) {
                return Err(wrong(id, "it is not the one that was made"));
            }
            let told = Told { agent: row.agent, ended: None };
            return match self.told.insert(id.to_owned(), told) {
                None => Ok(()),
                Some(_) => Err(wrong(id, "it was made twice")),
            };
        }
        let told = self.told.get_mut(id).ok_or_else(|| wrong(id, "it ended before it was made"))?;
        told.ended.get_or_insert(line.at);
        Ok(())
    }

    /// What was allowed for a session ends with it.
    pub fn take_agent(&mut self, line: &Line) {
        if line.kind == "agent.ended" {
            let of_agent = |told: &&mut Told| told.agent.is_some() && told.agent == line.agent;
            for told in self.told.values_mut().filter(of_agent) {
                told.ended.get_or_insert(line.at);
            }
        }
    }

    /// How many grants there are.
    pub fn finish(mut self) -> Result<u64, VerifyError> {
        let rows = grants::all(self.db)?;
        for row in &rows {
            match self.told.remove(&row.id) {
                None => return Err(wrong(&row.id, "the trail does not know it")),
                Some(told) if told.ended != row.ended_at => {
                    return Err(wrong(&row.id, "it did not end as the trail says"));
                }
                Some(_) => {}
            }
        }
        Ok(rows.len() as u64)
    }
}

/// Lines of earlier versions lack the digest; their words say nearly as much.
fn is_as_made(row: &GrantRow, line: &Line) -> bool {
    let grant = &row.grant;
    let same = match line.detail["digest"].as_str() {
        Some(digest) => digest == row.digest(),
        None => line.detail["words"] == grant.words(),
    };
    // Grants are looked up by these columns.
    let fits = row.agent.as_deref() == grant.agent.as_ref().map(|agent| agent.as_str())
        && row.folder == grant.folder
        && row.tool == grant.tool;
    same && fits && line.who == grant.by.to_string() && line.at == grant.at
}

fn wrong(grant: &str, problem: &'static str) -> VerifyError {
    VerifyError::Grant { grant: grant.to_owned(), problem }
}
