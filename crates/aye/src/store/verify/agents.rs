//! Every agent was registered once, and is there.

use super::super::Reader;
use super::VerifyError;
use aye_core::trail::Line;
use std::collections::HashSet;

#[derive(Default)]
pub struct Agents {
    registered: HashSet<String>,
}

impl Agents {
    pub fn take(&mut self, line: &Line) -> Result<(), VerifyError> {
        let Some(agent) = line.agent.as_ref().filter(|_| line.kind == "agent.registered") else {
            return Ok(());
        };
        match self.registered.insert(agent.clone()) {
            true => Ok(()),
            false => Err(wrong(agent, "it was registered twice, as if it had not been there before")),
        }
    }

    pub fn finish(mut self, db: &Reader) -> Result<(), VerifyError> {
        db.agent_ids(|id| {
            self.registered.remove(&id);
        })?;
        match self.registered.iter().min() {
            Some(agent) => Err(wrong(agent, "the trail knows it, the database does not")),
            None => Ok(()),
        }
    }
}

fn wrong(agent: &str, problem: &'static str) -> VerifyError {
    VerifyError::Agent { agent: agent.to_owned(), problem }
}
