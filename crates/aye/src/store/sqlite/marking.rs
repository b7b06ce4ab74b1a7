//! Marking rows with MACs where they are: once, in a database that an earlier version wrote.

use super::super::StoreError;
use super::super::row_mac::{AGENTS, AGENTS_BEFORE, Marked, RowText, TABLES};
use aye_core::trail::ChainKey;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// The MAC of a row as an SQL function, `row_mac(table, values…)`.
pub fn register(connection: &Connection, key: &ChainKey) -> rusqlite::Result<()> {
    // Direct only: a trigger or a view that somebody added cannot have the hub mark anything.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    let key = key.clone();
    connection.create_scalar_function("row_mac", -1, flags, move |row| {
        let text: RowText = (1..row.len()).map(|i| row.get_raw(i)).collect();
        Ok(text.tag(&key, &row.get::<String>(0)?))
    })
}

/// Marks the rows that are there, as they are, in a database that has no MACs yet.
pub fn mark_all(connection: &Connection, key: &ChainKey) -> Result<(), StoreError> {
    register(connection, key)?;
    for Marked { table, columns, taken_over, .. } in TABLES {
        let sql = format!("UPDATE {table} SET mac = row_mac('{table}', {columns}) WHERE {taken_over}");
        connection.execute(&sql, [])?;
    }
    Ok(())
}

/// Marks all that counts now of the rows that an earlier version marked in part.
pub fn mark_more(connection: &Connection, key: &ChainKey) -> Result<(), StoreError> {
    register(connection, key)?;
    let sql = format!(
        "UPDATE agents SET mac = row_mac('agents', {}) WHERE mac = row_mac('agents', {})",
        AGENTS.columns, AGENTS_BEFORE.columns
    );
    connection.execute(&sql, [])?;
    Ok(())
}
