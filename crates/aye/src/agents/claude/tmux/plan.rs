//! From an answer to keys, each with the page that must be on the screen for it.

use super::screen::{At, ExpectedScreen, has_previews};
use crate::agents::claude::receipts::Expected;
use crate::agents::claude::transcript::returned::spellings;
use crate::agents::tmux::keys::{Key, TypeableText, Untypeable};
use aye_core::answer::SKIPPED;
use aye_core::{Can, Choice, Question, QuestionCan, Reply};

/// A key, and the one page it may be pressed on. The page after it is that of the next; the last key submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub page: ExpectedScreen,
    pub key: Key,
}

/// Keys for one answer, and what the transcript must then show.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub expected: Expected,
}

/// Why an answer cannot be given in a terminal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unplannable {
    #[error(transparent)]
    Text(#[from] Untypeable),
    #[error("a message cannot go with a refusal in the terminal")]
    Message,
    #[error("one reply to several questions cannot be given in the terminal")]
    Response,
    #[error("the terminal takes notes only beside options that have previews")]
    Notes,
    #[error(
        "the terminal takes no free text for options that have previews, so such a question cannot be skipped alone"
    )]
    NoFreeText,
    #[error("its terminal does not offer that")]
    NotOffered,
    #[error("the question has more options than the terminal has keys for")]
    TooMany,
    #[error("the answer does not fit the questions")]
    Misfit,
}

/// The kinds of answer that the terminal takes for each question. Text has its own row, except beside previews, which take
/// notes. A skip is typed as text; a single question is skipped with Escape instead.
pub fn can_answer(questions: &[Question]) -> Can {
    let alone = questions.len() == 1;
    let each = questions.iter().map(has_previews);
    let each =
        each.map(|previews| QuestionCan { skip: alone || !previews, text: !previews, notes: previews });
    let response = alone && !questions.iter().any(has_previews);
    Can { response, reason: false, ..Can::default() }.with_questions(each.collect())
}

pub fn plan(questions: &[Question], reply: &Reply) -> Result<Plan, Unplannable> {
    let choices = match (reply, questions) {
        // There is no row for text beside previews, and Escape skips a single question.
        (Reply::Each { answers }, [only])
            if has_previews(only) && matches!(answers.as_slice(), [Choice::Skipped { .. }]) =>
        {
            return Ok(declined());
        }
        (Reply::Each { answers }, _) => answers.clone(),
        (Reply::Response { response }, [_]) => {
            vec![Choice::Given { selected: Vec::new(), text: Some(response.clone()), notes: None }]
        }
        (Reply::Response { .. }, _) => return Err(Unplannable::Response),
        (Reply::Skip { message: Some(_), .. }, _) => return Err(Unplannable::Message),
        (Reply::Skip { message: None, .. }, _) => return Ok(declined()),
    };
    if choices.len() != questions.len() || questions.is_empty() {
        return Err(Unplannable::Misfit);
    }
    let mut planner = Planner { steps: Vec::new() };
    for (index, (question, choice)) in questions.iter().zip(&choices).enumerate() {
        planner.answer(index, question, choice)?;
    }
    let answers: Vec<_> =
        questions.iter().zip(&choices).map(|(question, choice)| forms(question, choice)).collect();
    let reviewed = questions.len() > 1 || questions.iter().any(|question| question.multi_select);
    if reviewed {
        planner.press(ExpectedScreen::Review { answers: answers.clone() }, Key::Digit(1));
    }
    let asked = questions.iter().map(|question| question.question.clone());
    Ok(Plan { steps: planner.steps, expected: Expected::Typed(asked.zip(answers).collect()) })
}

fn declined() -> Plan {
    Plan { steps: vec![Step { page: untouched(0), key: Key::Escape }], expected: Expected::Declined }
}

/// A question that nobody has touched yet.
pub fn untouched(index: usize) -> ExpectedScreen {
    ExpectedScreen::Question { index, ticked: Vec::new(), at: At::AnyOption, typed: None }
}

struct Planner {
    steps: Vec<Step>,
}

impl Planner {
    fn press(&mut self, page: ExpectedScreen, key: Key) {
        self.steps.push(Step { page, key });
    }

    fn answer(&mut self, index: usize, question: &Question, choice: &Choice) -> Result<(), Unplannable> {
        let (selected, text, notes) = parts(choice);
        let typed = text.map(TypeableText::new).transpose()?;
        let mut chosen = positions(question, selected)?;
        let free_text = question.options.len();
        // The row behind the last option, and the one behind that, have digits, too.
        let digit =
            |row: usize| u8::try_from(row + 1).ok().filter(|digit| *digit <= 9).ok_or(Unplannable::TooMany);
        digit(free_text + 1)?;
        let page = |ticked: &[usize], at, typed: Option<&str>| ExpectedScreen::Question {
            index,
            ticked: ticked.to_vec(),
            at,
            typed: typed.map(str::to_owned),
        };
        match (has_previews(question), question.multi_select, chosen.as_slice(), typed) {
            (true, _, [row], None) => {
                self.press(untouched(index), Key::Digit(digit(*row)?));
                let Some(notes) = notes else {
                    self.press(page(&[], At::Option(*row), None), Key::Enter);
                    return Ok(());
                };
                let notes = TypeableText::new(notes)?;
                self.press(page(&[], At::Option(*row), None), Key::Notes);
                self.press(page(&[], At::Option(*row), Some("")), Key::Text(notes.clone()));
                // Some versions submit the notes alone on an Enter that is pressed among them.
                self.press(page(&[], At::Option(*row), Some(notes.as_str())), Key::Escape);
                self.press(page(&[], At::Noted(*row), Some(notes.as_str())), Key::Enter);
            }
            (true, _, _, _) => return Err(Unplannable::NoFreeText),
            (false, _, _, _) if notes.is_some() => return Err(Unplannable::Notes),
            (false, false, [row], None) => self.press(untouched(index), Key::Digit(digit(*row)?)),
            (false, false, [], Some(text)) => {
                self.press(untouched(index), Key::Digit(digit(free_text)?));
                self.press(page(&[], At::FreeText, None), Key::Text(text.clone()));
                self.press(page(&[], At::FreeText, Some(text.as_str())), Key::Enter);
            }
            (false, true, _, text) if !chosen.is_empty() || text.is_some() => {
                chosen.sort_unstable();
                for (done, row) in chosen.iter().enumerate() {
                    self.press(page(&chosen[..done], At::Option(0), None), Key::Digit(digit(*row)?));
                }
                let Some(text) = text else {
                    self.press(page(&chosen, At::Option(0), None), Key::Tab);
                    return Ok(());
                };
                for row in 0..free_text {
                    self.press(page(&chosen, At::Option(row), None), Key::Down);
                }
                self.press(page(&chosen, At::FreeText, None), Key::Text(text.clone()));
                chosen.push(free_text);
                self.press(page(&chosen, At::FreeText, Some(text.as_str())), Key::Tab);
                self.press(page(&chosen, At::Submit, Some(text.as_str())), Key::Enter);
            }
            (false, _, _, _) => return Err(Unplannable::Misfit),
        }
        Ok(())
    }
}

/// A skipped question is answered in words: the terminal would drop it without any.
fn parts(choice: &Choice) -> (&[String], Option<&str>, Option<&str>) {
    match choice {
        Choice::Skipped { .. } | Choice::Secret { .. } => (&[], Some(SKIPPED), None),
        Choice::Given { selected, text, notes } => {
            (selected, text.as_ref().map(aye_core::Text::as_str), notes.as_ref().map(aye_core::Text::as_str))
        }
    }
}

fn positions(question: &Question, selected: &[String]) -> Result<Vec<usize>, Unplannable> {
    let position = |label: &String| question.options.iter().position(|offer| offer.label == *label);
    selected.iter().map(|label| position(label).ok_or(Unplannable::Misfit)).collect()
}

/// Every way in which the terminal may write this choice.
fn forms(question: &Question, choice: &Choice) -> Vec<String> {
    let (selected, text, _) = parts(choice);
    let in_order = question.options.iter().map(|offer| offer.label.as_str());
    let picks = in_order.filter(|label| selected.iter().any(|s| s == label)).chain(text);
    let mut forms = vec![String::new()];
    for (i, pick) in picks.enumerate() {
        let separator = if i == 0 { "" } else { ", " };
        let written = if question.multi_select { written(pick) } else { vec![pick.to_owned()] };
        forms = forms
            .iter()
            .flat_map(|so_far| written.iter().map(move |pick| format!("{so_far}{separator}{pick}")))
            .collect();
    }
    forms
}

/// Every way in which one of several picks may be written; most are never quoted.
fn written(pick: &str) -> Vec<String> {
    let mut forms = Vec::from(spellings(pick));
    forms.dedup();
    forms.truncate(if pick.contains([',', '"', '\\']) { forms.len() } else { 1 });
    forms
}

#[cfg(test)]
mod tests;
