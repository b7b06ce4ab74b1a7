use super::asks::{newer, time, unreadable};
use super::row_mac::TOKENS;
use super::standing::REVOKED;
use super::{Reader, StoreError, Tx};
use crate::es256::PublicKey;
use aye_core::digest::sha256_hex;
use aye_core::{AgentId, Role, Surface, Text};
use jiff::Timestamp;
use rusqlite::Row;
use serde_json::{Value, json};

/// What makes a token a browser's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Belongs to the key that its page keeps.
    pub key: PublicKey,
    /// Where the page was when it signed in, and the only place where it counts.
    pub origin: String,
}

/// A credential as it is kept: never the token itself, only its hash.
#[derive(Debug, Clone)]
pub struct TokenRow {
    pub id: String,
    pub hash: Vec<u8>,
    pub role: Role,
    pub agent: Option<AgentId>,
    /// Whose it is; the name recorded with an answer.
    pub name: Text,
    /// Set where the credential itself says which surface it belongs to, as a browser's session does.
    pub surface: Option<Surface>,
    pub session: Option<Session>,
    /// Made by a person for an agent, and so not ended with it.
    pub kept: bool,
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl TokenRow {
    /// What the trail says of it when it is made: enough to show if it is changed later.
    pub fn told(&self) -> Value {
        let mut told = json!({
            "token": self.id, "role": self.role, "name": self.name, "surface": self.surface, "kept": self.kept,
            "digest": format!("sha256:{}", sha256_hex(&self.hash)),
        });
        if let Some(session) = &self.session {
            told["expires_at"] = json!(self.expires_at);
            told["origin"] = json!(session.origin);
            told["key"] = json!(format!("sha256:{}", sha256_hex(session.key.as_bytes())));
        }
        told
    }
}

impl Tx<'_> {
    /// Makes a token, and says so in the trail.
    pub fn make_token(&mut self, token: &TokenRow, who: &str) -> Result<(), StoreError> {
        self.put_token(token)?;
        self.audit(token.created_at, "token.created", who, token.agent.as_ref(), None, token.told())
    }

    fn put_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, role, agent, name, surface, kept, created_at, expires_at, public_key, origin, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                 row_mac('tokens', ?1, ?2, ?3, ?4, ?5, ?6, ?8, ?9, ?10, ?11)) RETURNING mac";
        let put = (
            &token.id,
            &token.hash,
            token.role.as_str(),
            token.agent.as_ref().map(AgentId::as_str),
            token.name.as_str(),
            token.surface.map(Surface::as_str),
            token.kept,
            token.created_at.as_millisecond(),
            token.expires_at.map(Timestamp::as_millisecond),
            token.session.as_ref().map(|session| session.key.as_bytes()),
            token.session.as_ref().map(|session| &session.origin),
        );
        self.put_standing(("tokens", &token.id), sql, put)
    }

    /// Whether it was not there yet; another one of that name gives way.
    pub fn make_token_if_new(&mut self, token: &TokenRow, who: &str) -> Result<bool, StoreError> {
        let new = {
            let mut statement =
                self.connection.prepare_cached("SELECT 1 FROM tokens WHERE id = ?1 AND hash = ?2")?;
            !statement.exists((&token.id, &token.hash))?
        };
        if new {
            // One of that name with another secret comes from an earlier agent.key.
            self.connection.prepare_cached("DELETE FROM tokens WHERE id = ?1")?.execute([&token.id])?;
            self.make_token(token, who)?;
        }
        Ok(new)
    }

    pub fn keep_token(&mut self, id: &str, who: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET kept = 1 WHERE id = ?1 AND kept = 0";
        match self.connection.prepare_cached(sql)?.execute([id])? {
            0 => Ok(()),
            _ => self.audit(at, "token.kept", who, None, None, json!({ "token": id })),
        }
    }

    /// A revoked token stays, so that it is never handed out again.
    pub fn forget_token(&mut self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "DELETE FROM tokens WHERE id = ?1 AND revoked_at IS NULL AND kept = 0";
        match self.connection.prepare_cached(sql)?.execute([id])? {
            0 => Ok(()),
            _ => {
                self.falls("tokens", id);
                self.audit(at, "token.forgotten", "hub", None, None, json!({ "token": id }))
            }
        }
    }

    /// Whether there was such a token in force.
    pub fn revoke_token(&mut self, id: &str, who: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        let revoked = self.connection.prepare_cached(sql)?.execute((id, at.as_millisecond()))? == 1;
        if revoked {
            self.stands("tokens", id, Some(REVOKED.to_owned()));
            self.audit(at, "token.revoked", who, None, None, json!({ "token": id }))?;
        }
        Ok(revoked)
    }

    /// Whoever acts for a person needs another one.
    pub fn revoke_operators(&mut self, who: &str, at: Timestamp) -> Result<(), StoreError> {
        let operators = self.tokens_in_force()?.into_iter().filter(|token| token.role == Role::Operator);
        for token in operators {
            self.revoke_token(&token.id, who, at)?;
        }
        Ok(())
    }
}

impl Reader {
    pub fn is_token_revoked(&self, id: &str) -> Result<bool, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM tokens WHERE id = ?1 AND revoked_at IS NOT NULL")?;
        let is_known = self.standing().is_some_and(|standing| standing.is_revoked(id));
        Ok(is_known || statement.exists([id])?)
    }

    /// The tokens in force that the hub itself made.
    pub fn tokens_in_force(&self) -> Result<Vec<TokenRow>, StoreError> {
        let sql = format!(
            "SELECT row_is_ours(mac, {TOKENS}) AS ours, * FROM tokens WHERE revoked_at IS NULL ORDER BY created_at"
        );
        self.own_rows(("tokens", "id"), &sql, [], read_row)
    }

    /// Every token, and when it was revoked.
    pub fn tokens(&self) -> Result<Vec<(TokenRow, Option<Timestamp>)>, StoreError> {
        self.rows("tokens", "SELECT * FROM tokens ORDER BY created_at", [], |row| {
            Ok((read_row(row)?, row.get::<_, Option<i64>>("revoked_at")?.map(time).transpose()?))
        })
    }
}

fn read_row(row: &Row) -> Result<TokenRow, StoreError> {
    let agent: Option<String> = row.get("agent")?;
    let surface: Option<String> = row.get("surface")?;
    Ok(TokenRow {
        id: row.get("id")?,
        hash: row.get("hash")?,
        role: row.get::<_, String>("role")?.parse().map_err(unreadable)?,
        agent: agent.map(AgentId::try_from).transpose().map_err(unreadable)?,
        name: Text::try_from(row.get::<_, String>("name")?).map_err(unreadable)?,
        surface: surface.as_deref().and_then(Surface::named),
        session: session(newer(row, "public_key")?, newer(row, "origin")?)?,
        kept: row.get("kept")?,
        created_at: time(row.get("created_at")?)?,
        expires_at: newer::<i64>(row, "expires_at")?.map(time).transpose()?,
    })
}

fn session(key: Option<Vec<u8>>, origin: Option<String>) -> Result<Option<Session>, StoreError> {
    let (Some(key), Some(origin)) = (key, origin) else { return Ok(None) };
    let key = PublicKey::from_point(key).ok_or_else(|| unreadable("a session's key is not one"))?;
    Ok(Some(Session { key, origin }))
}
