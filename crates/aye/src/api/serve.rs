//! Connections, on the listen address and on the Unix socket. Every one has an owner that ends it.

use super::caller::Peer;
use super::limits::{Connection, ConnectionSlot};
use super::listeners::Listeners;
use super::poll_again::PollAgain;
use super::reading::ReadInTime;
use super::replies::Cut;
use super::{App, router};
use crate::hub::this_process;
use crate::local_stream::LocalStream;
use axum::Router;
use axum::http::Request;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A client that does not finish its handshake or its headers by then is dropped.
const SLOWEST_HEADERS: Duration = Duration::from_secs(10);
/// The same while connections are short.
const SLOWEST_WHEN_CROWDED: Duration = Duration::from_secs(2);

/// Serves until the app is stopped. The connections' tasks are the app's; whoever owns those waits for them.
pub async fn serve(app: App, listeners: Listeners) {
    let router = router(app.clone());
    for listener in listeners.tcp {
        let (app, router, tls) = (app.clone(), router.clone(), listeners.tls.clone());
        app.tasks.clone().spawn(accept_tcp(app, router, listener, tls).boxed());
    }
    accept_unix(app, router, listeners.unix).await;
}

async fn accept_tcp(app: App, router: Router, listener: TcpListener, tls: Option<TlsAcceptor>) {
    while let Some((slot, (stream, address))) = next(&app, true, || listener.accept()).await {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let (app, router, tls) = (app.clone(), router.clone(), tls.clone());
        app.tasks.clone().spawn(
            async move {
                let peer = Peer::Tcp(address);
                match tls {
                    None => converse(ReadInTime::new(stream), peer, slot, router, &app).await,
                    Some(tls) => {
                        if let Some(stream) = shake_hands(stream, tls, &app).await {
                            converse(ReadInTime::new(stream), peer, slot, router, &app).await;
                        }
                    }
                }
            }
            .boxed(),
        );
    }
}

async fn accept_unix(app: App, router: Router, listener: UnixListener) {
    let accept = || async {
        let (stream, _) = listener.accept().await?;
        Ok((stream.peer_cred()?, LocalStream::try_from(stream)?))
    };
    while let Some((slot, (peer, stream))) = next(&app, false, accept).await {
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let peer = Peer::Unix { uid: peer.uid(), process: pid.and_then(this_process) };
        let (app, router) = (app.clone(), router.clone());
        app.tasks
            .clone()
            .spawn(async move { converse(ReadInTime::new(stream), peer, slot, router, &app).await }.boxed());
    }
}

/// The next connection, once there is room for one; none when the app is stopped.
async fn next<T, F: Future<Output = io::Result<T>>>(
    app: &App,
    over_network: bool,
    accept: impl Fn() -> F,
) -> Option<(ConnectionSlot, T)> {
    let slot = tokio::select! {
        () = app.stop.cancelled() => return None,
        slot = app.limits.slot(over_network) => slot?,
    };
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return None,
            accepted = accept() => match accepted {
                Ok(accepted) => return Some((slot, accepted)),
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
async fn shake_hands(stream: TcpStream, tls: TlsAcceptor, app: &App) -> Option<TlsStream<TcpStream>> {
    let shaken = tokio::select! {
        () = app.stop.cancelled() => return None,
        shaken = tokio::time::timeout(slowest(app), tls.accept(stream)) => shaken,
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

/// How long a client may take to say what it wants.
fn slowest(app: &App) -> Duration {
    if app.limits.is_crowded() { SLOWEST_WHEN_CROWDED } else { SLOWEST_HEADERS }
}

async fn converse(stream: ReadInTime, peer: Peer, slot: ConnectionSlot, router: Router, app: &App) {
    let Cut(cut) = Cut::default();
    let (own, counted) = (cut.clone(), Arc::new(Connection::new(slot)));
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Cut(own.clone()));
        request.extensions_mut().insert(counted.clone());
        let mut router = router.clone();
        tower::Service::call(&mut router, request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(slowest(app))
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    let mut connection = PollAgain::new(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = cut.cancelled() => return,
        () = app.stop.cancelled() => {
            connection.inner().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
