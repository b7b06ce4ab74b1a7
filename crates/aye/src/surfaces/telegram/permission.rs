//! Permissions: every byte of what would run, or no approval here.

use super::actions::Action;
use super::html::RichText;
use super::render::{
    AskSource, Button, MessageContent, button, passkey_note, too_long, typing_hint, waiting,
};
use crate::hub::ALWAYS_DAYS;
use crate::surfaces::form::Draft;
use aye_core::visible::{one_line, visible};
use aye_core::{Ask, Display, DisplayKind, Hunk, Keeper, Permission, Scope, ScopeOffer};

pub fn permission(ask: &Ask, permission: &Permission, draft: &Draft, asker: &AskSource) -> MessageContent {
    let display = Display::of(permission, &ask.extras);
    let head = waiting(title(permission, &display), ask, asker).line();
    let lasting = [Scope::Session, Scope::Always].map(|scope| rule(permission, &display, scope));
    let mut foot = RichText::default();
    for rule in lasting.iter().flatten() {
        foot = foot.line().page(rule);
    }
    if let Some(typing) = &draft.typing {
        foot = typing_hint(foot.line(), typing.what, asker.in_group);
    }
    let foot = foot.page(&passkey_note(ask, asker));
    let whole = head.clone().page(&what_runs(&display)).page(&foot);
    // A display from which the input cannot be read back would not show all of it.
    let shows_all = whole.fits() && display.rebuild(&permission.tool).as_ref() == Some(&permission.input);
    let (page, file) = match shows_all {
        true => (whole, None),
        false => {
            let page = too_long(head.line(), ask, "allowed").page(&foot);
            (page, Some(("permission.txt".to_owned(), whole_text(ask, permission, &display))))
        }
    };
    let mut rows = vec![vec![button("⛔ Deny", Action::Deny)]];
    if shows_all {
        if permission.offer(Scope::Once).is_some() {
            rows[0].insert(0, button("✅ Allow once", Action::AllowOnce));
        }
        rows.extend(Some(lasting_buttons(permission, &lasting)).filter(|row| !row.is_empty()));
    }
    rows.push(vec![match draft.typing {
        Some(_) => button("Cancel", Action::StopTyping),
        None => button("⛔ Deny with reason…", Action::DenyWhy),
    }]);
    MessageContent { page, rows, wants_page: file.is_some(), file, ..MessageContent::default() }
}

/// The hub's title, with the file or the tool in it marked as code. A tool that the title does not name comes after it:
/// an Edit and a MultiEdit can show the same change.
fn title(permission: &Permission, display: &Display) -> RichText {
    let page = RichText::default().text("🔐 ");
    let named = match display.kind {
        DisplayKind::Command => return page.bold(&display.title),
        DisplayKind::Diff => display.file.as_deref().unwrap_or_default(),
        DisplayKind::Json => &permission.tool,
    };
    let words = display.title.strip_suffix(&*one_line(named)).unwrap_or(&display.title).trim_end();
    let page = page.bold(words).text(" ").code(named);
    match display.kind == DisplayKind::Json || words == permission.tool {
        true => page,
        false => page.text(" · ").code(&permission.tool),
    }
}

fn lasting_buttons(permission: &Permission, [session, always]: &[Option<RichText>; 2]) -> Vec<Button> {
    let session = session.as_ref().map(|_| button("✅ Allow for session", Action::AllowSession));
    let always = always.as_ref().map(|_| {
        let keeper = permission.offer(Scope::Always).map(ScopeOffer::keeper);
        let words = match keeper {
            Some(Keeper::Hub) => format!("✅ Allow for {ALWAYS_DAYS} days"),
            Some(Keeper::Agent) | None => "✅ Always allow".to_owned(),
        };
        button(words, Action::AllowAlways)
    });
    session.into_iter().chain(always).collect()
}

/// Exactly what an approval that lasts would add: the agent's own rule, or what the hub would grant. None where it
/// cannot be had.
fn rule(permission: &Permission, display: &Display, scope: Scope) -> Option<RichText> {
    let offer = permission.offer(scope)?;
    let (words, granted) = match (scope, offer.keeper()) {
        (Scope::Once, _) => return None,
        (Scope::Session, _) => ("For the session".to_owned(), &display.remarks.grants.session),
        (Scope::Always, Keeper::Agent) => ("Always".to_owned(), &None),
        (Scope::Always, Keeper::Hub) => (format!("For {ALWAYS_DAYS} days"), &display.remarks.grants.always),
    };
    let page = RichText::default().text(&words).text(": ");
    match offer.keeper() {
        Keeper::Agent => Some(page.text("the agent's own rule: ").code(offer.rule.as_deref()?)),
        // Its time is said already.
        Keeper::Hub => granted.as_ref().map(|words| {
            let time = format!(", for {ALWAYS_DAYS} days");
            page.text(words.strip_suffix(&time).unwrap_or(words))
        }),
    }
}

/// The display and the rest of the input. What comes from the input is in code, our own words are not.
fn what_runs(display: &Display) -> RichText {
    let mut page = RichText::default();
    match (display.kind, &display.hunks) {
        (DisplayKind::Diff, Some(hunks)) => {
            for hunk in hunks {
                page = page.pre(&in_lines(hunk)).line();
            }
            if display.before {
                page = page.dim("Line numbers and context come from the agent's machine.").line();
            }
        }
        (DisplayKind::Json, _) => page = page.dim("Input, as JSON:").line().pre(&display.text).line(),
        (DisplayKind::Command, _) | (DisplayKind::Diff, None) => page = page.pre(&display.text).line(),
    }
    let parts = &display.remarks.parts;
    if !parts.is_empty() {
        page = page.dim(&format!("Runs {} commands:", parts.len())).line();
    }
    for (n, part) in parts.iter().enumerate() {
        page = page.text(&format!("{}. ", n + 1)).code(part).line();
    }
    if let Some(caution) = &display.remarks.caution {
        page = page.bold(&format!("⚠️ Look closely: {caution}")).line();
    }
    for (field, value) in &display.rest {
        page = page.code(field).text(": ").code(&value.to_string()).line();
    }
    page.legend()
}

/// A part of a diff, under the line that says where it is.
fn in_lines(hunk: &Hunk) -> String {
    let head = match (hunk.old_start, hunk.new_start) {
        (0, 0) => "@@".to_owned(),
        (old, new) => format!("@@ -{old} +{new} @@"),
    };
    std::iter::once(head).chain(hunk.lines.iter().cloned()).collect::<Vec<_>>().join("\n")
}

fn whole_text(ask: &Ask, permission: &Permission, display: &Display) -> String {
    let input = serde_json::to_string_pretty(&permission.input).unwrap_or_default();
    let text =
        format!("{} in {}\n\n{}\n\nThe whole input:\n{input}\n", permission.tool, ask.cwd, display.text);
    visible(&text).into_owned()
}
