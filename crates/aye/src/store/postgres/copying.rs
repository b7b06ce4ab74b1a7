//! The side of a copy that is PostgreSQL's: a database that was empty, and two small tables that say what is copied into it
//! and how far. They go when the copy is whole; until then no hub uses the database.

use super::super::moving::{TABLES, Table};
use super::super::sql;
use super::client::{Client, WORKS_WITHIN};
use super::failure::{in_words, no_migration};
use super::values::Param;
use super::{Database, MIGRATION_LOCK, OpenError, Purpose, StoreError, version_in};
use aye_core::trail::Chain;
use rusqlite::types::Value;
use std::pin::pin;
use std::sync::Arc;
use tokio_postgres::Transaction;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::ToSql;

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
pub async fn refuse_unfinished(database: &Database, tx: &Transaction<'_>) -> Result<(), OpenError> {
    match origin(tx).await.map_err(|error| database.wrong(in_words(&error)))? {
        None => Ok(()),
        Some(_) => Err(database.wrong(
            "a copy into it was cut off, and so it is not whole. Run `aye store copy` again with the home that is copied; \
             it goes on where it was",
        )),
    }
}

/// What is being copied into this database.
async fn origin(tx: &Transaction<'_>) -> Result<Option<Origin>, tokio_postgres::Error> {
    let is_there = tx.query_one("SELECT to_regclass('copy_of') IS NOT NULL", &[]).await?;
    if !is_there.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = tx.query_one("SELECT key, lines, head FROM copy_of", &[]).await?;
    let lines = row.try_get::<_, i64>(1)?.cast_unsigned();
    Ok(Some(Origin { key: row.try_get(0)?, end: Chain { lines, head: row.try_get(2)? } }))
}

impl Target {
    /// Prepares an empty database, or one that holds a part of the same copy.
    pub fn begin(database: &Arc<Database>, of: &Origin) -> Result<Self, OpenError> {
        // Only for its words: who cannot connect is told why.
        drop(database.client().map_err(|error| database.cannot_connect(&error))?);
        let mut client = database.connect(Purpose::Look)?.client;
        client.run(WORKS_WITHIN, async |client| Self::prepare(database, of, client).await)?;
        Ok(Self { database: database.clone(), client })
    }

    async fn prepare(
        database: &Database,
        of: &Origin,
        client: &mut tokio_postgres::Client,
    ) -> Result<(), OpenError> {
        let wrong = |error: tokio_postgres::Error| database.wrong(no_migration(&error, &database.config));
        database.check_server(client).await?;
        // A copy that was killed has the lock until the server notices.
        let locked = client.execute("SELECT pg_advisory_lock($1)", &[&COPY_LOCK]).await;
        locked.map_err(|_| database.wrong("another copy into it is under way"))?;
        let tx = client.transaction().await.map_err(wrong)?;
        tx.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(wrong)?;
        let found = origin(&tx).await.map_err(wrong)?;
        if found.is_none() && version_in(&tx).await.map_err(wrong)?.is_some() {
            let sql = "SELECT 1 FROM audit WHERE seq = $1 AND hash = $2";
            let ours =
                tx.query_opt(sql, &[&of.end.lines.cast_signed(), &of.end.head]).await.map_err(wrong)?;
            return Err(database.wrong(match ours {
                Some(_) => "it holds a finished copy of this home already",
                None => "a hub has used it already: a copy wants an empty database",
            }));
        }
        if found.as_ref().is_some_and(|found| found.key != of.key) {
            return Err(database.wrong("it holds an unfinished copy of another home"));
        }
        database.migrate_in(&tx).await?.map_err(wrong)?;
        match found {
            Some(found) if found.end == of.end => {}
            Some(_) => {
                tracing::warn!("the home was used since the copy was cut off, so the copy begins anew");
                tx.batch_execute(&emptying()).await.map_err(wrong)?;
                note(&tx, of).await.map_err(wrong)?;
            }
            None => {
                tx.batch_execute(BEGIN).await.map_err(wrong)?;
                note(&tx, of).await.map_err(wrong)?;
            }
        }
        tx.commit().await.map_err(wrong)
    }

    /// How many rows of a table are there.
    pub fn copied(&mut self, table: &Table) -> Result<u64, StoreError> {
        self.client.run(WORKS_WITHIN, async |client| {
            let sql = "SELECT rows FROM copied WHERE name = $1";
            let found = client.query_opt(sql, &[&table.name]).await?;
            let rows = found.map(|row| row.try_get::<_, i64>(0)).transpose()?;
            Ok(rows.unwrap_or(0).cast_unsigned())
        })
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
        self.client.run(WORKS_WITHIN, async |client| {
            let tx = client.transaction().await?;
            let statement = tx.prepare(&format!("SELECT {columns} FROM {name}")).await?;
            let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
            let sink = tx.copy_in(&format!("COPY {name} ({columns}) FROM STDIN BINARY")).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            for row in rows {
                let values: Vec<_> = row.iter().map(|value| value as &dyn rusqlite::ToSql).collect();
                let values = Param::all(sql::Params::InOrder(&values))?;
                let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                writer.as_mut().write(&values).await?;
            }
            writer.finish().await?;
            let sql = "INSERT INTO copied (name, rows) VALUES ($1, $2)
                       ON CONFLICT (name) DO UPDATE SET rows = copied.rows + $2";
            tx.execute(sql, &[&name, &(rows.len() as u64).cast_signed()]).await?;
            before();
            Ok(tx.commit().await?)
        })
    }

    /// Has the numbers of new rows go on from the last one that was given.
    pub fn go_on_from(&mut self, name: &str, last: u64) -> Result<(), StoreError> {
        let sql = "UPDATE numbers SET last = $2 WHERE name = $1";
        self.client.run(WORKS_WITHIN, async |client| {
            Ok(client.execute(sql, &[&name, &last.cast_signed()]).await.map(drop)?)
        })
    }

    /// Calls `each` with every row of a table, in the order of its key.
    pub fn each<E: From<StoreError>>(
        &mut self,
        table: &Table,
        columns: &[String],
        mut each: impl FnMut(&tokio_postgres::Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let Table { from, key, .. } = table;
        let sql = format!("SELECT {} FROM {from} ORDER BY {key}", columns.join(", "));
        self.client.run(WORKS_WITHIN, async |client| {
            let tx = client.transaction().await.map_err(StoreError::from)?;
            let portal = tx.bind(&sql, &[]).await.map_err(StoreError::from)?;
            loop {
                let rows = tx.query_portal(&portal, ROWS_AT_ONCE).await.map_err(StoreError::from)?;
                if rows.is_empty() {
                    return Ok(());
                }
                rows.iter().try_for_each(&mut each)?;
            }
        })
    }

    /// A connection that looks at the copy before it is finished.
    pub fn connection(&self) -> Result<sql::Connection, StoreError> {
        self.database.open_reader(Purpose::Look)
    }

    /// From here on a hub may use it.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.client.run(WORKS_WITHIN, async |client| {
            let tx = client.transaction().await?;
            tx.batch_execute(FINISH).await?;
            Ok(tx.commit().await?)
        })
    }
}

async fn note(tx: &Transaction<'_>, of: &Origin) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO copy_of (one, key, lines, head) VALUES (1, $1, $2, $3)";
    tx.execute(sql, &[&of.key, &of.end.lines.cast_signed(), &of.end.head]).await.map(drop)
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
