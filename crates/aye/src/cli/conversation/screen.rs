//! What is on the terminal: what was said and done, above a last line that is drawn again and again. That line is
//! what the person types, or else what the agent is doing.

use super::Beginning;
use super::line::LineEditor;
use super::printer::Printer;
use super::typing::hint;
use crate::agents::driven::{RunEvent, Turn};
use crate::protocol::Resolution;
use crate::surfaces::terminal::style::{BAD, DIM, GOOD, HEAD, NAME, paint};
use crate::surfaces::terminal::{
    AnswerInput, about, answer_lines, body_text, how_to_answer, in_a_line, shorten,
};
use crate::surfaces::words;
use aye_core::visible::{one_line, visible};
use aye_core::{AskId, AskView, By, Decision, Receipt};
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal;
use std::time::Instant;

const SPINNER: [&str; 4] = ["·", "•", "●", "•"];
const MARK: &str = "> ";
/// How much of what a tool said is shown beside its failure.
const LONGEST_REASON: usize = 200;

/// What an agent says while a request is shown is printed after it, up to this many events.
const MOST_HELD: usize = 1_000;

/// Whether its words are the agent's rather than ours.
fn comes_from_agent(event: &RunEvent) -> bool {
    match event {
        RunEvent::Prompt(_)
        | RunEvent::Speaks { .. }
        | RunEvent::Said { .. }
        | RunEvent::Turn(_)
        | RunEvent::ToolStarted { .. }
        | RunEvent::ToolEnded { .. }
        | RunEvent::Decided { .. }
        | RunEvent::Trouble(_)
        | RunEvent::RefusedItself(_)
        | RunEvent::Ended { .. } => true,
        RunEvent::Asked(_)
        | RunEvent::AskEnded { .. }
        | RunEvent::Withdrawn { .. }
        | RunEvent::NotConfirmed { .. }
        | RunEvent::Works(_)
        | RunEvent::Hint(_) => false,
    }
}

/// Whether another request than before is shown now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskChange {
    Same,
    FirstAsk,
    AnotherAsk,
    NoAsk,
}

/// A tool call that has not returned.
struct RunningTool {
    /// The tool's name, and whose call it is.
    name: String,
    /// The command or file it is about.
    about: String,
    by_sub_agent: bool,
    /// Another call ran at the same time, so its name alone does not identify it.
    parallel: bool,
}

/// A text that is streamed until its end comes.
struct StreamedText {
    id: String,
    /// As much of it as is on the screen.
    printed: String,
    /// The cursor is at its end: no other line was printed since.
    at_cursor: bool,
}

pub struct Screen {
    printer: Printer,
    can_type: bool,
    /// A last line shows only where it can be taken back.
    moves: bool,
    /// Open asks in the order they came; the first is the one that is shown.
    asks: VecDeque<AskView>,
    /// Tool calls that run.
    tools: HashMap<String, RunningTool>,
    /// Prompts that are on the screen already.
    known_prompts: VecDeque<String>,
    /// The text that was streamed last.
    streamed: Option<StreamedText>,
    /// What the agent said and did while a request is shown. It could look like another request, so it waits.
    held: VecDeque<RunEvent>,
    /// There was more of that than is held, and some was printed below the request.
    covered: bool,
    /// The last line is drawn.
    drawn: bool,
    working: bool,
    since: Instant,
    ticks: usize,
}

impl Screen {
    pub fn new(mut printer: Printer, can_type: bool, beginning: Beginning) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        if can_type {
            // What is pasted comes between marks, so that its line breaks end no line.
            printer.control("\x1b[?2004h".into());
        }
        Self {
            printer,
            can_type,
            moves: std::io::stdout().is_terminal() && !dumb,
            asks: VecDeque::new(),
            tools: HashMap::new(),
            known_prompts: beginning.asked.into_iter().collect(),
            streamed: None,
            held: VecDeque::new(),
            covered: false,
            drawn: false,
            working: beginning.working,
            since: Instant::now(),
            ticks: 0,
        }
    }

    pub fn moves(&self) -> bool {
        self.moves
    }

    pub fn is_working(&self) -> bool {
        self.working
    }

    pub fn shown_ask(&self) -> Option<&AskView> {
        self.asks.front()
    }

    /// The person sends this prompt; when it comes back as an event, it is here already.
    pub fn asks(&mut self, prompt: &str) {
        self.echo(prompt);
        self.known_prompts.push_back(prompt.to_owned());
    }

    pub fn did_not_ask(&mut self, prompt: &str) {
        self.known_prompts.retain(|known| known != prompt);
    }

    /// What was typed, as it stays on the screen.
    pub fn echo(&mut self, line: &str) {
        self.line(&format!("{}{}", paint(NAME, MARK), visible(line)));
    }

    pub fn tell(&mut self, event: RunEvent) -> AskChange {
        if !self.asks.is_empty() && comes_from_agent(&event) {
            if self.held.len() < MOST_HELD {
                self.held.push_back(event);
                return AskChange::Same;
            }
            self.covered = true;
            self.release();
        }
        let before = self.asks.front().map(|ask| ask.id.clone());
        self.tell_one(event);
        let now = self.asks.front().map(|ask| ask.id.clone());
        if now == before {
            return AskChange::Same;
        }
        self.release();
        self.show_ask();
        match (before, now) {
            (None, _) => AskChange::FirstAsk,
            (Some(_), Some(_)) => AskChange::AnotherAsk,
            (Some(_), None) => AskChange::NoAsk,
        }
    }

    fn tell_one(&mut self, event: RunEvent) {
        match event {
            RunEvent::Prompt(text) => {
                self.working = true;
                self.since = Instant::now();
                match self.known_prompts.iter().position(|known| known.trim() == text.trim()) {
                    Some(known) => drop(self.known_prompts.remove(known)),
                    None => self.echo(&text),
                }
            }
            RunEvent::Speaks { id, delta } => self.speak(id, &delta),
            RunEvent::Said { id, text } => self.complete(&id, &text),
            RunEvent::Turn(turn) => {
                self.working = false;
                // Sub-agents go on after the turn.
                self.tools.retain(|_, tool| tool.by_sub_agent);
                self.line(&turn_words(&turn));
            }
            RunEvent::Asked(ask) => self.asks.push_back(*ask),
            RunEvent::AskEnded { ask, resolution } => {
                self.take(&ask);
                let words = outcome_words(&resolution);
                self.line(&format!("  {}  {}", paint(NAME, &ask), paint(DIM, words)));
            }
            RunEvent::Withdrawn { ask } => {
                self.take(&ask);
                self.line(&format!("  {}  {}", paint(NAME, &ask), paint(DIM, "The agent took it back.")));
            }
            RunEvent::ToolStarted { id, name, input, sub_agent } => {
                let by_sub_agent = sub_agent.is_some();
                let who = sub_agent.map(|who| format!(" ({})", one_line(&who))).unwrap_or_default();
                let name = format!("{}{who}", one_line(&name));
                let about = shorten(&in_a_line(&telling(&input)), 90);
                self.line(&format!("{} {name} {}", paint(NAME, "●"), paint(DIM, &about)));
                let parallel = !self.tools.is_empty();
                self.tools.values_mut().for_each(|running| running.parallel = true);
                self.tools.insert(id, RunningTool { name, about, by_sub_agent, parallel });
            }
            RunEvent::ToolEnded { id, failed, text, took, .. } => {
                if let Some(RunningTool { name, about, parallel, .. }) = self.tools.remove(&id) {
                    let about =
                        if parallel && !about.is_empty() { format!(" {about}") } else { String::new() };
                    let mark = if failed { paint(BAD, "✗") } else { paint(GOOD, "✓") };
                    let took = took.map(|took| format!(" {:.1}s", took.as_secs_f32())).unwrap_or_default();
                    let why = if failed { reason(&text) } else { String::new() };
                    self.line(&format!("{mark} {name}{}{why}", paint(DIM, about + &took)));
                }
            }
            RunEvent::Decided { tool, decision, rule } => {
                let by = aye_core::Text::try_from(rule).ok().map(|rule| words::by(&By::Rule { rule }));
                let words = format!("{} by {}", decision_words(decision), by.unwrap_or_default());
                self.line(&format!("  {}: {}", one_line(&tool), paint(DIM, one_line(&words))));
            }
            RunEvent::NotConfirmed { ask, receipt, evidence } => {
                self.line(&not_confirmed_words(&ask, receipt, &evidence))
            }
            RunEvent::Trouble(words) => self.line(&format!("{} {}", paint(BAD, "!"), in_a_line(&words))),
            RunEvent::RefusedItself(call) => {
                let about = shorten(&in_a_line(&telling(&call.input)), 90);
                let who =
                    call.sub_agent.as_deref().map(|who| format!(" ({})", one_line(who))).unwrap_or_default();
                let why = shorten(&in_a_line(&call.reason), LONGEST_REASON);
                let words = format!("Refused automatically: {}{who} {about}", one_line(&call.name));
                self.line(&format!("{} {words} {}", paint(BAD, "!"), paint(DIM, why)));
            }
            RunEvent::Works(works) => {
                if works && !self.working {
                    self.since = Instant::now();
                }
                self.working = works;
            }
            RunEvent::Hint(words) => self.line(&paint(DIM, words)),
            RunEvent::Ended { code: Some(0) } => {}
            RunEvent::Ended { code } => {
                let how = code.map_or("was killed".into(), |code| format!("ended with exit code {code}"));
                self.line(&format!("{} The agent {how}.", paint(BAD, "!")));
            }
        }
    }

    fn take(&mut self, id: &AskId) {
        self.asks.retain(|ask| ask.id != *id);
    }

    fn release(&mut self) {
        for event in std::mem::take(&mut self.held) {
            self.tell_one(event);
        }
    }

    /// Whether the agent printed something since the request was shown. It is then shown again, so that nobody answers
    /// one and reads another.
    pub fn uncovers(&mut self) -> bool {
        let covered = self.covered;
        if covered {
            self.show_ask();
        }
        covered
    }

    /// The whole ask, because it can be approved here.
    fn show_ask(&mut self) {
        self.covered = false;
        let Some(ask) = self.asks.front() else { return };
        let who = ask.sub_agent.as_ref().map(|who| format!(" · {}", one_line(who))).unwrap_or_default();
        let mut text = format!("{} {}{}\n", paint(HEAD, "?"), paint(NAME, &ask.id), paint(DIM, who));
        let place = if self.can_type { AnswerInput::Line } else { AnswerInput::Command };
        text += body_text(ask, place).trim_end();
        let how = match (self.can_type, ask.can.why_not()) {
            (true, None) => format!("{} Or elsewhere: aye answer {} …", hint(ask), ask.id),
            (false, _) | (_, Some(_)) => how_to_answer(ask),
        };
        text += &format!("\n{}", paint(DIM, how));
        self.line(&text);
    }

    fn speak(&mut self, id: String, delta: &str) {
        if self.streamed.as_ref().is_none_or(|text| text.id != id) {
            self.end_text();
            self.streamed = Some(StreamedText { id, printed: String::new(), at_cursor: true });
        }
        if let Some(text) = &mut self.streamed {
            text.printed += delta;
            text.at_cursor = true;
        }
        self.print(&visible(delta));
    }

    /// Prints what is missing of a text. It may have been streamed, and cut by another line since.
    fn complete(&mut self, id: &str, text: &str) {
        match self.streamed.take_if(|streamed| streamed.id == id) {
            Some(StreamedText { at_cursor: true, .. }) => self.print("\n"),
            Some(StreamedText { printed, .. }) => match text.strip_prefix(&printed) {
                Some(rest) if rest.trim().is_empty() => {}
                Some(rest) => self.line(&visible(rest)),
                None => self.line(&visible(text)),
            },
            None => self.line(&visible(text)),
        }
    }

    fn is_streaming(&self) -> bool {
        self.streamed.as_ref().is_some_and(|text| text.at_cursor)
    }

    fn end_text(&mut self) {
        if let Some(text) = self.streamed.as_mut().filter(|text| text.at_cursor) {
            text.at_cursor = false;
            self.print("\n");
        }
    }

    pub fn line(&mut self, text: &str) {
        self.end_text();
        self.print(&format!("{text}\n"));
    }

    fn print(&mut self, text: &str) {
        self.clear();
        self.printer.put(text);
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.printer.control("\r\x1b[2K".into());
        }
    }

    pub fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Draws the last line again.
    pub fn draw(&mut self, line: Option<&LineEditor>) {
        if !self.moves || self.is_streaming() {
            return;
        }
        self.clear();
        let columns = tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col.max(20)));
        let nothing_typed = line.is_none_or(LineEditor::is_empty);
        if nothing_typed && self.working && self.asks.is_empty() {
            let doing = self.tools.values().next().map_or("thinking", |tool| tool.name.as_str());
            let (mark, seconds) = (SPINNER[self.ticks % SPINNER.len()], self.since.elapsed().as_secs());
            let words = shorten(&format!("{mark} {doing} · {seconds}s"), columns - 1);
            self.printer.put(&paint(DIM, words));
            self.drawn = true;
        } else if let Some(line) = line {
            let (text, back) = line.shown(columns - MARK.len() - 1);
            self.printer.put(&format!("{}{text}", paint(NAME, MARK)));
            if back > 0 {
                self.printer.control(format!("\x1b[{back}D"));
            }
            self.drawn = true;
        }
    }

    pub fn end(&mut self) {
        self.release();
        self.end_text();
        self.clear();
        if self.can_type {
            self.printer.control("\x1b[?2004l".into());
        }
    }
}

/// What a tool call is about, as far as one line tells it; what must be decided is shown whole.
fn telling(input: &Value) -> String {
    // Its questions or its plan follow anyway.
    let follows = input["questions"].is_array() || input["plan"].is_string();
    input.as_object().filter(|_| !follows).map(about).unwrap_or_default()
}

/// Why a tool call failed, as far as a line has room.
fn reason(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = lines.join(" ");
    let plain =
        words.strip_prefix("<tool_use_error>").and_then(|words| words.strip_suffix("</tool_use_error>"));
    match plain.unwrap_or(&words) {
        "" => String::new(),
        words => format!(": {}", shorten(&one_line(words), LONGEST_REASON)),
    }
}

fn decision_words(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Deny => "denied",
        other => other.as_str(),
    }
}

/// What was decided, and by whom.
fn outcome_words(resolution: &Resolution) -> String {
    let mut outcome = match &resolution.outcome.answer {
        Some(answer) => answer_lines(answer).join(" · "),
        None => decision_words(resolution.outcome.decision).to_owned(),
    };
    if let Some(by) = &resolution.by {
        outcome += &format!(", by {}", words::by(by));
    }
    one_line(&outcome).into_owned()
}

fn not_confirmed_words(ask: &AskId, receipt: Receipt, evidence: &str) -> String {
    format!("{} {ask}: {}: {}", paint(BAD, "!"), words::receipt(receipt), one_line(evidence))
}

fn turn_words(turn: &Turn) -> String {
    let cost = turn.cost.map(|cost| format!(" · ${cost:.4}")).unwrap_or_default();
    let (read, written) =
        (turn.tokens.input + turn.tokens.cache_read + turn.tokens.cache_written, turn.tokens.output);
    let seconds = turn.duration_ms.unwrap_or(0) as f64 / 1000.0;
    let end = if turn.failed { "stopped" } else { "done" };
    let steps = turn.turns.unwrap_or(0);
    let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
    let figures =
        paint(DIM, format_args!("{end} · {steps} · {read} tokens in, {written} out · {seconds:.1}s{cost}"));
    match turn.text.as_deref().filter(|_| turn.failed).map(reason) {
        Some(why) if !why.is_empty() => {
            format!("{} The turn ended with an error{why}\n{figures}", paint(BAD, "!"))
        }
        _ => figures,
    }
}
