//! The database as tests write it by hand: as an older version left it, or as somebody else changed it.

use super::live_rows::LiveRows;
use super::{Store, StoreError, Tx, sql, sqlite};
use crate::home::Home;
use rusqlite::Connection;
use std::time::Duration;

pub type Database = Connection;

pub fn open(home: &Home) -> Database {
    let database = Connection::open(home.database()).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    database
}

/// The same by somebody who has the key of the trail.
pub fn open_with_the_key(home: &Home) -> Database {
    let database = open(home);
    sqlite::marking::register(&database, &home.chain_key().unwrap().unwrap().key).unwrap();
    database
}

/// Has a running hub take the rows as they are for what it wrote last.
pub async fn take_rows_for_own(store: &Store, home: &Home) {
    let key = home.chain_key().unwrap().unwrap().key;
    let as_they_are = LiveRows::read(&sql::Connection::Sqlite(open(home)), &key).unwrap();
    let take = |tx: &mut Tx| {
        tx.live_rows().unwrap().replace(as_they_are);
        Ok::<_, StoreError>(())
    };
    store.write(take).await.unwrap();
}

/// Past the triggers that keep rows as they are, which are restored afterwards.
pub fn change_rows(database: &Database, sql: &str) {
    let mut statement =
        database.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").unwrap();
    let read = |row: &rusqlite::Row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let triggers: Vec<_> = statement.query_map([], read).unwrap().map(Result::unwrap).collect();
    let (names, texts): (Vec<_>, Vec<_>) = triggers.into_iter().unzip();
    let drops: String = names.iter().map(|name| format!("DROP TRIGGER {name};")).collect();
    database.execute_batch(&format!("BEGIN; {drops} {sql}; {}; COMMIT", texts.join(";"))).unwrap();
}

/// Edits the schema in the file alone: SQLite's number of it stays, so that nobody who has read it reads it again.
pub fn edit_schema(database: &Database, sql: &str) {
    database
        .execute_batch(&format!("PRAGMA writable_schema = ON; {sql}; PRAGMA writable_schema = OFF"))
        .unwrap();
}

/// Has everybody read the schema again.
pub fn set_schema_number(database: &Database, add: i64) {
    let number: i64 = database.pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap();
    database.pragma_update(None, "schema_version", number + add).unwrap();
}

/// All rows as they are now, to be put back later.
pub struct Kept(tempfile::TempDir);

pub fn keep_rows(database: &Database) -> Kept {
    let kept = Kept(tempfile::tempdir().unwrap());
    database.execute("VACUUM INTO ?1", [kept.file()]).unwrap();
    kept
}

impl Kept {
    fn file(&self) -> String {
        self.0.path().join("kept.db").display().to_string()
    }

    pub fn put_back(&self, database: &Database) {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let mut statement = database.prepare(sql).unwrap();
        let tables: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        drop(statement);
        database.execute("ATTACH ?1 AS kept", [self.file()]).unwrap();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        let back =
            |table: &String| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept.{table}");
        change_rows(database, &tables.iter().map(back).collect::<Vec<_>>().join(";"));
        database.execute("DETACH kept", []).unwrap();
    }
}
