//! The calls that an agent has announced and not ended. A request names its call, and may say less of it than the
//! announcement did.

use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Of more than these, requests count for what they say themselves.
const MOST_CALLS: usize = 256;

#[derive(Default)]
pub struct Calls(HashMap<String, Value>);

impl Calls {
    /// What an update says replaces what was said before.
    pub fn told(&mut self, id: &str, update: &Value) {
        if matches!(update["status"].as_str(), Some("completed" | "failed")) {
            self.0.remove(id);
            return;
        }
        if self.0.len() >= MOST_CALLS && !self.0.contains_key(id) {
            return;
        }
        let known = self.0.entry(id.to_owned()).or_insert_with(|| json!({}));
        for field in ["title", "kind", "rawInput", "content", "locations", "_meta"] {
            if !update[field].is_null() {
                known[field] = update[field].clone();
            }
        }
    }

    pub fn of(&self, call: &Value) -> Option<&Value> {
        self.0.get(call["toolCallId"].as_str()?)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether the request says something else of a field than the announcement of its call.
pub fn contradict(asked: &Map<String, Value>, told: &Map<String, Value>) -> bool {
    asked.iter().any(|(field, value)| told.get(field).is_some_and(|told| told != value))
}

/// The input, where there is one.
pub fn raw_input(call: &Value) -> Option<&Map<String, Value>> {
    call["rawInput"].as_object().filter(|raw| !raw.is_empty())
}

/// The texts of a call, as far as it is told in texts.
pub fn texts(call: &Value) -> impl Iterator<Item = &str> {
    let blocks = call["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["content"]["text"].as_str())
}
