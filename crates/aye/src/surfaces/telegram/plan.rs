//! Plans: whole in one message, in several, or as a file that cannot be approved here.

use super::actions::Action;
use super::exact;
use super::html::{LONGEST, RichText, cut, length, pieces};
use super::question::{FRAME, MOST_PARTS};
use super::render::{AskSource, MessageContent, button, passkey_note, too_long, typing_hint, waiting};
use crate::surfaces::form::Draft;
use aye_core::Ask;
use aye_core::visible::visible;

pub fn plan(ask: &Ask, plan: &str, draft: &Draft, asker: &AskSource) -> MessageContent {
    let head = |page: RichText| waiting(page.text("📋 ").bold("A plan to approve"), ask, asker);
    let (parts, mut page, file) = plan_text(plan, head);
    let mut rows = vec![vec![button("⛔ Deny", Action::Deny)]];
    match file {
        None => rows[0].insert(0, button("✅ Approve", Action::Approve)),
        Some(_) => page = too_long(page.line(), ask, "approved"),
    }
    page = page.page(&passkey_note(ask, asker));
    match &draft.typing {
        Some(typing) => {
            page = typing_hint(page.line(), typing.what, asker.in_group);
            rows.push(vec![button("Cancel", Action::StopTyping)]);
        }
        None => {
            rows.push(vec![button("⛔ Deny with reason…", Action::DenyWhy)]);
            rows.push(vec![button("⏸ Pause and outline", Action::Outline)]);
        }
    }
    MessageContent { parts, page, rows, wants_page: file.is_some(), file, question: 0 }
}

/// A plan in one message, in several before it, or as a file. Something of ours comes after it, because Telegram
/// trims the end of a message.
pub fn plan_text(
    plan: &str,
    head: impl Fn(RichText) -> RichText,
) -> (Vec<RichText>, RichText, Option<(String, String)>) {
    // What is written shorter than it is shown must not make a message too long.
    let most =
        |text: &str| LONGEST - 2 * FRAME - (length(&exact::prose(text)) - length(text)).min(LONGEST / 2);
    if length(&exact::prose(plan)) <= LONGEST - 2 * FRAME {
        let page = head(RichText::default()).line().line().markdown(plan).line().line();
        return (vec![], page.dim("End of the plan."), None);
    }
    let cut = pieces(plan, most(plan));
    let of = cut.len();
    let part = |(i, piece): (usize, &&str)| {
        let page =
            RichText::default().dim(&format!("Plan, part {} of {of}", i + 1)).line().line().markdown(piece);
        page.line().line().dim(if i + 1 < of { "Continues below." } else { "End of the plan." })
    };
    let parts: Vec<_> = cut.iter().enumerate().map(part).collect();
    if of > MOST_PARTS || !parts.iter().all(RichText::fits) {
        return (vec![], head(RichText::default()), Some(("plan.md".to_owned(), visible(plan).into_owned())));
    }
    (parts, head(RichText::default()).line().text("The plan is above."), None)
}

/// The beginning of a plan, for a message that only says how it ended.
pub fn beginning(plan: &str, most: usize) -> RichText {
    let (start, whole) = cut(plan.trim(), most);
    let page = RichText::default().markdown(start.trim_end());
    if whole { page } else { page.text("…") }
}
