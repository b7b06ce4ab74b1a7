//! The changes of files that Codex wants to make, in the vocabulary of tools: one file that is written or edited.

use crate::agents::driven::hunks::{edits, object, tool_of_edits};
use aye_core::Tool;
use serde_json::{Map, Value, json};

/// Several files at once, or a file that is moved or removed.
const SEVERAL: &str = "apply_patch";

/// The tool that makes these changes, and its input, which has every byte of them.
pub fn tool_and_input(changes: &Value) -> Option<(String, Map<String, Value>)> {
    let all = changes.as_array().filter(|all| !all.is_empty())?;
    let one = all.first().filter(|_| all.len() == 1).and_then(one_file);
    let several = || (SEVERAL.to_owned(), [("changes".to_owned(), changes.clone())].into_iter().collect());
    Some(one.map_or_else(several, |(tool, input)| (tool.name().to_owned(), input)))
}

fn one_file(change: &Value) -> Option<(Tool, Map<String, Value>)> {
    let fields = change.as_object().filter(|fields| fields.len() == 3)?;
    let (path, diff) = (fields.get("path")?.as_str()?, fields.get("diff")?.as_str()?);
    let kind = fields.get("kind")?.as_object()?;
    let stays =
        kind.iter().all(|(field, value)| field == "type" || (field == "move_path" && value.is_null()));
    let input = match kind.get("type")?.as_str()? {
        "add" if stays => return Some((Tool::Write, object(json!({ "file_path": path, "content": diff })))),
        "update" if stays => edits(diff)?,
        _ => return None,
    };
    Some(tool_of_edits(path, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: Value, diff: &str) -> Value {
        json!([{ "path": "/src/a", "kind": kind, "diff": diff }])
    }

    fn updated(diff: &str) -> (String, Value) {
        let update = json!({ "type": "update", "move_path": null });
        let (tool, input) = tool_and_input(&change(update, diff)).unwrap();
        (tool, Value::Object(input))
    }

    #[test]
    fn one_new_file_is_written_and_one_changed_file_is_edited_where_it_changes() {
        let (tool, input) = tool_and_input(&change(json!({"type": "add"}), "hello\n")).unwrap();
        assert_eq!(tool, "Write");
        assert_eq!(Value::Object(input), json!({"file_path": "/src/a", "content": "hello\n"}));
        let (tool, input) = updated("@@ -4,3 +4,4 @@\n a\n-b\n+B\n+C\n d\n");
        assert_eq!(tool, "Edit");
        assert_eq!(input, json!({"old_string": "b", "new_string": "B\nC", "line": 5, "file_path": "/src/a"}));
        let (tool, input) = updated("@@ -1,2 +1,3 @@\n a\n+b\n c\n@@ -9 +10,0 @@\n-z\n");
        assert_eq!(tool, "MultiEdit");
        assert_eq!(
            input["edits"],
            json!([
                {"old_string": "a", "new_string": "a\nb", "line": 1},
                {"old_string": "z", "new_string": "", "line": 9}])
        );
    }

    #[test]
    fn whatever_is_not_one_plain_change_is_shown_as_it_came() {
        let update = || json!({"type": "update", "move_path": null});
        for odd in [
            change(json!({"type": "delete"}), "x\n"),
            change(json!({"type": "update", "move_path": "/src/b"}), "@@ -1 +1 @@\n-a\n+b\n"),
            change(json!({"type": "add", "mode": "755"}), "x\n"),
            change(update(), ""),
            change(update(), "@@ -1 +1 @@\n-a\n+b"),
            change(update(), "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"),
            change(update(), "@@ -1 +1 @@\n-a\n+b\n+c\n"),
            change(update(), "@@ -1,2 +1 @@\n-a\n+b\n"),
            change(update(), "@@ -0,0 +1 @@\n+b\n"),
            change(update(), "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"),
            json!([{"path": "/a", "kind": update(), "diff": "@@ -1 +1 @@\n-a\n+b\n", "mode": 7}]),
            json!([{"path": "/a", "kind": {"type": "add"}, "diff": "x"}, {"path": "/b", "kind": {"type": "add"}, "diff": "y"}]),
            json!(["anything"]),
        ] {
            let (tool, input) = tool_and_input(&odd).unwrap();
            assert_eq!((tool.as_str(), &input["changes"]), (SEVERAL, &odd));
        }
        assert!(tool_and_input(&json!([])).is_none() && tool_and_input(&json!("x")).is_none());
    }
}
