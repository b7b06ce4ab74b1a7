use super::asks::{time, unreadable};
use super::row_mac::GRANTS;
use super::sql::{Row, params};
use super::{Reader, StoreError, Tx};
use aye_core::AgentId;
use aye_core::digest::{canonical, sha256_hex};
use aye_policy::Grant;
use jiff::Timestamp;
use rusqlite::ToSql;
use serde_json::json;

/// A grant as it is kept.
pub struct GrantRow {
    pub id: String,
    pub agent: Option<String>,
    pub folder: String,
    pub tool: String,
    pub grant: Grant,
    pub ended_at: Option<Timestamp>,
}

impl GrantRow {
    pub fn digest(&self) -> String {
        grant_digest(&self.grant)
    }
}

/// What the trail says a grant was, so that one that was changed shows.
pub fn grant_digest(grant: &Grant) -> String {
    let whole = serde_json::to_value(grant).unwrap_or_default();
    format!("sha256:{}", sha256_hex(canonical(&whole).as_bytes()))
}

impl Tx<'_> {
    pub fn put_grant(&self, id: &str, grant: &Grant) -> Result<(), StoreError> {
        let sql = "INSERT INTO grants (id, agent, folder, tool, body, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let body = serde_json::to_string(grant).map_err(unreadable)?;
        let agent = grant.agent.as_ref().map(AgentId::as_str);
        let mac = self.mac(&GRANTS, params![id, body])?;
        let values = params![id, agent, grant.folder, grant.tool, body, mac];
        self.put_live_row(("grants", id), sql, values, Some(mac.clone()))
    }

    /// Whether there was such a grant in force.
    pub fn revoke_grant(&mut self, id: &str, who: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE grants SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
        let revoked = self.connection.execute(sql, params![id, at.as_millisecond()])? == 1;
        if revoked {
            self.note_removed("grants", id);
            self.audit(at, "grant.revoked", who, None, None, json!({ "grant": id }))?;
        }
        Ok(revoked)
    }

    /// What was allowed for a session ends with it.
    pub fn end_grants_of(&mut self, agent: &AgentId, who: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "SELECT id FROM grants WHERE agent = ?1 AND ended_at IS NULL";
        let ids = self.connection.all(sql, params![agent.as_str()], |row| row.get::<String>(0))?;
        ids.iter().try_for_each(|id| self.end_grant(id, who, at))
    }

    /// Ends all that the hub made, and says how many.
    pub fn end_all_grants(&mut self, who: &str, at: Timestamp) -> Result<usize, StoreError> {
        let ours = self.our_grants("ended_at IS NULL", params![])?;
        ours.iter().try_for_each(|(id, _)| self.end_grant(id, who, at))?;
        Ok(ours.len())
    }

    fn end_grant(&mut self, id: &str, who: &str, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE grants SET ended_at = ?2 WHERE id = ?1 RETURNING agent";
        let agent = self.connection.first(sql, params![id, at.as_millisecond()], |row| row.get(0))?;
        self.note_removed("grants", id);
        let agent = agent.and_then(|agent: Option<String>| agent?.try_into().ok());
        self.audit(at, "grant.ended", who, agent.as_ref(), None, json!({ "grant": id }))
    }
}

impl Reader {
    /// Every grant there ever was.
    pub fn all_grants(&self) -> Result<Vec<GrantRow>, StoreError> {
        self.connection.all(ROWS, params![], read_whole)
    }

    pub fn grant(&self, id: &str) -> Result<Option<GrantRow>, StoreError> {
        Ok(self.connection.all(&format!("{ROWS} WHERE id = ?1"), params![id], read_whole)?.pop())
    }

    /// Those that the hub itself made, the oldest first.
    pub fn grants_in_force(&self) -> Result<Vec<(String, Grant)>, StoreError> {
        let mut grants = self.our_grants("ended_at IS NULL", params![])?;
        grants.sort_by_key(|(_, grant)| grant.at);
        Ok(grants)
    }

    /// The same for one folder and tool.
    pub fn grants_for(&self, folder: &str, tool: &str) -> Result<Vec<(String, Grant)>, StoreError> {
        self.our_grants("folder = ?1 AND tool = ?2 AND ended_at IS NULL", params![folder, tool])
    }

    fn our_grants(&self, which: &str, params: &[&dyn ToSql]) -> Result<Vec<(String, Grant)>, StoreError> {
        let sql = format!("SELECT {} FROM grants WHERE {which}", GRANTS.selected());
        self.own_rows(&GRANTS, &sql, params, read_row)
    }
}

const ROWS: &str = "SELECT id, body, agent, folder, tool, ended_at FROM grants";

fn read_whole(row: &Row) -> Result<GrantRow, StoreError> {
    let (id, grant) = read_row(row)?;
    Ok(GrantRow {
        id,
        grant,
        agent: row.get(2)?,
        folder: row.get(3)?,
        tool: row.get(4)?,
        ended_at: row.get::<Option<i64>>(5)?.map(time).transpose()?,
    })
}

fn read_row(row: &Row) -> Result<(String, Grant), StoreError> {
    let body: String = row.get("body")?;
    Ok((row.get("id")?, serde_json::from_str(&body).map_err(unreadable)?))
}
