//! A run as one message that is edited while it goes: what it does, and in the end what it said and cost.

use super::html::{LONGEST, RichText, cut, label, length};
use crate::protocol::{ConversationEvent, Turn};
use crate::surfaces::words;
use aye_core::visible::visible;
use aye_core::{Agent, AgentState, AsksFor};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

const STEPS: usize = 5;
const STEP: usize = 70;
const TEXT: usize = 700;
/// Room for the words around the final text.
const FRAME: usize = 300;

/// What the events of a run add up to since the prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The number of the last event that is in here.
    pub seen: u64,
    steps: VecDeque<String>,
    count: usize,
    /// The text that streams now, by its name.
    text: BTreeMap<String, String>,
    last_text: Option<String>,
    trouble: Option<String>,
    pub end: Option<RunEnd>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    pub failed: bool,
    pub words: String,
    cost: Option<f64>,
    turns: Option<u64>,
    duration_ms: Option<u64>,
}

impl Progress {
    /// Takes in what came next. What comes after the end belongs to another message.
    pub fn add(&mut self, seq: u64, event: &Value) {
        if self.end.is_some() {
            return;
        }
        self.seen = seq;
        match ConversationEvent::read(event) {
            ConversationEvent::Text { id, text: Some(so_far), partial: true, .. } => {
                self.text.insert(id, so_far);
            }
            ConversationEvent::Text { text: Some(whole), .. } => {
                self.text.clear();
                self.last_text = Some(whole);
            }
            ConversationEvent::Tool { name, input, .. } => {
                self.count += 1;
                self.steps.push_back(step(&name, &input));
                if self.steps.len() > STEPS {
                    self.steps.pop_front();
                }
            }
            ConversationEvent::Trouble { text, .. } => self.trouble = Some(text),
            ConversationEvent::Turn { turn, .. } => self.end = Some(self.end_of(turn)),
            ConversationEvent::Ended { code } => {
                let failed = code.unwrap_or(0) != 0;
                self.end = Some(self.end_of(Turn { failed, ..Turn::default() }));
            }
            ConversationEvent::Text { .. }
            | ConversationEvent::Prompt { .. }
            | ConversationEvent::ToolResult { .. }
            | ConversationEvent::RefusedItself { .. }
            | ConversationEvent::Other => {}
        }
    }

    fn end_of(&self, turn: Turn) -> RunEnd {
        let Turn { failed, text, cost, turns, duration_ms, .. } = turn;
        let words = text.filter(|text| !text.is_empty()).or_else(|| self.said()).unwrap_or_default();
        RunEnd { failed, words, cost, turns, duration_ms }
    }

    fn said(&self) -> Option<String> {
        self.text.values().next_back().or(self.last_text.as_ref()).cloned()
    }
}

fn step(tool: &str, input: &Value) -> String {
    let fields = ["command", "file_path", "path", "pattern", "url", "description", "query"];
    let detail = fields.iter().find_map(|field| input[field].as_str()).unwrap_or_default();
    label(&format!("{tool} {detail}"), STEP)
}

/// The end of a run, as a separate message, because people wait for it.
pub struct RunResult {
    pub failed: bool,
    pub page: RichText,
    /// The whole text, where the message does not hold it.
    pub file: Option<String>,
}

/// None while it goes on.
pub fn result(agent: &Agent, name: &str, progress: &Progress, stopped_by: Option<&str>) -> Option<RunResult> {
    let died = RunEnd { failed: true, words: String::new(), cost: None, turns: None, duration_ms: None };
    let end = match &progress.end {
        Some(end) => end,
        None if agent.state == AgentState::Ended => &died,
        None => return None,
    };
    let (page, file) = finished(name, progress, end, stopped_by);
    Some(RunResult { failed: end.failed, page, file })
}

/// The same where Telegram accepts nothing of its text.
pub fn bare_result(agent: &Agent, name: &str) -> RichText {
    let page =
        RichText::default().bold(name).text(" has ended. Its result cannot be shown here. See it with: ");
    page.code(&format!("aye attach {}", agent.id))
}

/// Shows the steps of a run while it goes on.
pub fn progress_page(agent: &Agent, name: &str, progress: &Progress, stopped_by: Option<&str>) -> RichText {
    going(agent, name, progress, stopped_by)
}

/// Shows the steps of a run whose result is in a separate message.
pub fn closed_page(name: &str, progress: &Progress) -> RichText {
    let page = RichText::default().text("☑️ ").bold(name).text(" · the result is below");
    steps(page, progress)
}

fn steps(mut page: RichText, progress: &Progress) -> RichText {
    match progress.count - progress.steps.len() {
        0 => {}
        1 => page = page.line().dim("… 1 earlier step"),
        more => page = page.line().dim(&format!("… {more} earlier steps")),
    }
    for step in &progress.steps {
        page = page.line().text("· ").written(step);
    }
    page
}

fn going(agent: &Agent, name: &str, progress: &Progress, stopped_by: Option<&str>) -> RichText {
    // Between a prompt and the first sign of work it counts as idle.
    let state = match agent.state {
        AgentState::Idle => words::agent_state(AgentState::Working),
        state => words::agent_state(state),
    };
    let mark = if agent.state == AgentState::Ended { "⏹ " } else { "⏳ " };
    let page = with_mode(RichText::default().text(mark).bold(name).text(&format!(" · {state}")), agent);
    let mut page = steps(page, progress);
    if let Some(said) = progress.said().filter(|said| !said.trim().is_empty()) {
        page = page.line().line().rendered(&tail_of(&said));
    }
    if let Some(trouble) = &progress.trouble {
        page = page.line().line().text("⚠️ ").written(&label(trouble, TEXT));
    }
    match stopped_by {
        Some(who) => page.line().line().dim(&format!("Stopping… ({who})")),
        None => page,
    }
}

/// Adds a note on a mode that asks for less than people may think.
pub fn with_mode(page: RichText, agent: &Agent) -> RichText {
    match (agent.asks, words::asks(agent.asks)) {
        (AsksFor::Nothing, Some(words)) => page.text(&format!(" · ⚠️ {words}")),
        (_, Some(words)) => page.text(&format!(" · {words}")),
        (_, None) => page,
    }
}

/// The newest of a text that grows.
fn tail_of(text: &str) -> String {
    let text = text.trim();
    let units = length(text);
    if units <= TEXT {
        return text.to_owned();
    }
    let (start, _) = cut(text, units - TEXT);
    format!("…{}", &text[start.len()..])
}

fn finished(
    name: &str,
    progress: &Progress,
    end: &RunEnd,
    stopped_by: Option<&str>,
) -> (RichText, Option<String>) {
    let head = match (end.failed, stopped_by) {
        (true, Some(who)) => RichText::default().text("⏹ ").bold(name).text(" · stopped by ").text(who),
        (true, None) => RichText::default().text("⚠️ ").bold(name).text(" · failed"),
        (false, _) => RichText::default().text("✅ ").bold(name).text(" · done"),
    };
    let mut foot = RichText::default();
    let trouble = progress.trouble.as_ref().filter(|_| end.failed);
    if let Some(trouble) = trouble {
        foot = foot.line().text("⚠️ ").written(&label(trouble, FRAME / 2));
    }
    let figures = figures(progress, end);
    if !figures.is_empty() {
        foot = foot.line().dim(&figures);
    }
    let words = end.words.trim();
    let whole = head.clone().line().line().rendered(words).line().page(&foot);
    if words.is_empty() {
        return (head.page(&foot), None);
    }
    if whole.fits() {
        return (whole, None);
    }
    let (start, _) = cut(words, LONGEST - head.length() - foot.length() - FRAME);
    let page = head
        .line()
        .line()
        .rendered(&closed_fence(start))
        .text("…")
        .line()
        .dim("The full text is in the file below.")
        .page(&foot);
    (page.fitting(), Some(visible(words).into_owned()))
}

/// A text that was cut within a block of code, with an end to that block.
fn closed_fence(text: &str) -> String {
    let fences = text.lines().filter(|line| line.starts_with("```")).count();
    if fences.is_multiple_of(2) { text.to_owned() } else { format!("{}\n```\n", text.trim_end()) }
}

fn figures(progress: &Progress, end: &RunEnd) -> String {
    let plural = |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let figures = [
        end.cost.map(|cost| format!("${cost:.4}")),
        end.turns.map(|turns| plural(turns, "turn")),
        Some(plural(progress.count as u64, "step")).filter(|_| progress.count > 0),
        end.duration_ms.map(|ms| format!("{:.1} s", ms as f64 / 1000.0)),
    ];
    figures.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
