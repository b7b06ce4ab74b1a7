//! The policy in force: read from `config.toml`, read again when that changes. A file that is broken leaves the last
//! good policy in force, and everybody who could fix it is told. One that is broken when the hub starts allows nothing,
//! and does not take away that allowing takes a passkey: whoever may not edit the rules might still break them.

use super::{Hub, Problem};
use crate::config::{Config, ConfigRead, WatchedFiles};
use crate::home::Home;
use crate::store::Tx;
use aye_core::Proof;
use aye_policy::Policy;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_util::sync::CancellationToken;

const KEPT: &str = "The last working policy stays in force.";

pub struct PolicyInForce {
    home: Home,
    file: PathBuf,
    loaded: RwLock<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    policy: Arc<Policy>,
    /// The places of our own that no rule may open. The file names some of them.
    places: Arc<aye_policy::OwnPlaces>,
    /// Of the file that was last read, whether or not it made sense.
    digest: Option<String>,
    trouble: Option<ConfigProblem>,
}

/// What is wrong with `config.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    pub problem: String,
    /// What is in force until it is fixed, in a sentence.
    pub meanwhile: &'static str,
}

/// What is known of the policy that was in force when the hub last ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastTime {
    /// What it took to allow something; none if nobody recorded that.
    pub proof: Option<Proof>,
    pub has_passkey: bool,
}

impl LastTime {
    /// The policy instead of one that cannot be read, and what that means. Whoever has a passkey may have asked for it
    /// in the file that is broken now.
    fn instead(self) -> (Policy, &'static str) {
        let mut policy = Policy::default();
        if !self.has_passkey && self.proof != Some(Proof::Passkey) {
            return (policy, "Until it is fixed, nothing is allowed automatically.");
        }
        policy.proof = Proof::Passkey;
        (policy, "Until it is fixed, nothing is allowed automatically, and allowing takes a passkey.")
    }

    fn took_a_passkey(self) -> bool {
        self.proof.map_or(self.has_passkey, |proof| proof == Proof::Passkey)
    }
}

/// The policy that was read, or why it is not to be used.
fn usable(read: ConfigRead, took_a_passkey: bool) -> Result<Policy, String> {
    let config = read.config.map_err(|error| error.to_string())?;
    match read.is_missing && took_a_passkey {
        true => Err("it is gone, and it asked for a passkey. Put it back; \
                     if nothing should need a passkey any more, save an empty file in its place"
            .to_owned()),
        false => Ok(config.policy),
    }
}

impl Loaded {
    fn detail(&self) -> Value {
        let problem = self.trouble.as_ref().map(|trouble| &trouble.problem);
        json!({ "config": self.digest, "problem": problem, "proof": self.policy.strictest() })
    }

    fn notice(&self) -> Value {
        let trouble = self.trouble.as_ref();
        json!({
            "about": "policy",
            "problem": trouble.map(|trouble| &trouble.problem),
            "meanwhile": trouble.map(|trouble| trouble.meanwhile),
        })
    }
}

impl PolicyInForce {
    pub fn read(home: &Home, last: LastTime) -> Self {
        let read = Config::read(&home.config());
        let digest = read.digest.clone();
        let (policy, trouble) = match usable(read, last.took_a_passkey()) {
            Ok(policy) => (policy, None),
            Err(problem) => {
                let (policy, meanwhile) = last.instead();
                tracing::error!(%problem, "config.toml is broken. {meanwhile}");
                (policy, Some(ConfigProblem { problem, meanwhile }))
            }
        };
        let loaded = Loaded { policy: Arc::new(policy), places: Arc::new(home.places()), digest, trouble };
        Self { file: home.config(), home: home.clone(), loaded: RwLock::new(loaded) }
    }

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the trail has to know of it.
    pub fn detail(&self) -> Value {
        self.loaded().detail()
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn places(&self) -> Arc<aye_policy::OwnPlaces> {
        self.loaded().places
    }
}

impl Hub {
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy.loaded().policy
    }

    /// What is wrong with `config.toml`, while it is.
    pub fn policy_trouble(&self) -> Option<ConfigProblem> {
        self.inner.policy.loaded().trouble
    }

    /// What every operator should know, as surfaces are told it at the start.
    pub fn notices(&self) -> Vec<Value> {
        let loaded = self.inner.policy.loaded();
        let trouble = loaded.trouble.is_some().then(|| loaded.notice());
        trouble.into_iter().chain(self.inner.doubt.clone()).collect()
    }

    /// Reads the file again, and tells of it if that changed anything.
    pub async fn reload_policy(&self) -> Result<(), Problem> {
        let before = self.inner.policy.loaded();
        let read = Config::read(&self.inner.policy.file);
        let digest = read.digest.clone();
        let after = match usable(read, before.policy.asks_for_proof()) {
            Ok(policy) => {
                let places = Arc::new(self.inner.policy.home.places());
                self.inner.own_files.set_places(self.inner.policy.home.own_places());
                Loaded { policy: Arc::new(policy), places, digest, trouble: None }
            }
            Err(problem) => {
                // Broken from the start, or only now.
                let meanwhile = before.trouble.as_ref().map_or(KEPT, |trouble| trouble.meanwhile);
                let trouble = Some(ConfigProblem { problem, meanwhile });
                Loaded { policy: before.policy.clone(), places: before.places.clone(), digest, trouble }
            }
        };
        let changes_nothing = after.trouble == before.trouble && after.policy == before.policy;
        if changes_nothing && after.digest == before.digest {
            return Ok(());
        }
        match &after.trouble {
            _ if changes_nothing => {}
            None => tracing::info!("the policy was read again and is in force"),
            Some(ConfigProblem { problem, meanwhile }) => {
                tracing::error!(%problem, "config.toml is broken. {meanwhile}")
            }
        }
        let (notice, mut detail) = (after.notice(), after.detail());
        detail["about"] = json!("policy");
        let now = self.inner.clock.now();
        *self.inner.policy.loaded.write().unwrap_or_else(PoisonError::into_inner) = after;
        let work = move |tx: &mut Tx| {
            tx.audit(now, "policy.read", "hub", None, None, detail)?;
            // Surfaces are told only when the policy itself changed.
            if changes_nothing { Ok(()) } else { Ok(tx.publish_notice(notice)?) }
        };
        self.inner.store.write(work).await
    }

    /// Reloads the policy whenever its file changes.
    pub async fn watch_policy(self, stop: CancellationToken) {
        let mut file = WatchedFiles::unread(vec![self.inner.policy.file.clone()]);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = file.changed() => {}
            }
            if let Err(error) = self.reload_policy().await {
                tracing::error!(%error, "the changed policy could not be recorded");
            }
        }
    }
}
