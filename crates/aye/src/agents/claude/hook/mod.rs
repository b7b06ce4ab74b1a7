//! Joining a session that a person runs in their own terminal: Claude Code calls us at every step. Whatever
//! goes wrong, nothing is printed, and the terminal's own dialog decides.

mod ask;
pub mod events;
pub mod follower;
pub mod handover;
mod hold;
pub mod notes;
mod process;
mod session_terminal;
mod settle;
mod watch;

use super::mode::asks_in;
use super::transcript::title::Title;
use crate::agents::driven::account::RunEvent;
use crate::agents::title;
use crate::agents::tmux::pane::session_of;
use crate::client::{AgentClient, CallError, Client, Try};
use crate::config::DEFAULT_KIND;
use crate::home::Home;
use crate::processes::Process;
use crate::processes::host;
use crate::protocol::Registration;
use aye_core::{AgentId, AgentKind, Reach, ReportedState, ShortText};
use events::{HookEvent, Session};
use notes::{CallSignature, Notes};
use settle::Over;
use std::io;
use std::time::{Duration, Instant};

/// How long a hub whose socket is there may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does what the event asks for. `print` is called at most once, with a decision.
pub async fn run(
    home: &Home,
    event: &[u8],
    print: impl FnOnce(&str) -> io::Result<()>,
) -> anyhow::Result<()> {
    // Without a hub the session is as if we were not there.
    if std::env::var_os("AYE_URL").is_none() && !home.socket().exists() {
        return Ok(());
    }
    let (session, event) = events::decode(event)?;
    if !matches!(event, HookEvent::SessionEnd)
        && let Err(error) = follower::ensure(home, &session)
    {
        tracing::debug!(%error, "nobody follows the session");
    }
    match event {
        HookEvent::PreToolUse { tool, input, tool_use_id } => {
            let notes = Notes::of(home, &session.agent);
            notes
                .note_call(&tool_use_id, &CallSignature::new(&tool, &input, session.sub_agent.as_deref()))?;
            match notes.unsettled().is_empty() {
                true => Ok(()),
                false => report(home, &session, Registration::state(ReportedState::Working)).await,
            }
        }
        HookEvent::PermissionRequest(tool) => ask::ask(home, &session, tool, print).await,
        HookEvent::SessionStart => {
            // Before the hub binds this process to the new agent, which may not report for the old ones.
            settle::ended_sessions(home).await;
            let news =
                Registration { tmux: own_tmux_session().await, ..Registration::state(ReportedState::Idle) };
            report(home, &session, news).await
        }
        HookEvent::UserPromptSubmit { prompt } => {
            let notes = Notes::of(home, &session.agent);
            // Hooks that came late go by what the session began with.
            let begun = || Title::of(&session.transcript_path).ok()?.text().map(str::to_owned);
            let title = (!notes.has_title())
                .then(|| begun().unwrap_or_else(|| title(&prompt)))
                .filter(|title| !title.is_empty())
                .map(Into::into);
            let is_titled = title.is_some();
            let news = Registration { title, ..Registration::state(ReportedState::Working) };
            report(home, &session, news).await?;
            if is_titled {
                notes.titled();
            }
            Ok(())
        }
        HookEvent::PostToolUse => {
            Notes::of(home, &session.agent).forget_old_calls();
            report(home, &session, Registration::state(ReportedState::Working)).await
        }
        HookEvent::PermissionDenied(call) => {
            let client = reach(home, &session, PATIENCE).await?;
            // Hooks that are installed twice are both called.
            if Notes::of(home, &session.agent).is_first_refusal(&call.id)
                && let Some(event) = RunEvent::RefusedItself(call).event()
            {
                client.event(&event, Try::UntilHeard).await?;
            }
            Ok(())
        }
        HookEvent::Stop | HookEvent::Idle => {
            report(home, &session, Registration::state(ReportedState::Idle)).await
        }
        HookEvent::Other => report(home, &session, Registration::default()).await,
        HookEvent::SessionEnd => {
            let reported = report(home, &session, Registration::ended()).await;
            Notes::of(home, &session.agent).end();
            reported
        }
    }
}

/// Connects to the hub as this session's agent; retries until `patience` is over.
async fn reach(home: &Home, session: &Session, patience: Duration) -> anyhow::Result<AgentClient> {
    let process = process::of_agent().map_or(0, |process| process.pid);
    reach_for(home, session, process, patience).await
}

async fn reach_for(
    home: &Home,
    session: &Session,
    process: u32,
    patience: Duration,
) -> anyhow::Result<AgentClient> {
    let until = Instant::now() + patience;
    let mut pause = Duration::from_millis(20);
    loop {
        let error = match reach_once(home, session, process).await {
            Ok(reached) => return Ok(reached),
            Err(error) => error,
        };
        let passes = error.downcast_ref::<CallError>().is_some_and(CallError::is_passing);
        if !passes || Instant::now() + pause > until {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

async fn reach_once(home: &Home, session: &Session, process: u32) -> anyhow::Result<AgentClient> {
    if std::env::var_os("AYE_URL").is_some()
        && let Some(own) = Client::own_agent(home).await?
    {
        return AgentClient::of(home, own).await;
    }
    match AgentClient::of(home, session.agent.clone()).await {
        // Another session was resumed in this same process, and its agent is still known: this is a new one.
        Err(error) if status(&error) == Some(403) => {
            let again = AgentId::try_from(format!("{}-{process}", session.agent));
            AgentClient::of(home, again.map_err(anyhow::Error::msg)?).await
        }
        other => other,
    }
}

fn status(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<CallError>().and_then(CallError::status).map(|status| status.as_u16())
}

/// What is known of the agent, and what became of earlier answers. A hub that is away hears of it later.
async fn report(home: &Home, session: &Session, news: Registration) -> anyhow::Result<()> {
    let client = reach(home, session, Duration::ZERO).await?;
    let notes = Notes::of(home, &session.agent);
    let over = match news.state {
        Some(ReportedState::Idle | ReportedState::Ended) => Over::Turn,
        Some(ReportedState::Working | ReportedState::Waiting) | None => Over::Nothing,
    };
    let ends = news.state == Some(ReportedState::Ended);
    // An ended agent can report nothing, so receipts go first.
    if ends {
        settle::settle(&client, &notes, over).await;
    }
    let process = process::of_agent();
    client.register(&profile(session, process.as_ref(), news), Try::Once).await?;
    if !ends {
        settle::settle(&client, &notes, over).await;
    }
    Ok(())
}

async fn own_tmux_session() -> Option<ShortText> {
    std::env::var_os("TMUX")?;
    Some(session_of(process::of_agent()?).await?.into())
}

fn profile(session: &Session, process: Option<&Process>, news: Registration) -> Registration {
    Registration {
        kind: AgentKind::try_from(DEFAULT_KIND).ok(),
        reach: Some(Reach::Hooked),
        host: Some(host().into()),
        cwd: Some(session.cwd.clone().into()),
        session: Some(session.id.clone().into()),
        asks: session.mode.as_deref().map(asks_in),
        pid: process.map(|process| process.pid),
        supervisor: process::supervisor(),
        ..news
    }
}
