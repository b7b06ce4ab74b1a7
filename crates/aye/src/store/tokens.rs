use super::asks::{time, unreadable};
use super::row_mac::{self, TOKENS};
use super::{Reader, StoreError, Tx, one};
use crate::es256::PublicKey;
use aye_core::digest::sha256_hex;
use aye_core::{AgentId, Role, Surface, Text};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashSet;

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
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO tokens (id, hash, role, agent, name, surface, kept, created_at, expires_at, public_key, origin, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                 row_mac('tokens', ?1, ?2, ?3, ?4, ?5, ?6, ?8, ?9, ?10, ?11))",
        )?;
        let put = statement.execute((
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
        ))?;
        one(put, "tokens", &token.id)
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
            _ => self.audit(at, "token.forgotten", "hub", None, None, json!({ "token": id })),
        }
    }

    /// Whether there was such a token in force.
    pub fn revoke_token(&mut self, id: &str, who: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        let revoked = self.connection.prepare_cached(sql)?.execute((id, at.as_millisecond()))? == 1;
        if revoked {
            self.audit(at, "token.revoked", who, None, None, json!({ "token": id }))?;
        }
        Ok(revoked)
    }
}

impl Reader {
    pub fn is_token_revoked(&self, id: &str) -> Result<bool, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM tokens WHERE id = ?1 AND revoked_at IS NOT NULL")?;
        Ok(statement.exists([id])?)
    }

    /// The tokens in force that the hub itself made.
    pub fn tokens_in_force(&self) -> Result<Vec<TokenRow>, StoreError> {
        let sql = format!("SELECT id FROM tokens WHERE NOT row_is_ours(mac, {TOKENS})");
        let mut statement = self.connection.prepare(&sql)?;
        let foreign = statement.query_map([], |row| row.get(0))?.collect::<Result<HashSet<String>, _>>()?;
        foreign.iter().for_each(|id| row_mac::report_foreign("tokens", id));
        let mut tokens = self.tokens()?;
        tokens.retain(|(row, revoked)| revoked.is_none() && !foreign.contains(&row.id));
        Ok(tokens.into_iter().map(|(row, _)| row).collect())
    }

    /// Every token, and when it was revoked.
    pub fn tokens(&self) -> Result<Vec<(TokenRow, Option<Timestamp>)>, StoreError> {
        // What is read without a hub may not have been brought up to date by one.
        let column = "SELECT 1 FROM pragma_table_info('tokens') WHERE name = 'public_key'";
        let session_columns = match self.connection.prepare(column)?.exists([])? {
            true => "expires_at, public_key, origin",
            false => "NULL, NULL, NULL",
        };
        let mut statement = self.connection.prepare(&format!(
            "SELECT id, hash, role, agent, name, surface, created_at, revoked_at, kept, {session_columns}
             FROM tokens ORDER BY created_at"
        ))?;
        let mut rows = statement.query([])?;
        let mut tokens = Vec::new();
        while let Some(row) = rows.next()? {
            let agent: Option<String> = row.get(3)?;
            let surface: Option<String> = row.get(5)?;
            let token = TokenRow {
                id: row.get(0)?,
                hash: row.get(1)?,
                role: row.get::<_, String>(2)?.parse().map_err(unreadable)?,
                agent: agent.map(AgentId::try_from).transpose().map_err(unreadable)?,
                name: Text::try_from(row.get::<_, String>(4)?).map_err(unreadable)?,
                surface: surface.as_deref().and_then(Surface::named),
                session: session(row.get(10)?, row.get(11)?)?,
                kept: row.get(8)?,
                created_at: time(row.get(6)?)?,
                expires_at: row.get::<_, Option<i64>>(9)?.map(time).transpose()?,
            };
            tokens.push((token, row.get::<_, Option<i64>>(7)?.map(time).transpose()?));
        }
        Ok(tokens)
    }
}

fn session(key: Option<Vec<u8>>, origin: Option<String>) -> Result<Option<Session>, StoreError> {
    let (Some(key), Some(origin)) = (key, origin) else { return Ok(None) };
    let key = PublicKey::from_point(key).ok_or_else(|| unreadable("a session's key is not one"))?;
    Ok(Some(Session { key, origin }))
}
