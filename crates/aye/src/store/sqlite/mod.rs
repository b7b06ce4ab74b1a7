//! One SQLite file: opening it, its settings, its schema, and what only SQLite needs.

pub mod marking;
mod schema;

pub use schema::differences;

use super::{OpenError, Reader, StoreError, sql};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A database counts how many of these it has been through, so their order stays as it is for good.
pub const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_ground.sql"),
    include_str!("migrations/0002_counts.sql"),
    include_str!("migrations/0003_sub_agents.sql"),
    include_str!("migrations/0004_telegram.sql"),
    include_str!("migrations/0005_extras.sql"),
    include_str!("migrations/0006_folders.sql"),
    include_str!("migrations/0007_passkeys.sql"),
    include_str!("migrations/0008_tool_calls.sql"),
    include_str!("migrations/0009_sessions.sql"),
    include_str!("migrations/0010_row_macs.sql"),
    include_str!("migrations/0012_messages.sql"),
    include_str!("migrations/0013_can.sql"),
    include_str!("migrations/0014_conversations.sql"),
    include_str!("migrations/0015_tmux.sql"),
    include_str!("migrations/0016_standing.sql"),
    include_str!("migrations/0017_secrets.sql"),
    include_str!("migrations/0018_reporters.sql"),
    include_str!("migrations/0019_checks.sql"),
    include_str!("migrations/0020_asks_for.sql"),
];
/// Later ones belong to hubs that key their trail from the start.
pub const LAST_UNKEYED_SCHEMA: usize = 4;
/// How long a connection waits for another.
const BUSY: Duration = Duration::from_secs(5);
/// How long emptying the log waits for those who read.
const FOR_READERS: Duration = Duration::from_millis(50);
const CHECKPOINT_PAGES: i64 = 4000;
const WRITER_CACHE_KB: i64 = 32 * 1024;

/// Opens the database for the one hub that writes it, with the newest schema.
pub fn open(path: &Path) -> Result<sql::Connection, OpenError> {
    let sqlite = |why| OpenError::Sqlite { path: path.to_owned(), why };
    private_file(path).map_err(|why| OpenError::Io { path: path.to_owned(), why })?;
    let connection = Connection::open(path).map_err(sqlite)?;
    configure(&connection).map_err(sqlite)?;
    migrate(&connection, path)?;
    Ok(sql::Connection::Sqlite(connection))
}

/// Opens the database only to look, beside a running hub or without one.
pub fn open_to_read(path: &Path) -> Result<Reader, OpenError> {
    let sqlite = |why| OpenError::Sqlite { path: path.to_owned(), why };
    let read = |connection: Connection| Ok((schema_version(&connection)?, connection));
    let (found, connection) = match open_read_only(path).and_then(read) {
        Err(error) if is_cannot_open(&error) && !beside(path, "-wal").exists() => {
            open_as_it_lies(path).and_then(read).map_err(sqlite)?
        }
        other => other.map_err(sqlite)?,
    };
    match found > MIGRATIONS.len() {
        true => Err(OpenError::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() }),
        false => Ok(Reader::to_look(sql::Connection::Sqlite(connection))),
    }
}

/// A connection that can only read.
pub fn open_reader(path: &Path) -> Result<sql::Connection, StoreError> {
    Ok(sql::Connection::Sqlite(open_read_only(path)?))
}

fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    distrust_schema(&connection)?;
    keep_plans(&connection)?;
    Ok(connection)
}

/// What somebody may have added to the schema calls no function that could do harm. Views are off because we have none,
/// and one that took the place of a table would be evaluated again for every read of it.
fn distrust_schema(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false).map(drop)
}

fn is_cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen)
}

/// For a place that cannot be written to, a backup for instance: SQLite would want to make its files
/// beside the database, and without a log to read back there is no need for them.
fn open_as_it_lies(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte))
            }
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("{uri}?immutable=1"), flags)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Created before SQLite sees it: SQLite gives `-wal` and `-shm` the mode of the database.
fn private_file(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            for suffix in ["", "-wal", "-shm"] {
                match File::open(beside(path, suffix)) {
                    Ok(file) => file.set_permissions(Permissions::from_mode(0o600))?,
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // NORMAL would be far quicker, and could lose an answer that a person was told is recorded.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    distrust_schema(connection)?;
    // Enough for what is open and the inner pages of every index; SQLite's own 2 MB are read again for each change.
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KB)?;
    // Pages that change again and again are then copied home once for many commits.
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    keep_plans(connection)
}

/// Beside partial indexes, SQLite would plan some statements again for every value that they are given.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

pub fn schema_version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn migrate(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |why| OpenError::Sqlite { path: path.to_owned(), why };
    let found = schema_version(connection).map_err(sqlite)?;
    let known = MIGRATIONS.len();
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    for (i, migration) in MIGRATIONS.iter().enumerate().skip(found) {
        let tx = begin_unchanged(connection, path)?;
        tx.execute_batch(migration).map_err(sqlite)?;
        tx.pragma_update(None, "user_version", i + 1).map_err(sqlite)?;
        tx.commit().map_err(sqlite)?;
    }
    Ok(())
}

/// A transaction on the schema that our migrations made, and on no other.
pub fn begin_unchanged<'a>(connection: &'a Connection, path: &Path) -> Result<Transaction<'a>, OpenError> {
    let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .map_err(|why| OpenError::Sqlite { path: path.to_owned(), why })?;
    let differences = schema::differences(&tx)?;
    match differences.is_empty() {
        true => Ok(tx),
        false => Err(OpenError::Changed { path: path.to_owned(), differences: differences.join(", ") }),
    }
}

/// Empties the log, whose earlier pages have what was deleted. Somebody who reads for longer than everybody else can wait
/// keeps it from being emptied; it is then tried again with the next change.
pub fn empty_log(connection: &Connection) -> bool {
    let empty = || {
        connection.busy_timeout(FOR_READERS)?;
        let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        connection.busy_timeout(BUSY)?;
        Ok::<_, rusqlite::Error>(busy == 0)
    };
    empty().unwrap_or_else(|error| {
        tracing::warn!(%error, "the log of the database could not be emptied");
        false
    })
}

/// Why SQLite gave up a transaction by itself. It says the same of a full disk and of a table whose numbers are used up,
/// which takes somebody who changed them.
pub fn why_given_up(connection: &Connection) -> StoreError {
    let sql = "SELECT group_concat(name, ', ') FROM sqlite_sequence WHERE seq >= 9223372036854775807";
    match connection.query_row(sql, [], |row| row.get::<_, Option<String>>(0)) {
        Ok(Some(tables)) => StoreError::Schema(format!("the numbers for new rows of {tables} are used up")),
        Ok(None) | Err(_) => StoreError::Full,
    }
}
