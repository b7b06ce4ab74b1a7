//! What a change of a file will do to it. A request has its own account of that, a diff, and the call that it is about
//! has another; a change is clear only where both say the same.
//!
//! Of an edit, OpenCode first looks for exactly the text that it was given, and only then for something
//! like it. So the text counts where the file has it as it is, and the diff that OpenCode shows must lead from the file as
//! it is to the file as it will be. OpenCode cuts the indentation that all lines of a diff have in common.

use crate::agents::driven::hunks::object;
use aye_core::Tool;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Longer files are not read, and changes of them are not clear.
const LONGEST_FILE: u64 = 10 * 1024 * 1024;

type ToolAndInput = (String, Map<String, Value>);

/// The change, if it is clear; `given` is the call as the model made it.
pub fn of_diff(
    metadata: &Value,
    input: &Map<String, Value>,
    cwd: &Path,
    given: impl Fn() -> ToolAndInput,
) -> Option<ToolAndInput> {
    let (path, diff) = (metadata["filepath"].as_str()?, metadata["diff"].as_str()?);
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let (old, new) = (text("oldString")?, text("newString")?);
    if !is_named(Path::new(path), text("filePath")?, cwd) {
        return None;
    }
    if old.is_empty() {
        let written = json!({ "file_path": path, "content": new });
        return is_written(Path::new(path), new, diff)
            .then(|| (Tool::Write.name().to_owned(), object(written)));
    }
    let before = contents(Path::new(path))?;
    let after = match (before.matches(old).count(), input.get("replaceAll")) {
        (1, _) => before.replacen(old, new, 1),
        (2.., Some(Value::Bool(true))) => before.replace(old, new),
        (_, _) => return None,
    };
    leads_to(hunks(diff)?, &before, &after).then(given)
}

/// Whether the request is for writing exactly this file.
pub fn is_of_write(metadata: &Value, input: &Map<String, Value>, cwd: &Path) -> bool {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let (Some(path), Some(diff)) = (metadata["filepath"].as_str(), metadata["diff"].as_str()) else {
        return false;
    };
    let (Some(named), Some(content)) = (text("filePath"), text("content")) else { return false };
    is_named(Path::new(path), named, cwd) && is_written(Path::new(path), content, diff)
}

/// Whether OpenCode finds this file under the name that it was given: below its folder, unless the name begins at the root.
fn is_named(path: &Path, named: &str, cwd: &Path) -> bool {
    let is_below = |cwd: &Path| path == without_steps_back(&cwd.join(named));
    match Path::new(named).is_absolute() {
        true => path == Path::new(named),
        // It may know its folder by the name that has no links in it.
        false => is_below(cwd) || cwd.canonicalize().is_ok_and(|cwd| is_below(&cwd)),
    }
}

/// As Node.js joins paths, without a look at the disk.
fn without_steps_back(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Whether the diff is that of writing this content to the file, which may not be there yet.
fn is_written(path: &Path, content: &str, diff: &str) -> bool {
    let before = if path.exists() { contents(path) } else { Some(String::new()) };
    before.is_some_and(|before| leads_to(hunks(diff).unwrap_or_default(), &before, content))
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

/// Whether the hunks lead from one text to the other, each line in its place.
fn leads_to(hunks: &str, before: &str, after: &str) -> bool {
    let Some(told) = paired(hunks, &lines(before), &lines(after)) else { return false };
    let cut = told.iter().filter_map(ToldLine::indentation).min().unwrap_or_default();
    told.iter().all(|line| line.shows(cut)) || told.iter().all(|line| line.shows(0))
}

/// OpenCode compares texts without the mark that may come first in a file.
fn lines(text: &str) -> Vec<&str> {
    text.strip_prefix('\u{feff}').unwrap_or(text).lines().collect()
}

/// A line of a diff, and the line that it must be.
struct ToldLine<'a> {
    sign: char,
    told: &'a str,
    line: &'a str,
}

impl ToldLine<'_> {
    /// OpenCode takes these for the names of the files, and does not cut them.
    fn is_left_whole(&self) -> bool {
        match self.sign {
            '-' => self.line.starts_with("--"),
            '+' => self.line.starts_with("++"),
            _ => false,
        }
    }

    /// How far it is indented, where OpenCode looks at that.
    fn indentation(&self) -> Option<usize> {
        let is_blank = self.line.chars().all(is_blank);
        (!is_blank && !self.is_left_whole())
            .then(|| self.line.chars().take_while(|c| self::is_blank(*c)).count())
    }

    /// Whether it is that line without so many of the characters at its beginning.
    fn shows(&self, cut: usize) -> bool {
        let cut = if self.is_left_whole() { 0 } else { cut };
        self.told.chars().eq(self.line.chars().skip(cut))
    }
}

/// The lines of the hunks with those of the texts; none where the texts differ in a line that no hunk tells of.
fn paired<'a>(hunks: &'a str, before: &[&'a str], after: &[&'a str]) -> Option<Vec<ToldLine<'a>>> {
    let (mut old, mut new, mut pairs) = (0, 0, Vec::new());
    for told in hunks.lines() {
        if let Some(header) = told.strip_prefix("@@ ") {
            let mut ranges = header.split(' ');
            let (from, to) = (first_line(ranges.next()?, "-")?, first_line(ranges.next()?, "+")?);
            if before.get(old..from)? != after.get(new..to)? {
                return None;
            }
            (old, new) = (from, to);
            continue;
        }
        let mut rest = told.chars();
        let sign = rest.next()?;
        let line = match sign {
            '-' => before.get(old)?,
            '+' => after.get(new)?,
            ' ' if before.get(old)? == after.get(new)? => before.get(old)?,
            // "No newline at end of file".
            '\\' => continue,
            _ => return None,
        };
        old += usize::from(sign != '+');
        new += usize::from(sign != '-');
        pairs.push(ToldLine { sign, told: rest.as_str(), line });
    }
    (before.get(old..)? == after.get(new..)?).then_some(pairs)
}

/// The index of the first line of a range such as `-3,2`; a range without lines names the line before it.
fn first_line(range: &str, sign: &str) -> Option<usize> {
    let range = range.strip_prefix(sign)?;
    let (start, length) = range.split_once(',').unwrap_or((range, "1"));
    let start: usize = start.parse().ok()?;
    if length == "0" { Some(start) } else { start.checked_sub(1) }
}

/// As JavaScript has it.
fn is_blank(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
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
        let metadata = json!({"filepath": path, "diff": diff});
        let found = of_diff(&metadata, input.as_object().unwrap(), dir.path(), given);
        found.map(|(tool, input)| (tool, Value::Object(input)))
    }

    fn given() -> Option<(String, Value)> {
        Some(("given".to_owned(), json!({})))
    }

    #[test]
    fn what_was_given_counts_where_the_file_has_it_and_the_diff_says_the_same() {
        let file = "fn a() {\n    if x {\n        foo(1);\n    }\n}\n";
        // OpenCode cuts what all the lines have in common, so that the nearest to the margin begins there.
        let hunk = "@@ -2,3 +2,3 @@\n if x {\n-    foo(1);\n+    bar(1);\n }\n";
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
    fn the_order_of_the_lines_and_their_indentation_are_those_of_the_diff() {
        let file = "if x:\n    a()\n    b()\nc()\n";
        let swapped = "@@ -1,4 +1,4 @@\n if x:\n-    a()\n     b()\n+    a()\n c()\n";
        assert_eq!(change(file, swapped, "    a()\n    b()\n", "    b()\n    a()\n", false), given());
        let elsewhere = "@@ -1,4 +1,4 @@\n+    a()\n if x:\n-    a()\n     b()\n c()\n";
        assert_eq!(change(file, elsewhere, "    a()\n    b()\n", "    b()\n    a()\n", false), None);
        let dedented = "@@ -1,4 +1,4 @@\n if x:\n     a()\n-    b()\n+b()\n c()\n";
        assert_eq!(change(file, dedented, "    b()", "b()", false), given());
        assert_eq!(change(file, dedented, "    b()", "        b()", false), None);
        // Lines that look like the names of files keep their indentation.
        let dashes = "@@ -1,1 +1,2 @@\n x\n+++y\n";
        assert_eq!(change("    x\n", dashes, "    x\n", "    x\n++y\n", false), given());
    }

    #[test]
    fn a_new_file_is_what_was_given_if_the_diff_says_the_same() {
        let new = |hunks: &str, content: &str| {
            let input = json!({"filePath": "a", "oldString": "", "newString": content});
            let metadata = json!({"filepath": "/no/such/folder/a", "diff": format!("+++ /a\n{hunks}")});
            let cwd = Path::new("/no/such/folder");
            let given = || ("given".to_owned(), Map::new());
            of_diff(&metadata, input.as_object().unwrap(), cwd, given).map(|(tool, input)| {
                assert_eq!((tool.as_str(), &input["content"]), ("Write", &json!(content)));
            })
        };
        assert!(new("@@ -0,0 +1,1 @@\n+x\n", "x\n").is_some());
        assert!(new("@@ -0,0 +1,1 @@\n+x\n", "evil\n").is_none());
        assert!(new("", "x\n").is_none());
        let two = "@@ -0,0 +1,2 @@\n+if x:\n+  y()\n";
        assert!(new(two, "    if x:\n      y()\n").is_some(), "what all lines have in common is cut");
        assert!(new(two, "if x:\n  y()\n").is_some());
        assert!(new(two, "if x:\ny()\n").is_none());
        assert!(new(two, "  y()\nif x:\n").is_none());
    }

    #[test]
    fn a_file_is_written_as_its_request_says_or_it_is_not_clear() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let diff = |hunks: &str| format!("Index: /a\n=====\n--- /a\n+++ /a\n{hunks}");
        let is_clear = |file: &str, content: &str, hunks: &str| {
            let input = json!({"filePath": file, "content": content});
            let metadata = json!({"filepath": path, "diff": diff(hunks)});
            is_of_write(&metadata, input.as_object().unwrap(), dir.path())
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
        let is_it = |named: &str, path: &str| {
            let input = json!({"filePath": named, "oldString": "", "newString": "x"});
            let metadata = json!({"filepath": path, "diff": "\n@@ -0,0 +1,1 @@\n+x\n"});
            let given = || ("given".to_owned(), Map::new());
            of_diff(&metadata, input.as_object().unwrap(), Path::new("/no/such"), given).is_some()
        };
        for (named, path) in [
            ("a", "/no/such/a"),
            ("./a", "/no/such/a"),
            ("../a", "/no/a"),
            ("b/../a", "/no/such/a"),
            ("/no/such/a", "/no/such/a"),
        ] {
            assert!(is_it(named, path), "{named}");
        }
        for (named, path) in [
            ("b", "/no/such/a"),
            ("a", "/no/other/a"),
            ("a", "/no/such/b/a"),
            ("such/a", "/no/such/a"),
            ("/a", "/no/such/a"),
        ] {
            assert!(!is_it(named, path), "{named}");
        }
    }
}
