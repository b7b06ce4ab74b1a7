//! What the terminal shows, read strictly: whatever is not exactly the page that should be there is
//! something else, and something else gets no keys.

use super::prompt::{DialogCall, PromptDialog, Words};
use crate::agents::tmux::keys::Key;
use aye_core::Question;
use std::sync::Arc;

/// What should be on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedScreen {
    Question {
        /// Which of the questions.
        index: usize,
        /// Which of its options are ticked; of the row for free text, too.
        ticked: Vec<usize>,
        at: At,
        /// The text in the row for free text, or in the place for notes once that is open.
        typed: Option<String>,
    },
    /// All answers before they are submitted: for each question the forms that mean what is meant.
    Review { answers: Vec<Vec<String>> },
    /// A dialog about a tool call as it was first seen, with this row highlighted.
    Prompt { first: Arc<PromptDialog>, call: Arc<DialogCall>, at: usize, words: Words },
}

impl ExpectedScreen {
    /// The same page with another row highlighted, and the keys that lead there and back. None where moving could do
    /// more than that.
    pub fn beside(&self, questions: &[Question]) -> Option<(Self, Key, Key)> {
        match self {
            ExpectedScreen::Prompt { first, call, at, words: Words::None } => {
                let below = *at + 1 < first.rows.len();
                let beside = if below { *at + 1 } else { at.checked_sub(1)? };
                let (first, call) = (first.clone(), call.clone());
                let page = ExpectedScreen::Prompt { first, call, at: beside, words: Words::None };
                Some(if below { (page, Key::Down, Key::Up) } else { (page, Key::Up, Key::Down) })
            }
            ExpectedScreen::Question { index, ticked, at: At::AnyOption, typed: None }
                if ticked.is_empty() =>
            {
                let question = questions.get(*index)?;
                if question.multi_select || question.options.len() < 2 {
                    return None;
                }
                let page = ExpectedScreen::Question {
                    index: *index,
                    ticked: Vec::new(),
                    at: At::Option(1),
                    typed: None,
                };
                Some((page, Key::Down, Key::Up))
            }
            ExpectedScreen::Prompt { .. }
            | ExpectedScreen::Question { .. }
            | ExpectedScreen::Review { .. } => None,
        }
    }
}

/// Which row is highlighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Option(usize),
    /// The same, with the place for its notes left again.
    Noted(usize),
    /// Some option, whichever.
    AnyOption,
    FreeText,
    /// The row below the last, which goes on to the next question or to the review page.
    Submit,
}

/// Why the screen is not the page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Differs(&'static str);

const OTHER_DIALOG: Differs = Differs("the question is not on the screen");
pub const OTHER_PROMPT: Differs = Differs("the whole request is not on the screen");
const OTHER_ROWS: Differs = Differs("the screen shows other options than the question has");
const OTHER_CHOICE: Differs = Differs("something else is chosen on the screen");
const OTHER_TEXT: Differs = Differs("the screen shows another text than the one typed");
const OTHER_ANSWERS: Differs = Differs("the review page shows other answers");

/// The place for notes while it is closed, and while it is open and empty.
const NO_NOTES: &str = "press n to add notes";
const EMPTY_NOTES: &str = "Add notes on this design…";
/// Among the hints while the keys go into a text.
const EDITING: &str = "ctrl+g to edit";

/// Whether options are shown with a preview beside them, and without a row for free text.
pub fn has_previews(question: &Question) -> bool {
    !question.multi_select && question.options.iter().any(|offer| offer.preview.is_some())
}

pub fn compare(screen: &str, questions: &[Question], page: &ExpectedScreen) -> Result<(), Differs> {
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    match page {
        ExpectedScreen::Question { index, ticked, at, typed } => {
            let question = questions.get(*index).ok_or(OTHER_DIALOG)?;
            let dialog = QuestionDialog::find(&lines, questions, *index)?;
            dialog.has_rows(question, typed.as_deref())?;
            dialog.has_choice(question, ticked, *at)
        }
        ExpectedScreen::Review { answers } => review(&lines, questions, answers),
        ExpectedScreen::Prompt { first, call, at, words } => {
            let now = PromptDialog::read(screen).filter(|now| now.is_for(call)).ok_or(OTHER_PROMPT)?;
            now.is_same_but(first, *at, words).then_some(()).ok_or(OTHER_CHOICE)
        }
    }
}

/// A row that can be chosen, with all text in and under it.
#[derive(Debug)]
struct Row {
    number: Option<usize>,
    highlighted: bool,
    ticked: Option<bool>,
    text: String,
}

struct QuestionDialog {
    rows: Vec<Row>,
    /// The text under a preview.
    notes: String,
    /// Whether the keys go into a text.
    editing: bool,
}

impl QuestionDialog {
    /// The dialog is the last thing on the screen: a line of tabs, the question, its rows, a rule, and hints.
    fn find(lines: &[&str], questions: &[Question], index: usize) -> Result<Self, Differs> {
        let hint =
            lines.iter().rposition(|line| line.starts_with("Enter to select ·")).ok_or(OTHER_DIALOG)?;
        // Long hints take two lines; nothing else follows.
        if lines[hint + 1..].iter().filter(|line| !line.is_empty()).count() > 1 {
            return Err(OTHER_DIALOG);
        }
        let rule = lines[..hint].iter().rposition(|line| is_rule(line)).ok_or(OTHER_DIALOG)?;
        let top = lines[..rule].iter().rposition(|line| is_rule(line)).ok_or(OTHER_DIALOG)?;
        let inside = &lines[top + 1..rule];
        let (tabs, inside) = inside.split_first().ok_or(OTHER_DIALOG)?;
        if !are_tabs(tabs, questions, index) {
            return Err(OTHER_DIALOG);
        }
        let question = questions.get(index).ok_or(OTHER_DIALOG)?;
        // A question may itself look like a row: it is as long as it is, and the rows follow.
        let mut asked = String::new();
        let asked_until = inside.iter().position(|line| {
            asked += line;
            squeezed(&asked) == squeezed(&question.question)
        });
        let asked_until = asked_until.ok_or(OTHER_DIALOG)?;
        let editing = lines[hint..].concat().contains(EDITING);
        Ok(Self { editing, ..Self::read(&inside[asked_until + 1..], question) })
    }

    fn read(lines: &[&str], question: &Question) -> Self {
        let mut dialog = Self { rows: Vec::new(), notes: String::new(), editing: false };
        let mut noting = false;
        for line in lines {
            let (line, notes) = match has_previews(question) {
                true => beside_preview(line),
                false => (*line, None),
            };
            if let Some(notes) = notes {
                noting = true;
                dialog.notes += notes;
            } else if noting {
                dialog.notes += line;
            } else if let Some(row) = row(line, question.multi_select) {
                dialog.rows.push(row);
            } else if let Some(last) = dialog.rows.last_mut() {
                last.text += line;
            }
        }
        dialog
    }

    fn has_rows(&self, question: &Question, typed: Option<&str>) -> Result<(), Differs> {
        let previews = has_previews(question);
        let mut rows = self.rows.iter();
        for (i, offer) in question.options.iter().enumerate() {
            let row = rows.next().filter(|row| row.number == Some(i + 1)).ok_or(OTHER_ROWS)?;
            let described = if previews { "" } else { offer.description.as_str() };
            let same = squeezed(&row.text) == squeezed(&format!("{}{described}", offer.label));
            if !same || row.ticked.is_some() != question.multi_select {
                return Err(OTHER_ROWS);
            }
        }
        if previews {
            let expected = match typed {
                None => NO_NOTES,
                Some("") => EMPTY_NOTES,
                Some(typed) => typed,
            };
            (squeezed(&self.notes) == squeezed(expected)).then_some(()).ok_or(OTHER_TEXT)?;
        } else {
            let row = rows.next().filter(|row| row.number == Some(question.options.len() + 1));
            let row = row.ok_or(OTHER_ROWS)?;
            let (empty, text) = (squeezed("Type something"), squeezed(&row.text));
            match typed {
                None if text.trim_end_matches('.') != empty => return Err(OTHER_ROWS),
                Some(typed) if text != squeezed(typed) => return Err(OTHER_TEXT),
                None | Some(_) => {}
            }
        }
        if question.multi_select {
            rows.next().filter(|row| row.number.is_none() && row.text.trim().is_empty()).ok_or(OTHER_ROWS)?;
        }
        match rows.next() {
            Some(_) => Err(OTHER_ROWS),
            None => Ok(()),
        }
    }

    fn has_choice(&self, question: &Question, ticked: &[usize], at: At) -> Result<(), Differs> {
        let options = question.options.len();
        let shown: Vec<_> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.ticked == Some(true))
            .map(|(i, _)| i)
            .collect();
        let highlighted: Vec<_> =
            self.rows.iter().enumerate().filter(|(_, row)| row.highlighted).map(|(i, _)| i).collect();
        let is_there = match (at, highlighted.as_slice()) {
            (At::Option(i), [there]) => i == *there,
            (At::Noted(i), [there]) => i == *there && !self.editing,
            (At::AnyOption, [there]) => *there < options,
            (At::FreeText, [there]) => options == *there,
            (At::Submit, [there]) => options + 1 == *there,
            (_, _) => false,
        };
        match is_there && shown == ticked {
            true => Ok(()),
            false => Err(OTHER_CHOICE),
        }
    }
}

/// A rule across the whole width.
pub(super) fn is_rule(line: &str) -> bool {
    line.chars().count() >= 20 && line.chars().all(|c| c == '─')
}

/// One question alone has its header; several have a tab each, ticked as far as they are answered, and one to submit.
fn are_tabs(line: &str, questions: &[Question], index: usize) -> bool {
    let alone = questions.len() == 1 && questions.iter().all(|question| !question.multi_select);
    let shown = squeezed(line);
    let mut rest = match (alone, shown.strip_prefix('←')) {
        (false, Some(rest)) => rest,
        (true, None) => shown.as_str(),
        (false, None) | (true, Some(_)) => return false,
    };
    for (i, question) in questions.iter().enumerate() {
        let answered = rest.strip_prefix('☒');
        // What comes later is not answered yet; the question itself is, once something is ticked.
        if i > index && answered.is_some() || i < index && answered.is_none() {
            return false;
        }
        let header = squeezed(&question.header);
        match answered.or_else(|| rest.strip_prefix('☐')).and_then(|rest| rest.strip_prefix(header.as_str()))
        {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest == if alone { "" } else { "✔Submit→" }
}

/// A row is at the very left, its number after the mark; what is under it is set in.
fn row(line: &str, multi_select: bool) -> Option<Row> {
    let (highlighted, rest) = match line.strip_prefix("❯ ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix("  ")?),
    };
    if multi_select && ["   Submit", "   Next"].contains(&rest) {
        return Some(Row { number: None, highlighted, ticked: None, text: String::new() });
    }
    let (number, rest) = rest.split_once(". ")?;
    let number = (number.len() == 1).then(|| number.parse().ok()).flatten()?;
    let (ticked, text) = match (rest.strip_prefix("[✔] "), rest.strip_prefix("[ ] ")) {
        (Some(text), _) => (Some(true), text),
        (None, Some(text)) => (Some(false), text),
        (None, None) => (None, rest),
    };
    Some(Row { number: Some(number), highlighted, ticked, text: text.to_owned() })
}

/// The text to the left of a preview, or the notes under it.
fn beside_preview(line: &str) -> (&str, Option<&str>) {
    match (line.find(['┌', '│', '├', '└']), line.split_once("Notes: ")) {
        (Some(end), _) => (line[..end].trim_end(), None),
        (None, Some((_, notes))) => ("", Some(notes)),
        (None, None) => (line, None),
    }
}

fn review(lines: &[&str], questions: &[Question], answers: &[Vec<String>]) -> Result<(), Differs> {
    let title = lines.iter().rposition(|line| *line == "Review your answers").ok_or(OTHER_DIALOG)?;
    let page: Vec<_> = lines[title + 1..].iter().filter(|line| !line.is_empty()).copied().collect();
    let Some(shown) = page.strip_suffix(&["❯ 1. Submit answers", "  2. Cancel"]) else {
        return Err(OTHER_DIALOG);
    };
    // Claude Code 2.1.327 no longer prints this line.
    let shown = shown.strip_suffix(&["Ready to submit your answers?"]).unwrap_or(shown);
    let shown = squeezed(&shown.concat());
    match answers.len() == questions.len() && tells(&shown, questions, answers) {
        true => Ok(()),
        false => Err(OTHER_ANSWERS),
    }
}

fn tells(shown: &str, questions: &[Question], answers: &[Vec<String>]) -> bool {
    let (Some((question, questions)), Some((forms, answers))) =
        (questions.split_first(), answers.split_first())
    else {
        return shown.is_empty();
    };
    let asked = format!("●{}→", squeezed(&question.question));
    let Some(rest) = shown.strip_prefix(asked.as_str()) else { return false };
    let mut after = forms.iter().filter_map(|form| rest.strip_prefix(squeezed(form).as_str()));
    after.any(|rest| tells(rest, questions, answers))
}

/// Text as it can be compared after a terminal has wrapped it: without spaces, and without what has no width.
pub(super) fn squeezed(text: &str) -> String {
    let counts = |c: &char| {
        let invisible = matches!(c, '\u{fffd}' | '│' | '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        !c.is_whitespace() && !c.is_control() && !invisible
    };
    text.chars().filter(counts).collect()
}

#[cfg(test)]
mod tests;
