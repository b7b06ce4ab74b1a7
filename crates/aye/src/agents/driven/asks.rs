//! The asks of a run on their way to the hub, and their outcomes on the way back.

use crate::agents::before;
use crate::client::{AgentClient, Waits};
use crate::protocol::{AllowedAsk, NewAsk, RaiseReply, Resolution};
use aye_core::{AgentId, AskId, AskView, Body, Can, Key};
use futures_util::FutureExt;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A request that is to become an ask.
#[derive(Debug, PartialEq)]
pub struct ToRaise {
    /// By which the news of it come back.
    pub request: String,
    /// Unique; the same each time this is raised, and never that of another request.
    pub key: Key,
    pub body: Body,
    pub tool_use_id: Option<String>,
    pub sub_agent: Option<String>,
    /// The folder it would work in, where that is not the agent's.
    pub cwd: Option<PathBuf>,
    pub can: Can,
}

impl ToRaise {
    /// With the folder, and with what the files hold that it would change.
    pub fn raising(self, agent: &AgentId, cwd: &Path) -> Raising {
        let Self { request, key, body, tool_use_id, sub_agent, cwd: own, can } = self;
        let cwd = own.as_deref().unwrap_or(cwd);
        let before = before::of(&body, cwd);
        let ask = NewAsk {
            cwd: Some(cwd.to_string_lossy().into_owned().into()),
            tool_use_id: tool_use_id.map(Into::into),
            sub_agent: sub_agent.map(Into::into),
            can,
            ..NewAsk::new(key, agent.clone(), &body).with_before(before)
        };
        Raising { request, body, ask }
    }
}

/// An ask on its way to the hub, by the agent's name for it.
pub struct Raising {
    pub request: String,
    pub body: Body,
    pub ask: NewAsk,
}

/// What becomes of an ask on its way, by the agent's name for it.
#[derive(Debug)]
pub enum AskNews {
    /// The hub has recorded it, and perhaps decided it by a rule.
    Raised { request: String, ask: Box<AskView> },
    /// A rule allowed it at once.
    Allowed { request: String, allowed: Box<AllowedAsk> },
    /// The hub will never record it.
    NotRaised { request: String, why: String },
    /// It has ended.
    Resolved { request: String, resolution: Resolution },
}

/// Raises asks in the order in which they came, and follows each of them to its end.
pub async fn raise_asks<E: From<AskNews> + Send + 'static>(
    client: AgentClient,
    mut asks: mpsc::Receiver<Raising>,
    events: mpsc::Sender<E>,
) {
    let mut followed = JoinSet::new();
    while let Some(Raising { request, body, ask }) = asks.recv().await {
        while followed.try_join_next().is_some() {}
        let (event, to_follow) = match client.raise_briefly(&ask).await {
            Ok(RaiseReply::Brief(allowed)) => (AskNews::Allowed { request, allowed }, None),
            Ok(RaiseReply::Whole(raised)) => {
                // Only a rule's decision is handled here; any other end arrives with the resolution.
                let decided = Resolution::by_rule(&raised.ask).is_some();
                let to_follow = (!decided).then(|| (raised.ask.id.clone(), request.clone()));
                (AskNews::Raised { request, ask: Box::new(raised.ask) }, to_follow)
            }
            Err(error) => (AskNews::NotRaised { request, why: error.to_string() }, None),
        };
        if events.send(event.into()).await.is_err() {
            return;
        }
        // Followed only after `Raised` was sent, so that `Resolved` never comes first.
        if let Some((ask, request)) = to_follow {
            followed.spawn(follow(client.clone(), ask, body, request, events.clone()).boxed());
        }
    }
    while followed.join_next().await.is_some() {}
}

async fn follow<E: From<AskNews>>(
    client: AgentClient,
    ask: AskId,
    body: Body,
    request: String,
    events: mpsc::Sender<E>,
) {
    let event = match client.resolution(&ask, &body, Waits::BesideCommands).await {
        Ok(resolution) => AskNews::Resolved { request, resolution },
        Err(error) => AskNews::NotRaised { request, why: error.to_string() },
    };
    // A run that is over has withdrawn what was open.
    drop(events.send(event.into()).await);
}
