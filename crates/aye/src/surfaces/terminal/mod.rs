//! Asks as text on a terminal. What an agent says is shown, never obeyed.

pub mod notices;
mod permission;
pub mod style;

use super::words;
use anstyle::Style;
use aye_core::visible::{one_line, visible};
use aye_core::{
    Answer, AskState, AskView, Body, Can, Choice, Plan, PlanVerdict, Proof, Question, Receipt, Reply, Verdict,
};
use jiff::Timestamp;
pub use permission::about;
use style::{BAD, DIM, GOOD, HEAD, NAME, paint};

/// Where an answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerInput {
    /// By `aye answer`.
    Command,
    /// By a line typed under the request.
    Line,
}

/// A short line for lists, at most `width` characters; never the only thing shown where approving is possible.
pub fn summary(body: &Body, width: usize) -> String {
    let text = match body {
        Body::Question(questions) => {
            let more = questions.questions.len() - 1;
            let first = questions.questions.first().map_or("", |question| question.question.as_str());
            if more > 0 { format!("{first} (and {more} more)") } else { first.to_owned() }
        }
        Body::Permission(permission) => permission::summary(permission),
        Body::Plan(plan) => {
            plan.plan.as_str().lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
        }
    };
    shorten(&in_a_line(text.trim()), width)
}

pub fn shorten(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Several lines as one, for text that nobody approves by.
pub fn in_a_line(words: &str) -> String {
    one_line(&words.lines().map(str::trim).collect::<Vec<_>>().join(" ")).into_owned()
}

/// How long ago, in the largest unit that fits.
pub fn age(from: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(from).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The whole ask: exactly what an approval would be bound to, and how to answer. `name` is what its agent is called.
pub fn whole(ask: &AskView, name: Option<&str>, now: Timestamp) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let state = match ask.status.receipt {
        Some(receipt) => format!("{}, {}", ask.status.state.as_str(), receipt.as_str()),
        None => ask.status.state.as_str().to_owned(),
    };
    line(format!("{}  {} · {state} · {} ago", paint(NAME, &ask.id), ask.kind, age(ask.created_at, now)));
    let folder = match (ask.cwd.as_str(), ask.cwd_checked) {
        ("", _) => String::new(),
        (cwd, true) => format!(" in {}", one_line(cwd)),
        (cwd, false) => format!(" in {} (as the agent says)", one_line(cwd)),
    };
    let who = match &ask.sub_agent {
        Some(sub_agent) => format!("{} of {}", one_line(sub_agent), one_line(ask.agent.as_str())),
        None => one_line(ask.agent.as_str()).into_owned(),
    };
    let name = name.filter(|name| *name != ask.agent.as_str());
    let name = name.map(|name| format!(" “{}”", shorten(&in_a_line(name), 80))).unwrap_or_default();
    line(paint(DIM, format!("asked by {who}{name}{folder}")));
    if let Some(deadline) = ask.deadline.filter(|_| ask.status.state == AskState::Open) {
        let left = deadline.duration_since(now).as_secs().max(0);
        line(paint(BAD, format!("{left}s left, then the agent is told that nobody answered")));
    }
    line(String::new());
    line(body_text(ask, AnswerInput::Command).trim_end().to_owned());
    line(String::new());
    if ask.status.state == AskState::Open {
        line(paint(DIM, how_to_answer(ask)));
    } else {
        line(outcome(ask));
    }
    out
}

/// What is asked, whole.
pub fn body_text(ask: &AskView, place: AnswerInput) -> String {
    match &ask.body {
        Body::Question(questions) => {
            let several = questions.questions.len() > 1;
            let each = questions.questions.iter().enumerate();
            each.map(|(i, q)| question(q, &ask.can, i, several)).collect::<Vec<_>>().join("\n")
        }
        Body::Permission(permission) => permission::whole(ask, permission, place),
        Body::Plan(Plan { plan }) => {
            format!("{}\n\n{}", paint(HEAD, "Approve this plan?"), visible(plan.as_str()))
        }
    }
}

fn question(question: &Question, ask_can: &Can, index: usize, several: bool) -> String {
    let mut out = String::new();
    let (can, number) =
        (ask_can.for_question(index), if several { format!("{}. ", index + 1) } else { String::new() });
    let header = if question.header.is_empty() {
        String::new()
    } else {
        format!("  [{}]", one_line(&question.header))
    };
    let text = visible(&question.question);
    put(&mut out, format_args!("{number}{}{}", paint(HEAD, text), paint(DIM, header)));
    let widest =
        question.options.iter().map(|offer| one_line(&offer.label).chars().count()).max().unwrap_or(0);
    for (i, offer) in question.options.iter().enumerate() {
        let (number, label) = (paint(NAME, i + 1), one_line(&offer.label));
        match offer.description.is_empty() {
            true => put(&mut out, format_args!("  {number}  {label}")),
            false => {
                let description = paint(DIM, one_line(&offer.description));
                put(
                    &mut out,
                    format_args!("  {number}  {label:<width$}  {description}", width = widest.min(40)),
                );
            }
        }
        if let Some(preview) = &offer.preview {
            // Not `lines()`, which drops a carriage return.
            for line in preview.strip_suffix('\n').unwrap_or(preview).split('\n') {
                put(&mut out, format_args!("       {} {}", paint(DIM, "│"), visible(line)));
            }
        }
    }
    let hint = match (question.multi_select, question.free_text && can.text, question.options.is_empty()) {
        (_, true, true) => "in your own words",
        (true, true, false) => "any of these, and your own words",
        (true, false, _) => "any of these",
        (false, true, false) => "one of these, or your own words",
        (false, false, _) => "one of these",
    };
    let secret = if question.secret { "; a secret, which is not kept" } else { "" };
    // Where nothing can be skipped, the line below all questions offers no skipping.
    let skip = if several && ask_can.skip && !can.skip { "; cannot be skipped alone" } else { "" };
    put(&mut out, format_args!("  {}", paint(DIM, format_args!("{hint}{secret}{skip}"))));
    out
}

pub const TAKES_A_PASSKEY: &str = "Allowing it takes a passkey, on the page: aye open";

/// The commands that answer it.
pub fn how_to_answer(ask: &AskView) -> String {
    let (id, can) = (&ask.id, &ask.can);
    if let Some(why) = can.why_not() {
        return format!("It cannot be answered from here: {}", one_line(why));
    }
    let ends_turn = if can.deny_ends_turn { " (which ends the agent's turn)" } else { "" };
    let skip = if can.skip { format!("   or --skip{ends_turn}") } else { String::new() };
    let outline = if can.outline { "   or --outline" } else { "" };
    let deny = if can.reason { "--deny \"why\"" } else { "--deny" };
    let deny = format!("{deny}{ends_turn}");
    match &ask.body {
        // The command asks for it, so that it stands in no list of processes and no history.
        Body::Question(questions) if ask.body.has_secret() => {
            let picks = questions.questions.iter().map(|question| if question.secret { " -" } else { " 1" });
            let picks = if questions.questions.len() > 1 { picks.collect() } else { String::new() };
            format!("aye answer {id}{picks}   (it then asks for the secret){skip}")
        }
        Body::Question(questions) if ask.proof == Proof::Passkey => {
            let refusing = |question: &Question| question.options.iter().position(|offer| !offer.allows);
            let number =
                |question| refusing(question).map_or_else(|| " -".to_owned(), |i| format!(" {}", i + 1));
            let picks: String = questions.questions.iter().map(number).collect();
            format!("aye answer {id}{picks}{skip}   {TAKES_A_PASSKEY}")
        }
        Body::Question(questions) => match questions.questions.as_slice() {
            [only] if only.options.is_empty() => format!("aye answer {id} --text \"…\"{skip}"),
            [only] => {
                let picks = if only.multi_select { "1 2" } else { "1" };
                let text =
                    if only.free_text && can.for_question(0).text { "   or --text \"…\"" } else { "" };
                format!("aye answer {id} {picks}{text}{skip}")
            }
            several => {
                let picks = vec!["1"; several.len()].join(" ");
                let can_skip = (0..several.len()).any(|i| can.for_question(i).skip);
                let skips = if can_skip { " - skips one," } else { "" };
                let skip = if can_skip { "" } else { skip.as_str() };
                format!("aye answer {id} {picks}   (one for each question;{skips} 1,2 picks two){skip}")
            }
        },
        Body::Permission(_) if ask.proof == Proof::Passkey => {
            format!("aye answer {id} {deny}   {TAKES_A_PASSKEY}")
        }
        Body::Plan(_) if ask.proof == Proof::Passkey => {
            format!("aye answer {id} {deny}{outline}   {TAKES_A_PASSKEY}")
        }
        Body::Permission(_) => format!("aye answer {id} --allow   or {deny}"),
        Body::Plan(_) => {
            format!("aye answer {id} --allow   or {deny}{outline}")
        }
    }
}

fn outcome(ask: &AskView) -> String {
    let mut out = String::new();
    let by = ask.status.by.as_ref().map(|by| format!(" by {}", one_line(&words::by(by)))).unwrap_or_default();
    put(&mut out, format_args!("{}{by}", paint(HEAD, ask.status.state.as_str())));
    if let Some(answer) = &ask.status.answer {
        for line in answer_lines(answer) {
            put(&mut out, format_args!("  {}", visible(&line)));
        }
        edits(&mut out, answer);
    }
    if let Some(note) = &ask.status.note {
        put(&mut out, format_args!("  {}", paint(DIM, one_line(note))));
    }
    if let Some(receipt) = ask.status.receipt {
        put(&mut out, format_args!("  {}", receipt_words(receipt)));
    }
    out.trim_end().to_owned()
}

/// What was allowed instead of what was asked.
fn edits(out: &mut String, answer: &Answer) {
    match answer {
        Answer::Permission(Verdict::Allow { input: Some(input), .. }) => permission::edited(out, input),
        Answer::Plan(PlanVerdict::Allow { plan: Some(plan) }) => {
            for line in plan.as_str().split('\n') {
                permission::behind_bar(out, Style::new(), &visible(line));
            }
        }
        Answer::Permission(_) | Answer::Plan(_) | Answer::Question(_) => {}
    }
}

pub fn receipt_words(receipt: Receipt) -> String {
    let tone = match receipt {
        Receipt::Confirmed => GOOD,
        trouble if words::is_trouble(trouble) => BAD,
        _ => DIM,
    };
    paint(tone, words::receipt(receipt))
}

/// An answer as lines of plain words, free of any styling.
pub fn answer_lines(answer: &Answer) -> Vec<String> {
    match answer {
        Answer::Question(Reply::Each { answers }) => answers.iter().flat_map(choice_lines).collect(),
        Answer::Question(Reply::Response { response }) => vec![response.to_string()],
        Answer::Question(Reply::Skip { message, .. }) => {
            vec![message.as_ref().map_or("declined".into(), |why| format!("declined: {why}"))]
        }
        Answer::Permission(Verdict::Allow { scope, input }) => {
            let edited = if input.is_some() { ", with edited input" } else { "" };
            vec![format!("allowed ({scope}){edited}")]
        }
        Answer::Plan(PlanVerdict::Allow { plan }) => {
            vec![if plan.is_some() { "allowed, edited" } else { "allowed" }.into()]
        }
        Answer::Permission(Verdict::Deny { message, .. }) | Answer::Plan(PlanVerdict::Deny { message }) => {
            vec![message.as_ref().map_or("denied".into(), |why| format!("denied: {why}"))]
        }
        Answer::Plan(PlanVerdict::Outline) => vec!["paused: an outline first".into()],
    }
}

fn choice_lines(choice: &Choice) -> Vec<String> {
    match choice {
        Choice::Skipped { .. } | Choice::Secret { .. } => vec![choice.in_words()],
        Choice::Given { selected, text, notes: _ } => {
            selected.iter().cloned().chain(text.iter().map(ToString::to_string)).collect()
        }
    }
}

fn put(out: &mut String, line: std::fmt::Arguments) {
    *out += &format!("{line}\n");
}

#[cfg(test)]
mod tests;
