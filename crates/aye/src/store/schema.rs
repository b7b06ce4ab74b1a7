//! Whether the database has the tables, indexes and triggers that the migrations made, and nothing else.

use super::{MIGRATIONS, StoreError, schema_version};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Whatever was added, changed or taken away, in words.
pub fn differences(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let version = schema_version(connection)?.min(MIGRATIONS.len());
    let made = Connection::open_in_memory()?;
    for migration in &MIGRATIONS[..version] {
        made.execute_batch(migration)?;
    }
    let (mut expected, found) = (objects(&made)?, objects(connection)?);
    let mut differences = Vec::new();
    for (name, text) in found {
        match expected.remove(&name) {
            None => differences.push(format!("{name} was added")),
            Some(expected) if expected != text => differences.push(format!("{name} was changed")),
            Some(_) => {}
        }
    }
    differences.extend(expected.into_keys().map(|name| format!("{name} is missing")));
    Ok(differences)
}

/// What the schema holds, by kind and name. Statistics of SQLite's own (`ANALYZE`) are nobody's harm.
fn objects(connection: &Connection) -> Result<BTreeMap<String, Option<String>>, StoreError> {
    let sql = "SELECT type || ' ' || name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_stat[14]'";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
