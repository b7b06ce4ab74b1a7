//! What the hub asks of the server itself, looked at by SQL.

use super::super::keying::LAST_KEY;
use super::super::sql::params;
use super::*;
use aye_testkit::patience::eventually;
use aye_testkit::postgres::{Cluster, name_of};

fn setting(connection: &sql::Connection, name: &str) -> String {
    connection.one_value("SELECT current_setting(?1)", params![name]).unwrap()
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn the_server_bounds_how_long_a_writer_may_hold_up_the_others() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let database = Database::at(&url, None).unwrap();
    drop(database.open().unwrap());
    // What an operator sets for all sessions would turn waiting into a failure.
    let name = name_of(&url);
    for (setting, value) in
        [("statement_timeout", "5s"), ("idle_session_timeout", "5s"), ("synchronous_commit", "off")]
    {
        cluster.sql(name, &format!("ALTER DATABASE {name} SET {setting} = '{value}'"));
    }
    let writer = database.open().unwrap();
    let of_writer = |name: &str| setting(&writer, name);
    assert_eq!(of_writer("idle_in_transaction_session_timeout"), "2s");
    assert_eq!(of_writer("lock_timeout"), "5s");
    assert_eq!(of_writer("statement_timeout"), "0");
    assert_eq!(of_writer("idle_session_timeout"), "0");
    assert_eq!(of_writer("synchronous_commit"), "on");
    writer.begin().unwrap();
    assert_eq!(of_writer("lock_timeout"), "1500ms");
    assert_eq!(of_writer("transaction_isolation"), "read committed");
    writer.roll_back();
    assert_eq!(of_writer("lock_timeout"), "5s");
    let reader = database.open_reader(Purpose::Read).unwrap();
    assert_eq!(setting(&reader, "idle_in_transaction_session_timeout"), "1min");
    let moment = reader.moment().unwrap();
    assert_eq!(setting(&reader, "transaction_isolation"), "repeatable read");
    drop(moment);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_starting_hub_finds_the_key_of_a_long_trail_by_an_index() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let connection = Database::at(&url, None).unwrap().open().unwrap();
    cluster.sql(
        name_of(&url),
        "INSERT INTO audit SELECT n, 0, CASE n WHEN 1 THEN 'chain.keyed' ELSE 'ask.raised' END, 'hub', NULL, NULL, '{}', 'x'
         FROM generate_series(1, 20000) AS n; ANALYZE audit",
    );
    let plan = |row: &sql::Row| row.get::<String>(0);
    let plan = connection.all(&format!("EXPLAIN {LAST_KEY}"), params![], plan).unwrap().join("\n");
    assert!(plan.contains("audit_keys"), "{plan}");
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_migration_that_does_not_get_its_lock_lets_others_go_first_and_tries_again() {
    let cluster = Cluster::shared();
    let url = cluster.new_database();
    let name = name_of(&url);
    let database = Database::at(&url, None).unwrap();
    let writer = database.open().unwrap();
    let back = "DROP INDEX audit_keys; ALTER TABLE known_hubs DROP COLUMN telegram_token;
                ALTER TABLE processes DROP COLUMN place; ALTER TABLE agents DROP COLUMN asks_for;
                UPDATE schema_version SET version = 4";
    cluster.sql(name, back);
    let busy = database.open_reader(Purpose::Look).unwrap();
    busy.run("BEGIN; LOCK TABLE audit IN ROW EXCLUSIVE MODE").unwrap();
    let waiting = "SELECT coalesce(max(virtualtransaction), '') FROM pg_locks JOIN pg_database ON pg_database.oid = database
                   WHERE NOT granted AND datname = current_database()";
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| database.open().map(drop));
        let attempt = || Some(cluster.sql(name, waiting)).filter(|attempt| !attempt.is_empty());
        let first = eventually("the migration to wait", attempt);
        eventually("another attempt", || attempt().filter(|attempt| *attempt != first));
        busy.run("ROLLBACK").unwrap();
        migrating.join().unwrap().unwrap();
    });
    assert_eq!(cluster.sql(name, "SELECT version FROM schema_version"), MIGRATIONS.len().to_string());
    drop(writer);
}
