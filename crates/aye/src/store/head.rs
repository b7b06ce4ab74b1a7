//! The newest line of the trail, noted outside of the database: who can write the database and nothing else can
//! neither cut the trail off nor put another, or an earlier one, in its place.

use super::StoreError;
use aye_core::trail::Chain;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// In memory for the hub that runs, and in `chain.head` for the next one. The file is written in place after each
/// commit and not synced: after a power cut it may name an earlier line, which is still one of the trail's.
pub struct Head {
    file: File,
    newest: Mutex<Chain>,
}

impl Head {
    pub fn open(path: &Path, newest: Chain) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        write(&file, &newest)?;
        Ok(Self { file, newest: Mutex::new(newest) })
    }

    pub fn newest(&self) -> Chain {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was committed. Whoever is told of the commit finds it here.
    pub fn advance(&self, chain: &Chain) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if *newest != *chain {
            newest.clone_from(chain);
            if let Err(error) = write(&self.file, chain) {
                tracing::warn!(%error, "the head of the trail could not be noted in chain.head");
            }
        }
    }

    /// The trail that the next line goes on from: none but the one that the hub left, or learned of.
    pub fn is_newest(&self, found: Chain) -> Result<Chain, StoreError> {
        let newest = self.newest();
        match found == newest {
            true => Ok(found),
            false => Err(StoreError::RolledBack { line: newest.lines }),
        }
    }
}

/// Always of the same length, so that it is overwritten as a whole.
fn write(file: &File, chain: &Chain) -> std::io::Result<()> {
    file.write_all_at(format!("{:020} {}\n", chain.lines, chain.head).as_bytes(), 0)
}

/// What was noted last, if it can be read.
pub fn read(path: &Path) -> std::io::Result<Option<Chain>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let noted = text.trim_end().split_once(' ');
    Ok(noted.and_then(|(lines, head)| Some(Chain { lines: lines.parse().ok()?, head: head.to_owned() })))
}
