//! The hunks of a unified diff, as agents tell what they are about to change.

use aye_core::Tool;
use serde_json::{Map, Value, json};

/// The hunks of a unified diff as edits. None where anything in it is not a plain line of a hunk.
pub fn edits(diff: &str) -> Option<Vec<Value>> {
    let mut lines = diff.strip_suffix('\n')?.split('\n').peekable();
    let mut edits = Vec::new();
    while let Some(header) = lines.next() {
        let (mut old_left, mut new_left, line) = hunk_header(header)?;
        let mut hunk = Vec::new();
        while old_left > 0 || new_left > 0 {
            let (mark, text) = lines.next()?.split_at_checked(1)?;
            let (old, new) = match mark {
                " " => (1, 1),
                "-" => (1, 0),
                "+" => (0, 1),
                _ => return None,
            };
            (old_left, new_left) = (old_left.checked_sub(old)?, new_left.checked_sub(new)?);
            hunk.push((mark, text));
        }
        edits.push(edit(&hunk, line)?);
    }
    (!edits.is_empty()).then_some(edits)
}

/// How many lines the hunk has of the old file and of the new one, and where it begins in the old one.
fn hunk_header(header: &str) -> Option<(u64, u64, u64)> {
    let (old, new) = header.strip_prefix("@@ -")?.strip_suffix(" @@")?.split_once(" +")?;
    let range = |range: &str| {
        let (start, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((start.parse::<u64>().ok()?, count.parse::<u64>().ok()?))
    };
    let ((start, old), (_, new)) = (range(old)?, range(new)?);
    Some((old, new, start))
}

/// Without the unchanged lines around it, as far as it still says where it belongs.
fn edit(hunk: &[(&str, &str)], line: u64) -> Option<Value> {
    let is_context = |(mark, _): &&(&str, &str)| *mark == " ";
    let above = hunk.iter().take_while(is_context).count();
    let below = hunk.iter().rev().take_while(is_context).count();
    let changed = hunk.get(above..hunk.len().checked_sub(below)?)?;
    let removes = changed.iter().any(|(mark, _)| *mark != "+");
    // What is only added is held by one of the lines around it.
    let (above, below) = match (removes, above, below) {
        (true, ..) => (above, below),
        (false, 1.., _) => (above - 1, below),
        (false, 0, 1..) => (above, below - 1),
        (false, 0, 0) => return None,
    };
    let kept = hunk.get(above..hunk.len().checked_sub(below)?)?;
    let side = |mark: &str| {
        let lines: Vec<_> =
            kept.iter().filter(|(m, _)| *m == " " || *m == mark).map(|(_, text)| *text).collect();
        lines.join("\n")
    };
    let line = line.saturating_add(above as u64);
    Some(json!({ "old_string": side("-"), "new_string": side("+"), "line": line }))
}

/// The tool that makes these edits of one file, and its input.
pub fn tool_of_edits(path: &str, edits: Vec<Value>) -> (Tool, Map<String, Value>) {
    match <[Value; 1]>::try_from(edits) {
        Ok([mut edit]) => {
            edit["file_path"] = path.into();
            (Tool::Edit, object(edit))
        }
        Err(edits) => (Tool::MultiEdit, object(json!({ "file_path": path, "edits": edits }))),
    }
}

pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
