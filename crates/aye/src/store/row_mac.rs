//! A MAC with the key of the trail over what counts of each row that the hub relies on: one that anybody else wrote
//! counts for nothing, nor does an earlier state of one that stands (`standing.rs`). Two SQL functions do it, so that rows are marked where they are written and checked where they
//! are read: `row_mac(table, values…)` and `row_is_ours(mac, table, values…)`.
//!
//! What is marked comes from the program, never from the stored row: a trigger could have changed that one.

use super::StoreError;
use super::standing::Standing;
use crate::home::RowMarks;
use aye_core::digest::{canonical, hex};
use aye_core::trail::ChainKey;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Value, json};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The table, and its columns that count, the row's name first. What ends a row (`ended_at`, `revoked_at`, `removed_at`)
/// is not among them: a row that has ended does not stand any more.
pub const GRANTS: &str = "'grants', id, body";
pub const OUTLINES: &str = "'outlines', agent, body";
pub const TOKENS: &str =
    "'tokens', id, hash, role, agent, name, surface, created_at, expires_at, public_key, origin";
pub const PASSKEYS: &str = "'passkeys', id, credential, key, name, rp, created_at";
/// Not what an agent reports of its state and its cost: nothing is decided by that.
pub const AGENTS: &str =
    "'agents', id, kind, reach, host, cwd, first_cwd, title, session, tmux, pid, pid_started, created_at";
/// The same as earlier versions marked it.
const AGENTS_BEFORE: &str = "'agents', id, kind, host, cwd, first_cwd, pid, pid_started";
pub const ASKS: &str = "'asks', id, agent, key, tool_use_id, sub_agent, cwd_checked, digest, created_at, deadline, proof, \
                        state, answer, by, why, ended_at";
pub const COMMANDS: &str = "'commands', n, agent, body";
pub const MEMORY: &str = "'memory', surface, kind, key, body";

struct Marked {
    table: &'static str,
    row: &'static str,
    /// What a row is called when it is reported.
    name: &'static str,
    /// The rows that were marked when MACs came.
    taken_over: &'static str,
    /// The rows that have none only if somebody else wrote them.
    must: &'static str,
}

const fn all_of(table: &'static str, row: &'static str, name: &'static str) -> Marked {
    Marked { table, row, name, taken_over: "TRUE", must: "TRUE" }
}

const TABLES: [Marked; 8] = [
    all_of("grants", GRANTS, "id"),
    all_of("outlines", OUTLINES, "agent"),
    all_of("tokens", TOKENS, "id"),
    all_of("passkeys", PASSKEYS, "id"),
    all_of("agents", AGENTS, "id"),
    // Asks are many, and of those that ended long ago nobody waits for the outcome any more.
    Marked {
        taken_over: "n > (SELECT max(n) FROM asks) - 100000 OR state = 'open' OR receipt = 'pending'",
        must: "mac IS NOT NULL OR state = 'open' OR receipt = 'pending'",
        ..all_of("asks", ASKS, "id")
    },
    all_of("commands", COMMANDS, "n"),
    all_of("memory", MEMORY, "concat_ws(' ', surface, kind, key)"),
];

/// The MAC of a row whose columns are the statement's own parameters of those names.
pub fn of_params(row: &str) -> String {
    format!("row_mac({})", row.replace(", ", ", :"))
}

/// Lets this connection mark rows and check them, and with `standing` check that it is their newest state.
pub fn register(
    connection: &Connection,
    key: &ChainKey,
    standing: Option<Arc<Standing>>,
) -> rusqlite::Result<()> {
    // Direct only: a trigger or a view that somebody added cannot have the hub mark anything.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    let marking = key.clone();
    connection.create_scalar_function("row_mac", -1, flags, move |row| mac(&marking, row, 0))?;
    let checking = key.clone();
    connection.create_scalar_function("row_is_ours", -1, flags, move |row| {
        let good = mac(&checking, row, 1)?;
        let given = row.get_raw(0).as_str_or_null().ok().flatten().unwrap_or_default();
        let is_ours = bool::from(good.as_bytes().ct_eq(given.as_bytes()));
        let is_newest = |standing: &Arc<Standing>| {
            let table = row.get_raw(1).as_str().unwrap_or_default();
            standing.is_newest(table, &in_words(row.get_raw(2)), given)
        };
        Ok(is_ours && standing.as_ref().is_none_or(is_newest))
    })
}

/// Marks the rows that are there, as they are: once, in a database that has no MACs yet.
pub fn mark_all(connection: &Connection, key: &ChainKey) -> Result<(), StoreError> {
    register(connection, key, None)?;
    for Marked { table, row, taken_over, .. } in TABLES {
        connection.execute(&format!("UPDATE {table} SET mac = row_mac({row}) WHERE {taken_over}"), [])?;
    }
    Ok(())
}

/// Marks all that counts now of the rows that an earlier version marked in part.
pub fn mark_more(connection: &Connection, key: &ChainKey) -> Result<(), StoreError> {
    register(connection, key, None)?;
    let sql = format!("UPDATE agents SET mac = row_mac({AGENTS}) WHERE row_is_ours(mac, {AGENTS_BEFORE})");
    connection.execute(&sql, [])?;
    Ok(())
}

/// The table and the name of a row that has no good MAC and must have one.
pub fn first_foreign(
    connection: &Connection,
    key: &ChainKey,
    marks: RowMarks,
) -> Result<Option<(&'static str, String)>, StoreError> {
    register(connection, key, None)?;
    for Marked { table, row, name, must, .. } in TABLES {
        // No hub of this version has opened it yet.
        let row = if marks == RowMarks::Macs && row == AGENTS { AGENTS_BEFORE } else { row };
        let sql =
            format!("SELECT {name} FROM {table} WHERE NOT row_is_ours(mac, {row}) AND ({must}) LIMIT 1");
        let found = connection.query_row(&sql, [], |row| Ok(in_words(row.get_ref(0)?))).optional()?;
        if let Some(name) = found {
            return Ok(Some((table, name)));
        }
    }
    Ok(None)
}

/// Whether the hub wrote this row, which was read with `row_is_ours(…) AS ours`.
pub fn check_ours(row: &Row, table: &'static str, name: &str) -> Result<(), StoreError> {
    match row.get("ours")? {
        true => Ok(()),
        false => Err(StoreError::Foreign { table, id: in_words(row.get_ref(name)?) }),
    }
}

/// A row that is not ours, or makes no sense, is reported and holds up no other.
pub fn pass_by<T>(table: &str, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(row) => Ok(Some(row)),
        Err(why @ (StoreError::Foreign { .. } | StoreError::Unreadable(_))) => {
            tracing::error!(table, %why, "a row of the database counts for nothing; run `aye verify`");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub fn in_words(value: ValueRef) -> String {
    match value {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => "?".to_owned(),
    }
}

fn mac(key: &ChainKey, row: &Context, first: usize) -> rusqlite::Result<String> {
    let table: String = row.get(first)?;
    let values: Value = (first + 1..row.len()).map(|i| value(row.get_raw(i))).collect();
    Ok(key.tag(&format!("row of {table}"), &canonical(&values)))
}

fn value(value: ValueRef) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!({ "real": number.to_bits() }),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => json!(text),
            Err(_) => json!({ "text": hex(text) }),
        },
        ValueRef::Blob(bytes) => json!({ "blob": hex(bytes) }),
    }
}
