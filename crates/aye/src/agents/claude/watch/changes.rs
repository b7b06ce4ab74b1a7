//! Which files change, as the system tells it.

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, mpsc};

const QUEUE: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    File(PathBuf),
    /// More happened than could be told one by one.
    Everything,
}

pub struct Changes {
    watcher: RecommendedWatcher,
    paths: mpsc::Receiver<PathBuf>,
    missed: Arc<Missed>,
    folders: HashSet<PathBuf>,
}

#[derive(Default)]
struct Missed {
    some: AtomicBool,
    wake: Notify,
}

impl Changes {
    pub fn new() -> notify::Result<Self> {
        let (sender, paths) = mpsc::channel(QUEUE);
        let missed = Arc::new(Missed::default());
        let telling = missed.clone();
        let tell = move |event: notify::Result<Event>| {
            let event = match event {
                // Our own looking is an event, too.
                Ok(event) if matches!(event.kind, EventKind::Access(_)) && !event.need_rescan() => return,
                Ok(event) if !event.need_rescan() => event,
                _ => return telling.note(),
            };
            for path in event.paths {
                if sender.try_send(path).is_err() {
                    telling.note();
                }
            }
        };
        let watcher = notify::recommended_watcher(tell)?;
        Ok(Self { watcher, paths, missed, folders: HashSet::new() })
    }

    /// What changes in a folder is told from now on. One that is not there yet may be tried again.
    pub fn follow_once(&mut self, folder: &Path) -> notify::Result<()> {
        if !self.folders.contains(folder) {
            self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
            self.folders.insert(folder.to_owned());
        }
        Ok(())
    }

    pub async fn next(&mut self) -> Changed {
        loop {
            if self.missed.some.swap(false, Ordering::Relaxed) {
                return Changed::Everything;
            }
            tokio::select! {
                path = self.paths.recv() => match path {
                    Some(path) => return Changed::File(path),
                    None => std::future::pending::<()>().await,
                },
                () = self.missed.wake.notified() => {}
            }
        }
    }
}

impl Missed {
    fn note(&self) {
        self.some.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}
