//! The hub's API as adapters and commands call it: over the Unix socket, or where `AYE_URL` points.

mod agent;
mod follow;

pub use agent::{AgentClient, Waits, Withdrawn, reporter_name};
pub use follow::Follower;

use crate::home::Home;
use crate::own_folder::NotOurs;
use crate::protocol::{Asks, AsksQuery, Call, Failed, Me, NewToken, StateFilter, WaitQuery, calls};
use crate::transport::{Transport, TransportError};
use crate::url::HubUrl;
use anyhow::Context;
use aye_core::{AgentId, AskId, AskView, Role, Surface};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Longer than the hub lets anybody wait: a connection that died unnoticed must not hold an adapter forever.
const LONGEST_CALL: Duration = Duration::from_secs(90);
/// Seconds a single call waits at the hub; well below the silence that makes an agent lost.
const WAIT: u64 = 25;
/// For commands over the Unix socket: both ends notice at once when the other is gone. An adapter that is stopped is
/// missed after that time.
const WAIT_HERE: u64 = 300;
/// The same where another call is the sign of life.
const LONG_WAIT: u64 = 600;
const LARGEST_REPLY: usize = 256 * 1024 * 1024;
const NULL: &[u8] = b"null";

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(
        "no hub answers at {at}: {source}\nStart one with `aye up`, or point AYE_URL and AYE_TOKEN at one."
    )]
    Unreachable { at: String, source: io::Error },
    #[error(
        "{at} does not show a certificate that is trusted here: {source}\n\
         If it is your own, name it, or its authority's, in AYE_CA_FILE."
    )]
    Untrusted { at: String, source: io::Error },
    #[error("{at} cannot be trusted, so nothing was sent there: {why}")]
    NotOurs { at: String, why: NotOurs },
    #[error("the hub at {at} went away in the middle of a call: {source}")]
    Interrupted { at: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{error}")]
    Refused { status: StatusCode, error: String },
    #[error("the hub's reply makes no sense: {0}")]
    Garbled(String),
}

impl CallError {
    /// Whether the hub may be back soon, and the same call may then succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            CallError::Unreachable { .. } | CallError::Interrupted { .. } => true,
            // The hub, or a proxy before it, has a fault: that says nothing of the ask, least of all that it ended.
            CallError::Refused { status, .. } => status.is_server_error(),
            // Trying again would not make it more trustworthy.
            CallError::Untrusted { .. } | CallError::NotOurs { .. } | CallError::Garbled(_) => false,
        }
    }

    /// The ask has ended another way, or the hub knows better.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT)
    }

    /// The hub has nothing by that name.
    pub fn is_unknown(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    pub fn status(&self) -> Option<StatusCode> {
        match self {
            CallError::Refused { status, .. } => Some(*status),
            CallError::Unreachable { .. }
            | CallError::Untrusted { .. }
            | CallError::NotOurs { .. }
            | CallError::Interrupted { .. }
            | CallError::Garbled(_) => None,
        }
    }
}

/// Whether to retry while the hub is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Try {
    Once,
    UntilHeard,
}

/// One caller; clones share its connections.
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    token: Option<String>,
}

impl Client {
    /// A client with the person's own token: `AYE_TOKEN`, or the operator's from `AYE_HOME`.
    pub fn for_person(home: &Home) -> anyhow::Result<Self> {
        let transport = transport(home)?;
        let token = match (std::env::var("AYE_TOKEN"), transport.is_local()) {
            (Ok(token), _) => Some(token),
            (Err(_), true) => home.read_operator_token().context("cannot read operator.token")?,
            (Err(_), false) => anyhow::bail!("AYE_URL is set, so AYE_TOKEN must be too"),
        };
        Ok(Self { transport, token })
    }

    /// A client that speaks for an agent, with that agent's own token.
    pub async fn for_agent(home: &Home, agent: &AgentId) -> anyhow::Result<Self> {
        let token = Self::agent_token(home, agent).await?;
        Ok(Self { transport: transport(home)?, token: Some(token) })
    }

    /// A token that speaks for this agent and nobody else.
    pub async fn agent_token(home: &Home, agent: &AgentId) -> anyhow::Result<String> {
        let transport = transport(home)?;
        let token = match transport.is_local() {
            true => {
                let nobody = Self { transport, token: None };
                nobody.call(&calls::AGENT_TOKEN, agent.as_str(), &(), &(), Try::Once).await?
            }
            false => {
                let person = Self::for_person(home)?;
                let me = person.me().await?;
                if let Some(its) = me.agent {
                    anyhow::ensure!(its == *agent, "AYE_TOKEN belongs to the agent {its}, not to {agent}");
                    return person.token.context("there is no AYE_TOKEN");
                }
                let new = NewToken { role: Role::Agent, agent: Some(agent.clone()), name: None };
                person.call(&calls::MAKE_TOKEN, "", &(), &new, Try::Once).await?
            }
        };
        Ok(token.token)
    }

    /// The agent that `AYE_TOKEN` belongs to, if it is an agent's.
    pub async fn own_agent(home: &Home) -> anyhow::Result<Option<AgentId>> {
        if std::env::var_os("AYE_TOKEN").is_none() {
            return Ok(None);
        }
        Ok(Self::for_person(home)?.me().await?.agent)
    }

    /// Who the token in use belongs to.
    pub async fn me(&self) -> Result<Me, CallError> {
        self.call(&calls::ME, "", &(), &(), Try::Once).await
    }

    /// Makes a call about `id`, where the call is about one. Only one that may be repeated is made until it is heard.
    pub async fn call<Q: Serialize, B: Serialize, R: DeserializeOwned>(
        &self,
        call: &Call<Q, B, R>,
        id: &str,
        query: &Q,
        body: &B,
        how: Try,
    ) -> Result<R, CallError> {
        let (method, path, body) = (call.method.clone(), call.path_with(id, query), written(body)?);
        read(&match how {
            Try::Once => self.send(method, &path, body).await?,
            Try::UntilHeard => self.insist_for(LONGEST_CALL, method, &path, body).await?,
        })
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        read(&self.send(Method::GET, path, None).await?)
    }

    async fn insist_for(
        &self,
        longest: Duration,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, CallError> {
        let mut pause = Duration::from_millis(50);
        loop {
            match self.send_within(longest, method.clone(), path, body.clone()).await {
                Err(error) if error.is_passing() => {
                    match error.status() {
                        Some(StatusCode::INTERNAL_SERVER_ERROR) => tracing::warn!(%error, "trying again"),
                        _ => tracing::debug!(%error, "trying again"),
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                other => return other,
            }
        }
    }

    /// How an ask ended, whenever that is. Where commands are polled as well, this
    /// call may wait long, so that 1,000 waiting adapters cost little.
    async fn resolution(&self, ask: &AskId, waits: Waits) -> Result<Value, CallError> {
        let wait = match waits {
            Waits::Alone => WAIT,
            Waits::BesideCommands => self.wait_of(LONG_WAIT),
        };
        let path = calls::RESOLUTION.path_with(ask.as_str(), &WaitQuery { wait: Some(wait) });
        let longest = LONGEST_CALL + Duration::from_secs(wait);
        loop {
            let resolution: Value = read(&self.insist_for(longest, Method::GET, &path, None).await?)?;
            if !resolution.is_null() {
                return Ok(resolution);
            }
        }
    }

    /// Seconds to wait for commands.
    fn wait_for_commands(&self) -> u64 {
        self.wait_of(WAIT_HERE)
    }

    fn wait_of(&self, here: u64) -> u64 {
        if self.transport.is_local() { here } else { WAIT }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, CallError> {
        self.send_within(LONGEST_CALL, method, path, body).await
    }

    async fn send_within(
        &self,
        longest: Duration,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, CallError> {
        let exchange = self.transport.exchange(self.request(method, path, body), LARGEST_REPLY);
        match tokio::time::timeout(longest, exchange).await {
            Err(_) => Err(self.interrupted("no reply came")),
            Ok(Ok((status, bytes))) => reply(status, bytes),
            Ok(Err(error)) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: TransportError) -> CallError {
        let at = self.transport.at();
        match error {
            TransportError::Unreachable(source) => CallError::Unreachable { at, source },
            TransportError::Untrusted(source) => CallError::Untrusted { at, source },
            TransportError::NotOurs(why) => CallError::NotOurs { at, why },
            TransportError::Interrupted(source) => CallError::Interrupted { at, source },
            TransportError::TooLong => CallError::Garbled(error.to_string()),
        }
    }

    fn interrupted(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CallError {
        CallError::Interrupted { at: self.transport.at(), source: why.into() }
    }

    fn request(&self, method: Method, path: &str, body: Option<Bytes>) -> Request<Full<Bytes>> {
        let has_body = body.is_some();
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap_or_default();
        let mut set = |name: header::HeaderName, value: &str| {
            if let Ok(value) = header::HeaderValue::from_str(value) {
                request.headers_mut().insert(name, value);
            }
        };
        set(header::HeaderName::from_static("aye-surface"), Surface::Terminal.as_str());
        if has_body {
            set(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            set(header::AUTHORIZATION, &format!("Bearer {token}"));
        }
        request
    }

    /// All open asks as they came.
    pub async fn open_asks(&self) -> Result<Asks<Value>, CallError> {
        let mut all = self.open_page(None).await?;
        while let Some(after) = all.next.take() {
            let page = self.open_page(Some(after)).await?;
            all.asks.extend(page.asks);
            all.next = page.next;
        }
        Ok(all)
    }

    /// As many open asks as are sent at once, from the first or from after this one.
    async fn open_page<A: DeserializeOwned>(&self, after: Option<AskId>) -> Result<Asks<A>, CallError> {
        let query = AsksQuery { state: Some(StateFilter::Open), after, ..AsksQuery::default() };
        self.get(&calls::ASKS.path_with("", &query)).await
    }

    /// The ask whose id begins like this, as people type it.
    pub async fn find_ask(&self, prefix: &AskId) -> anyhow::Result<(Value, AskView)> {
        let query = AsksQuery { id: Some(prefix.clone()), limit: Some(20), ..AsksQuery::default() };
        let Asks { asks, next } = self.get::<Asks<Value>>(&calls::ASKS.path_with("", &query)).await?;
        let exact = asks.iter().find(|ask| ask["id"] == prefix.as_str());
        let ask = match (exact, asks.as_slice()) {
            (Some(ask), _) => ask.clone(),
            // A page of very long asks can hold just one, so one result is unique only if there is no next page.
            (None, [ask]) if next.is_none() => ask.clone(),
            (None, []) => anyhow::bail!("there is no request {prefix}; `aye list` shows the open ones"),
            (None, _) => anyhow::bail!("several requests begin with {prefix}: type more of the id"),
        };
        let view =
            AskView::from_json(ask.clone()).map_err(|invalid| CallError::Garbled(invalid.to_string()))?;
        Ok((ask, view))
    }
}

fn transport(home: &Home) -> anyhow::Result<Arc<Transport>> {
    Ok(Arc::new(match std::env::var("AYE_URL") {
        Err(_) => Transport::unix(home.socket(), home.socket_links()),
        Ok(url) => {
            let url = HubUrl::try_from(url).map_err(|wrong| anyhow::anyhow!("AYE_URL {wrong}"))?;
            Transport::tcp(url).context("AYE_URL cannot be used")?
        }
    }))
}

/// What a call that succeeded was told.
fn reply(status: StatusCode, bytes: Bytes) -> Result<Bytes, CallError> {
    if status.is_success() {
        return Ok(bytes);
    }
    let error = match serde_json::from_slice::<Failed<Value>>(&bytes) {
        Ok(Failed { error, field: Some(field), .. }) if !field.is_empty() => format!("{field}: {error}"),
        Ok(Failed { error, .. }) => error,
        // A proxy says in its own words that the hub is not there.
        Err(_) if status.is_server_error() || is_json(&bytes) => format!("the hub answered {status}"),
        Err(error) => return Err(CallError::Garbled(error.to_string())),
    };
    Err(CallError::Refused { status, error })
}

/// Or nothing at all.
fn is_json(bytes: &[u8]) -> bool {
    bytes.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

fn written(body: &impl Serialize) -> Result<Option<Bytes>, CallError> {
    let body = serde_json::to_vec(body).map_err(|error| CallError::Garbled(error.to_string()))?;
    Ok(Some(Bytes::from(body)).filter(|body| *body != NULL))
}

/// An empty reply is null.
fn read<T: DeserializeOwned>(reply: &[u8]) -> Result<T, CallError> {
    let reply = if reply.is_empty() { NULL } else { reply };
    serde_json::from_slice(reply).map_err(|error| CallError::Garbled(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    #[tokio::test]
    async fn a_call_that_meets_a_fault_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.prepare().unwrap();
        let hub = UnixListener::bind(home.socket()).unwrap();
        let replies = async {
            let own = "500 Internal Server Error\r\ncontent-length: 16\r\n\r\n{\"error\":\"oops\"}";
            let of_a_proxy = "502 Bad Gateway\r\ncontent-length: 11\r\n\r\n<h1>no</h1>";
            let good = "200 OK\r\ncontent-length: 2\r\n\r\n{}";
            for reply in [own, of_a_proxy, good] {
                let (mut stream, _) = hub.accept().await.unwrap();
                assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
                let reply = format!("HTTP/1.1 {reply}");
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let transport = Arc::new(Transport::unix(home.socket(), home.socket_links()));
        let client = Client { transport, token: None };
        let call = Call::<(), (), Value>::post("/called/{id}", "");
        let withdrawn = client.call(&call, "a", &(), &(), Try::UntilHeard);
        tokio::select! {
            withdrawn = withdrawn => assert_eq!(withdrawn.unwrap(), json!({})),
            () = replies => {}
        }
    }
}
