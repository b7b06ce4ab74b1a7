//! The key that the lines of the trail are bound with. Who can write the database and cannot read `chain.key` can
//! change no line from the marked one on.

use super::asks::json;
use super::{OpenError, StoreError, audit};
use crate::home::{ChainKeyFile, Home};
use aye_core::trail::{Chain, ChainKey, Line};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};

/// The line from which on the trail is keyed.
pub const KEYED: &str = "chain.keyed";
/// The line from which on it is keyed with another key, because the one before was lost.
pub const REKEYED: &str = "chain.rekeyed";

/// The key to write with. A trail that has none yet, or whose key is gone, gets one, and a line that says so.
pub fn begin(connection: &Connection, home: &Home, now: Timestamp) -> Result<ChainKey, OpenError> {
    let key_error = |why| OpenError::Key { path: home.chain_key_file(), why };
    let found = home.chain_key().map_err(key_error)?;
    let chain = audit::chain_head(connection)?;
    if let Some(file) = &found {
        if is_marked(connection, file)? {
            return Ok(file.key.clone());
        }
        // The hub was killed after it had written the key and before it had written the line.
        if chain.lines + 1 == file.line && chain.head == file.after {
            mark(connection, file, &chain, last_key(connection)?, now)?;
            return Ok(file.key.clone());
        }
    }
    let lost = match found {
        _ if chain.lines == 0 => None,
        Some(file) => Some(file.key.id()),
        None => last_key(connection)?,
    };
    if let Some(lost) = &lost {
        tracing::error!(
            key = lost,
            "the key of the trail is lost; what was written with it cannot be checked any more"
        );
    }
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| key_error(error.into()))?;
    let file = ChainKeyFile { key: ChainKey::new(bytes), line: chain.lines + 1, after: chain.head.clone() };
    home.write_chain_key(&file).map_err(key_error)?;
    mark(connection, &file, &chain, lost, now)?;
    Ok(file.key)
}

fn is_marked(connection: &Connection, file: &ChainKeyFile) -> Result<bool, StoreError> {
    let mut statement = connection.prepare("SELECT kind, detail FROM audit WHERE seq = ?1")?;
    let read = |row: &rusqlite::Row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let found = statement.query_row([file.line], read).optional()?;
    let Some((kind, detail)) = found else { return Ok(false) };
    let names_it = json(&detail).is_ok_and(|detail: Value| detail["key"] == file.key.id().as_str());
    Ok(matches!(kind.as_str(), KEYED | REKEYED) && names_it)
}

/// The name of the key that the trail was last written with.
fn last_key(connection: &Connection) -> Result<Option<String>, StoreError> {
    let sql = "SELECT detail FROM audit WHERE kind IN (?1, ?2) ORDER BY seq DESC LIMIT 1";
    let detail = connection.query_row(sql, [KEYED, REKEYED], |row| row.get::<_, String>(0)).optional()?;
    let name = |detail: String| Ok(json(&detail)?["key"].as_str().unwrap_or("unknown").to_owned());
    detail.map(name).transpose()
}

fn mark(
    connection: &Connection,
    file: &ChainKeyFile,
    chain: &Chain,
    lost: Option<String>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let is_keyed = connection.prepare("SELECT 1 FROM audit WHERE kind = ?1 LIMIT 1")?.exists([KEYED])?;
    let line = Line {
        seq: chain.lines + 1,
        at: now,
        kind: if is_keyed { REKEYED } else { KEYED }.to_owned(),
        who: "hub".to_owned(),
        agent: None,
        ask: None,
        detail: json!({ "key": file.key.id(), "lost": lost }),
    };
    audit::append(connection, chain, &line, &file.key).map(drop)
}
