//! A tool call that an agent would make, and what is known of the tools.

use crate::home::Home;
use crate::pattern::FolderGlob;
use crate::shell::Script;
use aye_core::ask::Body;
use serde_json::{Map, Value};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// `claude`, …
    pub agent_kind: &'a str,
    /// The folder the agent says it works in.
    pub cwd: &'a str,
    /// What else is known of that folder.
    pub folder: Folder<'a>,
    pub tool: &'a str,
    pub input: &'a Map<String, Value>,
    pub home: &'a Home,
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
        Body::Question(_) => (Cow::Borrowed("AskUserQuestion"), whole()),
        Body::Plan(_) => (Cow::Borrowed("ExitPlanMode"), whole()),
    }
}

/// How far an agent's word for its folder goes. Rules that are bound to a folder allow nothing elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folder<'a> {
    /// Nobody has looked, and the word is taken.
    #[default]
    Claimed,
    /// It works in this folder, and what it says is this one or one below it.
    Known(&'a str),
    /// It was found elsewhere, or says different things.
    Disputed,
}

impl Folder<'_> {
    /// Whether a rule for these folders may allow something; what the agent says must fit as well.
    pub(crate) fn may_be_in(self, folders: &FolderGlob) -> bool {
        match self {
            Folder::Claimed => true,
            Folder::Known(known) => folders.matches(known),
            Folder::Disputed => false,
        }
    }
}

/// Tools that exist to ask a person: approving them by rule would invent the answer.
pub const PERSON_ONLY: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

/// Tools that look through everything below a folder: the agent's own, unless the input names another.
pub const SEARCH_TOOLS: [&str; 3] = ["Glob", "Grep", "LS"];

/// Tools that open the one file their input names; the rest of the input is text.
pub const FILE_TOOLS: [&str; 6] = ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "NotebookRead"];

/// A tool whose input is a command for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellTool {
    pub name: &'static str,
    /// The field that holds the command.
    pub command: &'static str,
    /// Fields that change nothing about what the command may do.
    harmless: &'static [&'static str],
}

pub const SHELL_TOOLS: [ShellTool; 1] = [ShellTool {
    name: "Bash",
    command: "command",
    harmless: &["description", "timeout", "run_in_background"],
}];

impl ShellTool {
    pub fn named(tool: &str) -> Option<&'static ShellTool> {
        SHELL_TOOLS.iter().find(|shell| shell.name == tool)
    }

    /// Whether this field changes nothing about what the command may do.
    pub(crate) fn is_harmless(&self, field: &str) -> bool {
        self.harmless.contains(&field)
    }

    /// The first field that may give the command more power than its words say, such as one that lifts a
    /// sandbox.
    pub fn unusual_field<'a>(
        &self,
        input: &'a Map<String, Value>,
        accepted: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let unset = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
        let usual = |field: &str| field == self.command || self.is_harmless(field) || accepted(field);
        input.iter().find(|(field, value)| !usual(field) && !unset(value)).map(|(field, _)| field.as_str())
    }
}

impl ToolCall<'_> {
    pub fn is_person_only(&self) -> bool {
        PERSON_ONLY.contains(&self.tool)
    }

    pub fn names_home(&self) -> bool {
        let looks_through = SEARCH_TOOLS.contains(&self.tool);
        self.home.is_named(self.cwd, self.input)
            || (looks_through && self.home.is_below(self.cwd, self.input, self.tool == "Glob"))
    }

    /// The command taken apart, for a shell tool. A command that is missing or no text cannot be parsed.
    pub fn script(&self) -> Option<Script> {
        let shell = ShellTool::named(self.tool)?;
        Some(Script::read(self.input.get(shell.command).and_then(Value::as_str).unwrap_or_default()))
    }
}
