use super::asks::{time, unreadable};
use super::live_rows::REVOKED;
use super::row_mac::TOKENS;
use super::sql::{Row, params};
use super::{Reader, StoreError, Tx};
use crate::es256::PublicKey;
use aye_core::digest::sha256_hex;
use aye_core::{AgentId, Role, Surface, Text};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::LazyLock;

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
    pub fn put_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, role, agent, name, surface, kept, created_at, expires_at, public_key, origin, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let TokenRow { id, hash, kept, .. } = token;
        let (role, agent) = (token.role.as_str(), token.agent.as_ref().map(AgentId::as_str));
        let (name, surface) = (token.name.as_str(), token.surface.map(Surface::as_str));
        let created = token.created_at.as_millisecond();
        let expires = token.expires_at.map(Timestamp::as_millisecond);
        let key = token.session.as_ref().map(|session| session.key.as_bytes());
        let origin = token.session.as_ref().map(|session| &session.origin);
        let mac =
            self.mac(&TOKENS, params![id, hash, role, agent, name, surface, created, expires, key, origin])?;
        let values = params![id, hash, role, agent, name, surface, kept, created, expires, key, origin, mac];
        self.put_live_row(("tokens", id), sql, values, Some(mac.clone()))
    }

    /// Whether this very token is there. Another one of that name gives way: it comes from an earlier agent.key.
    pub fn has_token_or_makes_room(&self, token: &TokenRow) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM tokens WHERE id = ?1 AND hash = ?2";
        let is_there = self.connection.exists(sql, params![token.id, token.hash])?;
        if !is_there {
            self.connection.execute("DELETE FROM tokens WHERE id = ?1", params![token.id])?;
        }
        Ok(is_there)
    }

    pub fn keep_token(&mut self, id: &str, who: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET kept = 1 WHERE id = ?1 AND kept = 0";
        match self.connection.execute(sql, params![id])? {
            0 => Ok(()),
            _ => self.audit(at, "token.kept", who, None, None, json!({ "token": id })),
        }
    }

    /// A revoked token stays, so that it is never handed out again.
    pub fn forget_token(&mut self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "DELETE FROM tokens WHERE id = ?1 AND revoked_at IS NULL AND kept = 0";
        match self.connection.execute(sql, params![id])? {
            0 => Ok(()),
            _ => {
                self.note_removed("tokens", id);
                self.audit(at, "token.forgotten", "hub", None, None, json!({ "token": id }))
            }
        }
    }

    /// Whether there was such a token in force.
    pub fn revoke_token(&mut self, id: &str, who: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        let revoked = self.connection.execute(sql, params![id, at.as_millisecond()])? == 1;
        if revoked {
            self.note_live("tokens", id, Some(REVOKED.to_owned()));
            self.audit(at, "token.revoked", who, None, None, json!({ "token": id }))?;
        }
        Ok(revoked)
    }

    /// Whoever acts for a person needs another one.
    pub fn revoke_operators(&mut self, who: &str, at: Timestamp) -> Result<(), StoreError> {
        for token in self.operators()? {
            self.revoke_token(&token.id, who, at)?;
        }
        Ok(())
    }
}

impl Reader {
    pub fn is_token_revoked(&self, id: &str) -> Result<bool, StoreError> {
        let is_known = self.live_rows().is_some_and(|live_rows| live_rows.is_revoked(id));
        let sql = "SELECT 1 FROM tokens WHERE id = ?1 AND revoked_at IS NOT NULL";
        Ok(is_known || self.connection.exists(sql, params![id])?)
    }

    /// The tokens in force that the hub itself made.
    pub fn tokens_in_force(&self) -> Result<Vec<TokenRow>, StoreError> {
        let sql = format!("SELECT {TOKEN_COLUMNS} FROM tokens WHERE revoked_at IS NULL ORDER BY created_at");
        self.own_rows(&TOKENS, &sql, params![], read_row)
    }

    /// Those that act for a person.
    pub fn operators(&self) -> Result<Vec<TokenRow>, StoreError> {
        let tokens = self.tokens_in_force()?;
        Ok(tokens.into_iter().filter(|token| token.role == Role::Operator).collect())
    }

    /// The same token alone.
    pub fn token_in_force(&self, id: &str) -> Result<Option<TokenRow>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!("SELECT {TOKEN_COLUMNS} FROM tokens WHERE id = ?1 AND revoked_at IS NULL")
        });
        Ok(self.own_rows(&TOKENS, &SQL, params![id], read_row)?.pop())
    }

    /// Whether this token counts now, inside the change that asks.
    pub fn has_token(&self, id: &str) -> bool {
        self.live_rows().is_some_and(|live_rows| live_rows.has_token(id))
    }

    /// Every token, and when it was revoked.
    pub fn tokens(&self) -> Result<Vec<(TokenRow, Option<Timestamp>)>, StoreError> {
        let columns = match self.is_the_hubs() {
            true => TOKEN_COLUMNS.to_owned(),
            false => self.connection.present_columns("tokens", TOKEN_COLUMNS)?,
        };
        let sql = format!("SELECT {columns} FROM tokens ORDER BY created_at");
        self.rows("tokens", &sql, params![], |row| {
            Ok((read_row(row)?, row.get::<Option<i64>>(REVOKED_AT)?.map(time).transpose()?))
        })
    }
}

/// What is read of a token: its MAC, what the MAC is over, and the rest. Named one by one, because a server refuses a prepared
/// `*` once a newer hub has added a column.
const TOKEN_COLUMNS: &str = "mac, id, hash, role, agent, name, surface, created_at, expires_at, public_key, origin, kept, \
     revoked_at";
const REVOKED_AT: usize = 12;

fn read_row(row: &Row) -> Result<TokenRow, StoreError> {
    let agent: Option<String> = row.get(4)?;
    let surface: Option<String> = row.get(6)?;
    Ok(TokenRow {
        id: row.get(1)?,
        hash: row.get(2)?,
        role: row.get::<String>(3)?.parse().map_err(unreadable)?,
        agent: agent.map(AgentId::try_from).transpose().map_err(unreadable)?,
        name: Text::try_from(row.get::<String>(5)?).map_err(unreadable)?,
        surface: surface.as_deref().and_then(Surface::named),
        session: session(row.get(9)?, row.get(10)?)?,
        kept: row.get(11)?,
        created_at: time(row.get(7)?)?,
        expires_at: row.get::<Option<i64>>(8)?.map(time).transpose()?,
    })
}

fn session(key: Option<Vec<u8>>, origin: Option<String>) -> Result<Option<Session>, StoreError> {
    let (Some(key), Some(origin)) = (key, origin) else { return Ok(None) };
    let key = PublicKey::from_point(key).ok_or_else(|| unreadable("a session's key is not one"))?;
    Ok(Some(Session { key, origin }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokens_columns_begin_with_what_its_mac_is_over() {
        assert!(TOKEN_COLUMNS.starts_with(&format!("{}, kept, ", TOKENS.selected())));
        assert_eq!(TOKEN_COLUMNS.split(", ").nth(REVOKED_AT), Some("revoked_at"));
    }
}
