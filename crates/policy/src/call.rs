//! A tool call that an agent would make.

use crate::own_places::OwnPlaces;
use crate::pattern::FolderGlob;
use crate::shell::Script;
use aye_core::body::Body;
use aye_core::tool::{Operation, Tool};
use serde_json::{Map, Value};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// `claude`, …
    pub agent_kind: &'a str,
    /// The folder the agent says it works in.
    pub cwd: &'a str,
    /// What else is known about that folder.
    pub folder: Folder<'a>,
    pub tool: &'a str,
    pub input: &'a Map<String, Value>,
    pub places: &'a OwnPlaces,
}

/// The tool behind an ask, as rules name it.
pub fn tool_and_input(body: &Body) -> (Cow<'_, str>, Cow<'_, Map<String, Value>>) {
    let whole = || {
        let mut fields = Map::new();
        if let Value::Object(found) = body.to_json() {
            fields = found;
        }
        Cow::Owned(fields)
    };
    match body {
        Body::Permission(permission) => (Cow::Borrowed(&permission.tool), Cow::Borrowed(&permission.input)),
        // What such a question allows is told in words alone.
        Body::Question(_) if body.has_allowing_option() => (Cow::Borrowed(Tool::Unclear.name()), whole()),
        Body::Question(_) => (Cow::Borrowed(Tool::Questions.name()), whole()),
        Body::Plan(_) => (Cow::Borrowed(Tool::Plan.name()), whole()),
    }
}

/// How far the folder that an agent reports can be trusted. Rules for a folder allow nothing elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folder<'a> {
    /// Not checked; the report is trusted.
    #[default]
    Claimed,
    /// The agent works in this folder, and reports it or one below it.
    Known(&'a str),
    /// The agent works elsewhere, or its reports differ.
    Disputed,
}

impl Folder<'_> {
    /// Whether a rule for these folders may allow something; the reported folder must match as well.
    pub(crate) fn may_be_in(self, folders: &FolderGlob) -> bool {
        match self {
            Folder::Claimed => true,
            Folder::Known(known) => folders.matches(known),
            Folder::Disputed => false,
        }
    }
}

/// The field that holds the command of a shell tool.
pub const COMMAND_FIELD: &str = "command";
/// Fields of a shell tool that have no influence on what its command may do.
pub(crate) const HARMLESS_FIELDS: [&str; 3] = ["description", "timeout", "run_in_background"];

/// The first field that may give a command more power than its words say, such as one that lifts a sandbox.
pub(crate) fn unusual_field(input: &Map<String, Value>, accepted: impl Fn(&str) -> bool) -> Option<&str> {
    let unset = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
    let usual = |field: &str| field == COMMAND_FIELD || HARMLESS_FIELDS.contains(&field) || accepted(field);
    input.iter().find(|(field, value)| !usual(field) && !unset(value)).map(|(field, _)| field.as_str())
}

impl ToolCall<'_> {
    /// What it does, for a tool of the vocabulary.
    pub fn act(&self) -> Option<Operation> {
        Tool::named(self.tool).map(Tool::act)
    }

    pub fn runs_command(&self) -> bool {
        self.act() == Some(Operation::Command)
    }

    pub fn is_person_only(&self) -> bool {
        Tool::named(self.tool).is_some_and(Tool::needs_a_person)
    }

    pub fn names_home(&self) -> bool {
        let is_below =
            || self.places.is_below(self.cwd, self.input, Tool::named(self.tool) == Some(Tool::Glob));
        self.places.is_named(self.cwd, self.input) || (self.act() == Some(Operation::Search) && is_below())
    }

    /// The parsed command of a shell tool. A command that is missing or not a string counts as unparsable.
    pub fn script(&self) -> Option<Script> {
        let command = || self.input.get(COMMAND_FIELD).and_then(Value::as_str).unwrap_or_default();
        self.runs_command().then(|| Script::read(command()))
    }
}
