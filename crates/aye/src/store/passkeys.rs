//! The public keys of people, and the check that everything which takes a passkey has its signature in the trail.

use super::asks::{time, unreadable};
use super::keying::CUT;
use super::row_mac::PASSKEYS;
use super::sql::{Row, params};
use super::{Reader, StoreError, Tx, one};
use crate::webauthn::{Assertion, Encoded, Statement};
use aye_core::Text;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasskeyRow {
    pub id: String,
    pub credential: Encoded,
    pub key: Encoded,
    pub name: Text,
    pub rp: String,
    /// Of its signatures, where the authenticator counts them.
    pub counter: u32,
    pub created_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

const COLUMNS: &str = "id, credential, key, name, rp, counter, created_at, used_at";

impl Tx<'_> {
    pub fn put_passkey(&self, passkey: &PasskeyRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO passkeys (id, credential, key, name, rp, counter, created_at, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let PasskeyRow { id, credential, key, name, rp, counter, created_at, .. } = passkey;
        let (name, created_at) = (name.as_str(), created_at.as_millisecond());
        let mac = self.mac(&PASSKEYS, params![id, credential.0, key.0, name, rp, created_at])?;
        let values = params![id, credential.0, key.0, name, rp, counter, created_at, mac];
        self.put_live_row(("passkeys", id), sql, values, Some(mac.clone()))
    }

    /// The counter never goes back: a copy of the passkey that lags behind is noticed each time.
    pub fn passkey_used(&self, id: &str, counter: u32, at: Timestamp) -> Result<(), StoreError> {
        let sql =
            "UPDATE passkeys SET used_at = ?2, counter = CASE WHEN counter < ?3 THEN ?3 ELSE counter END
             WHERE id = ?1";
        one(self.connection.execute(sql, params![id, at.as_millisecond(), counter])?, "passkeys", id)
    }

    pub fn remove_passkey(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE passkeys SET removed_at = ?2 WHERE id = ?1 AND removed_at IS NULL";
        self.note_removed("passkeys", id);
        one(self.connection.execute(sql, params![id, at.as_millisecond()])?, "passkeys", id)
    }
}

impl Reader {
    /// Those in force that the hub itself registered.
    pub fn passkeys(&self) -> Result<Vec<PasskeyRow>, StoreError> {
        let sql = format!(
            "SELECT {}, counter, used_at FROM passkeys WHERE removed_at IS NULL ORDER BY created_at, id",
            PASSKEYS.selected()
        );
        self.own_rows(&PASSKEYS, &sql, params![], read_row)
    }

    /// All rows that claim to be in force, to be checked.
    pub fn passkeys_to_check(&self) -> Result<Vec<PasskeyRow>, StoreError> {
        // A database that an older version wrote, and no hub has opened since.
        if !self.connection.has_table("passkeys")? {
            return Ok(Vec::new());
        }
        let sql = format!("SELECT {COLUMNS} FROM passkeys WHERE removed_at IS NULL ORDER BY created_at, id");
        self.connection.all(&sql, params![], read_row)
    }

    /// The same, and if there are none, then because the trail knows of none: rows that were taken away or changed must
    /// not make room for somebody's "first" one.
    pub fn complete_passkeys(&self) -> Result<Vec<PasskeyRow>, StoreError> {
        let passkeys = self.passkeys()?;
        if passkeys.is_empty() {
            let mut removed = HashSet::new();
            let missing = self.newest_own_line(|line| {
                let id = line.detail["passkey"].as_str().unwrap_or_default().to_owned();
                match line.kind.as_str() {
                    "passkey.added" if !removed.contains(&id) => Some(id),
                    "passkey.removed" => {
                        removed.insert(id);
                        None
                    }
                    // There may have been one in what is gone.
                    CUT => Some("of a trail that was cut".to_owned()),
                    _ => None,
                }
            })?;
            if let Some(id) = missing {
                return Err(StoreError::Foreign { table: "passkeys", id });
            }
        }
        Ok(passkeys)
    }

    pub fn passkey_of(&self, credential: &Encoded) -> Result<Option<PasskeyRow>, StoreError> {
        Ok(self.passkeys()?.into_iter().find(|passkey| passkey.credential == *credential))
    }
}

fn read_row(row: &Row) -> Result<PasskeyRow, StoreError> {
    Ok(PasskeyRow {
        id: row.get("id")?,
        credential: Encoded(row.get("credential")?),
        key: Encoded(row.get("key")?),
        name: Text::try_from(row.get::<String>("name")?).map_err(unreadable)?,
        rp: row.get("rp")?,
        counter: row.get("counter")?,
        created_at: time(row.get("created_at")?)?,
        used_at: row.get::<Option<i64>>("used_at")?.map(time).transpose()?,
    })
}

/// A signature in the trail: what it is for, and all that is needed to check it again.
pub fn used_detail(passkey: &str, statement: Statement, assertion: &Assertion, copied: bool) -> Value {
    let mut detail = json!({
        "passkey": passkey,
        "purpose": statement.purpose,
        "subject": statement.subject,
        "assertion": assertion,
    });
    if copied {
        detail["counter_went_back"] = json!(true);
    }
    detail
}

pub fn added_detail(passkey: &PasskeyRow) -> Value {
    let PasskeyRow { id, credential, key, name, rp, counter, .. } = passkey;
    json!({ "passkey": id, "name": name, "credential": credential, "key": key, "rp": rp, "counter": counter })
}
