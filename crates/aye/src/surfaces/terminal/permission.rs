//! A permission on a terminal. Every byte of the input is printed, in a form from which it can be read back: what an
//! agent wrote is behind a bar, and our own words never do.

use super::style::{BAD, DIM, GOOD, HEAD, paint};
use super::{AnswerInput, put};
use anstyle::Style;
use aye_core::visible::{looks_escaped, one_line, visible, visible_json};
use aye_core::{AskView, Display, DisplayKind, Extras, Keeper, Permission, Scope, ScopeOffer};
use serde_json::{Map, Value};

/// What is asked in a few words, as lists say it.
pub fn summary(permission: &Permission) -> String {
    let display = Display::of(permission, &Extras::default());
    match display.kind {
        DisplayKind::Command => {
            let mut lines = display.text.lines().filter(|line| !line.trim().is_empty());
            let first = lines.next().unwrap_or_default();
            let more = if lines.next().is_some() { " …" } else { "" };
            format!("{}: {first}{more}", permission.tool)
        }
        DisplayKind::Diff => display.title,
        DisplayKind::Json => match about(&permission.input) {
            about if about.is_empty() => permission.tool.clone(),
            about => format!("{}: {about}", permission.tool),
        },
    }
}

/// What a tool call is about: the field that tells most, or else all of them.
pub fn about(input: &Map<String, Value>) -> String {
    let telling = ["command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description"];
    if let Some(words) = telling.iter().find_map(|field| input.get(*field)?.as_str()) {
        return words.to_owned();
    }
    let value = |value: &Value| {
        value.as_str().map_or_else(|| visible_json(&value.to_string()).into_owned(), str::to_owned)
    };
    let fields = input.iter().map(|(field, given)| format!("{field}: {}", value(given)));
    fields.collect::<Vec<_>>().join(", ")
}

pub fn whole(ask: &AskView, permission: &Permission, place: AnswerInput) -> String {
    // A hub of an older version sends none.
    let made_here = || Display::of(permission, &Extras::default());
    let display = ask.display.clone().unwrap_or_else(made_here);
    let mut out = String::new();
    // The title of a change begins with the tool's name, and so does that of anything that is shown as JSON.
    let tool = match display.kind {
        DisplayKind::Command => format!(" · {}", one_line(&permission.tool)),
        DisplayKind::Diff | DisplayKind::Json => String::new(),
    };
    put(&mut out, format_args!("{}{}", paint(HEAD, one_line(&display.title)), paint(DIM, tool)));
    shown(&mut out, &display);
    if !display.rest.is_empty() {
        put(&mut out, format_args!("{}", paint(DIM, "with:")));
        json(&mut out, &display.rest);
    }
    // Somebody could have written what we make of a hidden character; JSON tells the two apart.
    if has_escapes_of_its_own(&display) {
        put(&mut out, format_args!("{}", paint(DIM, "exactly, as JSON:")));
        json(&mut out, &permission.input);
    }
    for (n, part) in display.remarks.parts.iter().enumerate() {
        put(&mut out, format_args!("{}", paint(DIM, format_args!("part {}: {}", n + 1, one_line(part)))));
    }
    if let Some(caution) = &display.remarks.caution {
        put(&mut out, format_args!("{}", paint(BAD, format_args!("look closely: {}", one_line(caution)))));
    }
    put(&mut out, format_args!("{}", paint(DIM, "to allow:")));
    for offer in &permission.scopes {
        if let Some(words) = words(offer, &display, ask.agent.as_str()) {
            let scope = offer.scope.to_string();
            let typed = match (place, offer.scope) {
                (AnswerInput::Command, _) => format!("--scope {scope}"),
                (AnswerInput::Line, Scope::Once) => "allow".to_owned(),
                (AnswerInput::Line, Scope::Session | Scope::Always) => format!("allow {scope}"),
            };
            put(&mut out, format_args!("  {typed:<16} {}", paint(DIM, one_line(&words))));
        }
    }
    out
}

/// The input that it was allowed with instead.
pub fn edited(out: &mut String, input: &Map<String, Value>) {
    json(out, input);
}

/// What a scope means; none where it cannot be had.
fn words(offer: &ScopeOffer, display: &Display, agent: &str) -> Option<String> {
    match (offer.scope, offer.keeper()) {
        (Scope::Once, _) => Some("this time only".into()),
        (Scope::Session, Keeper::Hub) => display.remarks.grants.session.clone(),
        (Scope::Always, Keeper::Hub) => display.remarks.grants.always.clone(),
        (Scope::Session | Scope::Always, Keeper::Agent) => Some(format!(
            "by {agent}'s own rule: {}",
            offer.rule.as_deref().unwrap_or("it does not say which")
        )),
    }
}

fn shown(out: &mut String, display: &Display) {
    match (display.kind, &display.hunks) {
        (DisplayKind::Command, _) | (DisplayKind::Diff, None) => {
            for line in display.text.split('\n') {
                behind_bar(out, Style::new(), &visible(line));
            }
        }
        (DisplayKind::Json, _) => {
            for line in visible_json(&display.text).split('\n') {
                behind_bar(out, Style::new(), line);
            }
        }
        (DisplayKind::Diff, Some(hunks)) => {
            let file = display.file.as_deref().unwrap_or_default();
            put(out, format_args!("{} {}", paint(DIM, "file:"), one_line(file)));
            if display.before {
                let words = "unchanged and removed lines are what the agent's machine says";
                put(out, format_args!("{}", paint(DIM, words)));
            }
            for hunk in hunks {
                let lines = format!("@@ -{} +{} @@", hunk.old_start, hunk.new_start);
                behind_bar(out, DIM, &lines);
                for line in &hunk.lines {
                    let style = match line.chars().next() {
                        Some('+') => GOOD,
                        Some('-') => BAD,
                        _ => Style::new(),
                    };
                    behind_bar(out, style, &visible(line));
                }
            }
        }
    }
}

fn json(out: &mut String, fields: &Map<String, Value>) {
    let text = serde_json::to_string_pretty(fields).unwrap_or_default();
    for line in visible_json(&text).split('\n') {
        behind_bar(out, DIM, line);
    }
}

pub fn behind_bar(out: &mut String, style: Style, line: &str) {
    put(out, format_args!("{} {}", paint(DIM, "│"), paint(style, line)));
}

fn has_escapes_of_its_own(display: &Display) -> bool {
    let file = display.file.as_ref().is_some_and(|file| file.contains('\\'));
    let lines = || display.hunks.iter().flatten().flat_map(|hunk| &hunk.lines);
    match display.kind {
        DisplayKind::Json => false,
        DisplayKind::Command => looks_escaped(&display.text),
        DisplayKind::Diff => file || lines().any(|line| looks_escaped(line)),
    }
}
