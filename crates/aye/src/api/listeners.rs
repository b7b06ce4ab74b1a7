//! What the hub listens on: the address it was given, the other loopback address beside it, and the Unix
//! socket.

use anyhow::{Context, ensure};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

/// How many ports are tried, where any will do, to find one that is free on both loopback addresses.
const MOST_PORTS: usize = 32;

pub struct Listeners {
    /// The first is the one that was asked for.
    pub tcp: Vec<TcpListener>,
    pub unix: UnixListener,
    /// With it, nothing but TLS is spoken over TCP.
    pub tls: Option<TlsAcceptor>,
}

impl Listeners {
    pub async fn bind(listen: SocketAddr, tls: Option<TlsAcceptor>, socket: &Path) -> anyhow::Result<Self> {
        let tcp = match passed(listen)? {
            Some(first) => with_other_loopback(first).await?,
            None => bind_tcp(listen).await?,
        };
        Ok(Self { tcp, unix: bind_unix(socket)?, tls })
    }

    /// Where the hub is reached over TCP.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let first = self.tcp.first().context("there is no listener")?;
        Ok(first.local_addr()?)
    }
}

/// The sockets that systemd holds for us, so that nobody else gets the port while the hub is down. They must be
/// the ones that would be opened else.
fn passed(listen: SocketAddr) -> anyhow::Result<Option<Vec<TcpListener>>> {
    let mut passed = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..passed.len() {
        let socket = passed.take_tcp_listener(index).ok().flatten();
        let socket = socket.context("systemd passed something that is no TCP socket: check aye.socket")?;
        let address = socket.local_addr()?;
        ensure!(
            address == listen || Some(address) == other_loopback(listen),
            "systemd passed a socket on {address}, and --listen says {listen}: run `aye up --install-service` again"
        );
        // Not for the programs that the hub starts.
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        socket.set_nonblocking(true)?;
        listeners.push(TcpListener::from_std(socket)?);
    }
    listeners.sort_by_key(|socket| socket.local_addr().is_ok_and(|address| address != listen));
    Ok((!listeners.is_empty()).then_some(listeners))
}

/// What was passed, and the other loopback address where that is not among it.
async fn with_other_loopback(mut passed: Vec<TcpListener>) -> anyhow::Result<Vec<TcpListener>> {
    if let [only] = &*passed
        && let Some(other) = other_loopback(only.local_addr()?)
    {
        passed.extend(bind_other(other).await?);
    }
    Ok(passed)
}

/// None if this machine has no such address.
async fn bind_other(other: SocketAddr) -> anyhow::Result<Option<TcpListener>> {
    match TcpListener::bind(other).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if is_absent(&error) => {
            tracing::info!(%other, "this machine has no such address, so nobody listens there");
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(error).with_context(|| {
            format!(
                "another program listens on {other}. A browser that opens http://localhost:{} may reach it \
             instead of the hub, and it may belong to another user.\n\
             Stop that program, or choose another port with --listen.",
                other.port()
            )
        }),
        Err(error) => Err(error).with_context(|| format!("cannot listen on {other}")),
    }
}

/// Browsers go to either loopback address for `localhost`, so whoever listens on the other one gets what was
/// meant for us.
async fn bind_tcp(listen: SocketAddr) -> anyhow::Result<Vec<TcpListener>> {
    // Kept until a port is found: the system must not offer the same one again.
    let mut unsuitable = Vec::new();
    loop {
        let first = TcpListener::bind(listen).await.with_context(|| {
            format!("cannot listen on {listen}; choose another address with --listen, or port 0 for any that is free")
        })?;
        let Some(other) = other_loopback(first.local_addr()?) else { return Ok(vec![first]) };
        match bind_other(other).await {
            Ok(second) => return Ok([first].into_iter().chain(second).collect()),
            Err(_) if listen.port() == 0 && unsuitable.len() < MOST_PORTS => unsuitable.push(first),
            Err(error) => return Err(error),
        }
    }
}

/// Every address that would be listened on, as far as this machine has it.
pub fn addresses(listen: SocketAddr) -> Vec<SocketAddr> {
    let there = |address: &SocketAddr| std::net::TcpListener::bind((address.ip(), 0)).is_ok();
    [Some(listen), other_loopback(listen).filter(there)].into_iter().flatten().collect()
}

/// The other address that `localhost` may mean. Listening on every IPv6 address covers IPv4 as well.
fn other_loopback(listening: SocketAddr) -> Option<SocketAddr> {
    let other: IpAddr = match listening.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => return None,
    };
    Some(SocketAddr::new(other, listening.port()))
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable || Errno::from_io_error(error) == Some(Errno::AFNOSUPPORT)
}

fn bind_unix(socket: &Path) -> anyhow::Result<UnixListener> {
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
    Ok(unix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_free_port_is_free_on_both_loopback_addresses() {
        let listeners = bind_tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let addresses: Vec<_> = listeners.iter().map(|it| it.local_addr().unwrap()).collect();
        let Some(six) = addresses.get(1) else { return };
        assert_eq!(six.ip(), IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!(six.port(), addresses[0].port());
        assert_eq!(TcpListener::bind(six).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_port_that_somebody_else_has_on_the_other_loopback_address_is_refused() {
        for (theirs, ours) in [("[::1]:0", "127.0.0.1"), ("127.0.0.1:0", "[::1]")] {
            let Ok(squatter) = TcpListener::bind(theirs).await else { return };
            let taken = squatter.local_addr().unwrap();
            let asked = format!("{ours}:{}", taken.port());
            let why = bind_tcp(asked.parse().unwrap()).await.unwrap_err().to_string();
            assert!(why.contains(&format!("another program listens on {taken}")), "{why}");
        }
    }
}
