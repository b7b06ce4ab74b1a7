//! The cheapest caller that keeps its connection: the load shares the processor with what it measures.

use anyhow::{Context, bail, ensure};
use std::io::ErrorKind;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

#[derive(Debug, Clone)]
pub enum Target {
    Tcp(String),
    Unix(PathBuf),
}

pub struct Line {
    target: Target,
    stream: Option<Box<dyn Stream>>,
    buffer: Vec<u8>,
}

pub struct Reply {
    pub status: u16,
    pub body: String,
}

impl Reply {
    /// A plain string field, the first of its name.
    pub fn field(&self, name: &str) -> anyhow::Result<&str> {
        let start = format!("\"{name}\":\"");
        let at = self.body.find(&start).with_context(|| format!("no {name} in {}", self.body))?;
        let rest = &self.body[at + start.len()..];
        Ok(rest.split('"').next().unwrap_or_default())
    }

    pub fn expect(self, status: u16) -> anyhow::Result<Self> {
        ensure!(self.status == status, "{} instead of {status}: {}", self.status, self.body);
        Ok(self)
    }
}

impl Line {
    pub fn new(target: Target) -> Self {
        Self { target, stream: None, buffer: Vec::new() }
    }

    pub async fn get(&mut self, path: &str, token: &str) -> anyhow::Result<Reply> {
        self.call("GET", path, token, "").await
    }

    pub async fn post(&mut self, path: &str, token: &str, body: &str) -> anyhow::Result<Reply> {
        self.call("POST", path, token, body).await
    }

    async fn call(&mut self, method: &str, path: &str, token: &str, body: &str) -> anyhow::Result<Reply> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let kept = self.stream.is_some();
        if let Some(reply) = self.exchange(&request).await? {
            return Ok(reply);
        }
        // The hub closes connections that rest for long, as it should.
        ensure!(kept, "the hub closed a new connection");
        self.exchange(&request).await?.context("the hub closed a new connection")
    }

    /// None if the connection had been closed before anything came back.
    async fn exchange(&mut self, request: &str) -> anyhow::Result<Option<Reply>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(&self.target).await?,
        };
        if stream.write_all(request.as_bytes()).await.is_err() {
            return Ok(None);
        }
        self.buffer.clear();
        let (status, start, end) = loop {
            match stream.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Ok(0) => bail!("the hub closed in the middle of a reply"),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(shape) = shape(&self.buffer)? {
                break shape;
            }
        };
        while self.buffer.len() < end {
            ensure!(stream.read_buf(&mut self.buffer).await? > 0, "the hub closed in the middle of a reply");
        }
        self.stream = Some(stream);
        let body = String::from_utf8_lossy(&self.buffer[start..end]).into_owned();
        Ok(Some(Reply { status, body }))
    }
}

async fn connect(target: &Target) -> anyhow::Result<Box<dyn Stream>> {
    Ok(match target {
        Target::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Target::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    })
}

/// The status, where the body starts and where it ends, once the whole head is there.
fn shape(bytes: &[u8]) -> anyhow::Result<Option<(u16, usize, usize)>> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head])?;
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    let length = text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, length)| length.parse::<usize>())?;
    Ok(Some((status, head + 4, head + 4 + length)))
}
