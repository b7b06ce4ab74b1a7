use super::App;
use super::asks::wait;
use super::caller::{Caller, Peer};
use super::json::{Body, Failure, LARGE, Params, PathId, Reply, ok};
use crate::hub::{EventPage, is_parent};
use crate::processes::Process;
use crate::protocol::{
    Agents, AgentsQuery, ApprovePlan, AskReceipt, Command, Commands, CommandsQuery, Events, EventsQuery,
    NewReport, NewRun, NumberedCommand, NumberedEvent, Projects, Prompt, Queued, Registration, Reported,
    Title,
};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use aye_core::lifecycle::Delivery;
use aye_core::{Agent, AgentId, Invalid};
use serde_json::Value;

const MOST_EVENTS: u32 = 1000;
/// No number in the store is larger.
const LAST: u64 = i64::MAX as u64;

pub async fn list(
    State(app): State<App>,
    Params(query): Params<AgentsQuery>,
) -> Result<Reply<Agents>, Failure> {
    Ok(ok(Agents { agents: app.hub.agents(query.all).await? }))
}

pub async fn get(State(app): State<App>, PathId(id): PathId<String>) -> Result<Reply<Agent>, Failure> {
    Ok(ok(app.hub.agent(&id).await?))
}

pub async fn register(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(peer): Extension<Peer>,
    PathId(id): PathId<AgentId>,
    Body(mut registration): Body<Registration>,
) -> Result<Reply<Agent>, Failure> {
    caller.speaks_for(&id)?;
    // A process id means something only on this machine, and only the Unix socket shows that it is.
    let named = registration.pid.take();
    let supervisor = registration.supervisor.take();
    if let (Some(pid), Peer::Unix { process: Some((caller, started)), .. }) = (named, peer)
        && Process::from((caller, started)).is_alive()
        && app.hub.may_name(&id, caller, pid).await?
    {
        registration.pid = Some(pid);
        if let Some(supervisor) = supervisor
            && is_parent(supervisor, pid)
            && app.hub.may_name_above(caller, supervisor).await?
        {
            registration.supervisor = Some(supervisor);
        }
    }
    Ok(ok(app.hub.register(id, registration).await?))
}

/// The new agent, once it is registered.
pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(run): Body<NewRun, LARGE>,
) -> Result<Reply<Agent>, Failure> {
    Ok(Reply(StatusCode::CREATED, app.hub.start_run(run, caller.who()).await?))
}

pub async fn projects(State(app): State<App>) -> Result<Reply<Projects>, Failure> {
    Ok(ok(app.hub.projects()?))
}

pub async fn events(
    State(app): State<App>,
    PathId(id): PathId<String>,
    Params(query): Params<EventsQuery>,
) -> Result<Reply<Events>, Failure> {
    let agent = app.hub.agent(&id).await?;
    let limit = query.limit.unwrap_or(MOST_EVENTS).min(MOST_EVENTS);
    let page = match (query.after, query.before) {
        (Some(_), Some(_)) => return Err(Invalid::new("before", "give before or after, not both").into()),
        (after, None) => EventPage::After(after.unwrap_or(0).min(LAST)),
        (None, Some(before)) => EventPage::Before(before.min(LAST)),
    };
    let events = app.hub.events(agent.id, page, limit).await?;
    let events = events.into_iter().map(|(seq, event)| NumberedEvent { seq, event }).collect();
    Ok(ok(Events { events }))
}

pub async fn report_events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AgentId>,
    Body(body): Body<NewReport>,
) -> Result<Response, Failure> {
    caller.speaks_for(&id)?;
    if !body.events.iter().all(Value::is_object) {
        return Err(Invalid::new("events", "each event must be an object").into());
    }
    let delivery = |new: AskReceipt| (new.ask, Delivery { receipt: new.receipt, evidence: new.evidence });
    let unknown = app
        .hub
        .report(id, body.events, body.receipts.into_iter().map(delivery).collect(), body.number)
        .await?;
    Ok(match unknown.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => ok(Reported { unknown }).into_response(),
    })
}

pub async fn commands(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(peer): Extension<Peer>,
    PathId(id): PathId<AgentId>,
    Params(query): Params<CommandsQuery>,
) -> Result<Reply<Commands>, Failure> {
    caller.speaks_for(&id)?;
    // The system tells when a process of this machine is gone; of others it may never.
    let _present = matches!(peer, Peer::Unix { .. }).then(|| app.hub.stays_while_held(id.clone()));
    let commands = tokio::select! {
        commands = app.hub.commands(&id, query.after.min(LAST), wait(query.wait)) => commands?,
        () = app.stop.cancelled() => Vec::new(),
        () = caller.credential.revoked.cancelled() => Vec::new(),
    };
    let commands = commands.into_iter().map(|(n, command)| NumberedCommand { n, command }).collect();
    Ok(ok(Commands { commands }))
}

pub async fn rename(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AgentId>,
    Body(new): Body<Title>,
) -> Result<Reply<Agent>, Failure> {
    Ok(ok(app.hub.rename_agent(id, new.title, caller.who()).await?))
}

pub async fn prompt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AgentId>,
    Body(prompt): Body<Prompt>,
) -> Result<Reply<Queued>, Failure> {
    queue(&app, &caller, id, Command::Prompt { text: prompt.text, image: None }).await
}

pub async fn interrupt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AgentId>,
) -> Result<Reply<Queued>, Failure> {
    queue(&app, &caller, id, Command::Interrupt).await
}

pub async fn stop(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AgentId>,
) -> Result<Reply<Queued>, Failure> {
    queue(&app, &caller, id, Command::Stop).await
}

pub async fn approve_plan(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId<AgentId>,
    Body(body): Body<ApprovePlan>,
) -> Result<Reply<Agent>, Failure> {
    let token = Some(caller.credential.id.clone());
    let by = (caller.credential.name.clone(), caller.who(), token);
    Ok(ok(app.hub.approve_plan(id, body.decision, body.digest, by, body.assertion).await?))
}

async fn queue(app: &App, caller: &Caller, id: AgentId, command: Command) -> Result<Reply<Queued>, Failure> {
    Ok(ok(Queued { n: app.hub.command(id, command, caller.who()).await? }))
}
