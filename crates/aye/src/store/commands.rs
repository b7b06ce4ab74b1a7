use super::asks::json;
use super::{Reader, StoreError, Tx};
use aye_core::AgentId;
use serde_json::Value;

impl Tx<'_> {
    /// Queues what an agent's adapter must do, and returns its number.
    pub fn put_command(&self, agent: &AgentId, body: &Value) -> Result<u64, StoreError> {
        let mut statement =
            self.connection.prepare_cached("INSERT INTO commands (agent, body) VALUES (?1, ?2)")?;
        Ok(statement.insert((agent.as_str(), body.to_string()))?.cast_unsigned())
    }
}

impl Reader {
    pub fn commands_after(&self, agent: &AgentId, after: u64) -> Result<Vec<(u64, Value)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT n, body FROM commands WHERE agent = ?1 AND n > ?2 ORDER BY n LIMIT 100",
        )?;
        let mut rows = statement.query((agent.as_str(), after))?;
        let mut commands = Vec::new();
        while let Some(row) = rows.next()? {
            commands.push((row.get::<_, u64>(0)?, json(&row.get::<_, String>(1)?)?));
        }
        Ok(commands)
    }
}
