//! Drops clients that leave a reply unread: their connection holds a slot, with or without a token.

use crate::transport::Socket;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A client that takes nothing for this long is dropped.
const SLOWEST_READER: Duration = Duration::from_secs(30);

/// A connection that fails once its other end has read nothing for too long while there was something to read.
pub struct ReadInTime {
    stream: Box<dyn Socket>,
    within: Duration,
    /// Runs while something waits to be taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl ReadInTime {
    pub fn new(stream: impl Socket) -> Self {
        Self { stream: Box::new(stream), within: SLOWEST_READER, stalled: None }
    }

    fn in_time<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let within = self.within;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ReadInTime {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ReadInTime {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn a_reply_that_nobody_reads_ends_its_connection() {
        let (ours, _theirs) = duplex(16);
        let mut ours = ReadInTime { within: Duration::from_millis(1), ..ReadInTime::new(ours) };
        let written = ours.write_all(&[0; 64]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_is_read_gives_the_rest_of_a_reply_new_time() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = ReadInTime::new(ours);
        let mut all = [0; 64];
        let (written, read) = tokio::join!(ours.write_all(&[1; 64]), theirs.read_exact(&mut all));
        assert!(written.is_ok() && read.is_ok());
        assert_eq!(all, [1; 64]);
        assert!(ours.stalled.is_none());
    }
}
