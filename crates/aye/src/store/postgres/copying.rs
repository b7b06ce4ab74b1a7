//! The side of a copy that is PostgreSQL's: a database that was empty, and two small tables that say what is copied into it
//! and how far. They go when the copy is whole; until then no hub uses the database.

use super::super::moving::{TABLES, Table};
use super::super::sql;
use super::failure::{in_words, no_connection};
use super::values::Param;
use super::{Database, MIGRATION_LOCK, OpenError, Purpose, StoreError, version_in};
use aye_core::trail::Chain;
use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::ToSql;
use postgres::{Client, Transaction};
use rusqlite::types::Value;
use std::sync::Arc;

/// Held while a copy is under way: any number that others of the same database do not use.
const COPY_LOCK: i64 = 0x6179_6500_0003;
/// Rows that are held in memory at once when they are compared.
const ROWS_AT_ONCE: i32 = 100;

const BEGIN: &str = "
    CREATE TABLE copy_of (
        one   BIGINT PRIMARY KEY CHECK (one = 1),
        -- The name of the key of the trail, and the end of the trail.
        key   TEXT NOT NULL,
        lines BIGINT NOT NULL,
        head  TEXT NOT NULL
    );
    CREATE TABLE copied (
        name TEXT PRIMARY KEY,
        rows BIGINT NOT NULL
    )";
const FINISH: &str = "DROP TABLE copy_of; DROP TABLE copied";

/// What a copy is of: a trail, and where it ended. Every hub that starts adds a line, so that the same end means the same
/// rows.
pub struct Origin {
    /// The name of its key.
    pub key: String,
    pub end: Chain,
}

pub struct Target {
    database: Arc<Database>,
    client: Client,
}

/// Refuses a database whose copy was cut off: a hub would work with a part of what was there.
pub fn refuse_unfinished(database: &Database, tx: &mut Transaction) -> Result<(), OpenError> {
    match origin(tx).map_err(|error| database.wrong(in_words(&error)))? {
        None => Ok(()),
        Some(_) => Err(database.wrong(
            "a copy into it was cut off, and so it is not whole. Run `aye store copy` again with the home that is copied; \
             it goes on where it was",
        )),
    }
}

/// What is being copied into this database.
fn origin(tx: &mut Transaction) -> Result<Option<Origin>, postgres::Error> {
    let is_there = tx.query_one("SELECT to_regclass('copy_of') IS NOT NULL", &[])?;
    if !is_there.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = tx.query_one("SELECT key, lines, head FROM copy_of", &[])?;
    let lines = row.try_get::<_, i64>(1)?.cast_unsigned();
    Ok(Some(Origin { key: row.try_get(0)?, end: Chain { lines, head: row.try_get(2)? } }))
}

impl Target {
    /// Prepares an empty database, or one that holds a part of the same copy.
    pub fn begin(database: &Arc<Database>, of: &Origin) -> Result<Self, OpenError> {
        let wrong = |error: postgres::Error| database.wrong(in_words(&error));
        // Only for its words: who cannot connect is told why.
        drop(database.client().map_err(|error| database.wrong(no_connection(&error, &database.config)))?);
        let mut client = database.connect(Purpose::Look)?.client;
        // A copy that was killed has the lock until the server notices.
        let locked = client.execute("SELECT pg_advisory_lock($1)", &[&COPY_LOCK]);
        locked.map_err(|_| database.wrong("another copy into it is under way"))?;
        let mut tx = client.transaction().map_err(wrong)?;
        tx.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).map_err(wrong)?;
        let found = origin(&mut tx).map_err(wrong)?;
        if found.is_none() && version_in(&mut tx).map_err(wrong)?.is_some() {
            let sql = "SELECT 1 FROM audit WHERE seq = $1 AND hash = $2";
            let ours = tx.query_opt(sql, &[&of.end.lines.cast_signed(), &of.end.head]).map_err(wrong)?;
            return Err(database.wrong(match ours {
                Some(_) => "it holds a finished copy of this home already",
                None => "a hub has used it already: a copy wants an empty database",
            }));
        }
        if found.as_ref().is_some_and(|found| found.key != of.key) {
            return Err(database.wrong("it holds an unfinished copy of another home"));
        }
        database.migrate_in(&mut tx)?;
        match found {
            Some(found) if found.end == of.end => {}
            Some(_) => {
                tracing::warn!("the home was used since the copy was cut off, so the copy begins anew");
                tx.batch_execute(&emptying()).map_err(wrong)?;
                note(&mut tx, of).map_err(wrong)?;
            }
            None => {
                tx.batch_execute(BEGIN).map_err(wrong)?;
                note(&mut tx, of).map_err(wrong)?;
            }
        }
        tx.commit().map_err(wrong)?;
        Ok(Self { database: database.clone(), client })
    }

    /// How many rows of a table are there.
    pub fn copied(&mut self, table: &Table) -> Result<u64, StoreError> {
        let found = self.client.query_opt("SELECT rows FROM copied WHERE name = $1", &[&table.name])?;
        let rows = found.map(|row| row.try_get::<_, i64>(0)).transpose()?;
        Ok(rows.unwrap_or(0).cast_unsigned())
    }

    /// Adds rows, and notes in the same transaction that they are there. `before` is called before it is committed.
    pub fn add(
        &mut self,
        table: &Table,
        columns: &[String],
        rows: &[Vec<Value>],
        before: impl FnOnce(),
    ) -> Result<(), StoreError> {
        let (name, columns) = (table.name, columns.join(", "));
        let mut tx = self.client.transaction()?;
        let statement = tx.prepare(&format!("SELECT {columns} FROM {name}"))?;
        let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
        let writer = tx.copy_in(&format!("COPY {name} ({columns}) FROM STDIN BINARY"))?;
        let mut writer = BinaryCopyInWriter::new(writer, &types);
        for row in rows {
            let values: Vec<_> = row.iter().map(|value| value as &dyn rusqlite::ToSql).collect();
            let values = Param::all(sql::Params::InOrder(&values))?;
            let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
            writer.write(&values)?;
        }
        writer.finish()?;
        let sql = "INSERT INTO copied (name, rows) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET rows = copied.rows + $2";
        tx.execute(sql, &[&name, &(rows.len() as u64).cast_signed()])?;
        before();
        Ok(tx.commit()?)
    }

    /// Has the numbers of new rows go on from the last one that was given.
    pub fn go_on_from(&mut self, name: &str, last: u64) -> Result<(), StoreError> {
        let sql = "UPDATE numbers SET last = $2 WHERE name = $1";
        Ok(self.client.execute(sql, &[&name, &last.cast_signed()]).map(drop)?)
    }

    /// Calls `each` with every row of a table, in the order of its key.
    pub fn each<E: From<StoreError>>(
        &mut self,
        table: &Table,
        columns: &[String],
        mut each: impl FnMut(&postgres::Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let Table { from, key, .. } = table;
        let sql = format!("SELECT {} FROM {from} ORDER BY {key}", columns.join(", "));
        let mut tx = self.client.transaction().map_err(StoreError::from)?;
        let portal = tx.bind(&sql, &[]).map_err(StoreError::from)?;
        loop {
            let rows = tx.query_portal(&portal, ROWS_AT_ONCE).map_err(StoreError::from)?;
            if rows.is_empty() {
                return Ok(());
            }
            rows.iter().try_for_each(&mut each)?;
        }
    }

    /// A connection that looks at the copy before it is finished.
    pub fn connection(&self) -> Result<sql::Connection, StoreError> {
        self.database.open_reader(Purpose::Look)
    }

    /// From here on a hub may use it.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let mut tx = self.client.transaction()?;
        tx.batch_execute(FINISH)?;
        Ok(tx.commit()?)
    }
}

fn note(tx: &mut Transaction, of: &Origin) -> Result<(), postgres::Error> {
    let sql = "INSERT INTO copy_of (one, key, lines, head) VALUES (1, $1, $2, $3)";
    tx.execute(sql, &[&of.key, &of.end.lines.cast_signed(), &of.end.head]).map(drop)
}

/// Takes back what was copied, which triggers keep everybody else from doing.
fn emptying() -> String {
    let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
    format!(
        "ALTER TABLE asks DISABLE TRIGGER USER; ALTER TABLE audit DISABLE TRIGGER USER;
         TRUNCATE {}, ask_counts, copy_of, copied; UPDATE numbers SET last = 0;
         ALTER TABLE asks ENABLE TRIGGER USER; ALTER TABLE audit ENABLE TRIGGER USER",
        names.join(", ")
    )
}
