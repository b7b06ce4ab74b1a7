//! The MCP server at `/mcp`, for agents with a token. Every call stands by itself, so a hub that was restarted takes
//! the next one; the session that clients are told of only tells their calls apart.

use super::App;
use super::caller::Caller;
use super::json::{Body, Failure, LARGE};
use crate::hub::{Hub, Problem, Raise};
use crate::mcp::{AskBackend, McpClientName, Server};
use crate::protocol::{Outcome, Registration, Resolution};
use crate::random::random_hex;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use aye_core::{
    AgentId, AskId, Body as AskBody, Can, Delivery, Key, Reach, Receipt, ReportedState, Withdrawal,
};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Well below the silence that makes an agent lost.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(25);

pub async fn serve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    mut parts: Parts,
    Body(message): Body<Value, LARGE>,
) -> Result<Response, Failure> {
    let agent = caller.agent()?;
    let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    let named = |id: &Value| CallName { agent: agent.clone(), session: session.into(), id: id.to_string() };
    if message["method"] == "notifications/cancelled" {
        app.mcp_calls.cancel(&named(&message["params"]["requestId"]));
    }
    if message["method"] == "initialize" {
        introduce(&app.hub, &agent, &message["params"]["clientInfo"]["name"]).await;
    }
    let gone = app.stop.child_token();
    let call = McpCalls::enter(&app.mcp_calls, named(&message["id"]), gone.clone());
    let asks = HubAsks { hub: app.hub.clone(), agent, _call: Arc::new(call) };
    let server = Server { asks, patience: None, gone, tasks: app.tasks.clone() };
    // Host and Origin were checked already, as for every call.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_cancellation_token(app.stop.child_token());
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    parts.headers.remove(CONTENT_LENGTH);
    let request = Request::from_parts(parts, axum::body::Body::from(message.to_string()));
    let mut response = service.handle(request).await.map(axum::body::Body::new);
    if message["method"] == "initialize"
        && let Ok(session) = random_hex::<16>()
        && let Ok(session) = HeaderValue::from_str(&session)
    {
        response.headers_mut().insert(SESSION, session);
    }
    Ok(response)
}

/// Gives the agent its client's name, unless it has a title, and marks it idle: of a client that only asks, nothing
/// else is known.
async fn introduce(hub: &Hub, agent: &AgentId, client: &Value) {
    let known = hub.agent(agent.as_str()).await.ok();
    // A token may belong to an agent that reports for itself.
    if known.is_some_and(|known| known.reach != Reach::Script || !known.title.is_empty()) {
        return;
    }
    let title = client.as_str().filter(|name| !name.trim().is_empty()).map(|name| name.to_owned().into());
    let news = Registration { title, ..Registration::state(ReportedState::Idle) };
    if let Err(error) = hub.register(agent.clone(), news).await {
        tracing::warn!(%error, %agent, "the name of an MCP client was not recorded");
    }
}

/// A call, as its client names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CallName {
    agent: AgentId,
    session: String,
    id: String,
}

/// The calls under way, so that a later call can cancel one.
#[derive(Default)]
pub struct McpCalls(Mutex<HashMap<CallName, Vec<Arc<CancellationToken>>>>);

impl McpCalls {
    fn enter(calls: &Arc<Self>, name: CallName, gone: CancellationToken) -> OpenCall {
        let gone = Arc::new(gone);
        let mut open = calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(name.clone()).or_default().push(gone.clone());
        drop(open);
        OpenCall { calls: calls.clone(), name, gone }
    }

    /// Two clients may share a token and count alike; then nobody knows whose call is meant, and none is cancelled.
    fn cancel(&self, name: &CallName) {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some([only]) = open.get(name).map(Vec::as_slice) {
            only.cancel();
        }
    }
}

struct OpenCall {
    calls: Arc<McpCalls>,
    name: CallName,
    gone: Arc<CancellationToken>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut open = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = open.get_mut(&self.name) {
            same.retain(|other| !Arc::ptr_eq(other, &self.gone));
            if same.is_empty() {
                open.remove(&self.name);
            }
        }
    }
}

/// What the client of one call asks, as the agent that its token belongs to.
#[derive(Clone)]
struct HubAsks {
    hub: Hub,
    agent: AgentId,
    _call: Arc<OpenCall>,
}

fn in_words(problem: &Problem) -> String {
    problem.to_string()
}

impl AskBackend for HubAsks {
    type Ask = AskId;

    async fn raise(&self, _: McpClientName<'_>, body: &AskBody, can: Can) -> Result<AskId, String> {
        let name = random_hex::<6>().map_err(|error| error.to_string())?;
        let raise = Raise {
            key: Key::from_displayed(&format_args!("mcp/{name}")),
            agent: self.agent.clone(),
            body: body.clone(),
            before: None,
            cwd: None,
            timeout: None,
            tool_use_id: None,
            sub_agent: None,
            can,
        };
        let raised = self.hub.raise(raise).await.map_err(|problem| in_words(&problem))?;
        Ok(raised.ask.head.id)
    }

    fn id<'a>(&self, ask: &'a AskId) -> &'a AskId {
        ask
    }

    async fn find(&self, _: &str, ticket: AskId) -> Result<AskId, String> {
        Ok(ticket)
    }

    async fn resolution(
        &self,
        ask: &AskId,
        within: Option<Duration>,
    ) -> Result<Option<Resolution<Value>>, String> {
        let until = within.map(|within| Instant::now() + within);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(SIGN_OF_LIFE_EVERY).min(SIGN_OF_LIFE_EVERY);
            let ended = self.hub.resolution(ask, &self.agent, wait).await;
            match ended.map_err(|problem| in_words(&problem))? {
                Some(Resolution { state, outcome: Outcome { decision, answer, message }, by }) => {
                    let answer = answer.map(|answer| answer.to_json());
                    return Ok(Some(Resolution {
                        state,
                        outcome: Outcome { decision, answer, message },
                        by,
                    }));
                }
                None if left.is_some_and(|left| left.is_zero()) => return Ok(None),
                None => self.hub.heard(&self.agent).await.map_err(|problem| in_words(&problem))?,
            }
        }
    }

    async fn delivered(&self, ask: &AskId) {
        self.tell(ask, Receipt::Delivered, "written into the result of the MCP tool call").await;
    }

    async fn withdraw(&self, ask: &AskId) {
        let (id, agent) = (ask.clone(), self.agent.clone());
        match self.hub.withdraw(id, agent, Withdrawal::Cancelled, None).await {
            Ok(_) => {}
            Err(Problem::Refused { .. }) => {
                self.tell(ask, Receipt::Undelivered, "the MCP client no longer waited for it").await;
            }
            Err(error) => tracing::warn!(%error, %ask, "an ask could not be taken back"),
        }
    }
}

impl HubAsks {
    /// What the hub knows already is no failure.
    async fn tell(&self, ask: &AskId, receipt: Receipt, evidence: &str) {
        let delivery = Delivery { receipt, evidence: Some(evidence.into()) };
        match self.hub.receipt(ask.clone(), self.agent.clone(), delivery).await {
            Ok(_) | Err(Problem::Refused { .. }) => {}
            Err(error) => tracing::warn!(%error, %ask, "a receipt was not taken"),
        }
    }
}
