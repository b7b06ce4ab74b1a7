//! A run of Claude Code without its terminal: the process, its pipes, and the hub on the other side.
//! The pipes are ours, so the hub may come and go while the agent waits.

use super::drive::{Driver, Effect, Event, Told};
use crate::agents::lines::{LONGEST, Line, next_line};
use crate::agents::random_name;
use crate::client::{Client, WAIT};
use crate::home::Home;
use crate::shutdown::Signals;
use anyhow::Context;
use aye_core::{AgentId, Receipt};
use hyper::Method;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const QUEUE: usize = 256;
/// How long the hub may be away at the end before we leave what we know unsaid.
const LONGEST_GOODBYE: Duration = Duration::from_secs(10);

pub struct Run {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub cwd: PathBuf,
    pub prompt: String,
    pub mode: Option<String>,
    pub resume: Option<String>,
}

/// What the hub is told, one after another, each until it got through.
struct Report {
    method: Method,
    path: String,
    body: Value,
}

/// A line for the agent, and the ask whose outcome it carries.
struct Outgoing {
    line: String,
    delivers: Option<String>,
}

struct Desk {
    home: Home,
    agent: AgentId,
    driver: Driver,
    events: mpsc::Sender<Event>,
    outgoing: mpsc::Sender<Outgoing>,
    reports: mpsc::Sender<Report>,
    told: mpsc::Sender<Told>,
    /// One task for each ask that is open.
    asks: JoinSet<()>,
}

/// Runs the agent to its end. `told` gets the account of the run as it goes.
pub async fn run(
    home: &Home,
    run: Run,
    told: mpsc::Sender<Told>,
    mut signals: Signals,
) -> anyhow::Result<ExitStatus> {
    let nonce = random_name()?;
    let agent = AgentId::try_from(format!("claude-{nonce}")).map_err(anyhow::Error::msg)?;
    let client = Client::for_agent(home, &agent).await?;
    let mut child = spawn(&run)?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).context("the agent has no pipes")?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let profile = json!({
        "kind": "claude", "reach": "driven", "host": host, "cwd": run.cwd.to_string_lossy(), "state": "working",
        "title": run.prompt.lines().next().unwrap_or_default(), "pid": child.id(),
    });
    client.put(&format!("/api/agents/{agent}"), profile).await?;

    let (events, mut incoming) = mpsc::channel(QUEUE);
    let (outgoing, lines) = mpsc::channel(QUEUE);
    let (reports, to_report) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    tasks.spawn(read_agent(stdout, events.clone()));
    tasks.spawn(write_agent(stdin, lines, reports.clone()));
    tasks.spawn(take_commands(home.clone(), agent.clone(), events.clone()));
    let mut reporter = JoinSet::new();
    reporter.spawn(report(client, to_report));

    let driver = Driver::new(run.cwd.clone(), home.places(), nonce);
    let mut desk =
        Desk { home: home.clone(), agent, driver, events, outgoing, reports, told, asks: JoinSet::new() };
    let begin = desk.driver.begin(&run.prompt);
    let mut interrupts = 0;
    let mut over = desk.carry_out(begin).await?;
    while !over {
        let event = tokio::select! {
            event = incoming.recv() => event.unwrap_or(Event::Closed),
            why = signals.wait() => {
                interrupts += 1;
                match why == "interrupted" && interrupts == 1 {
                    true => Event::Interrupt,
                    false => Event::Closed,
                }
            }
        };
        let closed = matches!(event, Event::Closed);
        let effects = desk.driver.handle(event);
        over = desk.carry_out(effects).await? || closed;
    }
    let closing = desk.driver.handle(Event::Closed);
    desk.carry_out(closing).await?;
    desk.end(tasks, reporter, child).await
}

impl Desk {
    /// Does what follows, and says whether the run is over.
    async fn carry_out(&mut self, effects: Vec<Effect>) -> anyhow::Result<bool> {
        let mut over = false;
        for effect in effects {
            match effect {
                Effect::Write(line) => self.write(line, None)?,
                Effect::Deliver { ask, line } => self.write(line, Some(ask))?,
                Effect::Raise { request, body, tool_use_id } => {
                    let raise = json!({
                        "key": self.driver.key(&request), "agent": self.agent, "kind": body.kind(), "body": body,
                        "tool_use_id": tool_use_id,
                    });
                    let (home, agent, events) = (self.home.clone(), self.agent.clone(), self.events.clone());
                    self.asks.spawn(async move { follow_ask(home, agent, request, raise, events).await });
                }
                Effect::Withdraw { ask, why } => {
                    self.report(Method::POST, format!("/api/asks/{ask}/withdraw"), json!({ "why": why }))
                        .await;
                }
                Effect::Receipt { ask, receipt, evidence } => {
                    let body = json!({ "receipt": receipt, "evidence": evidence });
                    self.report(Method::POST, format!("/api/asks/{ask}/receipt"), body).await;
                }
                Effect::Register(what) => {
                    self.report(Method::PUT, format!("/api/agents/{}", self.agent), what).await
                }
                Effect::Tell(told) => {
                    if let Some(event) = event_for_others(&told) {
                        let body = json!({ "events": [event] });
                        self.report(Method::POST, format!("/api/agents/{}/events", self.agent), body).await;
                    }
                    // Nobody looking on is not an error.
                    drop(self.told.send(told).await);
                }
                Effect::TurnEnded => over = true,
            }
        }
        Ok(over)
    }

    fn write(&self, line: String, delivers: Option<String>) -> anyhow::Result<()> {
        self.outgoing
            .try_send(Outgoing { line, delivers })
            .ok()
            .context("the agent no longer reads what it is told")
    }

    async fn report(&self, method: Method, path: String, body: Value) {
        // The reporter outlives everything that reports.
        drop(self.reports.send(Report { method, path, body }).await);
    }

    /// Closes the agent's input, waits for it, and says the last things to the hub.
    async fn end(
        mut self,
        mut tasks: JoinSet<()>,
        mut reporter: JoinSet<()>,
        mut child: Child,
    ) -> anyhow::Result<ExitStatus> {
        self.asks.shutdown().await;
        let (agent, reports) = (self.agent.clone(), self.reports.clone());
        drop(self);
        let status = match tokio::time::timeout(LONGEST_GOODBYE, child.wait()).await {
            Ok(status) => status?,
            Err(_) => {
                child.kill().await?;
                child.wait().await?
            }
        };
        tasks.shutdown().await;
        let last = Report {
            method: Method::PUT,
            path: format!("/api/agents/{agent}"),
            body: json!({ "state": "ended" }),
        };
        drop(reports.send(last).await);
        drop(reports);
        if tokio::time::timeout(LONGEST_GOODBYE, reporter.join_next()).await.is_err() {
            tracing::warn!("the hub is away; what became of the last answers could not be reported");
        }
        Ok(status)
    }
}

/// No shell, a group of its own (so that Ctrl-C is ours to pass on), and none of our credentials.
fn spawn(run: &Run) -> anyhow::Result<Child> {
    let mut command = Command::new(&run.program);
    command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    command.args(["--permission-prompt-tool", "stdio"]);
    if let Some(mode) = &run.mode {
        command.args(["--permission-mode", mode]);
    }
    if let Some(session) = &run.resume {
        command.args(["--resume", session]);
    }
    command.args(&run.arguments).current_dir(&run.cwd).env_remove("AYE_TOKEN");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.process_group(0).kill_on_drop(true);
    command.spawn().with_context(|| {
        format!("cannot start {}; is it installed? AYE_CLAUDE names another", run.program.display())
    })
}

async fn read_agent(stdout: ChildStdout, events: mpsc::Sender<Event>) {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    loop {
        let event = match next_line(&mut reader, LONGEST).await {
            Ok(Some(Line::Whole(line))) => Event::Line(line),
            Ok(Some(Line::TooLong { beginning, length })) => Event::LongLine { beginning, length },
            Ok(None) | Err(_) => Event::Closed,
        };
        let closed = matches!(event, Event::Closed);
        if events.send(event).await.is_err() || closed {
            return;
        }
    }
}

/// One line at a time, flushed; what carries an outcome is reported as delivered only after that.
async fn write_agent(
    mut stdin: ChildStdin,
    mut lines: mpsc::Receiver<Outgoing>,
    reports: mpsc::Sender<Report>,
) {
    while let Some(Outgoing { line, delivers }) = lines.recv().await {
        let written = async {
            stdin.write_all(format!("{line}\n").as_bytes()).await?;
            stdin.flush().await
        };
        let (receipt, evidence) = match written.await {
            Ok(()) => (Receipt::Delivered, "written to the agent".to_owned()),
            Err(error) => (Receipt::Undelivered, format!("the agent was gone: {error}")),
        };
        if let Some(ask) = delivers {
            let body = json!({ "receipt": receipt, "evidence": evidence });
            let report = Report { method: Method::POST, path: format!("/api/asks/{ask}/receipt"), body };
            drop(reports.send(report).await);
        }
    }
}

async fn report(client: Client, mut reports: mpsc::Receiver<Report>) {
    while let Some(Report { method, path, body }) = reports.recv().await {
        if let Err(error) = client.insist(method, &path, Some(body)).await {
            // Already ended, already known: the hub had the last word.
            tracing::debug!(%error, path, "the hub did not take a report");
        }
    }
}

/// Raises an ask and waits for its end, through restarts of the hub.
async fn follow_ask(home: Home, agent: AgentId, request: String, raise: Value, events: mpsc::Sender<Event>) {
    let followed = async {
        let client = patient_client(&home, &agent).await;
        let ask = client.insist(Method::POST, "/api/asks", Some(raise)).await?;
        let id = ask["id"].as_str().unwrap_or_default().to_owned();
        drop(events.send(Event::Raised { request: request.clone(), ask: id.clone() }).await);
        client.resolution(&id).await
    };
    let event = match followed.await {
        Ok(resolution) => Event::Resolved { request, resolution },
        Err(error) => Event::NotRaised { request, why: error.to_string() },
    };
    drop(events.send(event).await);
}

/// Prompts, interrupts and stops that come through the hub.
async fn take_commands(home: Home, agent: AgentId, events: mpsc::Sender<Event>) {
    let client = patient_client(&home, &agent).await;
    let mut after = 0;
    loop {
        let path = format!("/api/agents/{agent}/commands?after={after}&wait={WAIT}");
        let Ok(reply) = client.insist(Method::GET, &path, None).await else {
            // Refused for good: the run goes on without commands.
            return;
        };
        for command in reply["commands"].as_array().into_iter().flatten() {
            after = command["n"].as_u64().unwrap_or(after);
            let event = match command["command"]["type"].as_str() {
                Some("prompt") => {
                    Event::Prompt(command["command"]["text"].as_str().unwrap_or_default().to_owned())
                }
                Some("interrupt") => Event::Interrupt,
                Some("stop") => Event::Closed,
                _ => continue,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}

async fn patient_client(home: &Home, agent: &AgentId) -> Client {
    loop {
        match Client::for_agent(home, agent).await {
            Ok(client) => return client,
            Err(error) => tracing::debug!(%error, "the hub is away; trying again"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The account as other surfaces get it; asks they see by themselves.
fn event_for_others(told: &Told) -> Option<Value> {
    Some(match told {
        Told::Text(text) => json!({ "type": "text", "text": text }),
        Told::ToolStarted { id, name, input } => {
            json!({ "type": "tool", "id": id, "name": name, "input": input })
        }
        Told::ToolEnded { id, failed } => json!({ "type": "tool_result", "id": id, "failed": failed }),
        Told::Turn(result) => json!({
            "type": "turn", "error": result.is_error, "cost": result.total_cost_usd, "turns": result.num_turns,
            "duration_ms": result.duration_ms,
        }),
        Told::Trouble(words) => json!({ "type": "trouble", "text": words }),
        Told::Asked { .. } | Told::AskEnded { .. } | Told::Doubt { .. } => return None,
    })
}
