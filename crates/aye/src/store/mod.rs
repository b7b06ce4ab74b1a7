//! The truth: what was asked, what was answered, and the trail of how it came to be.

mod agents;
mod ask_names;
mod asks;
mod audit;
#[cfg(test)]
pub mod by_hand;
mod commands;
mod conversations;
mod counts;
mod grants;
mod head;
mod history;
mod keying;
mod memory;
mod outbox;
mod outlines;
pub mod passkeys;
mod reader;
mod row_mac;
mod schema;
mod secrets;
mod standing;
mod tokens;
pub mod verify;
mod writer;

pub use agents::{AgentRow, Profile};
pub use ask_names::{AskNames, Unsure};
pub use asks::{AskFilter, AskPage, Decider};
pub use audit::AuditFilter;
pub use conversations::EventPage;
pub use counts::AskCount;
pub use history::RuleCount;
pub use keying::DOUBTED;
pub use outbox::{CatchUp, Change, Large, Snapshot, Subject};
pub use passkeys::PasskeyRow;
pub use reader::Reader;
pub use standing::Doubt;
pub use tokens::{Session, TokenRow};
#[cfg(test)]
pub use writer::MOST_UNAWAITED;
pub use writer::{Commit, Place, Tx};

use crate::home::Home;
use aye_core::trail::ChainKey;
use head::Head;
use jiff::Timestamp;
use keying::Begun;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use writer::Writer;

/// A database counts how many of these it has been through, so their order stays as it is for good.
const MIGRATIONS: &[&str] = &[
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
];
/// Later ones belong to hubs that key their trail from the start.
const LAST_UNKEYED_SCHEMA: usize = 4;
const READERS: usize = 4;
/// How long a connection waits for another.
const BUSY: Duration = Duration::from_secs(5);
const CHECKPOINT_PAGES: i64 = 4000;
const WRITER_CACHE_KB: i64 = 32 * 1024;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full: nothing was changed. Free some space and try again")]
    Full,
    #[error("the database refused: {0}")]
    Sqlite(Arc<rusqlite::Error>),
    #[error("the database holds something this program cannot read: {0}")]
    Unreadable(String),
    #[error("{table} {id}: changed, and not by the hub, so it is ignored; run `aye verify`")]
    Foreign { table: &'static str, id: String },
    #[error(
        "the database was changed, and not by the hub: {0}. Nothing is read or written; run `aye verify`"
    )]
    Schema(String),
    #[error(
        "the database is not as the hub left it: line {line} is not the newest of the trail. It was put back to an earlier \
         state, or written by somebody else. Nothing is read or written; run `aye verify`"
    )]
    RolledBack { line: u64 },
    #[error("the store is closed")]
    Closed,
    #[error("a database operation panicked")]
    Panicked,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, SqliteFailure, Utf8Error,
        };
        match error {
            SqliteFailure(failure, _) if failure.code == rusqlite::ErrorCode::DiskFull => StoreError::Full,
            FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..) => StoreError::Unreadable(error.to_string()),
            _ => StoreError::Sqlite(Arc::new(error)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} was written by a newer aye (schema {found}, this one knows {known}): use that version")]
    Newer { path: PathBuf, found: usize, known: usize },
    #[error("cannot open {path}: {why}")]
    Io { path: PathBuf, why: std::io::Error },
    #[error(
        "{path} is not as this program made it: {differences}. Undo that, or put back a backup: the hub would act upon \
         what somebody else wrote"
    )]
    Changed { path: PathBuf, differences: String },
    #[error("cannot use {path}: {why}")]
    Key { path: PathBuf, why: std::io::Error },
    #[error("the trail cannot be read: {0}")]
    Trail(#[from] StoreError),
    #[error("cannot open {path}: {why}")]
    Sqlite { path: PathBuf, why: rusqlite::Error },
}

/// A handle to the database: one writer that commits in groups, and a few readers.
#[derive(Clone)]
pub struct Store {
    writer: Arc<Writer>,
    key: ChainKey,
    doubt: Option<Doubt>,
    names: Arc<AskNames>,
    readers: Arc<Readers>,
}

struct Readers {
    idle: Mutex<Vec<Reader>>,
    permits: Arc<Semaphore>,
}

impl Store {
    /// Opens the database for the one hub that writes it. `committed` is called with each commit, in
    /// order, after it is on disk.
    pub fn open(
        home: &Home,
        now: Timestamp,
        committed: impl Fn(Commit) + Send + 'static,
    ) -> Result<Self, OpenError> {
        let path = &home.database();
        let io = |why| OpenError::Io { path: path.to_owned(), why };
        let sqlite = |why| OpenError::Sqlite { path: path.to_owned(), why };
        private_file(path).map_err(io)?;
        let mut connection = Connection::open(path).map_err(sqlite)?;
        configure(&connection).map_err(sqlite)?;
        migrate(&mut connection, path)?;
        let Begun { key, newest, standing, doubt } = keying::begin(&mut connection, home, now)?;
        let head = Arc::new(Head::open(&home.chain_head_file(), newest).map_err(io)?);
        // In doubt, any session may have been another agent's.
        let sessions = doubt.is_none().then(|| agents::sessions(&connection)).transpose()?;
        let names = Arc::new(AskNames::new(sessions));
        let known = (head.clone(), Arc::new(standing), names.clone());
        let open_reader = |_| Reader::of_the_hub(open_reader(path)?, key.clone(), known.clone());
        let readers = (0..READERS).map(open_reader).collect::<Result<Vec<_>, StoreError>>()?;
        let writer = Reader::of_the_hub(connection, key.clone(), known.clone())?;
        let writer = Writer::start(writer, (key.clone(), head), Box::new(committed)).map_err(io)?;
        Ok(Self {
            writer: Arc::new(writer),
            key,
            doubt,
            names,
            readers: Arc::new(Readers {
                idle: Mutex::new(readers),
                permits: Arc::new(Semaphore::new(READERS)),
            }),
        })
    }

    /// Runs `work` inside the next commit and returns once that is on disk. If `work` returns an error,
    /// nothing it did is kept.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.write(work).await
    }

    /// A place in the queue for a change that nobody waits for; none when the writer is busy or failing, so that callers wait.
    pub fn place(&self) -> Option<Place> {
        self.writer.place()
    }

    /// By which names agents called their asks, as far as this process knows.
    pub fn ask_names(&self) -> &AskNames {
        &self.names
    }

    /// Why what stood at the start is not what the hub had left. The first change then ends it.
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// The key of the trail, with which the hub also marks what it says before it is written.
    pub fn key(&self) -> &ChainKey {
        &self.key
    }

    /// Whether changes are under way that nobody waits for.
    pub fn has_unawaited(&self) -> bool {
        self.writer.has_unawaited()
    }

    /// Returns once everything handed to the writer so far is on disk, or failed.
    pub async fn catch_up(&self) -> Result<(), StoreError> {
        self.writer.write(|_| Ok(())).await
    }

    /// Reads one consistent state of the database.
    pub async fn read<T>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        let permit = self.readers.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = self.readers.clone();
        let read = tokio::task::spawn_blocking(move || {
            // Goes with the connection: a caller that leaves early must not let another in without one.
            let _permit = permit;
            let idle = || readers.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = idle().pop().ok_or(StoreError::Closed)?;
            let result = caught(|| reader.at_one_moment(work));
            idle().push(reader);
            result
        });
        read.await.map_err(|_| StoreError::Closed)?
    }

    /// Writes what is queued and ends the writer. The readers go first: the last to close tidies up,
    /// and only the writer can.
    pub async fn close(&self) {
        self.readers.permits.close();
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.writer.close().await;
    }
}

/// Opens the database only to look, beside a running hub or without one.
pub fn open_to_read(path: &Path) -> Result<Reader, OpenError> {
    let sqlite = |why| OpenError::Sqlite { path: path.to_owned(), why };
    let read = |connection: Connection| Ok((schema_version(&connection)?, connection));
    let (found, connection) = match open_reader(path).and_then(read) {
        Err(error) if is_cannot_open(&error) && !beside(path, "-wal").exists() => {
            open_as_it_lies(path).and_then(read).map_err(sqlite)?
        }
        other => other.map_err(sqlite)?,
    };
    match found > MIGRATIONS.len() {
        true => Err(OpenError::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() }),
        false => Ok(Reader::to_look(connection)),
    }
}

/// Runs a caller's closure. If it panics, what it did is rolled back, and the connection and whoever shares it go on.
fn caught<T, E: From<StoreError>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("a database operation panicked; nothing of it is kept");
        Err(StoreError::Panicked.into())
    })
}

fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    distrust_schema(&connection)?;
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
    // Room for what is open and the inner pages of every index; SQLite's own 2 MB are read again for each change.
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KB)?;
    // Pages that change again and again are then copied home once for many commits.
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn schema_version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
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
fn begin_unchanged<'a>(connection: &'a mut Connection, path: &Path) -> Result<Transaction<'a>, OpenError> {
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|why| OpenError::Sqlite { path: path.to_owned(), why })?;
    let differences = schema::differences(&tx)?;
    match differences.is_empty() {
        true => Ok(tx),
        false => Err(OpenError::Changed { path: path.to_owned(), differences: differences.join(", ") }),
    }
}

/// A change that reached the one row that it was for.
fn one(changed: usize, table: &'static str, id: &str) -> Result<(), StoreError> {
    match changed == 1 {
        true => Ok(()),
        false => Err(StoreError::Foreign { table, id: id.to_owned() }),
    }
}

#[cfg(test)]
mod tests;
