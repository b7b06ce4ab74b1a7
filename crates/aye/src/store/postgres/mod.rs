//! A PostgreSQL database, written by any number of hubs. Each of their groups of changes first locks one row, so that one
//! comes after the other.

mod address;
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
pub use presence::Presence;

use super::{OpenError, StoreError, sql};
use crate::config::StoreSection;
use connection::Session;
use failure::{in_words, no_connection};
use postgres::{Client, Config, NoTls, Transaction};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::Tls;

/// A database counts how many of these it has been through, so their order stays as it is for good.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_ground.sql"),
    include_str!("migrations/0002_several_hubs.sql"),
    include_str!("migrations/0003_known_hubs.sql"),
    include_str!("migrations/0004_reporters.sql"),
];
/// The oldest schema whose hubs can use this one as well: they go on while a newer hub migrates.
const OLDEST: i64 = 2;
/// The lock of the migrations: any number that others of the same database do not use.
const MIGRATION_LOCK: i64 = 0x6179_6500_0002;
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
        let mut client = self.client().map_err(|error| self.wrong(no_connection(&error, &self.config)))?;
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
        let mut client = self.client().map_err(|error| self.wrong(no_connection(&error, &self.config)))?;
        let wrong = |error: postgres::Error| self.wrong(in_words(&error));
        let mut tx = client.transaction().map_err(wrong)?;
        copying::refuse_unfinished(self, &mut tx)?;
        match version_in(&mut tx).map_err(wrong)? {
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
        copying::refuse_unfinished(self, &mut tx)?;
        self.migrate_in(&mut tx)?;
        tx.commit().map_err(wrong)
    }

    /// Whoever calls this has the lock of the migrations.
    fn migrate_in(&self, tx: &mut Transaction) -> Result<(), OpenError> {
        let wrong = |error: postgres::Error| self.wrong(in_words(&error));
        let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'p')
                   AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')";
        let tables: i64 = tx.query_one(sql, &[]).and_then(|row| row.try_get(0)).map_err(wrong)?;
        let found = version_in(tx).map_err(wrong)?;
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
        Ok(())
    }
}

/// The schema, and the oldest whose hubs can use it; none if there is none.
fn version_in(tx: &mut Transaction) -> Result<Option<(i64, i64)>, postgres::Error> {
    let sql = "SELECT to_regclass('schema_version') IS NOT NULL";
    if !tx.query_one(sql, &[])?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = tx.query_one("SELECT version, oldest FROM schema_version", &[])?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}
