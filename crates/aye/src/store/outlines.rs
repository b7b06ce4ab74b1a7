use super::asks::unreadable;
use super::row_mac::{OUTLINES, in_words};
use super::sql::params;
use super::{Reader, StoreError, Tx, one};
use aye_core::{AgentId, Outline};

impl Tx<'_> {
    pub fn put_outline(&self, agent: &AgentId, outline: &Outline) -> Result<(), StoreError> {
        if *outline == Outline::default() {
            return self.forget_outline(agent);
        }
        let sql = "INSERT INTO outlines (agent, body, mac) VALUES (?1, ?2, ?3)
             ON CONFLICT (agent) DO UPDATE SET body = excluded.body, mac = excluded.mac";
        let (agent, body) = (agent.as_str(), serde_json::to_string(outline).map_err(unreadable)?);
        let mac = self.mac(&OUTLINES, params![agent, body])?;
        self.put_live_row(("outlines", agent), sql, params![agent, body, mac], Some(mac.clone()))
    }

    pub fn forget_outline(&self, agent: &AgentId) -> Result<(), StoreError> {
        let agent = agent.as_str();
        self.connection.execute("DELETE FROM outlines WHERE agent = ?1", params![agent])?;
        self.note_removed("outlines", agent);
        let is_left = self.connection.exists("SELECT 1 FROM outlines WHERE agent = ?1", params![agent])?;
        one(usize::from(!is_left), "outlines", agent)
    }

    pub fn forget_all_outlines(&self) -> Result<(), StoreError> {
        let forgotten = self
            .connection
            .all("DELETE FROM outlines RETURNING agent", params![], |row| Ok(in_words(row.value(0)?)))?;
        forgotten.iter().for_each(|agent| self.note_removed("outlines", agent));
        Ok(())
    }
}

impl Reader {
    /// An agent of which none was asked has an empty one, and so has one whose outline the hub did not write.
    pub fn outline(&self, agent: &AgentId) -> Result<Outline, StoreError> {
        let sql = format!("SELECT {} FROM outlines WHERE agent = ?1", OUTLINES.selected());
        let own = self.own_rows(&OUTLINES, &sql, params![agent.as_str()], |row| {
            // An index that somebody changed may lead to another.
            one(usize::from(row.get::<String>(1)? == agent.as_str()), "outlines", agent.as_str())?;
            read(&row.get::<String>(2)?)
        })?;
        Ok(own.into_iter().next().unwrap_or_default())
    }
}

pub(super) fn read(body: &str) -> Result<Outline, StoreError> {
    serde_json::from_str(body).map_err(unreadable)
}
