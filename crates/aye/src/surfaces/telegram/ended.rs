//! How an ask ended, as its message says for good: what was chosen, by whom, and whether it arrived.

use super::access::plain_name;
use super::actions::Action;
use super::html::{RichText, label};
use super::plan::{beginning, plan_text};
use super::render::{AskSource, MessageContent, button, guarded, origin, passkey_note};
use crate::hub::ALWAYS_DAYS;
use crate::surfaces::form::Draft;
use crate::surfaces::words;
use aye_core::{
    Answer, Ask, Body, By, Choice, Decision, Display, Extras, Keeper, Receipt, Reply, Scope, ScopeOffer,
    State, Surface, Verdict,
};

const QUESTION: usize = 300;
const WORDS: usize = 600;
const PLAN: usize = 1000;

/// The draft tells who filled in what, where several people did.
pub fn ended(ask: &Ask, asker: &AskSource, draft: &Draft) -> RichText {
    let page = match &ask.body {
        Body::Question(asked) => {
            let header = asked.questions.first().map_or("", |question| question.header.as_str());
            let page =
                RichText::default().text("❓ ").bold(if header.is_empty() { "Question" } else { header });
            questions(origin(page, ask, asker).line(), ask, draft)
        }
        Body::Permission(permission) => {
            let title = Display::of(permission, &Extras::default()).title;
            let page = RichText::default().text("🔐 ").bold_written(&label(&title, QUESTION));
            let page = origin(page, ask, asker).line();
            let compact = permission.compact();
            let page = page.pre(&compact.text);
            match &compact.left_out {
                Some(left_out) => page.line().dim(&format!("({left_out})")),
                None => page,
            }
        }
        Body::Plan(plan) => {
            let page = origin(RichText::default().text("📋 ").bold("A plan"), ask, asker).line();
            page.line().page(&beginning(plan.plan.as_str(), PLAN))
        }
    };
    outcome(page.line().line(), ask).fitting()
}

fn questions(mut page: RichText, ask: &Ask, draft: &Draft) -> RichText {
    let Body::Question(asked) = &ask.body else { return page };
    let choices = match ask.state.answer() {
        Some(Answer::Question(Reply::Each { answers })) => answers.as_slice(),
        _ => &[],
    };
    for (i, question) in asked.questions.iter().enumerate() {
        page = page.line().written(&label(&question.question, QUESTION));
        if let Some(choice) = choices.get(i) {
            page = page.line().text("→ ").bold_written(&label(&given(choice), WORDS));
            if let Some(who) = draft.entry(i).by.filter(|_| draft.is_shared()) {
                page = page.text(" ").dim(&format!("({})", plain_name(&who)));
            }
            if let Choice::Given { notes: Some(notes), .. } = choice {
                page = page.line().dim("Note: ").written(&label(notes.as_str(), WORDS));
            }
        }
    }
    page
}

fn outcome(page: RichText, ask: &Ask) -> RichText {
    let State::Answered { answer, by, .. } = &ask.state else {
        let why = ask.state.why_unanswered().unwrap_or(ask.state.name());
        return page.text("⌛ ").bold_written(&label(&words::sentence(why), WORDS));
    };
    let page = page.text(mark(answer)).bold(&decided(ask, answer)).text(&format!(" by {}", by_whom(by)));
    let page = match answer.message() {
        Some(words) => page.line().written(&label(words, WORDS)),
        None => page,
    };
    receipt(page, ask)
}

fn mark(answer: &Answer) -> &'static str {
    match answer.decision() {
        Decision::Allow | Decision::Answered => "✅ ",
        Decision::Outline => "⏸ ",
        Decision::Declined | Decision::Deny | Decision::Expired | Decision::Withdrawn => "⛔ ",
    }
}

fn receipt(page: RichText, ask: &Ask) -> RichText {
    let Some(receipt) = ask.state.receipt() else { return page };
    let mark = if words::is_trouble(receipt) { "⚠️ " } else { "" };
    let page = page.line().dim(&format!("{mark}{}", words::receipt(receipt)));
    match ask.state.note().filter(|_| receipt == Receipt::Disputed) {
        Some(note) => page.line().written(&label(note, WORDS)),
        None => page,
    }
}

/// The agent is told that a person skipped it; the person knows.
fn given(choice: &Choice) -> String {
    match choice {
        Choice::Skipped { .. } => "(skipped)".to_owned(),
        Choice::Given { .. } | Choice::Secret { .. } => choice.in_words(),
    }
}

/// A short word for whoever pressed.
pub fn in_short(ask: &Ask) -> String {
    let Some(answer) = ask.state.answer() else { return String::new() };
    let words = match answer {
        Answer::Question(Reply::Each { answers }) => {
            answers.iter().map(given).collect::<Vec<_>>().join(" · ")
        }
        Answer::Question(Reply::Response { response }) => response.to_string(),
        Answer::Question(Reply::Skip { .. }) | Answer::Permission(_) | Answer::Plan(_) => {
            decided(ask, answer)
        }
    };
    label(&words, 120)
}

/// The decision. An approval that the hub keeps for a while is called by its time.
fn decided(ask: &Ask, answer: &Answer) -> String {
    let (
        Body::Permission(permission),
        Answer::Permission(Verdict::Allow { scope: Scope::Always, input: None }),
    ) = (&ask.body, answer)
    else {
        return words::decided(answer);
    };
    match permission.offer(Scope::Always).map(ScopeOffer::keeper) {
        Some(Keeper::Hub) => format!("Allowed (for {ALWAYS_DAYS} days)"),
        Some(Keeper::Agent) | None => words::decided(answer),
    }
}

/// The person or rule that decided, without the number behind a name.
fn by_whom(by: &By) -> String {
    let said = words::by(by);
    match by {
        By::Person { name, surface: Surface::Telegram } => {
            said.replacen(name.as_str(), plain_name(name.as_str()), 1)
        }
        By::Person { .. } | By::Rule { .. } => said,
    }
}

/// Tells this person that the ask has ended.
pub fn too_late(ask: &Ask, who: &By) -> String {
    match (ask.state.answer(), ask.state.by()) {
        (Some(_), Some(by)) if by == who => label(&format!("You already answered: {}", in_short(ask)), 190),
        (Some(_), Some(by)) => label(&format!("Already decided by {}: {}", by_whom(by), in_short(ask)), 190),
        _ => label(&format!("Too late: {}.", ask.state.why_unanswered().unwrap_or("this has ended")), 190),
    }
}

/// A plan that was refused by itself while an outline is awaited. It may be let pass until the clock ends.
pub fn refused_plan(
    ask: &Ask,
    asker: &AskSource,
    seconds_left: Option<i64>,
    done: Option<&str>,
) -> MessageContent {
    let Body::Plan(plan) = &ask.body else { return MessageContent::default() };
    let head = |page: RichText| origin(page.text("📋 ").bold("A plan came before the outline"), ask, asker);
    let Some(left) = seconds_left.filter(|_| done.is_none()) else {
        let page =
            head(RichText::default()).line().line().page(&beginning(plan.plan.as_str(), PLAN)).line().line();
        let words = done.unwrap_or("Denied automatically. The time to approve it is over.");
        return MessageContent { page: page.bold(words).fitting(), ..MessageContent::default() };
    };
    let (parts, page, file) = plan_text(plan.plan.as_str(), head);
    let page = page.line().line().text(&format!(
        "Denied automatically, because you asked for an outline first. Approve it within {left} s, and the same plan \
         passes once when it comes again."
    ));
    let approve = file.is_none().then(|| button("✅ Approve plan", Action::PassPlan));
    let row = approve.into_iter().chain([button("⛔ Deny", Action::DropPlan)]).collect();
    let (page, wants_page) = (page.page(&passkey_note(ask, asker)), file.is_some());
    guarded(ask, MessageContent { parts, page, rows: vec![row], file, question: 0, wants_page })
}
