//! What an edit will change. OpenCode finds the place by likeness, so the diff that it shows counts and not the text that
//! the model gave. In the diff, lines may have lost the indentation that all of them have.

use crate::agents::driven::hunks::{edits, object, tool_of_edits};
use aye_core::Tool;
use serde_json::{Map, Value, json};

type ToolAndInput = (String, Map<String, Value>);

/// The change by its diff. `given` is what the model gave, which counts where the diff says the same.
pub fn of_diff(
    metadata: &Value,
    input: &Map<String, Value>,
    given: impl Fn() -> ToolAndInput,
) -> Option<ToolAndInput> {
    let (path, diff) = (metadata["filepath"].as_str()?, metadata["diff"].as_str()?);
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let (old, new) = (text("oldString")?, text("newString")?);
    if old.is_empty() {
        let written = json!({ "file_path": path, "content": new });
        return Some((Tool::Write.name().to_owned(), object(written)));
    }
    let hunks = diff.split_at(diff.find("\n@@ ")? + 1).1;
    if is_whole(hunks)
        && let Some(edits) = edits(hunks)
    {
        let (tool, input) = tool_of_edits(path, edits);
        return Some((tool.name().to_owned(), input));
    }
    let plain: String = hunks.split_inclusive('\n').filter(|line| !line.starts_with('\\')).collect();
    let [edit] = <[Value; 1]>::try_from(edits(&plain)?).ok()?;
    let shown = |field: &str| edit[field].as_str().map(unindented);
    says_the_same((&shown("old_string")?, &shown("new_string")?), (&unindented(old), &unindented(new)))
        .then(given)
}

/// Whether a line stands at the margin, so that none has lost anything.
fn is_whole(hunks: &str) -> bool {
    let lines = hunks.lines().filter(|line| !line.starts_with("@@ ") && !line.starts_with('\\'));
    lines.filter_map(|line| line.get(1..)?.chars().next()).any(|first| !first.is_whitespace())
}

fn unindented(text: &str) -> String {
    text.split('\n').map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// Whether putting what was given in place of what it replaces makes the shown text the new one.
fn says_the_same((old, new): (&str, &str), (given_old, given_new): (&str, &str)) -> bool {
    let (old, new) = apart(old, new);
    let (given_old, given_new) = apart(given_old, given_new);
    match given_old.is_empty() {
        true => old.is_empty() && new == given_new,
        false => old.contains(&given_old) && old.replacen(&given_old, &given_new, 1) == new,
    }
}

/// Without the lines at both ends that are the same.
fn apart(old: &str, new: &str) -> (String, String) {
    let (mut old, mut new): (Vec<_>, Vec<_>) = (old.split('\n').collect(), new.split('\n').collect());
    while old.last().is_some_and(|line| new.last() == Some(line)) {
        old.pop();
        new.pop();
    }
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    (old.split_off(same).join("\n"), new.split_off(same).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(hunks: &str, old: &str, new: &str) -> Option<(String, Value)> {
        let diff = format!("Index: /a\n=====\n--- /a\n+++ /a\n{hunks}");
        let Value::Object(input) = json!({"filePath": "a", "oldString": old, "newString": new}) else {
            panic!()
        };
        let given = || ("given".to_owned(), Map::new());
        let found = of_diff(&json!({"filepath": "/a", "diff": diff}), &input, given);
        found.map(|(tool, input)| (tool, Value::Object(input)))
    }

    #[test]
    fn the_diff_counts_and_not_what_the_model_gave() {
        let hunk = "@@ -1,3 +1,3 @@\n fn a() {\n-    let y = 2;\n+    let y = 3;\n }\n";
        let edit = json!({"file_path": "/a", "old_string": "    let y = 2;", "new_string": "    let y = 3;", "line": 2});
        assert_eq!(change(hunk, "something like it", "x"), Some(("Edit".into(), edit)));
        let two = format!("{hunk}@@ -9,1 +9,1 @@\n-a\n+b\n");
        assert_eq!(change(&two, "a", "b").unwrap().0, "MultiEdit");
        let written = json!({"file_path": "/a", "content": "x\n"});
        assert_eq!(change("@@ -0,0 +1,1 @@\n+x\n", "", "x\n"), Some(("Write".into(), written)));
    }

    #[test]
    fn where_indentation_is_lost_what_was_given_must_say_the_same() {
        let given = Some(("given".to_owned(), json!({})));
        let lost = "@@ -1,3 +1,3 @@\n   if x {\n-    foo(1);\n+    bar(1);\n   }\n";
        assert_eq!(change(lost, "foo", "bar"), given);
        assert_eq!(change(lost, "      foo(1);", "      bar(1);"), given);
        assert_eq!(change(lost, "    if x {\n      foo(1);", "    if x {\n      bar(1);"), given);
        assert_eq!(change(lost, "baz(1);", "bar(1);"), None);
        assert_eq!(change(lost, "foo", "evil"), None);
        let added = "@@ -1,2 +1,3 @@\n   a\n+  b\n   c\n";
        assert_eq!(change(added, "  a\n", "  a\n  b\n"), given);
        assert_eq!(change(added, "  a\n", "  a\n  x\n"), None);
        let unended =
            "@@ -1,1 +1,1 @@\n-  foo\n\\ No newline at end of file\n+  bar\n\\ No newline at end of file\n";
        assert_eq!(change(unended, "foo", "bar"), given);
        assert_eq!(change("@@ nonsense", "foo", "bar"), None);
    }
}
