//! The calls that OpenCode has begun, and what its requests are about. A request names its call; what the call will do
//! is told apart from it, sometimes a moment later.

use super::id_of;
use super::outcome::{self, Expected, WireReply};
use super::translate::{self, ToolCall};
use crate::agents::driven::Shown;
use crate::agents::driven::tools::RunContext;
use aye_core::{Body, Receipt};
use serde_json::Value;
use std::collections::HashMap;

/// Calls that have begun and not ended; what is asked about any more than these is unclear.
const MOST_CALLS: usize = 1000;
/// Requests whose calls have not begun; OpenCode tells of a call within moments.
const MOST_EARLY: usize = 500;

/// Calls are known by message and call, because models may use an id of a call again in another message.
#[derive(Default)]
pub struct Calls {
    running: HashMap<String, RunningCall>,
    /// Requests about calls whose input has not been told yet.
    early: Vec<Value>,
}

/// A call that has begun.
struct RunningCall {
    call: ToolCall,
    /// Whether it was asked for.
    asked: bool,
    /// What was allowed of it: further requests for the same are not shown again.
    allowed: Option<Body>,
    expected: Option<Expected>,
}

/// What a permission is about.
pub struct Wanted {
    pub body: Result<Body, String>,
    /// OpenCode goes on with what was allowed of this call so far.
    pub confirms: Option<Shown>,
}

/// How a call ended.
pub struct Ended {
    /// Whether it was asked for.
    pub asked: bool,
    /// What it shows of our answer.
    pub shows: Option<(Receipt, String)>,
}

impl Calls {
    /// Whether the request is kept until the input of its call is told; the error says that too many are.
    pub fn keep_early(&mut self, asked: &Value) -> Result<bool, String> {
        let is_early = call_of(asked).is_some_and(|call| !self.running.contains_key(&call));
        if is_early && self.early.len() >= MOST_EARLY {
            return Err(format!("it asks about more than {MOST_EARLY} calls that have not begun"));
        }
        if is_early {
            self.early.push(asked.clone());
        }
        Ok(is_early)
    }

    pub fn take_early(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.early)
    }

    /// It has been answered.
    pub fn take_early_of(&mut self, id: &str) -> Option<Value> {
        let at = self.early.iter().position(|asked| id_of(asked) == Some(id))?;
        Some(self.early.swap_remove(at))
    }

    /// What was asked about a call that begins; none where it had begun already, or there are too many.
    pub fn begin(&mut self, key: &str, call: ToolCall) -> Option<Vec<Value>> {
        if self.running.contains_key(key) || self.running.len() >= MOST_CALLS {
            return None;
        }
        self.running
            .insert(key.to_owned(), RunningCall { call, asked: false, allowed: None, expected: None });
        let is_about_it = |asked: &mut Value| call_of(asked).as_deref() == Some(key);
        Some(self.early.extract_if(.., is_about_it).collect())
    }

    pub fn end(&mut self, key: &str, state: &Value) -> Ended {
        let running = self.running.remove(key);
        let asked = running.as_ref().is_some_and(|running| running.asked);
        let expected = running.and_then(|running| running.expected);
        Ended { asked, shows: expected.and_then(|expected| outcome::judge(&expected, state)) }
    }

    pub fn called(&self, key: Option<&str>) -> Option<&ToolCall> {
        Some(&self.running.get(key?)?.call)
    }

    /// None where it is the same that was allowed for this call a moment ago.
    pub fn wanted(&mut self, asked: &Value, place: &RunContext) -> Option<Wanted> {
        let key = call_of(asked);
        let running = key.as_ref().and_then(|key| self.running.get_mut(key));
        let body = translate::permission(asked, running.as_ref().map(|running| &running.call), place);
        let Some(running) = running else { return Some(Wanted { body, confirms: None }) };
        running.asked = true;
        if let (Ok(body), Some(allowed)) = (&body, &running.allowed)
            && body == allowed
        {
            return None;
        }
        let allowed = running.expected.take_if(|expected| *expected == Expected::Allowed);
        let evidence = "OpenCode went ahead, and asks again about the same call".to_owned();
        let confirms = allowed.and(key).map(|call| Shown { call, receipt: Receipt::Confirmed, evidence });
        Some(Wanted { body, confirms })
    }

    /// The call that will show whether this answer was taken, if OpenCode told of it.
    pub fn answered(&mut self, key: Option<&str>, body: &Body, answered: &WireReply) -> Option<String> {
        let key = key?;
        let running = self.running.get_mut(key)?;
        running.allowed = Some(body.clone()).filter(|_| answered.expected == Expected::Allowed);
        running.expected = Some(answered.expected.clone());
        Some(key.to_owned())
    }

    /// What this call shows in the end is not about an answer of ours.
    pub fn answered_elsewhere(&mut self, key: Option<&str>) {
        if let Some(running) = key.and_then(|key| self.running.get_mut(key)) {
            (running.allowed, running.expected) = (None, None);
        }
    }
}

/// The call that a request is about.
pub fn call_of(asked: &Value) -> Option<String> {
    key_of(&asked["tool"]["messageID"], &asked["tool"]["callID"])
}

pub fn key_of(message: &Value, call: &Value) -> Option<String> {
    Some(format!("{}/{}", message.as_str()?, call.as_str()?))
}

/// The call that a part of a message tells of, under the name that it has among the calls.
pub fn tool_call_in(part: &Value) -> Option<(String, ToolCall)> {
    let (key, tool) = (key_of(&part["messageID"], &part["callID"])?, part["tool"].as_str()?);
    let input = part["state"]["input"].as_object().cloned().unwrap_or_default();
    Some((key, ToolCall { tool: tool.to_owned(), input }))
}
