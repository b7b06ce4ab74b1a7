use super::*;
use serde_json::json;
use std::sync::mpsc;

fn now() -> jiff::Timestamp {
    jiff::Timestamp::from_second(1).unwrap()
}

fn note(tx: &mut Tx, kind: &str) -> Result<(), StoreError> {
    tx.audit(now(), kind, "test", None, None, json!({}))
}

fn open(dir: &tempfile::TempDir) -> Store {
    Store::open(&dir.path().join("aye.db"), |_| {}).unwrap()
}

fn look(dir: &tempfile::TempDir) -> Connection {
    open_to_read(&dir.path().join("aye.db")).unwrap()
}

#[tokio::test]
async fn a_change_that_fails_leaves_nothing_behind_and_spoils_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let good = store.write(|tx| note(tx, "first"));
    let bad = store.write(|tx| {
        note(tx, "never")?;
        Err::<(), _>(StoreError::Closed)
    });
    let also_good = store.write(|tx| note(tx, "second"));
    let (good, bad, also_good) = tokio::join!(good, bad, also_good);
    assert!(good.is_ok() && bad.is_err() && also_good.is_ok());
    store.close().await;
    let mut kinds = Vec::new();
    let each = |line: aye_core::trail::Line| {
        kinds.push(line.kind);
        Ok(())
    };
    audit::read(&look(&dir), &AuditFilter::default(), each).unwrap();
    assert_eq!(kinds, ["first", "second"]);
    assert_eq!(audit::verify(&mut look(&dir), None).unwrap().lines, 2);
}

#[tokio::test]
async fn changes_that_wait_share_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (told, commits) = mpsc::sync_channel(100);
    let committed = move |commit: Commit| told.send(commit.group).unwrap();
    let store = Store::open(&dir.path().join("aye.db"), committed).unwrap();
    let (go, wait) = mpsc::sync_channel::<()>(0);
    let first = store.write(move |tx| {
        wait.recv().unwrap();
        note(tx, "slow")
    });
    let others = futures_util::future::join_all((0..50).map(|_| store.write(|tx| note(tx, "quick"))));
    let release = async {
        // Polled last: by now all the others are in the writer's queue.
        go.send(()).unwrap();
        Ok::<_, StoreError>(())
    };
    let (first, others, released) = tokio::join!(first, others, release);
    assert!(first.is_ok() && released.is_ok() && others.iter().all(Result::is_ok));
    assert_eq!(commits.try_iter().collect::<Vec<_>>(), [51]);
}

#[tokio::test]
async fn the_database_itself_refuses_to_rewrite_history() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    store.write(|tx| note(tx, "first")).await.unwrap();
    let refused = |sql: &'static str| {
        let store = store.clone();
        async move {
            let result = store.write(move |tx| Ok::<_, StoreError>(tx.connection.execute_batch(sql)?)).await;
            result.unwrap_err().to_string()
        }
    };
    assert!(refused("UPDATE audit SET who = 'x'").await.contains("append-only"));
    assert!(refused("DELETE FROM audit").await.contains("append-only"));
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir).close().await;
    let path = dir.path().join("aye.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Store::open(&path, |_| {}), Err(OpenError::Newer { found: 99, .. })));
    assert!(matches!(open_to_read(&path), Err(OpenError::Newer { .. })));
}

#[test]
fn the_bundled_sqlite_is_new_enough() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[tokio::test]
async fn commits_are_synced_in_full() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let pragmas = store.write(|tx| {
        let mode: String = tx.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let synchronous: i64 = tx.connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        Ok::<_, StoreError>((mode, synchronous))
    });
    assert_eq!(pragmas.await.unwrap(), ("wal".to_owned(), 2));
}
