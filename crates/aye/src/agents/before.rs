//! What only the agent's machine knows of a change: the file as it is. Sent beside the input, and only the places that
//! would change; the hub makes what people see from the input itself.

use aye_core::{Before, Body, ChangedPlace, Tool};
use serde_json::{Map, Value};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::path::Path;

/// A larger file is not read.
const LARGEST_FILE: u64 = 2 * 1024 * 1024;
const CONTEXT: usize = 3;
/// Beyond this many pairs of lines a comparison may take seconds; all of the old then goes, all of the new comes.
const MOST_PAIRS: usize = 16_000_000;

/// None where there is nothing to say, or more than may be said.
pub fn of(body: &Body, cwd: &Path) -> Option<Before> {
    let Body::Permission(permission) = body else { return None };
    let places = match FileChange::read(&permission.tool, &permission.input, cwd)? {
        FileChange::Write { file, content } => written(&file, content),
        FileChange::Edit { file, edits } => edited(file, &edits)?.0,
    };
    Before::new(places).ok()
}

/// The file as it is, and as the call would leave it.
pub fn and_after(tool: &str, input: &Map<String, Value>, cwd: &Path) -> Option<(String, String)> {
    Some(match FileChange::read(tool, input, cwd)? {
        FileChange::Write { file, content } => (file, content.to_owned()),
        FileChange::Edit { file, edits } => (file.clone(), edited(file, &edits)?.1),
    })
}

/// A call that changes a file, with the file.
enum FileChange<'a> {
    Write { file: String, content: &'a str },
    Edit { file: String, edits: Vec<Edit<'a>> },
}

impl<'a> FileChange<'a> {
    fn read(tool: &str, input: &'a Map<String, Value>, cwd: &Path) -> Option<Self> {
        let text = |field: &str| input.get(field).and_then(Value::as_str);
        let file = || read(&cwd.join(text("file_path")?));
        match Tool::named(tool)? {
            Tool::Write => Some(Self::Write { file: file()?, content: text("content")? }),
            Tool::Edit => Some(Self::Edit { file: file()?, edits: vec![edit(input)?] }),
            Tool::MultiEdit => {
                let edits = input.get("edits")?.as_array()?.iter().map(|fields| edit(fields.as_object()?));
                Some(Self::Edit { file: file()?, edits: edits.collect::<Option<_>>()? })
            }
            _ => None,
        }
    }
}

/// A file that is not there is an empty one.
fn read(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(String::new()),
        Ok(found) if found.is_file() && found.len() <= LARGEST_FILE => std::fs::read_to_string(path).ok(),
        _ => None,
    }
}

fn written(file: &str, content: &str) -> Vec<ChangedPlace> {
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
    let (old, new) = (lines(file), lines(content));
    let changes = match old.len().saturating_mul(new.len()) {
        0..=MOST_PAIRS => capture_diff_slices(Algorithm::Myers, &old, &new),
        _ => common_ends_apart(&old, &new),
    };
    let changes = changes.iter().filter(|change| !matches!(change, DiffOp::Equal { .. }));
    let place = |change: &DiffOp| {
        let (gone, come) = (change.old_range(), change.new_range());
        let removed: Vec<_> = old[gone.clone()].iter().map(|line| plain(line)).collect();
        ChangedPlace {
            old_start: gone.start as u64 + 1,
            new_start: come.start as u64 + 1,
            new_lines: come.len() as u64,
            unended: gone.end == old.len() && !removed.is_empty() && !file.ends_with('\n'),
            removed,
            ..ChangedPlace::default()
        }
    };
    changes.map(place).collect()
}

fn common_ends_apart(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_left, new_left) = (&old[start..], &new[start..]);
    let end = old_left.iter().rev().zip(new_left.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_len, new_len) = (old_left.len() - end, new_left.len() - end);
    vec![DiffOp::Replace { old_index: start, old_len, new_index: start, new_len }]
}

fn plain(line: &str) -> String {
    line.strip_suffix('\n').unwrap_or(line).to_owned()
}

struct Edit<'a> {
    old: &'a str,
    new: &'a str,
    all: bool,
}

fn edit(fields: &Map<String, Value>) -> Option<Edit<'_>> {
    let text = |field: &str| fields.get(field)?.as_str();
    let all = fields.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
    Some(Edit { old: text("old_string")?, new: text("new_string")?, all })
}

/// The places, and the text in the end. Each edit builds on the ones before it. None where one does not fit the file, which the agent will then say itself.
fn edited(mut text: String, edits: &[Edit]) -> Option<(Vec<ChangedPlace>, String)> {
    let mut places = Vec::new();
    for (edit, n) in edits.iter().zip(0..) {
        if edit.old.is_empty() {
            // It makes a new file, or nothing of it.
            text = text.is_empty().then(|| edit.new.to_owned())?;
            continue;
        }
        let start = text.find(edit.old)?;
        // Of several places it is not known which one is meant.
        if !edit.all && text.rfind(edit.old) != Some(start) {
            return None;
        }
        places.push(ChangedPlace { edit: n, ..around(&text, start, start + edit.old.len()) });
        text = match edit.all {
            true => text.replace(edit.old, edit.new),
            false => text.replacen(edit.old, edit.new, 1),
        };
    }
    Some((places, text))
}

/// The lines around a range, those in which it begins and ends among them where it is only part of them.
fn around(text: &str, start: usize, end: usize) -> ChangedPlace {
    let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let last = text[end..].find('\n').map_or(text.len(), |at| end + at);
    let mut above = last_lines(&text[..first]);
    let mut below = Vec::new();
    let begins_inside = first < start;
    // A range that ends with a line break ends before the next line, not inside of it.
    let ends_inside = end < last && !text[..end].ends_with('\n');
    let line_of_start = &text[first..text[first..].find('\n').map_or(text.len(), |at| first + at)];
    if begins_inside {
        above.push(line_of_start.to_owned());
    }
    if ends_inside && !(begins_inside && first + line_of_start.len() == last) {
        let from = text[..end].rfind('\n').map_or(0, |at| at + 1);
        below.push(text[from..last].to_owned());
    }
    let rest = match text[..end].ends_with('\n') {
        true => &text[end..],
        false => text.get(last + 1..).unwrap_or_default(),
    };
    below.extend(rest.split_inclusive('\n').take(CONTEXT).map(plain));
    let line = text[..first].matches('\n').count() as u64 + 1 + u64::from(begins_inside);
    ChangedPlace { old_start: line, new_start: line, above, below, ..ChangedPlace::default() }
}

fn last_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.split_inclusive('\n').rev().take(CONTEXT).map(plain).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::NewAsk;
    use aye_core::{AgentId, Display, Extras, Key, Permission, RaisedBody};
    use serde_json::json;

    /// What the hub shows of it.
    fn shown(file: Option<&str>, tool: &str, mut input: Value) -> (bool, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(text) = file {
            std::fs::write(dir.path().join("a.txt"), text).unwrap();
        }
        input["file_path"] = "a.txt".into();
        let Value::Object(fields) = input else { panic!("no object") };
        let body = Body::Permission(Permission::new(tool.into(), fields, None).unwrap());
        let (key, agent) = (Key::try_from("k").unwrap(), AgentId::try_from("a").unwrap());
        let new = NewAsk::new(key, agent, &body).with_before(of(&body, dir.path()));
        let (raised, before) = RaisedBody::decode(new.kind, new.body).unwrap();
        assert_eq!(raised, body, "what is said of the file is no part of what is asked");
        let Body::Permission(permission) = &raised else { panic!("{raised:?}") };
        let display = Display::of(permission, &Extras { before, ..Extras::default() });
        let lines = display.hunks.into_iter().flatten().flat_map(|hunk| hunk.lines);
        (display.before, lines.collect())
    }

    #[test]
    fn a_write_shows_what_it_would_replace() {
        let write = |content: &str| json!({ "content": content });
        let (told, lines) = shown(Some("one\ntwo\nthree\n"), "Write", write("one\n2\nthree\n"));
        assert!(told);
        assert_eq!(lines, [" one", "-two", "+2", " three"]);
        let (told, lines) = shown(None, "Write", write("new\n"));
        assert_eq!((told, lines), (true, vec!["+new".to_owned()]));
        let end = aye_core::display::NO_NEWLINE;
        assert_eq!(shown(Some("one"), "Write", write("one\n")).1, ["-one", end, "+one"]);
        assert_eq!(shown(Some("one\nend"), "Write", write("one\n")).1, [" one", "-end", end]);
        assert_eq!(shown(Some("a\rb\r\n"), "Write", write("a\rb\r\nc")).1, [" a\rb\r", "+c", end]);
    }

    #[test]
    fn an_edit_shows_the_lines_it_stands_in() {
        let edit = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
        let file = "0\n1\n2\n3\nlet two = 1;\n5\n6\n7\n8\n";
        let (told, lines) = shown(Some(file), "Edit", edit("let two = 1;\n", "let two = 2;\n"));
        assert!(told);
        assert_eq!(lines, [" 1", " 2", " 3", "-let two = 1;", "-", "+let two = 2;", "+", " 5", " 6", " 7"]);
        let (_, lines) = shown(Some(file), "Edit", edit("two", "2"));
        assert_eq!(lines, [" 1", " 2", " 3", " let two = 1;", "-two", "+2", " 5", " 6", " 7"]);
        let (_, lines) = shown(Some(file), "Edit", edit("3\nlet", "x"));
        assert_eq!(lines[3..], ["-3", "-let", "+x", " let two = 1;", " 5", " 6", " 7"]);
        let (told, lines) = shown(Some(file), "Edit", edit("not there", "x"));
        assert_eq!((told, lines.len()), (false, 2));
    }

    #[test]
    fn several_edits_build_on_each_other() {
        let edits = json!([{"old_string": "a", "new_string": "b", "replace_all": true}, {"old_string": "b b", "new_string": "c"}]);
        let (told, lines) = shown(Some("x\na a\n"), "MultiEdit", json!({ "edits": edits }));
        assert!(told);
        assert_eq!(lines, [" x", "-a", "+b", " a a", " x", "-b b", "+c"]);
    }

    #[test]
    fn what_is_too_much_to_say_is_not_said() {
        let long = "x\n".repeat(60_000);
        let (told, lines) = shown(Some(&long), "Write", json!({"content": "y\n"}));
        assert_eq!((told, lines), (false, vec!["+y".to_owned()]));
        let (told, _) = shown(Some(&long), "Write", json!({ "content": format!("{long}y\n") }));
        assert!(told, "only the places that change count");
    }
}
