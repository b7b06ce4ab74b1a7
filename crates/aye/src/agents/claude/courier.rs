//! Between a run and the hub: asks there, outcomes back, reports, commands. The hub may come and go.

use super::drive::Event;
use crate::client::{CallError, Client, WAIT};
use aye_core::{AgentId, AskView, By};
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// More at once are told to wait for each other.
const QUEUE: usize = 256;

/// What the hub is told, one after another, each until it got through.
#[derive(Debug)]
pub enum Report {
    Call {
        method: Method,
        path: String,
        body: Value,
    },
    /// Part of the account; what has gathered meanwhile goes in one call.
    Event(Value),
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
    let mut gathered = Vec::with_capacity(QUEUE);
    while reports.recv_many(&mut gathered, QUEUE).await > 0 {
        let mut events = Vec::new();
        for report in gathered.drain(..) {
            match report {
                Report::Event(event) => events.push(event),
                Report::Call { method, path, body } => {
                    tell_events(&client, &agent, &mut events).await;
                    tell(&client, method, &path, body).await;
                }
            }
        }
        tell_events(&client, &agent, &mut events).await;
    }
}

async fn tell_events(client: &Client, agent: &AgentId, events: &mut Vec<Value>) {
    if !events.is_empty() {
        let body = json!({ "events": std::mem::take(events) });
        tell(client, Method::POST, &format!("/api/agents/{agent}/events"), body).await;
    }
}

async fn tell(client: &Client, method: Method, path: &str, body: Value) {
    if let Err(error) = client.insist(method, path, Some(body)).await {
        // Already ended, already known: the hub had the last word.
        tracing::debug!(%error, path, "the hub did not take a report");
    }
}

/// Raises asks in the order in which they came, and follows each of them to its end.
pub async fn raise_asks(client: Client, mut asks: mpsc::Receiver<Raising>, events: mpsc::Sender<Event>) {
    let mut followed = JoinSet::new();
    while let Some(Raising { request, ask }) = asks.recv().await {
        while followed.try_join_next().is_some() {}
        let raised = client.insist(Method::POST, "/api/asks", Some(ask)).await.and_then(read_ask);
        let event = match raised {
            Ok(ask) => {
                // What a person answered meanwhile, or ended without an answer, is told by its resolution.
                if !matches!(ask.by, Some(By::Rule { .. })) {
                    let (client, events) = (client.another(), events.clone());
                    followed.spawn(follow(client, ask.id.to_string(), request.clone(), events));
                }
                Event::Raised { request, ask: Box::new(ask) }
            }
            Err(error) => Event::NotRaised { request, why: error.to_string() },
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
    while followed.join_next().await.is_some() {}
}

fn read_ask(ask: Value) -> Result<AskView, CallError> {
    AskView::from_json(ask).map_err(|invalid| CallError::Garbled(invalid.to_string()))
}

async fn follow(client: Client, ask: String, request: String, events: mpsc::Sender<Event>) {
    let event = match client.resolution(&ask).await {
        Ok(resolution) => Event::Resolved { request, resolution },
        Err(error) => Event::NotRaised { request, why: error.to_string() },
    };
    // A run that is over has withdrawn what was open.
    drop(events.send(event).await);
}

/// Prompts, interrupts and stops that come through the hub.
pub async fn take_commands(client: Client, agent: AgentId, events: mpsc::Sender<Event>) {
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
                Some("stop") => Event::Stop,
                _ => continue,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}
