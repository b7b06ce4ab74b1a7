//! The way to `opencode serve`: calls over HTTP with a password of their own, and its events, which it sends for as long
//! as it runs. What a call returned comes back among the events, because only they are read.

use crate::agents::driven::{Pipes, Writer};
use crate::agents::lines::{LONGEST, Line, next_line};
use crate::transport::Transport;
use crate::url::HubUrl;
use anyhow::Context;
use data_encoding::BASE64;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
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
/// A server that does not reply in this time will not.
const LONGEST_CALL: Duration = Duration::from_secs(30);
const LONGEST_REPLY: usize = 16 * 1024 * 1024;

/// A call of its API.
pub struct Call {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Awaited {
    Config,
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

/// The first byte of a line says what it is, so that an event cannot pass for anything else.
const EVENT: u8 = b'e';
const RETURNED: u8 = b'r';
const ENDED: u8 = b'x';

impl Incoming {
    pub fn read(line: Line) -> Option<Self> {
        let mut line = match line {
            Line::TooLong { length, .. } => return Some(Self::TooLong(length)),
            Line::Whole(line) => line,
        };
        match *line.first()? {
            EVENT => Some(Self::Event(line.split_off(1))),
            RETURNED => {
                let (to, result) = serde_json::from_slice(line.get(1..)?).ok()?;
                Some(Self::Returned { to, result })
            }
            _ => Some(Self::Ended),
        }
    }
}

/// Waits until the server listens, and follows its events.
pub async fn connect(
    pipes: Pipes,
    password: &str,
    inputs: mpsc::Sender<Line>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<Caller> {
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
    tasks.spawn(async move { drop(tokio::io::copy(&mut output, &mut tokio::io::sink()).await) });
    let url = HubUrl::try_from(url).map_err(anyhow::Error::msg).context("OpenCode named no address")?;
    let is_here = url.address().0.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    anyhow::ensure!(is_here, "OpenCode listens on {url}, which other machines may reach");
    let basic = format!("Basic {}", BASE64.encode(format!("{USER}:{password}").as_bytes()));
    let mut authorization = HeaderValue::from_str(&basic)?;
    authorization.set_sensitive(true);
    let replies = inputs.downgrade();
    let caller = Caller { transport: Transport::tcp(url)?, authorization, replies };
    let (status, events) = caller.transport.stream(caller.request(Method::GET, "/event", None)?).await?;
    anyhow::ensure!(status == StatusCode::OK, "OpenCode does not tell what happens: {status}");
    tasks.spawn(follow(events, inputs));
    Ok(caller)
}

/// An event is one line that begins with `data:`; what else there is between events says nothing.
async fn follow(mut events: impl AsyncBufRead + Unpin, inputs: mpsc::Sender<Line>) {
    while let Ok(Some(line)) = next_line(&mut events, LONGEST).await {
        let line = match line {
            Line::Whole(line) => match line.strip_prefix(b"data:") {
                Some(event) => Line::Whole([&[EVENT], event].concat()),
                None => continue,
            },
            too_long @ Line::TooLong { .. } => too_long,
        };
        if inputs.send(line).await.is_err() {
            return;
        }
    }
    drop(inputs.send(Line::Whole(vec![ENDED])).await);
}

/// Calls the server. The run ends with its events, so it holds on to them loosely.
pub struct Caller {
    transport: Transport,
    authorization: HeaderValue,
    replies: mpsc::WeakSender<Line>,
}

impl Caller {
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

    async fn exchange(&self, call: &Call) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = self.request(call.method.clone(), &call.path, call.body.as_ref())?;
        let reply = timeout(LONGEST_CALL, self.transport.exchange(request, LONGEST_REPLY)).await;
        Ok(reply.context("OpenCode does not reply")??)
    }
}

impl Writer<Call> for Caller {
    async fn write(&mut self, call: Call) -> io::Result<()> {
        let reply = self.exchange(&call).await;
        match call.then {
            Then::IsTaken => match reply.map_err(io::Error::other)? {
                (StatusCode::OK, body) if body.as_ref() == b"true" => Ok(()),
                (status, _) => Err(io::Error::other(format!("it no longer waits for this ({status})"))),
            },
            Then::Read(to) => {
                let result = reply.map_err(|error| format!("{error:#}")).and_then(returned);
                let mut line = vec![RETURNED];
                line.extend(json!((to, result)).to_string().into_bytes());
                if let Some(replies) = self.replies.upgrade() {
                    // Nobody reads any more once the run is over.
                    drop(replies.send(Line::Whole(line)).await);
                }
                Ok(())
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
