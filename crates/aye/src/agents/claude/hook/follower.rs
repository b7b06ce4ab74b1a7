//! One process beside each session that calls our hooks. Hooks come and go, and not every dialog calls one: this one
//! stays, says when the session waits, asks what no hook asks for, and takes over from hooks that were killed.

use super::super::watch::follow::Transcript;
use super::super::watch::sessions::ConfigDir;
use super::super::watch::watched::Watched;
use super::events::{self, Session};
use super::notes::{AskNote, Notes};
use super::{PATIENCE, process, profile, reach_for};
use crate::agents::reports;
use crate::agents::tmux::pane::session_of;
use crate::client::{AgentClient, CallError, Try};
use crate::home::Home;
use crate::processes::Process;
use crate::protocol::{NewAsk, Registration};
use crate::shutdown::Signals;
use aye_core::{Receipt, Withdrawal};
use serde_json::json;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const HOOK_KILLED: (Receipt, &str) = (Receipt::Undelivered, "the hook that waited for the answer was killed");
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);
/// How long the last reports to the hub may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the follower unless it runs. It outlives this hook, so it inherits none of its streams.
pub fn ensure(home: &Home, session: &Session) -> io::Result<()> {
    let Some((process, config)) = process::of_agent().zip(session.config_dir()) else { return Ok(()) };
    // Older versions do not say what they do.
    if !ConfigDir::new(config).session_file(process.pid).exists() {
        return Ok(());
    }
    match Notes::of(home, &session.agent).follower_lock()? {
        Some(_) => start(session, process.pid),
        None => Ok(()),
    }
}

/// Starts one that takes over if the follower is killed while dialogs are handed over. No hook waits then that could
/// start another.
pub fn stand_by(session: &Session) -> io::Result<()> {
    process::of_agent().map_or(Ok(()), |process| start(session, process.pid))
}

fn start(session: &Session, pid: u32) -> io::Result<()> {
    let told =
        json!({"session_id": session.id, "transcript_path": session.transcript_path, "cwd": session.cwd});
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hook", "--follow", &pid.to_string(), &told.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a process group of its own, so that signals for the hook or the terminal do not reach it.
    command.process_group(0).current_dir("/").spawn().map(drop)
}

/// Follows the session until it ends, or goes on under another name.
pub async fn run(home: &Home, pid: u32, told: &[u8]) -> anyhow::Result<()> {
    let (session, _) = events::decode(told)?;
    let notes = Notes::of(home, &session.agent);
    let Some(config) = session.config_dir().map(ConfigDir::new) else { return Ok(()) };
    let (process, file) = (Process::now(pid), config.session_file(pid));
    let mut stood_by = false;
    let _lock = loop {
        match notes.follower_lock()? {
            Some(lock) => break lock,
            None if notes.has_handed_over() && process.is_alive() => stood_by = true,
            None => return Ok(()),
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    };
    if stood_by {
        start(&session, pid)?;
    }
    let client = reach_for(home, &session, pid, PATIENCE).await?;
    // The first registration fixes the kind of agent. It may come from here, because hooks can be slow to start.
    let tmux = session_of(process).await.map(Into::into);
    let news = Registration { tmux, ..Registration::default() };
    let known = Registration { supervisor: None, ..profile(&session, None, news) };
    client.register(&known, Try::Once).await?;
    let path = session.transcript_path.clone();
    let (transcript, _) = tokio::task::spawn_blocking(move || Transcript::follow(path)).await??;
    let Some(now) = config.session_at(&file).filter(|now| now.id == session.id) else { return Ok(()) };
    let (mut reporters, (screens, mut shown)) = (JoinSet::new(), mpsc::channel(8));
    let reports = reports::start(client.clone(), &mut reporters);
    let mut watched = Watched::new(now, transcript, client.clone(), reports, screens, Some(notes.clone()));
    let (places, mut signals) = (home.places(), Signals::listen()?);
    let mut look = tokio::time::interval(BETWEEN_LOOKS);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            Some((_, screen)) = shown.recv() => {
                watched.saw(screen, &places);
                continue;
            }
            _ = signals.wait() => break,
        }
        match config.session_at(&file) {
            Some(now) if now.id == session.id => watched.update(now),
            Some(_) => break,
            None if !process.is_alive() => return Ok(()),
            // Being written.
            None => {}
        }
        match watched.transcript.read() {
            Ok(news) => {
                watched.take(news, &places);
                watched.tell_title();
            }
            Err(error) => tracing::debug!(%error, "the transcript could not be read"),
        }
        for (hook, ask) in notes.half_raised() {
            match tokio::time::timeout(PATIENCE, take_back(&client, &ask)).await {
                Err(_) => tracing::debug!("the hub is away; the next look tries"),
                Ok(_) => {
                    notes.forget_raising(hook);
                    if let Some(id) = &ask.tool_use_id {
                        notes.unclaim(id);
                    }
                }
            }
        }
        for (asked, handed) in notes.handed_over() {
            if !watched.adopt(&asked, handed)
                && let Err(error) = take_over(&client, &notes, &asked).await
            {
                tracing::debug!(%error, "the hub is away; the next look tries");
            }
        }
        for asked in notes.unsettled().into_iter().filter(|asked| asked.printed.is_none()) {
            if let Err(error) = take_over(&client, &notes, &asked).await {
                tracing::debug!(%error, "the hub is away; the next look tries");
            }
        }
    }
    drop(tokio::time::timeout(REPORT_TIMEOUT, watched.end()).await);
    Ok(())
}

/// Nobody knows whether the hub has it, and under which id; raising it again tells.
async fn take_back(client: &AgentClient, ask: &NewAsk) -> Result<(), CallError> {
    let id = client.raise(ask).await?.ask.head.id;
    client.withdraw_or(&id, Withdrawal::Cancelled, HOOK_KILLED, Try::UntilHeard).await
}

/// The hook that asked this was killed, so nobody would deliver an answer. A session that still waits is asked again.
async fn take_over(client: &AgentClient, notes: &Notes, asked: &AskNote) -> Result<(), CallError> {
    let over = client.withdraw_or(&asked.ask, Withdrawal::Cancelled, HOOK_KILLED, Try::Once).await;
    match over {
        Err(error) if error.is_passing() => return Err(error),
        // A refusal means that the hub knows more than we do.
        Ok(()) | Err(_) => notes.settled(asked),
    }
    if let Some(id) = &asked.tool_use_id {
        notes.unclaim(id);
    }
    Ok(())
}
