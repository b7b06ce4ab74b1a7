use super::asks::json;
use super::row_mac::MEMORY;
use super::{Reader, StoreError, Tx, one};
use aye_core::Surface;
use serde_json::Value;

impl Tx<'_> {
    pub fn put_memory(
        &self,
        surface: Surface,
        kind: &str,
        key: &str,
        body: &Value,
    ) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO memory (surface, kind, key, body, mac)
             VALUES (?1, ?2, ?3, ?4, row_mac('memory', ?1, ?2, ?3, ?4))
             ON CONFLICT DO UPDATE SET body = excluded.body, mac = excluded.mac",
        )?;
        one(statement.execute((surface.as_str(), kind, key, body.to_string()))?, "memory", key)
    }

    pub fn forget_memory(&self, surface: Surface, kind: &str, key: &str) -> Result<(), StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("DELETE FROM memory WHERE surface = ?1 AND kind = ?2 AND key = ?3")?;
        statement.execute((surface.as_str(), kind, key))?;
        Ok(())
    }
}

impl Reader {
    /// What was not put there by the hub itself is not remembered.
    pub fn memory(&self, surface: Surface, kind: &str, key: &str) -> Result<Option<Value>, StoreError> {
        let sql = format!(
            "SELECT body FROM memory WHERE surface = ?1 AND kind = ?2 AND key = ?3
             AND row_is_ours(mac, {MEMORY})"
        );
        let params = (surface.as_str(), kind, key);
        Ok(self.rows("memory", &sql, params, |row| json(&row.get::<_, String>(0)?))?.pop())
    }

    /// All of a kind that the hub itself put there, by key.
    pub fn recall(&self, surface: Surface, kind: &str) -> Result<Vec<(String, Value)>, StoreError> {
        let sql = format!(
            "SELECT key, body FROM memory WHERE surface = ?1 AND kind = ?2 AND row_is_ours(mac, {MEMORY})
             ORDER BY key"
        );
        self.rows("memory", &sql, (surface.as_str(), kind), |row| {
            Ok((row.get(0)?, json(&row.get::<_, String>(1)?)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// What each kind of message was, and is since the migration.
    const MIGRATED: &str = include_str!("migrations/0012_messages.json");

    #[test]
    fn what_telegram_remembered_of_its_messages_is_carried_over() {
        for row in serde_json::from_str::<Vec<Value>>(MIGRATED).unwrap() {
            let db = rusqlite::Connection::open_in_memory().unwrap();
            db.execute_batch(include_str!("migrations/0004_telegram.sql")).unwrap();
            let old = (row["kind"].as_str().unwrap(), row["before"].to_string());
            db.execute("INSERT INTO memory VALUES ('telegram', ?1, 'x', ?2)", old).unwrap();
            db.execute_batch(include_str!("migrations/0012_messages.sql")).unwrap();
            let body: String =
                db.query_row("SELECT body FROM memory WHERE kind = 'message'", [], |row| row.get(0)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), row["after"]);
        }
    }
}
