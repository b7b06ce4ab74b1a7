//! An ask and what is filled in of it, as a message with buttons. What cannot be shown whole cannot be
//! approved here.

use super::actions::Action;
use super::exact;
use super::html::{RichText, label};
use super::permission::permission;
use super::plan::plan;
use super::question::{question, review};
use crate::surfaces::form::{Draft, TextKind};
use aye_core::{Ask, Body, Can, Proof, Question, Surface};
use std::borrow::Cow;

/// What a person typed is shown back to them, but need not be whole: they know it.
pub const ECHO: usize = 200;

/// A button: what it says, and what it does.
pub type Button = (String, Action);

pub fn button(label: impl Into<String>, action: Action) -> Button {
    (label.into(), action)
}

/// What a message shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageContent {
    /// Messages that hold what this one has no room for.
    pub parts: Vec<RichText>,
    pub page: RichText,
    pub rows: Vec<Vec<Button>>,
    /// The whole text, where messages do not hold it.
    pub file: Option<(String, String)>,
    /// The question that parts and file belong to.
    pub question: usize,
    /// It can be decided only elsewhere, so there is a link to the page.
    pub wants_page: bool,
}

/// Who asks, and until when, in words for people.
#[derive(Debug, Clone, Default)]
pub struct AskSource {
    pub name: String,
    /// The time left, such as "12 min left".
    pub deadline: Option<String>,
    /// There can be a link to the page under the message.
    pub has_link: bool,
    /// True in a group, where the bot hears replies only.
    pub in_group: bool,
}

pub fn open(ask: &Ask, draft: &Draft, asker: &AskSource) -> MessageContent {
    let shown = match &ask.body {
        Body::Question(asked) if draft.at >= asked.questions.len() => review(ask, asked, draft, asker),
        Body::Question(asked) => question(ask, asked, draft, asker),
        Body::Permission(asked) => permission(ask, asked, draft, asker),
        Body::Plan(asked) => plan(ask, asked.plan.as_str(), draft, asker),
    };
    let mut shown = takeable(&can_here(ask), shown);
    shown.wants_page |= ask.body.why_not_on(Surface::Telegram).is_some();
    guarded(ask, shown)
}

/// What can be answered here: what the agent can take, and nothing where Telegram must not carry it.
pub fn can_here(ask: &Ask) -> Cow<'_, Can> {
    match ask.body.why_not_on(Surface::Telegram) {
        Some(why) => Cow::Owned(Can::elsewhere(why.to_owned())),
        None => Cow::Borrowed(&ask.extras.can),
    }
}

/// Offers exactly what the agent can take from here.
fn takeable(can: &Can, mut shown: MessageContent) -> MessageContent {
    let can_take = |action: &Action| match action {
        Action::Words { question } => can.for_question(*question).text,
        Action::Notes { question } => can.for_question(*question).notes,
        Action::Skip { question } => can.for_question(*question).skip,
        Action::SkipAll { question } => can.skip && !can.for_question(*question).skip,
        Action::DenyWhy => can.reason,
        Action::Outline => can.outline,
        _ => true,
    };
    for row in &mut shown.rows {
        row.retain(|(_, action)| can.answer && can_take(action));
        for (name, action) in row {
            if can.deny_ends_turn && matches!(action, Action::Deny | Action::DenyWhy) {
                name.push_str(" (ends the turn)");
            }
        }
    }
    shown.rows.retain(|row| !row.is_empty());
    if let Some(why) = can.why_not() {
        shown.page = shown.page.line().line().text("It cannot be answered here: ").written(&label(why, ECHO));
    }
    shown
}

/// Where something that takes a passkey can be allowed; nothing for everything else.
pub fn passkey_note(ask: &Ask, asker: &AskSource) -> RichText {
    let page = RichText::default();
    match (ask.proof, asker.has_link) {
        (Proof::None, _) => page,
        (Proof::Passkey, true) => {
            page.line().line().text("🔑 Allowing this takes a passkey: open it on the page.")
        }
        (Proof::Passkey, false) => {
            page.line().line().text("🔑 Allowing this takes a passkey, on the page: ").code("aye open")
        }
    }
}

/// Where something that is too long for Telegram can be read, and decided on.
pub fn too_long(page: RichText, ask: &Ask, approved: &str) -> RichText {
    let words =
        format!("Too long to show here, so it cannot be {approved} here. The file below has all of it.");
    let page = page.text(&words);
    match ask.proof {
        Proof::None => {
            let command = format!("aye answer {} --allow", ask.id);
            page.text(&format!(" It can be {approved} on the page, or with ")).code(&command)
        }
        Proof::Passkey => page,
    }
}

/// What takes a passkey, and whatever does not fit in spite of everything above, cannot be approved here.
pub fn guarded(ask: &Ask, mut shown: MessageContent) -> MessageContent {
    if ask.proof == Proof::Passkey {
        shown = without_approval(shown);
        shown.wants_page = true;
    }
    if ask.proof == Proof::Passkey || shown.file.is_some() {
        without_allowing_options(&ask.body, &mut shown);
    }
    if !shown.page.fits() || !shown.parts.iter().all(RichText::fits) {
        shown.page = shown.page.fitting();
        shown.parts.clear();
        shown = without_approval(shown);
    }
    shown
}

pub fn without_approval(mut shown: MessageContent) -> MessageContent {
    for row in &mut shown.rows {
        row.retain(|(_, action)| !approves(action));
    }
    shown.rows.retain(|row| !row.is_empty());
    shown
}

/// Leaves of a question that can allow something only what refuses it.
fn without_allowing_options(body: &Body, shown: &mut MessageContent) {
    let Body::Question(asked) = body else { return };
    let asked = |question: &usize| asked.questions.get(*question);
    for row in &mut shown.rows {
        row.retain(|(_, action)| match action {
            Action::Pick { question, option } | Action::Toggle { question, option } => {
                let offer = asked(question).and_then(|asked| asked.options.get(*option));
                !offer.is_some_and(|offer| offer.allows)
            }
            Action::Words { question } => !asked(question).is_some_and(Question::has_allowing_option),
            _ => true,
        });
    }
    shown.rows.retain(|row| !row.is_empty());
}

pub fn approves(action: &Action) -> bool {
    matches!(
        action,
        Action::AllowOnce | Action::AllowSession | Action::AllowAlways | Action::Approve | Action::PassPlan
    )
}

/// The line under the title: who asks, and where.
pub fn origin(page: RichText, ask: &Ask, asker: &AskSource) -> RichText {
    let name = if asker.name.is_empty() { ask.agent.as_str() } else { &asker.name };
    let mut words = label(name, ECHO);
    if !ask.cwd.is_empty() {
        words += &format!(" in {}", exact::words(&ask.cwd));
    }
    page.line().dim_written(&words)
}

/// The same for an ask that is open: until when it waits, too.
pub fn waiting(page: RichText, ask: &Ask, asker: &AskSource) -> RichText {
    let page = origin(page, ask, asker);
    match &asker.deadline {
        Some(deadline) => page.line().dim(&format!("⏳ {deadline}")),
        None => page,
    }
}

pub fn typing_hint(page: RichText, what: TextKind, in_group: bool) -> RichText {
    page.line().bold(match (what, in_group) {
        (TextKind::Words, false) => "✍️ Send your answer as your next message.",
        (TextKind::Notes, false) => "✍️ Send your note as your next message.",
        (TextKind::Reason, false) => "✍️ Send the reason as your next message.",
        (TextKind::Words, true) => "✍️ Reply to the message below with your answer.",
        (TextKind::Notes, true) => "✍️ Reply to the message below with your note.",
        (TextKind::Reason, true) => "✍️ Reply to the message below with the reason.",
    })
}
