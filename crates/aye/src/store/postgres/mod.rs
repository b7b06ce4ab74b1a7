//! A PostgreSQL database, written by any number of hubs. Each of their groups of changes first locks one row, so that one
//! comes after the other.

mod connection;
mod listener;
mod tls;
pub mod values;

pub use connection::Postgres;
pub use listener::Listener;

use super::{OpenError, StoreError, sql};
use crate::config::StoreSection;
use connection::Session;
use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tls::Tls;

/// A database counts how many of these it has been through, so their order stays as it is for good.
const MIGRATIONS: &[&str] =
    &[include_str!("migrations/0001_ground.sql"), include_str!("migrations/0002_several_hubs.sql")];
/// The oldest schema whose hubs can use this one as well: they go on while a newer hub migrates.
const OLDEST: i64 = 2;
/// The lock of the migrations: any number that others of the same database do not use.
const MIGRATION_LOCK: i64 = 0x6179_6500_0002;
/// Where hubs are told of each other's groups.
const CHANNEL: &str = "aye";
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A peer that does not answer is given up after this.
const SILENT_FOR: Duration = Duration::from_secs(5);
const BETWEEN_KEEPALIVES: Duration = Duration::from_secs(1);

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
    pub fn named_by(section: &StoreSection) -> Result<Option<Arc<Self>>, OpenError> {
        let url = std::env::var("AYE_DATABASE_URL").ok().filter(|url| !url.is_empty());
        let Some(url) = url.or_else(|| section.url.clone()) else { return Ok(None) };
        let wrong = |why: String| OpenError::Postgres { place: "the database".to_owned(), why };
        let mut config = Config::from_str(&url)
            .map_err(|error| wrong(format!("its URL is not understood: {}", in_words(&error))))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("its URL names no host".to_owned()));
        }
        if config.get_password().is_none() {
            let password = match &section.password_file {
                Some(file) => {
                    let read = std::fs::read_to_string(file);
                    let read = read.map_err(|why| {
                        wrong(format!("its password cannot be read from {}: {why}", file.display()))
                    })?;
                    Some(read.trim_end_matches(['\r', '\n']).to_owned())
                }
                None => std::env::var("PGPASSWORD").ok(),
            };
            if let Some(password) = password {
                config.password(password);
            }
        }
        if config.get_user().is_none() {
            config.user(&std::env::var("PGUSER").unwrap_or_else(|_| crate::home::user_name().to_string()));
        }
        let is_near = config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        });
        // Across a network nothing is sent in the clear unless the URL says so itself.
        if !url.contains("sslmode=") {
            config.ssl_mode(if is_near { SslMode::Disable } else { SslMode::Require });
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(Tls(crate::tls::client(None).map_err(|error| wrong(error.to_string()))?)),
        };
        config
            .application_name("aye")
            .connect_timeout(CONNECT_WITHIN)
            .keepalives_idle(BETWEEN_KEEPALIVES)
            .keepalives_interval(BETWEEN_KEEPALIVES)
            .keepalives_retries(4)
            .tcp_user_timeout(SILENT_FOR);
        Ok(Some(Arc::new(Self { config, tls, is_closing: AtomicBool::new(false) })))
    }

    /// Where it is, without secrets.
    pub fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Unix(path) => path.display().to_string(),
            Host::Tcp(name) => name.clone(),
        });
        let ports: Vec<_> = self.config.get_ports().iter().map(u16::to_string).collect();
        let hosts: Vec<_> = hosts.collect();
        let name = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("PostgreSQL at {}:{}/{name}", hosts.join(","), ports.join(","))
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

    fn client(&self) -> Result<Client, postgres::Error> {
        match &self.tls {
            Some(tls) => self.config.connect(tls.clone()),
            None => self.config.connect(NoTls),
        }
    }

    /// A connection with our settings.
    pub fn connect(&self, purpose: Purpose) -> Result<Session, StoreError> {
        let mut client = self.client()?;
        // A writer that stands still in the middle of a group gives way, and others wait a little longer than that; who reads
        // may take its time.
        let idle = if purpose == Purpose::Write { "2s" } else { "60s" };
        client.batch_execute(&format!(
            "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '{idle}'; SET client_min_messages = warning;
             SET standard_conforming_strings = on; SET extra_float_digits = 3;
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        ))?;
        if purpose == Purpose::Listen {
            client.batch_execute(&format!("LISTEN {CHANNEL}"))?;
        }
        Ok(Session::new(client))
    }

    /// The connection of the writer, with the newest schema.
    pub fn open(self: &Arc<Self>) -> Result<sql::Connection, OpenError> {
        let mut client = self.client().map_err(|error| self.wrong(in_words(&error)))?;
        self.migrate(&mut client)?;
        drop(client);
        let session = self.connect(Purpose::Write)?;
        Ok(sql::Connection::Postgres(Box::new(Postgres::new(self.clone(), Purpose::Write, session))))
    }

    /// A connection that writes no groups.
    pub fn open_reader(self: &Arc<Self>, purpose: Purpose) -> Result<sql::Connection, StoreError> {
        let session = self.connect(purpose)?;
        Ok(sql::Connection::Postgres(Box::new(Postgres::new(self.clone(), purpose, session))))
    }

    /// The same for somebody who only looks: there must be a database of ours.
    pub fn open_to_look(self: &Arc<Self>) -> Result<sql::Connection, OpenError> {
        let mut client = self.client().map_err(|error| self.wrong(in_words(&error)))?;
        let found = version(&mut client).map_err(|error| self.wrong(in_words(&error)))?;
        match found {
            None => Err(self.wrong("no hub has used it yet")),
            Some(found) => {
                self.check_version(found)?;
                Ok(self.open_reader(Purpose::Look)?)
            }
        }
    }

    fn check_version(&self, (found, oldest): (i64, i64)) -> Result<(), OpenError> {
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        match oldest > known {
            true => Err(self.wrong(format!(
                "it was changed by a newer aye (schema {found}, this one knows {known}): use that version"
            ))),
            false => Ok(()),
        }
    }

    fn migrate(&self, client: &mut Client) -> Result<(), OpenError> {
        let wrong = |error: postgres::Error| self.wrong(in_words(&error));
        let mut tx = client.transaction().map_err(wrong)?;
        tx.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).map_err(wrong)?;
        let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'p')";
        let tables: i64 = tx.query_one(sql, &[]).and_then(|row| row.try_get(0)).map_err(wrong)?;
        let found = version_in(&mut tx).map_err(wrong)?;
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
                tx.batch_execute(sql).map_err(wrong)?;
                0
            }
        };
        let missing = MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX));
        let mut version = from;
        for migration in missing {
            version += 1;
            tx.batch_execute(migration).map_err(wrong)?;
            tx.execute("UPDATE schema_version SET version = $1, oldest = $2", &[&version, &OLDEST])
                .map_err(wrong)?;
        }
        tx.commit().map_err(wrong)
    }
}

fn version(client: &mut Client) -> Result<Option<(i64, i64)>, postgres::Error> {
    version_in(&mut client.transaction()?)
}

/// The schema, and the oldest whose hubs can use it; none if there is none.
fn version_in(tx: &mut postgres::Transaction) -> Result<Option<(i64, i64)>, postgres::Error> {
    let sql = "SELECT to_regclass('schema_version') IS NOT NULL";
    if !tx.query_one(sql, &[])?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = tx.query_one("SELECT version, oldest FROM schema_version", &[])?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

/// What the server or the system said, without the library's own words around it.
fn in_words(error: &postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(error), _) => error.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> Self {
        let words = in_words(&error);
        let is_io = std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>());
        match error.code().map(SqlState::code) {
            // disk_full
            Some("53100") => StoreError::Full,
            // admin_shutdown, crash_shutdown, cannot_connect_now, idle_in_transaction_session_timeout, lock_not_available,
            // too_many_connections, and read_only_sql_transaction, as after a failover.
            Some("57P01" | "57P02" | "57P03" | "25P03" | "55P03" | "53300" | "25006") => {
                StoreError::Away(words)
            }
            Some(_) => StoreError::Postgres(words),
            // Values that do not fit come from us; whatever else has no code is the connection.
            None if is_io || error.is_closed() => StoreError::Away(words),
            None => StoreError::Postgres(words),
        }
    }
}
