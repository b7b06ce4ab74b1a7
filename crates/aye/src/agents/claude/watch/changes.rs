//! Which files change, as the system tells it.

use notify::event::{ModifyKind, RenameMode};
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
    paths: mpsc::Receiver<ChangedPath>,
    missed: Arc<Missed>,
    folders: HashSet<PathBuf>,
}

struct ChangedPath {
    path: PathBuf,
    /// Removed, or now called otherwise.
    gone: bool,
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
            let gone = is_gone(event.kind);
            for path in event.paths {
                if sender.try_send(ChangedPath { path, gone }).is_err() {
                    telling.note();
                }
            }
        };
        let watcher = notify::recommended_watcher(tell)?;
        Ok(Self { watcher, paths, missed, folders: HashSet::new() })
    }

    /// What changes in a folder is told from now on. Says whether it was not told before; a folder that is not there yet
    /// may be tried again.
    pub fn follow_once(&mut self, folder: &Path) -> bool {
        if self.folders.contains(folder) || !folder.exists() {
            return false;
        }
        match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => self.folders.insert(folder.to_owned()),
            Err(error) => {
                tracing::debug!(%error, folder = %folder.display(), "a folder cannot be followed yet");
                false
            }
        }
    }

    pub async fn next(&mut self) -> Changed {
        loop {
            if self.missed.some.swap(false, Ordering::Relaxed) {
                // Folders that went away may be among it. To follow one twice does no harm.
                self.folders.clear();
                return Changed::Everything;
            }
            tokio::select! {
                path = self.paths.recv() => match path {
                    Some(ChangedPath { path, gone }) => {
                        // If they are made again, they are new ones to the system.
                        if gone {
                            self.folders.retain(|folder| !folder.starts_with(&path));
                        }
                        return Changed::File(path);
                    }
                    None => std::future::pending::<()>().await,
                },
                () = self.missed.wake.notified() => {}
            }
        }
    }
}

fn is_gone(kind: EventKind) -> bool {
    let renamed = |mode| matches!(mode, RenameMode::From | RenameMode::Any);
    match kind {
        EventKind::Remove(_) => true,
        EventKind::Modify(ModifyKind::Name(mode)) => renamed(mode),
        _ => false,
    }
}

impl Missed {
    fn note(&self) {
        self.some.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tokio::time::timeout;

    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

    #[tokio::test]
    async fn a_folder_that_went_away_with_one_above_it_is_followed_again_once_it_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (above, below) = (dir.path().join("projects"), dir.path().join("projects/work"));
        fs::create_dir_all(&below).unwrap();
        let mut changes = Changes::new().unwrap();
        for folder in [dir.path(), &above, &below] {
            assert!(changes.follow_once(folder));
            assert!(!changes.follow_once(folder));
        }
        fs::rename(&above, dir.path().join("old")).unwrap();
        fs::create_dir_all(&below).unwrap();
        let followed = async {
            while !changes.follow_once(&below) {
                changes.next().await;
            }
            fs::write(below.join("a"), "").unwrap();
            while changes.next().await != Changed::File(below.join("a")) {}
        };
        timeout(PATIENCE, followed).await.expect("it is told what changes there");
    }
}
