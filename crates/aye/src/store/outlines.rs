use super::asks::unreadable;
use super::row_mac::{OUTLINES, in_words};
use super::{Reader, StoreError, Tx, one};
use aye_core::{AgentId, Outline};

impl Tx<'_> {
    pub fn put_outline(&self, agent: &AgentId, outline: &Outline) -> Result<(), StoreError> {
        if *outline == Outline::default() {
            return self.forget_outline(agent);
        }
        let sql = "INSERT INTO outlines (agent, body, mac) VALUES (?1, ?2, row_mac('outlines', ?1, ?2))
             ON CONFLICT (agent) DO UPDATE SET body = excluded.body, mac = excluded.mac RETURNING mac";
        let body = serde_json::to_string(outline).map_err(unreadable)?;
        self.put_standing(("outlines", agent.as_str()), sql, (agent.as_str(), body))
    }

    pub fn forget_outline(&self, agent: &AgentId) -> Result<(), StoreError> {
        self.connection.prepare_cached("DELETE FROM outlines WHERE agent = ?1")?.execute([agent.as_str()])?;
        self.falls("outlines", agent.as_str());
        let mut left = self.connection.prepare_cached("SELECT 1 FROM outlines WHERE agent = ?1")?;
        one(usize::from(!left.exists([agent.as_str()])?), "outlines", agent.as_str())
    }

    pub fn forget_all_outlines(&self) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare("DELETE FROM outlines RETURNING agent")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.falls("outlines", &in_words(row.get_ref(0)?));
        }
        Ok(())
    }
}

impl Reader {
    /// An agent of which none was asked has an empty one, and so has one whose outline the hub did not write.
    pub fn outline(&self, agent: &AgentId) -> Result<Outline, StoreError> {
        let sql = format!(
            "SELECT agent, body, row_is_ours(mac, {OUTLINES}) AS ours FROM outlines WHERE agent = ?1"
        );
        let own = self.own_rows(("outlines", "agent"), &sql, [agent.as_str()], |row| {
            // An index that somebody changed may lead to another.
            one(usize::from(row.get::<_, String>("agent")? == agent.as_str()), "outlines", agent.as_str())?;
            read(&row.get::<_, String>("body")?)
        })?;
        Ok(own.into_iter().next().unwrap_or_default())
    }
}

pub(super) fn read(body: &str) -> Result<Outline, StoreError> {
    serde_json::from_str(body).map_err(unreadable)
}
