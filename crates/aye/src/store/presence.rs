//! Who is there, as all hubs on a server know it: agents that were heard of, people who could answer, and the one hub that
//! does what only one may do.

use super::asks::unreadable;
use super::sql::{Connection, params};
use super::{Store, StoreError, Tx};
use aye_core::AgentId;
use jiff::SignedDuration;

fn ms(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Store {
    /// These agents were heard of just now.
    pub async fn note_life(&self, agents: Vec<AgentId>) -> Result<(), StoreError> {
        let agents = serde_json::to_string(&agents).map_err(unreadable)?;
        let note = move |connection: &Connection| {
            // In order, so that two hubs that heard of the same agents do not wait for each other.
            let sql = "INSERT INTO life (agent, heard)
                 SELECT agent, now_ms() FROM json_array_elements_text(?1::TEXT::JSON) AS heard (agent) ORDER BY agent
                 ON CONFLICT (agent) DO UPDATE SET heard = greatest(life.heard, excluded.heard)";
            connection.execute(sql, params![agents]).map(drop)
        };
        self.beside(note).await
    }

    /// The agents that no hub has heard of for so long, and that are not known to be lost.
    pub async fn silent_agents(&self, silence: SignedDuration) -> Result<Vec<AgentId>, StoreError> {
        let look = move |connection: &Connection| {
            let sql = "SELECT id FROM agents LEFT JOIN life ON agent = id
                 WHERE report <> 'ended' AND lost = 0 AND coalesce(heard, created_at) < now_ms() - ?1";
            connection.all(sql, params![ms(silence)], |row| {
                AgentId::try_from(row.get::<String>(0)?).map_err(unreadable)
            })
        };
        self.beside(look).await
    }

    /// This hub runs, and somebody who can answer is connected to it or not.
    pub async fn note_hub(&self, hub: &str, host: &str, is_attended: bool) -> Result<(), StoreError> {
        let (hub, host) = (hub.to_owned(), host.to_owned());
        let note = move |connection: &Connection| {
            let sql = "INSERT INTO hubs (id, host, seen, attended)
                 VALUES (?1, ?2, now_ms(), CASE WHEN ?3::BIGINT = 1 THEN now_ms() ELSE 0 END)
                 ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, attended = greatest(hubs.attended, excluded.attended)";
            connection.execute(sql, params![hub, host, is_attended]).map(drop)
        };
        self.beside(note).await
    }

    /// Whether somebody who can answer was connected to another hub within this time.
    pub async fn is_attended_elsewhere(&self, hub: &str, within: SignedDuration) -> Result<bool, StoreError> {
        let hub = hub.to_owned();
        let look = move |connection: &Connection| {
            let sql = "SELECT 1 FROM hubs WHERE id <> ?1 AND attended > now_ms() - ?2 LIMIT 1";
            connection.exists(sql, params![hub, ms(within)])
        };
        self.beside(look).await
    }

    /// Whether this hub has the lease from now on, for so long.
    pub async fn take_lease(
        &self,
        name: &'static str,
        hub: &str,
        lasts: SignedDuration,
    ) -> Result<bool, StoreError> {
        let hub = hub.to_owned();
        let take = move |connection: &Connection| {
            let sql = "INSERT INTO leases (name, hub, until) VALUES (?1, ?2, now_ms() + ?3)
                 ON CONFLICT (name) DO UPDATE SET hub = excluded.hub, until = excluded.until
                 WHERE leases.hub = excluded.hub OR leases.until < now_ms()";
            Ok(connection.execute(sql, params![name, hub, ms(lasts)])? == 1)
        };
        self.beside(take).await
    }

    pub async fn give_lease_back(&self, name: &'static str, hub: &str) -> Result<(), StoreError> {
        let hub = hub.to_owned();
        let give = move |connection: &Connection| {
            let sql = "DELETE FROM leases WHERE name = ?1 AND hub = ?2";
            connection.execute(sql, params![name, hub]).map(drop)
        };
        self.beside(give).await
    }
}

impl Tx<'_> {
    /// Whether other hubs may use the same database.
    pub fn is_on_server(&self) -> bool {
        self.connection.is_server()
    }

    /// Whether this hub has the lease still: another one that takes it waits for this change before it begins.
    pub fn has_lease(&self, name: &str, hub: &str) -> Result<bool, StoreError> {
        if !self.connection.is_server() {
            return Ok(true);
        }
        self.connection.exists("SELECT 1 FROM leases WHERE name = ?1 AND hub = ?2", params![name, hub])
    }
}
