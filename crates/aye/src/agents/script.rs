//! A script that asks: it raises one ask, waits for its end through hub restarts, and says what it did with it.

use super::random_name;
use crate::client::{AgentClient, CallError, Client, Try, Waits, Withdrawn};
use crate::home::Home;
use crate::processes::host;
use crate::protocol::{ConversationEvent, NewAsk, Registration, Resolution};
use aye_core::{AgentId, AgentKind, AskView, Body, Key, Reach, Receipt, Report, Withdrawal};
use serde_json::Value;

pub struct Script {
    client: AgentClient,
    /// The agent is not this process alone.
    shared: bool,
}

impl Script {
    /// Announces this process as a script. Under a token of its own it speaks as that token's agent, which
    /// other processes may be too, and which therefore neither begins nor ends with this one.
    pub async fn announce(home: &Home, title: &str) -> anyhow::Result<Self> {
        match Client::own_agent(home).await? {
            Some(agent) => Self::speak_as(home, agent, true, title, None).await,
            None => {
                let agent =
                    AgentId::try_from(format!("script-{}", random_name()?)).map_err(anyhow::Error::msg)?;
                Self::speak_as(home, agent, false, title, Some(std::process::id())).await
            }
        }
    }

    /// Starts over under a fixed name; what an earlier one of that name left open is withdrawn.
    pub async fn begin_anew(home: &Home, name: &str, title: &str) -> anyhow::Result<Self> {
        let agent = AgentId::try_from(name).map_err(anyhow::Error::msg)?;
        Self::speak_as(home, agent.clone(), false, title, None).await?.end().await;
        Self::speak_as(home, agent, false, title, None).await
    }

    async fn speak_as(
        home: &Home,
        agent: AgentId,
        shared: bool,
        title: &str,
        pid: Option<u32>,
    ) -> anyhow::Result<Self> {
        let client = AgentClient::of(home, agent).await?;
        let profile = Registration {
            // A shared one may be of another kind; one that nobody has announced is a script.
            kind: AgentKind::try_from("script").ok().filter(|_| !shared),
            reach: (!shared).then_some(Reach::Script),
            host: Some(host().into()),
            cwd: Some(std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned().into()),
            title: Some(title.into()),
            pid,
            ..Registration::state(Report::Working)
        };
        client.register(&profile, Try::Once).await?;
        Ok(Self { client, shared })
    }

    /// Raises an ask under a key of its own, and returns it.
    pub async fn raise(&self, body: &Body, timeout: Option<String>) -> anyhow::Result<AskView> {
        let agent = self.client.agent().clone();
        let key = Key::from_displayed(&format_args!("{agent}/{}", random_name()?));
        let ask = NewAsk { timeout: timeout.map(Value::from), ..NewAsk::new(key, agent, body) };
        Ok(self.client.raise(&ask).await?.ask)
    }

    /// How the ask ended, whenever that is; the hub may come and go meanwhile.
    pub async fn resolution(&self, ask: &AskView) -> Result<Resolution, CallError> {
        self.client.resolution(&ask.id, &ask.body, Waits::Alone).await
    }

    pub async fn receipt(&self, ask: &AskView, receipt: Receipt, evidence: &str) -> Result<(), CallError> {
        self.client.receipt(&ask.id, receipt, evidence, Try::UntilHeard).await
    }

    pub async fn withdraw(&self, ask: &AskView) -> Result<Withdrawn, CallError> {
        self.client.withdraw(&ask.id, Withdrawal::Cancelled.into(), Try::Once).await
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
