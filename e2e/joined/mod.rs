//! Agents in a person's own terminal that take an answer from us as well, with the real programs.

mod codex;
mod opencode;
mod stage;

use serde_json::{Value, json};

fn once() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

fn sqlite() -> Value {
    json!({"answers": [{"selected": ["SQLite"]}]})
}
