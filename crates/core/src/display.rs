//! What a person sees of a permission, made from the tool and its input alone. Whoever asks has no say in it, and
//! every byte of the input is in it: [`Display::rebuild`] gives the input back.

mod change;

use crate::body::Permission;
use crate::can::Can;
use crate::tool::Tool;
use crate::visible::one_line;
use change::Change;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// As many bytes as `before` may have when it is written as JSON.
pub const LONGEST_BEFORE: usize = 64 * 1024;
/// Stands after a line of a diff that ends its file without a line break.
pub const NO_NEWLINE: &str = "\\ No newline at end of file";
const ODD_NAME: &str = "the tool's name has characters other than A to Z, digits, and _ - . : / so it may look like another tool";
const UNCLEAR: &str = "the agent does not show enough to tell what this will do, so no rule decides it";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Display {
    pub kind: DisplayKind,
    /// One line, in the hub's words.
    pub title: String,
    /// The command; the whole input as JSON; or the diff as text.
    pub text: String,
    /// The file of a diff, as the input spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The diff. Of a Write, the lines that begin with a space or `+` are the whole content, each with a line break
    /// unless `\ No newline at end of file` follows. Of an Edit, there is one hunk for each edit: the lines that
    /// begin with `-` are its old string and those with `+` its new string, split at line breaks (no line: an empty
    /// string), and the others are the text around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<Hunk>>,
    /// Whether line numbers, removed and unchanged lines are what the agent's machine says of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before: bool,
    /// What of the input is not shown by the fields above. With several edits, `edits` has what else each of them says.
    pub rest: Map<String, Value>,
    #[serde(flatten)]
    pub remarks: Remarks,
}

/// What the hub says of a permission beside its input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remarks {
    /// The commands that a compound command consists of, each for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Why it may do more than it seems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisplayKind {
    Command,
    Diff,
    Json,
}

/// A part of a unified diff. Each line begins with a space, `+`, `-` or `\`, and has no line break in it. Lines are
/// counted from 1; 0 means that the hub does not know where in the file it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hunk {
    pub old_start: u64,
    pub new_start: u64,
    pub lines: Vec<String>,
}

/// What the hub would allow from then on, in the hub's words, for each scope that it keeps. A scope that the hub keeps
/// and that is missing here cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grants {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
}

impl Grants {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is shown beside an ask while it is open. The digest does not cover it: none of it changes what runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extras {
    /// What its agent can take from here.
    #[serde(default, skip_serializing_if = "Can::is_everything")]
    pub can: Can,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    #[serde(flatten)]
    pub remarks: Remarks,
}

/// What the agent's machine says of the file that would change: the places that change, and no more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "BeforeDraft")]
pub struct Before {
    /// In the order of the new content (Write) or of the edits.
    pub places: Vec<ChangedPlace>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BeforeDraft {
    places: Vec<ChangedPlace>,
}

/// One place. Lines are counted from 1 and written without their line breaks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedPlace {
    /// Where the place begins in the file as it is.
    pub old_start: u64,
    /// Write: the first line of the new content that belongs here. Edit: where the new text will begin.
    pub new_start: u64,
    /// Write: how many lines of the new content replace the removed ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub new_lines: u64,
    /// Write: the lines of the file that go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Write: whether the file ends with the removed lines, without a line break.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unended: bool,
    /// Edit: which of several edits is meant, counted from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub edit: u64,
    /// Edit: the lines before it, down to the one in which it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// Edit: the lines after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TryFrom<BeforeDraft> for Before {
    type Error = String;

    fn try_from(draft: BeforeDraft) -> Result<Self, String> {
        Self::new(draft.places)
    }
}

impl Before {
    pub fn new(places: Vec<ChangedPlace>) -> Result<Self, String> {
        let before = Self { places };
        // Written without its line breaks, a line that had one would look like two on a surface.
        let lines = before
            .places
            .iter()
            .flat_map(|place| place.removed.iter().chain(&place.above).chain(&place.below));
        if lines.into_iter().any(|line| line.contains('\n')) {
            return Err("a line must not have a line break in it".into());
        }
        match serde_json::to_string(&before).map_or(usize::MAX, |text| text.len()) {
            0..=LONGEST_BEFORE => Ok(before),
            _ => Err(format!("it may have at most {LONGEST_BEFORE} bytes: send the changed places only")),
        }
    }
}

impl Display {
    pub fn of(permission: &Permission, extras: &Extras) -> Self {
        let Permission { tool, input, .. } = permission;
        let command =
            input.get("command").and_then(Value::as_str).filter(|_| Tool::named(tool) == Some(Tool::Command));
        let mut display = match (command, Change::read(tool, input)) {
            (Some(command), _) => {
                let rest = without(input, &["command"]);
                Self { rest, ..Self::new(DisplayKind::Command, "Run a command".into(), command.to_owned()) }
            }
            (None, Some(change)) => change.display(extras.before.as_ref()),
            (None, None) => {
                let text = serde_json::to_string_pretty(input).unwrap_or_default();
                Self::new(DisplayKind::Json, format!("Use {}", one_line(tool)), text)
            }
        };
        display.remarks = extras.remarks.clone();
        if let Some(caution) = caution(tool) {
            display.remarks.caution.get_or_insert_with(|| caution.into());
        }
        display
    }

    fn new(kind: DisplayKind, title: String, text: String) -> Self {
        let (file, hunks, before, rest, remarks) = Default::default();
        Self { kind, title, text, file, hunks, before, rest, remarks }
    }

    /// The display that a hub sent, if it shows all of the input; else one made from the input here.
    pub fn checked(sent: Option<Value>, permission: &Permission) -> Self {
        let sent = sent.and_then(|display| serde_json::from_value::<Self>(display).ok());
        let whole =
            sent.filter(|display| display.rebuild(&permission.tool).as_ref() == Some(&permission.input));
        whole.unwrap_or_else(|| Self::of(permission, &Extras::default()))
    }

    /// The input that this shows, from what is shown: `kind`, `text`, `file`, `hunks`, `rest` and the tool.
    pub fn rebuild(&self, tool: &str) -> Option<Map<String, Value>> {
        match self.kind {
            DisplayKind::Json => serde_json::from_str(&self.text).ok(),
            DisplayKind::Command => {
                let mut input = self.rest.clone();
                input.insert("command".into(), Value::from(self.text.as_str()));
                Some(input)
            }
            DisplayKind::Diff => {
                change::rebuild(tool, self.file.as_deref()?, self.hunks.as_deref()?, &self.rest)
            }
        }
    }
}

fn without(input: &Map<String, Value>, shown: &[&str]) -> Map<String, Value> {
    let rest = input.iter().filter(|(field, _)| !shown.contains(&field.as_str()));
    rest.map(|(field, value)| (field.clone(), value.clone())).collect()
}

fn caution(tool: &str) -> Option<&'static str> {
    match Tool::named(tool) {
        Some(Tool::Unclear) => Some(UNCLEAR),
        Some(_) => None,
        None => has_odd_name(tool).then_some(ODD_NAME),
    }
}

fn has_odd_name(tool: &str) -> bool {
    !tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/".contains(c))
}

#[cfg(test)]
mod tests;
