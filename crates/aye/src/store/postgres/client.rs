//! A connection to the server for threads, which wait for each call. Every call has a deadline: keepalives find a machine that
//! is gone, but not a server that has stopped answering while its kernel still acknowledges what it receives.

use super::super::StoreError;
use super::tls::Tls;
use futures_util::Stream;
use futures_util::stream;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Config, Connection, Error, NoTls};

/// For the calls of a running hub. Locks are waited for less long than this, so that the server's own errors come first.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(15);
/// For a search through everything that was ever asked.
pub const READS_WITHIN: Duration = Duration::from_secs(30);
/// For migrations, copies and `aye verify`, whose single statements may go over whole tables.
pub const WORKS_WITHIN: Duration = Duration::from_mins(30);
/// How long the end of a connection may take.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Why there is no connection.
pub enum NoConnection {
    Failed(Error),
    /// The server took the connection and did not answer, for so long.
    Silent(Duration),
    System(std::io::Error),
}

pub struct Client {
    // Dropped first: without it, the link says goodbye to the server and ends.
    client: tokio_postgres::Client,
    link: Link,
}

/// What the server sends, and the runtime that waits for it.
struct Link {
    runtime: Runtime,
    messages: Messages,
    /// The newest group that a notification named.
    newest: Option<u64>,
}

/// Looks whether a piece of work is done. The runtime's own code is compiled once for all of them.
type PollWork<'a> = &'a mut dyn FnMut(&mut Context, &mut Option<u64>) -> Poll<()>;

type Messages = Pin<Box<dyn Stream<Item = Result<AsyncMessage, Error>> + Send>>;

impl Client {
    pub fn connect(config: &Config, tls: Option<&Tls>) -> Result<Self, NoConnection> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(NoConnection::System)?;
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
        let within = ANSWERS_WITHIN.saturating_mul(hosts.max(1));
        let connect = async {
            Ok(match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    (client, messages_of(connection))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, messages_of(connection))
                }
            })
        };
        // The timer has to be made inside of the runtime.
        let connected = runtime.block_on(async { timeout(within, connect).await });
        let connected = connected.map_err(|_| NoConnection::Silent(within))?;
        let (client, messages) = connected.map_err(NoConnection::Failed)?;
        Ok(Self { client, link: Link { runtime, messages, newest: None } })
    }

    /// Does this work and waits for it, but no longer than this. If it takes longer, the connection is closed, and what
    /// became of the work is not known.
    pub fn run<T, E: From<StoreError>>(
        &mut self,
        within: Duration,
        work: impl AsyncFnOnce(&mut tokio_postgres::Client) -> Result<T, E>,
    ) -> Result<T, E> {
        let Self { client, link } = self;
        let (mut work, mut done) = (pin!(work(client)), None);
        let ended = link
            .drive(within, &mut |context, _| work.as_mut().poll(context).map(|result| done = Some(result)));
        match (done, ended) {
            (Some(done), _) => done,
            (None, Some(Err(why))) => Err(why.into()),
            (None, Some(Ok(())) | None) => {
                let why = format!("it has not answered for {} seconds", within.as_secs());
                Err(StoreError::Away(why).into())
            }
        }
    }

    /// Waits for a notification, but no longer than this. Returns the number of the newest group that was heard of.
    pub fn wait_for_news(&mut self, within: Duration) -> Result<Option<u64>, StoreError> {
        let mut heard = None;
        let ended = self.link.listen(within, &mut |_, newest| {
            heard = newest.take();
            if heard.is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        ended.transpose().map(|_| heard)
    }

    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

impl Link {
    /// The same as `listen`, except that a connection that is too slow is closed.
    fn drive(&mut self, within: Duration, poll: PollWork) -> Option<Result<(), StoreError>> {
        let done = self.listen(within, poll);
        if done.is_none() {
            self.messages = Box::pin(stream::empty());
        }
        done
    }

    /// Passes on what the server sends until `poll` is ready, or the connection has ended; none if neither came in time.
    fn listen(&mut self, within: Duration, poll: PollWork) -> Option<Result<(), StoreError>> {
        let Self { runtime, messages, newest } = self;
        let mut ended = None;
        let done = poll_fn(|context| {
            while ended.is_none() {
                match messages.as_mut().poll_next(context) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(told)))) => {
                        *newest = (*newest).max(told.payload().parse().ok());
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => ended = Some(StoreError::from(error)),
                    Poll::Ready(None) => ended = Some(lost()),
                    Poll::Pending => break,
                }
            }
            // What came before the end of the connection still counts.
            match (poll(context, newest), &ended) {
                (Poll::Pending, Some(why)) => Poll::Ready(Err(why.clone())),
                (done, _) => done.map(Ok),
            }
        });
        let done = runtime.block_on(async { timeout(within, done).await });
        if ended.is_some() {
            *messages = Box::pin(stream::empty());
        }
        done.ok()
    }
}

impl Drop for Link {
    /// The server is told that the connection ends.
    fn drop(&mut self) {
        if self.listen(ENDS_WITHIN, &mut |_, _| Poll::Pending).is_none() {
            tracing::debug!("a connection to the database was cut off instead of ended");
        }
    }
}

pub fn lost() -> StoreError {
    StoreError::Away("the connection is lost".to_owned())
}

fn messages_of<S, T>(mut connection: Connection<S, T>) -> Messages
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(stream::poll_fn(move |context| connection.poll_message(context)))
}
