//! The one writer. Changes that arrive while a commit is under way share the next one, so that many
//! answers cost one fsync; each is told of its success only after that fsync.

use super::following::Shared;
use super::live_rows::{LiveRows, write_tag};
use super::outbox::Change;
use super::reader::BegunChange;
use super::sql::{Connection, LARGEST_GROUP};
use super::{Reader, StoreError, caught};
use aye_core::trail::{Chain, ChainKey};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread, park_timeout};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

const QUEUE: usize = 1024;
/// Changes that nobody waits for; whoever comes beyond them has to wait. Two groups: what a slow fsync holds up,
/// and as many again.
pub const MOST_PENDING_RECORDS: usize = 2 * LARGEST_GROUP;

/// How long changes that nobody waits for are gathered: a commit takes as much of a processor as several of them. The
/// next report of an agent that works comes within this time, and commits them as well.
const GATHERING: Duration = Duration::from_millis(10);

/// What a change may use while it runs inside a commit.
pub struct Tx<'a> {
    reader: &'a Reader,
    pub(super) connection: &'a Connection,
    pub(super) key: &'a ChainKey,
    pub(super) chain: Chain,
    pub(super) changes: Vec<Change>,
    /// Something was deleted that must not be left in the log.
    pub(super) forgets: bool,
}

/// What is read inside a change is what the changes before it left.
impl Deref for Tx<'_> {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        self.reader
    }
}

/// Tells a caller how its change ended; `Err` when the commit as a whole failed.
type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Runs a change and says whether to keep it; without a transaction to run in, it only passes the error on.
type Run = Box<dyn FnOnce(Result<&mut Tx, StoreError>) -> (bool, Tell) + Send>;

struct Job {
    run: Run,
    /// Whether somebody waits until it is on disk.
    awaited: bool,
}

pub struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// To wake it while it gathers.
    awake: Thread,
    pending_records: Arc<Semaphore>,
    /// Whether the last commit succeeded.
    healthy: Arc<AtomicBool>,
}

/// A reserved slot in the writer's queue, for a change that nobody waits for.
pub struct QueueSlot {
    jobs: mpsc::OwnedPermit<Job>,
    counted: OwnedSemaphorePermit,
    healthy: Arc<AtomicBool>,
}

impl QueueSlot {
    /// Hands `work` to the writer, after everything handed to it before. `ended` is called on the writer's
    /// thread once `work` is on disk, or is known not to get there.
    pub fn write<T, E>(
        self,
        work: impl FnOnce(&mut Tx) -> Result<T, E> + Send + 'static,
        ended: impl FnOnce(Result<T, E>) + Send + 'static,
    ) where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let Self { jobs, counted, healthy } = self;
        let ended = move |result: Result<T, E>| {
            if result.is_err() {
                healthy.store(false, Ordering::Relaxed);
            }
            ended(result);
            drop(counted);
        };
        jobs.send(Job { run: run(work, ended), awaited: false });
    }
}

impl Writer {
    pub fn start(reader: Reader, shared: Arc<Shared>) -> Result<Self, std::io::Error> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let healthy = Arc::new(AtomicBool::new(true));
        let is_healthy = healthy.clone();
        let thread = std::thread::Builder::new()
            .name("aye-writer".into())
            .spawn(move || write_groups(&reader, &shared, receiver, &is_healthy))?;
        Ok(Self {
            jobs: Mutex::new(Some(sender)),
            awake: thread.thread().clone(),
            thread: Mutex::new(Some(thread)),
            pending_records: Arc::new(Semaphore::new(MOST_PENDING_RECORDS)),
            healthy,
        })
    }

    /// None if a prompt write is not certain: the last commit failed, too many records are pending, or the writer is
    /// stopping.
    pub fn queue_slot(&self) -> Option<QueueSlot> {
        if !self.healthy.load(Ordering::Relaxed) {
            return None;
        }
        let counted = self.pending_records.clone().try_acquire_owned().ok()?;
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let jobs = jobs.try_reserve_owned().ok()?;
        Some(QueueSlot { jobs, counted, healthy: self.healthy.clone() })
    }

    pub fn has_pending_records(&self) -> bool {
        self.pending_records.available_permits() < MOST_PENDING_RECORDS
    }

    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        // A caller that went away does not need to know.
        let job = Job { run: run(work, move |result| drop(reply.send(result))), awaited: true };
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let jobs = jobs.ok_or(StoreError::Closed)?;
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        self.awake.unpark();
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub async fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && tokio::task::spawn_blocking(move || thread.join()).await.is_err()
        {
            tracing::error!("the writer did not end as it should");
        }
    }
}

fn run<T, E>(
    work: impl FnOnce(&mut Tx) -> Result<T, E> + Send + 'static,
    ended: impl FnOnce(Result<T, E>) + Send + 'static,
) -> Run
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    Box::new(move |tx| {
        let result = tx.map_err(E::from).and_then(|tx| caught(|| work(tx)));
        let keep = result.is_ok();
        let tell = move |committed: Result<(), StoreError>| ended(committed.map_err(E::from).and(result));
        (keep, Box::new(tell))
    })
}

fn write_groups(reader: &Reader, shared: &Shared, mut jobs: mpsc::Receiver<Job>, healthy: &AtomicBool) {
    let (connection, key) = (&reader.connection, &shared.key);
    // Not while the database was opened: what a migration changes at once may not fit.
    if let Err(error) = connection.undo_in_memory() {
        tracing::warn!(%error, "changes are undone from a file");
    }
    // Whatever an earlier process deleted and left there.
    let mut log_is_empty = connection.empty_log();
    while let Some(first) = jobs.blocking_recv() {
        // Whoever waits wakes it before that.
        if !first.awaited {
            park_timeout(GATHERING);
        }
        let BegunChange { chain, group, mut telling } = match reader.begin_change(shared) {
            Ok(begun) => begun,
            Err(error) => {
                tracing::error!(%error, "a commit could not begin");
                healthy.store(false, Ordering::Relaxed);
                let (_, tell) = (first.run)(Err(error.clone()));
                tell(Err(error));
                continue;
            }
        };
        let mut tx = Tx { reader, connection, key, chain, changes: Vec::new(), forgets: false };
        let mut waiting = Vec::new();
        match run_group(&mut tx, first, &mut jobs, &mut waiting) {
            Ok(()) => {
                shared.live_rows.keep();
                // A commit of nothing says nothing of the disk.
                if !tx.changes.is_empty() {
                    healthy.store(true, Ordering::Relaxed);
                }
                shared.head.advance(&tx.chain);
                log_is_empty &= !tx.forgets;
                // Told before the callers, so that whoever knows of a change can find it in the feed.
                shared.following.committed(reader, &mut telling, group, (tx.changes, waiting.len()));
                drop(telling);
                waiting.into_iter().for_each(|tell| tell(Ok(())));
                if !log_is_empty {
                    log_is_empty = connection.empty_log();
                }
            }
            Err(error) => {
                tracing::error!(%error, "a commit failed; nothing of it was kept");
                healthy.store(false, Ordering::Relaxed);
                shared.live_rows.give_up(0);
                connection.roll_back();
                drop(telling);
                waiting.into_iter().for_each(|tell| tell(Err(error.clone())));
            }
        }
    }
}

fn run_group(
    tx: &mut Tx,
    first: Job,
    jobs: &mut mpsc::Receiver<Job>,
    waiting: &mut Vec<Tell>,
) -> Result<(), StoreError> {
    let begun = tx.chain.lines;
    let (mut next, began) = (Some(first), Instant::now());
    while let Some(job) = next {
        run_job(tx, job, waiting)?;
        let is_full = tx.connection.is_full_group(waiting.len(), began);
        next = if is_full { None } else { jobs.try_recv().ok() };
    }
    if let Some(live_rows) = tx.live_rows()
        && (tx.chain.lines != begun || live_rows.changes() > 0)
    {
        write_tag(tx.connection, live_rows, &tx.chain)?;
    }
    tx.connection.commit()
}

fn run_job(tx: &mut Tx, job: Job, waiting: &mut Vec<Tell>) -> Result<(), StoreError> {
    let (chain, changes) = (tx.chain.clone(), tx.changes.len());
    let stood = tx.live_rows().map_or(0, LiveRows::changes);
    let savepoint = tx.connection.run("SAVEPOINT job");
    let failed = savepoint.clone();
    let (keep, tell) = (job.run)(savepoint.map(|()| &mut *tx));
    if let Err(error) = failed.and_then(|()| tx.connection.check_transaction()) {
        waiting.push(tell);
        return Err(error);
    }
    // A server refuses to keep what follows a statement that failed, even if the change went on without it.
    let kept = if keep { tx.connection.run("RELEASE job") } else { Ok(()) };
    if !keep || kept.is_err() {
        let undone = tx.connection.run("ROLLBACK TO job").and_then(|()| tx.connection.run("RELEASE job"));
        if let Err(error) = undone {
            waiting.push(tell);
            return Err(error);
        }
        tx.chain = chain;
        tx.changes.truncate(changes);
        tx.live_rows().into_iter().for_each(|live_rows| live_rows.give_up(stood));
    }
    waiting.push(match kept {
        Ok(()) => tell,
        failed => Box::new(move |committed| tell(committed.and(failed))),
    });
    Ok(())
}
