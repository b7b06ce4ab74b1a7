//! A script that asks: it raises asks, waits for their ends through hub restarts, and says what it did with them.

use super::random_name;
use crate::client::{AgentClient, CallError, Client, Try, Waits, Withdrawn};
use crate::home::Home;
use crate::processes::host;
use crate::protocol::{ConversationEvent, NewAsk, Registration, Resolution, Timeout};
use aye_core::{
    AgentId, AgentKind, AskId, AskView, Body, Can, Key, Reach, Receipt, ReportedState, Withdrawal,
};
use serde_json::Value;
use std::time::Duration;

/// Clones are the same script.
#[derive(Clone)]
pub struct Script {
    client: AgentClient,
    /// The agent is not this process alone.
    shared: bool,
}

/// An ask beyond its body.
#[derive(Default)]
pub struct Extra {
    pub timeout: Option<Timeout>,
    pub can: Can,
    /// On whose behalf it asks, in words.
    pub sub_agent: Option<String>,
}

impl Script {
    /// Announces this process as a script. Under a token of its own it speaks as that token's agent, which
    /// other processes may be too, and which therefore neither begins nor ends with this one.
    pub async fn announce(home: &Home, kind: &str, title: &str) -> anyhow::Result<Self> {
        Self::announce_as(home, kind, kind, profile(None, title, None)).await
    }

    /// Announces a process that works on nothing by itself: it is idle while it asks nothing. Its id begins with `name`.
    pub async fn announce_idle(home: &Home, kind: &str, name: &str, title: &str) -> anyhow::Result<Self> {
        Self::announce_as(home, kind, name, idle(profile(None, title, None))).await
    }

    async fn announce_as(home: &Home, kind: &str, name: &str, known: Registration) -> anyhow::Result<Self> {
        match Client::own_agent(home).await? {
            Some(agent) => Self::speak_as(home, agent, true, known).await,
            None => {
                let agent =
                    AgentId::try_from(format!("{name}-{}", random_name()?)).map_err(anyhow::Error::msg)?;
                let known = Registration { pid: Some(std::process::id()), ..of_kind(kind, known) };
                Self::speak_as(home, agent, false, known).await
            }
        }
    }

    /// Speaks as an agent of this name, which other processes may be too: what it asks outlives this one. It has no
    /// folder, because each of them may have its own.
    pub async fn join(home: &Home, kind: &str, name: &str, title: &str) -> anyhow::Result<Self> {
        let known = idle(profile(None, title, None));
        let agent = match Client::own_agent(home).await? {
            Some(agent) => return Self::speak_as(home, agent, true, known).await,
            None => AgentId::try_from(name).map_err(anyhow::Error::msg)?,
        };
        Self::speak_as(home, agent, true, Registration { cwd: None, ..of_kind(kind, known) }).await
    }

    /// Starts over under a fixed name; what an earlier one of that name left open is withdrawn.
    pub async fn begin_anew(home: &Home, name: &str, title: &str) -> anyhow::Result<Self> {
        let agent = AgentId::try_from(name).map_err(anyhow::Error::msg)?;
        let profile = || profile(Some("script"), title, None);
        Self::speak_as(home, agent.clone(), false, profile()).await?.end().await;
        Self::speak_as(home, agent, false, profile()).await
    }

    async fn speak_as(
        home: &Home,
        agent: AgentId,
        shared: bool,
        profile: Registration,
    ) -> anyhow::Result<Self> {
        let client = AgentClient::of(home, agent).await?;
        client.register(&profile, Try::Once).await?;
        Ok(Self { client, shared })
    }

    /// Raises an ask under a key of its own, and returns it.
    pub async fn raise(&self, body: &Body, extra: Extra) -> anyhow::Result<AskView> {
        let agent = self.client.agent().clone();
        let key = Key::from_displayed(&format_args!("{agent}/{}", random_name()?));
        let ask = NewAsk {
            timeout: extra.timeout,
            can: extra.can,
            sub_agent: extra.sub_agent.map(Into::into),
            ..NewAsk::new(key, agent, body)
        };
        Ok(self.client.raise(&ask).await?.ask)
    }

    /// A sign of life between asks.
    pub async fn is_here(&self) -> Result<(), CallError> {
        self.client.register(&Registration::default(), Try::Once).await
    }

    /// How an ask of this agent ended, if it does within this time; whoever raised it.
    pub async fn resolution_within(
        &self,
        ask: &AskId,
        within: Option<Duration>,
    ) -> Result<Option<Resolution<Value>>, CallError> {
        self.client.resolution_within(ask, within).await
    }

    /// How the ask ended, whenever that is; the hub may come and go meanwhile.
    pub async fn resolution(&self, ask: &AskView) -> Result<Resolution, CallError> {
        self.client.resolution(&ask.id, &ask.body, Waits::Alone).await
    }

    pub async fn receipt(&self, ask: &AskId, receipt: Receipt, evidence: &str) -> Result<(), CallError> {
        self.client.receipt(ask, receipt, evidence, Try::UntilHeard).await
    }

    pub async fn withdraw(&self, ask: &AskId) -> Result<Withdrawn, CallError> {
        self.client.withdraw(ask, Withdrawal::Cancelled.into(), Try::Once).await
    }

    pub async fn report(&self, event: &ConversationEvent) -> Result<(), CallError> {
        self.client.event(event, Try::UntilHeard).await
    }

    /// Says goodbye. A hub that does not hear it finds the agent silent by itself.
    pub async fn end(&self) {
        if self.shared {
            return;
        }
        if let Err(error) = self.client.register(&Registration::ended(), Try::Once).await {
            tracing::debug!(%error, "the hub was not told that the script ended");
        }
    }
}

/// A shared agent may be of another kind; one that nobody has announced is a script.
fn profile(kind: Option<&str>, title: &str, pid: Option<u32>) -> Registration {
    let known = Registration {
        host: Some(host().into()),
        cwd: Some(std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned().into()),
        title: Some(title.into()),
        pid,
        ..Registration::state(ReportedState::Working)
    };
    match kind {
        Some(kind) => of_kind(kind, known),
        None => known,
    }
}

fn of_kind(kind: &str, known: Registration) -> Registration {
    Registration { kind: AgentKind::try_from(kind).ok(), reach: Some(Reach::Script), ..known }
}

fn idle(known: Registration) -> Registration {
    Registration { state: Some(ReportedState::Idle), ..known }
}
