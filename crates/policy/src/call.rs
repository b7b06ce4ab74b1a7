//! A tool call that an agent would make.

use crate::carried;
use crate::own_places::OwnPlaces;
use crate::pattern::{FolderGlob, settle_path};
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

/// How far the folder that an agent reports can be trusted. Rules for a folder allow nothing elsewhere. Rules that deny
/// or ask count if any folder matches that the agent reports or is known to be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folder<'a> {
    /// Not checked; the report is trusted.
    #[default]
    Claimed,
    /// The agent works in this folder, and reports it or one below it.
    Known(&'a str),
    /// Not checked, and the report is not trusted: rules for a folder allow nothing.
    Unproven,
    /// The agent works elsewhere, or its reports differ: it may be in any of these folders. A person is asked.
    Disputed(&'a [String]),
}

impl Folder<'_> {
    /// Whether a rule for these folders may allow something; the reported folder must match as well.
    pub(crate) fn may_be_in(self, folders: &FolderGlob) -> bool {
        match self {
            Folder::Claimed => true,
            Folder::Known(known) => folders.matches(known),
            Folder::Unproven | Folder::Disputed(_) => false,
        }
    }

    /// The folders beside the reported one that the agent may be in.
    fn others(&self) -> impl Iterator<Item = &str> {
        let (known, disputed) = match *self {
            Folder::Claimed | Folder::Unproven => (None, &[][..]),
            Folder::Known(known) => (Some(known), &[][..]),
            Folder::Disputed(folders) => (None, folders),
        };
        known.into_iter().chain(disputed.iter().map(String::as_str))
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

    /// Whether it runs a command, also by a tool that is not in the vocabulary. For deny and ask rules.
    pub(crate) fn carries_command(&self) -> bool {
        carried::carries_command(self.tool, self.input)
    }

    /// The commands that deny and ask rules see: of a shell tool and of every other input that has one.
    pub(crate) fn carried_script(&self) -> Option<Script> {
        carried::script(self.tool, self.input)
    }

    /// Every folder that the agent may be in, normalised.
    pub(crate) fn folders(&self) -> Vec<String> {
        let mut folders = vec![settle_path("/", self.cwd)];
        for other in self.folder.others() {
            folders.extend([settle_path("/", other), settle_path(other, self.cwd)]);
        }
        folders.dedup();
        folders
    }

    /// Whether nobody knows where the agent works: it does not say, and nothing else tells.
    pub(crate) fn has_no_folder(&self) -> bool {
        !self.cwd.starts_with('/') && !self.folder.others().any(|folder| folder.starts_with('/'))
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
