//! A PostgreSQL database, written by any number of hubs. Each of their groups of changes first locks one row, so that one
//! comes after the other.

mod address;
mod client;
mod connection;
pub mod copying;
mod failure;
mod listener;
mod password;
mod presence;
mod tls;
pub mod values;

pub use connection::Postgres;
pub use listener::Listener;
pub use presence::{DatabaseRefused, Presence};

use super::{OpenError, StoreError, sql};
use crate::config::StoreSection;
use client::{ANSWERS_WITHIN, Client, NoConnection, WORKS_WITHIN};
use connection::Session;
use failure::{in_words, no_connection, no_migration};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tls::Tls;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Transaction};

/// A database counts how many of these it has been through, so their order stays as it is for good.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_ground.sql"),
    include_str!("migrations/0002_several_hubs.sql"),
    include_str!("migrations/0003_known_hubs.sql"),
    include_str!("migrations/0004_reporters.sql"),
    include_str!("migrations/0005_starting.sql"),
    include_str!("migrations/0006_asks_for.sql"),
];
/// The oldest schema whose hubs can use this one as well: they go on while a newer hub migrates.
const OLDEST: i64 = 2;
/// The lock of the migrations: any number that others of the same database do not use.
const MIGRATION_LOCK: i64 = 0x6179_6500_0002;
/// The oldest server that the hub works with: older ones do not know all of its settings.
const OLDEST_SERVER: i32 = 15;
/// How long a migration waits for a lock before it lets those go on who wait behind it.
const MIGRATION_LOCK_TIMEOUT: &str = "3s";
const MIGRATION_TRIES: u32 = 10;
const BETWEEN_MIGRATION_TRIES: Duration = Duration::from_secs(1);
/// How long a writer may stand still in the middle of a group.
const IDLE_IN_GROUP: &str = "2s";
/// Where hubs are told of each other's groups.
const CHANNEL: &str = "aye";

/// Where the database is, and how to get in.
pub struct Database {
    config: Config,
    tls: Option<Tls>,
    is_closing: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Write,
    Read,
    /// To follow what other hubs write.
    Listen,
    /// To write what belongs to no group.
    Beside,
    /// By somebody who is not the hub.
    Look,
}

impl Database {
    /// The one that `AYE_DATABASE_URL` or `config.toml` names, if one does.
    pub fn named_by(section: &StoreSection) -> Result<Option<Arc<Self>>, OpenError> {
        let url = address::environment("AYE_DATABASE_URL").or_else(|| section.url.clone());
        url.map(|url| Self::at(&url, section.password_file.as_deref())).transpose()
    }

    pub fn at(url: &str, password_file: Option<&Path>) -> Result<Arc<Self>, OpenError> {
        let (config, tls) = address::read(url, password_file, &address::environment)
            .map_err(|why| OpenError::Postgres { place: "the database".to_owned(), why })?;
        Ok(Arc::new(Self { config, tls, is_closing: AtomicBool::new(false) }))
    }

    /// Where it is, without secrets.
    pub fn place(&self) -> String {
        address::place(&self.config)
    }

    fn wrong(&self, why: impl ToString) -> OpenError {
        OpenError::Postgres { place: self.place(), why: why.to_string() }
    }

    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    fn client(&self) -> Result<Client, NoConnection> {
        Client::connect(&self.config, self.tls.as_ref())
    }

    fn cannot_connect(&self, error: &NoConnection) -> OpenError {
        self.wrong(no_connection(error, &self.config))
    }

    /// A connection with our settings.
    pub fn connect(&self, purpose: Purpose) -> Result<Session, StoreError> {
        let mut client = self.client()?;
        // The server aborts a writer that stalls inside a group; other writers wait a little longer than that. Limits that a role
        // or a database sets for its sessions must not end a hub's.
        let idle = if purpose == Purpose::Write { IDLE_IN_GROUP } else { "60s" };
        let listen = match purpose {
            // Named apart, so that whoever operates the server can tell which connection stays idle.
            Purpose::Listen => format!("LISTEN {CHANNEL}; SET application_name = 'aye listener'"),
            _ => String::new(),
        };
        let settings = format!(
            "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '{idle}'; SET statement_timeout = 0;
             SET idle_session_timeout = 0; SET client_min_messages = warning;
             SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3;
             SET tcp_user_timeout = '5s'; SET standard_conforming_strings = on; SET extra_float_digits = 3;
             SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) <> '0';
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
             {listen}"
        );
        client.run::<_, StoreError>(ANSWERS_WITHIN, async |client| {
            Ok(client.batch_execute(&settings).await?)
        })?;
        Ok(Session::new(client))
    }

    /// The connection of the writer, with the newest schema.
    pub fn open(self: &Arc<Self>) -> Result<sql::Connection, OpenError> {
        let mut client = self.client().map_err(|error| self.cannot_connect(&error))?;
        self.migrate(&mut client)?;
        drop(client);
        let mut session = self.connect(Purpose::Write)?;
        self.check_settings(&mut session.client)?;
        Ok(sql::Connection::Postgres(Box::new(Postgres::new(self.clone(), Purpose::Write, session))))
    }

    /// A connection that writes no groups.
    pub fn open_reader(self: &Arc<Self>, purpose: Purpose) -> Result<sql::Connection, StoreError> {
        let session = self.connect(purpose)?;
        Ok(sql::Connection::Postgres(Box::new(Postgres::new(self.clone(), purpose, session))))
    }

    /// The same for somebody who only looks: there must be a database of ours.
    pub fn open_to_look(self: &Arc<Self>) -> Result<sql::Connection, OpenError> {
        let mut client = self.client().map_err(|error| self.cannot_connect(&error))?;
        let wrong = |error: tokio_postgres::Error| self.wrong(in_words(&error));
        let found = client.run(ANSWERS_WITHIN, async |client| {
            let tx = client.transaction().await.map_err(wrong)?;
            copying::refuse_unfinished(self, &tx).await?;
            version_in(&tx).await.map_err(wrong)
        })?;
        match found {
            None => Err(self.wrong("no hub has used it yet")),
            Some(found) => {
                self.check_version(found)?;
                Ok(self.open_reader(Purpose::Look)?)
            }
        }
    }

    /// Settings of a session must stay for as long as it does.
    fn check_settings(&self, client: &mut Client) -> Result<(), OpenError> {
        let sql = "SELECT current_setting('idle_in_transaction_session_timeout')";
        let set: String = client.run::<_, StoreError>(ANSWERS_WITHIN, async |client| {
            Ok(client.query_one(sql, &[]).await?.try_get(0)?)
        })?;
        match set == IDLE_IN_GROUP {
            true => Ok(()),
            false => Err(self.wrong(
                "what the hub sets for its session does not stay. A pooler that shares connections between transactions does \
                 that: connect directly, or with pool_mode = session",
            )),
        }
    }

    fn check_version(&self, (found, oldest): (i64, i64)) -> Result<(), OpenError> {
        check_oldest(Some(oldest)).map_err(|_| {
            self.wrong(format!(
                "it was changed by a newer aye (schema {found}, this one knows {}): use that version",
                MIGRATIONS.len()
            ))
        })
    }

    fn migrate(&self, client: &mut Client) -> Result<(), OpenError> {
        for tries in 1.. {
            let migrated = client.run(WORKS_WITHIN, async |client| {
                let wrong = |error: tokio_postgres::Error| self.wrong(no_migration(&error, &self.config));
                self.check_server(client).await?;
                let tx = client.transaction().await.map_err(wrong)?;
                match self.migrate_alone(&tx).await? {
                    Ok(()) => tx.commit().await.map(Ok).map_err(wrong),
                    busy => Ok(busy),
                }
            })?;
            match migrated {
                Ok(()) => break,
                Err(error) if tries == MIGRATION_TRIES => {
                    return Err(self.wrong(no_migration(&error, &self.config)));
                }
                Err(error) => tracing::warn!(
                    why = in_words(&error),
                    "the schema cannot be changed yet; it is tried again"
                ),
            }
            // Whoever waited behind this migration goes first.
            std::thread::sleep(BETWEEN_MIGRATION_TRIES);
        }
        Ok(())
    }

    async fn check_server(&self, client: &tokio_postgres::Client) -> Result<(), OpenError> {
        let sql = "SELECT current_setting('server_version_num')::INT, current_setting('server_version')";
        let row = client.query_one(sql, &[]).await.map_err(StoreError::from)?;
        let number: i32 = row.try_get(0).map_err(StoreError::from)?;
        let version: String = row.try_get(1).map_err(StoreError::from)?;
        match number / 10_000 >= OLDEST_SERVER {
            true => Ok(()),
            false => {
                Err(self
                    .wrong(format!("it is PostgreSQL {version}, and the hub needs {OLDEST_SERVER} or newer")))
            }
        }
    }

    /// Takes the lock of the migrations and makes the missing ones. The inner error is that a lock was not to be had.
    async fn migrate_alone(
        &self,
        tx: &Transaction<'_>,
    ) -> Result<Result<(), tokio_postgres::Error>, OpenError> {
        let lock = format!(
            "SET LOCAL lock_timeout = '{MIGRATION_LOCK_TIMEOUT}'; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
        );
        match tx.batch_execute(&lock).await {
            Err(error) if is_lock_missing(&error) => return Ok(Err(error)),
            locked => locked.map_err(|error| self.wrong(no_migration(&error, &self.config)))?,
        }
        copying::refuse_unfinished(self, tx).await?;
        self.migrate_in(tx).await
    }

    /// Whoever calls this has the lock of the migrations. The inner error is that another lock was not to be had.
    async fn migrate_in(&self, tx: &Transaction<'_>) -> Result<Result<(), tokio_postgres::Error>, OpenError> {
        let wrong = |error: tokio_postgres::Error| self.wrong(no_migration(&error, &self.config));
        let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'p')
                   AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')";
        let tables: i64 = tx.query_one(sql, &[]).await.and_then(|row| row.try_get(0)).map_err(wrong)?;
        let found = version_in(tx).await.map_err(wrong)?;
        let from = match found {
            Some(found) => {
                self.check_version(found)?;
                found.0
            }
            None if tables > 0 => {
                return Err(self.wrong("it holds something else: aye wants a database of its own"));
            }
            None => {
                let sql = "CREATE TABLE schema_version (one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL,
                               -- The oldest schema whose hubs can use this one as well.
                               oldest BIGINT NOT NULL);
                           INSERT INTO schema_version VALUES (1, 0, 0)";
                tx.batch_execute(sql).await.map_err(wrong)?;
                0
            }
        };
        let missing = MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX));
        let mut version = from;
        for migration in missing {
            version += 1;
            match tx.batch_execute(migration).await {
                Err(error) if is_lock_missing(&error) => return Ok(Err(error)),
                done => done.map_err(wrong)?,
            }
            let sql = "UPDATE schema_version SET version = $1, oldest = $2";
            tx.execute(sql, &[&version, &OLDEST]).await.map_err(wrong)?;
        }
        Ok(Ok(()))
    }
}

fn is_lock_missing(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether hubs of this version may use a schema that names this as the oldest one.
pub fn check_oldest(oldest: Option<i64>) -> Result<(), StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    match oldest.is_some_and(|oldest| oldest <= known) {
        true => Ok(()),
        false => Err(StoreError::Outdated { oldest: oldest.unwrap_or_default(), known }),
    }
}

/// The schema, and the oldest whose hubs can use it; none if there is none.
async fn version_in(tx: &Transaction<'_>) -> Result<Option<(i64, i64)>, tokio_postgres::Error> {
    let sql = "SELECT to_regclass('schema_version') IS NOT NULL";
    if !tx.query_one(sql, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = tx.query_one("SELECT version, oldest FROM schema_version", &[]).await?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

#[cfg(test)]
mod tests;
