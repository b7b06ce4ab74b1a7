//! The dialogs in which the terminal asks for permission or shows a plan. They are read strictly, and a dialog counts
//! for a tool call only where it shows all that tells this call from others.

use super::diff;
use super::screen::{is_rule, squeezed};
use serde_json::{Map, Value};
use std::path::{Component, Path, PathBuf};

/// A tool call as its transcript has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogCall {
    pub tool: String,
    pub input: Map<String, Value>,
    pub cwd: PathBuf,
    /// Made by a sub-agent, which the dialog's title then says.
    pub by_sub_agent: bool,
    /// The file that it changes, as it is and as it would be then.
    pub change: Option<(String, String)>,
}

/// Lines of a dialog beside the command or text that it shows: title, question, rows, hints, and rules.
const AROUND: usize = 16;

impl DialogCall {
    /// Estimates, before the dialog is drawn, if it will be recognized in a terminal of this size.
    pub fn is_likely_legible(&self, width: usize, height: usize) -> bool {
        let text = |name: &str| self.input.get(name).and_then(Value::as_str);
        let shown: Vec<&str> = match self.tool.as_str() {
            "Bash" => vec![text("command").unwrap_or_default()],
            "Write" => vec![text("content").unwrap_or_default()],
            // Some lines around the change are shown as well.
            "Edit" => ["old_string", "new_string"].map(|name| text(name).unwrap_or_default()).to_vec(),
            tool if ["Read", "WebFetch"].contains(&tool) || tool.starts_with("mcp__") => {
                self.input.values().filter_map(Value::as_str).collect()
            }
            _ => return false,
        };
        let room = width.saturating_sub(12).max(1);
        let lines = shown.iter().flat_map(|text| text.lines());
        let lines: usize = lines.map(|line| line.chars().count() / room + 1).sum();
        lines + AROUND <= height
    }
}

/// A dialog whose rows can be chosen from, the last thing on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptDialog {
    title: String,
    by_sub_agent: bool,
    /// What stands between the title and the question, at the columns where it stands.
    body: Vec<String>,
    question: String,
    pub rows: Vec<Row>,
    below: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub text: String,
    pub highlighted: bool,
}

/// What a person may want, as far as a dialog offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialogChoice {
    Allow,
    Deny,
    /// Refuses with words for the agent.
    DenyWith,
}

/// Begins and ends the question about a plan. What an agent draws has another question between itself and the rows.
const ABOUT_PLAN: &str = "Claude has written up a plan";
const PROCEED_WITH_PLAN: &str = "Would you like to proceed?";
/// The whole text above the rows if there is no plan. Newer versions indent its rule, as they do with a plan's.
const WITHOUT_PLAN: &str = "Exit plan mode?Claude wants to exit plan mode";
/// Begins the row that refuses a plan, and stands there until something is typed.
const CHANGE_PLAN: &str = "Tell Claude what to change";
const BESIDE_CHANGE: &str = "shift+tab to approve with this feedback";
/// Stands behind the row that refuses, until something is typed.
const REFUSE_WITH: &str = "No, and tell Claude what to do differently";

impl PromptDialog {
    pub fn read(screen: &str) -> Option<Self> {
        let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
        let marked = lines.iter().rposition(|line| line.trim_start().starts_with("❯ "))?;
        if lines[marked..].iter().any(|line| is_rule(line.trim())) {
            return None;
        }
        let column = indent(lines[marked]) + 2;
        // Rows begin at the column behind the mark; what is wrapped stands further in.
        let belongs =
            |line: &&str| line.is_empty() || row_text(line, column).is_some() || indent(line) > column;
        let first = lines[..marked].iter().rposition(|line| !belongs(line)).map_or(0, |at| at + 1);
        let end =
            lines[marked..].iter().position(|line| !belongs(line)).map_or(lines.len(), |at| marked + at);
        let rows = rows(&lines[first..end], column);
        let below = lines[end..].iter().map(|line| line.trim()).collect();
        if rows.iter().filter(|row| row.highlighted).count() != 1 {
            return None;
        }
        let joined = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<String>();
        let filled = |lines: &[&str]| -> Vec<String> {
            lines.iter().filter(|line| !line.is_empty()).map(|line| (*line).to_owned()).collect()
        };
        let inner = lines[..first].iter().rposition(|line| is_rule(line.trim()))?;
        let question = joined(&lines[inner + 1..first]);
        let (title, question, body) =
            if question.starts_with(ABOUT_PLAN) && question.ends_with(PROCEED_WITH_PLAN) {
                // The question about a plan is below a second rule.
                let rule = lines[..inner].iter().rposition(|line| is_rule(line.trim()))?;
                let mut plan = filled(&lines[rule + 1..inner]);
                (!plan.is_empty()).then(|| (plan.remove(0), question, plan))?
            } else {
                let rule = if question == WITHOUT_PLAN { inner } else { top_rule(&lines[..first])? };
                let mut above = filled(&lines[rule + 1..first]);
                let asks = |line: &String| line.trim_start().starts_with("Do you want to ");
                let asked = above.iter().rposition(asks).filter(|at| *at > 0);
                let title = (!above.is_empty()).then(|| above.remove(0))?;
                let question = above.split_off(asked.map_or(0, |at| at - 1));
                (title, question.iter().map(|line| line.trim()).collect(), above)
            };
        // Of several dialogs that wait, the right end of the line counts them.
        let title = title.trim().split("  ").next().unwrap_or_default();
        let (title, by_sub_agent) = match title.split_once(" · from the ") {
            Some((title, _)) => (title, true),
            None => (title, false),
        };
        Some(Self { title: title.to_owned(), by_sub_agent, body, question, rows, below })
    }

    /// Whether the dialog is about this call, and shows all of it that could be another's.
    pub fn is_for(&self, call: &DialogCall) -> bool {
        if self.by_sub_agent != call.by_sub_agent {
            return false;
        }
        let text = |name: &str| call.input.get(name).and_then(Value::as_str);
        match (call.tool.as_str(), self.title.as_str()) {
            ("Bash", "Bash command") => text("command")
                .is_some_and(|command| self.shows_command(command, text("description").unwrap_or_default())),
            ("Write", "Create file" | "Overwrite file") | ("Edit" | "MultiEdit", "Edit file") => {
                text("file_path").is_some_and(|path| self.names_file(path, &call.cwd))
                    && self.shows_change(call)
            }
            ("ExitPlanMode", "Exit plan mode?") => {
                squeezed(&self.question) == squeezed("Claude wants to exit plan mode")
            }
            // The plan is in a file, and the line below names it.
            ("ExitPlanMode", "Ready to code?") => {
                let file = text("planFilePath").and_then(|path| Path::new(path).file_name()?.to_str());
                let named = self.below.rsplit('/').next().unwrap_or_default();
                file.is_some_and(|file| squeezed(named) == squeezed(file))
            }
            ("Bash" | "Write" | "Edit" | "MultiEdit" | "ExitPlanMode" | "AskUserQuestion", _) => false,
            ("Read", "Read file") | ("WebFetch", "Fetch") | (_, "Tool use") => self.shows_all(&call.input),
            // A dialog that is not known yet shows who knows what.
            (_, _) => false,
        }
    }

    fn shows_command(&self, command: &str, description: &str) -> bool {
        match self.fenced() {
            Some(fenced) => squeezed(&fenced.concat()) == squeezed(command),
            // Older versions show the command, its description, and then perhaps why they ask.
            None => {
                let shown = squeezed(&self.body.concat());
                shown.starts_with(&squeezed(&format!("{command}{description}")))
            }
        }
    }

    fn names_file(&self, path: &str, cwd: &Path) -> bool {
        let until = self.body.iter().position(|line| is_fence(line)).unwrap_or(self.body.len());
        let shown: String = self.body[..until].iter().map(|line| line.trim()).collect();
        let shown = match (shown.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(shown),
        };
        !shown.as_os_str().is_empty() && plain(&cwd.join(shown)) == plain(&cwd.join(path))
    }

    fn shows_change(&self, call: &DialogCall) -> bool {
        let Some((shown, (before, after))) = self.fenced().zip(call.change.as_ref()) else { return false };
        match self.title.as_str() {
            "Create file" => diff::shows_all(shown, after),
            _ => diff::shows_change(shown, before, after),
        }
    }

    /// Every value of the input, in whatever words around it.
    fn shows_all(&self, input: &Map<String, Value>) -> bool {
        let shown = squeezed(&self.fenced().unwrap_or(&self.body).concat());
        let is_shown = |value: &Value| match value {
            Value::String(text) => !text.trim().is_empty() && shown.contains(&squeezed(text)),
            Value::Number(number) => shown.contains(&number.to_string()),
            Value::Bool(flag) => shown.contains(&flag.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        !input.is_empty() && input.values().all(is_shown)
    }

    /// What newer versions draw lines around.
    fn fenced(&self) -> Option<&[String]> {
        let first = self.body.iter().position(|line| is_fence(line))?;
        let last = self.body.iter().rposition(|line| is_fence(line)).filter(|last| *last > first)?;
        Some(&self.body[first + 1..last])
    }

    /// The row that does it, and nothing beyond it.
    pub fn row_for(&self, choice: DialogChoice) -> Option<usize> {
        let says = |words: &str| self.rows.iter().position(|row| squeezed(&row.text) == squeezed(words));
        match choice {
            DialogChoice::Allow => says("Yes")
                .or_else(|| says("Yes, manually approve edits"))
                .or_else(|| says("Yes, and switch to default (ask each time) for this session")),
            DialogChoice::Deny => says("No"),
            DialogChoice::DenyWith => {
                let amends = squeezed(&self.below).contains(&squeezed("Tab to amend"));
                says("No").filter(|_| amends).or_else(|| says(&format!("{CHANGE_PLAN}{BESIDE_CHANGE}")))
            }
        }
    }

    /// Whether words are typed into the row at once, without opening it first.
    pub fn takes_words_at_once(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|row| row.text.starts_with(CHANGE_PLAN))
    }

    /// The highlighted row.
    pub fn at(&self) -> usize {
        self.rows.iter().position(|row| row.highlighted).unwrap_or_default()
    }

    /// The same dialog, perhaps with another row highlighted, and with words in that row.
    pub fn is_same_but(&self, before: &Self, at: usize, words: &Words) -> bool {
        let same_row = |(i, (now, then)): (usize, (&Row, &Row))| {
            let expected = match words {
                Words::None => squeezed(&then.text),
                _ if i != at => squeezed(&then.text),
                Words::Empty => squeezed(REFUSE_WITH),
                Words::Typed(typed) if before.takes_words_at_once(i) => {
                    squeezed(&format!("{typed}{BESIDE_CHANGE}"))
                }
                Words::Typed(typed) => squeezed(&format!("No, {typed}")),
            };
            squeezed(&now.text) == expected && now.highlighted == (i == at)
        };
        (&self.title, &self.body, &self.question) == (&before.title, &before.body, &before.question)
            && self.rows.len() == before.rows.len()
            && self.rows.iter().zip(&before.rows).enumerate().all(same_row)
    }
}

/// What stands in the row for words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    None,
    /// The row is open for them.
    Empty,
    Typed(String),
}

/// The rule above the dialog begins at the very left and spans the screen. What an agent wrote is set in, or, where the
/// terminal wraps it because it counts widths in another way, shorter.
fn top_rule(lines: &[&str]) -> Option<usize> {
    let width = |line: &str| line.chars().count();
    let widest = lines.iter().filter(|line| is_rule(line)).map(|line| width(line)).max()?;
    lines.iter().rposition(|line| is_rule(line) && width(line) == widest)
}

fn is_fence(line: &str) -> bool {
    let line = line.trim();
    line.chars().count() >= 20 && line.chars().all(|c| c == '╌')
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

/// The text of a row that begins at this column, with the mark before it or not.
fn row_text(line: &str, column: usize) -> Option<(bool, String)> {
    let before: String = line.chars().take(column).collect();
    let highlighted = before.trim() == "❯";
    let text: String = line.chars().skip(column).collect();
    let begins = (highlighted || before.trim().is_empty()) && !text.is_empty() && !text.starts_with(' ');
    begins.then_some((highlighted, text))
}

fn rows(lines: &[&str], column: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in lines {
        match (row_text(line, column), rows.last_mut()) {
            (Some((highlighted, text)), _) => {
                let text = match text.split_once(". ") {
                    Some((number, rest)) if number.parse::<usize>().is_ok() => rest.to_owned(),
                    _ => text,
                };
                rows.push(Row { text, highlighted });
            }
            (None, Some(last)) => last.text += line,
            (None, None) => {}
        }
    }
    rows
}

/// Without `.` and `..`, as far as names alone tell.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
