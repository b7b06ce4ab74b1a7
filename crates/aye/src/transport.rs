//! HTTP to one place: a Unix socket of our own, or TCP with or without TLS. Connections are kept and used again.

use crate::local_stream::LocalStream;
use crate::own_folder::{self, Links, NotOurs};
use crate::tcp_peer::require_descendant;
use crate::tls;
use crate::url::HubUrl;
use anyhow::Context;
use futures_util::FutureExt;
use futures_util::StreamExt;
use http_body_util::{BodyDataStream, BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::io::StreamReader;

const MOST_KEPT: usize = 8;
const LONGEST_REFUSAL: usize = 1024 * 1024;

/// Why no reply came.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    #[error("{0}")]
    Unreachable(io::Error),
    #[error("{0}")]
    Untrusted(io::Error),
    #[error("{0}")]
    NotOurs(NotOurs),
    /// The connection broke: what was asked for may have been done all the same.
    #[error("{0}")]
    Interrupted(Box<dyn std::error::Error + Send + Sync>),
    #[error("the reply is too long")]
    TooLong,
}

pub struct Transport {
    endpoint: Endpoint,
    host: HeaderValue,
    kept: Mutex<Vec<Connection>>,
}

enum Endpoint {
    Unix {
        socket: PathBuf,
        links: Links,
    },
    Tcp {
        url: HubUrl,
        tls: Option<(TlsConnector, ServerName<'static>)>,
    },
    /// A program that this process started, at an address of this machine.
    Descendant {
        url: HubUrl,
    },
}

/// What came of asking for another protocol.
pub enum Upgrade {
    Done(HeaderMap, Upgraded),
    Refused(StatusCode, Bytes),
}

/// Boxed, so that HTTP is compiled once and not for each kind of it.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket for S {}

/// An open connection, and the task that drives it, which ends with it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
}

impl Transport {
    pub fn unix(socket: PathBuf, links: Links) -> Self {
        let host = HeaderValue::from_static("localhost");
        Self { endpoint: Endpoint::Unix { socket, links }, host, kept: Mutex::default() }
    }

    pub fn tcp(url: HubUrl) -> anyhow::Result<Self> {
        let host = HeaderValue::from_str(&url.authority()).context("it names no host")?;
        let tls = match url.is_tls() {
            false => None,
            true => {
                let name = ServerName::try_from(url.address().0.to_owned()).context("it names no host")?;
                let extra = std::env::var_os("AYE_CA_FILE");
                let connector = tls::client(extra.as_deref().map(Path::new));
                Some((connector.context("AYE_CA_FILE cannot be used")?, name))
            }
        };
        Ok(Self { endpoint: Endpoint::Tcp { url, tls }, host, kept: Mutex::default() })
    }

    /// To a program that this process started. Every connection is refused before the first byte unless such a program
    /// accepted it: somebody else may listen on its port before it does, or after it has ended.
    pub fn to_descendant(url: HubUrl) -> anyhow::Result<Self> {
        let host = HeaderValue::from_str(&url.authority()).context("it names no host")?;
        anyhow::ensure!(!url.is_tls(), "a program on this machine is reached without TLS");
        Ok(Self { endpoint: Endpoint::Descendant { url }, host, kept: Mutex::default() })
    }

    /// Whether the system tells at once when the other end is gone; of a network it may never.
    pub fn is_local(&self) -> bool {
        matches!(self.endpoint, Endpoint::Unix { .. })
    }

    /// Where this goes, in words.
    pub fn at(&self) -> String {
        match &self.endpoint {
            Endpoint::Unix { socket, .. } => socket.display().to_string(),
            Endpoint::Tcp { url, .. } | Endpoint::Descendant { url } => url.to_string(),
        }
    }

    /// Sends a request and reads the reply, up to a maximum length.
    pub async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<(StatusCode, Bytes), TransportError> {
        request.headers_mut().insert(HOST, self.host.clone());
        let kept = self.take_kept();
        let reused = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut reply = connection.sender.try_send_request(request).await;
        // A kept connection was closed before the request was seen: it is safe to send it again.
        if reused && let Some(request) = reply.as_mut().err().and_then(TrySendError::take_message) {
            connection = self.connect().await?;
            reply = connection.sender.try_send_request(request).await;
        }
        let reply = reply.map_err(|error| TransportError::Interrupted(error.into_error().into()))?;
        let status = reply.status();
        let body = read_body(reply, most).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(connection);
        }
        Ok((status, body))
    }

    /// Has a connection of its own become another protocol's, as the request asks for.
    pub async fn upgrade(&self, mut request: Request<Full<Bytes>>) -> Result<Upgrade, TransportError> {
        request.headers_mut().insert(HOST, self.host.clone());
        let mut connection = self.connect().await?;
        let reply = connection.sender.send_request(request).await;
        let mut reply = reply.map_err(|error| TransportError::Interrupted(error.into()))?;
        if reply.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Upgrade::Refused(reply.status(), read_body(reply, LONGEST_REFUSAL).await?));
        }
        let stream = hyper::upgrade::on(&mut reply).await;
        let stream = stream.map_err(|error| TransportError::Interrupted(error.into()))?;
        Ok(Upgrade::Done(reply.into_parts().0.headers, stream))
    }

    /// Sends a request whose reply is read as it comes, on a connection of its own.
    pub async fn stream(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, impl AsyncBufRead + Send + Unpin + use<>), TransportError> {
        request.headers_mut().insert(HOST, self.host.clone());
        let mut connection = self.connect().await?;
        let reply = connection.sender.send_request(request).await;
        let reply = reply.map_err(|error| TransportError::Interrupted(error.into()))?;
        // The connection goes with what is read from it.
        let read = move |chunk: Result<Bytes, hyper::Error>| {
            let _open = &connection;
            chunk.map_err(io::Error::other)
        };
        Ok((reply.status(), StreamReader::new(BodyDataStream::new(reply.into_body()).map(read))))
    }

    fn take_kept(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|connection| !connection.sender.is_closed());
        kept.pop()
    }

    async fn connect(&self) -> Result<Connection, TransportError> {
        let (url, tls) = match &self.endpoint {
            Endpoint::Unix { socket, links } => {
                return talk(connect_to_our_own(socket, *links).await.map_err(|why| match why {
                    NotOurs::Unreadable(_, source) => TransportError::Unreachable(source),
                    why => TransportError::NotOurs(why),
                })?)
                .await;
            }
            Endpoint::Tcp { url, tls } => (url, tls.as_ref()),
            Endpoint::Descendant { url } => (url, None),
        };
        let stream = TcpStream::connect(url.address()).await.map_err(TransportError::Unreachable)?;
        stream.set_nodelay(true).map_err(TransportError::Unreachable)?;
        if matches!(self.endpoint, Endpoint::Descendant { .. }) {
            require_descendant(&stream).await.map_err(TransportError::Unreachable)?;
        }
        let Some((connector, name)) = tls else { return talk(stream).await };
        let shaken = connector.connect(name.clone(), stream).await;
        talk(shaken.map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => TransportError::Untrusted(source),
            _ => TransportError::Unreachable(source),
        })?)
        .await
    }
}

async fn read_body(reply: Response<Incoming>, most: usize) -> Result<Bytes, TransportError> {
    let body = Limited::new(reply.into_body(), most).collect().await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => TransportError::TooLong,
        false => TransportError::Interrupted(error),
    })?;
    Ok(body.to_bytes())
}

async fn talk(stream: impl Socket) -> Result<Connection, TransportError> {
    let stream: Box<dyn Socket> = Box::new(stream);
    let shaken = handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        shaken.map_err(|error| TransportError::Unreachable(io::Error::other(error)))?;
    let mut driver = JoinSet::new();
    driver.spawn(
        async move {
            // Whoever waits for a reply on it is told as well.
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection ended");
            }
        }
        .boxed(),
    );
    Ok(Connection { sender, _driver: driver })
}

/// A token is sent there next, so the socket must belong to this user and lie in a private folder.
async fn connect_to_our_own(socket: &Path, links: Links) -> Result<LocalStream, NotOurs> {
    let at = || socket.display().to_string();
    let unreadable = |error| NotOurs::Unreadable(at(), error);
    own_folder::check(socket.parent().unwrap_or(socket), links)?;
    let owner = std::fs::symlink_metadata(socket).map_err(unreadable)?.uid();
    if owner != own_folder::our_id() {
        return Err(NotOurs::Owner(at(), owner));
    }
    let stream = UnixStream::connect(socket).await.map_err(unreadable)?;
    let peer = stream.peer_cred().map_err(unreadable)?.uid();
    match peer == own_folder::our_id() {
        true => stream.try_into().map_err(unreadable),
        false => Err(NotOurs::Listener(at(), peer)),
    }
}
