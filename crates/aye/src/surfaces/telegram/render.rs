//! An ask and what is filled in of it, as a message with buttons. What cannot be shown whole cannot be
//! approved here.

use super::exact;
use super::form::{Action, Draft, Wanted};
use super::html::{LONGEST, Page, label, length, pieces};
use aye_core::visible::visible;
use aye_core::{Ask, Body, Display, DisplayKind, Keeper, Permission, Proof, Question, Scope};

/// Telegram shows no more buttons under one message.
const MOST_BUTTONS: usize = 90;
const LABEL: usize = 40;
/// What a person typed is shown back to them, but need not be whole: they know it.
const ECHO: usize = 200;
/// A plan in more messages than this comes as a file.
const MOST_PARTS: usize = 4;
/// Room for the words around a text that fills a message.
const FRAME: usize = 200;

/// What a message shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// Messages that go before it.
    pub parts: Vec<Page>,
    pub page: Page,
    pub buttons: Vec<(String, Action)>,
    /// The whole text, where a message does not hold it.
    pub file: Option<(String, String)>,
}

/// Who asks, in words for people.
#[derive(Debug, Clone, Default)]
pub struct Asker {
    pub name: String,
}

pub fn open(ask: &Ask, draft: &Draft, asker: &Asker) -> Shown {
    let shown = match &ask.body {
        Body::Question(asked) => {
            let at = draft.at.min(asked.questions.len() - 1);
            question(ask, &asked.questions[at], at, asked.questions.len(), draft, asker)
        }
        Body::Permission(permission) => self::permission(ask, permission, draft, asker),
        Body::Plan(plan) => self::plan(ask, plan.plan.as_str(), draft, asker),
    };
    guarded(on_the_page(ask, shown))
}

/// What takes a passkey can be refused here, and allowed only on the page.
pub fn on_the_page(ask: &Ask, mut shown: Shown) -> Shown {
    if ask.proof == Proof::Passkey {
        shown.buttons.retain(|(_, action)| !approves(action));
        shown.page = shown.page.line().line().text("🔑 Allowing it takes a passkey: open it on the page.");
    }
    shown
}

/// Whatever else went wrong above: what does not fit is not approved.
pub fn guarded(mut shown: Shown) -> Shown {
    if !shown.page.fits() {
        shown.page = shown.page.fitting();
        shown.buttons.retain(|(_, action)| !approves(action));
    }
    shown
}

fn approves(action: &Action) -> bool {
    matches!(action, Action::AllowOnce | Action::AllowSession | Action::Approve | Action::PassPlan)
}

/// The line under the title: who asks, and where.
pub fn whence(page: Page, ask: &Ask, asker: &Asker) -> Page {
    let mut words = if asker.name.is_empty() { ask.agent.to_string() } else { asker.name.clone() };
    words = label(&words, ECHO);
    if !ask.cwd.is_empty() {
        words += &format!(" in {}", ask.cwd);
    }
    page.line().dim(&words)
}

fn question(ask: &Ask, asked: &Question, at: usize, of: usize, draft: &Draft, asker: &Asker) -> Shown {
    let entry = draft.entry(at);
    let mut head =
        Page::default().text("❓ ").bold(if asked.header.is_empty() { "Question" } else { &asked.header });
    if of > 1 {
        head = head.text(&format!("  {} of {of}", at + 1));
    }
    let head = whence(head, ask, asker).line().line();
    let tail = tail(Page::default(), draft, asked, &entry);
    let whole = head.clone().page(&options(asked, true)).page(&tail);
    let short =
        head.clone().page(&options(asked, false)).page(&tail).line().dim("All of it is in the file below.");
    let file = || Some((format!("question-{}.txt", at + 1), options(asked, true).plain().to_owned()));
    let (page, file, pickable) = match (whole.fits(), short.fits()) {
        (true, _) => (whole, None, true),
        (false, true) => (short, file(), true),
        (false, false) => {
            let page = head.text("This question is too long for Telegram. All of it is in the file below; answer it on the page or with ");
            (page.code(&format!("aye show {}", ask.id)).page(&tail), file(), false)
        }
    };
    let pickable = pickable && asked.options.len() <= MOST_BUTTONS;
    Shown { page, file, buttons: question_buttons(asked, at, draft, pickable), ..Shown::default() }
}

fn options(asked: &Question, previews: bool) -> Page {
    let mut page = Page::default().text(&asked.question).line();
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

fn tail(mut page: Page, draft: &Draft, asked: &Question, entry: &super::form::Entry) -> Page {
    if let Some(text) = &entry.text {
        page = page.line().dim("in your words: ").text(&label(text, ECHO)).line();
    }
    if let Some(notes) = &entry.notes {
        page = page.line().dim("note: ").text(&label(notes, ECHO)).line();
    }
    match (&draft.typing, asked.multi_select) {
        (Some(typing), _) => typing_hint(page, typing.what),
        (None, true) => page.line().dim("Tap all that apply, then Done."),
        (None, false) if asked.options.is_empty() => {
            page.line().dim("Reply to this message with your answer.")
        }
        (None, false) => page,
    }
}

fn typing_hint(page: Page, what: Wanted) -> Page {
    page.line().bold(match what {
        Wanted::Words => "✍️ Send your answer as your next message.",
        Wanted::Notes => "✍️ Send your note as your next message.",
        Wanted::Reason => "✍️ Send the reason as your next message.",
    })
}

fn question_buttons(asked: &Question, at: usize, draft: &Draft, pickable: bool) -> Vec<(String, Action)> {
    let entry = draft.entry(at);
    let mut buttons = Vec::new();
    let offers = asked.options.iter().enumerate().filter(|_| pickable);
    for (i, offer) in offers {
        let picked = entry.picks.contains(&i);
        let name = label(&offer.label, LABEL);
        buttons.push(match (asked.multi_select, picked) {
            (true, true) => (format!("☑ {name}"), Action::Toggle { question: at, option: i }),
            (true, false) => (format!("☐ {name}"), Action::Toggle { question: at, option: i }),
            (false, true) => (format!("✓ {name}"), Action::Pick { question: at, option: i }),
            (false, false) => (name, Action::Pick { question: at, option: i }),
        });
    }
    if asked.multi_select {
        buttons.push(("Done".into(), Action::Done { question: at }));
    }
    if draft.typing.is_some() {
        buttons.push(("Cancel".into(), Action::StopTyping));
    } else {
        if asked.free_text {
            let name = if asked.options.is_empty() { "✍️ Answer" } else { "Other…" };
            buttons.push((name.into(), Action::Words { question: at }));
        }
        let name = if entry.notes.is_some() { "Change note…" } else { "Add note…" };
        buttons.push((name.into(), Action::Notes { question: at }));
        buttons.push(("Skip".into(), Action::Skip { question: at }));
    }
    if at > 0 {
        buttons.push(("‹ Back".into(), Action::Back { question: at }));
    }
    buttons
}

fn permission(ask: &Ask, permission: &Permission, draft: &Draft, asker: &Asker) -> Shown {
    let head = Page::default().text("🔐 May ").bold(&permission.tool).text(" run?");
    let head = whence(head, ask, asker).line();
    let display = Display::of(permission, &ask.extras);
    let rule = session_rule(permission, &display);
    let mut foot = Page::default();
    if let Some(rule) = &rule {
        foot = foot.line().text("For the session: ").text(rule);
    }
    if let Some(typing) = &draft.typing {
        foot = typing_hint(foot.line(), typing.what);
    }
    let whole = head.clone().page(&what_runs(&display)).page(&foot);
    let mut buttons = Vec::new();
    let (page, file) = if whole.fits() {
        buttons.push(("✅ Allow once".to_owned(), Action::AllowOnce));
        if rule.is_some() {
            buttons.push(("✅ Allow for session".to_owned(), Action::AllowSession));
        }
        (whole, None)
    } else {
        let page = head.line().text("Too long to be shown whole here, so it cannot be allowed here. All of it is in the file below; allow it on the page or with ");
        let page = page.code(&format!("aye answer {} --allow", ask.id)).page(&foot);
        (page, Some(("permission.txt".to_owned(), whole_text(ask, permission, &display))))
    };
    buttons.extend(refusals(draft));
    let buttons = buttons.into_iter().filter(|(_, action)| permission_offers(permission, action)).collect();
    Shown { page, buttons, file, ..Shown::default() }
}

fn permission_offers(permission: &Permission, action: &Action) -> bool {
    *action != Action::AllowOnce || permission.offer(Scope::Once).is_some()
}

/// Exactly what "for the session" would add.
fn session_rule(permission: &Permission, display: &Display) -> Option<String> {
    let offer = permission.offer(Scope::Session)?;
    match offer.keeper() {
        Keeper::Agent => Some(format!("the agent's own rule: {}", offer.rule.as_deref().unwrap_or_default())),
        Keeper::Hub => display.grants.session.clone(),
    }
}

/// The display, and what of the input it does not show.
fn what_runs(display: &Display) -> Page {
    // A diff ends with a line break of its own.
    let text = match display.kind {
        DisplayKind::Diff => display.text.strip_suffix('\n').unwrap_or(&display.text),
        DisplayKind::Command | DisplayKind::Json => &display.text,
    };
    let mut page = Page::default().pre(text).line();
    for (n, part) in display.parts.iter().enumerate() {
        page = page.dim(&format!("part {}: ", n + 1)).code(part).line();
    }
    if let Some(caution) = &display.caution {
        page = page.bold(&format!("⚠️ look closely: {caution}")).line();
    }
    for (field, value) in &display.rest {
        page = page.code(field).text(": ").code(&value.to_string()).line();
    }
    page.legend()
}

fn whole_text(ask: &Ask, permission: &Permission, display: &Display) -> String {
    let input = serde_json::to_string_pretty(&permission.input).unwrap_or_default();
    let text =
        format!("{} in {}\n\n{}\n\nThe whole input:\n{input}\n", permission.tool, ask.cwd, display.text);
    visible(&text).into_owned()
}

fn refusals(draft: &Draft) -> Vec<(String, Action)> {
    let mut buttons = vec![("⛔ Deny".to_owned(), Action::Deny)];
    buttons.push(match draft.typing {
        Some(_) => ("Cancel".to_owned(), Action::StopTyping),
        None => ("⛔ Deny with reason…".to_owned(), Action::DenyWhy),
    });
    buttons
}

fn plan(ask: &Ask, plan: &str, draft: &Draft, asker: &Asker) -> Shown {
    let (parts, mut page, file) =
        plan_text(plan, |page| whence(page.text("📋 ").bold("A plan to approve"), ask, asker));
    let mut buttons = Vec::new();
    match file {
        None => buttons.push(("✅ Approve".to_owned(), Action::Approve)),
        Some(_) => {
            page = page.line().text("Too long to be shown here, so it cannot be approved here. All of it is in the file below; approve it on the page or with ");
            page = page.code(&format!("aye answer {} --allow", ask.id));
        }
    }
    match &draft.typing {
        Some(typing) => {
            page = typing_hint(page.line(), typing.what);
            buttons.push(("Cancel".to_owned(), Action::StopTyping));
        }
        None => {
            buttons.push(("⛔ Refuse with feedback…".to_owned(), Action::DenyWhy));
            buttons.push(("⏸ Pause and outline".to_owned(), Action::Outline));
        }
    }
    Shown { parts, page, buttons, file }
}

/// A plan in one message, in several before it, or as a file. Something of ours stands after it, because Telegram
/// trims the end of a message.
pub fn plan_text(plan: &str, head: impl Fn(Page) -> Page) -> (Vec<Page>, Page, Option<(String, String)>) {
    let shown = exact::prose(plan);
    if length(&shown) <= LONGEST - 2 * FRAME {
        let page = head(Page::default()).line().line().written(&shown).line().line();
        return (vec![], page.dim("End of the plan."), None);
    }
    let cut = pieces(&shown, LONGEST - FRAME);
    if cut.len() > MOST_PARTS {
        return (vec![], head(Page::default()), Some(("plan.md".to_owned(), visible(plan).into_owned())));
    }
    let of = cut.len();
    let part = |(i, piece): (usize, &&str)| {
        let page = Page::default().dim(&format!("Plan, part {} of {of}", i + 1)).line().line().written(piece);
        page.line().line().dim(if i + 1 < of { "It goes on below." } else { "End of the plan." })
    };
    (
        cut.iter().enumerate().map(part).collect(),
        head(Page::default()).line().text("The plan stands above."),
        None,
    )
}
