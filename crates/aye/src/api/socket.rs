//! One WebSocket, from the handshake on. Long messages go out in fragments of a buffer that everybody
//! shares, so that a client costs the same little memory whatever it is sent.

use super::json::{Failure, ORDINARY};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};

/// A client that takes nothing for this long is dropped.
const SLOWEST_SEND: Duration = Duration::from_secs(10);
/// What one client may occupy for sending; it keeps that much for as long as it is connected.
const FRAGMENT: usize = 32 * 1024;
/// Kept small: clients send little and seldom, and a buffer of this size is zeroed before each read.
const READ_AT_ONCE: usize = 4 * 1024;

const PROTOCOL: &str = "aye";

/// The client is gone, or takes nothing any more.
pub struct Gone;

pub struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
}

/// A handshake that was accepted; the socket comes once the reply has been sent.
pub struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    /// Whether the client offered our protocol by name; a browser that offers any expects one back.
    named: bool,
}

impl Handshake {
    pub fn read(parts: &mut Parts) -> Result<Self, Failure> {
        let bad = |why: &str| Failure::new(StatusCode::BAD_REQUEST, why);
        let headers = &parts.headers;
        if !says(headers, &header::CONNECTION, "upgrade") || !says(headers, &header::UPGRADE, "websocket") {
            return Err(bad("this is a WebSocket: send Connection: upgrade and Upgrade: websocket"));
        }
        if !says(headers, &header::SEC_WEBSOCKET_VERSION, "13") {
            return Err(bad("the Sec-WebSocket-Version must be 13"));
        }
        let key =
            headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| bad("Sec-WebSocket-Key is missing"))?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        let accept = accept.map_err(|_| bad("the Sec-WebSocket-Key is not one"))?;
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or_else(|| {
            Failure::new(StatusCode::UPGRADE_REQUIRED, "this connection cannot become a WebSocket")
        })?;
        let named = says(&parts.headers, &header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
        Ok(Self { upgrade, accept, named })
    }

    pub fn reply(&self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept.clone());
        if self.named {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        response
    }

    pub async fn socket(self) -> Option<Socket> {
        let upgraded = self.upgrade.await.ok()?;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_AT_ONCE)
            .write_buffer_size(FRAGMENT)
            .max_message_size(Some(ORDINARY))
            .max_frame_size(Some(ORDINARY));
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config));
        Some(Socket { stream: stream.await })
    }
}

/// Whether one of a header's words is this one.
fn says(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(word))
}

impl Socket {
    pub async fn recv(&mut self) -> Option<Message> {
        self.stream.next().await?.ok()
    }

    pub async fn send(&mut self, text: Utf8Bytes) -> Result<(), Gone> {
        self.queue(text).await?;
        self.flush().await
    }

    /// Goes out with the next flush, or earlier when there is much of it.
    pub async fn queue(&mut self, text: Utf8Bytes) -> Result<(), Gone> {
        let mut rest = Bytes::from(text);
        let mut opcode = OpCode::Data(Data::Text);
        while rest.len() > FRAGMENT {
            let fragment = rest.split_to(FRAGMENT);
            self.feed(Message::Frame(Frame::message(fragment, opcode, false))).await?;
            opcode = OpCode::Data(Data::Continue);
        }
        self.feed(Message::Frame(Frame::message(rest, opcode, true))).await
    }

    pub async fn ping(&mut self) -> Result<(), Gone> {
        self.feed(Message::Ping(Bytes::new())).await?;
        self.flush().await
    }

    /// The client may be gone already; then there is nobody to tell.
    pub async fn close(mut self, code: CloseCode, reason: &'static str) {
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        drop(timeout(SLOWEST_SEND, self.stream.send(Message::Close(Some(frame)))).await);
    }

    pub async fn flush(&mut self) -> Result<(), Gone> {
        in_time(self.stream.flush()).await
    }

    async fn feed(&mut self, message: Message) -> Result<(), Gone> {
        in_time(self.stream.feed(message)).await
    }
}

async fn in_time<E>(sent: impl Future<Output = Result<(), E>>) -> Result<(), Gone> {
    match timeout(SLOWEST_SEND, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Gone),
    }
}
