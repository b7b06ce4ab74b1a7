//! A run of Claude Code without its terminal: the process, its pipes, and the hub on the other side.
//! The pipes are ours, so the hub may come and go while the agent waits.

use super::activity::Rest;
use super::courier::{self, Raising, Report};
use super::drive::{Driver, Effect, Event};
use super::process::{self, Agent, AgentProcess, Input, Start};
use super::told::Told;
use crate::agents::lines::{LONGEST, Line, next_line};
use crate::agents::{before, host};
use crate::client::{AgentClient, Try};
use crate::config::{AsksBy, Stdin};
use crate::home::Home;
use crate::protocol::{Image, NewAsk, Registration};
use crate::shutdown::Signals;
use anyhow::Context;
use aye_core::{AgentId, AskId, Reach, Receipt, Text};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::BufReader;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

const QUEUE: usize = 256;
/// One line of the agent may ask several things.
const ROOM: usize = QUEUE / 2;
/// Lines of the agent that nobody has looked at; each may be long.
const UNREAD: usize = 4;
/// How long the output of an agent that has ended is still read.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LONGEST_TITLE: usize = 200;
const LONGEST_COMPLAINT: usize = 16 * 1024;
/// Lines that the agent has not read; it may well write for a while before it reads.
const MOST_LINES: usize = 4096;
/// How long the agent, and then the hub, may take at the end before we leave what we know unsaid.
const LONGEST_GOODBYE: Duration = Duration::from_secs(10);
/// How long an agent may take to go on by itself.
const LINGER: Duration = Duration::from_secs(5);
/// Words of a text that streams in go to the hub together.
const BREATH: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Run {
    pub id: AgentId,
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub cwd: PathBuf,
    pub prompt: String,
    /// A picture that belongs to the prompt.
    pub image: Option<Image>,
    pub mode: Option<String>,
    pub resume: Option<String>,
    pub stdin: Stdin,
    pub asks_by: AsksBy,
    /// Wait for further prompts when there is nothing left to do.
    pub stays: bool,
}

/// A line for the agent, and the ask whose outcome it carries.
struct Outgoing {
    line: String,
    /// And whether a person waits to see it delivered.
    delivers: Option<(AskId, bool)>,
}

/// A run whose agent has been started and whom the hub knows.
pub struct Running {
    desk: Desk,
    events: mpsc::Sender<Event>,
    incoming: mpsc::Receiver<Event>,
    lines: mpsc::Receiver<Event>,
    complaints: mpsc::Receiver<Event>,
    tasks: JoinSet<()>,
    reporter: JoinSet<()>,
    process: AgentProcess,
    stays: bool,
    prompt: (String, Option<Image>),
}

struct Desk {
    agent: AgentId,
    cwd: String,
    driver: Driver,
    /// None once the agent's input is closed.
    outgoing: Option<mpsc::Sender<Outgoing>>,
    asks: mpsc::Sender<Raising>,
    reports: mpsc::Sender<Report>,
    told: mpsc::Sender<Told>,
    /// Cancelled when the person will not wait any longer, neither for the hub.
    quit: CancellationToken,
    /// When each tool that runs was started.
    tools: HashMap<String, Instant>,
    /// What was said since the hub was last told, and when it will be.
    breath: Option<(Instant, String, String)>,
}

/// Starts the agent and registers it. `told` gets the account of the run as it goes.
pub async fn start(home: &Home, run: Run, told: mpsc::Sender<Told>) -> anyhow::Result<Running> {
    let client = AgentClient::of(home, run.id.clone()).await?;
    let ourselves = std::env::current_exe().context("cannot find this program itself")?;
    let start = Start {
        ourselves: &ourselves,
        program: &run.program,
        arguments: &run.arguments,
        cwd: &run.cwd,
        mode: run.mode.as_deref(),
        resume: run.resume.as_deref(),
        stdin: run.stdin,
    };
    let Agent { process, input, output, errors } = process::spawn(&start)?;
    let profile = Registration {
        kind: Some(Text::try_from(run.kind).map_err(anyhow::Error::msg)?),
        reach: Some(Reach::Driven),
        host: Some(host()),
        cwd: Some(run.cwd.to_string_lossy().into_owned()),
        title: Some(title(&run.prompt)),
        pid: process.id(),
        ..Registration::state(aye_core::Report::Working)
    };
    client.register(&profile, Try::Once).await?;

    let (events, incoming) = mpsc::channel(QUEUE);
    let (from_agent, lines) = mpsc::channel(UNREAD);
    let (outgoing, to_agent) = mpsc::channel(MOST_LINES);
    let (asks, to_raise) = mpsc::channel(QUEUE);
    let (mut tasks, mut reporter) = (JoinSet::new(), JoinSet::new());
    let reports = courier::reports(client.another(), &mut reporter);
    tasks.spawn(read_agent(output, from_agent));
    let (complain, complaints) = mpsc::channel(UNREAD);
    tasks.spawn(read_errors(errors, complain));
    tasks.spawn(write_agent(input, to_agent, reports.clone()));
    tasks.spawn(courier::take_commands(home.clone(), client.another(), events.clone()));
    tasks.spawn(courier::raise_asks(client, to_raise, events.clone()));
    let desk = Desk {
        cwd: run.cwd.to_string_lossy().into_owned(),
        driver: Driver::new(run.cwd, home.places(), run.id.to_string(), run.asks_by),
        agent: run.id,
        outgoing: Some(outgoing),
        asks,
        reports,
        told,
        quit: CancellationToken::new(),
        tools: HashMap::new(),
        breath: None,
    };
    Ok(Running {
        desk,
        events,
        incoming,
        lines,
        complaints,
        tasks,
        reporter,
        process,
        stays: run.stays,
        prompt: (run.prompt, run.image),
    })
}

impl Running {
    /// Goes on until there is nothing left to do, somebody stops it, or the agent ends.
    pub async fn to_its_end(mut self, signals: Signals) -> anyhow::Result<ExitStatus> {
        let quit = self.desk.quit.clone();
        self.tasks.spawn(heed(signals, self.events.clone(), quit.clone()));
        let (prompt, image) = &self.prompt;
        let begin = self.desk.driver.begin(prompt, image.as_ref());
        let mut over = self.desk.carry_out(begin).await;
        let (mut lingering, mut last_words, asks) = (None, None, self.desk.asks.clone());
        while !over {
            let event = tokio::select! {
                event = self.incoming.recv() => event.unwrap_or(Event::Closed),
                // An agent that asks faster than the hub records is not read until there is room again.
                line = self.lines.recv(), if asks.capacity() >= ROOM => line.unwrap_or(Event::Closed),
                room = asks.reserve_many(ROOM), if asks.capacity() < ROOM => {
                    drop(room);
                    continue;
                }
                // Something it started may hold its output open for ever.
                _ = self.process.wait(), if last_words.is_none() => {
                    last_words = Some(Instant::now() + LAST_WORDS);
                    continue;
                }
                () = due(last_words) => Event::Closed,
                Some(complaint) = self.complaints.recv() => complaint,
                () = quit.cancelled() => Event::Stop,
                () = due(self.desk.breath.as_ref().map(|(when, _, _)| *when)) => {
                    self.desk.breathe().await;
                    continue;
                }
                () = due(lingering) => break,
            };
            let closed = matches!(event, Event::Closed);
            let effects = self.desk.driver.handle(event);
            over = self.desk.carry_out(effects).await || closed;
            lingering = match self.desk.driver.rest() {
                Rest::Lingering if !self.stays => lingering.or_else(|| Some(Instant::now() + LINGER)),
                Rest::Lingering | Rest::Working => None,
                Rest::Idle => {
                    over |= !self.stays;
                    None
                }
            };
        }
        let Self { desk, lines, complaints, tasks, reporter, process, .. } = self;
        desk.end((lines, complaints), tasks, reporter, process).await
    }
}

/// The first Ctrl-C interrupts the turn; the second, or any other signal, ends the run.
async fn heed(mut signals: Signals, events: mpsc::Sender<Event>, quit: CancellationToken) {
    if signals.wait().await == "interrupted" {
        tokio::select! {
            _ = events.send(Event::Interrupt) => drop(signals.wait().await),
            _ = signals.wait() => {}
        }
    }
    quit.cancel();
}

async fn due(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

impl Desk {
    /// Does what follows, and says whether the run is over.
    async fn carry_out(&mut self, effects: Vec<Effect>) -> bool {
        let mut over = false;
        for effect in effects {
            over |= self.carry_out_one(effect).await;
        }
        over
    }

    async fn carry_out_one(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Write(line) => return self.write(line, None).await,
            Effect::Deliver { ask, line, awaited } => return self.write(line, Some((ask, awaited))).await,
            Effect::Raise { request, key, body, tool_use_id, sub_agent } => {
                let before = before::of(&body, self.driver.cwd());
                let ask = NewAsk {
                    cwd: Some(self.cwd.clone()),
                    tool_use_id,
                    sub_agent,
                    ..NewAsk::new(key, self.agent.clone(), &body).with_before(before)
                };
                if let Err(error) = self.asks.try_send(Raising { request, body, ask }) {
                    let (TrySendError::Full(Raising { request, .. })
                    | TrySendError::Closed(Raising { request, .. })) = error;
                    let why = "too many asks at once".to_owned();
                    let effects = self.driver.handle(Event::NotRaised { request, why });
                    return Box::pin(self.carry_out(effects)).await;
                }
            }
            Effect::Withdraw { ask, why } => {
                self.breathe().await;
                self.report(Report::Withdraw { ask, why }).await;
            }
            Effect::Receipt { ask, receipt, evidence } => {
                self.breathe().await;
                self.report(Report::Receipt { ask, receipt, evidence, awaited: false }).await;
            }
            Effect::Register(what) => {
                self.breathe().await;
                self.report(Report::Register(what)).await;
            }
            Effect::Tell(told) => self.tell(told).await,
            Effect::End => return true,
        }
        false
    }

    /// An agent that reads nothing while thousands of lines wait for it is beyond help.
    async fn write(&mut self, line: String, delivers: Option<(AskId, bool)>) -> bool {
        let Some(outgoing) = &self.outgoing else { return false };
        let full = outgoing.try_send(Outgoing { line, delivers }).is_err();
        if full {
            self.tell(Told::Trouble("The agent no longer reads what it is told, so the run ends.".into()))
                .await;
        }
        full
    }

    async fn tell(&mut self, told: Told) {
        let told = self.timed(told);
        match &told {
            Told::Speaks { id, delta } => match &mut self.breath {
                Some((_, speaking, words)) if speaking == id => words.push_str(delta),
                _ => {
                    self.breathe().await;
                    self.breath = Some((Instant::now() + BREATH, id.clone(), delta.clone()));
                }
            },
            other => {
                self.breathe().await;
                if let Some(event) = other.event() {
                    self.report(Report::Event(event)).await;
                }
            }
        }
        tokio::select! {
            biased;
            // Nobody looking on is not an error.
            sent = self.told.send(told) => drop(sent),
            () = self.quit.cancelled() => {}
        }
    }

    async fn report(&self, report: Report) {
        tokio::select! {
            biased;
            // The reporter outlives everything that reports.
            sent = self.reports.send(report) => drop(sent),
            () = self.quit.cancelled() => {}
        }
    }

    /// Tells the hub what was said meanwhile.
    async fn breathe(&mut self) {
        if let Some((_, id, delta)) = self.breath.take()
            && let Some(event) = (Told::Speaks { id, delta }).event()
        {
            self.report(Report::Event(event)).await;
        }
    }

    fn timed(&mut self, told: Told) -> Told {
        match told {
            Told::ToolStarted { ref id, .. } => {
                self.tools.insert(id.clone(), Instant::now());
                told
            }
            Told::ToolEnded { id, failed, text, images, took: _ } => {
                let took = self.tools.remove(&id).map(|since| since.elapsed());
                Told::ToolEnded { id, failed, text, images, took }
            }
            other => other,
        }
    }

    /// Closes the agent's input, waits for it, and says the last things to the hub.
    async fn end(
        mut self,
        (mut lines, mut complaints): (mpsc::Receiver<Event>, mpsc::Receiver<Event>),
        mut tasks: JoinSet<()>,
        mut reporter: JoinSet<()>,
        mut process: AgentProcess,
    ) -> anyhow::Result<ExitStatus> {
        let closing = self.driver.handle(Event::Closing);
        self.carry_out(closing).await;
        self.outgoing = None;
        let goodbye = async {
            let mut last_words = None;
            loop {
                // What it says now may still show that it took an answer.
                let event = tokio::select! {
                    event = lines.recv() => event,
                    Some(complaint) = complaints.recv() => Some(complaint),
                    _ = process.wait(), if last_words.is_none() => {
                        last_words = Some(Instant::now() + LAST_WORDS);
                        continue;
                    }
                    () = due(last_words) => break,
                };
                let Some(event) = event.filter(|event| !matches!(event, Event::Closed)) else { break };
                let effects = self.driver.handle(event);
                self.carry_out(effects).await;
            }
            while let Ok(Some(complaint)) = timeout(LAST_WORDS, complaints.recv()).await {
                let effects = self.driver.handle(complaint);
                self.carry_out(effects).await;
            }
            process.wait().await
        };
        let status = match timeout(LONGEST_GOODBYE, goodbye).await {
            Ok(status) => status?,
            Err(_) => process.kill().await.context("the agent does not end")?,
        };
        let closed = self.driver.handle(Event::Closed);
        self.carry_out(closed).await;
        let Self { reports, told, .. } = self;
        tasks.shutdown().await;
        let ended = Told::Ended { code: status.code() };
        let last_words = async {
            if let Some(event) = ended.event() {
                drop(reports.send(Report::Event(event)).await);
            }
            drop(reports.send(Report::Ended).await);
            drop(reports);
            reporter.join_next().await
        };
        if timeout(LONGEST_GOODBYE, last_words).await.is_err() {
            tracing::warn!("the hub is away; what became of the last answers could not be reported");
        }
        drop(told.send(ended).await);
        Ok(status)
    }
}

fn title(prompt: &str) -> String {
    prompt.lines().next().unwrap_or_default().chars().take(LONGEST_TITLE).collect()
}

async fn read_errors(stderr: ChildStderr, events: mpsc::Sender<Event>) {
    let mut reader = BufReader::new(stderr);
    while let Ok(Some(line)) = next_line(&mut reader, LONGEST_COMPLAINT).await {
        let (Line::Whole(words) | Line::TooLong { beginning: words, .. }) = line;
        let complaint = Event::Complaint(String::from_utf8_lossy(&words).into_owned());
        if !words.trim_ascii().is_empty() && events.send(complaint).await.is_err() {
            return;
        }
    }
}

async fn read_agent(stdout: ChildStdout, events: mpsc::Sender<Event>) {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    loop {
        let event = match next_line(&mut reader, LONGEST).await {
            Ok(Some(Line::Whole(line))) => Event::Line(line),
            Ok(Some(Line::TooLong { beginning, end, length })) => Event::LongLine { beginning, end, length },
            Ok(None) | Err(_) => Event::Closed,
        };
        let closed = matches!(event, Event::Closed);
        if events.send(event).await.is_err() || closed {
            return;
        }
    }
}

/// One line at a time, flushed; what carries an outcome is reported as delivered only after that.
async fn write_agent(mut input: Input, mut lines: mpsc::Receiver<Outgoing>, reports: mpsc::Sender<Report>) {
    while let Some(Outgoing { line, delivers }) = lines.recv().await {
        let (receipt, evidence) = match input.write_line(&line).await {
            Ok(()) => (Receipt::Delivered, "written to the agent".to_owned()),
            Err(error) => (Receipt::Undelivered, format!("the agent was gone: {error}")),
        };
        if let Some((ask, awaited)) = delivers {
            drop(reports.send(Report::Receipt { ask, receipt, evidence, awaited }).await);
        }
    }
}
