//! What became of asks whose hook has ended: the transcript shows it only later, so the next hook looks.

use super::super::transcript::returned::Returned;
use super::super::transcript::tail::{Found, Tail};
use super::notes::{Asked, Notes, Printed};
use crate::client::{CallError, Client};
use crate::home::Home;
use aye_core::Receipt;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The agent writes its transcript a moment after it went on.
const TRANSCRIPT_COMES_WITHIN: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(30);

/// The evidence of a delivery.
pub const PRINTED: &str = "printed for the agent";

/// What is over together with the event that brought us here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Nothing,
    /// Nobody may come for a long time, so a look is worth a moment, and what has no result gets none.
    Turn,
}

/// Reports what the transcript shows of answers that were printed, and takes back what nobody waits for.
pub async fn settle(client: &Client, notes: &Notes, over: Over) {
    if over == Over::Turn {
        wait_for_transcript(notes).await;
    }
    for asked in notes.unsettled() {
        match settle_one(client, notes, &asked, over).await {
            Ok(false) => {}
            Err(error) if error.is_passing() => {
                tracing::debug!(%error, "the hub is away; the next hook tries");
            }
            // Refused means that the hub had the last word.
            Ok(true) | Err(_) => notes.settled(&asked),
        }
    }
}

async fn wait_for_transcript(notes: &Notes) {
    let until = Instant::now() + TRANSCRIPT_COMES_WITHIN;
    loop {
        let is_missing =
            |asked: &Asked| !asked.waited && asked.tool_use_id.is_some() && shown(asked).is_none();
        let missing: Vec<_> = notes.unsettled().into_iter().filter(is_missing).collect();
        if missing.is_empty() {
            return;
        }
        if Instant::now() >= until {
            for asked in missing {
                drop(notes.note(&Asked { waited: true, ..asked }));
            }
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Whether nothing more is to be said of it.
async fn settle_one(client: &Client, notes: &Notes, asked: &Asked, over: Over) -> Result<bool, CallError> {
    let Some(body) = asked.body() else { return Ok(true) };
    match (&asked.printed, shown(asked)) {
        (Some(printed), Some(shown)) => {
            let (receipt, evidence) = shown.receipt(&body, &printed.expected, printed.edited);
            receipt_is(client, &asked.ask, receipt, &evidence).await.map(|()| true)
        }
        (Some(printed), None) => {
            if !printed.delivered {
                receipt_is(client, &asked.ask, Receipt::Delivered, PRINTED).await?;
                let printed = Printed { delivered: true, ..printed.clone() };
                drop(notes.note(&Asked { printed: Some(printed), ..asked.clone() }));
            }
            Ok(false)
        }
        (None, Some(shown)) => {
            let terminal = json!({ "why": "terminal", "answer": shown.answer(&body) });
            withdraw(client, asked, terminal, Receipt::Superseded, "the terminal was first").await
        }
        (None, None) if over == Over::Turn => {
            let evidence = "the agent went on before it could be told";
            withdraw(client, asked, json!({ "why": "cancelled" }), Receipt::Undelivered, evidence).await
        }
        (None, None) => Ok(false),
    }
}

/// Takes an ask back whose hook is gone; an answer that came after all reached nobody.
async fn withdraw(
    client: &Client,
    asked: &Asked,
    why: Value,
    otherwise: Receipt,
    evidence: &str,
) -> Result<bool, CallError> {
    match client.post(&format!("/api/asks/{}/withdraw", asked.ask), why).await {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_some_and(|status| status.as_u16() == 409) => {
            receipt_is(client, &asked.ask, otherwise, evidence).await.map(|()| true)
        }
        Err(error) => Err(error),
    }
}

/// The same for sessions that ended while the hub was away.
pub async fn left_behind(home: &Home) {
    for (agent, notes) in Notes::left_behind(home) {
        match Client::for_agent(home, &agent).await {
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

pub async fn receipt_is(
    client: &Client,
    ask: &str,
    receipt: Receipt,
    evidence: &str,
) -> Result<(), CallError> {
    let body = json!({ "receipt": receipt, "evidence": evidence });
    client.post(&format!("/api/asks/{ask}/receipt"), body).await.map(drop)
}

fn shown(asked: &Asked) -> Option<Returned> {
    let id = asked.tool_use_id.as_deref()?;
    let mut tail =
        Tail::from(&asked.transcript, asked.offset).unwrap_or_else(|_| Tail::new(&asked.transcript));
    let mut shown = None;
    let read = tail.read(|found| {
        if let Found::Line(bytes) | Found::Cut(bytes) = found
            && shown.is_none()
            && memchr::memmem::find(bytes, id.as_bytes()).is_some()
        {
            shown = Returned::in_line(bytes, id);
        }
    });
    read.ok().and(shown)
}
