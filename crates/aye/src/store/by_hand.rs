//! The database as tests write it by hand: as an older version left it, or as somebody else changed it.

use super::row_mac;
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
    row_mac::register(&database, &home.chain_key().unwrap().unwrap().key).unwrap();
    database
}

/// Past the triggers that keep rows as they are, which stand again afterwards.
pub fn change_rows(database: &Database, sql: &str) {
    let mut statement =
        database.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").unwrap();
    let read = |row: &rusqlite::Row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let triggers: Vec<_> = statement.query_map([], read).unwrap().map(Result::unwrap).collect();
    let (names, texts): (Vec<_>, Vec<_>) = triggers.into_iter().unzip();
    let drops: String = names.iter().map(|name| format!("DROP TRIGGER {name};")).collect();
    database.execute_batch(&format!("BEGIN; {drops} {sql}; {}; COMMIT", texts.join(";"))).unwrap();
}
