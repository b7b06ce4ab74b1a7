//! The life of an ask over HTTP: what is taken, what is refused, and that a refusal changes nothing.

mod agents;
mod answers;
mod can;
mod endings;
mod limits;
mod raising;
mod tool_calls;

use crate::support::{Hub, Reply, path_of, yes_or_no};
use serde_json::{Value, json};

/// A hub with one agent, as most tests need it.
struct Room {
    hub: Hub,
    bot: String,
}

impl Room {
    fn new() -> Self {
        let hub = Hub::start();
        let bot = hub.agent("bot");
        Self { hub, bot }
    }

    fn raise(&self, key: &str, kind: &str, body: Value) -> Value {
        self.hub.raise(&self.bot, "bot", key, kind, body)
    }

    fn question(&self, key: &str) -> Value {
        self.raise(key, "question", yes_or_no())
    }

    fn try_raise(&self, raise: Value) -> Reply {
        self.hub.post("/api/asks", &self.bot, raise)
    }

    fn try_answer(&self, ask: &Value, call: Value) -> Reply {
        self.hub.post(&path_of(ask, "/answer"), &self.hub.operator(), call)
    }

    fn resolution(&self, ask: &Value) -> Reply {
        self.hub.get(&path_of(ask, "/resolution"), &self.bot)
    }

    fn receipt(&self, ask: &Value, receipt: &str) -> Reply {
        // Only a confirmation has to say what it was concluded from.
        let evidence = (receipt == "confirmed").then_some("seen");
        self.hub.post(&path_of(ask, "/receipt"), &self.bot, json!({"receipt": receipt, "evidence": evidence}))
    }

    fn withdraw(&self, ask: &Value, withdrawal: Value) -> Reply {
        self.hub.post(&path_of(ask, "/withdraw"), &self.bot, withdrawal)
    }

    fn all_asks(&self) -> Value {
        self.hub.get("/api/asks", &self.hub.operator()).body
    }
}

/// An ask with some fields changed, and all others as they were.
fn with(ask: &Value, changes: Value) -> Value {
    let mut ask = ask.clone();
    for (field, value) in changes.as_object().unwrap() {
        assert!(ask.get(field).is_some(), "an ask has no {field}");
        ask[field] = value.clone();
    }
    ask
}

fn error(why: &str) -> Value {
    json!({"error": why})
}
