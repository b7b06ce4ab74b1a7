use super::asks::unreadable;
use super::row_mac::{OUTLINES, check_ours};
use super::{Reader, StoreError, Tx, one};
use aye_core::{AgentId, Outline};

impl Tx<'_> {
    pub fn put_outline(&self, agent: &AgentId, outline: &Outline) -> Result<(), StoreError> {
        if *outline == Outline::default() {
            return self.forget_outline(agent);
        }
        let sql = "INSERT INTO outlines (agent, body, mac) VALUES (?1, ?2, row_mac('outlines', ?1, ?2))
             ON CONFLICT (agent) DO UPDATE SET body = excluded.body, mac = excluded.mac";
        let body = serde_json::to_string(outline).map_err(unreadable)?;
        one(self.connection.prepare_cached(sql)?.execute((agent.as_str(), body))?, "outlines", agent.as_str())
    }

    pub fn forget_outline(&self, agent: &AgentId) -> Result<(), StoreError> {
        self.connection.prepare_cached("DELETE FROM outlines WHERE agent = ?1")?.execute([agent.as_str()])?;
        let mut left = self.connection.prepare_cached("SELECT 1 FROM outlines WHERE agent = ?1")?;
        one(usize::from(!left.exists([agent.as_str()])?), "outlines", agent.as_str())
    }
}

impl Reader {
    /// An agent of which none was asked has an empty one, and so has one whose outline the hub did not write.
    pub fn outline(&self, agent: &AgentId) -> Result<Outline, StoreError> {
        let sql = format!(
            "SELECT agent, body, row_is_ours(mac, {OUTLINES}) AS ours FROM outlines WHERE agent = ?1"
        );
        let own = self.rows("outlines", &sql, [agent.as_str()], |row| {
            check_ours(row, "outlines", "agent")?;
            read(&row.get::<_, String>("body")?)
        })?;
        Ok(own.into_iter().next().unwrap_or_default())
    }
}

pub(super) fn read(body: &str) -> Result<Outline, StoreError> {
    serde_json::from_str(body).map_err(unreadable)
}
