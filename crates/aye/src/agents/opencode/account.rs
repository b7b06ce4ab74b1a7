//! What OpenCode says and does, for the account of the run.

use super::driven::OpenCode;
use super::translate::ToolCall;
use crate::agents::driven::account::Tokens;
use crate::agents::driven::rpc::trouble;
use crate::agents::driven::tools::RunContext;
use crate::agents::driven::{Meaning, RunEvent, Turn};
use serde_json::Value;
use std::collections::HashSet;

#[derive(Default)]
pub struct Account {
    /// The prompts that it has taken up, and the texts that it speaks; thoughts stream in the same way.
    prompts: HashSet<String>,
    texts: HashSet<String>,
    said: Option<String>,
    tokens: Tokens,
    cost: f64,
    error: Option<String>,
}

/// What OpenCode calls a turn that was interrupted.
const INTERRUPTED: &str = "MessageAbortedError";

impl Account {
    pub fn record(&mut self, kind: &str, about: &Value) -> Vec<Meaning<OpenCode>> {
        let part = &about["part"];
        let meaning = match (kind, part["type"].as_str()) {
            ("message.updated", _) if about["info"]["role"] == "user" => {
                let id = about["info"]["id"].as_str().unwrap_or_default();
                self.prompts.insert(id.to_owned()).then_some(Meaning::TookPrompt)
            }
            ("message.part.updated", Some("text")) => self.text(part),
            ("message.part.delta", _) if about["field"] == "text" => {
                let text = |field: &str| about[field].as_str().map(str::to_owned);
                let speaks = text("partID").filter(|id| self.texts.contains(id)).zip(text("delta"));
                speaks.map(|(id, delta)| Meaning::Tells(RunEvent::Speaks { id, delta }))
            }
            ("message.part.updated", Some("step-finish")) => {
                self.spent(part);
                None
            }
            ("session.status", _) if about["status"]["type"] == "retry" => {
                let why = about["status"]["message"].as_str().unwrap_or("its model failed");
                Some(trouble(format!("OpenCode tries again: {why}")))
            }
            ("session.error", _) if about["error"]["name"] != INTERRUPTED => {
                let error = &about["error"];
                let message = error["data"]["message"].as_str().or(error["name"].as_str());
                self.error = Some(message.unwrap_or("OpenCode failed").to_owned());
                None
            }
            _ => None,
        };
        meaning.into_iter().collect()
    }

    /// Prompts are texts as well, without a time.
    fn text(&mut self, part: &Value) -> Option<Meaning<OpenCode>> {
        let (id, text) = (part["id"].as_str()?.to_owned(), part["text"].as_str()?.to_owned());
        part["time"]["start"].as_u64()?;
        if part["time"]["end"].is_null() {
            self.texts.insert(id);
            return None;
        }
        self.texts.remove(&id);
        self.said = Some(text.clone());
        Some(Meaning::Tells(RunEvent::Said { id, text }))
    }

    fn spent(&mut self, step: &Value) {
        let tokens = &step["tokens"];
        let count = |count: &Value| count.as_u64().unwrap_or_default();
        self.tokens.input += count(&tokens["input"]);
        self.tokens.output += count(&tokens["output"]) + count(&tokens["reasoning"]);
        self.tokens.cache_read += count(&tokens["cache"]["read"]);
        self.tokens.cache_written += count(&tokens["cache"]["write"]);
        self.cost += step["cost"].as_f64().unwrap_or_default();
    }

    /// An error that came after the turn before is not this one's.
    pub fn turn_begins(&mut self) {
        self.error = None;
    }

    pub fn turn_ended(&mut self) -> Meaning<OpenCode> {
        let error = self.error.take();
        let (failed, said) = (error.is_some(), self.said.take());
        self.texts.clear();
        Meaning::TurnEnded(Turn {
            failed,
            text: error.or(said),
            cost: Some(self.cost).filter(|cost| *cost > 0.0),
            turns: None,
            duration_ms: None,
            tokens: std::mem::take(&mut self.tokens),
        })
    }

    /// The turn never began.
    pub fn failed(&mut self, why: String) -> Meaning<OpenCode> {
        self.error = Some(why);
        self.turn_ended()
    }
}

pub fn started(id: String, call: &ToolCall, place: &RunContext, ours: bool) -> RunEvent {
    let (name, input) = call.in_vocabulary(place.kind, place.cwd);
    RunEvent::ToolStarted { id, name, input: Value::Object(input), sub_agent: sub_agent(ours) }
}

pub fn ended(id: String, state: &Value, ours: bool) -> RunEvent {
    let failed = state["status"] == "error";
    let text = state[if failed { "error" } else { "output" }].as_str().unwrap_or_default().to_owned();
    RunEvent::ToolEnded { id, failed, text, images: Vec::new(), took: None, sub_agent: sub_agent(ours) }
}

/// Whatever is not of our session.
pub fn sub_agent(ours: bool) -> Option<String> {
    (!ours).then(|| "a sub-agent".to_owned())
}
