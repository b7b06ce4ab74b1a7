//! What the hub listens on: the address it was given, the other loopback address beside it, and the Unix
//! socket.

use anyhow::{Context, bail};
use rustix::io::Errno;
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
        let tcp = bind_tcp(listen).await?;
        Ok(Self { tcp, unix: bind_unix(socket)?, tls })
    }

    /// Where the hub is reached over TCP.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let first = self.tcp.first().context("there is no listener")?;
        Ok(first.local_addr()?)
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
        match TcpListener::bind(other).await {
            Ok(second) => return Ok(vec![first, second]),
            Err(error) if is_absent(&error) => {
                tracing::info!(%other, "this machine has no such address, so nobody listens there");
                return Ok(vec![first]);
            }
            Err(error)
                if error.kind() == ErrorKind::AddrInUse
                    && listen.port() == 0
                    && unsuitable.len() < MOST_PORTS =>
            {
                unsuitable.push(first);
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
                "another program listens on {other}. A browser that opens http://localhost:{} may reach it \
                 instead of the hub, and it may belong to another user.\n\
                 Stop that program, or choose another port with --listen.",
                other.port()
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot listen on {other}")),
        }
    }
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
