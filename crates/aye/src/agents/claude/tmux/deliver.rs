//! Carrying out a plan: one key at a time, each only on the page it is meant for.

use super::plan::{Plan, Step};
use super::screen::{Differs, ExpectedScreen, compare};
use crate::agents::tmux::keys::Key;
use crate::agents::tmux::pane::{NoPane, Pane};
use aye_core::Question;
use std::time::{Duration, Instant};

/// How long the terminal may take to draw what a key does.
const SLOWEST_PAGE: Duration = Duration::from_secs(8);
const LOOK_AGAIN: Duration = Duration::from_millis(30);
/// How long a page must stay the same before a key that cannot be taken back.
const STANDS_STILL: Duration = Duration::from_millis(100);
/// How long a dialog may stay after the key that answers it.
const GOES_WITHIN: Duration = Duration::from_secs(2);
/// A dialog that has only just been drawn may drop a key.
const MOST_PRESSES: usize = 3;

/// How far a plan came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypingResult {
    /// Every key, with the right page before each.
    All,
    /// Nothing was pressed.
    Nothing(Stopped),
    /// Some keys, and then no more. Nothing was submitted.
    Some(Stopped),
    /// Whether the last key, which submits, arrived is not known.
    Perhaps(Stopped),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    #[error(transparent)]
    Pane(#[from] NoPane),
    #[error("{0}")]
    Screen(#[from] Differs),
    #[error("it was answered in the terminal meanwhile")]
    Answered,
    #[error("the dialog does not take the key that answers it")]
    Ignored,
}

/// `still_open` is asked before the first key, and before the one that submits; `is_alone`, whether no other call can
/// bring up the same dialog, before that one is pressed again.
pub async fn deliver(
    pane: &Pane,
    questions: &[Question],
    plan: &Plan,
    still_open: impl Fn() -> bool,
    is_alone: impl Fn() -> bool,
) -> TypingResult {
    let mut pressed = 0;
    for (at, step) in plan.steps.iter().enumerate() {
        let submits = at + 1 == plan.steps.len();
        let ready = async {
            pane.leave_modes().await?;
            let mut shown = wait_for(pane, questions, &step.page).await;
            if shown.is_ok() && (pressed == 0 || submits) {
                // A key that somebody has just pressed shows by now.
                tokio::time::sleep(STANDS_STILL).await;
                shown = wait_for(pane, questions, &step.page).await;
            }
            match shown {
                // The last look before a key that cannot be taken back.
                Ok(()) if (pressed == 0 || submits) && !still_open() => Err(Stopped::Answered),
                // Another page may be there because somebody was faster.
                Err(Stopped::Screen(_)) if !still_open() => Err(Stopped::Answered),
                shown => shown,
            }
        };
        if let Err(stopped) = ready.await {
            return if pressed == 0 { TypingResult::Nothing(stopped) } else { TypingResult::Some(stopped) };
        }
        if is_done_already(pane, questions, step, plan.steps.get(at + 1)).await {
            continue;
        }
        pressed += 1;
        if let Err(gone) = pane.press(&step.key).await {
            let stopped = gone.into();
            return if submits { TypingResult::Perhaps(stopped) } else { TypingResult::Some(stopped) };
        }
    }
    match plan.steps.last() {
        Some(last) => see_it_go(pane, questions, last, || still_open() && is_alone()).await,
        None => TypingResult::All,
    }
}

/// True if the number of a row would change nothing, because the row is highlighted. The screen would not show when such a
/// key was read, and on a loaded machine the terminal reads the next one together with it and takes neither.
async fn is_done_already(pane: &Pane, questions: &[Question], step: &Step, next: Option<&Step>) -> bool {
    let Some(next) = next.filter(|_| matches!(step.key, Key::Digit(_))) else { return false };
    pane.screen().await.is_ok_and(|screen| compare(&screen, questions, &next.page).is_ok())
}

/// Presses the key that submits again, but only if the terminal has certainly dropped it: keys take effect in order,
/// so one that moves the mark in this very dialog shows that those before it were taken and did nothing. A key that
/// merely waits to be read would answer the next dialog.
async fn see_it_go(
    pane: &Pane,
    questions: &[Question],
    last: &Step,
    may_repeat: impl Fn() -> bool,
) -> TypingResult {
    for _ in 1..MOST_PRESSES {
        if is_gone(pane, questions, &last.page).await || !may_repeat() {
            return TypingResult::All;
        }
        let Some((beside, away, back)) = last.page.beside(questions) else { return TypingResult::All };
        let dropped = async {
            pane.press(&away).await?;
            wait_for(pane, questions, &beside).await?;
            pane.press(&back).await?;
            wait_for(pane, questions, &last.page).await?;
            tokio::time::sleep(STANDS_STILL).await;
            wait_for(pane, questions, &last.page).await
        };
        match dropped.await {
            Ok(()) if may_repeat() => {}
            Ok(()) | Err(_) => return TypingResult::All,
        }
        if let Err(gone) = pane.press(&last.key).await {
            return TypingResult::Perhaps(gone.into());
        }
    }
    match is_gone(pane, questions, &last.page).await || !may_repeat() {
        true => TypingResult::All,
        false => TypingResult::Some(Stopped::Ignored),
    }
}

/// Whether the terminal shows something else soon, and not only while it draws.
async fn is_gone(pane: &Pane, questions: &[Question], page: &ExpectedScreen) -> bool {
    let until = Instant::now() + GOES_WITHIN;
    let mut gone_since = None;
    loop {
        let is_there = pane.screen().await.is_ok_and(|screen| compare(&screen, questions, page).is_ok());
        let now = Instant::now();
        match is_there {
            true => gone_since = None,
            false if now.duration_since(*gone_since.get_or_insert(now)) >= STANDS_STILL => return true,
            false => {}
        }
        if now >= until && is_there {
            return false;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// A page is there as soon as the terminal has drawn what the key before did.
async fn wait_for(pane: &Pane, questions: &[Question], page: &ExpectedScreen) -> Result<(), Stopped> {
    let until = Instant::now() + SLOWEST_PAGE;
    loop {
        match compare(&pane.screen().await?, questions, page) {
            Ok(()) => return Ok(()),
            Err(differs) if Instant::now() >= until => return Err(differs.into()),
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests;
