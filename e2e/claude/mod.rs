//! The real Claude Code, driven by `aye run`, with a scripted model behind it. Each story checks what the
//! model was told in the end, which is the only proof.

mod kills;
mod modes;
mod permissions;
mod plans;
mod questions;
mod terminal;
mod turns;

use crate::agents::{CLAUDE, Stage};
use crate::support::printed;
use aye_testkit::model::Model;
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Output};

struct Story(Stage);

impl Story {
    fn new(steps: Vec<Vec<Value>>) -> Self {
        Self::with(Model::scripted(steps))
    }

    fn with(model: Model) -> Self {
        Self(Stage::new(&CLAUDE, model))
    }
}

impl Deref for Story {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl DerefMut for Story {
    fn deref_mut(&mut self) -> &mut Stage {
        &mut self.0
    }
}

/// A run that ended well, and all that it printed.
fn ended(run: Child) -> Output {
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn said(run: Child) -> String {
    printed(&ended(run))
}

fn option(label: &str) -> Value {
    json!({"label": label, "description": "."})
}

fn which_database() -> Value {
    json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [option("PostgreSQL"), option("SQLite")]}]})
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "x"})
}

fn read_json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}
