//! The right to add the first passkey, which no other can sign for. A link gives it, the session that follows the link
//! takes it over, and it ends for everybody as soon as a passkey is there.

use super::{Hub, Problem};
use crate::store::{Ticket, TicketFor, TicketLimits};
use aye_core::digest::sha256_hex;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As long as a sign-in link, and again from when it was followed.
const LASTS: SignedDuration = SignedDuration::from_mins(15);

/// For either purpose, where several hubs share a database.
const LIMITS: TicketLimits = TicketLimits::of_all(64);

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

fn ticket(purpose: TicketFor, secret: &str) -> Ticket {
    Ticket { purpose, secret: secret.to_owned(), by: String::new(), detail: String::new(), lasts: LASTS }
}

impl Hub {
    /// Whoever follows the link with this code has the right. Where hubs share a database this is said before it is known
    /// that there is no passkey yet; the addition looks again.
    pub(super) async fn offer_first_passkey(&self, code: &str) -> Result<(), Problem> {
        if self.inner.store.is_on_server() {
            self.inner.store.put_ticket(ticket(TicketFor::FirstPasskeyLink, code), LIMITS).await?;
        }
        Ok(())
    }

    /// A browser signed in by this code, and has this session from now on.
    pub(super) async fn follow_first_passkey_link(&self, code: &str, session: &str) -> Result<(), Problem> {
        let store = &self.inner.store;
        if !store.is_on_server() {
            self.inner.passkeys.first.followed(code, session, self.inner.clock.now());
        } else if store.take_ticket(TicketFor::FirstPasskeyLink, code).await?.is_some() {
            store.put_ticket(ticket(TicketFor::FirstPasskey, session), LIMITS).await?;
        }
        Ok(())
    }

    /// Whether this session came by a link that lets it add the first passkey, and there is none yet.
    pub async fn may_add_first_passkey(&self, session: &str) -> Result<bool, Problem> {
        match self.inner.store.is_on_server() {
            true => Ok(self.inner.store.has_ticket(TicketFor::FirstPasskey, session).await?),
            false => Ok(self.inner.passkeys.first.may_add(session, self.inner.clock.now())),
        }
    }
}

fn until(now: Timestamp) -> Timestamp {
    now.saturating_add(LASTS).unwrap_or(now)
}
