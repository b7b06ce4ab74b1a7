use super::asks::json;
use super::row_mac::COMMANDS;
use super::{Reader, StoreError, Tx, one};
use aye_core::AgentId;
use serde_json::Value;

impl Tx<'_> {
    /// Queues what an agent's adapter must do, and returns its number.
    pub fn put_command(&self, agent: &AgentId, body: &Value) -> Result<u64, StoreError> {
        let mut statement =
            self.connection.prepare_cached("INSERT INTO commands (agent, body) VALUES (?1, ?2)")?;
        let (agent, body) = (agent.as_str(), body.to_string());
        let n = statement.insert((agent, &body))?;
        let sql = "UPDATE commands SET mac = row_mac('commands', ?1, ?2, ?3) WHERE n = ?1";
        one(self.connection.prepare_cached(sql)?.execute((n, agent, body))?, "commands", agent)?;
        Ok(n.cast_unsigned())
    }
}

impl Reader {
    /// Only what the hub itself queued.
    pub fn commands_after(&self, agent: &AgentId, after: u64) -> Result<Vec<(u64, Value)>, StoreError> {
        let sql = format!(
            "SELECT n, body FROM commands WHERE agent = ?1 AND n > ?2 AND row_is_ours(mac, {COMMANDS})
             ORDER BY n LIMIT 100"
        );
        self.rows("commands", &sql, (agent.as_str(), after), |row| {
            Ok((row.get(0)?, json(&row.get::<_, String>(1)?)?))
        })
    }
}
