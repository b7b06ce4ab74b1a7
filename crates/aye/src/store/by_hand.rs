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
