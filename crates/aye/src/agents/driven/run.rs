//! A run of an agent without its terminal: its process, the way to it, and the hub on the other side.
//! The pipes are ours, so the hub may come and go while the agent waits.

use super::AgentProtocol;
use super::account::{RunEvent, piece};
use super::activity::WorkState;
use super::asks::{AskNews, Raising, raise_asks};
use super::commands::take_commands;
use super::driver::{Driver, Effect, Event};
use super::outgoing::{Outgoing, write_agent};
use super::process::{self, Agent, AgentProcess, Launch, read_lines};
use crate::agents::lines::Line;
use crate::agents::reports::{self, HubReport};
use crate::agents::{sleep_until_opt, title};
use crate::client::{AgentClient, Try};
use crate::config::Stdin;
use crate::home::Home;
use crate::processes::host;
use crate::protocol::{Image, Registration};
use crate::shutdown::Signals;
use anyhow::Context;
use aye_core::{AgentId, AgentKind, AskId, Reach, Receipt};
use futures_util::FutureExt;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

const QUEUE: usize = 256;
/// One message of the agent may ask several things.
const ROOM: usize = QUEUE / 2;
/// Messages of the agent that nobody has looked at; each may be long.
const UNREAD: usize = 4;
/// How long the output of an agent that has ended is still read.
const LATE_OUTPUT: Duration = Duration::from_secs(1);
const LONGEST_ERROR_LINE: usize = 16 * 1024;
/// Messages that the agent has not read; it may well write for a while before it reads.
const MOST_MESSAGES: usize = 4096;
/// An agent that takes longer to be reached will not be.
const LONGEST_START: Duration = Duration::from_secs(60);
/// How long the agent, and then the hub, may take at the end. After that, remaining reports are dropped.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// A second Ctrl-C within this time is meant for the run and not for the turn.
const SOON: Duration = Duration::from_secs(2);
/// How long an agent may take to go on by itself.
const RESUME_PATIENCE: Duration = Duration::from_secs(5);
/// Texts that are not complete, and whose characters are counted.
const MOST_TEXTS: usize = 1024;
/// Words of a text that streams in go to the hub together.
const TEXT_GATHERS: Duration = Duration::from_millis(100);

pub struct Run<P> {
    pub protocol: P,
    pub id: AgentId,
    /// This program itself, which supervises the agent.
    pub ourselves: PathBuf,
    /// The kind of agent, as config.toml names it.
    pub kind: String,
    pub program: PathBuf,
    /// The environment variable that names another program, if there is one.
    pub variable: Option<&'static str>,
    pub arguments: Vec<OsString>,
    pub cwd: PathBuf,
    pub prompt: String,
    /// A picture that belongs to the prompt.
    pub image: Option<Image>,
    pub stdin: Stdin,
    /// Wait for further prompts when there is nothing left to do.
    pub stays: bool,
}

/// A run whose agent has been started and whom the hub knows.
pub struct Running<P: AgentProtocol> {
    run: RunLoop<P>,
    events: mpsc::Sender<Event<P::Input>>,
    incoming: mpsc::Receiver<Event<P::Input>>,
    inputs: mpsc::Receiver<P::Input>,
    error_lines: mpsc::Receiver<Line>,
    tasks: JoinSet<()>,
    reporter: JoinSet<()>,
    process: AgentProcess,
    stays: bool,
    /// Cancelled when no further prompt will come.
    last_prompt: CancellationToken,
    /// Cancelled at the agent's first output.
    speaks: CancellationToken,
    prompt: (String, Option<Image>),
}

struct RunLoop<P: AgentProtocol> {
    agent: AgentId,
    cwd: PathBuf,
    driver: Driver<P>,
    /// None once the agent's input is closed.
    outgoing: Option<mpsc::Sender<Outgoing<P::Message>>>,
    asks: mpsc::Sender<Raising>,
    reports: mpsc::Sender<HubReport>,
    account: mpsc::Sender<RunEvent>,
    /// Cancelled when the person quits: then nothing waits, not even for the hub.
    quit: CancellationToken,
    /// When each tool that runs was started, and by which sub-agent.
    tools: HashMap<String, (Instant, Option<String>)>,
    /// The tool call behind each open ask.
    asked_by: HashMap<AskId, String>,
    /// What was said since the hub was last told, and when it will be.
    unsent_text: Option<(Instant, String, String)>,
    /// How many characters the hub was told of each text that is not complete.
    told: HashMap<String, u64>,
}

/// Starts the agent and registers it. `account` gets what happens, as it happens.
pub async fn start<P: AgentProtocol>(
    home: &Home,
    run: Run<P>,
    account: mpsc::Sender<RunEvent>,
) -> anyhow::Result<Running<P>> {
    let client = AgentClient::of(home, run.id.clone()).await?;
    let mut arguments = run.protocol.arguments();
    arguments.extend(run.arguments);
    let start = Launch {
        ourselves: &run.ourselves,
        program: &run.program,
        arguments: &arguments,
        environment: run.protocol.environment(),
        cwd: &run.cwd,
        stdin: run.stdin,
        variable: run.variable,
    };
    let mut protocol = run.protocol;
    let Agent { process, pipes, errors } = process::spawn(&start)?;
    let (mut tasks, mut reporter) = (JoinSet::new(), JoinSet::new());
    let (from_agent, inputs) = mpsc::channel(UNREAD);
    let (to_error_lines, error_lines) = mpsc::channel(UNREAD);
    tasks.spawn(read_lines(errors, LONGEST_ERROR_LINE, to_error_lines).boxed());
    let reached = timeout(LONGEST_START, protocol.connect(pipes, from_agent, &mut tasks)).await;
    let writer = reached.context("the agent started but did not respond within a minute")??;
    let profile = Registration {
        kind: Some(AgentKind::try_from(run.kind).map_err(anyhow::Error::msg)?),
        reach: Some(Reach::Driven),
        host: Some(host().into()),
        cwd: Some(run.cwd.to_string_lossy().into_owned().into()),
        title: Some(title(&run.prompt).into()),
        pid: process.id(),
        ..Registration::state(aye_core::ReportedState::Working)
    };
    client.register(&profile, Try::Once).await?;

    let (events, incoming) = mpsc::channel(QUEUE);
    let (outgoing, to_agent) = mpsc::channel(MOST_MESSAGES);
    let (asks, to_raise) = mpsc::channel(QUEUE);
    let reports = reports::start(client.clone(), &mut reporter);
    let not_awaited = |error: io::Error| (Receipt::Undelivered, error.to_string());
    tasks.spawn(write_agent(writer, to_agent, reports.clone(), not_awaited).boxed());
    tasks.spawn(take_commands(home.clone(), client.clone(), events.clone()).boxed());
    tasks.spawn(raise_asks(client, to_raise, events.clone()).boxed());
    let run_loop = RunLoop {
        cwd: run.cwd,
        driver: Driver::new(protocol, run.id.to_string()),
        agent: run.id,
        outgoing: Some(outgoing),
        asks,
        reports,
        account,
        quit: CancellationToken::new(),
        tools: HashMap::new(),
        asked_by: HashMap::new(),
        unsent_text: None,
        told: HashMap::new(),
    };
    let (stays, prompt) = (run.stays, (run.prompt, run.image));
    Ok(Running {
        run: run_loop,
        events,
        incoming,
        inputs,
        error_lines,
        tasks,
        reporter,
        process,
        stays,
        last_prompt: CancellationToken::new(),
        speaks: CancellationToken::new(),
        prompt,
    })
}

impl<P: AgentProtocol> Running<P> {
    /// Cancelled at the agent's first output.
    pub fn speaks(&self) -> CancellationToken {
        self.speaks.clone()
    }

    /// To cancel when no further prompt will come: a run that waits for them then ends once it has nothing left to do.
    pub fn no_more_prompts(&self) -> CancellationToken {
        self.last_prompt.clone()
    }

    /// Goes on until there is nothing left to do, somebody stops it, or the agent ends. Signals that come after the one
    /// that ends it stay in `signals`, for whoever waits next.
    pub async fn to_its_end(self, signals: &mut Signals) -> anyhow::Result<ExitStatus> {
        let (events, quit) = (self.events.clone(), self.run.quit.clone());
        let handling = handle_signals(signals, events, self.run.account.clone(), quit);
        let mut ending = std::pin::pin!(self.drive());
        tokio::select! {
            status = &mut ending => status,
            () = handling => ending.await,
        }
    }

    async fn drive(mut self) -> anyhow::Result<ExitStatus> {
        let quit = self.run.quit.clone();
        let (prompt, image) = &self.prompt;
        let begin = self.run.driver.begin(prompt, image.as_ref());
        let mut over = self.run.carry_out(begin).await;
        let (mut resumes_until, mut output_until, asks) = (None, None, self.run.asks.clone());
        while !over {
            let event = tokio::select! {
                event = self.incoming.recv() => event.unwrap_or(Event::Closed),
                // An agent that asks faster than the hub records is not read until there is room again.
                input = self.inputs.recv(), if asks.capacity() >= ROOM => input.map_or(Event::Closed, Event::Input),
                room = asks.reserve_many(ROOM), if asks.capacity() < ROOM => {
                    drop(room);
                    continue;
                }
                // Something it started may hold its output open forever.
                _ = self.process.wait(), if output_until.is_none() => {
                    output_until = Some(Instant::now() + LATE_OUTPUT);
                    continue;
                }
                () = sleep_until_opt(output_until) => Event::Closed,
                Some(error_line) = self.error_lines.recv() => Event::ErrorOutput(error_line),
                () = quit.cancelled() => Event::Stop,
                () = self.last_prompt.cancelled(), if self.stays => {
                    self.stays = false;
                    Event::LastPrompt
                }
                () = sleep_until_opt(self.run.unsent_text.as_ref().map(|(when, _, _)| *when)) => {
                    self.run.flush_text().await;
                    continue;
                }
                () = sleep_until_opt(resumes_until) => break,
            };
            let closed = matches!(event, Event::Closed);
            if matches!(event, Event::Input(_)) {
                self.speaks.cancel();
            }
            let effects = self.run.driver.handle(event);
            over = self.run.carry_out(effects).await || closed;
            resumes_until = match self.run.driver.work_state() {
                WorkState::WillResume if !self.stays => {
                    resumes_until.or_else(|| Some(Instant::now() + RESUME_PATIENCE))
                }
                WorkState::WillResume | WorkState::Working => None,
                WorkState::Idle => {
                    over |= !self.stays;
                    None
                }
            };
        }
        let Self { run, incoming, inputs, error_lines, tasks, reporter, process, .. } = self;
        run.end((inputs, error_lines), incoming, tasks, reporter, process).await
    }
}

/// Ctrl-C interrupts the turn; a second one soon after it, or any other signal, ends the run.
async fn handle_signals<I>(
    signals: &mut Signals,
    events: mpsc::Sender<Event<I>>,
    account: mpsc::Sender<RunEvent>,
    quit: CancellationToken,
) {
    while signals.wait().await == "interrupted" {
        let again = Instant::now() + SOON;
        let interrupt = async {
            drop(account.send(RunEvent::Hint("Ctrl-C again ends the run.".into())).await);
            drop(events.send(Event::Interrupt).await);
            sleep_until(again).await;
        };
        tokio::select! {
            () = interrupt => {}
            _ = signals.wait() => break,
        }
    }
    quit.cancel();
}

impl<P: AgentProtocol> RunLoop<P> {
    /// Does what follows, and says whether the run is over.
    async fn carry_out(&mut self, effects: Vec<Effect<P::Message>>) -> bool {
        let mut over = false;
        for effect in effects {
            over |= self.carry_out_one(effect).await;
        }
        over
    }

    async fn carry_out_one(&mut self, effect: Effect<P::Message>) -> bool {
        match effect {
            Effect::Write(message) => return self.write(message, None).await,
            Effect::Deliver { ask, message, awaited } => {
                return self.write(message, Some((ask, awaited))).await;
            }
            Effect::Raise(raise) => {
                if let Err(error) = self.asks.try_send(raise.raising(&self.agent, &self.cwd)) {
                    let (TrySendError::Full(Raising { request, .. })
                    | TrySendError::Closed(Raising { request, .. })) = error;
                    let why = "too many asks at once".to_owned();
                    let effects = self.driver.handle(AskNews::NotRaised { request, why }.into());
                    return Box::pin(self.carry_out(effects)).await;
                }
            }
            Effect::Withdraw { ask, why, otherwise } => {
                self.flush_text().await;
                self.report(HubReport::Withdraw { ask, what: why.into(), otherwise }).await;
            }
            Effect::Receipt { ask, receipt, evidence } => {
                self.flush_text().await;
                self.report(HubReport::Receipt { ask, receipt, evidence, awaited: false }).await;
            }
            Effect::Register(what) => {
                self.flush_text().await;
                self.report(HubReport::Register(what)).await;
            }
            Effect::Tell(event) => self.tell(event).await,
            Effect::End => return true,
        }
        false
    }

    /// True if the queue is full: an agent that leaves thousands of messages unread will not read this one either.
    async fn write(&mut self, message: P::Message, delivers: Option<(AskId, bool)>) -> bool {
        let Some(outgoing) = &self.outgoing else { return false };
        let full = outgoing.try_send(Outgoing { message, delivers }).is_err();
        if full {
            self.tell(RunEvent::Trouble(
                "The agent no longer reads what it is told, so the run ends.".into(),
            ))
            .await;
        }
        full
    }

    async fn tell(&mut self, event: RunEvent) {
        let event = self.completed(event);
        match &event {
            RunEvent::Speaks { id, delta } => match &mut self.unsent_text {
                Some((_, speaking, words)) if speaking == id => words.push_str(delta),
                _ => {
                    self.flush_text().await;
                    self.unsent_text = Some((Instant::now() + TEXT_GATHERS, id.clone(), delta.clone()));
                }
            },
            other => {
                self.flush_text().await;
                if let RunEvent::Said { id, .. } = other {
                    self.told.remove(id);
                }
                if let Some(event) = other.event() {
                    self.report(HubReport::Event(event)).await;
                }
            }
        }
        tokio::select! {
            biased;
            // Nobody looking on is not an error.
            sent = self.account.send(event) => drop(sent),
            () = self.quit.cancelled() => {}
        }
    }

    async fn report(&self, report: HubReport) {
        tokio::select! {
            biased;
            // The reporter outlives everything that reports.
            sent = self.reports.send(report) => drop(sent),
            () = self.quit.cancelled() => {}
        }
    }

    /// Tells the hub what was said meanwhile.
    async fn flush_text(&mut self) {
        let Some((_, id, delta)) = self.unsent_text.take() else { return };
        // Where an agent never completes its texts, these are forgotten; a text that goes on all the same is told when complete.
        if self.told.len() >= MOST_TEXTS && !self.told.contains_key(&id) {
            self.told.clear();
        }
        let told = self.told.entry(id.clone()).or_default();
        let event = piece(&id, Some(*told), &delta);
        *told += delta.chars().count() as u64;
        self.report(HubReport::Event(event)).await;
    }

    fn completed(&mut self, event: RunEvent) -> RunEvent {
        match event {
            RunEvent::ToolStarted { ref id, ref sub_agent, .. } => {
                self.tools.insert(id.clone(), (Instant::now(), sub_agent.clone()));
                event
            }
            RunEvent::Asked(ref ask) => {
                self.asked_by.extend(ask.tool_use_id.clone().map(|call| (ask.id.clone(), call)));
                event
            }
            RunEvent::AskEnded { ref ask, .. } | RunEvent::Withdrawn { ref ask } => {
                // A person's time to decide is not the tool's.
                if let Some((since, _)) = self.asked_by.remove(ask).and_then(|call| self.tools.get_mut(&call))
                {
                    *since = Instant::now();
                }
                event
            }
            RunEvent::ToolEnded { id, failed, text, images, .. } => {
                let (since, sub_agent) = self.tools.remove(&id).unzip();
                let (took, sub_agent) = (since.map(|since: Instant| since.elapsed()), sub_agent.flatten());
                RunEvent::ToolEnded { id, failed, text, images, took, sub_agent }
            }
            other => other,
        }
    }

    /// Closes the agent's input, waits for it, and says the last things to the hub.
    async fn end(
        mut self,
        (mut inputs, mut error_lines): (mpsc::Receiver<P::Input>, mpsc::Receiver<Line>),
        mut incoming: mpsc::Receiver<Event<P::Input>>,
        mut tasks: JoinSet<()>,
        mut reporter: JoinSet<()>,
        mut process: AgentProcess,
    ) -> anyhow::Result<ExitStatus> {
        let closing = self.driver.handle(Event::Closing);
        self.carry_out(closing).await;
        self.outgoing = None;
        let told_to_end = !P::ENDS_WITH_INPUT && process.terminate();
        let ending = async {
            let mut output_until = None;
            loop {
                // What it says now may still show that it took an answer.
                let event = tokio::select! {
                    input = inputs.recv() => input.map(Event::Input),
                    Some(error_line) = error_lines.recv() => Some(Event::ErrorOutput(error_line)),
                    _ = process.wait(), if output_until.is_none() => {
                        output_until = Some(Instant::now() + LATE_OUTPUT);
                        continue;
                    }
                    () = sleep_until_opt(output_until) => break,
                };
                let Some(event) = event else { break };
                let effects = self.driver.handle(event);
                self.carry_out(effects).await;
            }
            while let Ok(Some(error_line)) = timeout(LATE_OUTPUT, error_lines.recv()).await {
                let effects = self.driver.handle(Event::ErrorOutput(error_line));
                self.carry_out(effects).await;
            }
            process.wait().await
        };
        let status = match timeout(END_TIMEOUT, ending).await {
            Ok(status) => status?,
            Err(_) => process.kill().await.context("the agent does not end")?,
        };
        // A server that we ended has not failed.
        let status = if told_to_end { ExitStatus::default() } else { status };
        // A run that failed reports failure even if the agent exits with 0.
        let status = if self.driver.has_failed() && status.success() { failed() } else { status };
        // What somebody else answered is on record before the run is over, unless the hub is away.
        let recorded = async {
            while self.driver.awaits_record()
                && let Some(event) = incoming.recv().await
            {
                if let Event::Ask(news @ (AskNews::Raised { .. } | AskNews::NotRaised { .. })) = event {
                    let effects = self.driver.handle(news.into());
                    self.carry_out(effects).await;
                }
            }
        };
        if timeout(END_TIMEOUT, recorded).await.is_err() {
            tracing::warn!("the hub is away; that somebody else answered a request could not be recorded");
        }
        let closed = self.driver.handle(Event::Closed);
        self.carry_out(closed).await;
        let Self { reports, account, .. } = self;
        tasks.shutdown().await;
        let ended = RunEvent::Ended { code: status.code() };
        let last_reports = async {
            if let Some(event) = ended.event() {
                drop(reports.send(HubReport::Event(event)).await);
            }
            drop(reports.send(HubReport::Ended).await);
            drop(reports);
            reporter.join_next().await
        };
        if timeout(END_TIMEOUT, last_reports).await.is_err() {
            tracing::warn!("the hub is away; what became of the last answers could not be reported");
        }
        drop(account.send(ended).await);
        Ok(status)
    }
}

/// As if the agent had ended with exit code 1.
fn failed() -> ExitStatus {
    ExitStatus::from_raw(1 << 8)
}
