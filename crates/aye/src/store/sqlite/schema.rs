//! Whether the database has the tables, indexes and triggers that the migrations made, and nothing else.

use super::super::StoreError;
use super::{MIGRATIONS, schema_version};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a schema holds, by kind and name: the table it belongs to, and its text.
type Objects = BTreeMap<String, (String, Option<String>)>;

/// The schema of every version, from the empty one on.
static MADE: LazyLock<Result<Vec<Objects>, StoreError>> = LazyLock::new(|| {
    let made = Connection::open_in_memory()?;
    let mut versions = vec![Objects::new()];
    for migration in MIGRATIONS {
        made.execute_batch(migration)?;
        versions.push(objects(&made)?);
    }
    Ok(versions)
});

/// Whatever was added, changed or taken away, in words. Inside a transaction, what SQLite works with from here on is
/// what was looked at: it keeps a schema in memory, and somebody could have put back in the file what is still there.
pub fn differences(connection: &Connection) -> Result<Vec<String>, StoreError> {
    connection.execute_batch("PRAGMA writable_schema = RESET")?;
    let version = schema_version(connection)?.min(MIGRATIONS.len());
    let made = MADE.as_ref().map_err(StoreError::clone)?;
    let (mut expected, found) = (made[version].clone(), objects(connection)?);
    let mut differences = Vec::new();
    for (name, object) in found {
        match expected.remove(&name) {
            None => differences.push(format!("{name} was added")),
            Some(expected) if expected != object => differences.push(format!("{name} was changed")),
            Some(_) => {}
        }
    }
    differences.extend(expected.into_keys().map(|name| format!("{name} is missing")));
    Ok(differences)
}

/// Statistics of SQLite's own (`ANALYZE`) are nobody's harm, as long as they are tables.
fn objects(connection: &Connection) -> Result<Objects, StoreError> {
    let sql = "SELECT type || ' ' || name, tbl_name, sql FROM sqlite_master
               WHERE NOT (type = 'table' AND tbl_name = name AND name GLOB 'sqlite_stat[14]')";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
