//! What a change of a file will do to it. A request has its own account of that, a diff, and the call that it is about
//! has another; a change is clear only where both say the same.
//!
//! Of an edit, OpenCode first looks for exactly the text that it was given, and only then for something
//! like it. So the text counts where the file has it as it is, and the diff that OpenCode shows must say the same: its
//! lines have lost some of their indentation, so nothing can be read back from it.

use crate::agents::driven::hunks::object;
use aye_core::Tool;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longer files are not read, and changes of them are not clear.
const LONGEST_FILE: u64 = 10 * 1024 * 1024;

type ToolAndInput = (String, Map<String, Value>);

/// The change, if it is clear; `given` is the call as the model made it.
pub fn of_diff(
    metadata: &Value,
    input: &Map<String, Value>,
    given: impl Fn() -> ToolAndInput,
) -> Option<ToolAndInput> {
    let (path, diff) = (metadata["filepath"].as_str()?, metadata["diff"].as_str()?);
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let (old, new) = (text("oldString")?, text("newString")?);
    if !Path::new(path).ends_with(text("filePath")?) {
        return None;
    }
    if old.is_empty() {
        let written = json!({ "file_path": path, "content": new });
        return Some((Tool::Write.name().to_owned(), object(written)));
    }
    let before = contents(Path::new(path))?;
    let after = match (before.matches(old).count(), input.get("replaceAll")) {
        (1, _) => before.replacen(old, new, 1),
        (2.., Some(Value::Bool(true))) => before.replace(old, new),
        (_, _) => return None,
    };
    (changed(hunks(diff)?) == difference(&before, &after)).then(given)
}

/// Whether the request is for writing exactly this file.
pub fn is_of_write(metadata: &Value, input: &Map<String, Value>) -> bool {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let (Some(path), Some(diff)) = (metadata["filepath"].as_str(), metadata["diff"].as_str()) else {
        return false;
    };
    let (Some(named), Some(content)) = (text("filePath"), text("content")) else { return false };
    let path = Path::new(path);
    let before = if path.exists() { contents(path) } else { Some(String::new()) };
    let same =
        before.is_some_and(|before| changed(hunks(diff).unwrap_or_default()) == difference(&before, content));
    path.ends_with(named) && same
}

fn hunks(diff: &str) -> Option<&str> {
    Some(diff.split_at(diff.find("\n@@ ")? + 1).1)
}

fn contents(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    file.take(LONGEST_FILE + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= LONGEST_FILE).then_some(text)
}

/// How many of each line there are more or fewer, by the diff. However lines are matched up, that is the same.
fn changed(hunks: &str) -> HashMap<&str, i64> {
    let lines = hunks.lines().filter_map(|line| match line.split_at_checked(1)? {
        ("+", line) => Some((line, 1)),
        ("-", line) => Some((line, -1)),
        (_, _) => None,
    });
    sums(lines)
}

fn difference<'a>(before: &'a str, after: &'a str) -> HashMap<&'a str, i64> {
    sums(before.lines().map(|line| (line, -1)).chain(after.lines().map(|line| (line, 1))))
}

fn sums<'a>(lines: impl Iterator<Item = (&'a str, i64)>) -> HashMap<&'a str, i64> {
    let mut sums = HashMap::new();
    for (line, more) in lines {
        *sums.entry(line.trim_start_matches(is_blank)).or_default() += more;
    }
    sums.retain(|_, more| *more != 0);
    sums
}

/// As JavaScript has it, and a little more.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(file: &str, hunks: &str, old: &str, new: &str, all: bool) -> Option<(String, Value)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, file).unwrap();
        let diff = format!("Index: /a\n=====\n--- /a\n+++ /a\n{hunks}");
        let input = json!({"filePath": "a", "oldString": old, "newString": new, "replaceAll": all});
        let given = || ("given".to_owned(), Map::new());
        let found = of_diff(&json!({"filepath": path, "diff": diff}), input.as_object().unwrap(), given);
        found.map(|(tool, input)| (tool, Value::Object(input)))
    }

    fn given() -> Option<(String, Value)> {
        Some(("given".to_owned(), json!({})))
    }

    #[test]
    fn what_was_given_counts_where_the_file_has_it_and_the_diff_says_the_same() {
        let file = "fn a() {\n    if x {\n        foo(1);\n    }\n}\n";
        // OpenCode cuts what all the lines have in common, so that the nearest to the margin begins there.
        let hunk = "@@ -1,3 +1,3 @@\n if x {\n-    foo(1);\n+    bar(1);\n }\n";
        assert_eq!(change(file, hunk, "foo", "bar", false), given());
        assert_eq!(change(file, hunk, "        foo(1);\n", "        bar(1);\n", false), given());
        assert_eq!(change(file, hunk, "    foo(1);\n", "    bar(1);\n", false), given());
        let several = "@@ -2,3 +2,3 @@\n-    if x {\n+    if y {\n         foo(1);\n-    }\n+    };\n";
        assert_eq!(
            change(file, several, "if x {\n        foo(1);\n    }", "if y {\n        foo(1);\n    };", false),
            given()
        );
    }

    #[test]
    fn a_change_that_opencode_finds_by_likeness_or_shows_otherwise_is_not_clear() {
        let file = "a\n  foo\nb\n  foo\n";
        let hunk = "@@ -2,1 +2,1 @@\n-  foo\n+  bar\n";
        for (old, new) in [("foo", "bar"), ("  foo \nb", "  bar\nb"), ("fooo", "bar")] {
            assert_eq!(change(file, hunk, old, new, false), None, "{old}");
        }
        let both = "@@ -2,3 +2,3 @@\n-  foo\n+  bar\n b\n-  foo\n+  bar\n";
        assert_eq!(change(file, both, "foo", "bar", true), given());
        assert_eq!(change(file, hunk, "foo", "bar", true), None);
        assert_eq!(change(file, "@@ -1,1 +1,1 @@\n-a\n+evil\n", "a\n", "c\n", false), None);
        assert_eq!(change(file, "@@ nonsense", "a\n", "c\n", false), None);
        assert_eq!(change("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n-a\n-b\n+c\n", "a\nb\n", "c\n", false), None);
    }

    #[test]
    fn a_new_file_is_what_was_given() {
        let (tool, input) = change("", "@@ -0,0 +1,1 @@\n+x\n", "", "x\n", false).unwrap();
        assert_eq!((tool.as_str(), &input["content"]), ("Write", &json!("x\n")));
    }

    #[test]
    fn a_file_is_written_as_its_request_says_or_it_is_not_clear() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let diff = |hunks: &str| format!("Index: /a\n=====\n--- /a\n+++ /a\n{hunks}");
        let is_clear = |file: &str, content: &str, hunks: &str| {
            let input = json!({"filePath": file, "content": content});
            is_of_write(&json!({"filepath": path, "diff": diff(hunks)}), input.as_object().unwrap())
        };
        assert!(is_clear("a", "x\n", "@@ -0,0 +1,1 @@\n+x\n"));
        assert!(!is_clear("a", "other\n", "@@ -0,0 +1,1 @@\n+x\n"));
        assert!(!is_clear("b", "x\n", "@@ -0,0 +1,1 @@\n+x\n"));
        std::fs::write(&path, "x\n").unwrap();
        assert!(is_clear("a", "y", "@@ -1,1 +1,1 @@\n-x\n+y\n\\ No newline at end of file\n"));
        assert!(is_clear("a", "x\n", ""));
        assert!(!is_clear("a", "y\n", ""));
    }

    #[test]
    fn the_file_of_the_call_is_the_file_of_the_request() {
        let input = json!({"filePath": "b", "oldString": "", "newString": "x"});
        let metadata = json!({"filepath": "/a", "diff": "\n@@ -0,0 +1,1 @@\n+x\n"});
        assert_eq!(of_diff(&metadata, input.as_object().unwrap(), || ("given".to_owned(), Map::new())), None);
    }
}
