//! What the hub remembers of a session that was watched before: asks that ended in the transcript while
//! nobody looked.

use super::sessions::{Session, Status};
use super::waits;
use crate::agents::claude::transcript::line::{self, TranscriptLine};
use crate::agents::claude::transcript::pending::{Closed, OpenCall};
use crate::agents::claude::transcript::tail::{Tail, TailEvent};
use crate::client::{AgentClient, CallError, Client, Try};
use crate::protocol::{AsksQuery, StateFilter, calls};
use aye_core::{AskView, Body, Receipt, Withdrawal};
use std::io;
use std::path::Path;

pub struct Past {
    client: AgentClient,
    /// Whether the hub has an agent of this name.
    pub is_known: bool,
    /// Asks whose end or receipt the hub does not know yet.
    unsettled: Vec<AskView>,
}

pub async fn of(person: Client, client: AgentClient) -> Result<Past, CallError> {
    let agent = client.agent().clone();
    match person.call(&calls::AGENT, agent.as_str(), &(), &(), Try::UntilHeard).await {
        Ok(_) => {}
        Err(error) if error.is_unknown() => {
            return Ok(Past { client, is_known: false, unsettled: Vec::new() });
        }
        Err(error) => return Err(error),
    }
    let mut unsettled = Vec::new();
    for state in [StateFilter::Open, StateFilter::Answered] {
        let (state, agent) = (Some(state), Some(agent.clone()));
        let query = AsksQuery { state, agent, limit: Some(1000), ..AsksQuery::default() };
        let asks = person.call(&calls::ASKS, "", &query, &(), Try::UntilHeard).await?.asks;
        unsettled.extend(asks.into_iter().filter(is_unsettled));
    }
    Ok(Past { client, is_known: true, unsettled })
}

fn is_unsettled(ask: &AskView) -> bool {
    match ask.status.receipt {
        None | Some(Receipt::Pending | Receipt::Delivered | Receipt::Unknown) => true,
        Some(Receipt::Confirmed | Receipt::Disputed | Receipt::Superseded | Receipt::Undelivered) => false,
    }
}

impl Past {
    /// Those that are no longer open in the transcript, and how they ended there.
    pub fn settled(&self, open: &[OpenCall], transcript: &Path) -> Vec<(String, Body, Closed)> {
        let asks = self.unsettled.iter().filter_map(|ask| Some((ask.tool_use_id.clone()?, ask.body.clone())));
        let asks = asks.filter(|(id, _)| !open.iter().any(|open| open.tool_use_id == *id));
        asks.map(|(id, body)| {
            let closed = result_in(transcript, &id).unwrap_or(Closed::PassedOver);
            (id, body, closed)
        })
        .collect()
    }

    /// Whether it was asked for permission to make this call.
    pub fn asked_permission(&self, tool_use_id: &str) -> bool {
        let is_it = |ask: &&AskView| ask.tool_use_id.as_deref() == Some(tool_use_id);
        self.unsettled.iter().filter(is_it).any(|ask| matches!(ask.body, Body::Permission(_)))
    }

    /// Takes back what the session waited for, unless it still does.
    pub async fn withdraw_waits(&self, session: &Session) -> Result<(), CallError> {
        let still = match session.status {
            Status::Waiting { since, .. } => Some(waits::key(&session.id, since)),
            Status::Working | Status::Idle => None,
        };
        let over = |ask: &&AskView| ask.tool_use_id.is_none() && Some(&ask.key) != still.as_ref();
        for ask in self.unsettled.iter().filter(over) {
            self.client.withdraw(&ask.id, Withdrawal::Terminal.into(), Try::UntilHeard).await?;
        }
        Ok(())
    }
}

/// The result of a call.
pub fn result_in(transcript: &Path, tool_use_id: &str) -> Option<Closed> {
    let mut found = None;
    let read = lines_about(transcript, tool_use_id, |line| {
        if let Some(returned) = line.result_of(tool_use_id) {
            found = Some(Closed::Returned(Box::new(returned)));
        }
    });
    read.ok().and(found)
}

/// True once the transcript has the call.
pub fn has_call(transcript: &Path, tool_use_id: &str) -> bool {
    let mut found = false;
    let read = lines_about(transcript, tool_use_id, |line| {
        found |= line.calls().iter().any(|call| call.id == tool_use_id);
    });
    read.is_ok() && found
}

fn lines_about(transcript: &Path, word: &str, mut see: impl FnMut(TranscriptLine)) -> io::Result<()> {
    let word = memchr::memmem::Finder::new(word);
    Tail::new(transcript).read(|piece| {
        if let TailEvent::Line(bytes) | TailEvent::Cut(bytes) = piece
            && word.find(bytes).is_some()
            && let Some(line) = line::decode(bytes)
        {
            see(line);
        }
    })
}
