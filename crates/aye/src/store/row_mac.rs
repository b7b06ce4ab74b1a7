//! A MAC with the key of the trail over what counts of each row that the hub relies on: one that anybody else wrote
//! counts for nothing. Two SQL functions do it, so that rows are marked where they are written and checked where they
//! are read: `row_mac(table, values…)` and `row_is_ours(mac, table, values…)`.
//!
//! What is marked comes from the program, never from the stored row: a trigger could have changed that one.

use super::StoreError;
use aye_core::digest::{canonical, hex};
use aye_core::trail::ChainKey;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

/// The table, and its columns that count. What ends a row (`ended_at`, `revoked_at`, `removed_at`) is not among them:
/// an earlier state of a row has a good MAC, too, and that one came back is for `aye verify` to find.
pub const GRANTS: &str = "'grants', id, body";
pub const OUTLINES: &str = "'outlines', agent, body";
pub const TOKENS: &str =
    "'tokens', id, hash, role, agent, name, surface, created_at, expires_at, public_key, origin";
pub const PASSKEYS: &str = "'passkeys', id, credential, key, name, rp, created_at";
pub const AGENTS: &str = "'agents', id, kind, host, cwd, first_cwd, pid, pid_started";
pub const ASKS: &str = "'asks', id, agent, key, digest, deadline, proof, state, answer, by, why, ended_at";
pub const COMMANDS: &str = "'commands', n, agent, body";
pub const MEMORY: &str = "'memory', surface, kind, key, body";

/// Asks are many, and of those that ended long ago nobody waits for the outcome any more.
const NEWEST_ASKS: &str =
    "WHERE n > (SELECT max(n) FROM asks) - 100000 OR state = 'open' OR receipt = 'pending'";

/// Lets this connection mark rows and check them.
pub fn register(connection: &Connection, key: &ChainKey) -> rusqlite::Result<()> {
    // Direct only: a trigger or a view that somebody added cannot have the hub mark anything.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    let marking = key.clone();
    connection.create_scalar_function("row_mac", -1, flags, move |row| mac(&marking, row, 0))?;
    let checking = key.clone();
    connection.create_scalar_function("row_is_ours", -1, flags, move |row| {
        let good = mac(&checking, row, 1)?;
        let given = row.get_raw(0).as_str_or_null().ok().flatten().unwrap_or_default();
        Ok(bool::from(good.as_bytes().ct_eq(given.as_bytes())))
    })
}

/// Marks the rows that are there, as they are: once, in a database that has no MACs yet.
pub fn mark_all(connection: &Connection) -> Result<(), StoreError> {
    for (table, row, which) in [
        ("grants", GRANTS, ""),
        ("outlines", OUTLINES, ""),
        ("tokens", TOKENS, ""),
        ("passkeys", PASSKEYS, ""),
        ("agents", AGENTS, ""),
        ("asks", ASKS, NEWEST_ASKS),
        ("commands", COMMANDS, ""),
        ("memory", MEMORY, ""),
    ] {
        connection.execute(&format!("UPDATE {table} SET mac = row_mac({row}) {which}"), [])?;
    }
    Ok(())
}

/// Says in the log that a row was skipped.
pub fn report_foreign(table: &str, id: &str) {
    tracing::error!(
        table,
        id,
        "a row of the database was not written by this hub and counts for nothing; run `aye verify`"
    );
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
