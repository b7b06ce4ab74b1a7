//! What a browser's page must show beside its cookie. Whatever a page sends may reach somebody else: cookies go
//! to every port of a machine, and while the hub is down another user can listen on its port. So the page signs
//! a challenge with a key that cannot leave the browser, and gets a token that is soon worth nothing.

use super::Credential;
use crate::hub::{Hub, NO_RANDOMNESS, Problem};
use crate::random::random_hex;
pub use crate::store::Session;
use crate::store::{Kept, Ticket, TicketFor, TicketLimits};
use aye_core::digest::hex;
use aye_core::trail::ChainKey;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use subtle::ConstantTimeEq;

const CHALLENGE_LASTS: SignedDuration = SignedDuration::from_mins(1);
const TOKEN_LASTS: SignedDuration = SignedDuration::from_mins(10);
/// Only a page with its key uses a challenge up, and each is remembered for a minute.
const MOST_USED: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("this challenge was not given to this session, is older than a minute, or was answered already")]
    Challenge,
    #[error("this is not the signature of the key that this session was signed in with")]
    Signature,
    #[error(transparent)]
    Problem(#[from] Problem),
}

/// Makes challenges and tokens, and knows its own again. Its key lives as long as the hub's process, so that
/// nothing that was sent to anybody while the hub was down is worth anything to the next one. Hubs that share a database have
/// the same key, because a page that was at one of them goes on at another.
pub struct PageTokens {
    key: [u8; 32],
    used: Mutex<HashMap<String, Timestamp>>,
}

#[derive(Clone, Copy)]
enum TokenPurpose {
    Challenge,
    Token,
}

impl PageTokens {
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self { key, used: Mutex::default() })
    }

    /// For hubs that share a database: the key is derived from the trail's, so each of them has the same.
    pub fn shared(key: &ChainKey) -> Self {
        Self { key: key.tag_bytes("page tokens", ""), used: Mutex::default() }
    }

    /// An expiry time, a random part, and a MAC that binds both to this session.
    fn make(&self, purpose: TokenPurpose, session: &str, until: Timestamp) -> Option<String> {
        let head = format!("{:016x}{}", until.as_millisecond(), random_hex::<16>().ok()?);
        let proof = self.proof(purpose, session, &head)?;
        Some(head + &proof)
    }

    /// The expiry time, if we issued it for this session and it is still valid.
    fn check(&self, purpose: TokenPurpose, session: &str, text: &str, now: Timestamp) -> Option<Timestamp> {
        let (head, proof) = text.split_at_checked(48)?;
        let right: bool = self.proof(purpose, session, head)?.as_bytes().ct_eq(proof.as_bytes()).into();
        let until = i64::from_str_radix(head.get(..16).filter(|_| right)?, 16).ok()?;
        Timestamp::from_millisecond(until).ok().filter(|until| *until > now)
    }

    fn proof(&self, purpose: TokenPurpose, session: &str, head: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        let purpose = match purpose {
            TokenPurpose::Challenge => "challenge",
            TokenPurpose::Token => "token",
        };
        mac.update(format!("{purpose}\0{session}\0{head}").as_bytes());
        Some(hex(&mac.finalize().into_bytes()))
    }

    /// Whether this is the first time.
    fn use_up(&self, challenge: &str, until: Timestamp, now: Timestamp) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, until| *until > now);
        used.len() < MOST_USED && used.insert(challenge.to_owned(), until).is_none()
    }
}

/// What the page signs: for whom, where, and which challenge.
fn message(origin: &str, challenge: &str) -> String {
    format!("aye page token\n{origin}\n{challenge}")
}

impl Hub {
    /// Something for the page of this session to sign. It costs us nothing until it is signed.
    pub fn session_challenge(&self, session: &Credential) -> Result<String, Problem> {
        let now = self.inner.clock.now();
        let until = now.saturating_add(CHALLENGE_LASTS).unwrap_or(now);
        let made = self.inner.credentials.page_tokens.make(TokenPurpose::Challenge, &session.id, until);
        made.ok_or(NO_RANDOMNESS)
    }

    /// A token for the page that signed, and how long it is valid.
    pub async fn session_token(
        &self,
        session: &Credential,
        challenge: &str,
        signature: &[u8],
    ) -> Result<(String, SignedDuration), SessionError> {
        let (now, tokens) = (self.inner.clock.now(), &self.inner.credentials.page_tokens);
        let until = tokens.check(TokenPurpose::Challenge, &session.id, challenge, now);
        let until = until.ok_or(SessionError::Challenge)?;
        let signed = |it: &Session| it.key.has_signed(message(&it.origin, challenge).as_bytes(), signature);
        if !session.session.as_deref().is_some_and(signed) {
            return Err(SessionError::Signature);
        }
        if !self.use_up_challenge(challenge, until).await? {
            return Err(SessionError::Challenge);
        }
        let longest = now.saturating_add(TOKEN_LASTS).unwrap_or(now);
        let until = session.expires_at.map_or(longest, |end| end.min(longest));
        let token = tokens.make(TokenPurpose::Token, &session.id, until).ok_or(NO_RANDOMNESS)?;
        Ok((token, until.duration_since(now)))
    }

    /// Whether this is the first time.
    async fn use_up_challenge(&self, challenge: &str, until: Timestamp) -> Result<bool, Problem> {
        let now = self.inner.clock.now();
        if !self.inner.store.is_on_server() {
            return Ok(self.inner.credentials.page_tokens.use_up(challenge, until, now));
        }
        let (secret, by, detail) = (challenge.to_owned(), String::new(), String::new());
        let ticket = Ticket { purpose: TicketFor::SignedByPage, secret, by, detail, lasts: CHALLENGE_LASTS };
        // Kept for a whole challenge's lifetime from now, which is longer than this one is still valid.
        let kept = self.inner.store.put_ticket(ticket, TicketLimits::of_all(MOST_USED)).await?;
        Ok(kept == Kept::Yes)
    }

    /// How long this page token is still valid, if it belongs to that session.
    pub fn page_token_lasts(&self, session: &Credential, token: &str) -> Option<SignedDuration> {
        let (now, tokens) = (self.inner.clock.now(), &self.inner.credentials.page_tokens);
        let until = tokens.check(TokenPurpose::Token, &session.id, token, now)?;
        Some(until.duration_since(now))
    }
}
