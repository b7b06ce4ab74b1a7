//! Following the hub over its WebSocket, through restarts of the hub: a snapshot, then every change, each once.

use super::{CallError, Client, LARGEST_REPLY};
use crate::protocol::{FollowQuery, Frame, Snapshot, calls};
use crate::transport::Upgrade;
use futures_util::StreamExt;
use hyper::header::{self, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The hub pings every twenty seconds; a line that says nothing for this long is dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub struct Follower {
    client: Client,
    line: Option<Socket>,
    /// The last change that was handed on.
    seq: Option<u64>,
    /// A snapshot whose open asks are not all there yet.
    begun: Option<Snapshot>,
    /// When to connect again, and how long to wait after that fails as well.
    again: Option<(Instant, Duration)>,
}

struct Socket {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    heard: Instant,
}

impl Client {
    pub fn follow(&self) -> Follower {
        Follower { client: self.clone(), line: None, seq: None, begun: None, again: None }
    }
}

impl Follower {
    /// What the hub says next. Whatever was known before a snapshot is replaced by it. After a failure that
    /// `is_passing`, the next call reconnects and continues where this one ended. May be dropped while it waits:
    /// nothing is lost.
    pub async fn next(&mut self) -> Result<Frame, CallError> {
        let next = self.try_next().await;
        if next.is_err() {
            let pause = self.again.map_or(Duration::from_millis(50), |(_, pause)| pause);
            self.again = Some((Instant::now() + pause, (pause * 2).min(LONGEST_PAUSE)));
            (self.line, self.begun) = (None, None);
        }
        next
    }

    async fn try_next(&mut self) -> Result<Frame, CallError> {
        loop {
            if self.begun.is_some() {
                return self.whole_snapshot().await.map(Frame::Snapshot);
            }
            let line = match &mut self.line {
                Some(line) => line,
                None => {
                    if let Some((at, _)) = self.again {
                        sleep_until(at).await;
                    }
                    self.line.insert(connect(&self.client, self.seq).await?)
                }
            };
            let text = line.read().await.map_err(|why| self.client.interrupted(why))?;
            let frame = serde_json::from_str(text.as_str()).map_err(|error| garbled(&error))?;
            self.again = None;
            match frame {
                Frame::Snapshot(snapshot) => self.begun = Some(snapshot),
                Frame::Other => {}
                piece @ Frame::Piece { .. } => return Ok(piece),
                // After a snapshot, some changes may come twice.
                change if self.seq.is_some() && change.seq() <= self.seq => {}
                change => {
                    self.seq = change.seq();
                    return Ok(change);
                }
            }
        }
    }

    /// With the open asks that were too many to be sent at once.
    async fn whole_snapshot(&mut self) -> Result<Snapshot, CallError> {
        while let Some(next) = self.begun.as_ref().and_then(|begun| begun.next.clone()) {
            let page = self.client.open_page(Some(next)).await?;
            if let Some(begun) = &mut self.begun {
                begun.asks.extend(page.asks);
                begun.next = page.next;
            }
        }
        let whole = self.begun.take().ok_or_else(|| CallError::Garbled("there is no snapshot".into()))?;
        self.seq = Some(whole.seq);
        Ok(whole)
    }
}

impl Socket {
    async fn read(&mut self) -> Result<Utf8Bytes, String> {
        loop {
            let message = timeout_at(self.heard + DEAD_AFTER, self.socket.next()).await;
            let message = match message.map_err(|_| "it says nothing any more".to_owned())? {
                Some(message) => message.map_err(|error| error.to_string())?,
                None => return Err("it closed the connection".to_owned()),
            };
            self.heard = Instant::now();
            match message {
                Message::Text(text) => return Ok(text),
                Message::Close(why) => {
                    return Err(why.map_or_else(|| "it ended".to_owned(), |why| why.reason.to_string()));
                }
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

async fn connect(client: &Client, after: Option<u64>) -> Result<Socket, CallError> {
    let path = calls::FOLLOW.path_with("", &FollowQuery { after });
    let mut request = client.request(Method::GET, &path, None);
    let key = generate_key();
    for (name, value) in [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (header::SEC_WEBSOCKET_KEY, HeaderValue::try_from(&key).map_err(|error| garbled(&error))?),
    ] {
        request.headers_mut().insert(name, value);
    }
    let upgrade = timeout(LONGEST_HANDSHAKE, client.transport.upgrade(request)).await;
    let upgrade = upgrade.map_err(|_| client.interrupted("no reply came"))?;
    match upgrade.map_err(|error| client.failed(error))? {
        Upgrade::Refused(status, body) => {
            super::reply(status, body)?;
            Err(CallError::Garbled(format!("{} instead of {status}", StatusCode::SWITCHING_PROTOCOLS)))
        }
        Upgrade::Done(headers, stream) => {
            let accepted = headers.get(header::SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
            if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
                return Err(CallError::Garbled("it is no WebSocket".into()));
            }
            let most = Some(LARGEST_REPLY);
            let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
            let socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Client, Some(config));
            Ok(Socket { socket: socket.await, heard: Instant::now() })
        }
    }
}

fn garbled(error: &dyn std::fmt::Display) -> CallError {
    CallError::Garbled(error.to_string())
}
