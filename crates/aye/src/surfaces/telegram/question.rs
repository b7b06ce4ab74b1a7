//! Questions: one at a time, and of several all answers once more before they are sent.

use super::access::plain_name;
use super::actions::Action;
use super::html::{LONGEST, RichText, label, pieces};
use super::render::{
    AskSource, Button, ECHO, MessageContent, button, can_here, passkey_note, typing_hint, waiting,
};
use crate::surfaces::form::{Draft, Entry};
use aye_core::{Ask, Can, Question, Questions};

/// Telegram shows no more buttons under one message.
const MOST_BUTTONS: usize = 90;
const LABEL: usize = 40;
/// What does not fit into so many messages comes as a file.
pub const MOST_PARTS: usize = 4;
/// Room for the words around a text that fills a message.
pub const FRAME: usize = 200;
/// What the answers of a whole form share.
const REVIEW: usize = 2800;
const IN_A_ROW: usize = 5;

pub fn question(ask: &Ask, asked: &Questions, draft: &Draft, asker: &AskSource) -> MessageContent {
    let (at, of) = (draft.at, asked.questions.len());
    let asked = &asked.questions[at];
    let entry = draft.entry(at);
    let mut head = RichText::default().text("❓ ").bold(if asked.header.is_empty() {
        "Question"
    } else {
        &asked.header
    });
    if of > 1 {
        head = head.text(&format!(" · {} of {of}", at + 1));
    }
    let head = waiting(head, ask, asker).line().line();
    let tail = tail(draft, asked, &entry, &can_here(ask), asker.in_group).page(&passkey_note(ask, asker));
    let body = body(asked, &head, &tail);
    let pickable = body.pickable && asked.options.len() <= MOST_BUTTONS;
    let mut page = head.page(&body.page);
    if !pickable && !asked.options.is_empty() {
        page = page.line().text("Too long to answer here. Answer it on the page, or with ");
        page = page.code(&format!("aye answer {}", ask.id)).line();
    }
    let file = body.file.map(|text| (format!("question-{}.txt", at + 1), text));
    let rows = buttons(asked, at, draft, pickable);
    MessageContent {
        parts: body.parts,
        page: page.page(&tail),
        rows,
        wants_page: file.is_some(),
        file,
        question: at,
    }
}

/// A question as far as its message holds it, and the rest of it.
struct QuestionText {
    page: RichText,
    parts: Vec<RichText>,
    file: Option<String>,
    pickable: bool,
}

fn body(asked: &Question, head: &RichText, tail: &RichText) -> QuestionText {
    let fits = |page: &RichText| head.clone().page(page).page(tail).fits();
    let (whole, described) = (options(asked, true), options(asked, false));
    let file = || Some(whole.plain().to_owned());
    if fits(&whole) {
        return QuestionText { page: whole, parts: vec![], file: None, pickable: true };
    }
    let in_file = |page: RichText| page.line().dim("The full text is in the file below.").line();
    if fits(&in_file(described.clone())) {
        return QuestionText { page: in_file(described), parts: vec![], file: file(), pickable: true };
    }
    let parts = parts(&described);
    let has_previews = asked.options.iter().any(|offer| offer.preview.is_some());
    let named = names(asked);
    let split = parts.len() <= MOST_PARTS;
    let page = match (split, has_previews) {
        (true, false) => named.line().dim("The details are in separate messages.").line(),
        (true, true) | (false, _) => in_file(named),
    };
    let pickable = fits(&page.clone().text(&" ".repeat(FRAME)));
    let page = if pickable {
        page
    } else {
        in_file(RichText::default().written(&label(&asked.question, FRAME)).line())
    };
    QuestionText {
        page,
        parts: if split { parts } else { vec![] },
        file: if split && !has_previews { None } else { file() },
        pickable,
    }
}

fn parts(described: &RichText) -> Vec<RichText> {
    let cut = pieces(described.plain(), LONGEST - FRAME);
    let of = cut.len();
    let part = |(i, piece): (usize, &&str)| {
        RichText::default().dim(&format!("Question, part {} of {of}", i + 1)).line().line().written(piece)
    };
    cut.iter().enumerate().map(part).collect()
}

fn options(asked: &Question, previews: bool) -> RichText {
    let mut page = RichText::default().text(&asked.question).line();
    for (i, offer) in asked.options.iter().enumerate() {
        page = page.line().text(&format!("{}. ", i + 1)).bold(&offer.label).line();
        if !offer.description.is_empty() {
            page = page.text(&offer.description).line();
        }
        if let Some(preview) = offer.preview.as_ref().filter(|_| previews) {
            page = page.pre(preview).line();
        }
    }
    page
}

/// The question and what it offers, in a line each.
fn names(asked: &Question) -> RichText {
    let mut page = RichText::default().written(&label(&asked.question, 600)).line();
    for (i, offer) in asked.options.iter().enumerate() {
        page = page.line().text(&format!("{}. ", i + 1)).written(&label(&offer.label, 2 * LABEL));
    }
    page.line()
}

fn tail(draft: &Draft, asked: &Question, entry: &Entry, can: &Can, in_group: bool) -> RichText {
    let mut page = RichText::default();
    if let Some(text) = &entry.text {
        page = page.line().dim("Your words: ").written(&label(text, ECHO)).line();
    }
    if let Some(notes) = &entry.notes {
        page = page.line().dim("Note: ").written(&label(notes, ECHO)).line();
    }
    match (&draft.typing, asked.multi_select) {
        _ if !can.answer => page,
        (Some(typing), _) => typing_hint(page, typing.what, in_group),
        (None, true) => page.line().dim("Tap all that apply, then Done."),
        (None, false) if asked.options.is_empty() && can.for_question(draft.at).text => {
            page.line().dim("Reply to this message with your answer.")
        }
        (None, false) => page,
    }
}

fn buttons(asked: &Question, at: usize, draft: &Draft, pickable: bool) -> Vec<Vec<Button>> {
    let entry = draft.entry(at);
    let mut rows: Vec<_> = match pickable {
        true => (0..asked.options.len()).map(|i| vec![option(asked, at, i, &entry)]).collect(),
        false => vec![],
    };
    if asked.multi_select {
        rows.push(vec![button("Done", Action::Done { question: at })]);
    }
    let mut last = Vec::new();
    if draft.typing.is_some() {
        last.push(button("Cancel", Action::StopTyping));
    } else {
        if asked.free_text {
            let name = if asked.options.is_empty() { "✍️ Answer" } else { "Other…" };
            last.push(button(name, Action::Words { question: at }));
        }
        let name = if entry.notes.is_some() { "Change note…" } else { "Note…" };
        last.push(button(name, Action::Notes { question: at }));
        last.push(button("Skip", Action::Skip { question: at }));
        last.push(button("Skip all", Action::SkipAll { question: at }));
    }
    rows.push(last);
    if at > 0 {
        rows.push(vec![button("‹ Back", Action::Back { question: at })]);
    }
    rows
}

/// Labels may begin alike and be cut: the number tells them apart.
fn option(asked: &Question, at: usize, i: usize, entry: &Entry) -> Button {
    let name = format!("{}. {}", i + 1, label(&asked.options[i].label, LABEL));
    match (asked.multi_select, entry.picks.contains(&i)) {
        (true, true) => button(format!("☑ {name}"), Action::Toggle { question: at, option: i }),
        (true, false) => button(format!("☐ {name}"), Action::Toggle { question: at, option: i }),
        (false, true) => button(format!("✓ {name}"), Action::Pick { question: at, option: i }),
        (false, false) => button(name, Action::Pick { question: at, option: i }),
    }
}

/// All answers of a form, before they are sent.
pub fn review(ask: &Ask, asked: &Questions, draft: &Draft, asker: &AskSource) -> MessageContent {
    let of = asked.questions.len();
    let room = (REVIEW / of / 4).clamp(20, ECHO);
    let mut page = waiting(RichText::default().text("❓ ").bold("Check your answers"), ask, asker).line();
    for (i, question) in asked.questions.iter().enumerate() {
        let entry = draft.entry(i);
        page = page.line().text(&format!("{}. ", i + 1)).written(&label(&question.question, room)).line();
        page = page.text("→ ").bold_written(&label(&entry.in_words(question), 2 * room));
        if let Some(who) = entry.by.as_ref().filter(|_| draft.is_shared()) {
            page = page.text(" ").dim(&format!("({})", label(plain_name(who), 40)));
        }
        if let Some(notes) = &entry.notes {
            page = page.line().dim("Note: ").written(&label(notes, room));
        }
        page = page.line();
    }
    let changes: Vec<_> =
        (0..of).map(|i| button(format!("✏️ {}", i + 1), Action::Change { question: i })).collect();
    let mut rows = vec![vec![button("✅ Send answers", Action::Send)]];
    rows.extend(changes.chunks(IN_A_ROW).map(<[_]>::to_vec));
    MessageContent { page, rows, question: of, ..MessageContent::default() }
}
