//! Tokens: who holds one, what it is good for. Only their hashes are kept.

mod agent_tokens;
mod sessions;
mod sign_in;

pub use sessions::{Session, SessionError};
pub use sign_in::{SESSION_LASTS, SignIn, SignInError};

use super::{Clock, Hub, NO_RANDOMNESS, Problem};
use crate::home::Home;
use crate::store::{self, Store, StoreError, TokenRow, Tx};
use anyhow::Context;
use aye_core::digest::hex;
use aye_core::{AgentId, Role, Surface, Text};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sessions::PageTokens;
use sha2::{Digest, Sha256};
use sign_in::SignInCodes;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use subtle::ConstantTimeEq;
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

/// How the ids of the tokens in `operator.token` begin.
const OWNER: &str = "owner-";
const TURNS: usize = 64;

/// Who is calling, as far as their token tells.
#[derive(Debug, Clone)]
pub struct Credential {
    pub id: String,
    pub role: Role,
    pub agent: Option<AgentId>,
    pub name: Text,
    pub surface: Option<Surface>,
    /// Set if this is a browser's session, which counts only with what its page signs.
    pub session: Option<Arc<Session>>,
    kept: bool,
    expires_at: Option<Timestamp>,
    /// Ends everything that was opened with this token, once it is revoked.
    pub revoked: CancellationToken,
}

/// A token as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialInfo {
    pub id: String,
    pub role: Role,
    pub agent: Option<AgentId>,
    pub name: Text,
    pub surface: Option<Surface>,
    pub created_at: Timestamp,
    /// When it ends by itself, as a browser's session does.
    pub expires_at: Option<Timestamp>,
    pub revoked: bool,
}

pub struct Credentials {
    in_force: RwLock<HashMap<String, (Vec<u8>, Credential)>>,
    sign_in_codes: SignInCodes,
    page_tokens: PageTokens,
    agent_key: [u8; 32],
    /// Changes of one token wait for each other, so that memory and store end up agreeing; those of
    /// different tokens still share a commit.
    turns: [tokio::sync::Mutex<()>; TURNS],
}

impl Credentials {
    /// Reads the tokens in force; makes the operator's at the first start.
    pub async fn open(home: &Home, store: &Store, clock: &Clock) -> anyhow::Result<Self> {
        let rows = store.read(store::tokens::all).await?;
        let agent_key = home.agent_key()?;
        let in_force =
            rows.into_iter().filter(|(_, revoked)| revoked.is_none()).map(|(row, _)| entry(row)).collect();
        let credentials = Self {
            in_force: RwLock::new(in_force),
            sign_in_codes: SignInCodes::default(),
            page_tokens: PageTokens::new().context("the system has no randomness for a key")?,
            agent_key,
            turns: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        };
        credentials.revoke_sessions_without_key(store, clock.now()).await?;
        let kept = home.read_operator_token().context("cannot read operator.token")?;
        if kept.is_none_or(|token| credentials.check(&token, clock.now()).is_none()) {
            let name = crate::home::user_name();
            credentials.revoke_owners(store, clock.now()).await?;
            let id = format!("{OWNER}{}", random_hex::<6>()?);
            let (token, row) = token_with_id(id, Role::Operator, name, None, clock.now())?;
            record(store, &row, "hub").await?;
            home.write_operator_token(&token).context("cannot write operator.token")?;
            credentials.admit(row);
        }
        Ok(credentials)
    }

    /// Whoever removed `operator.token` meant the one that was in it: it must not live on elsewhere.
    async fn revoke_owners(&self, store: &Store, now: Timestamp) -> Result<(), Problem> {
        self.revoke_all(store, now, |credential| credential.id.starts_with(OWNER)).await
    }

    /// Those that an earlier version began have no key: their browsers sign in once more.
    async fn revoke_sessions_without_key(&self, store: &Store, now: Timestamp) -> Result<(), Problem> {
        let keyless = |it: &Credential| it.surface == Some(Surface::Web) && it.session.is_none();
        self.revoke_all(store, now, keyless).await
    }

    async fn revoke_all(
        &self,
        store: &Store,
        now: Timestamp,
        which: impl Fn(&Credential) -> bool,
    ) -> Result<(), Problem> {
        let ids: Vec<String> = {
            let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
            in_force.values().filter(|(_, it)| which(it)).map(|(_, it)| it.id.clone()).collect()
        };
        for id in ids {
            revoke(store, &id, "hub", now).await?;
            self.dismiss(&id);
        }
        Ok(())
    }

    fn check(&self, token: &str, now: Timestamp) -> Option<Credential> {
        let (id, _) = token.strip_prefix("aye_")?.rsplit_once('_')?;
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        let (hash, credential) = in_force.get(id)?;
        let same: bool = hash.ct_eq(&sha256(token)).into();
        let lasts = credential.expires_at.is_none_or(|at| at > now);
        (same && lasts).then(|| credential.clone())
    }

    async fn turn(&self, id: &str) -> MutexGuard<'_, ()> {
        let first = sha256(id).first().copied().unwrap_or_default();
        self.turns[usize::from(first) % TURNS].lock().await
    }

    fn admit(&self, row: TokenRow) {
        let (id, entry) = entry(row);
        self.in_force.write().unwrap_or_else(PoisonError::into_inner).insert(id, entry);
    }

    /// What has ended by itself need not be remembered.
    fn dismiss_expired(&self, now: Timestamp) {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        in_force.retain(|_, (_, credential)| credential.expires_at.is_none_or(|at| at > now));
    }

    fn dismiss(&self, id: &str) {
        let dismissed = self.in_force.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some((_, credential)) = dismissed {
            credential.revoked.cancel();
        }
    }
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
    };
    (row.id, (row.hash, credential))
}

fn sha256(text: &str) -> Vec<u8> {
    Sha256::digest(text.as_bytes()).to_vec()
}

fn random_hex<const BYTES: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

fn random_token(
    role: Role,
    name: Text,
    surface: Option<Surface>,
    now: Timestamp,
) -> Result<(String, TokenRow), getrandom::Error> {
    token_with_id(random_hex::<6>()?, role, name, surface, now)
}

fn token_with_id(
    id: String,
    role: Role,
    name: Text,
    surface: Option<Surface>,
    now: Timestamp,
) -> Result<(String, TokenRow), getrandom::Error> {
    let token = format!("aye_{id}_{}", random_hex::<32>()?);
    let hash = sha256(&token);
    let row = TokenRow {
        id,
        hash,
        role,
        agent: None,
        name,
        surface,
        session: None,
        kept: true,
        created_at: now,
        expires_at: None,
    };
    Ok((token, row))
}

async fn revoke(store: &Store, id: &str, who: &str, now: Timestamp) -> Result<(), Problem> {
    let (token, who) = (id.to_owned(), who.to_owned());
    let work = move |tx: &mut Tx| match tx.revoke_token(&token, &who, now)? {
        true => Ok(()),
        false => Err(Problem::NoSuchToken),
    };
    store.write(work).await
}

async fn record(store: &Store, row: &TokenRow, who: &str) -> Result<(), StoreError> {
    let (row, who) = (row.clone(), who.to_owned());
    store.write(move |tx: &mut Tx| tx.make_token(&row, &who)).await
}

impl Hub {
    pub fn credential(&self, token: &str) -> Option<Credential> {
        self.inner.credentials.check(token, self.inner.clock.now())
    }

    pub async fn create_token(&self, role: Role, name: Text, who: &str) -> Result<String, Problem> {
        let now = self.inner.clock.now();
        let (token, row) = random_token(role, name, None, now).map_err(|_| NO_RANDOMNESS)?;
        let _turn = self.inner.credentials.turn(&row.id).await;
        record(&self.inner.store, &row, who).await?;
        self.inner.credentials.admit(row);
        Ok(token)
    }

    pub async fn tokens(&self) -> Result<Vec<CredentialInfo>, Problem> {
        let rows = self.inner.store.read(store::tokens::all).await?;
        let now = self.inner.clock.now();
        let info = |(row, revoked): (TokenRow, Option<Timestamp>)| CredentialInfo {
            id: row.id,
            role: row.role,
            agent: row.agent,
            name: row.name,
            surface: row.surface,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked: revoked.is_some() || row.expires_at.is_some_and(|at| at <= now),
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// From here on the token opens nothing, and what it had opened is closed.
    pub async fn revoke_token(&self, id: &str, who: &str) -> Result<(), Problem> {
        let now = self.inner.clock.now();
        let _turn = self.inner.credentials.turn(id).await;
        // First, because who asked may go away before the store has done its part.
        self.inner.credentials.dismiss(id);
        revoke(&self.inner.store, id, who, now).await
    }
}
