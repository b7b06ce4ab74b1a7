//! Every ask was raised, ended and delivered as the trail says, and there is none that it does not know.

use super::super::Reader;
use super::super::asks::unreadable;
use super::VerifyError;
use aye_core::trail::Line;
use aye_core::{Ask, AskId, Digest, State};
use serde_json::{Value, json};
use std::collections::HashMap;

pub struct Asks<'a> {
    db: &'a Reader,
    raised: u64,
    ended: u64,
    receipts: HashMap<String, (String, Value)>,
}

impl<'a> Asks<'a> {
    pub fn new(db: &'a Reader) -> Self {
        Self { db, raised: 0, ended: 0, receipts: HashMap::new() }
    }

    pub fn take(&mut self, line: &Line) -> Result<(), VerifyError> {
        let Some(id) = &line.ask else { return Ok(()) };
        match line.kind.as_str() {
            "ask.raised" => {
                self.raised += 1;
                self.compare_raised(id, line)
            }
            "ask.answered" | "ask.expired" | "ask.withdrawn" => {
                self.ended += 1;
                self.compare_ended(id, line)
            }
            kind => {
                if let Some(receipt) = kind.strip_prefix("receipt.") {
                    let told = (receipt.to_owned(), line.detail["evidence"].clone());
                    self.receipts.insert(id.clone(), told);
                }
                Ok(())
            }
        }
    }

    fn compare_raised(&self, id: &str, line: &Line) -> Result<(), VerifyError> {
        let ask = self.find(id)?;
        let digest = Digest::of(&ask.cwd, &ask.body);
        if line.detail["digest"] != digest.as_str() || ask.digest != digest {
            return Err(wrong(id, "its text is not the one that was raised"));
        }
        let proof = if ask.proof.is_none() { Value::Null } else { json!(ask.proof) };
        // What a crash kept from being recorded was raised earlier than it says so.
        let in_time = line.at == ask.created_at || line.detail["late"] == json!(ask.created_at);
        let as_raised = line.detail["key"] == ask.key.as_str()
            && line.detail["proof"] == proof
            && line.detail["deadline"] == json!(ask.deadline)
            && line.agent.as_deref() == Some(ask.agent.as_str())
            && in_time;
        if as_raised { Ok(()) } else { Err(wrong(id, "it was not raised as the trail says")) }
    }

    fn compare_ended(&mut self, id: &str, line: &Line) -> Result<(), VerifyError> {
        let ask = self.find(id)?;
        let answer = ask.state.answer().map_or(Value::Null, aye_core::Answer::to_json);
        let why = match &ask.state {
            State::Expired { why, .. } => json!(why),
            State::Withdrawn { why, .. } => json!(why),
            State::Open | State::Answered { .. } => Value::Null,
        };
        let as_told = line.kind == format!("ask.{}", ask.state.name())
            && line.detail["digest"] == ask.digest.as_str()
            && line.detail["answer"] == answer
            && (line.detail["allows"] == true) == ask.allowed_by_question()
            && line.detail["why"] == why
            && line.detail["by"] == serde_json::to_value(ask.state.by()).map_err(unreadable)?
            && Some(line.at) == ask.state.ended_at();
        if !as_told {
            return Err(wrong(id, "it did not end as the trail says"));
        }
        if ask.state.receipt().is_some() {
            self.receipts.insert(id.to_owned(), ("pending".into(), Value::Null));
        }
        Ok(())
    }

    pub fn find(&self, id: &str) -> Result<Ask, VerifyError> {
        let name = AskId::try_from(id).map_err(unreadable)?;
        self.db.ask_to_check(&name)?.ok_or_else(|| wrong(id, "the trail knows it, the database does not"))
    }

    /// How many asks there are.
    pub fn finish(self) -> Result<u64, VerifyError> {
        let (all, ended) = self.db.count_asks()?;
        if (all, ended) != (self.raised, self.ended) {
            return Err(VerifyError::Untold);
        }
        compare_receipts(self.db, self.receipts)?;
        Ok(all)
    }
}

/// Every outcome has got as far as the last that the trail says of it, and no further.
fn compare_receipts(db: &Reader, mut told: HashMap<String, (String, Value)>) -> Result<(), VerifyError> {
    let wrong = |ask: &str| wrong(ask, "its receipt is not the one in the trail");
    db.receipts(|id, receipt, evidence| match told.remove(&id) {
        Some(known) if known == (receipt, Value::from(evidence)) => Ok(()),
        _ => Err(wrong(&id)),
    })?;
    told.into_keys().next().map_or(Ok(()), |id| Err(wrong(&id)))
}

pub fn wrong(ask: &str, problem: &'static str) -> VerifyError {
    VerifyError::Ask { ask: ask.to_owned(), problem }
}
