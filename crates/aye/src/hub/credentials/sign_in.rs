//! Sign-in codes: each signs one browser in, once and soon.

use super::{Session, random_token, record, sha256};
use crate::es256::PublicKey;
use crate::hub::{Hub, NO_RANDOMNESS, Problem};
use crate::random::random_hex;
use crate::store::{Kept, Ticket, TicketFor, TicketLimits};
use aye_core::{Role, Surface};
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

const CODE_LASTS: SignedDuration = SignedDuration::from_mins(15);
const MOST_CODES: usize = 64;
const TOO_MANY: Problem = Problem::Conflict("too many sign-in links are waiting to be used");
/// How often the store is asked whether another hub has used a code.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// As long as the browser keeps the cookie.
pub const SESSION_LASTS: SignedDuration = SignedDuration::from_hours(30 * 24);

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error(
        "this sign-in link is not valid any more: each works once, for 15 minutes. `aye open` prints a new one"
    )]
    NotValid,
    #[error(transparent)]
    Problem(#[from] Problem),
}

/// What a browser brings to be signed in.
pub struct SignIn {
    pub code: String,
    /// The page's public key.
    pub key: PublicKey,
    /// The page's origin, as the browser reports it.
    pub origin: String,
}

/// Unused codes, by their hash: a lookup by hash leaks nothing through its timing.
#[derive(Default)]
pub struct SignInCodes {
    waiting: Mutex<HashMap<Vec<u8>, Timestamp>>,
    used: Notify,
}

impl SignInCodes {
    fn put(&self, code: &str, now: Timestamp) -> Result<(), Problem> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, until| *until > now);
        if waiting.len() >= MOST_CODES {
            return Err(TOO_MANY);
        }
        waiting.insert(sha256(code), now.saturating_add(CODE_LASTS).unwrap_or(now));
        Ok(())
    }

    fn take(&self, code: &str, now: Timestamp) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let until = waiting.remove(&sha256(code));
        self.used.notify_waiters();
        until.is_some_and(|until| until > now)
    }

    fn has(&self, code: &str) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&sha256(code))
    }
}

impl Hub {
    /// A code that signs one browser in, once and soon.
    pub async fn sign_in_code(&self) -> Result<String, Problem> {
        let code = random_hex::<32>().map_err(|_| NO_RANDOMNESS)?;
        if !self.inner.store.is_on_server() {
            self.inner.credentials.sign_in_codes.put(&code, self.inner.clock.now())?;
            return Ok(code);
        }
        // The oldest is dropped: each start of a hub makes a code, and must not be refused because of earlier starts.
        let (secret, room) = (code.clone(), TicketLimits { of_all: MOST_CODES, of_one: MOST_CODES });
        let (by, detail) = (String::new(), String::new());
        let ticket = Ticket { purpose: TicketFor::SignIn, secret, by, detail, lasts: CODE_LASTS };
        match self.inner.store.put_ticket(ticket, room).await? {
            Kept::Yes => Ok(code),
            Kept::Known | Kept::NoRoom => Err(TOO_MANY),
        }
    }

    async fn take_sign_in_code(&self, code: &str) -> Result<bool, Problem> {
        match self.inner.store.is_on_server() {
            true => Ok(self.inner.store.take_ticket(TicketFor::SignIn, code).await?.is_some()),
            false => Ok(self.inner.credentials.sign_in_codes.take(code, self.inner.clock.now())),
        }
    }

    /// Returns once this code has been used.
    pub async fn sign_in_code_used(&self, code: &str) {
        let codes = &self.inner.credentials.sign_in_codes;
        while self.inner.store.is_on_server() {
            // A server that cannot be asked now can be asked later.
            if let Ok(false) = self.inner.store.has_ticket(TicketFor::SignIn, code).await {
                return;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        loop {
            // Before the look, so that a use in between is not missed.
            let used = codes.used.notified();
            if !codes.has(code) {
                return;
            }
            used.await;
        }
    }

    /// Trades a code for a browser's session: the token that goes into its cookie.
    pub async fn sign_in(&self, sign_in: SignIn) -> Result<String, SignInError> {
        let now = self.inner.clock.now();
        let credentials = &self.inner.credentials;
        if !self.take_sign_in_code(&sign_in.code).await? {
            return Err(SignInError::NotValid);
        }
        credentials.in_force.dismiss_expired(now);
        let name = crate::home::user_name();
        let token = random_token(Role::Operator, name, Some(Surface::Web), now);
        let (token, mut row) = token.map_err(|_| NO_RANDOMNESS)?;
        row.session = Some(Session { key: sign_in.key, origin: sign_in.origin });
        row.expires_at = Some(now.saturating_add(SESSION_LASTS).unwrap_or(now));
        let _lock = credentials.in_force.lock(&row.id).await;
        record(&self.inner.store, &row, "sign-in link").await.map_err(Problem::from)?;
        self.follow_first_passkey_link(&sign_in.code, &row.id).await?;
        credentials.in_force.admit([row], |id| self.inner.store.has_token(id));
        Ok(token)
    }
}
