//! Between a run and the hub: asks there, outcomes back, reports, commands. The hub may come and go.

use super::driver::Event;
use crate::client::{AgentClient, CallError, Try, Waits};
use crate::home::Home;
use crate::protocol::{AskReceipt, Command, ConversationEvent, NewAsk, NewReport, Registration, Resolution};
use aye_core::{AskId, Body, Receipt, Withdrawal};
use hyper::StatusCode;
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A full queue makes senders wait.
const QUEUE: usize = 256;
/// More reports than that in one change would keep everybody else waiting for the writer.
const MOST_TOGETHER: usize = 64;
/// How long reports that are not urgent are batched.
const GATHERING: Duration = Duration::from_millis(10);
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// What the hub is told, one after another, each until it got through.
#[derive(Debug)]
pub enum HubReport {
    /// What is new of the agent.
    Register(Registration),
    /// An ask is taken back; an answer that was faster than that is reported as not delivered.
    Withdraw { ask: AskId, why: Withdrawal },
    /// Part of the account.
    Event(ConversationEvent),
    /// What became of an outcome.
    Receipt {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
        /// Whether a person waits to see it.
        awaited: bool,
    },
    /// The agent has ended; the last report.
    Ended,
}

/// Says one thing after another to the hub. Events and receipts that gathered meanwhile go in one call.
struct Reporter {
    client: AgentClient,
    gathered: NewReport,
}

/// An ask on its way to the hub, by the agent's name for it.
pub struct Raising {
    pub request: String,
    pub body: Body,
    pub ask: NewAsk,
}

pub fn reports(client: AgentClient, tasks: &mut JoinSet<()>) -> mpsc::Sender<HubReport> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tasks.spawn(report(client, receiver));
    sender
}

async fn report(client: AgentClient, mut reports: mpsc::Receiver<HubReport>) {
    let mut came = Vec::with_capacity(QUEUE);
    let mut reporter = Reporter { client, gathered: NewReport::default() };
    while reports.recv_many(&mut came, MOST_TOGETHER).await > 0 {
        let urgent = |report: &HubReport| {
            let awaited = matches!(report, HubReport::Receipt { awaited: true, .. });
            awaited
                || matches!(report, HubReport::Register(_) | HubReport::Withdraw { .. } | HubReport::Ended)
        };
        if !came.iter().any(urgent) && came.len() < MOST_TOGETHER {
            sleep(GATHERING).await;
            let more = std::iter::from_fn(|| reports.try_recv().ok());
            let room = MOST_TOGETHER.saturating_sub(came.len());
            came.extend(more.take(room));
        }
        for report in came.drain(..) {
            reporter.take(report).await;
        }
        reporter.tell_gathered().await;
    }
}

impl Reporter {
    async fn take(&mut self, report: HubReport) {
        match report {
            HubReport::Event(event) => self.gathered.events.push(json!(event)),
            HubReport::Receipt { ask, receipt, evidence, awaited: _ } => {
                self.gathered.receipts.push(AskReceipt { ask, receipt, evidence: Some(evidence.into()) });
            }
            HubReport::Withdraw { ask, why } => {
                self.tell_gathered().await;
                let otherwise =
                    (Receipt::Undelivered, "the agent no longer wanted to know when the answer came");
                heard(self.client.withdraw_or(&ask, why, otherwise, Try::UntilHeard).await);
            }
            HubReport::Register(what) => {
                self.tell_gathered().await;
                heard(self.client.register(&what, Try::UntilHeard).await);
            }
            HubReport::Ended => {
                self.tell_gathered().await;
                heard(self.client.end().await);
            }
        }
    }

    async fn tell_gathered(&mut self) {
        let report = std::mem::take(&mut self.gathered);
        if report == NewReport::default() {
            return;
        }
        match self.client.report(&report, Try::UntilHeard).await {
            // Each by itself: only what is too long by itself is left out.
            Err(error) if error.status() == Some(StatusCode::PAYLOAD_TOO_LARGE) => {
                for event in report.events {
                    let alone = NewReport { events: vec![event], ..NewReport::default() };
                    heard(self.client.report(&alone, Try::UntilHeard).await);
                }
                let receipts = NewReport { receipts: report.receipts, ..NewReport::default() };
                heard(self.client.report(&receipts, Try::UntilHeard).await);
            }
            other => heard(other),
        }
    }
}

/// Already ended, already known: the hub had the last word.
fn heard(told: Result<(), CallError>) {
    if let Err(error) = told {
        tracing::debug!(%error, "the hub did not take a report");
    }
}

/// Raises asks in the order in which they came, and follows each of them to its end.
pub async fn raise_asks(client: AgentClient, mut asks: mpsc::Receiver<Raising>, events: mpsc::Sender<Event>) {
    let mut followed = JoinSet::new();
    while let Some(Raising { request, body, ask }) = asks.recv().await {
        while followed.try_join_next().is_some() {}
        let (event, to_follow) = match client.raise(&ask).await {
            Ok(raised) => {
                // What a person answered meanwhile, or ended without an answer, is told by its resolution.
                let decided = Resolution::by_rule(&raised.ask).is_some();
                let to_follow = (!decided).then(|| (raised.ask.id.clone(), request.clone()));
                (Event::Raised { request, ask: Box::new(raised.ask) }, to_follow)
            }
            Err(error) => (Event::NotRaised { request, why: error.to_string() }, None),
        };
        if events.send(event).await.is_err() {
            return;
        }
        // Only now, so that its end never comes before its beginning.
        if let Some((ask, request)) = to_follow {
            followed.spawn(follow(client.clone(), ask, body, request, events.clone()));
        }
    }
    while followed.join_next().await.is_some() {}
}

async fn follow(client: AgentClient, ask: AskId, body: Body, request: String, events: mpsc::Sender<Event>) {
    let event = match client.resolution(&ask, &body, Waits::BesideCommands).await {
        Ok(resolution) => Event::Resolved { request, resolution },
        Err(error) => Event::NotRaised { request, why: error.to_string() },
    };
    // A run that is over has withdrawn what was open.
    drop(events.send(event).await);
}

/// Prompts, interrupts and stops that come through the hub. Where none can come any more, a run that waits for
/// them is stopped.
pub async fn take_commands(home: Home, client: AgentClient, events: mpsc::Sender<Event>) {
    let mut after = 0;
    loop {
        let commands = match client.commands(after).await {
            Ok(commands) => commands,
            Err(error) if error.is_passing() && home.path().exists() => {
                drop(events.send(Event::HubAway).await);
                // A call that returns at once; the other one waits for commands.
                let nothing_new = Registration::default();
                while client.register(&nothing_new, Try::Once).await.is_err_and(|error| error.is_passing())
                    && home.path().exists()
                {
                    sleep(FAULT_PAUSE).await;
                }
                drop(events.send(Event::HubBack).await);
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "no commands can come any more");
                drop(events.send(Event::Unheard).await);
                return;
            }
        };
        for (n, command) in commands {
            after = n;
            let event = match command {
                Some(Command::Prompt { text, image }) => Event::Prompt { text: text.into(), image },
                Some(Command::Interrupt) => Event::Interrupt,
                Some(Command::Stop) => Event::Stop,
                None => continue,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}
