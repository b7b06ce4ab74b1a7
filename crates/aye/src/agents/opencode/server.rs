//! The way to OpenCode's server: calls over HTTP with a password of their own, and its events, which it sends for as long
//! as it runs. What a call returned comes back among the events, because only they are read.

use crate::agents::driven::{Pipes, Writer};
use crate::agents::lines::{LONGEST, Line, next_line};
use crate::tcp_peer;
use crate::transport::Transport;
use crate::url::HubUrl;
use anyhow::Context;
use data_encoding::BASE64;
use futures_util::FutureExt;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::Value;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufRead, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The name by which its password is asked for.
pub const USER: &str = "opencode";
/// What it prints once it listens.
const LISTENS: &str = "opencode server listening on ";
const LONGEST_GREETING: usize = 4096;
/// How long it may take to begin to tell of events.
const LONGEST_GREETING_TIME: Duration = Duration::from_secs(5);
/// A server that does not reply in this time will not.
const LONGEST_CALL: Duration = Duration::from_secs(30);
const LONGEST_REPLY: usize = 16 * 1024 * 1024;

/// A call of its API.
pub struct HttpCall {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
    pub then: Then,
}

pub enum Then {
    /// It is an answer, which OpenCode takes with `true`; unknown paths get a page and no error.
    IsTaken,
    /// What it returns is read under this name.
    Read(Awaited),
}

/// What a call of ours was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    Config,
    Sessions,
    Session,
    Prompt,
    Abort,
}

/// What is read from the server.
pub enum Incoming {
    Event(Vec<u8>),
    /// An event that is too long to be read, with its length in bytes.
    TooLong(usize),
    Returned {
        to: Awaited,
        result: Result<Value, String>,
    },
    /// Nothing more comes.
    Ended,
}

/// Waits until the server listens, and follows its events.
pub async fn connect(
    pipes: Pipes,
    password: &str,
    inputs: mpsc::Sender<Incoming>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<HttpWriter> {
    let mut output = BufReader::new(pipes.output);
    let url = loop {
        let line = next_line(&mut output, LONGEST_GREETING).await?;
        match line.context("OpenCode ended before it was reached")? {
            Line::Whole(line) if line.starts_with(LISTENS.as_bytes()) => {
                break String::from_utf8(line.split_at(LISTENS.len()).1.to_vec())?;
            }
            Line::Whole(_) | Line::TooLong { .. } => {}
        }
    };
    // Whatever else it prints would fill the pipe.
    tasks.spawn(async move { drop(tokio::io::copy(&mut output, &mut tokio::io::sink()).await) }.boxed());
    let url = HubUrl::try_from(url).map_err(anyhow::Error::msg).context("OpenCode named no address")?;
    let is_here = url.address().0.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    anyhow::ensure!(is_here, "OpenCode listens on {url}, which other machines may reach");
    let transport = match tcp_peer::IS_KNOWN {
        true => Transport::to_descendant(url)?,
        // It listened before it named its address, and its password is worth nothing once it has ended.
        false => Transport::tcp(url)?,
    };
    let server = Server::at(transport, password)?;
    let events = server.events().await?;
    let replies = inputs.downgrade();
    tasks.spawn(follow(events, inputs).boxed());
    Ok(HttpWriter { server, replies })
}

async fn follow(mut events: impl AsyncBufRead + Unpin, inputs: mpsc::Sender<Incoming>) {
    while let Some(event) = next_event(&mut events).await {
        let incoming = match event {
            Line::Whole(event) => Incoming::Event(event),
            Line::TooLong { length, .. } => Incoming::TooLong(length),
        };
        if inputs.send(incoming).await.is_err() {
            return;
        }
    }
    drop(inputs.send(Incoming::Ended).await);
}

/// An event is one line that begins with `data:`; what else there is between events says nothing.
pub async fn next_event(events: &mut (impl AsyncBufRead + Unpin)) -> Option<Line> {
    loop {
        match next_line(events, LONGEST).await.ok()?? {
            Line::Whole(line) => match line.strip_prefix(b"data:") {
                Some(event) => return Some(Line::Whole(event.to_vec())),
                None => continue,
            },
            too_long @ Line::TooLong { .. } => return Some(too_long),
        }
    }
}

/// Calls the server of a run. The run ends with its events, so it holds on to them loosely.
pub struct HttpWriter {
    server: Server,
    replies: mpsc::WeakSender<Incoming>,
}

impl Writer<HttpCall> for HttpWriter {
    async fn write(&mut self, call: HttpCall) -> io::Result<()> {
        let Then::Read(to) = call.then else { return self.server.write(call).await };
        let reply = self.server.exchange(&call).await;
        let result = reply.map_err(|error| format!("{error:#}")).and_then(returned);
        if let Some(replies) = self.replies.upgrade() {
            // Nobody reads any more once the run is over.
            drop(replies.send(Incoming::Returned { to, result }).await);
        }
        Ok(())
    }
}

/// The server in OpenCode's own process.
#[derive(Clone)]
pub struct Server {
    transport: Arc<Transport>,
    authorization: HeaderValue,
}

impl Server {
    pub fn at(transport: Transport, password: &str) -> anyhow::Result<Self> {
        let basic = format!("Basic {}", BASE64.encode(format!("{USER}:{password}").as_bytes()));
        let mut authorization = HeaderValue::from_str(&basic)?;
        authorization.set_sensitive(true);
        Ok(Self { transport: Arc::new(transport), authorization })
    }

    /// What happens from now on.
    pub async fn events(&self) -> anyhow::Result<impl AsyncBufRead + Send + Unpin + use<>> {
        let request = self.request(Method::GET, "/event", None)?;
        // While OpenCode starts, it may take a connection and never reply on it.
        let reply = timeout(LONGEST_GREETING_TIME, self.transport.stream(request)).await;
        let (status, events) = reply.context("OpenCode does not reply")??;
        anyhow::ensure!(status == StatusCode::OK, "OpenCode does not tell what happens: {status}");
        Ok(events)
    }

    pub async fn get(&self, path: String) -> anyhow::Result<Value> {
        let call = HttpCall { method: Method::GET, path, body: None, then: Then::IsTaken };
        returned(self.exchange(&call).await?).map_err(anyhow::Error::msg)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let request = Request::builder().method(method).uri(path);
        let request =
            request.header(AUTHORIZATION, &self.authorization).header(CONTENT_TYPE, "application/json");
        Ok(request.body(Full::from(body.map(Value::to_string).unwrap_or_default()))?)
    }

    async fn exchange(&self, call: &HttpCall) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = self.request(call.method.clone(), &call.path, call.body.as_ref())?;
        let reply = timeout(LONGEST_CALL, self.transport.exchange(request, LONGEST_REPLY)).await;
        Ok(reply.context("OpenCode does not reply")??)
    }
}

impl Writer<HttpCall> for Server {
    async fn write(&mut self, call: HttpCall) -> io::Result<()> {
        let reply = self.exchange(&call).await.map_err(io::Error::other)?;
        match (call.then, reply) {
            (Then::Read(_), _) => Ok(()),
            (Then::IsTaken, (StatusCode::OK, body)) if body.as_ref() == b"true" => Ok(()),
            (Then::IsTaken, (status, _)) => {
                let words = format!("OpenCode no longer waited for this ({status})");
                Err(io::Error::new(io::ErrorKind::NotFound, words))
            }
        }
    }
}

fn returned((status, body): (StatusCode, Bytes)) -> Result<Value, String> {
    let value = aye_core::json::parse(&body).unwrap_or_default();
    match status {
        StatusCode::NO_CONTENT => Ok(Value::Null),
        StatusCode::OK if !value.is_null() => Ok(value),
        StatusCode::OK => Err("its reply cannot be read".to_owned()),
        status => Err(value["data"]["message"].as_str().map_or_else(|| status.to_string(), str::to_owned)),
    }
}
