//! A message that offers a choice and is no ask: what waits, as a list, and where a text belongs. No I/O.

use super::html::{Page, label};
use super::memory::random;
use super::render::ECHO;
use crate::hub::Problem;
use aye_core::{Ask, AskId, Body, Display, DisplayKind, Text};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A list names so many; the rest it counts.
pub const MOST_LISTED: usize = 40;
const LINE: usize = 80;
const IN_A_ROW: usize = 8;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Menu {
    pub id: String,
    pub chat: i64,
    pub message: Option<i64>,
    /// Nobody knows whether it is there; it is not sent again.
    pub lost: bool,
    pub what: Kind,
    /// What stands behind each button.
    pub tokens: BTreeMap<String, Choice>,
    pub shown: String,
    /// That something of it still waits was said once more.
    #[serde(default)]
    pub reminded: bool,
    #[serde(default)]
    pub reminder: Option<i64>,
    /// It will not change any more, and says this.
    pub done: Option<String>,
    pub made_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Asks that came at once, or that somebody wants to see again.
    Waiting {
        asks: Vec<AskId>,
        /// Somebody asked for it, with these lines above.
        status: Option<String>,
    },
    /// A text that may be the answer to one of these questions.
    Offer { user: i64, text: Text, here: i64, run: Option<String>, questions: Vec<(String, String)> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Choice {
    Show {
        ask: AskId,
    },
    ShowAll,
    /// The text answers the question that this message shows.
    Answer {
        copy: String,
    },
    /// The text is for the chat's run, or starts one.
    Prompt,
    Drop,
}

impl Menu {
    pub fn new(chat: i64, what: Kind, now: Timestamp) -> Result<Self, Problem> {
        Ok(Self {
            id: random()?,
            chat,
            message: None,
            lost: false,
            what,
            tokens: BTreeMap::new(),
            shown: String::new(),
            reminded: false,
            reminder: None,
            done: None,
            made_at: now,
        })
    }

    /// The token of a button, made when it is first shown.
    pub fn token(&mut self, choice: &Choice) -> Result<String, Problem> {
        if let Some((token, _)) = self.tokens.iter().find(|(_, known)| *known == choice) {
            return Ok(token.clone());
        }
        let token = random()?;
        self.tokens.insert(token.clone(), choice.clone());
        Ok(token)
    }

    pub fn is_list(&self) -> bool {
        matches!(self.what, Kind::Waiting { .. })
    }

    pub fn lists_any(&self, is_open: impl Fn(&AskId) -> bool) -> bool {
        matches!(&self.what, Kind::Waiting { asks, .. } if asks.iter().any(is_open))
    }

    /// The asks of a list that nobody asked for.
    pub fn announced(&self) -> &[AskId] {
        match &self.what {
            Kind::Waiting { asks, status: None } => asks,
            Kind::Waiting { .. } | Kind::Offer { .. } => &[],
        }
    }

    /// Whether this ask stands in a list that nobody asked for, in place of a message of its own.
    pub fn announces(&self, ask: &AskId) -> bool {
        matches!(&self.what, Kind::Waiting { asks, status: None } if asks.contains(ask))
    }
}

/// A list: each ask with who asks it, and none where it is gone.
pub fn list(status: Option<&str>, asks: &[(Ask, String)]) -> (Page, Vec<Vec<(String, Choice)>>) {
    let open = asks.iter().filter(|(ask, _)| ask.state.is_open()).count();
    let words = match (open, asks.len()) {
        (0, 1) => "The request is answered.".to_owned(),
        (0, all) => format!("All {all} requests are answered."),
        (1, _) => "1 request is waiting".to_owned(),
        (open, _) => format!("{open} requests are waiting"),
    };
    let mut page = Page::default();
    if let Some(status) = status {
        page = page.text(status).line().line();
    }
    page = page.text(if open == 0 { "✅ " } else { "📥 " }).bold(&words).line();
    let mut keys = Vec::new();
    for (i, (ask, name)) in asks.iter().enumerate().take(MOST_LISTED) {
        let line = format!("{name}: {}", in_a_line(ask));
        let mark = if ask.state.is_open() { "" } else { "✓ " };
        page = page.line().text(&format!("{}. {mark}", i + 1)).written(&label(&line, LINE));
        if ask.state.is_open() {
            keys.push(((i + 1).to_string(), Choice::Show { ask: ask.id.clone() }));
        }
    }
    if asks.len() > MOST_LISTED {
        page = page.line().dim(&format!("and {} more", asks.len() - MOST_LISTED));
    }
    let mut rows: Vec<_> = keys.chunks(IN_A_ROW).map(<[_]>::to_vec).collect();
    if open > 0 {
        page = page.line().line().dim("Tap a number to open that request here.");
    }
    if open > 1 {
        rows.push(vec![("Show all".to_owned(), Choice::ShowAll)]);
    }
    (page.fitting(), rows)
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

/// Asks where a text belongs.
pub fn offer(
    text: &str,
    run: Option<&str>,
    questions: &[(String, String)],
) -> (Page, Vec<Vec<(String, Choice)>>) {
    let mut page = Page::default().text("✍️ Is this an answer?").line().written(&quoted(text));
    if questions.is_empty() {
        page = page.line().dim("If so, open the request from the list and reply to it.");
    }
    let answer = |(copy, question): &(String, String)| {
        let words = format!("✅ Answer to: {}", label(question, 40));
        vec![(words, Choice::Answer { copy: copy.clone() })]
    };
    let mut rows: Vec<_> = questions.iter().map(answer).collect();
    let prompt = match run {
        Some(run) => format!("➡️ Send to {}", label(run, 30)),
        None => "➡️ Start a run with it".to_owned(),
    };
    rows.push(vec![(prompt, Choice::Prompt), ("Neither".to_owned(), Choice::Drop)]);
    (page, rows)
}

pub fn quoted(text: &str) -> String {
    format!("“{}”", label(text, ECHO))
}
