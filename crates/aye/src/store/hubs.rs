//! The hubs that use the same database: each keeps a row of its own there, by the database's clock.

use super::fingerprints::Fingerprints;
use super::sql::params;
use super::{Reader, StoreError};

/// One hub, as it last said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubRow {
    pub host: String,
    pub pid: u32,
    pub version: String,
    /// How many seconds ago it was last there.
    pub seen: u64,
    pub fingerprints: Fingerprints,
}

impl Reader {
    /// Those that were there lately, oldest first; none if the database is a file.
    pub fn hubs(&self) -> Result<Vec<HubRow>, StoreError> {
        if !self.connection.is_server() {
            return Ok(Vec::new());
        }
        let sql =
            "SELECT host, pid, version, greatest(0, extract(epoch FROM clock_timestamp() - seen_at))::BIGINT,
                          chain_key, agent_key, operator_token, config, telegram_token
                   FROM known_hubs WHERE seen_at > clock_timestamp() - INTERVAL '1 day' ORDER BY started_at, id";
        self.connection.all(sql, params![], |row| {
            let fingerprints = Fingerprints {
                chain_key: row.get(4)?,
                agent_key: row.get(5)?,
                operator_token: row.get(6)?,
                config: row.get(7)?,
                telegram_token: row.get(8)?,
            };
            let (host, pid, version, seen) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(HubRow { host, pid, version, seen, fingerprints })
        })
    }
}
