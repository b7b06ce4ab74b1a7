//! The tokens in force, in memory: every call is checked against them, and none waits for the store.

use super::Credential;
use super::secrets::sha256;
use crate::store::TokenRow;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio_util::sync::CancellationToken;

type Tokens = HashMap<String, (Vec<u8>, Credential)>;

const LOCKS: usize = 64;
/// Concurrent calls of one token: a run waits for each of its requests, and it has at most 500.
const MOST_CALLS: usize = 512;
/// Open WebSockets of one token: every page and every terminal that follows has one.
const MOST_SOCKETS: usize = 256;
/// Long calls of one token at the same time: a body of 4 MB takes up to 300 MB while it is read, and a list as much.
const MOST_LONG_CALLS: usize = 4;

pub struct InForce {
    /// By id, each with the hash of its token.
    tokens: RwLock<Tokens>,
    /// Changes of one token wait for each other, so that memory and store end up agreeing; those of
    /// different tokens still share a commit.
    locks: [Mutex<()>; LOCKS],
}

impl Default for InForce {
    fn default() -> Self {
        Self { tokens: RwLock::default(), locks: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl InForce {
    /// Takes over a token from the store, unless another hub has revoked it meanwhile, which `counts` tells.
    pub fn admit(&self, rows: impl IntoIterator<Item = TokenRow>, counts: impl Fn(&str) -> bool) {
        let mut tokens = self.write();
        for (id, (hash, credential)) in rows.into_iter().filter(|row| counts(&row.id)).map(entry) {
            match tokens.get(&id) {
                Some((known, _)) if *known == hash => {}
                _ => {
                    let before = tokens.insert(id, (hash, credential));
                    before.into_iter().for_each(|(_, before)| before.revoked.cancel());
                }
            }
        }
    }

    /// Held by whoever changes this token, here and in the store.
    pub async fn lock(&self, id: &str) -> MutexGuard<'_, ()> {
        let first = sha256(id).first().copied().unwrap_or_default();
        self.locks[usize::from(first) % LOCKS].lock().await
    }

    fn read(&self) -> RwLockReadGuard<'_, Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tokens> {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn check(&self, token: &str, now: Timestamp) -> Option<Credential> {
        let id = id_of(token)?;
        let tokens = self.read();
        let (hash, credential) = tokens.get(id)?;
        let same: bool = hash.ct_eq(&sha256(token)).into();
        let lasts = credential.expires_at.is_none_or(|at| at > now);
        (same && lasts).then(|| credential.clone())
    }

    pub fn ids(&self, which: impl Fn(&Credential) -> bool) -> Vec<String> {
        self.read().values().filter(|(_, it)| which(it)).map(|(_, it)| it.id.clone()).collect()
    }

    pub fn is_kept(&self, id: &str) -> bool {
        self.read().get(id).is_some_and(|(_, credential)| credential.kept)
    }

    pub fn keep(&self, id: &str) {
        if let Some((_, credential)) = self.write().get_mut(id) {
            credential.kept = true;
        }
    }

    /// What was opened with it is closed.
    pub fn dismiss(&self, id: &str) {
        if let Some((_, credential)) = self.write().remove(id) {
            credential.revoked.cancel();
        }
    }

    /// Forgets tokens that have expired.
    pub fn dismiss_expired(&self, now: Timestamp) {
        self.write().retain(|_, (_, credential)| credential.expires_at.is_none_or(|at| at > now));
    }
}

/// The public part of a token.
pub fn id_of(token: &str) -> Option<&str> {
    Some(token.strip_prefix("aye_")?.rsplit_once('_')?.0)
}

fn entry(row: TokenRow) -> (String, (Vec<u8>, Credential)) {
    let credential = Credential {
        id: row.id.clone(),
        role: row.role,
        agent: row.agent,
        name: row.name,
        surface: row.surface,
        session: row.session.map(Arc::new),
        kept: row.kept,
        expires_at: row.expires_at,
        revoked: CancellationToken::new(),
        calls: Arc::new(Semaphore::new(MOST_CALLS)),
        sockets: Arc::new(Semaphore::new(MOST_SOCKETS)),
        long_calls: Arc::new(Semaphore::new(MOST_LONG_CALLS)),
    };
    (row.id, (row.hash, credential))
}
