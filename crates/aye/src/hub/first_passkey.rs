//! The right to add the first passkey, which no other can sign for. A link gives it, the session that follows the link
//! takes it over, and it ends for everybody as soon as a passkey is there.

use aye_core::digest::sha256_hex;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As long as a sign-in link, and again from when it was followed.
const LASTS: SignedDuration = SignedDuration::from_mins(15);

/// Clones share it.
#[derive(Clone, Default)]
pub struct FirstPasskey {
    /// Hashes of links that are out, and sessions that came by one.
    rights: Arc<Mutex<HashMap<String, Timestamp>>>,
}

impl FirstPasskey {
    fn rights(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever follows the link with this code has the right.
    pub fn offer(&self, code: &str, now: Timestamp) {
        let mut rights = self.rights();
        rights.retain(|_, until| *until > now);
        rights.insert(sha256_hex(code.as_bytes()), until(now));
    }

    /// A browser signed in by this code, and has this session from now on.
    pub fn followed(&self, code: &str, session: &str, now: Timestamp) {
        let mut rights = self.rights();
        if rights.remove(&sha256_hex(code.as_bytes())).is_some_and(|until| until > now) {
            rights.insert(session.to_owned(), until(now));
        }
    }

    pub fn may_add(&self, session: &str, now: Timestamp) -> bool {
        self.rights().get(session).is_some_and(|until| *until > now)
    }

    /// A passkey was added: nobody has the right any more, through whatever link they came.
    pub fn is_there(&self) {
        self.rights().clear();
    }
}

fn until(now: Timestamp) -> Timestamp {
    now.saturating_add(LASTS).unwrap_or(now)
}
