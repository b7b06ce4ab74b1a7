//! An MCP server with two tools, so that any agent can ask a person: `ask_human` raises an ask and waits for its end,
//! and `check_answer` looks at one that was left open with a ticket. `aye mcp` serves it on standard input and output,
//! the hub at `/mcp`; how an ask reaches the hub is theirs.

mod arguments;
mod distinct;
mod result;

pub use arguments::{AskHuman, CheckAnswer};
pub use distinct::DistinctIds;

use crate::protocol::Resolution;
use aye_core::{AskId, AskState, Body, Can};
use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often a client that wants to know is told that its call still waits; below the patience of those that wait
/// anew from each notice on.
const NOTICE_EVERY: Duration = Duration::from_secs(5);

const CANCELLED: &str = "the client cancelled the call, and the request was taken back";
const INSTRUCTIONS: &str = "Ask the person you work for with ask_human whenever you need a decision, a fact that only \
    they know, or their permission. Silence is never an answer.";

/// Who a question comes from, in the client's own words.
pub struct McpClientName<'a> {
    pub client: &'a str,
    /// A client that is given a ticket may be gone when the answer comes.
    pub leaves_with_ticket: bool,
}

/// How asks reach the hub. Errors are sentences for the agent.
pub trait AskBackend: Clone + Send + Sync + 'static {
    /// An ask of this server's client.
    type Ask: Send + Sync + 'static;

    fn raise(
        &self,
        asker: McpClientName<'_>,
        body: &Body,
        can: Can,
    ) -> impl Future<Output = Result<Self::Ask, String>> + Send;

    fn id<'a>(&self, ask: &'a Self::Ask) -> &'a AskId;

    /// The ask that a ticket was given for, to a client of this name.
    fn find(&self, client: &str, ticket: AskId) -> impl Future<Output = Result<Self::Ask, String>> + Send;

    /// How the ask ended, if it does within this time; without one, whenever that is.
    fn resolution(
        &self,
        ask: &Self::Ask,
        within: Option<Duration>,
    ) -> impl Future<Output = Result<Option<Resolution<Value>>, String>> + Send;

    fn delivered(&self, ask: &Self::Ask) -> impl Future<Output = ()> + Send;

    /// Takes the ask back; an answer that was faster reaches nobody.
    fn withdraw(&self, ask: &Self::Ask) -> impl Future<Output = ()> + Send;
}

/// The server, for one client.
#[derive(Clone)]
pub struct Server<A> {
    pub asks: A,
    /// How long `ask_human` waits before it gives a ticket, where the call does not say; without it, as long as it takes.
    pub patience: Option<Duration>,
    /// The client is gone, or the call was cancelled in a way that the transport does not know of.
    pub gone: CancellationToken,
    /// What is under way. It outlives the transport, so that a client that goes takes its asks with it.
    pub tasks: TaskTracker,
}

impl<A: AskBackend> Server<A> {
    async fn ask_human(self, wanted: AskHuman, call: McpCall) -> Result<CallToolResult, String> {
        let (body, can) = wanted.body()?;
        let wait = wanted.wait().or(self.patience);
        let asker = McpClientName { client: &call.client, leaves_with_ticket: wait.is_some() };
        let ask = self.asks.raise(asker, &body, can).await?;
        let ended = tokio::select! {
            biased;
            () = self.is_gone(&call) => {
                self.asks.withdraw(&ask).await;
                return Err(CANCELLED.into());
            }
            ended = self.asks.resolution(&ask, wait) => ended,
            () = call.keep_informed() => Ok(None),
        };
        match ended {
            Ok(Some(resolution)) => Ok(self.deliver(ask, &resolution)),
            Ok(None) => Ok(result::still_open(self.asks.id(&ask))),
            Err(error) if wait.is_some() => Ok(result::unknown(self.asks.id(&ask), &error)),
            Err(error) => {
                // Nobody has a ticket for it, so no answer would reach anybody. The hub may be away.
                let asks = self.asks.clone();
                self.tasks.spawn(async move { asks.withdraw(&ask).await }.boxed());
                Err(error)
            }
        }
    }

    async fn check_answer(self, wanted: CheckAnswer, call: McpCall) -> Result<CallToolResult, String> {
        let ask = self.asks.find(&call.client, wanted.ticket()?).await?;
        let ended = tokio::select! {
            biased;
            // It was left open with a ticket, and stays so.
            () = self.is_gone(&call) => return Err("the client cancelled the call".into()),
            ended = self.asks.resolution(&ask, Some(wanted.wait().unwrap_or_default())) => ended?,
            () = call.keep_informed() => None,
        };
        match ended {
            Some(resolution) => Ok(self.deliver(ask, &resolution)),
            None => Ok(result::still_open(self.asks.id(&ask))),
        }
    }

    /// The receipt holds up nobody: the hub may be away by now.
    fn deliver(&self, ask: A::Ask, resolution: &Resolution<Value>) -> CallToolResult {
        if resolution.state != AskState::Withdrawn {
            let asks = self.asks.clone();
            self.tasks.spawn(async move { asks.delivered(&ask).await }.boxed());
        }
        result::of(resolution)
    }

    async fn is_gone(&self, call: &McpCall) {
        tokio::select! {
            () = self.gone.cancelled() => {}
            () = call.context.ct.cancelled() => {}
        }
    }
}

/// One call of a tool.
struct McpCall {
    context: RequestContext<RoleServer>,
    client: String,
}

impl McpCall {
    fn of(context: RequestContext<RoleServer>) -> Self {
        let named = context.peer.peer_info().map(|peer| peer.client_info.name.clone());
        let client = named.filter(|name| !name.trim().is_empty());
        Self { context, client: client.unwrap_or_else(|| "an MCP client".into()) }
    }

    /// Says that it still waits, for as long as somebody listens; never ends by itself.
    async fn keep_informed(&self) {
        let Some(token) = self.context.meta.get_progress_token() else { return std::future::pending().await };
        let mut ticks = tokio::time::interval(NOTICE_EVERY);
        let mut notices = 0.0;
        loop {
            ticks.tick().await;
            let notice = ProgressNotificationParam::new(token.clone(), notices)
                .with_message("Waiting for a person to answer");
            if let Err(error) = self.context.peer.notify_progress(notice).await {
                tracing::debug!(%error, "the client was not told that its call still waits");
            }
            notices += 1.0;
        }
    }
}

fn read<T: DeserializeOwned>(arguments: Option<Map<String, Value>>) -> Result<T, String> {
    let wanted = aye_core::invalid::decode(Value::Object(arguments.unwrap_or_default()));
    wanted.map_err(|invalid| invalid.to_string())
}

impl<A: AskBackend> ServerHandler for Server<A> {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("aye", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(arguments::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        arguments::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (server, call, arguments) = (self.clone(), McpCall::of(context), request.arguments);
        let told = match &*request.name {
            AskHuman::TOOL => {
                self.tasks.spawn(async move { server.ask_human(read(arguments)?, call).await }.boxed()).await
            }
            CheckAnswer::TOOL => {
                self.tasks
                    .spawn(async move { server.check_answer(read(arguments)?, call).await }.boxed())
                    .await
            }
            other => return Err(ErrorData::invalid_params(format!("there is no tool {other:?}"), None)),
        };
        let told = told.unwrap_or_else(|fault| Err(format!("aye has a fault: {fault}")));
        Ok(told.unwrap_or_else(|problem| result::problem(&problem)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::ServiceExt;
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::sync::mpsc;

    /// A hub that cannot be waited for.
    #[derive(Clone)]
    struct Faulty {
        withdrawn: mpsc::Sender<AskId>,
    }

    impl AskBackend for Faulty {
        type Ask = AskId;

        async fn raise(&self, _: McpClientName<'_>, _: &Body, _: Can) -> Result<AskId, String> {
            Ok(AskId::try_from("k3v9m2pqxx").unwrap())
        }

        fn id<'a>(&self, ask: &'a AskId) -> &'a AskId {
            ask
        }

        async fn find(&self, _: &str, ticket: AskId) -> Result<AskId, String> {
            Ok(ticket)
        }

        async fn resolution(
            &self,
            _: &AskId,
            _: Option<Duration>,
        ) -> Result<Option<Resolution<Value>>, String> {
            Err("the hub has a fault".into())
        }

        async fn delivered(&self, _: &AskId) {}

        async fn withdraw(&self, ask: &AskId) {
            self.withdrawn.send(ask.clone()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_ask_that_cannot_be_waited_for_is_taken_back_unless_a_ticket_leads_to_it() {
        for wait in [None, Some(0)] {
            let (sender, mut withdrawn) = mpsc::channel(1);
            let (ours, theirs) = tokio::io::duplex(4096);
            let (asks, tasks) = (Faulty { withdrawn: sender }, TaskTracker::new());
            let server =
                Server { asks, patience: None, gone: CancellationToken::new(), tasks: tasks.clone() };
            tasks.spawn(async move { server.serve(theirs).await.unwrap().waiting().await.unwrap() });
            let (read, mut write) = tokio::io::split(ours);
            let mut lines = BufReader::new(read).lines();
            let info = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            let mut arguments = json!({"question": "Which?"});
            if let Some(seconds) = wait {
                arguments["wait_seconds"] = json!(seconds);
            }
            for message in [
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}),
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask_human", "arguments": arguments}}),
            ] {
                write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
            lines.next_line().await.unwrap();
            let told = lines.next_line().await.unwrap().unwrap();
            assert!(told.contains("the hub has a fault"), "{told}");
            assert_eq!(told.contains("k3v9m2pqxx"), wait.is_some(), "{told}");
            drop((lines, write));
            tasks.close();
            tasks.wait().await;
            assert_eq!(withdrawn.recv().await.is_some(), wait.is_none());
        }
    }
}
