use super::asks::json;
use super::row_mac::MEMORY;
use super::sql::params;
use super::{Reader, StoreError, Tx, one};
use aye_core::Surface;
use rusqlite::ToSql;
use serde_json::Value;

impl Tx<'_> {
    pub fn put_memory(
        &self,
        surface: Surface,
        kind: &str,
        key: &str,
        body: &Value,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO memory (surface, kind, key, body, mac) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (surface, kind, key) DO UPDATE SET body = excluded.body, mac = excluded.mac";
        let (surface, body) = (surface.as_str(), body.to_string());
        let mac = self.mac(&MEMORY, params![surface, kind, key, body])?;
        one(self.connection.execute(sql, params![surface, kind, key, body, mac])?, "memory", key)
    }

    pub fn forget_memory(&self, surface: Surface, kind: &str, key: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM memory WHERE surface = ?1 AND kind = ?2 AND key = ?3";
        self.connection.execute(sql, params![surface.as_str(), kind, key]).map(drop)
    }
}

impl Reader {
    /// What was not put there by the hub itself is not remembered.
    pub fn memory(&self, surface: Surface, kind: &str, key: &str) -> Result<Option<Value>, StoreError> {
        let which = "surface = ?1 AND kind = ?2 AND key = ?3";
        Ok(self.recalled(which, params![surface.as_str(), kind, key])?.pop().map(|(_, body)| body))
    }

    /// All of a kind that the hub itself put there, by key.
    pub fn recall(&self, surface: Surface, kind: &str) -> Result<Vec<(String, Value)>, StoreError> {
        self.recalled("surface = ?1 AND kind = ?2 ORDER BY key", params![surface.as_str(), kind])
    }

    fn recalled(&self, which: &str, params: &[&dyn ToSql]) -> Result<Vec<(String, Value)>, StoreError> {
        let sql = format!("SELECT {} FROM memory WHERE {which}", MEMORY.selected());
        self.own_rows(&MEMORY, &sql, params, |row| Ok((row.get(3)?, json(&row.get::<String>(4)?)?)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// What each kind of message was, and is since the migration.
    const MIGRATED: &str = include_str!("sqlite/migrations/0012_messages.json");

    #[test]
    fn what_telegram_remembered_of_its_messages_is_carried_over() {
        for row in serde_json::from_str::<Vec<Value>>(MIGRATED).unwrap() {
            let db = rusqlite::Connection::open_in_memory().unwrap();
            db.execute_batch(include_str!("sqlite/migrations/0004_telegram.sql")).unwrap();
            let old = (row["kind"].as_str().unwrap(), row["before"].to_string());
            db.execute("INSERT INTO memory VALUES ('telegram', ?1, 'x', ?2)", old).unwrap();
            db.execute_batch(include_str!("sqlite/migrations/0012_messages.sql")).unwrap();
            let body: String =
                db.query_row("SELECT body FROM memory WHERE kind = 'message'", [], |row| row.get(0)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), row["after"]);
        }
    }
}
