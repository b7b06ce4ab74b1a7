//! Sessions that a person runs in tmux, with nothing of ours in them: their questions are found in their
//! transcripts, and the answers typed. Each story checks what the model was told in the end.

mod found;
mod keyboard;
mod pending;
mod prompts;
mod stage;
mod typed;

use serde_json::{Value, json};

fn option(label: &str) -> Value {
    json!({"label": label, "description": "as it says"})
}

fn question(text: &str, multi: bool, labels: &[&str]) -> Value {
    let options: Vec<_> = labels.iter().map(|label| option(label)).collect();
    json!({"question": text, "header": "Choice", "multiSelect": multi, "options": options})
}

fn asks(id: &str, questions: &[Value]) -> Vec<Value> {
    vec![aye_testkit::model::tool(id, "AskUserQuestion", json!({ "questions": questions }))]
}

fn which_database(id: &str) -> Vec<Value> {
    asks(id, &[question("Which DB?", false, &["PostgreSQL", "SQLite"])])
}

fn picked(label: &str) -> Value {
    json!({"answers": [{"selected": [label]}]})
}
