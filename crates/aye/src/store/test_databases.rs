//! Which database the tests of the hub and of the store use: SQLite, or with `AYE_TEST_STORE=postgres` a PostgreSQL database
//! of its own for each home.

use crate::config::StoreSection;
use crate::home::Home;
use aye_testkit::postgres::{Cluster, name_of};
use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The databases on the server, by the homes that have them.
static DATABASES: Mutex<BTreeMap<PathBuf, Database>> = Mutex::new(BTreeMap::new());

struct Database {
    url: String,
    /// How far its clock is ahead.
    ahead: SignedDuration,
}

/// Why a test runs on SQLite alone.
pub const BY_HAND: &str = "it changes the file of the database by hand";
pub const SILENCE: &str = "hubs that share a database count silence together: see hub/tests/several.rs";
pub const EARLY: &str = "only on SQLite is anything answered before it is written";

pub fn is_postgres() -> bool {
    std::env::var("AYE_TEST_STORE").is_ok_and(|store| store == "postgres")
}

/// A folder for a home, with the database that the tests are to use.
pub fn new_home() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    if is_postgres() {
        let url = Cluster::shared().new_database();
        let mut databases = DATABASES.lock().unwrap();
        // Each takes some megabytes.
        databases.retain(|home, database| {
            let is_used = home.exists();
            if !is_used {
                Cluster::shared().drop_database(&database.url);
            }
            is_used
        });
        databases.insert(dir.path().to_owned(), Database { url, ahead: SignedDuration::ZERO });
    }
    dir
}

/// A folder for a home whose database is SQLite in any case.
pub fn new_home_on_sqlite(why: &str) -> tempfile::TempDir {
    if is_postgres() {
        eprintln!("on SQLite: {why}");
    }
    tempfile::tempdir().unwrap()
}

/// The clock of this home's database goes on by so much, if it has one.
pub fn advance(home: &Path, by: SignedDuration) {
    if let Some(database) = DATABASES.lock().unwrap().get_mut(home) {
        database.ahead += by;
        let sql = format!(
            "CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql
             AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT + {}'",
            database.ahead.as_millis()
        );
        Cluster::shared().sql(name_of(&database.url), &sql);
    }
}

/// All that is in the database of this home, if a server has it.
pub fn dump(home: &Path) -> Option<String> {
    let url = DATABASES.lock().unwrap().get(home)?.url.clone();
    Some(Cluster::shared().dump(&url))
}

/// What the configuration of this home would say of its store.
pub fn section_for(home: &Home) -> Option<StoreSection> {
    let url = DATABASES.lock().unwrap().get(home.path())?.url.clone();
    Some(StoreSection { url: Some(url), ..StoreSection::default() })
}
