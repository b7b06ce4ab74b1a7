//! The policy in force: read from `config.toml`, read again when that changes. A file that is broken
//! leaves the last good policy in force, and everybody who could mend it is told.

use super::{Hub, Problem};
use crate::config::Config;
use crate::home::Home;
use crate::store::Tx;
use aye_policy::Policy;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The file is looked at this often, and read once two looks agree: editors write in several steps. A
/// watch on the folder would be told of every write to the database in it, hundreds for one commit.
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub struct PolicyInForce {
    file: PathBuf,
    /// The places of our own that no rule may open.
    places: Arc<aye_policy::Home>,
    loaded: RwLock<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    policy: Arc<Policy>,
    /// Of the file that was last read, whether or not it made sense.
    digest: Option<String>,
    problem: Option<String>,
}

impl PolicyInForce {
    /// A file that is broken from the start decides nothing: everything goes to a person.
    pub fn read(home: &Home) -> Self {
        let (read, digest) = Config::load_with_digest(&home.config());
        let (policy, problem) = match read {
            Ok(config) => (config.policy, None),
            Err(error) => (Policy::default(), Some(error.to_string())),
        };
        if let Some(problem) = &problem {
            tracing::error!(%problem, "config.toml is broken, so everything goes to a person until it is mended");
        }
        let loaded = Loaded { policy: Arc::new(policy), digest, problem };
        Self { file: home.config(), places: Arc::new(home.places()), loaded: RwLock::new(loaded) }
    }

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The digest of the file that was last read.
    pub fn digest(&self) -> Option<String> {
        self.loaded().digest
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn places(&self) -> Arc<aye_policy::Home> {
        self.places.clone()
    }
}

impl Hub {
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy.loaded().policy
    }

    /// What is wrong with `config.toml`, while it is.
    pub fn policy_problem(&self) -> Option<String> {
        self.inner.policy.loaded().problem
    }

    /// What every operator should know, as surfaces are told it at the start.
    pub fn notices(&self) -> Vec<Value> {
        self.inner.policy.loaded().problem.map(|problem| policy_notice(Some(&problem))).into_iter().collect()
    }

    /// Reads the file again, and tells of it if that changed anything.
    pub async fn reload_policy(&self) -> Result<(), Problem> {
        let before = self.inner.policy.loaded();
        let (read, digest) = Config::load_with_digest(&self.inner.policy.file);
        let after = match read {
            Ok(config) => Loaded { policy: Arc::new(config.policy), digest, problem: None },
            Err(error) => Loaded { policy: before.policy.clone(), digest, problem: Some(error.to_string()) },
        };
        let changes_nothing = after.problem == before.problem && after.policy == before.policy;
        if changes_nothing && after.digest == before.digest {
            return Ok(());
        }
        match &after.problem {
            _ if changes_nothing => {}
            None => tracing::info!("the policy was read anew and is in force"),
            Some(problem) => {
                tracing::error!(%problem, "config.toml is broken; the old policy stays in force")
            }
        }
        let notice = policy_notice(after.problem.as_deref());
        let detail = json!({ "about": "policy", "problem": after.problem, "config": after.digest });
        let now = self.inner.clock.now();
        *self.inner.policy.loaded.write().unwrap_or_else(PoisonError::into_inner) = after;
        let work = move |tx: &mut Tx| {
            tx.audit(now, "policy.read", "hub", None, None, detail)?;
            // What else stands in the file, surfaces need not hear of.
            if changes_nothing { Ok(()) } else { Ok(tx.publish_notice(notice)?) }
        };
        self.inner.store.write(work).await
    }

    /// Reloads the policy whenever its file changes.
    pub async fn watch_policy(self, stop: CancellationToken) {
        let file = &self.inner.policy.file;
        // The first look reads the file again: it may have changed since it was read.
        let (mut read, mut last) = (None, Stamp::of(file));
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let found = Stamp::of(file);
            let settled = std::mem::replace(&mut last, found) == found;
            if !settled || read == Some(found) {
                continue;
            }
            read = Some(found);
            if let Err(error) = self.reload_policy().await {
                tracing::error!(%error, "the changed policy could not be recorded");
            }
        }
    }
}

/// What differs once a file was written or replaced by another; nothing of it while there is no file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(Option<(u64, i64, i64, u64)>);

impl Stamp {
    fn of(file: &Path) -> Self {
        let found = std::fs::metadata(file).ok();
        Self(found.map(|file| (file.ino(), file.mtime(), file.mtime_nsec(), file.len())))
    }
}

fn policy_notice(problem: Option<&str>) -> Value {
    json!({ "about": "policy", "problem": problem })
}
