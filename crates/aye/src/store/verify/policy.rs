//! Which policy was in force: the trail has the digest of `config.toml` whenever the hub read it.

use super::Against;
use aye_core::trail::Line;

#[derive(Default)]
pub struct PolicyRead {
    newest: Option<(u64, String)>,
}

impl PolicyRead {
    pub fn take(&mut self, line: &Line) {
        if let Some(digest) = line.detail["config"].as_str() {
            self.newest = Some((line.seq, digest.to_owned()));
        }
    }

    /// Not an error: the file may be changed while the hub is down.
    pub fn remarks(&self, against: &Against) -> Vec<String> {
        match (&self.newest, &against.config) {
            (Some((line, digest)), Some(config)) if digest != config => vec![format!(
                "config.toml was changed since the hub last read it (line {line}); \
                 a running hub reads it within a second."
            )],
            _ => Vec::new(),
        }
    }
}
