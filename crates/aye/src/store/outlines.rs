use super::asks::unreadable;
use super::{StoreError, Tx};
use aye_core::{AgentId, Outline};
use rusqlite::OptionalExtension;

impl Tx<'_> {
    /// An agent of which none was asked has an empty one.
    pub fn outline(&self, agent: &AgentId) -> Result<Outline, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT body FROM outlines WHERE agent = ?1")?;
        let body: Option<String> = statement.query_row([agent.as_str()], |row| row.get(0)).optional()?;
        body.map_or_else(|| Ok(Outline::default()), |body| read(&body))
    }

    pub fn put_outline(&self, agent: &AgentId, outline: &Outline) -> Result<(), StoreError> {
        if *outline == Outline::default() {
            return self.forget_outline(agent);
        }
        let sql =
            "INSERT INTO outlines (agent, body) VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET body = ?2";
        let body = serde_json::to_string(outline).map_err(unreadable)?;
        self.connection.prepare_cached(sql)?.execute((agent.as_str(), body))?;
        Ok(())
    }

    pub fn forget_outline(&self, agent: &AgentId) -> Result<(), StoreError> {
        self.connection.prepare_cached("DELETE FROM outlines WHERE agent = ?1")?.execute([agent.as_str()])?;
        Ok(())
    }
}

pub(super) fn read(body: &str) -> Result<Outline, StoreError> {
    serde_json::from_str(body).map_err(unreadable)
}
