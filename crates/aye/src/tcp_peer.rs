//! The process at the other end of a TCP connection on this machine. Any user may listen on a free port, so a secret goes to
//! one only after the system has said who accepted this very connection.

use crate::processes::line_of;
use rustix::process::getpid;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Whether this system tells who is at the other end of a connection.
pub const IS_KNOWN: bool = cfg!(target_os = "linux");

/// Until it is accepted, a connection belongs to no process.
const LONGEST_ACCEPT: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Deeper trees of processes are not followed.
const DEEPEST: usize = 256;
/// The connections of this network namespace; IPv4 addresses may be written as IPv6 ones in the second.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Succeeds if a process that we started, or one below it, accepted this connection. Whatever cannot be read is an error:
/// then nothing may be sent.
pub async fn require_descendant(stream: &TcpStream) -> io::Result<()> {
    accepted_by_descendant(stream, LONGEST_ACCEPT).await
}

async fn accepted_by_descendant(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    let inode = timeout(patience, accepted_inode(stream)).await;
    let inode = inode.map_err(|_| refused("nobody accepts what comes"))??;
    match is_held_below_us(inode)? {
        true => Ok(()),
        false => Err(refused("a program that we did not start listens")),
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{why} on this port; nothing was sent there"))
}

/// Waits until the other end is accepted, and returns the number of its socket.
async fn accepted_inode(stream: &TcpStream) -> io::Result<u64> {
    let (ours, theirs) = (stream.local_addr()?, stream.peer_addr()?);
    loop {
        for table in TABLES {
            let listed = match fs::read_to_string(table) {
                Ok(listed) => listed,
                // Without IPv6 there is one table.
                Err(error) if error.kind() == io::ErrorKind::NotFound && table != TABLES[0] => continue,
                Err(error) => return Err(error),
            };
            if let Some(inode) = listed.lines().find_map(|line| inode_in(line, theirs, ours)) {
                return Ok(inode);
            }
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// The socket's number, if this line lists the connection between these addresses and somebody has accepted it.
fn inode_in(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let addresses = (address(fields.nth(1)?)?, address(fields.next()?)?);
    let is_it = addresses == (canonical(local), canonical(remote));
    let inode: u64 = fields.nth(6).filter(|_| is_it)?.parse().ok()?;
    (inode != 0).then_some(inode)
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Reads `0100007F:1C09`: words of 32 bits as they lie in memory, then the port.
fn address(written: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = written.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

/// Looks at every process whose files we may see; another user's are not among them.
fn is_held_below_us(inode: u64) -> io::Result<bool> {
    let ourselves = getpid().as_raw_nonzero().get().unsigned_abs();
    let socket = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let is_below = |pid: u32| pid != ourselves && line_of(pid, DEEPEST).any(|above| above == ourselves);
        if is_below(pid) && holds(&process.path(), &socket) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds(process: &Path, socket: &str) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(socket)))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    /// Both ends of a connection, the accepted one second.
    async fn connected(to: &str) -> (TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind(to).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (stream, listener.accept().unwrap().0)
    }

    #[tokio::test]
    async fn only_what_a_child_of_ours_accepted_is_trusted() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (stream, accepted) = connected(address).await;
            let refused = require_descendant(&stream).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "we accepted it ourselves");
            let held = Stdio::from(OwnedFd::from(accepted));
            let mut child = Command::new("cat").stdin(held).stdout(Stdio::null()).spawn().unwrap();
            let trusted = require_descendant(&stream).await;
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(trusted.is_ok(), "{address}: {trusted:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_nobody_accepts_is_not_trusted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let refused = accepted_by_descendant(&stream, BETWEEN_LOOKS * 4).await.unwrap_err();
        assert!(refused.to_string().contains("nobody accepts"), "{refused}");
    }

    #[test]
    fn addresses_are_read_as_the_system_writes_them() {
        assert_eq!(address("0100007F:1C09"), Some(([127, 0, 0, 1].into(), 7177)));
        let mapped = "0000000000000000FFFF00000100007F:1C09";
        assert_eq!(address(mapped), Some(([127, 0, 0, 1].into(), 7177)));
        for wrong in ["", "0100007F", "0100007:1C09", "0100007F:XYZ", "é100007F:1C09"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
