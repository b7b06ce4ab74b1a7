//! Connections, on the listen address and on the Unix socket. Every one has an owner that ends it.

use super::caller::Peer;
use super::listeners::Listeners;
use super::replies::Cut;
use super::{App, router};
use crate::hub::this_process;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// A client that does not finish its handshake or its headers by then is dropped.
const SLOWEST_HEADERS: Duration = Duration::from_secs(10);
const MOST_CONNECTIONS: usize = 8192;

/// Serves until the app is stopped. The connections' tasks are the app's; whoever owns those waits for them.
pub async fn serve(app: App, listeners: Listeners) {
    let router = router(app.clone());
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    for listener in listeners.tcp {
        let (app, router, tls) = (app.clone(), router.clone(), listeners.tls.clone());
        app.tasks.clone().spawn(accept_tcp(app, router, room.clone(), listener, tls));
    }
    accept_unix(app, router, room, listeners.unix).await;
}

async fn accept_tcp(
    app: App,
    router: Router,
    room: Arc<Semaphore>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) {
    while let Some((permit, (stream, address))) = next(&app, &room, || listener.accept()).await {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let (stop, router, tls) = (app.stop.clone(), router.clone(), tls.clone());
        app.tasks.spawn(async move {
            let _permit = permit;
            let peer = Peer::Tcp(address);
            match tls {
                None => converse(stream, peer, router, stop).await,
                Some(tls) => {
                    if let Some(stream) = shake_hands(stream, tls, &stop).await {
                        converse(stream, peer, router, stop).await;
                    }
                }
            }
        });
    }
}

async fn accept_unix(app: App, router: Router, room: Arc<Semaphore>, listener: UnixListener) {
    let accept = || async {
        let (stream, _) = listener.accept().await?;
        Ok((stream.peer_cred()?, stream))
    };
    while let Some((permit, (peer, stream))) = next(&app, &room, accept).await {
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let peer = Peer::Unix { uid: peer.uid(), process: pid.and_then(this_process) };
        let (stop, router) = (app.stop.clone(), router.clone());
        app.tasks.spawn(async move {
            let _permit = permit;
            converse(stream, peer, router, stop).await;
        });
    }
}

/// The next connection, once there is room for one; none when the app is stopped.
async fn next<T, F: Future<Output = io::Result<T>>>(
    app: &App,
    room: &Arc<Semaphore>,
    accept: impl Fn() -> F,
) -> Option<(OwnedSemaphorePermit, T)> {
    let permit = tokio::select! {
        () = app.stop.cancelled() => return None,
        permit = room.clone().acquire_owned() => permit.ok()?,
    };
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return None,
            accepted = accept() => match accepted {
                Ok(accepted) => return Some((permit, accepted)),
                Err(error) => rest_after(error).await,
            }
        }
    }
}

/// Out of descriptors, most likely: waiting a little lets others end.
async fn rest_after(error: io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// In the connection's own task, so that a slow client delays nobody else.
async fn shake_hands(
    stream: TcpStream,
    tls: TlsAcceptor,
    stop: &CancellationToken,
) -> Option<TlsStream<TcpStream>> {
    let shaken = tokio::select! {
        () = stop.cancelled() => return None,
        shaken = tokio::time::timeout(SLOWEST_HEADERS, tls.accept(stream)) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection did not get through its TLS handshake");
            None
        }
        Err(_) => None,
    }
}

async fn converse<S>(stream: S, peer: Peer, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Cut(cut) = Cut::default();
    let own = cut.clone();
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Cut(own.clone()));
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
        () = cut.cancelled() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
