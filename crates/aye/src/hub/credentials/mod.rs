//! Tokens: who holds one, what it is good for. Only their hashes are kept.

mod agent_tokens;
mod in_force;
mod secrets;
mod sessions;
mod sign_in;

pub use sessions::{Session, SessionError};
pub use sign_in::{SESSION_LASTS, SignIn, SignInError};

use super::{Clock, Hub, NO_RANDOMNESS, Problem};
use crate::home::Home;
use crate::protocol::CredentialInfo;
use crate::random::random_hex;
use crate::store::{Reader, Store, StoreError, TokenRow, Tx};
use anyhow::Context;
use aye_core::{AgentId, Role, Surface, Text};
pub(super) use in_force::InForce;
use in_force::id_of;
use jiff::Timestamp;
use secrets::{random_token, sha256, token_with_id};
use sessions::PageTokens;
use sign_in::SignInCodes;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How the ids of the tokens in `operator.token` begin.
const OWNER: &str = "owner-";

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
    /// Limits its concurrent calls.
    pub calls: Arc<Semaphore>,
    /// Limits its WebSockets, which are counted apart.
    pub sockets: Arc<Semaphore>,
    /// Limits its calls whose bodies or replies may be long; further ones wait.
    pub long_calls: Arc<Semaphore>,
}

impl Credential {
    /// Tells whether this is the token that the hub itself made for its owner.
    pub fn is_owners(&self) -> bool {
        self.id.starts_with(OWNER)
    }
}

pub struct Credentials {
    in_force: Arc<InForce>,
    sign_in_codes: SignInCodes,
    page_tokens: PageTokens,
    agent_key: [u8; 32],
}

impl Credentials {
    /// Reads the tokens in force; makes the operator's at the first start.
    pub async fn open(
        home: &Home,
        store: &Store,
        clock: &Clock,
        in_force: Arc<InForce>,
    ) -> anyhow::Result<Self> {
        in_force.admit(store.read(Reader::tokens_in_force).await?, |id| store.has_token(id));
        let agent_key = home.agent_key()?;
        let credentials = Self {
            in_force,
            sign_in_codes: SignInCodes::default(),
            page_tokens: match store.is_on_server() {
                true => PageTokens::shared(store.key()),
                false => PageTokens::new().context("the system has no randomness for a key")?,
            },
            agent_key,
        };
        credentials.revoke_sessions_without_key(store, clock.now()).await?;
        let kept = home.read_operator_token().context("cannot read operator.token")?;
        if kept.is_none_or(|token| credentials.in_force.check(&token, clock.now()).is_none()) {
            let name = crate::home::user_name();
            // On a server, the operator tokens of other hubs are in the same table.
            if !store.is_on_server() {
                credentials.revoke_owners(store, clock.now()).await?;
            }
            let id = format!("{OWNER}{}", random_hex::<6>()?);
            let (token, row) = token_with_id(id, Role::Operator, name, None, clock.now())?;
            record(store, &row, "hub").await?;
            home.write_operator_token(&token).context("cannot write operator.token")?;
            credentials.in_force.admit([row], |id| store.has_token(id));
        }
        Ok(credentials)
    }

    /// Whoever removed `operator.token` meant the one that was in it: it must not live on elsewhere.
    async fn revoke_owners(&self, store: &Store, now: Timestamp) -> Result<(), Problem> {
        self.revoke_all(store, now, Credential::is_owners).await
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
        for id in self.in_force.ids(which) {
            revoke(store, &id, "hub", now).await?;
            self.in_force.dismiss(&id);
        }
        Ok(())
    }
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
    store.write(move |tx: &mut Tx| make_token(tx, &row, &who)).await
}

/// Makes a token, and says so in the trail.
fn make_token(tx: &mut Tx, token: &TokenRow, who: &str) -> Result<(), StoreError> {
    tx.put_token(token)?;
    tx.audit(token.created_at, "token.created", who, token.agent.as_ref(), None, token.told())
}

/// Refuses a token that another hub has revoked meanwhile.
pub(in crate::hub) fn still_counts(tx: &Tx, token: Option<&str>) -> Result<(), Problem> {
    match token.is_none_or(|token| tx.has_token(token)) {
        true => Ok(()),
        false => Err(Problem::NotAllowed("this token was revoked")),
    }
}

impl Hub {
    /// Whether this token is still valid, after catching up with the other hubs.
    pub async fn counts_everywhere(&self, credential: &Credential) -> Result<bool, Problem> {
        let store = &self.inner.store;
        if !store.is_on_server() {
            return Ok(true);
        }
        // Reading from the store catches up with the other hubs first.
        store.read(|_| Ok(())).await?;
        Ok(store.has_token(&credential.id))
    }

    /// Whose token this is. One that is not known may have been made by another hub just now.
    pub async fn credential(&self, token: &str) -> Result<Option<Credential>, Problem> {
        let (in_force, store) = (&self.inner.credentials.in_force, &self.inner.store);
        let known = in_force.check(token, self.inner.clock.now());
        let Some(id) = id_of(token).filter(|_| known.is_none() && store.is_on_server()) else {
            return Ok(known);
        };
        let id = id.to_owned();
        let found = store.read(move |db| db.token_in_force(&id)).await?;
        in_force.admit(found, |id| store.has_token(id));
        Ok(in_force.check(token, self.inner.clock.now()))
    }

    pub async fn create_token(&self, role: Role, name: Text, who: &str) -> Result<String, Problem> {
        let now = self.inner.clock.now();
        let (token, row) = random_token(role, name, None, now).map_err(|_| NO_RANDOMNESS)?;
        let _lock = self.inner.credentials.in_force.lock(&row.id).await;
        record(&self.inner.store, &row, who).await?;
        self.inner.credentials.in_force.admit([row], |id| self.inner.store.has_token(id));
        Ok(token)
    }

    pub async fn tokens(&self) -> Result<Vec<CredentialInfo>, Problem> {
        let rows = self.inner.store.read(Reader::tokens).await?;
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
        let _lock = self.inner.credentials.in_force.lock(id).await;
        // First, because who asked may go away before the store has done its part.
        self.inner.credentials.in_force.dismiss(id);
        revoke(&self.inner.store, id, who, now).await
    }
}
