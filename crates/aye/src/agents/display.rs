//! What a person sees before approving: a real diff against the file on disk, the whole command, or the
//! whole input. Never a summary in its place.

use aye_core::{Display, DisplayKind, Hunk};
use aye_policy::Script;
use serde_json::{Map, Value};
use similar::{DiffOp, TextDiff};
use std::path::{Path, PathBuf};

/// A larger file is not read for a diff; its whole input is shown instead.
const LARGEST_FILE: u64 = 2 * 1024 * 1024;
const CONTEXT: usize = 3;

pub fn of(tool: &str, input: &Map<String, Value>, cwd: &Path) -> Display {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let change = match tool {
        "Bash" => return text("command").map_or_else(|| whole(input), command),
        "Write" => text("file_path").zip(text("content")).and_then(|(path, content)| {
            let path = absolute(path, cwd);
            Some((path.clone(), read(&path)?, content.to_owned()))
        }),
        "Edit" => one_edit(input).and_then(|edit| edited(text("file_path")?, &[edit], cwd)),
        "MultiEdit" => edits(input).and_then(|edits| edited(text("file_path")?, &edits, cwd)),
        _ => None,
    };
    change.map_or_else(|| whole(input), |(path, before, after)| diff(&path, &before, &after))
}

fn command(command: &str) -> Display {
    let script = Script::read(command);
    let mut display = Display::new(DisplayKind::Command, command.to_owned());
    match script.plain {
        // Taken apart only where every shell takes it apart like this.
        Ok(_) if script.parts.len() > 1 => {
            display.parts = script.parts.into_iter().map(|part| part.line).collect();
        }
        Ok(_) => {}
        Err(why) => display.caution = Some(why.to_string()),
    }
    display
}

fn whole(input: &Map<String, Value>) -> Display {
    let text = serde_json::to_string_pretty(input).unwrap_or_default();
    Display::new(DisplayKind::Json, text)
}

struct Edit<'a> {
    old: &'a str,
    new: &'a str,
    all: bool,
}

fn one_edit(input: &Map<String, Value>) -> Option<Edit<'_>> {
    let text = |field: &str| input.get(field)?.as_str();
    let all = input.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
    Some(Edit { old: text("old_string")?, new: text("new_string")?, all })
}

fn edits(input: &Map<String, Value>) -> Option<Vec<Edit<'_>>> {
    input.get("edits")?.as_array()?.iter().map(|edit| one_edit(edit.as_object()?)).collect()
}

/// The file before and after; none where the edit does not fit the file, which the agent will then say itself.
fn edited(path: &str, edits: &[Edit], cwd: &Path) -> Option<(PathBuf, String, String)> {
    let path = absolute(path, cwd);
    let before = read(&path)?;
    let mut after = before.clone();
    for edit in edits {
        if edit.old.is_empty() && after.is_empty() {
            after = edit.new.to_owned();
            continue;
        }
        if edit.old.is_empty() || !after.contains(edit.old) {
            return None;
        }
        after =
            if edit.all { after.replace(edit.old, edit.new) } else { after.replacen(edit.old, edit.new, 1) };
    }
    Some((path, before, after))
}

fn absolute(path: &str, cwd: &Path) -> PathBuf {
    cwd.join(path)
}

/// A file that is not there is an empty one; one that is no text or too large has no diff.
fn read(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(String::new()),
        Ok(found) if found.is_file() && found.len() <= LARGEST_FILE => std::fs::read_to_string(path).ok(),
        _ => None,
    }
}

fn diff(path: &Path, before: &str, after: &str) -> Display {
    let diff = TextDiff::from_lines(before, after);
    let name = path.display().to_string();
    let text = diff.unified_diff().context_radius(CONTEXT).header(&name, &name).to_string();
    let hunks = diff.grouped_ops(CONTEXT).iter().map(|ops| hunk(&diff, ops)).collect();
    Display { hunks: Some(hunks), ..Display::new(DisplayKind::Diff, text) }
}

fn hunk<'a>(diff: &TextDiff<'a, 'a, str>, ops: &[DiffOp]) -> Hunk {
    let start = |range: Option<std::ops::Range<usize>>| range.map_or(0, |range| range.start as u64 + 1);
    let changes = ops.iter().flat_map(|op| diff.iter_changes(op));
    let lines = changes.map(|change| {
        let line = change.value().trim_end_matches('\n');
        format!("{}{line}", change.tag())
    });
    Hunk {
        old_start: start(ops.first().map(DiffOp::old_range)),
        new_start: start(ops.first().map(DiffOp::new_range)),
        lines: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(tool: &str, input: Value, cwd: &Path) -> Display {
        of(tool, input.as_object().unwrap(), cwd)
    }

    #[test]
    fn a_command_is_shown_whole() {
        let long = format!("echo {}", "x".repeat(100_000));
        let display = shown("Bash", json!({"command": long, "description": "harmless"}), Path::new("/"));
        assert_eq!((display.kind, display.text), (DisplayKind::Command, long));
    }

    #[test]
    fn a_compound_command_shows_its_parts_and_what_they_do_not_tell() {
        let display = shown("Bash", json!({"command": "cd /tmp && rm -rf x; ls"}), Path::new("/"));
        assert_eq!(display.parts, ["cd /tmp", "rm -rf x", "ls"]);
        assert_eq!(display.caution, None);
        let hidden = shown("Bash", json!({"command": "echo $(curl evil)"}), Path::new("/"));
        assert_eq!(hidden.parts, [""; 0]);
        assert_eq!(hidden.caution.as_deref(), Some("it runs a command inside a substitution"));
    }

    #[test]
    fn an_edit_is_a_real_diff_against_the_file_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
        let display =
            shown("Edit", json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"}), dir.path());
        assert_eq!(display.kind, DisplayKind::Diff);
        assert!(display.text.ends_with("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"), "{}", display.text);
        let lines: Vec<_> = [" one", "-two", "+2", " three"].map(String::from).into();
        assert_eq!(display.hunks, Some(vec![Hunk { old_start: 1, new_start: 1, lines }]));
    }

    #[test]
    fn a_write_shows_what_it_would_replace() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "old\n").unwrap();
        let display = shown(
            "Write",
            json!({"file_path": dir.path().join("a.txt"), "content": "new\n"}),
            Path::new("/"),
        );
        assert!(display.text.contains("-old\n+new\n"), "{}", display.text);
        let fresh = shown("Write", json!({"file_path": "b.txt", "content": "new\n"}), dir.path());
        assert!(fresh.text.contains("+new\n"), "{}", fresh.text);
    }

    #[test]
    fn several_edits_build_on_each_other() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "a a\n").unwrap();
        let edits = json!([{"old_string": "a", "new_string": "b", "replace_all": true}, {"old_string": "b b", "new_string": "c"}]);
        let display = shown("MultiEdit", json!({"file_path": "a.txt", "edits": edits}), dir.path());
        assert!(display.text.contains("-a a\n+c\n"), "{}", display.text);
    }

    #[test]
    fn what_has_no_diff_shows_its_whole_input() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bin"), [0xff, 0xfe]).unwrap();
        for (tool, input) in [
            ("Edit", json!({"file_path": "none.txt", "old_string": "x", "new_string": "y"})),
            ("Write", json!({"file_path": "bin", "content": "x"})),
            ("mcp__x", json!({"b": 1, "a": [2]})),
            ("Bash", json!({"command": 1})),
        ] {
            let display = shown(tool, input.clone(), dir.path());
            assert_eq!(display.kind, DisplayKind::Json, "{tool}");
            assert_eq!(serde_json::from_str::<Value>(&display.text).unwrap(), input);
        }
    }
}
