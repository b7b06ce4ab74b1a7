//! Sessions that a person runs in their own terminal, joined by hooks.

mod alone;
mod auto_mode;
mod followed;
mod installed;
mod modes;
mod races;
mod stage;
mod sub_agents;
mod terminal;
mod together;

use serde_json::{Value, json};

fn which_database() -> Value {
    json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}]}]})
}

fn sqlite() -> Value {
    json!({"answers": [{"selected": ["SQLite"]}]})
}

/// What the terminal shows below a question.
const DIALOG: &str = "Enter to select";
