//! The one writer. Changes that arrive together share a commit. A commit does not wait for the disk: another
//! thread sees to that (see `sync.rs`), so that many commits cost one fsync and the writer goes on meanwhile.
//! A caller is told of its success after that fsync, unless it says that it need not be.

use super::outbox::Change;
use super::sync::{Group, Groups, Syncer};
use super::{StoreError, audit};
use aye_core::trail::Chain;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

const QUEUE: usize = 1024;
const LARGEST_GROUP: usize = 256;

/// What a change may use while it runs inside a commit.
pub struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) chain: Chain,
    pub(super) changes: Vec<Change>,
}

/// What a commit that is on disk did.
pub struct Commit {
    /// What the surfaces must be told, in order.
    pub changes: Vec<Change>,
    /// How many callers shared it.
    pub group: usize,
}

/// Tells a caller how its change ended; `Err` when the commit as a whole failed.
pub type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Runs a change; without a transaction to run in, it only passes the error on.
type Job = Box<dyn FnOnce(Result<&mut Tx, StoreError>) -> Ran + Send>;

/// A change that has run inside a commit.
struct Ran {
    keep: bool,
    /// Whether its caller is told before the commit is on disk.
    early: bool,
    tell: Tell,
}

pub struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    syncer: Syncer,
}

impl Writer {
    /// `log` is the database's write-ahead log.
    pub fn start(
        connection: Connection,
        log: &Path,
        committed: Box<dyn Fn(Commit) + Send>,
    ) -> Result<Self, std::io::Error> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (syncer, groups) = Syncer::start(log, committed)?;
        let thread = std::thread::Builder::new()
            .name("aye-writer".into())
            .spawn(move || write_groups(&connection, receiver, &groups))?;
        Ok(Self { jobs: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), syncer })
    }

    /// Returns once the change is on disk, or, where `early` allows it, once it is committed.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Tx) -> Result<T, E> + Send + 'static,
        early: impl FnOnce(&T) -> bool + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |tx| {
            let result = tx.map_err(E::from).and_then(work);
            let (keep, early) = (result.is_ok(), result.as_ref().is_ok_and(early));
            let tell = move |committed: Result<(), StoreError>| {
                // A caller that went away does not need to know.
                drop(reply.send(committed.map_err(E::from).and(result)));
            };
            Ran { keep, early, tell: Box::new(tell) }
        });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let jobs = jobs.ok_or(StoreError::Closed)?;
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Waits until everything that is committed by now is on disk.
    pub async fn settled(&self) {
        self.syncer.settled().await;
    }

    pub async fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in thread.into_iter().chain(self.syncer.thread()) {
            if tokio::task::spawn_blocking(move || thread.join()).await.is_err() {
                tracing::error!("the writer did not end as it should");
            }
        }
    }
}

fn write_groups(connection: &Connection, mut jobs: mpsc::Receiver<Job>, groups: &Groups) {
    while let Some(first) = jobs.blocking_recv() {
        let begun = groups.check().and_then(|()| begin(connection));
        let chain = match begun {
            Ok(chain) => chain,
            Err(error) => {
                tracing::error!(%error, "a commit could not begin");
                (first(Err(error.clone())).tell)(Err(error));
                continue;
            }
        };
        // Before the commit, so that whoever sees its effects knows that the disk may not have them yet.
        let number = groups.begin();
        let mut tx = Tx { connection, chain, changes: Vec::new() };
        let mut ran = Vec::new();
        let group = match run_group(&mut tx, first, &mut jobs, &mut ran) {
            Ok(()) => {
                let commit = Commit { changes: tx.changes, group: ran.len() };
                let (early, later): (Vec<_>, Vec<_>) = ran.into_iter().partition(|ran| ran.early);
                early.into_iter().for_each(|ran| (ran.tell)(Ok(())));
                Group {
                    number,
                    commit: Some(commit),
                    waiting: later.into_iter().map(|ran| ran.tell).collect(),
                }
            }
            Err(error) => {
                tracing::error!(%error, "a commit failed; nothing of it was kept");
                if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
                    tracing::error!("and it could not be rolled back");
                }
                ran.into_iter().for_each(|ran| (ran.tell)(Err(error.clone())));
                Group { number, commit: None, waiting: Vec::new() }
            }
        };
        groups.pass_on(group);
    }
}

fn begin(connection: &Connection) -> Result<Chain, StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    audit::chain_head(connection).inspect_err(|_| drop(connection.execute_batch("ROLLBACK")))
}

fn run_group(
    tx: &mut Tx,
    first: Job,
    jobs: &mut mpsc::Receiver<Job>,
    ran: &mut Vec<Ran>,
) -> Result<(), StoreError> {
    let mut next = Some(first);
    while let Some(job) = next {
        run_job(tx, job, ran)?;
        // Who is told at the commit does not wait for what others change.
        let is_awaited = ran.last().is_some_and(|ran| ran.early);
        next = if ran.len() < LARGEST_GROUP && !is_awaited { jobs.try_recv().ok() } else { None };
    }
    Ok(tx.connection.execute_batch("COMMIT")?)
}

fn run_job(tx: &mut Tx, job: Job, ran: &mut Vec<Ran>) -> Result<(), StoreError> {
    let (chain, changes) = (tx.chain.clone(), tx.changes.len());
    let savepoint = tx.connection.execute_batch("SAVEPOINT job").map_err(StoreError::from);
    let failed = savepoint.clone();
    let this = job(savepoint.map(|()| &mut *tx));
    let keep = this.keep;
    ran.push(this);
    failed?;
    // SQLite itself gives the whole transaction up on some errors, a full disk among them.
    if tx.connection.is_autocommit() {
        return Err(StoreError::Full);
    }
    if !keep {
        tx.connection.execute_batch("ROLLBACK TO job")?;
        tx.chain = chain;
        tx.changes.truncate(changes);
    }
    Ok(tx.connection.execute_batch("RELEASE job")?)
}
