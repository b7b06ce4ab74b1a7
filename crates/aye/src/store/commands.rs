use super::asks::json;
use super::row_mac::{COMMANDS, pass_by};
use super::sql::params;
use super::{Reader, StoreError, Tx, one};
use aye_core::AgentId;
use serde_json::Value;
use std::ops::ControlFlow;

const AT_ONCE: usize = 100;

impl Tx<'_> {
    /// Queues what an agent's adapter must do, and returns its number.
    pub fn put_command(&self, agent: &AgentId, body: &Value) -> Result<u64, StoreError> {
        let (agent, body) = (agent.as_str(), body.to_string());
        let sql = "INSERT INTO commands (agent, body) VALUES (?1, ?2)";
        let n = self.connection.insert(sql, params![agent, body], "n")?;
        let mac = self.mac(&COMMANDS, params![n, agent, body])?;
        let sql = "UPDATE commands SET mac = ?2 WHERE n = ?1";
        one(self.connection.execute(sql, params![n, mac])?, "commands", agent)?;
        Ok(n.cast_unsigned())
    }
}

impl Reader {
    /// Only what the hub itself queued.
    pub fn commands_after(&self, agent: &AgentId, after: u64) -> Result<Vec<(u64, Value)>, StoreError> {
        let sql =
            format!("SELECT {} FROM commands WHERE agent = ?1 AND n > ?2 ORDER BY n", COMMANDS.selected());
        let mut commands = Vec::new();
        self.connection.each(&sql, params![agent.as_str(), after], |row| {
            let read = self.check_ours(&COMMANDS, row);
            let read = read.and_then(|()| Ok((row.get(1)?, json(&row.get::<String>(3)?)?)));
            commands.extend(pass_by(COMMANDS.table, read)?);
            let is_enough = commands.len() == AT_ONCE;
            Ok::<_, StoreError>(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(commands)
    }
}
