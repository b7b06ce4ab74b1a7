//! The newest line of the trail, noted outside of the database: who can write the database and nothing else can
//! neither cut the trail off nor put another in its place.

use aye_core::trail::Chain;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// `chain.head`, written in place after each commit. It is not synced: after a power cut it may name an earlier line,
/// which is still one of the trail's.
pub struct HeadFile(File);

impl HeadFile {
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(path).map(Self)
    }

    /// Always of the same length, so that it is overwritten as a whole.
    pub fn note(&self, chain: &Chain) -> std::io::Result<()> {
        self.0.write_all_at(format!("{:020} {}\n", chain.lines, chain.head).as_bytes(), 0)
    }
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
