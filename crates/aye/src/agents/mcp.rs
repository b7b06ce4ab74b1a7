//! What an MCP client on standard input and output asks: as an agent of this process, which takes its asks with it, or,
//! where the client may leave with a ticket, as an agent that all processes of this client share.

use super::script::{Extra, Script};
use crate::client::Withdrawn;
use crate::home::Home;
use crate::mcp::{AskBackend, McpClientName};
use crate::protocol::Resolution;
use aye_core::{AskId, Body, Can, Receipt};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The kind of these agents; their ids begin with it.
const KIND: &str = "mcp";
/// Longer names of clients are cut in ids.
const LONGEST_NAME: usize = 40;
/// Well below the silence that makes an agent lost.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(25);

/// Clones are the same client. Nobody is announced before the first ask: many clients never ask.
#[derive(Clone)]
pub struct McpClient(Arc<Inner>);

struct Inner {
    home: Home,
    own: OnceCell<Script>,
    shared: OnceCell<Script>,
}

impl McpClient {
    pub fn new(home: Home) -> Self {
        Self(Arc::new(Inner { home, own: OnceCell::new(), shared: OnceCell::new() }))
    }

    /// Keeps the agents from being taken for lost between two asks.
    pub async fn show_signs_of_life(&self) {
        loop {
            tokio::time::sleep(SIGN_OF_LIFE_EVERY).await;
            for script in [self.0.own.get(), self.0.shared.get()].into_iter().flatten() {
                if let Err(error) = script.is_here().await {
                    tracing::debug!(%error, "the hub heard no sign of life");
                }
            }
        }
    }

    /// Says goodbye. What was left open with a ticket stays.
    pub async fn end(&self) {
        if let Some(own) = self.0.own.get() {
            own.end().await;
        }
    }

    async fn own(&self, client: &str) -> anyhow::Result<&Script> {
        let name = name_of(client);
        self.0.own.get_or_try_init(|| Script::announce_idle(&self.0.home, KIND, &name, client)).await
    }

    async fn shared(&self, client: &str) -> anyhow::Result<&Script> {
        let name = name_of(client);
        self.0.shared.get_or_try_init(|| Script::join(&self.0.home, KIND, &name, client)).await
    }

    async fn try_raise(&self, asker: McpClientName<'_>, body: &Body, can: Can) -> anyhow::Result<OwnAsk> {
        let extra = Extra { can, ..Extra::default() };
        let (script, extra) = match asker.leaves_with_ticket {
            false => (self.own(asker.client).await?, extra),
            true => {
                let here = std::env::current_dir().unwrap_or_default();
                let who = format!("{} in {}", asker.client, here.display());
                (self.shared(asker.client).await?, Extra { sub_agent: Some(who), ..extra })
            }
        };
        let ask = script.raise(body, extra).await?;
        Ok(OwnAsk { script: script.clone(), id: ask.head.id })
    }
}

/// The client's own name as a part of an id: `mcp-cursor`.
fn name_of(client: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = client.chars().map(plain).take(LONGEST_NAME).collect();
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
    [&[KIND], words.as_slice()].concat().join("-")
}

/// An ask, and the agent that raised it.
pub struct OwnAsk {
    script: Script,
    id: AskId,
}

impl AskBackend for McpClient {
    type Ask = OwnAsk;

    async fn raise(&self, asker: McpClientName<'_>, body: &Body, can: Can) -> Result<OwnAsk, String> {
        self.try_raise(asker, body, can).await.map_err(|error| error.to_string())
    }

    fn id<'a>(&self, ask: &'a OwnAsk) -> &'a AskId {
        &ask.id
    }

    async fn find(&self, client: &str, ticket: AskId) -> Result<OwnAsk, String> {
        let script = self.shared(client).await.map_err(|error| error.to_string())?;
        Ok(OwnAsk { script: script.clone(), id: ticket })
    }

    async fn resolution(
        &self,
        ask: &OwnAsk,
        within: Option<Duration>,
    ) -> Result<Option<Resolution<Value>>, String> {
        ask.script.resolution_within(&ask.id, within).await.map_err(|error| error.to_string())
    }

    async fn delivered(&self, ask: &OwnAsk) {
        let evidence = "written into the result of the MCP tool call";
        if let Err(error) = ask.script.receipt(&ask.id, Receipt::Delivered, evidence).await {
            tracing::debug!(%error, "the hub took no receipt");
        }
    }

    async fn withdraw(&self, ask: &OwnAsk) {
        let evidence = "the MCP client no longer waited for it";
        let told = match ask.script.withdraw(&ask.id).await {
            Ok(Withdrawn::TakenBack) => return,
            Ok(Withdrawn::TooLate) => ask.script.receipt(&ask.id, Receipt::Undelivered, evidence).await,
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::debug!(%error, "the ask could not be taken back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_a_name_that_can_be_an_id() {
        let long = "x".repeat(500);
        for (client, name) in [
            ("Cursor", "mcp-cursor"),
            ("Claude Desktop (v2)", "mcp-claude-desktop-v2"),
            ("../ü\n", "mcp"),
            (long.as_str(), &format!("mcp-{}", "x".repeat(LONGEST_NAME))),
        ] {
            assert_eq!(name_of(client), name);
            assert!(aye_core::AgentId::try_from(name_of(client)).is_ok());
        }
    }
}
