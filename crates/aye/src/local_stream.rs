//! A Unix socket that sleeps until there is something to read. The system tells the one end of every piece that the other
//! has read, as room to write; a stream that always listens for that is woken after each of its messages, for nothing.

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The runtime's types for pipes listen for one thing each, and suit a socket as well.
pub struct LocalStream {
    socket: pipe::Receiver,
    /// The same socket, since a write had to wait for room.
    room: Option<pipe::Sender>,
}

impl TryFrom<UnixStream> for LocalStream {
    type Error = io::Error;

    fn try_from(stream: UnixStream) -> io::Result<Self> {
        let socket = pipe::Receiver::from_owned_fd_unchecked(OwnedFd::from(stream.into_std()?))?;
        Ok(Self { socket, room: None })
    }
}

impl LocalStream {
    fn room(&mut self) -> io::Result<Pin<&mut pipe::Sender>> {
        let room = match &mut self.room {
            Some(room) => room,
            none => {
                let same = self.socket.as_fd().try_clone_to_owned()?;
                none.insert(pipe::Sender::from_owned_fd_unchecked(same)?)
            }
        };
        Ok(Pin::new(room))
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match rustix::io::write(&self.socket, bytes) {
            Err(Errno::AGAIN) => self.room()?.poll_write(context, bytes),
            written => Poll::Ready(Ok(written?)),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        parts: &[IoSlice],
    ) -> Poll<io::Result<usize>> {
        match rustix::io::writev(&self.socket, parts) {
            Err(Errno::AGAIN) => self.room()?.poll_write_vectored(context, parts),
            written => Poll::Ready(Ok(written?)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(&self.socket, Shutdown::Write)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net;
    use std::thread;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn pair() -> (LocalStream, net::UnixStream) {
        let (ours, theirs) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (UnixStream::from_std(ours).unwrap().try_into().unwrap(), theirs)
    }

    #[tokio::test]
    async fn what_is_longer_than_the_sockets_buffer_arrives_whole_both_ways() {
        let (mut ours, mut theirs) = pair();
        let long: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let echo = thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).unwrap();
            theirs.write_all(&read).unwrap();
        });
        ours.write_all(&long).await.unwrap();
        ours.shutdown().await.unwrap();
        let mut back = Vec::new();
        ours.read_to_end(&mut back).await.unwrap();
        echo.join().unwrap();
        assert!(back == long);
    }

    #[tokio::test]
    async fn nobody_is_woken_because_the_other_end_has_read() {
        const ROUNDS: u64 = 500;
        let (mut ours, mut theirs) = pair();
        let other = thread::spawn(move || {
            let mut piece = [0];
            while theirs.read(&mut piece).unwrap() > 0 {
                // Time enough for who is woken by that.
                (0..20).for_each(|_| thread::yield_now());
                theirs.write_all(&piece).unwrap();
            }
        });
        let metrics = tokio::runtime::Handle::current().metrics();
        let before = metrics.worker_park_count(0);
        for _ in 0..ROUNDS {
            ours.write_all(b"?").await.unwrap();
            assert_eq!(ours.read_u8().await.unwrap(), b'?');
        }
        let slept = metrics.worker_park_count(0) - before;
        assert!(slept < ROUNDS * 5 / 4, "{slept} times in {ROUNDS} rounds");
        drop(ours);
        other.join().unwrap();
    }

    #[tokio::test]
    async fn an_end_that_is_closed_is_read_as_the_end_and_not_written_to() {
        let (mut ours, theirs) = pair();
        drop(theirs);
        assert_eq!(ours.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(ours.write_all(b"x").await.is_err());
    }
}
