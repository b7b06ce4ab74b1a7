//! Whether files have changed since they were read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files are looked at this often, and read once two looks agree: editors write in several steps. A
/// watch on the folder would be told of every write to the database in it, hundreds for one commit.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What differs once a file was written, replaced by another, or made readable; nothing of it while there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(Option<(u64, i64, i64, u64)>);

impl Stamp {
    pub fn of(file: &Path) -> Self {
        let found = std::fs::metadata(file).ok();
        // The time of the last change of any kind, also of the mode, which nobody can set back.
        Self(found.map(|file| (file.ino(), file.ctime(), file.ctime_nsec(), file.len())))
    }
}

/// Files that are to be read whenever they have changed.
pub struct WatchedFiles {
    files: Vec<PathBuf>,
    last: Vec<Stamp>,
    /// None: they are read once more even if they stay as they are.
    read: Option<Vec<Stamp>>,
}

impl WatchedFiles {
    /// Files that may have changed since they were read.
    pub fn unread(files: Vec<PathBuf>) -> Self {
        Self { last: stamps(&files), read: None, files }
    }

    /// Files that are about to be read.
    pub fn read(files: Vec<PathBuf>) -> Self {
        let last = stamps(&files);
        Self { read: Some(last.clone()), last, files }
    }

    /// Waits until they are to be read again.
    pub async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let found = stamps(&self.files);
            let settled = self.last == found;
            self.last.clone_from(&found);
            if settled && self.read.as_ref() != Some(&found) {
                self.read = Some(found);
                return;
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| Stamp::of(file)).collect()
}
