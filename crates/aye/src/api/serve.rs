//! Connections, on the listen address and on the Unix socket. Every one has an owner that ends it.

use super::caller::Peer;
use super::{App, router};
use anyhow::Context;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A client that does not finish its headers by then is dropped.
const SLOWEST_HEADERS: Duration = Duration::from_secs(10);
const MOST_CONNECTIONS: usize = 8192;

pub struct Listeners {
    pub tcp: TcpListener,
    pub unix: UnixListener,
}

impl Listeners {
    pub async fn bind(listen: SocketAddr, socket: &Path) -> anyhow::Result<Self> {
        let tcp = TcpListener::bind(listen).await.with_context(|| {
            format!("cannot listen on {listen}; choose another address with --listen, or port 0 for any that is free")
        })?;
        // Whoever holds the home's lock owns the socket: one that is left over is stale.
        match fs::remove_file(socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", socket.display()));
            }
            _ => {}
        }
        let unix =
            UnixListener::bind(socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
        fs::set_permissions(socket, Permissions::from_mode(0o600))?;
        Ok(Self { tcp, unix })
    }
}

/// Serves until the app is stopped. The connections' tasks are the app's; whoever owns those waits for them.
pub async fn serve(app: App, listeners: Listeners) {
    let router = router(app.clone());
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let permit = tokio::select! {
            () = app.stop.cancelled() => return,
            permit = room.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { return };
        tokio::select! {
            () = app.stop.cancelled() => return,
            accepted = listeners.tcp.accept() => match accepted {
                Ok((stream, address)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "a connection keeps its delay");
                    }
                    converse(&app, &router, stream, Peer::Tcp(address), permit);
                }
                Err(error) => rest_after(error).await,
            },
            accepted = listeners.unix.accept() => match accepted.and_then(|(stream, _)| Ok((stream.peer_cred()?, stream))) {
                Ok((peer, stream)) => {
                    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
                    converse(&app, &router, stream, Peer::Unix { uid: peer.uid(), pid }, permit);
                }
                Err(error) => rest_after(error).await,
            },
        }
    }
}

/// Out of descriptors, most likely: waiting a little lets others end.
async fn rest_after(error: io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn converse<S>(app: &App, router: &Router, stream: S, peer: Peer, permit: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stop = app.stop.clone();
    let router = router.clone();
    app.tasks.spawn(async move {
        let _permit = permit;
        let service = tower::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let mut router = router.clone();
            tower::Service::call(&mut router, request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SLOWEST_HEADERS)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}
