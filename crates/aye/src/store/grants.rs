use super::asks::{time, unreadable};
use super::row_mac::GRANTS;
use super::{Reader, StoreError, Tx};
use aye_core::digest::{canonical, sha256_hex};
use aye_core::{AgentId, Ask};
use aye_policy::Grant;
use jiff::Timestamp;
use rusqlite::{Params, Row};
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
        digest(&self.grant)
    }
}

/// What the trail says a grant was, so that one that was changed shows.
fn digest(grant: &Grant) -> String {
    let whole = serde_json::to_value(grant).unwrap_or_default();
    format!("sha256:{}", sha256_hex(canonical(&whole).as_bytes()))
}

impl Tx<'_> {
    /// Makes a grant that follows from an ask, and says so in the trail.
    pub fn make_grant(&mut self, id: &str, grant: &Grant, ask: &Ask) -> Result<(), StoreError> {
        let sql = "INSERT INTO grants (id, agent, folder, tool, body, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, row_mac('grants', ?1, ?5)) RETURNING mac";
        let body = serde_json::to_string(grant).map_err(unreadable)?;
        let agent = grant.agent.as_ref().map(AgentId::as_str);
        self.put_standing(("grants", id), sql, (id, agent, &grant.folder, &grant.tool, body))?;
        let detail = json!({ "grant": id, "words": grant.words(), "digest": digest(grant) });
        self.audit(grant.at, "grant.made", &grant.by.to_string(), Some(&ask.agent), Some(&ask.id), detail)
    }

    /// Whether there was such a grant in force.
    pub fn revoke_grant(&mut self, id: &str, who: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE grants SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
        let revoked = self.connection.prepare_cached(sql)?.execute((id, at.as_millisecond()))? == 1;
        if revoked {
            self.falls("grants", id);
            self.audit(at, "grant.revoked", who, None, None, json!({ "grant": id }))?;
        }
        Ok(revoked)
    }

    /// What was allowed for a session ends with it.
    pub fn end_grants_of(&mut self, agent: &AgentId, who: &str, at: Timestamp) -> Result<(), StoreError> {
        let which = "agent = ?2 AND ended_at IS NULL";
        self.end_grants(which, (at.as_millisecond(), agent.as_str()), who, at).map(drop)
    }

    /// Ends all that the hub made, and says how many.
    pub fn end_all_grants(&mut self, who: &str, at: Timestamp) -> Result<usize, StoreError> {
        let which = format!("ended_at IS NULL AND row_is_ours(mac, {GRANTS})");
        self.end_grants(&which, [at.as_millisecond()], who, at)
    }

    fn end_grants(
        &mut self,
        which: &str,
        params: impl Params,
        who: &str,
        at: Timestamp,
    ) -> Result<usize, StoreError> {
        let sql = format!("UPDATE grants SET ended_at = ?1 WHERE {which} RETURNING id, agent");
        let ended = self.all_rows(&sql, params, |row| {
            Ok((row.get::<_, String>("id")?, row.get::<_, Option<String>>("agent")?))
        })?;
        for (id, agent) in &ended {
            self.falls("grants", id);
            let agent = agent.clone().and_then(|agent| AgentId::try_from(agent).ok());
            self.audit(at, "grant.ended", who, agent.as_ref(), None, json!({ "grant": id }))?;
        }
        Ok(ended.len())
    }
}

impl Reader {
    /// Every grant there ever was.
    pub fn all_grants(&self) -> Result<Vec<GrantRow>, StoreError> {
        self.all_rows(ROWS, [], read_whole)
    }

    pub fn grant(&self, id: &str) -> Result<Option<GrantRow>, StoreError> {
        Ok(self.all_rows(&format!("{ROWS} WHERE id = ?1"), [id], read_whole)?.pop())
    }

    /// Those that the hub itself made.
    pub fn grants_in_force(&self) -> Result<Vec<(String, Grant)>, StoreError> {
        self.our_grants("ended_at IS NULL ORDER BY rowid", ())
    }

    /// The same for one folder and tool.
    pub fn grants_for(&self, folder: &str, tool: &str) -> Result<Vec<(String, Grant)>, StoreError> {
        self.our_grants("folder = ?1 AND tool = ?2 AND ended_at IS NULL", (folder, tool))
    }

    fn our_grants(&self, which: &str, params: impl Params) -> Result<Vec<(String, Grant)>, StoreError> {
        let sql = format!("SELECT id, body, row_is_ours(mac, {GRANTS}) AS ours FROM grants WHERE {which}");
        self.own_rows(("grants", "id"), &sql, params, read_row)
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
        ended_at: row.get::<_, Option<i64>>(5)?.map(time).transpose()?,
    })
}

fn read_row(row: &Row) -> Result<(String, Grant), StoreError> {
    let body: String = row.get("body")?;
    Ok((row.get("id")?, serde_json::from_str(&body).map_err(unreadable)?))
}
