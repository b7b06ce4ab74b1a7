//! The policy in force: read from `config.toml`, read again when that changes. A file that is broken
//! leaves the last good policy in force, and everybody who could mend it is told.

use super::{Hub, Problem};
use crate::config::Config;
use crate::home::Home;
use crate::store::Tx;
use aye_policy::Policy;
use notify::{RecursiveMode, Watcher};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Editors write a file in several steps; it is read once they have been quiet for this long.
const SETTLED_AFTER: Duration = Duration::from_millis(100);

pub struct PolicyInForce {
    file: PathBuf,
    /// The places of our own that no rule may open.
    places: Arc<aye_policy::Home>,
    loaded: RwLock<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    policy: Arc<Policy>,
    problem: Option<String>,
}

impl PolicyInForce {
    /// A file that is broken from the start decides nothing: everything goes to a person.
    pub fn read(home: &Home) -> Self {
        let (policy, problem) = match Config::load(&home.config()) {
            Ok(config) => (config.policy, None),
            Err(error) => (Policy::default(), Some(error.to_string())),
        };
        if let Some(problem) = &problem {
            tracing::error!(%problem, "config.toml is broken, so everything goes to a person until it is mended");
        }
        let loaded = Loaded { policy: Arc::new(policy), problem };
        Self { file: home.config(), places: Arc::new(home.places()), loaded: RwLock::new(loaded) }
    }

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn places(&self) -> Arc<aye_policy::Home> {
        self.places.clone()
    }
}

impl Hub {
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy.loaded().policy
    }

    /// What every operator should know, as surfaces are told it at the start.
    pub fn notices(&self) -> Vec<Value> {
        self.inner.policy.loaded().problem.map(|problem| policy_notice(Some(&problem))).into_iter().collect()
    }

    /// Reads the file again, and tells of it if that changed anything.
    pub async fn reload_policy(&self) -> Result<(), Problem> {
        let before = self.inner.policy.loaded();
        let after = match Config::load(&self.inner.policy.file) {
            Ok(config) => Loaded { policy: Arc::new(config.policy), problem: None },
            Err(error) => Loaded { policy: before.policy.clone(), problem: Some(error.to_string()) },
        };
        if after.problem == before.problem && after.policy == before.policy {
            return Ok(());
        }
        match &after.problem {
            None => tracing::info!("the policy was read anew and is in force"),
            Some(problem) => {
                tracing::error!(%problem, "config.toml is broken; the old policy stays in force")
            }
        }
        let notice = policy_notice(after.problem.as_deref());
        let now = self.inner.clock.now();
        *self.inner.policy.loaded.write().unwrap_or_else(PoisonError::into_inner) = after;
        let work = move |tx: &mut Tx| {
            tx.audit(now, "policy.read", "hub", None, None, notice.clone())?;
            Ok(tx.publish_notice(notice)?)
        };
        self.inner.store.write(work).await
    }

    /// Reloads the policy whenever its file changes.
    pub async fn watch_policy(self, stop: CancellationToken) {
        let file = self.inner.policy.file.clone();
        let (changed, mut changes) = mpsc::channel(16);
        let target = file.canonicalize().unwrap_or_else(|_| file.clone());
        let names: Vec<_> =
            [&file, &target].into_iter().filter_map(|path| path.file_name()).map(OsString::from).collect();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| concerns(&event, &names)) {
                // A full queue already says that there is something to read.
                changed.try_send(()).unwrap_or_default();
            }
        });
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                return tracing::error!(%error, "config.toml is not watched: restart after changing it");
            }
        };
        // The folder, because editors replace the file by another.
        if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
            return tracing::error!(%error, "config.toml is not watched: restart after changing it");
        }
        // Where the file is a link, what it points to changes elsewhere.
        if let Some(elsewhere) = target.parent().filter(|elsewhere| *elsewhere != folder)
            && let Err(error) = watcher.watch(elsewhere, RecursiveMode::NonRecursive)
        {
            tracing::warn!(%error, "the file behind config.toml is not watched: restart after changing it");
        }
        // It may have changed between its first reading and now.
        if let Err(error) = self.reload_policy().await {
            tracing::error!(%error, "the changed policy could not be recorded");
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                change = changes.recv() => if change.is_none() { return },
            }
            while let Ok(Some(())) = tokio::time::timeout(SETTLED_AFTER, changes.recv()).await {}
            if let Err(error) = self.reload_policy().await {
                tracing::error!(%error, "the changed policy could not be recorded");
            }
        }
    }
}

fn concerns(event: &notify::Event, names: &[OsString]) -> bool {
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| names.iter().any(|known| known == name));
    !event.kind.is_access() && event.paths.iter().any(named)
}

fn policy_notice(problem: Option<&str>) -> Value {
    json!({ "about": "policy", "problem": problem })
}
