//! Every grant is as it was made, and in force no longer than the trail says; and whatever was allowed by one was
//! covered by it then.

use super::super::Reader;
use super::super::grants::GrantRow;
use super::VerifyError;
use aye_core::Ask;
use aye_core::trail::Line;
use aye_policy::{Exactly, Folder, Grant, OwnPlaces, ToolCall, tool_and_input};
use jiff::Timestamp;
use std::collections::HashMap;

pub struct Grants<'a> {
    db: &'a Reader,
    told: HashMap<String, RecordedGrant>,
}

struct RecordedGrant {
    grant: Grant,
    ended: Option<Timestamp>,
}

impl<'a> Grants<'a> {
    pub fn new(db: &'a Reader) -> Self {
        Self { db, told: HashMap::new() }
    }

    pub fn take(&mut self, line: &Line) -> Result<(), VerifyError> {
        let Some(id) = line.detail["grant"].as_str() else { return Ok(()) };
        if line.kind == "grant.made" {
            let row =
                self.db.grant(id)?.ok_or_else(|| wrong(id, "the trail knows it, the database does not"))?;
            if !is_as_made(&row, line) {
                return Err(wrong(id, "it is not the one that was made"));
            }
            let told = RecordedGrant { grant: row.grant, ended: None };
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
            let of_agent = |told: &&mut RecordedGrant| {
                told.grant.agent.as_ref().is_some_and(|agent| Some(agent.as_str()) == line.agent.as_deref())
            };
            for told in self.told.values_mut().filter(of_agent) {
                told.ended.get_or_insert(line.at);
            }
        }
    }

    /// Whether this grant, as the trail knows it so far, allows this ask.
    pub fn allows(&self, id: &str, ask: &Ask, at: Timestamp) -> Result<(), &'static str> {
        let Some(told) = self.told.get(id) else {
            return Err("it was allowed by a grant that the trail does not know");
        };
        if told.ended.is_some() {
            return Err("it was allowed by a grant that had ended");
        }
        if told.grant.proof < ask.proof {
            return Err("it was allowed by a grant that was given without the passkey that it takes");
        }
        let (tool, input) = tool_and_input(&ask.body);
        // Places of ours were looked at when it was decided; here it is compared with what was granted.
        let places = OwnPlaces::new(&[] as &[&str], None);
        let (cwd, folder) = (ask.cwd.as_str(), Folder::Claimed);
        let call = ToolCall { agent_kind: "", cwd, folder, tool: &tool, input: &input, places: &places };
        let covers = |exactly: Exactly| told.grant.covers(&ask.cwd, &tool, &exactly, &ask.agent, at);
        match Exactly::of(&call).is_ok_and(covers) {
            true => Ok(()),
            false => Err("it was allowed by a grant that does not cover it"),
        }
    }

    /// How many grants there are.
    pub fn finish(mut self) -> Result<u64, VerifyError> {
        let rows = self.db.all_grants()?;
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
