//! The truth: what was asked, what was answered, and the trail of how it came to be.

mod agents;
mod ask_names;
mod asks;
mod audit;
mod beside;
#[cfg(test)]
pub mod by_hand;
mod commands;
mod conversations;
mod counts;
mod fingerprints;
mod following;
mod grants;
mod head;
mod history;
mod hubs;
mod keying;
mod live_rows;
mod memory;
mod moving;
mod outbox;
mod outlines;
pub mod passkeys;
mod postgres;
mod presence;
mod reader;
mod row_mac;
mod secrets;
mod sql;
mod sqlite;
#[cfg(test)]
pub mod test_databases;
mod tickets;
mod tokens;
pub mod verify;
mod writer;

pub use agents::{AgentRow, Profile};
pub use ask_names::{AskNames, Unsure};
pub use asks::{AskFilter, AskPage, Decider};
pub use audit::AuditFilter;
pub use conversations::{EventPage, SoFar};
pub use counts::AskCount;
pub use fingerprints::Fingerprints;
pub use following::{FromOthers, News};
pub use grants::grant_digest;
pub use history::RuleCount;
pub use hubs::HubRow;
pub use keying::DOUBTED;
pub use live_rows::Doubt;
pub use moving::{Copied, CopyError, Doing, Step, copy};
pub use outbox::{CatchUp, Change, Large, Snapshot, Subject, json_length};
pub use passkeys::PasskeyRow;
pub use reader::Reader;
#[cfg(test)]
pub use sqlite::open_to_read;
pub use tickets::{Kept, Ticket, TicketFor, TicketLimits};
pub use tokens::{Session, TokenRow};
#[cfg(test)]
pub use writer::MOST_PENDING_RECORDS;
pub use writer::{QueueSlot, Tx};

pub use self::postgres::DatabaseRefused;
use self::postgres::{Database, Listener, Presence, Purpose};
use crate::config::{ConfigError, StoreSection};
use crate::home::Home;
use aye_core::AgentId;
use aye_core::trail::ChainKey;
use following::{Following, Shared};
use head::Head;
use jiff::Timestamp;
use keying::Begun;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{Semaphore, oneshot};
use writer::Writer;

const READERS: usize = 4;

type Look = Box<dyn FnOnce(&Reader) -> Result<(), StoreError> + Send>;

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
    #[error("the database refused: {0}")]
    Postgres(String),
    #[error("the database cannot be reached: {0}. Nothing was changed; it is tried again")]
    Away(String),
    #[error(
        "the database was changed by a newer aye, whose schema wants hubs that know number {oldest}; this one knows {known}. \
         Replace this program by that version"
    )]
    Outdated { oldest: i64, known: i64 },
    #[error("the hub ends before it could find out whether a change was recorded: {0}")]
    Undecided(String),
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

impl From<rusqlite::types::FromSqlError> for StoreError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        StoreError::Unreadable(error.to_string())
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
    #[error("cannot use {place}: {why}")]
    Postgres { place: String, why: String },
    #[error("config.toml: {0}")]
    Config(#[from] ConfigError),
    #[error("cannot open {path}: {why}")]
    Sqlite { path: PathBuf, why: rusqlite::Error },
}

/// A handle to the database: one writer that commits in groups, and a few readers.
#[derive(Clone)]
pub struct Store {
    writer: Arc<Writer>,
    doubt: Option<Doubt>,
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    /// If the database is on a server.
    server: Option<Server>,
}

#[derive(Clone)]
struct Server {
    database: Arc<Database>,
    /// Follows what other hubs write.
    listener: Arc<Listener>,
    beside: Arc<Mutex<sql::Connection>>,
    /// Tells other hubs of this one.
    presence: Arc<OnceLock<Presence>>,
}

struct Readers {
    idle: Mutex<Vec<Reader>>,
    permits: Arc<Semaphore>,
}

impl Store {
    /// Opens the database for a hub. On a server there may be others. To wait for a server is not
    /// possible in an asynchronous context. `tell` is called with each commit, in order, after it is on disk.
    pub fn open(
        home: &Home,
        now: Timestamp,
        tell: impl Fn(News) + Send + 'static,
    ) -> Result<Self, OpenError> {
        let server = server_of(home)?;
        let path = &home.database();
        let io = |why| OpenError::Io { path: path.to_owned(), why };
        let connection = match &server {
            Some(server) => server.open()?,
            None => sqlite::open(path)?,
        };
        // Read beside the writer: all hubs wait while it begins.
        let beside = server.as_ref().map(|server| server.open_reader(Purpose::Read)).transpose()?;
        let begun = keying::begin(&connection, beside.as_ref(), home, now)?;
        drop(beside);
        let Begun { key, newest, group, seq, live_rows, doubt } = begun;
        let head = Head::open(&home.chain_head_file(), newest).map_err(io)?;
        // In doubt, any session may have been another agent's.
        let sessions = doubt.is_none().then(|| agents::sessions(&connection)).transpose()?;
        let (names, following) = (AskNames::new(sessions), Following::new(group, seq, Box::new(tell)));
        let shared = Arc::new(Shared { key, head, live_rows, names, following });
        let open_reader = |purpose| {
            let connection = match &server {
                Some(server) => server.open_reader(purpose)?,
                None => sqlite::open_reader(path)?,
            };
            Reader::of_the_hub(connection, shared.clone())
        };
        let readers =
            (0..READERS).map(|_| open_reader(Purpose::Read)).collect::<Result<Vec<_>, StoreError>>()?;
        let writer = Reader::of_the_hub(connection, shared.clone())?;
        let writer = Writer::start(writer, shared.clone()).map_err(io)?;
        let listen = |database: &Arc<Database>| {
            let listener = Listener::start(open_reader(Purpose::Listen)?, shared.clone()).map_err(io)?;
            let beside = Arc::new(Mutex::new(database.open_reader(Purpose::Beside)?));
            let (database, listener) = (database.clone(), Arc::new(listener));
            Ok::<_, OpenError>(Server { database, listener, beside, presence: Arc::default() })
        };
        let server = server.as_ref().map(listen).transpose()?;
        Ok(Self {
            writer: Arc::new(writer),
            doubt,
            shared,
            readers: Arc::new(Readers {
                idle: Mutex::new(readers),
                permits: Arc::new(Semaphore::new(READERS)),
            }),
            server,
        })
    }

    /// Tells the other hubs of the same database of this one, from here on until it is closed.
    pub fn announce(&self, home: &Home) -> std::io::Result<()> {
        if let Some(server) = &self.server {
            // A second one would only say the same.
            let _is_first = server.presence.set(Presence::start(&server.database, home)?);
        }
        Ok(())
    }

    /// Why the database cannot be used right now, if so.
    pub fn away(&self) -> Option<String> {
        self.presence()?.away()
    }

    /// Why the database is neither read nor written although it is there, if so.
    pub fn refused(&self) -> Option<DatabaseRefused> {
        self.presence()?.refused()
    }

    /// How often the database was lost since the start; none if it is a file.
    pub fn losses(&self) -> Option<u64> {
        self.presence().map(Presence::losses)
    }

    /// How many commits of other hubs this one has not learned of, a few seconds after they took place.
    pub fn behind(&self) -> u64 {
        let committed = self.presence().map_or(0, Presence::committed);
        committed.saturating_sub(self.shared.following.learned())
    }

    fn presence(&self) -> Option<&Presence> {
        self.server.as_ref()?.presence.get()
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
    /// None on a server either: nothing is answered there before it is written.
    pub fn queue_slot(&self) -> Option<QueueSlot> {
        self.server.is_none().then(|| self.writer.queue_slot())?
    }

    /// Whether other hubs may use the same database.
    pub fn is_on_server(&self) -> bool {
        self.server.is_some()
    }

    /// A number that changes with each commit that changes agents, tokens, passkeys or grants.
    pub fn live_rows_version(&self) -> u64 {
        self.shared.live_rows.version()
    }

    /// The same for one agent and its outline.
    pub fn version_of_agent(&self, agent: &AgentId) -> u64 {
        self.shared.live_rows.version_of_agent(agent)
    }

    /// By which names agents called their asks, as far as this process knows.
    pub fn ask_names(&self) -> &AskNames {
        &self.shared.names
    }

    /// Why what stood at the start is not what the hub had left. The first change then ends it.
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// The key of the trail, with which the hub also marks what it says before it is written.
    pub fn key(&self) -> &ChainKey {
        &self.shared.key
    }

    /// Whether this token counts, as far as this hub knows.
    pub fn has_token(&self, id: &str) -> bool {
        self.shared.live_rows.has_token(id)
    }

    /// Whether changes are under way that nobody waits for.
    pub fn has_pending_records(&self) -> bool {
        self.writer.has_pending_records()
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
        let (found, mut read) = oneshot::channel();
        self.look(Box::new(move |reader| work(reader).map(|value| drop(found.send(value))))).await?;
        read.try_recv().map_err(|_| StoreError::Closed)
    }

    /// Compiled once for all that is read.
    async fn look(&self, work: Look) -> Result<(), StoreError> {
        let permit = self.readers.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = self.readers.clone();
        let looked = tokio::task::spawn_blocking(move || {
            // Goes with the connection: a caller that leaves early must not let another in without one.
            let _permit = permit;
            let idle = || readers.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = idle().pop().ok_or(StoreError::Closed)?;
            let result = caught(|| reader.at_one_moment(work));
            idle().push(reader);
            result
        });
        let looked = looked.await.map_err(|_| StoreError::Closed)?;
        if let Some(presence) = self.presence() {
            presence.was_read(looked.as_ref().err());
        }
        looked
    }

    /// Writes what is queued and ends the writer. The readers go first: the last to close tidies up,
    /// and only the writer can.
    pub async fn close(&self) {
        if let Some(server) = &self.server {
            server.database.close();
            server.listener.close().await;
            let presence = server.presence.clone();
            let leave = move || presence.get().into_iter().for_each(Presence::leave);
            if tokio::task::spawn_blocking(leave).await.is_err() {
                tracing::error!("this hub did not leave the database as it should");
            }
        }
        self.readers.permits.close();
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.writer.close().await;
    }
}

/// The server that has the database of a home, if it is not a file.
fn server_of(home: &Home) -> Result<Option<Arc<Database>>, OpenError> {
    #[cfg(test)]
    if let Some(section) = test_databases::section_for(home) {
        return Database::named_by(&section);
    }
    Database::named_by(&StoreSection::read(&home.config(), &home.database())?)
}

/// Opens the database of a home only to look, beside a running hub or without one; none if there is no database yet.
pub fn open_to_look(home: &Home) -> Result<Option<Reader>, OpenError> {
    if let Some(server) = server_of(home)? {
        let open = || server.open_to_look();
        // The caller may be in an asynchronous context, where nobody can wait for a server.
        let opened = std::thread::scope(|scope| scope.spawn(open).join());
        return opened
            .unwrap_or(Err(StoreError::Panicked.into()))
            .map(|opened| Some(Reader::to_look(opened)));
    }
    let path = home.database();
    path.exists().then(|| sqlite::open_to_read(&path)).transpose()
}

/// Runs a caller's closure. If it panics, what it did is rolled back, and the connection and whoever shares it go on.
fn caught<T, E: From<StoreError>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let (mut work, mut done) = (Some(work), None);
    catch(&mut || done = work.take().map(|work| work()));
    done.unwrap_or_else(|| Err(StoreError::Panicked.into()))
}

fn catch(work: &mut dyn FnMut()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("a database operation panicked; nothing of it is kept");
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
