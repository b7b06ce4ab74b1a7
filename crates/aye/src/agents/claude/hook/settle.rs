//! What became of asks whose hook has ended: the transcript shows it only later, so the next hook looks.

use super::super::transcript::returned::Returned;
use super::super::transcript::tail::{Tail, TailEvent};
use super::notes::{AskNote, Notes, Printed};
use crate::client::{AgentClient, CallError, Try};
use crate::home::Home;
use crate::protocol::Withdraw;
use aye_core::{Receipt, Withdrawal};
use std::time::{Duration, Instant};

/// The agent writes its transcript a moment after it went on.
const TRANSCRIPT_COMES_WITHIN: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(30);

/// The evidence of a delivery.
pub const PRINTED: &str = "printed for the agent";

/// What ended with the event that this hook was called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Nothing,
    /// The next hook may be far off, so wait briefly for the transcript; asks without a result by then are withdrawn.
    Turn,
}

/// Reports what the transcript shows of answers that were printed, and takes back what nobody waits for.
pub async fn settle(client: &AgentClient, notes: &Notes, over: Over) {
    if over == Over::Turn {
        wait_for_transcript(notes).await;
    }
    for asked in notes.unsettled() {
        match settle_one(client, notes, &asked, over).await {
            Ok(false) => {}
            Err(error) if error.is_passing() => {
                tracing::debug!(%error, "the hub is away; the next hook tries");
            }
            // A refusal means that the hub knows more than we do.
            Ok(true) | Err(_) => notes.settled(&asked),
        }
    }
}

async fn wait_for_transcript(notes: &Notes) {
    let until = Instant::now() + TRANSCRIPT_COMES_WITHIN;
    loop {
        let is_missing =
            |asked: &AskNote| !asked.waited && asked.tool_use_id.is_some() && shown(asked).is_none();
        let missing: Vec<_> = notes.unsettled().into_iter().filter(is_missing).collect();
        if missing.is_empty() {
            return;
        }
        if Instant::now() >= until {
            for asked in missing {
                drop(notes.note(&AskNote { waited: true, ..asked }));
            }
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// True if nothing is left to report of it.
async fn settle_one(
    client: &AgentClient,
    notes: &Notes,
    asked: &AskNote,
    over: Over,
) -> Result<bool, CallError> {
    let Some(body) = asked.body() else { return Ok(true) };
    match (&asked.printed, shown(asked)) {
        (Some(printed), Some(shown)) => {
            let (receipt, evidence) = shown.receipt(&body, &printed.expected, printed.edited);
            client.receipt(&asked.ask, receipt, &evidence, Try::Once).await.map(|()| true)
        }
        (Some(printed), None) => {
            if !printed.delivered {
                client.receipt(&asked.ask, Receipt::Delivered, PRINTED, Try::Once).await?;
                let printed = Printed { delivered: true, ..printed.clone() };
                drop(notes.note(&AskNote { printed: Some(printed), ..asked.clone() }));
            }
            Ok(false)
        }
        (None, Some(shown)) => {
            let terminal = Withdraw { why: Withdrawal::Terminal, answer: shown.answer(&body) };
            let otherwise = (Receipt::Superseded, "the terminal was first");
            client.withdraw_or(&asked.ask, terminal, otherwise, Try::Once).await.map(|()| true)
        }
        (None, None) if over == Over::Turn => {
            let otherwise = (Receipt::Undelivered, "the agent went on before it could be told");
            client.withdraw_or(&asked.ask, Withdrawal::Cancelled, otherwise, Try::Once).await.map(|()| true)
        }
        (None, None) => Ok(false),
    }
}

/// The same for sessions that ended while the hub was away.
pub async fn ended_sessions(home: &Home) {
    for (agent, notes) in Notes::ended_sessions(home) {
        match AgentClient::of(home, agent.clone()).await {
            Ok(client) => {
                settle(&client, &notes, Over::Turn).await;
                for unsettled in notes.unsettled() {
                    notes.settled(&unsettled);
                }
                notes.end();
            }
            Err(error) => tracing::debug!(%error, %agent, "the hub did not hear of an ended session"),
        }
    }
}

fn shown(asked: &AskNote) -> Option<Returned> {
    let id = asked.tool_use_id.as_deref()?;
    let mut tail =
        Tail::from(&asked.transcript, asked.offset).unwrap_or_else(|_| Tail::new(&asked.transcript));
    let mut shown = None;
    let read = tail.read(|found| {
        if let TailEvent::Line(bytes) | TailEvent::Cut(bytes) = found
            && shown.is_none()
            && memchr::memmem::find(bytes, id.as_bytes()).is_some()
        {
            shown = Returned::in_line(bytes, id);
        }
    });
    read.ok().and(shown)
}
