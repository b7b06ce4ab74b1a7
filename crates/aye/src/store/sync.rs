//! Brings commits to the disk. While one fsync is under way the writer goes on, and what it commits meanwhile
//! shares the next. Only what is on disk is told to callers who wait for that, to surfaces and to readers.

use super::StoreError;
use super::writer::{Commit, Tell};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The writer waits when it is so many commits ahead of the disk.
const FURTHEST_AHEAD: usize = 64;

/// A commit that is not on disk yet.
pub struct Group {
    pub number: u64,
    /// None if nothing was committed after all.
    pub commit: Option<Commit>,
    pub waiting: Vec<Tell>,
}

/// What the two threads and the readers share.
struct Progress {
    begun: AtomicU64,
    synced: watch::Sender<u64>,
    /// Once an fsync has failed, the system may have forgotten what it could not write: nothing that comes later
    /// may be built on it.
    failed: OnceLock<StoreError>,
}

pub struct Syncer {
    progress: Arc<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The writer's end.
pub struct Groups {
    progress: Arc<Progress>,
    queue: SyncSender<Group>,
}

impl Syncer {
    pub fn start(log: &Path, committed: Box<dyn Fn(Commit) + Send>) -> io::Result<(Self, Groups)> {
        let log = File::open(log)?;
        let (queue, groups) = sync_channel(FURTHEST_AHEAD);
        let progress =
            Progress { begun: AtomicU64::new(0), synced: watch::Sender::new(0), failed: OnceLock::new() };
        let progress = Arc::new(progress);
        let shared = progress.clone();
        let thread = std::thread::Builder::new()
            .name("aye-syncer".into())
            .spawn(move || sync_groups(&log, &groups, &shared, &*committed))?;
        Ok((
            Self { progress: progress.clone(), thread: Mutex::new(Some(thread)) },
            Groups { progress, queue },
        ))
    }

    /// Waits until everything that is committed by now is on disk.
    pub async fn settled(&self) {
        let begun = self.progress.begun.load(Ordering::SeqCst);
        if *self.progress.synced.borrow() < begun {
            // The sender lives as long as we do.
            drop(self.progress.synced.subscribe().wait_for(|synced| *synced >= begun).await);
        }
    }

    pub fn thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Groups {
    /// Whether anything may still be written.
    pub fn check(&self) -> Result<(), StoreError> {
        self.progress.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub fn begin(&self) -> u64 {
        self.progress.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn pass_on(&self, group: Group) {
        if let Err(unsent) = self.queue.send(group) {
            // The other thread is gone, which it never is while we run.
            unsent.0.waiting.into_iter().for_each(|tell| tell(Err(StoreError::Closed)));
        }
    }
}

fn sync_groups(log: &File, groups: &Receiver<Group>, progress: &Progress, committed: &dyn Fn(Commit)) {
    while let Ok(first) = groups.recv() {
        let together: Vec<_> = std::iter::once(first).chain(groups.try_iter()).collect();
        let synced = match progress.failed.get() {
            Some(error) => Err(error.clone()),
            None => log.sync_data().map_err(|error| failed(progress, error)),
        };
        for Group { number, commit, waiting } in together {
            if synced.is_ok() {
                // Told before the callers, so that whoever waited for a change can find it in the feed.
                commit.into_iter().for_each(committed);
            }
            // Sent even where nobody looks.
            progress.synced.send_replace(number);
            waiting.into_iter().for_each(|tell| tell(synced.clone()));
        }
    }
}

fn failed(progress: &Progress, error: io::Error) -> StoreError {
    tracing::error!(%error, "the disk did not take what was committed; nothing more is written");
    progress.failed.get_or_init(|| StoreError::Unsynced(Arc::new(error))).clone()
}
