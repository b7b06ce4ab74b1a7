//! A script that asks: it raises one ask, waits for its end through hub restarts, and says what it did with it.

use super::random_name;
use crate::client::{CallError, Client};
use crate::home::Home;
use aye_core::{AgentId, Body};
use hyper::Method;
use serde_json::{Value, json};

pub struct Script {
    client: Client,
    agent: AgentId,
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

    /// Begins anew under a fixed name; what an earlier one of that name left open is withdrawn.
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
        let client = Client::for_agent(home, &agent).await?;
        let script = Self { client, agent, shared };
        let cwd = std::env::current_dir().unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let profile = json!({
            "kind": "script", "reach": "script", "host": host, "cwd": cwd.to_string_lossy(), "title": title,
            "pid": pid, "state": "working",
        });
        script.client.put(&script.path(""), profile).await?;
        Ok(script)
    }

    /// Raises an ask under a key that names it for ever, and returns it.
    pub async fn raise(&self, body: &Body, timeout: Option<&str>) -> anyhow::Result<Value> {
        let raise = json!({
            "key": format!("{}/{}", self.agent, random_name()?),
            "agent": self.agent,
            "kind": body.kind(),
            "body": body,
            "timeout": timeout,
        });
        Ok(self.client.insist(Method::POST, "/api/asks", Some(raise)).await?)
    }

    /// How the ask ended, whenever that is; the hub may come and go meanwhile.
    pub async fn resolution(&self, ask: &str) -> Result<Value, CallError> {
        self.client.resolution(ask).await
    }

    pub async fn receipt(&self, ask: &str, receipt: &str, evidence: &str) -> Result<Value, CallError> {
        let body = json!({ "receipt": receipt, "evidence": evidence });
        self.client.insist(Method::POST, &format!("/api/asks/{ask}/receipt"), Some(body)).await
    }

    pub async fn withdraw(&self, ask: &str) -> Result<Value, CallError> {
        self.client.post(&format!("/api/asks/{ask}/withdraw"), json!({ "why": "cancelled" })).await
    }

    pub async fn report(&self, event: Value) -> Result<Value, CallError> {
        self.client.insist(Method::POST, &self.path("/events"), Some(json!({ "events": [event] }))).await
    }

    /// Says goodbye. A hub that does not hear it finds the agent silent by itself.
    pub async fn end(&self) {
        if self.shared {
            return;
        }
        if let Err(error) = self.client.put(&self.path(""), json!({ "state": "ended" })).await {
            tracing::debug!(%error, "the hub was not told that the script ended");
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/agents/{}{rest}", self.agent)
    }
}
