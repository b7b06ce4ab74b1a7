//! Tokens: who holds one, what it is good for. Only their hashes are kept.

use super::{Clock, Hub, Problem};
use crate::home::Home;
use crate::store::{self, Store, StoreError, TokenRow, Tx};
use anyhow::Context;
use aye_core::digest::hex;
use aye_core::{AgentId, Role, Surface, Text};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};
use subtle::ConstantTimeEq;
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

const SIGN_IN_LASTS: SignedDuration = SignedDuration::from_mins(15);
const MOST_SIGN_IN_CODES: usize = 64;
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
    kept: bool,
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
    pub revoked: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error(
        "this sign-in link is not valid any more: each works once, for 15 minutes. `aye open` prints a new one"
    )]
    NotValid,
    #[error(transparent)]
    Problem(#[from] Problem),
}

/// A browser's session, in two halves that it keeps in different places: a cookie goes to every port of a
/// machine, and what a page keeps does not.
pub struct Session {
    pub token: String,
    pub page: String,
}

pub struct Credentials {
    in_force: RwLock<HashMap<String, (Vec<u8>, Credential)>>,
    sign_in_codes: Mutex<HashMap<Vec<u8>, Timestamp>>,
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
            sign_in_codes: Mutex::default(),
            agent_key,
            turns: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        };
        let kept = home.read_operator_token().context("cannot read operator.token")?;
        if kept.is_none_or(|token| credentials.check(&token).is_none()) {
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
        let in_force = || self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        let owners: Vec<String> = in_force().keys().filter(|id| id.starts_with(OWNER)).cloned().collect();
        for id in owners {
            revoke(store, &id, "hub", now).await?;
            self.dismiss(&id);
        }
        Ok(())
    }

    pub fn check(&self, token: &str) -> Option<Credential> {
        let (id, _) = token.strip_prefix("aye_")?.rsplit_once('_')?;
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        let (hash, credential) = in_force.get(id)?;
        let same: bool = hash.ct_eq(&sha256(token)).into();
        same.then(|| credential.clone())
    }

    async fn turn(&self, id: &str) -> MutexGuard<'_, ()> {
        let first = sha256(id).first().copied().unwrap_or_default();
        self.turns[usize::from(first) % TURNS].lock().await
    }

    fn admit(&self, row: TokenRow) {
        let (id, entry) = entry(row);
        self.in_force.write().unwrap_or_else(PoisonError::into_inner).insert(id, entry);
    }

    fn keep(&self, id: &str) {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, credential)) = in_force.get_mut(id) {
            credential.kept = true;
        }
    }

    fn is_kept(&self, id: &str) -> bool {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        in_force.get(id).is_some_and(|(_, credential)| credential.kept)
    }

    fn dismiss(&self, id: &str) {
        let dismissed = self.in_force.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some((_, credential)) = dismissed {
            credential.revoked.cancel();
        }
    }

    /// One token an agent: derived, so that it can be handed out again and is kept nowhere.
    fn agent_token(&self, agent: &AgentId) -> Option<String> {
        Some(format!("aye_{}_{}", agent_token_id(agent), self.derived(agent.as_str())?))
    }

    /// What a browser's page must show beside its session's cookie. No agent has a name with a NUL in it.
    fn page_secret(&self, session: &str) -> Option<String> {
        self.derived(&format!("\0page\0{session}"))
    }

    fn derived(&self, name: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.agent_key).ok()?;
        mac.update(name.as_bytes());
        Some(hex(&mac.finalize().into_bytes()))
    }
}

fn agent_token_id(agent: &AgentId) -> String {
    format!("agent:{agent}")
}

fn entry(row: TokenRow) -> (String, (Vec<u8>, Credential)) {
    let credential = Credential {
        id: row.id.clone(),
        role: row.role,
        agent: row.agent,
        name: row.name,
        surface: row.surface,
        kept: row.kept,
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
    Ok((token, TokenRow { id, hash, role, agent: None, name, surface, kept: true, created_at: now }))
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

const NO_RANDOMNESS: Problem = Problem::Conflict("the system has no randomness for a token");

impl Hub {
    pub fn credential(&self, token: &str) -> Option<Credential> {
        self.inner.credentials.check(token)
    }

    pub async fn create_token(&self, role: Role, name: Text, who: &str) -> Result<String, Problem> {
        let now = self.inner.clock.now();
        let (token, row) = random_token(role, name, None, now).map_err(|_| NO_RANDOMNESS)?;
        let _turn = self.inner.credentials.turn(&row.id).await;
        record(&self.inner.store, &row, who).await?;
        self.inner.credentials.admit(row);
        Ok(token)
    }

    /// The one token of an agent, the same each time it is asked for.
    /// With `keep` it outlives the agent's end, as a token should that a person made.
    pub async fn hand_out_agent_token(
        &self,
        agent: &AgentId,
        who: &str,
        keep: bool,
    ) -> Result<String, Problem> {
        let credentials = &self.inner.credentials;
        let token = credentials.agent_token(agent).ok_or(NO_RANDOMNESS)?;
        let serves = |credential: Credential| credential.kept || !keep;
        if credentials.check(&token).is_some_and(serves) {
            return Ok(token);
        }
        let id = agent_token_id(agent);
        let _turn = credentials.turn(&id).await;
        if credentials.check(&token).is_some_and(serves) {
            return Ok(token);
        }
        let now = self.inner.clock.now();
        let name = Text::try_from(agent.as_str()).map_err(|_| Problem::NoSuchAgent)?;
        let row = TokenRow {
            id,
            hash: sha256(&token),
            role: Role::Agent,
            agent: Some(agent.clone()),
            name,
            surface: None,
            kept: keep,
            created_at: now,
        };
        let (kept, who) = (row.clone(), who.to_owned());
        let work = move |tx: &mut Tx| {
            if tx.is_token_revoked(&kept.id)? {
                return Err(Problem::NotAllowed("the token of this agent was revoked"));
            }
            if !tx.make_token_if_new(&kept, &who)? && keep {
                tx.keep_token(&kept.id, &who, now)?;
            }
            Ok(())
        };
        self.inner.store.write(work).await?;
        match credentials.check(&token) {
            Some(_) => credentials.keep(&row.id),
            None => {
                // One that was in force comes from an earlier agent.key.
                credentials.dismiss(&row.id);
                credentials.admit(row);
            }
        }
        Ok(token)
    }

    /// An agent that has ended needs no token, unless a person made it one; should it come back, it is
    /// handed the same one again.
    pub(super) async fn forget_agent_token(&self, agent: &AgentId) -> Result<(), Problem> {
        let id = agent_token_id(agent);
        let _turn = self.inner.credentials.turn(&id).await;
        if !self.inner.credentials.is_kept(&id) {
            self.inner.credentials.dismiss(&id);
            let now = self.inner.clock.now();
            self.inner.store.write(move |tx| tx.forget_token(&id, now)).await?;
        }
        Ok(())
    }

    pub async fn tokens(&self) -> Result<Vec<CredentialInfo>, Problem> {
        let rows = self.inner.store.read(store::tokens::all).await?;
        let info = |(row, revoked): (TokenRow, Option<Timestamp>)| CredentialInfo {
            id: row.id,
            role: row.role,
            agent: row.agent,
            name: row.name,
            surface: row.surface,
            created_at: row.created_at,
            revoked: revoked.is_some(),
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

    /// A code that signs one browser in, once and soon.
    pub fn sign_in_code(&self) -> Result<String, Problem> {
        let code = random_hex::<32>().map_err(|_| NO_RANDOMNESS)?;
        let now = self.inner.clock.now();
        let mut codes = self.inner.credentials.sign_in_codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, until| *until > now);
        if codes.len() >= MOST_SIGN_IN_CODES {
            return Err(Problem::Conflict("too many sign-in links are waiting to be used"));
        }
        // Kept as a hash: finding it takes no comparison whose duration tells anything.
        codes.insert(sha256(&code), now.saturating_add(SIGN_IN_LASTS).unwrap_or(now));
        Ok(code)
    }

    /// Whether this is what the page of that session was handed when it signed in.
    pub fn is_page_of(&self, session: &Credential, secret: &str) -> bool {
        let expected = self.inner.credentials.page_secret(&session.id);
        expected.is_some_and(|expected| expected.as_bytes().ct_eq(secret.as_bytes()).into())
    }

    /// Trades a code for a browser's session.
    pub async fn sign_in(&self, code: &str) -> Result<Session, SignInError> {
        let now = self.inner.clock.now();
        let until = {
            let mut codes =
                self.inner.credentials.sign_in_codes.lock().unwrap_or_else(PoisonError::into_inner);
            codes.remove(&sha256(code))
        };
        if until.is_none_or(|until| until <= now) {
            return Err(SignInError::NotValid);
        }
        let name = crate::home::user_name();
        let token = random_token(Role::Operator, name, Some(Surface::Web), now);
        let (token, row) = token.map_err(|_| NO_RANDOMNESS)?;
        let _turn = self.inner.credentials.turn(&row.id).await;
        let page = self.inner.credentials.page_secret(&row.id).ok_or(NO_RANDOMNESS)?;
        record(&self.inner.store, &row, "sign-in link").await.map_err(Problem::from)?;
        self.inner.credentials.admit(row);
        Ok(Session { token, page })
    }
}
