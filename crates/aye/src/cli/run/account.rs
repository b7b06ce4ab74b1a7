//! The account of a run in its own terminal: what the agent says and does as it goes, what it asks, and the
//! answers that are typed right there.

use super::keyboard::Keyboard;
use super::printer::Printer;
use super::typing::{Typed, hint, read};
use crate::agents::driven::{RunEvent, Turn};
use crate::client::Client;
use crate::protocol::{NewAnswer, Resolution, calls};
use crate::surfaces::terminal::style::{BAD, DIM, GOOD, HEAD, NAME, paint};
use crate::surfaces::terminal::{answer_lines, body_text, how_to_answer, shorten};
use aye_core::visible::{one_line, visible};
use aye_core::{AskId, AskView, Receipt};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

const TICK: Duration = Duration::from_millis(120);
const SPINNER: [&str; 4] = ["·", "•", "●", "•"];

/// Nobody looks on.
pub async fn pass_by(mut account: mpsc::Receiver<RunEvent>) {
    while account.recv().await.is_some() {}
}

pub async fn show(mut account: mpsc::Receiver<RunEvent>, person: Option<Client>, printer: Printer) {
    let keyboard = person.as_ref().and_then(|_| Keyboard::open());
    let mut screen = Screen::new(printer, keyboard.is_some(), std::io::stdout().is_terminal());
    let mut typing = keyboard.is_some();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let typed = async {
            match &keyboard {
                Some(keyboard) if typing => keyboard.line().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            told = account.recv() => {
                let Some(told) = told else { return screen.clear() };
                if screen.tell(told)
                    && let Some(keyboard) = &keyboard
                {
                    keyboard.forget();
                }
            }
            line = typed => match (line, &person) {
                (Ok(line), Some(person)) => answer(&mut screen, &line, person).await,
                _ => typing = false,
            },
            _ = ticks.tick(), if screen.moves => screen.tick(),
        }
    }
}

/// The line answers what is shown, by its digest, or nothing.
async fn answer(screen: &mut Screen, line: &str, person: &Client) {
    let Some(ask) = screen.asks.front() else {
        if !line.trim().is_empty() {
            screen.line(&paint(DIM, "Nothing is asked right now."));
        }
        return;
    };
    match read(line, ask) {
        Typed::Nothing => {}
        Typed::Unclear(words) => screen.line(&paint(DIM, words)),
        Typed::Answer(answer) => {
            let call = NewAnswer { answer, digest: ask.digest.clone(), key: None, assertion: None };
            if let Err(error) = person.call(&calls::ANSWER, ask.id.as_str(), &(), &call).await {
                screen.line(&format!("{} not recorded: {}", paint(BAD, "!"), one_line(&error.to_string())));
            }
        }
    }
}

struct Screen {
    printer: Printer,
    can_type: bool,
    /// A progress line shows only where it can be taken back.
    moves: bool,
    /// Open asks in the order they came; the first is the one that is shown.
    asks: VecDeque<AskView>,
    tools: HashMap<String, String>,
    /// The text that is being spoken, and that the cursor therefore stands in.
    speaking: Option<String>,
    progress: bool,
    working: bool,
    since: Instant,
    ticks: usize,
}

impl Screen {
    fn new(printer: Printer, can_type: bool, moves: bool) -> Self {
        Self {
            printer,
            can_type,
            moves,
            asks: VecDeque::new(),
            tools: HashMap::new(),
            speaking: None,
            progress: false,
            working: true,
            since: Instant::now(),
            ticks: 0,
        }
    }

    /// Shows it, and says whether another ask than before is now the one that is shown.
    fn tell(&mut self, told: RunEvent) -> bool {
        let shown = self.asks.front().map(|ask| ask.id.clone());
        match told {
            RunEvent::Prompt(_) => self.working = true,
            RunEvent::Speaks { id, delta } => self.speak(id, &delta),
            RunEvent::Said { id, text } => match self.speaking.take_if(|speaking| *speaking == id) {
                Some(_) => self.print("\n"),
                None => self.line(&visible(&text)),
            },
            RunEvent::Turn(result) => {
                self.working = false;
                self.line(&turn_words(result));
            }
            RunEvent::Asked(ask) => self.asks.push_back(*ask),
            RunEvent::AskEnded { ask, resolution } => {
                self.take(&ask);
                let words = outcome_words(&resolution);
                self.line(&format!("  {}  {}", paint(NAME, &ask), paint(DIM, words)));
            }
            RunEvent::Withdrawn { ask } => {
                self.take(&ask);
                self.line(&format!("  {}  {}", paint(NAME, &ask), paint(DIM, "withdrawn")));
            }
            RunEvent::ToolStarted { id, name, input, sub_agent } => {
                let who = sub_agent.map(|who| format!(" ({})", one_line(&who))).unwrap_or_default();
                let about = shorten(&one_line(&about(&input)), 90);
                self.line(&format!("{} {}{who} {}", paint(NAME, "●"), one_line(&name), paint(DIM, about)));
                self.tools.insert(id, name);
            }
            RunEvent::ToolEnded { id, failed, took, .. } => {
                if let Some(name) = self.tools.remove(&id) {
                    let mark = if failed { paint(BAD, "✗") } else { paint(GOOD, "✓") };
                    let took = took.map(|took| format!("{:.1}s", took.as_secs_f32())).unwrap_or_default();
                    self.line(&format!("{mark} {} {}", one_line(&name), paint(DIM, took)));
                }
            }
            RunEvent::Decided { tool, decision, rule } => {
                let words = format!("{} by the rule {rule}", decision.as_str());
                self.line(&format!("  {}: {}", one_line(&tool), paint(DIM, one_line(&words))));
            }
            RunEvent::Doubt { ask, receipt, evidence } => self.line(&doubt_words(&ask, receipt, &evidence)),
            RunEvent::Trouble(words) => self.line(&format!("{} {}", paint(BAD, "!"), one_line(&words))),
            RunEvent::Ended { code: Some(0) } => {}
            RunEvent::Ended { code } => {
                let how = code.map_or("was killed".into(), |code| format!("ended with exit code {code}"));
                self.line(&format!("{} the agent {how}", paint(BAD, "!")));
            }
        }
        let now = self.asks.front().map(|ask| ask.id.clone());
        let another = now != shown;
        if another {
            self.show_ask();
        }
        another
    }

    fn take(&mut self, id: &AskId) {
        self.asks.retain(|ask| ask.id != *id);
    }

    /// The whole ask, because it can be approved here.
    fn show_ask(&mut self) {
        let Some(ask) = self.asks.front() else { return };
        let who = ask.sub_agent.as_ref().map(|who| format!(" · {}", one_line(who))).unwrap_or_default();
        let mut text = format!("{} {}{}\n", paint(HEAD, "?"), paint(NAME, &ask.id), paint(DIM, who));
        text += body_text(ask).trim_end();
        if let Some(why) = ask.can.why_not() {
            let why = format!("It cannot be answered here: {}", one_line(why));
            text += &format!("\n{}", paint(DIM, why));
            return self.line(&text);
        }
        let here = if self.can_type { hint(ask) } else { how_to_answer(ask) };
        let elsewhere =
            if self.can_type { format!(" Or elsewhere: aye answer {} …", ask.id) } else { String::new() };
        text += &format!("\n{}", paint(DIM, format_args!("{here}{elsewhere}")));
        self.line(&text);
    }

    fn speak(&mut self, id: String, delta: &str) {
        if self.speaking.as_ref() != Some(&id) {
            self.end_text();
            self.speaking = Some(id);
        }
        self.print(&visible(delta));
    }

    fn end_text(&mut self) {
        if self.speaking.take().is_some() {
            self.print("\n");
        }
    }

    fn line(&mut self, text: &str) {
        self.end_text();
        self.print(&format!("{text}\n"));
    }

    fn print(&mut self, text: &str) {
        self.clear();
        self.printer.put(text);
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.progress) {
            self.printer.put("\r\x1b[2K");
        }
    }

    /// The progress line, only while the agent works and nothing is asked: whoever types must not be disturbed.
    fn tick(&mut self) {
        if !self.working || !self.asks.is_empty() || self.speaking.is_some() {
            return self.clear();
        }
        self.ticks += 1;
        let doing = self.tools.values().next().map_or("thinking".into(), |name| one_line(name).into_owned());
        let (mark, seconds) = (SPINNER[self.ticks % SPINNER.len()], self.since.elapsed().as_secs());
        self.printer.put(&format!(
            "\r\x1b[2K{}",
            paint(DIM, format_args!("{mark} {} · {seconds}s", shorten(&doing, 60)))
        ));
        self.progress = true;
    }
}

/// What a tool call is about, as far as one line tells it; what must be decided is shown whole.
fn about(input: &Value) -> String {
    let telling = ["command", "file_path", "path", "pattern", "url", "query", "description"];
    match telling.iter().find_map(|field| input[field].as_str()) {
        Some(words) => words.to_owned(),
        // Its questions or its plan follow anyway.
        None if input["questions"].is_array() || input["plan"].is_string() => String::new(),
        None => input.to_string(),
    }
}

/// What was decided, and by whom.
fn outcome_words(resolution: &Resolution) -> String {
    let mut words = match &resolution.outcome.answer {
        Some(answer) => answer_lines(answer).join(" · "),
        None => resolution.outcome.decision.as_str().to_owned(),
    };
    if let Some(by) = &resolution.by {
        words += &format!(", by {by}");
    }
    one_line(&words).into_owned()
}

fn doubt_words(ask: &AskId, receipt: Receipt, evidence: &str) -> String {
    format!("{} {ask} is {}: {}", paint(BAD, "!"), receipt.as_str(), one_line(evidence))
}

fn turn_words(turn: Turn) -> String {
    let cost = turn.cost.map(|cost| format!(" · ${cost:.4}")).unwrap_or_default();
    let (read, written) =
        (turn.tokens.input + turn.tokens.cache_read + turn.tokens.cache_written, turn.tokens.output);
    let seconds = turn.duration_ms.unwrap_or(0) as f64 / 1000.0;
    let end = if turn.failed { "the turn ended with an error" } else { "done" };
    let turns = turn.turns.unwrap_or(0);
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    paint(DIM, format_args!("{end} · {turns} · {read} tokens in, {written} out · {seconds:.1}s{cost}"))
}
