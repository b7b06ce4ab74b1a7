//! Between a run and the hub: asks there, outcomes back, reports, commands. The hub may come and go.

use super::drive::Event;
use crate::client::{CallError, Client};
use crate::home::Home;
use aye_core::{AgentId, AskView, By, Receipt};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// More at once are told to wait for each other.
const QUEUE: usize = 256;
/// More reports than that in one change would keep everybody else waiting for the writer.
const MOST_TOGETHER: usize = 64;
/// How long what need not be known at once may gather.
const GATHERING: Duration = Duration::from_millis(10);
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// What the hub is told, one after another, each until it got through.
#[derive(Debug)]
pub enum Report {
    /// The hub let the agent go ahead before it had written so down.
    Allowed {
        ask: String,
        /// What it is told should it not know the ask later.
        late: Value,
    },
    Call {
        method: Method,
        path: String,
        body: Value,
    },
    /// An ask is taken back; an answer that was faster than that is reported as not delivered.
    Withdraw {
        ask: String,
        why: &'static str,
    },
    /// Part of the account.
    Event(Value),
    /// What became of an outcome.
    Receipt {
        ask: String,
        receipt: Receipt,
        evidence: String,
        /// Whether a person waits to see it.
        awaited: bool,
    },
    /// The agent has ended, which is the last that is said of it.
    Ended,
}

/// Events and receipts that have gathered while the hub was told something else, which go in one call.
#[derive(Default)]
struct Gathered {
    events: Vec<Value>,
    receipts: Vec<Value>,
}

/// Says one thing after another to the hub.
struct Reporter {
    client: Client,
    agent: AgentId,
    gathered: Gathered,
    /// What the agent was let do before it was written down, by ask, until the hub is known to know it.
    allowed: HashMap<String, Value>,
}

/// An ask on its way to the hub, by the agent's name for it.
pub struct Raising {
    pub request: String,
    pub ask: Value,
}

pub fn reports(client: Client, agent: AgentId, tasks: &mut JoinSet<()>) -> mpsc::Sender<Report> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tasks.spawn(report(client, agent, receiver));
    sender
}

async fn report(client: Client, agent: AgentId, mut reports: mpsc::Receiver<Report>) {
    let mut came = Vec::with_capacity(QUEUE);
    let mut reporter = Reporter { client, agent, gathered: Gathered::default(), allowed: HashMap::new() };
    while reports.recv_many(&mut came, MOST_TOGETHER).await > 0 {
        let urgent = |report: &Report| {
            let awaited = matches!(report, Report::Receipt { awaited: true, .. });
            awaited || matches!(report, Report::Call { .. } | Report::Withdraw { .. } | Report::Ended)
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
    async fn take(&mut self, report: Report) {
        match report {
            Report::Allowed { ask, late } => drop(self.allowed.insert(ask, late)),
            Report::Event(event) => self.gathered.events.push(event),
            Report::Receipt { ask, receipt, evidence, awaited: _ } => {
                let receipt = json!({ "ask": ask, "receipt": receipt, "evidence": evidence });
                self.gathered.receipts.push(receipt);
            }
            Report::Withdraw { ask, why } => {
                self.tell_gathered().await;
                withdraw(&self.client, &ask, why).await;
                self.allowed.remove(&ask);
            }
            Report::Call { method, path, body } => {
                self.tell_gathered().await;
                tell(&self.client, method, &path, body).await;
            }
            Report::Ended => {
                self.tell_gathered().await;
                // Of these nothing was reported that the hub could have missed; what it knows stays as it is.
                for ask in self.allowed.keys().cloned().collect::<Vec<_>>() {
                    self.record_late(&ask).await;
                }
                let path = format!("/api/agents/{}", self.agent);
                tell(&self.client, Method::PUT, &path, json!({ "state": "ended" })).await;
            }
        }
    }

    async fn tell_gathered(&mut self) {
        let Gathered { events, receipts } = std::mem::take(&mut self.gathered);
        if events.is_empty() && receipts.is_empty() {
            return;
        }
        let account = format!("/api/agents/{}/events", self.agent);
        let all = json!({ "events": events, "receipts": receipts });
        match self.client.insist(Method::POST, &account, Some(all)).await {
            // Each by itself: only what is too long by itself is left out.
            Err(error) if error.status() == Some(StatusCode::PAYLOAD_TOO_LARGE) => {
                for event in events {
                    tell(&self.client, Method::POST, &account, json!({ "events": [event] })).await;
                }
                let alone = json!({ "receipts": receipts });
                match self.client.insist(Method::POST, &account, Some(alone)).await {
                    Ok(reply) => self.receipts_were_taken(&account, receipts, &reply).await,
                    Err(error) => tracing::debug!(%error, "the hub did not take receipts"),
                }
            }
            Err(error) => tracing::debug!(%error, "the hub did not take a report"),
            Ok(reply) => self.receipts_were_taken(&account, receipts, &reply).await,
        }
    }

    /// Receipts of asks that the hub lost are told again once those are recorded.
    async fn receipts_were_taken(&mut self, account: &str, receipts: Vec<Value>, reply: &Value) {
        let unknown: HashSet<&str> =
            reply["unknown"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let name = |receipt: &Value| receipt["ask"].as_str().unwrap_or_default().to_owned();
        let mut again = Vec::new();
        for receipt in receipts {
            let ask = name(&receipt);
            if !unknown.contains(ask.as_str()) {
                self.allowed.remove(&ask);
            } else if self.record_late(&ask).await || again.iter().any(|other| name(other) == ask) {
                again.push(receipt);
            }
        }
        if !again.is_empty() {
            tell(&self.client, Method::POST, account, json!({ "receipts": again })).await;
        }
    }

    /// Whether the hub knows the ask now.
    async fn record_late(&mut self, ask: &str) -> bool {
        let Some(late) = self.allowed.remove(ask) else { return false };
        let recorded = self.client.insist(Method::POST, &format!("/api/asks/{ask}/late"), Some(late)).await;
        if let Err(error) = &recorded {
            tracing::warn!(%error, ask, "what a rule allowed could not be recorded late");
        }
        recorded.is_ok()
    }
}

async fn withdraw(client: &Client, ask: &str, why: &str) {
    let path = format!("/api/asks/{ask}/withdraw");
    match client.insist(Method::POST, &path, Some(json!({ "why": why }))).await {
        Err(error) if error.status() == Some(StatusCode::CONFLICT) => {
            let evidence = "the agent no longer wanted to know when the answer came";
            let body = json!({ "receipt": Receipt::Undelivered, "evidence": evidence });
            tell(client, Method::POST, &format!("/api/asks/{ask}/receipt"), body).await;
        }
        Err(error) => tracing::debug!(%error, ask, "the hub did not take an ask back"),
        Ok(_) => {}
    }
}

async fn tell(client: &Client, method: Method, path: &str, body: Value) {
    if let Err(error) = client.insist(method, path, Some(body)).await {
        // Already ended, already known: the hub had the last word.
        tracing::debug!(%error, path, "the hub did not take a report");
    }
}

/// Raises asks in the order in which they came, and follows each of them to its end.
pub async fn raise_asks(
    client: Client,
    mut asks: mpsc::Receiver<Raising>,
    reports: mpsc::Sender<Report>,
    events: mpsc::Sender<Event>,
) {
    let mut followed = JoinSet::new();
    while let Some(Raising { request, ask }) = asks.recv().await {
        while followed.try_join_next().is_some() {}
        let reply = client.insist(Method::POST, "/api/asks", Some(ask.clone())).await;
        // Known to whoever reports before the agent is told anything.
        if let Ok(raised) = &reply
            && let (Some(id), Some(voucher)) = (raised["id"].as_str(), raised.get("voucher"))
        {
            let late = json!({ "ask": ask, "voucher": voucher });
            drop(reports.send(Report::Allowed { ask: id.to_owned(), late }).await);
        }
        let raised = reply.and_then(read_ask);
        let (event, to_follow) = match raised {
            Ok(ask) => {
                // What a person answered meanwhile, or ended without an answer, is told by its resolution.
                let decided = matches!(ask.by, Some(By::Rule { .. }));
                let to_follow = (!decided).then(|| (ask.id.to_string(), request.clone()));
                (Event::Raised { request, ask: Box::new(ask) }, to_follow)
            }
            Err(error) => (Event::NotRaised { request, why: error.to_string() }, None),
        };
        if events.send(event).await.is_err() {
            return;
        }
        // Only now, so that its end never comes before its beginning.
        if let Some((ask, request)) = to_follow {
            followed.spawn(follow(client.another(), ask, request, events.clone()));
        }
    }
    while followed.join_next().await.is_some() {}
}

fn read_ask(ask: Value) -> Result<AskView, CallError> {
    AskView::from_json(ask).map_err(|invalid| CallError::Garbled(invalid.to_string()))
}

async fn follow(client: Client, ask: String, request: String, events: mpsc::Sender<Event>) {
    let event = match client.resolution_beside_commands(&ask).await {
        Ok(resolution) => Event::Resolved { request, resolution },
        Err(error) => Event::NotRaised { request, why: error.to_string() },
    };
    // A run that is over has withdrawn what was open.
    drop(events.send(event).await);
}

/// Prompts, interrupts and stops that come through the hub. Where none can come any more, a run that waits for
/// them is stopped.
pub async fn take_commands(home: Home, client: Client, agent: AgentId, events: mpsc::Sender<Event>) {
    let mut after = 0;
    loop {
        let wait = client.wait_for_commands();
        let path = format!("/api/agents/{agent}/commands?after={after}&wait={wait}");
        let reply = match client.get::<Value>(&path).await {
            Ok(reply) => reply,
            Err(error) if error.is_passing() && home.path().exists() => {
                sleep(FAULT_PAUSE).await;
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "no commands can come any more");
                drop(events.send(Event::Unheard).await);
                return;
            }
        };
        for command in reply["commands"].as_array().into_iter().flatten() {
            after = command["n"].as_u64().unwrap_or(after);
            let event = match command["command"]["type"].as_str() {
                Some("prompt") => {
                    let text = command["command"]["text"].as_str().unwrap_or_default().to_owned();
                    let image = serde_json::from_value(command["command"]["image"].clone()).ok();
                    Event::Prompt { text, image }
                }
                Some("interrupt") => Event::Interrupt,
                Some("stop") => Event::Stop,
                _ => continue,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}
