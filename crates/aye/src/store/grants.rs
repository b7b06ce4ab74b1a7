use super::asks::unreadable;
use super::{StoreError, Tx};
use aye_core::AgentId;
use aye_policy::Grant;
use jiff::Timestamp;
use rusqlite::{Connection, Row};

impl Tx<'_> {
    pub fn put_grant(&self, id: &str, grant: &Grant) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO grants (id, agent, folder, tool, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let body = serde_json::to_string(grant).map_err(unreadable)?;
        statement.execute((
            id,
            grant.agent.as_ref().map(AgentId::as_str),
            &grant.folder,
            &grant.tool,
            body,
        ))?;
        Ok(())
    }

    pub fn grants_for(&self, folder: &str, tool: &str) -> Result<Vec<(String, Grant)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, body FROM grants WHERE folder = ?1 AND tool = ?2 AND ended_at IS NULL",
        )?;
        let rows = statement.query_map((folder, tool), |row| Ok(read_row(row)))?;
        rows.map(|row| row?).collect()
    }

    /// Whether there was such a grant in force.
    pub fn end_grant(&self, id: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE grants SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
        Ok(self.connection.prepare_cached(sql)?.execute((id, at.as_millisecond()))? == 1)
    }

    /// What was allowed for a session ends with it.
    pub fn end_grants_of(&self, agent: &AgentId, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE grants SET ended_at = ?2 WHERE agent = ?1 AND ended_at IS NULL";
        self.connection.prepare_cached(sql)?.execute((agent.as_str(), at.as_millisecond()))?;
        Ok(())
    }
}

pub fn in_force(connection: &Connection) -> Result<Vec<(String, Grant)>, StoreError> {
    let mut statement =
        connection.prepare("SELECT id, body FROM grants WHERE ended_at IS NULL ORDER BY rowid")?;
    let rows = statement.query_map([], |row| Ok(read_row(row)))?;
    rows.map(|row| row?).collect()
}

fn read_row(row: &Row) -> Result<(String, Grant), StoreError> {
    let body: String = row.get(1)?;
    Ok((row.get(0)?, serde_json::from_str(&body).map_err(unreadable)?))
}
