//! Changes of a file as diffs from which the input can be rebuilt.

use super::{Before, ChangedPlace, Display, DisplayKind, Hunk, NO_NEWLINE, without};
use crate::tool::Tool;
use crate::visible::one_line;
use serde_json::{Map, Value};

/// An input that can be shown as a diff. If a field has an unexpected type, the input is shown as JSON instead.
pub enum Change<'a> {
    Write { file: &'a str, content: &'a str, rest: Map<String, Value> },
    Edit { file: &'a str, edits: Vec<(&'a str, &'a str)>, rest: Map<String, Value> },
}

impl<'a> Change<'a> {
    pub fn read(tool: &str, input: &'a Map<String, Value>) -> Option<Self> {
        let file = text(input, "file_path")?;
        match Tool::named(tool) {
            Some(Tool::Write) => {
                let rest = without(input, &["file_path", "content"]);
                Some(Change::Write { file, content: text(input, "content")?, rest })
            }
            Some(Tool::Edit) => {
                let rest = without(input, &["file_path", "old_string", "new_string"]);
                Some(Change::Edit { file, edits: vec![edit(input)?], rest })
            }
            Some(Tool::MultiEdit) => {
                let all = input.get("edits")?.as_array().filter(|all| !all.is_empty())?;
                let all = all.iter().map(Value::as_object).collect::<Option<Vec<_>>>()?;
                let edits = all.iter().map(|fields| edit(fields)).collect::<Option<Vec<_>>>()?;
                let mut rest = without(input, &["file_path", "edits"]);
                let each: Vec<_> =
                    all.iter().map(|fields| without(fields, &["old_string", "new_string"])).collect();
                if each.iter().any(|fields| !fields.is_empty()) {
                    rest.insert("edits".into(), each.into_iter().map(Value::Object).collect());
                }
                Some(Change::Edit { file, edits, rest })
            }
            Some(_) | None => None,
        }
    }

    pub fn display(self, before: Option<&Before>) -> Display {
        match self {
            Change::Write { file, content, rest } => {
                let told = before.and_then(|before| write(content, &before.places));
                let is_told = told.is_some();
                // Nothing is known about the file, so every line counts as new.
                let hunk = told.or_else(|| write(content, &[all_of(content)])).into_iter().collect();
                diff(format!("Write {}", one_line(file)), file, hunk, is_told, rest)
            }
            Change::Edit { file, edits, rest } => {
                let place =
                    |n: usize| before?.places.iter().find(|place| usize::try_from(place.edit) == Ok(n));
                let hunks = edits.iter().enumerate().map(|(n, (old, new))| one_edit(old, new, place(n)));
                let hunks: Vec<_> = hunks.collect();
                let title = match hunks.len() {
                    1 => format!("Edit {}", one_line(file)),
                    several => format!("Make {several} edits in {}", one_line(file)),
                };
                let is_told = (0..hunks.len()).any(|n| place(n).is_some());
                diff(title, file, hunks, is_told, rest)
            }
        }
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str()
}

fn edit(fields: &Map<String, Value>) -> Option<(&str, &str)> {
    Some((text(fields, "old_string")?, text(fields, "new_string")?))
}

fn diff(title: String, file: &str, hunks: Vec<Hunk>, before: bool, rest: Map<String, Value>) -> Display {
    let name = one_line(file);
    let mut text = format!("--- {name}\n+++ {name}\n");
    for hunk in &hunks {
        let count = |marks: [char; 2]| hunk.lines.iter().filter(|line| line.starts_with(marks)).count();
        let (old, new) = (count([' ', '-']), count([' ', '+']));
        text += &format!("@@ -{},{old} +{},{new} @@\n", hunk.old_start, hunk.new_start);
        for line in &hunk.lines {
            text += line;
            text.push('\n');
        }
    }
    let new = Display::new(DisplayKind::Diff, title, text);
    Display { file: Some(file.to_owned()), hunks: Some(hunks), before, rest, ..new }
}

/// The lines of a file, and whether the last one lacks its line break.
fn file_lines(content: &str) -> (Vec<&str>, bool) {
    let mut lines: Vec<_> = content.split('\n').collect();
    let is_open = lines.last().is_some_and(|last| !last.is_empty());
    if !is_open {
        lines.pop();
    }
    (lines, is_open)
}

fn all_of(content: &str) -> ChangedPlace {
    let new_lines = file_lines(content).0.len() as u64;
    ChangedPlace { old_start: 0, new_start: 1, new_lines, ..ChangedPlace::default() }
}

/// The whole content as one hunk: new where a place says so, unchanged elsewhere. `None` if the places do not fit.
fn write(content: &str, places: &[ChangedPlace]) -> Option<Hunk> {
    let (new, is_open) = file_lines(content);
    let mut lines = Vec::with_capacity(new.len());
    let put = |lines: &mut Vec<String>, mark: char, from: usize, to: usize| -> Option<()> {
        for (n, line) in (from..to).zip(new.get(from..to)?) {
            lines.push(format!("{mark}{line}"));
            if is_open && n + 1 == new.len() {
                lines.push(NO_NEWLINE.to_owned());
            }
        }
        Some(())
    };
    let mut at = 0;
    for place in places {
        let start = usize::try_from(place.new_start.checked_sub(1)?).ok()?;
        let end = start.checked_add(usize::try_from(place.new_lines).ok()?)?;
        put(&mut lines, ' ', at, start)?;
        lines.extend(place.removed.iter().map(|line| format!("-{line}")));
        if place.unended && !place.removed.is_empty() {
            lines.push(NO_NEWLINE.to_owned());
        }
        put(&mut lines, '+', start, end)?;
        at = end;
    }
    put(&mut lines, ' ', at, new.len())?;
    let is_known = places.iter().all(|place| place.old_start > 0);
    Some(Hunk { old_start: u64::from(is_known), new_start: 1, lines })
}

/// The lines of a string; no line for an empty one.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').take(if text.is_empty() { 0 } else { usize::MAX })
}

fn one_edit(old: &str, new: &str, place: Option<&ChangedPlace>) -> Hunk {
    let around = |lines: fn(&ChangedPlace) -> &[String]| place.map(lines).unwrap_or_default();
    let (above, below) = (around(|place| &place.above), around(|place| &place.below));
    let marked = |mark: char| move |line: &str| format!("{mark}{line}");
    let lines = above.iter().map(String::as_str).map(marked(' '));
    let lines = lines.chain(pieces(old).map(marked('-'))).chain(pieces(new).map(marked('+')));
    let lines = lines.chain(below.iter().map(String::as_str).map(marked(' '))).collect();
    let start = |line: fn(&ChangedPlace) -> u64| place.map_or(0, line).saturating_sub(above.len() as u64);
    Hunk { old_start: start(|place| place.old_start), new_start: start(|place| place.new_start), lines }
}

/// The input that a diff was made from.
pub fn rebuild(
    tool: &str,
    file: &str,
    hunks: &[Hunk],
    rest: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut input = rest.clone();
    input.insert("file_path".into(), Value::from(file));
    match (Tool::named(tool), hunks) {
        (Some(Tool::Write), [hunk]) => {
            input.insert("content".into(), Value::from(content(&hunk.lines)));
        }
        (Some(Tool::Edit), [hunk]) => put_edit(&mut input, hunk),
        (Some(Tool::MultiEdit), hunks) => {
            let rest = input.shift_remove("edits");
            let mut edits = Vec::new();
            for (n, hunk) in hunks.iter().enumerate() {
                let mut edit = match &rest {
                    Some(rest) => rest.get(n)?.as_object()?.clone(),
                    None => Map::new(),
                };
                put_edit(&mut edit, hunk);
                edits.push(Value::Object(edit));
            }
            input.insert("edits".into(), Value::Array(edits));
        }
        (Some(_) | None, _) => return None,
    }
    Some(input)
}

fn put_edit(fields: &mut Map<String, Value>, hunk: &Hunk) {
    let side = |mark: char| {
        let lines: Vec<_> = hunk.lines.iter().filter_map(|line| line.strip_prefix(mark)).collect();
        Value::from(lines.join("\n"))
    };
    fields.insert("old_string".into(), side('-'));
    fields.insert("new_string".into(), side('+'));
}

fn content(lines: &[String]) -> String {
    let mut content = String::new();
    let mut last_is_new = false;
    for line in lines {
        if let Some(line) = line.strip_prefix([' ', '+']) {
            content += line;
            content.push('\n');
            last_is_new = true;
        } else {
            if line.starts_with('\\') && last_is_new {
                content.pop();
            }
            last_is_new = false;
        }
    }
    content
}
