//! WebSocket clients that look at no more of a message than they must: its number, and when it came.

use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Enough of a message to find its number.
const BEGINNING: usize = 64;
/// A whole message; only one client reads them.
const WHOLE: usize = 16 * 1024;
/// An empty pong. Clients must mask, and a mask of zeros is one.
const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];

/// What one client saw.
#[derive(Default)]
pub struct Seen {
    /// The number of the snapshot.
    pub first: u64,
    /// When each change after it came, in microseconds since the epoch of the run.
    pub at: Vec<u32>,
    /// Changes that did not have the next number.
    pub out_of_order: u64,
    /// Which change told of an ask's answer; only kept by the client that reads whole messages.
    pub answered: HashMap<String, u64>,
}

/// Follows with `count` clients, who share the tokens, until the hub closes them. Blocks; `ready` counts those with a
/// snapshot.
pub fn follow(
    address: &str,
    tokens: &[String],
    count: usize,
    epoch: Instant,
    ready: &Arc<AtomicUsize>,
) -> anyhow::Result<Vec<Seen>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = JoinSet::new();
        for i in 0..count {
            let keep = if i == 0 { WHOLE } else { BEGINNING };
            let token = tokens[i % tokens.len()].clone();
            let (address, ready) = (address.to_owned(), ready.clone());
            clients.spawn(async move { client(&address, &token, keep, epoch, &ready).await });
        }
        let mut seen = Vec::new();
        while let Some(client) = clients.join_next().await {
            seen.push(client??);
        }
        Ok(seen)
    })
}

async fn client(
    address: &str,
    token: &str,
    keep: usize,
    epoch: Instant,
    ready: &AtomicUsize,
) -> anyhow::Result<Seen> {
    let mut stream = upgraded(address, token).await?;
    let mut frames = Frames { keep, ..Frames::default() };
    let mut seen = Seen::default();
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let read = match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(seen),
            Ok(read) => read,
        };
        let now = u32::try_from(epoch.elapsed().as_micros())?;
        let mut bytes = &buffer[..read];
        while let Some(frame) = frames.take(&mut bytes) {
            match frame {
                Frame::Ping => stream.write_all(&PONG).await?,
                Frame::Close => return Ok(seen),
                Frame::Message(text) => note(&mut seen, text, now, ready)?,
            }
        }
    }
}

/// Hands every message to `each` until the hub closes the connection.
pub async fn messages(address: &str, token: &str, mut each: impl FnMut(&[u8])) -> anyhow::Result<()> {
    let mut stream = upgraded(address, token).await?;
    let mut frames = Frames { keep: WHOLE, ..Frames::default() };
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let read = match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(read) => read,
        };
        let mut bytes = &buffer[..read];
        while let Some(frame) = frames.take(&mut bytes) {
            match frame {
                Frame::Ping => stream.write_all(&PONG).await?,
                Frame::Close => return Ok(()),
                Frame::Message(text) => each(text),
            }
        }
    }
}

async fn upgraded(address: &str, token: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let hello = format!(
        "GET /api/ws HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(hello.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.context("no reply to the upgrade")?);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101"), "no upgrade: {}", String::from_utf8_lossy(&head));
    Ok(stream)
}

fn note(seen: &mut Seen, text: &[u8], now: u32, ready: &AtomicUsize) -> anyhow::Result<()> {
    let start =
        text.windows(6).position(|window| window == b"\"seq\":").context("a change without a number")?;
    let digits = text[start + 6..].iter().take_while(|byte| byte.is_ascii_digit());
    let seq = digits.fold(0u64, |seq, digit| seq * 10 + u64::from(digit - b'0'));
    if text.starts_with(br#"{"type":"snapshot""#) {
        seen.first = seq;
        ready.fetch_add(1, Ordering::SeqCst);
        return Ok(());
    }
    if seq != seen.first + seen.at.len() as u64 + 1 {
        seen.out_of_order += 1;
        seen.at.resize(usize::try_from(seq.saturating_sub(seen.first + 1))?, u32::MAX);
    }
    seen.at.push(now);
    if text.len() > BEGINNING && text.ends_with(b"}}") {
        let text = String::from_utf8_lossy(text);
        if text.contains(r#""state":"answered","receipt":"pending""#) {
            let id = text.split(r#""id":""#).nth(1).and_then(|rest| rest.split('"').next());
            seen.answered.insert(id.context("an ask without an id")?.to_owned(), seq);
        }
    }
    Ok(())
}

enum Frame<'a> {
    Message(&'a [u8]),
    Ping,
    Close,
}

/// Takes frames apart as they come, keeping only the beginning of each message.
#[derive(Default)]
struct Frames {
    keep: usize,
    header: Vec<u8>,
    left: Option<u64>,
    text: Vec<u8>,
    opcode: u8,
    last: bool,
    complete: bool,
}

impl Frames {
    fn take<'a>(&'a mut self, bytes: &mut &[u8]) -> Option<Frame<'a>> {
        if std::mem::take(&mut self.complete) {
            self.text.clear();
        }
        loop {
            let left = match self.left {
                Some(left) => left,
                None => {
                    let left = self.header(bytes)?;
                    self.left = Some(left);
                    left
                }
            };
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let (payload, rest) = bytes.split_at(now);
            *bytes = rest;
            if self.opcode < 8 && self.text.len() < self.keep {
                let room = self.keep - self.text.len();
                self.text.extend_from_slice(&payload[..payload.len().min(room)]);
            }
            if (now as u64) < left {
                self.left = Some(left - now as u64);
                return None;
            }
            self.left = None;
            match self.opcode {
                8 => return Some(Frame::Close),
                9 => return Some(Frame::Ping),
                0..8 if self.last => {
                    self.complete = true;
                    return Some(Frame::Message(&self.text));
                }
                _ => {}
            }
        }
    }

    /// Reads a header to its end; how long the payload is. A server does not mask.
    fn header(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        loop {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            self.header.push(byte);
            let length = match self.header.get(1).map(|length| length & 0x7f) {
                None => continue,
                Some(126) => 2,
                Some(127) => 8,
                Some(_) => 0,
            };
            if self.header.len() == 2 + length {
                self.opcode = self.header[0] & 0x0f;
                self.last = self.header[0] & 0x80 != 0;
                let short = u64::from(self.header[1] & 0x7f);
                let long = self.header[2..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                self.header.clear();
                return Some(if length == 0 { short } else { long });
            }
        }
    }
}
