//! Messages that offer a choice and are no ask: what waits, as a list, and where a text belongs. No I/O.

use super::actions::Action;
use super::chooser::Offered;
use super::html::{RichText, label};
use super::message::ChoiceContent;
use super::render::{Button, ECHO, button};
use aye_core::{Ask, Body, Display, DisplayKind, State};

/// At most this many are named; the rest are only counted.
pub const MOST_LISTED: usize = 40;
const LINE: usize = 80;
const IN_A_ROW: usize = 8;
const NAMES_IN_A_ROW: usize = 2;

/// A list: each ask with who asks it, and none where it is gone.
pub fn list(status: Option<&str>, asks: &[(Ask, String)]) -> (RichText, Vec<Vec<Button>>) {
    let open = asks.iter().filter(|(ask, _)| ask.state.is_open()).count();
    let mut page = RichText::default();
    if let Some(status) = status {
        page = page.text(status).line().line();
    }
    page = page.text(if open == 0 { "✅ " } else { "📥 " }).bold(&heading(asks, open)).line();
    // If not all fit, ended ones are left out first.
    let is_shown = |(_, (ask, _)): &(usize, &(Ask, String))| asks.len() <= MOST_LISTED || ask.state.is_open();
    let numbered = asks.iter().enumerate().filter(is_shown);
    let mut keys = Vec::new();
    for (i, (ask, name)) in numbered.clone().take(MOST_LISTED) {
        let line = format!("{name}: {}", in_a_line(ask));
        let mark = if ask.state.is_open() { "" } else { "✓ " };
        page = page.line().text(&format!("{}. {mark}", i + 1)).written(&label(&line, LINE));
        if ask.state.is_open() {
            keys.push(button((i + 1).to_string(), Action::Show { ask: ask.id.clone() }));
        }
    }
    let more = numbered.count().saturating_sub(MOST_LISTED);
    if more > 0 {
        page = page.line().dim(&format!("and {more} more"));
    }
    let mut rows: Vec<_> = keys.chunks(IN_A_ROW).map(<[_]>::to_vec).collect();
    if open > 0 {
        page = page.line().line().dim("Tap a number to open that request here.");
    }
    if open > 1 {
        rows.push(vec![button("Show all", Action::ShowAll)]);
    }
    (page.fitting(), rows)
}

fn heading(asks: &[(Ask, String)], open: usize) -> String {
    let answered = asks.iter().all(|(ask, _)| matches!(ask.state, State::Answered { .. }));
    let over = if answered { "answered" } else { "closed" };
    match (open, asks.len()) {
        (0, 1) => format!("The request is {over}."),
        (0, all) => format!("All {all} requests are {over}."),
        (1, _) => "1 request is waiting".to_owned(),
        (open, _) => format!("{open} requests are waiting"),
    }
}

/// An ask as short as it can be said. Nothing is decided on this.
pub fn in_a_line(ask: &Ask) -> String {
    match &ask.body {
        Body::Question(asked) => {
            let first = asked.questions.first().map_or("", |question| question.question.as_str());
            format!("❓ {first}")
        }
        Body::Permission(permission) => {
            let display = Display::of(permission, &ask.extras);
            match display.kind {
                DisplayKind::Command => format!("🔐 {}", display.text),
                DisplayKind::Diff | DisplayKind::Json => format!("🔐 {}", display.title),
            }
        }
        Body::Plan(plan) => format!("📋 {}", plan.plan.as_str().lines().next().unwrap_or_default()),
    }
}

/// Asks whether a text that waited for long is still meant.
pub fn old(text: &str, run: Option<&str>, age: &str) -> (RichText, Vec<Vec<Button>>) {
    let (question, start) = match run {
        Some(run) => (format!("Send it to {run}?"), "➡️ Send it"),
        None => ("Start it?".to_owned(), "▶️ Start it"),
    };
    let page = RichText::default().text(&format!("🕰 This was written {age} ago. {question}"));
    let page = page.line().written(&quoted(text));
    (page, vec![vec![button(start, Action::Prompt), button("No", Action::Drop)]])
}

/// Asks where a text belongs.
pub fn offer(text: &str, run: Option<&str>, questions: &[(String, String)]) -> (RichText, Vec<Vec<Button>>) {
    let mut page = RichText::default().text("✍️ Is this an answer?").line().written(&quoted(text));
    if questions.is_empty() {
        page = page.line().dim("If so, open the request from the list and reply to it.");
    }
    let answer = |(message, question): &(String, String)| {
        let words = format!("✅ Answer to: {}", label(question, 40));
        vec![button(words, Action::Answer { message: message.clone() })]
    };
    let mut rows: Vec<_> = questions.iter().map(answer).collect();
    let prompt = match run {
        Some(run) => format!("➡️ Send to {}", label(run, 30)),
        None => "➡️ Start a run with it".to_owned(),
    };
    rows.push(vec![button(prompt, Action::Prompt), button("Neither", Action::Drop)]);
    (page, rows)
}

/// Asks what runs are to be in or with.
pub fn choice(shown: &ChoiceContent, offers: &[Offered]) -> (RichText, Vec<Vec<Button>>) {
    let mut page = RichText::default().text(&shown.lead);
    if let Some(waiting) = &shown.waiting {
        page = page.line().written(&quoted(waiting.text.as_str()));
    }
    for offer in offers.iter().filter(|offer| !offer.detail.is_empty()) {
        page = page.line().bold(&offer.name).text("  ").written(&offer.detail);
    }
    let mark = |offer: &Offered| if offer.current { "✓ " } else { "" };
    let key = |offer: &Offered| {
        let words = format!("{}{}", mark(offer), label(&offer.name, 30));
        button(words, Action::Choose { name: offer.name.clone() })
    };
    let keys: Vec<_> = offers.iter().map(key).collect();
    let mut rows: Vec<_> = keys.chunks(NAMES_IN_A_ROW).map(<[_]>::to_vec).collect();
    if shown.waiting.is_some() {
        rows.push(vec![button("Don't start it", Action::Drop)]);
    }
    (page, rows)
}

pub fn quoted(text: &str) -> String {
    format!("“{}”", label(text, ECHO))
}
