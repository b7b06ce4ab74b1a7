//! A follower: a WebSocket to the hub that is read when the test says so.

use super::{Hub, PATIENCE};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tungstenite::client::client_with_config;
use tungstenite::handshake::client::generate_key;
use tungstenite::http::Request;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::protocol::frame::CloseFrame;
use tungstenite::{Error, HandshakeError, Message, WebSocket};

/// Either way to the hub.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}

pub struct Follower<S = Stream> {
    socket: WebSocket<S>,
}

impl Hub {
    /// Follows the changes; `query` is empty, or begins with a question mark.
    pub fn follow(&self, query: &str, token: &str) -> Follower {
        let headers = [("Authorization", &*format!("Bearer {token}"))];
        self.try_follow(query, &headers).unwrap_or_else(|status| panic!("the upgrade got {status}"))
    }

    /// An upgrade with exactly these headers beside those that make it one, or the status it got instead.
    pub fn try_follow(&self, query: &str, headers: &[(&str, &str)]) -> Result<Follower, u16> {
        let stream = match self.has_owners_token(headers) {
            true => Stream::Unix(self.connect_unix()),
            false => Stream::Tcp(self.connect()),
        };
        upgrade(stream, &self.address, query, headers)
    }

    pub fn follow_unix(&self, token: &str) -> Follower<UnixStream> {
        let headers = [("Authorization", &*format!("Bearer {token}"))];
        upgrade(self.connect_unix(), "localhost", "", &headers).unwrap()
    }
}

fn upgrade<S: Read + Write>(
    stream: S,
    host: &str,
    query: &str,
    headers: &[(&str, &str)],
) -> Result<Follower<S>, u16> {
    let mut request = Request::get(format!("ws://{host}/api/ws{query}"))
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request = request.header("Host", host);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    // How much the hub may say is the hub's business.
    let unlimited = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    match client_with_config(request.body(()).unwrap(), stream, Some(unlimited)) {
        Ok((socket, _)) => Ok(Follower { socket }),
        Err(HandshakeError::Failure(Error::Http(response))) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

impl Follower {
    /// By which the other end of this connection can be told from all others.
    pub fn port(&self) -> u16 {
        match self.socket.get_ref() {
            Stream::Tcp(stream) => stream.local_addr().unwrap().port(),
            Stream::Unix(_) => panic!("a Unix socket has no port"),
        }
    }
}

impl<S: Read + Write> Follower<S> {
    /// The next message, byte for byte.
    pub fn text(&mut self) -> String {
        loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => return text.as_str().to_owned(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?} instead of a text"),
            }
        }
    }

    pub fn next(&mut self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The messages up to the one with this number.
    pub fn texts_until(&mut self, seq: u64) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            let text = self.text();
            let found = number(&text);
            texts.push(text);
            assert!(found <= seq, "{found} came, and {seq} did not");
            if found == seq {
                return texts;
            }
        }
    }

    /// Sends a frame and returns its result; changes that come before it are passed over.
    pub fn say(&mut self, frame: Value) -> Value {
        self.say_text(frame.to_string())
    }

    pub fn say_text(&mut self, text: impl Into<String>) -> Value {
        self.send(Message::text(text.into()));
        self.result()
    }

    pub fn send(&mut self, message: Message) {
        self.socket.send(message).unwrap();
    }

    pub fn result(&mut self) -> Value {
        loop {
            let message = self.next();
            if message["type"] == "result" {
                return message;
            }
        }
    }

    /// Reads until the hub ends the connection, and returns what it said then, if anything.
    pub fn end(&mut self) -> Option<CloseFrame> {
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => return frame,
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the hub kept the connection for {PATIENCE:?}")
                }
                Err(_) => return None,
            }
        }
    }
}

pub fn number(text: &str) -> u64 {
    let message: Value = serde_json::from_str(text).unwrap();
    message["seq"].as_u64().unwrap_or_else(|| panic!("{text} has no number"))
}
