//! Every signature in the trail is good, by a key that the trail names itself, and whatever takes a passkey has one.

use super::VerifyError;
use crate::store::{PasskeyRow, Reader};
use crate::webauthn::{Assertion, Encoded, Purpose, Statement, check_assertion};
use aye_core::trail::Line;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub struct Passkeys {
    in_force: HashMap<String, Key>,
    nonces: HashSet<String>,
    /// What was signed and not used yet.
    signed: Vec<(Purpose, Value)>,
    /// Asks that only a passkey allows.
    guarded: HashSet<String>,
}

struct Key {
    credential: Encoded,
    key: Encoded,
    rp: String,
    name: String,
    created_at: Timestamp,
    used_at: Option<Timestamp>,
    /// The highest that was seen, and whether the first is known: earlier versions did not write it down.
    counter: u32,
    counted_from_the_first: bool,
}

impl Key {
    fn read(line: &Line) -> Option<Self> {
        let detail = &line.detail;
        let bytes = |name: &str| Encoded::try_from(detail[name].as_str()?.to_owned()).ok();
        let counter = detail["counter"].as_u64().and_then(|counter| u32::try_from(counter).ok());
        Some(Self {
            credential: bytes("credential")?,
            key: bytes("key")?,
            rp: detail["rp"].as_str()?.into(),
            name: detail["name"].as_str()?.into(),
            created_at: line.at,
            used_at: None,
            counter: counter.unwrap_or_default(),
            counted_from_the_first: counter.is_some(),
        })
    }

    fn is(&self, row: &PasskeyRow) -> bool {
        let counted = match self.counted_from_the_first {
            true => row.counter == self.counter,
            false => row.counter >= self.counter,
        };
        counted
            && self.credential == row.credential
            && self.key == row.key
            && self.rp == row.rp
            && self.name == row.name.as_str()
            && self.created_at == row.created_at
            && self.used_at == row.used_at
    }
}

impl Passkeys {
    pub fn take(&mut self, line: &Line) -> Result<(), VerifyError> {
        self.follow(line).map_err(|problem| VerifyError::Passkey { line: line.seq, problem })
    }

    fn follow(&mut self, line: &Line) -> Result<(), &'static str> {
        let detail = &line.detail;
        match line.kind.as_str() {
            "passkey.added" => {
                let key = Key::read(line).ok_or("a passkey was added that cannot be read")?;
                let subject = json!({ "credential": detail["credential"], "key": detail["key"],
                    "name": detail["name"], "rp": detail["rp"] });
                if !self.in_force.is_empty() && !self.acted_upon(Purpose::AddPasskey, &subject) {
                    return Err("a passkey was added without the signature of another");
                }
                self.in_force.insert(text(&detail["passkey"]), key);
            }
            "passkey.removed" => {
                let subject = json!({ "passkey": detail["passkey"] });
                if !self.acted_upon(Purpose::RemovePasskey, &subject) {
                    return Err("a passkey was removed without a signature");
                }
                self.in_force.remove(&text(&detail["passkey"]));
            }
            "passkey.used" => self.check(line)?,
            "ask.raised" if detail["proof"] == "passkey" => {
                self.guarded.extend(line.ask.clone());
            }
            "ask.answered" if detail["answer"]["decision"] == "allow" || detail["allows"] == true => {
                let guarded = line.ask.as_ref().is_some_and(|ask| self.guarded.contains(ask));
                let subject =
                    json!({ "ask": line.ask, "digest": detail["digest"], "answer": detail["answer"] });
                let signed = self.acted_upon(Purpose::Allow, &subject);
                let proven = match detail["by"]["rule"].as_str() {
                    None => signed,
                    // Which was signed for when it was given; `approvals.rs` looks for that.
                    Some(rule) => rule.starts_with("grant ") || rule.starts_with("approved in advance"),
                };
                if guarded && !proven {
                    return Err("it was allowed without the passkey that it takes");
                }
            }
            "plan.approved" if detail["proof"] == "passkey" => {
                let subject = json!({ "agent": line.agent, "digest": detail["digest"],
                    "any_next": detail["any_next"] });
                if !self.acted_upon(Purpose::ApprovePlan, &subject) {
                    return Err("a plan was approved in advance without the passkey that it takes");
                }
            }
            "agent.started" if detail["proof"] == "passkey" => {
                let run = detail["run"].clone();
                if !self.acted_upon(Purpose::StartRun, &json!({ "run": run })) {
                    return Err("a run was started without the passkey that it takes");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Every passkey in the database is one of the trail's, and the other way round.
    pub fn finish(mut self, db: &Reader) -> Result<(), VerifyError> {
        let wrong =
            |passkey: &str, problem| Err(VerifyError::Registered { passkey: passkey.to_owned(), problem });
        for row in db.passkeys_to_check()? {
            if !self.in_force.remove(&row.id).is_some_and(|key| key.is(&row)) {
                return wrong(&row.id, "it is not the one that was added, or it was never added");
            }
        }
        match self.in_force.keys().next() {
            Some(missing) => wrong(missing, "the trail knows it, the database does not"),
            None => Ok(()),
        }
    }

    fn check(&mut self, line: &Line) -> Result<(), &'static str> {
        let detail = &line.detail;
        let unreadable = "a signature in the trail cannot be read";
        let assertion: Assertion =
            serde_json::from_value(detail["assertion"].clone()).map_err(|_| unreadable)?;
        let purpose: Purpose = serde_json::from_value(detail["purpose"].clone()).map_err(|_| unreadable)?;
        let key = self.in_force.get_mut(&text(&detail["passkey"]));
        let key = key.filter(|key| key.credential == assertion.credential);
        let key = key.ok_or("a signature is by a passkey that was not registered then")?;
        let statement = Statement { purpose, nonce: &assertion.nonce, subject: &detail["subject"] };
        // Which origins were ours then is not known any more; the relying party is part of what was signed.
        let counter = check_assertion(&assertion, statement, (&key.key, &key.rp), |_| true)
            .map_err(|_| "a signature in the trail is not good")?;
        (key.counter, key.used_at) = (key.counter.max(counter), Some(line.at));
        if !self.nonces.insert(assertion.nonce) {
            return Err("a signature is in the trail twice");
        }
        self.signed.push((purpose, detail["subject"].clone()));
        Ok(())
    }

    /// Whether this was signed; it counts once.
    fn acted_upon(&mut self, purpose: Purpose, subject: &Value) -> bool {
        let found = self.signed.iter().position(|(signed, what)| (*signed, what) == (purpose, subject));
        found.map(|at| self.signed.swap_remove(at)).is_some()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
