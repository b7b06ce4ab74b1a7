//! A permission shortened for small surfaces. It says how much it leaves out, and is never the only thing shown where
//! a person can approve.

use crate::body::Permission;
use crate::display::{Display, DisplayKind, Extras};
use crate::visible::{one_line, shorten, visible};

const LINES_OF_EACH: usize = 4;
const LINES_OF_NEW_FILE: usize = 8;
const LINE_WIDTH: usize = 60;
const COMMAND_WIDTH: usize = 200;

/// A shortened view, and what it does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compact {
    pub text: String,
    /// For example "12 more lines"; `None` if everything is shown.
    pub left_out: Option<String>,
}

impl Permission {
    pub fn compact(&self) -> Compact {
        let display = Display::of(self, &Extras::default());
        match (display.kind, &display.hunks) {
            (DisplayKind::Diff, Some(hunks)) => {
                let lines: Vec<_> = hunks.iter().flat_map(|hunk| &hunk.lines).map(String::as_str).collect();
                change(&lines)
            }
            (DisplayKind::Command | DisplayKind::Json, _) | (DisplayKind::Diff, None) => {
                beginning(&display.text)
            }
        }
    }
}

fn beginning(text: &str) -> Compact {
    let shown: String = text.chars().take(COMMAND_WIDTH).collect();
    let rest = text[shown.len()..].chars().count();
    let left_out = (rest > 0).then(|| format!("{rest} more characters"));
    Compact { text: visible(&shown).into_owned(), left_out }
}

/// Removed and added lines. Unchanged lines are left out without being counted.
fn change(lines: &[&str]) -> Compact {
    let of = |mark: char| lines.iter().copied().filter(move |line| line.starts_with(mark));
    let (gone, come) = (of('-').count(), of('+').count());
    let (most_gone, most_come) =
        if gone == 0 { (0, LINES_OF_NEW_FILE) } else { (LINES_OF_EACH, LINES_OF_EACH) };
    let shown: Vec<_> = of('-').take(most_gone).chain(of('+').take(most_come)).map(cut).collect();
    let hidden = gone.saturating_sub(most_gone) + come.saturating_sub(most_come);
    let shortened = shown.iter().filter(|(_, cut)| *cut).count();
    let mut left_out = Vec::new();
    for (count, one, many) in
        [(hidden, "1 more line", "more lines"), (shortened, "1 line cut short", "lines cut short")]
    {
        match count {
            0 => {}
            1 => left_out.push(one.to_owned()),
            several => left_out.push(format!("{several} {many}")),
        }
    }
    let text: Vec<_> = shown.into_iter().map(|(line, _)| line).collect();
    Compact { text: text.join("\n"), left_out: (!left_out.is_empty()).then(|| left_out.join(", ")) }
}

fn cut(line: &str) -> (String, bool) {
    let line = one_line(line);
    let shown = shorten(&line, LINE_WIDTH);
    let is_cut = shown != line;
    (shown.into_owned(), is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn compact(tool: &str, input: Value) -> Compact {
        let Value::Object(input) = input else { panic!("no object") };
        Permission::new(tool.into(), input, None).unwrap().compact()
    }

    fn command(command: &str) -> Compact {
        compact("Bash", json!({ "command": command }))
    }

    fn shown(text: &str, left_out: Option<&str>) -> Compact {
        Compact { text: text.into(), left_out: left_out.map(str::to_owned) }
    }

    #[test]
    fn a_command_is_shown_up_to_two_hundred_characters() {
        let short = command("ls -la");
        assert_eq!(short, shown("ls -la", None));
        let long = command(&"ü".repeat(250));
        assert_eq!(long, shown(&"ü".repeat(200), Some("50 more characters")));
    }

    #[test]
    fn an_edit_shows_four_lines_of_each_side() {
        let lines = |name: &str, count: usize| {
            (0..count).map(|n| format!("{name} {n}")).collect::<Vec<_>>().join("\n")
        };
        let edit = json!({"file_path": "a", "old_string": lines("old", 6), "new_string": lines("new", 5)});
        assert_eq!(
            compact("Edit", edit),
            shown("-old 0\n-old 1\n-old 2\n-old 3\n+new 0\n+new 1\n+new 2\n+new 3", Some("3 more lines"))
        );
    }

    #[test]
    fn a_new_file_shows_eight_lines_and_long_ones_are_cut() {
        let lines: String =
            (0..9).map(|n| format!("{n}{}\n", "x".repeat(if n == 0 { 80 } else { 1 }))).collect();
        let seen = compact("Write", json!({"file_path": "a", "content": lines}));
        assert_eq!(seen.left_out.as_deref(), Some("1 more line, 1 line cut short"));
        assert_eq!(seen.text.lines().count(), 8);
        assert_eq!(seen.text.lines().next().unwrap().chars().count(), 61);
    }

    #[test]
    fn what_hides_is_made_visible_here_too() {
        let seen = command("ls \u{202e}x");
        assert!(seen.text.contains("202E") || seen.text.contains("202e"), "{}", seen.text);
    }
}
