use super::sql::params;
use super::*;
use rusqlite::{Connection, StatementStatus};
use serde_json::json;
use std::sync::mpsc;
use test_databases::{BY_HAND, is_postgres, new_home, new_home_on_sqlite};

fn now() -> jiff::Timestamp {
    jiff::Timestamp::from_second(1).unwrap()
}

fn note(tx: &mut Tx, kind: &str) -> Result<(), StoreError> {
    tx.audit(now(), kind, "test", None, None, json!({}))
}

fn open(dir: &tempfile::TempDir) -> Store {
    open_telling(dir, |_| {})
}

/// On a thread of its own: nobody can wait for a server in an asynchronous context.
fn open_telling(dir: &tempfile::TempDir, committed: impl Fn(News) + Send + 'static) -> Store {
    let home = Home::at(dir.path());
    let open = || Store::open(&home, now(), committed).unwrap();
    std::thread::scope(|scope| scope.spawn(open).join().unwrap())
}

fn look(dir: &tempfile::TempDir) -> Reader {
    open_to_look(&Home::at(dir.path())).unwrap().unwrap()
}

#[tokio::test]
async fn a_change_that_fails_leaves_nothing_behind_and_spoils_nobody_elses() {
    let dir = new_home();
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
        Ok::<_, StoreError>(())
    };
    look(&dir).trail(&AuditFilter::default(), each).unwrap();
    assert_eq!(kinds, ["chain.keyed", "first", "second"]);
    let against = verify::Against::in_home(&Home::at(dir.path())).unwrap();
    assert_eq!(look(&dir).verify(&against, |_, _| {}).unwrap().lines, 3);
}

#[tokio::test]
async fn a_change_or_a_look_that_panics_is_a_fault_and_spoils_nobody_elses() {
    let dir = new_home();
    let store = open(&dir);
    let bad = store.write(|tx| {
        note(tx, "never")?;
        panic!("a bug")
    });
    let (good, bad) = tokio::join!(store.write(|tx| note(tx, "first")), bad);
    assert!(matches!((good, bad), (Ok(()), Err::<(), _>(StoreError::Panicked))));
    for _ in 0..=READERS {
        let bad = store.read(|_| -> Result<(), _> { panic!("a bug") });
        assert!(matches!(bad.await, Err(StoreError::Panicked)));
    }
    store.write(|tx| note(tx, "second")).await.unwrap();
    assert_eq!(store.read(|db| audit::chain_head(&db.connection)).await.unwrap().lines, 3);
}

#[tokio::test]
async fn changes_that_wait_share_one_commit() {
    let dir = new_home();
    let (told, commits) = mpsc::sync_channel(100);
    let committed = move |news: News| match news {
        News::Own { group, .. } => told.send(group).unwrap(),
        News::Others(_) => panic!("nobody else writes"),
    };
    let store = open_telling(&dir, committed);
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
    let groups: Vec<_> = commits.try_iter().collect();
    assert_eq!(groups.iter().sum::<usize>(), 51);
    // On a server a group also ends after some milliseconds, because others wait for it.
    assert!(groups.len() == 1 || (is_postgres() && groups.len() < 51), "{groups:?}");
}

#[tokio::test]
async fn the_database_itself_refuses_to_rewrite_history() {
    let dir = new_home();
    let store = open(&dir);
    store.write(|tx| note(tx, "first")).await.unwrap();
    let refused = |sql: &'static str| {
        let store = store.clone();
        async move {
            let result = store.write(move |tx| tx.connection.run(sql)).await;
            result.unwrap_err().to_string()
        }
    };
    assert!(refused("UPDATE audit SET who = 'x'").await.contains("append-only"));
    assert!(refused("DELETE FROM audit").await.contains("append-only"));
}

#[tokio::test]
async fn the_database_itself_refuses_words_that_it_does_not_know_and_makes_no_table_of_those_it_knows() {
    let dir = new_home_on_sqlite(BY_HAND);
    open(&dir).close().await;
    let database = Connection::open(dir.path().join("aye.db")).unwrap();
    let ask = |kind: &str, state: &str| {
        format!(
            "INSERT INTO asks (id, agent, key, cwd, kind, body, digest, created_at, state)
             VALUES ('i', 'a', 'k', '/', '{kind}', '{{}}', 'd', 1, '{state}')"
        )
    };
    let change =
        |kind: &str| format!("INSERT INTO outbox (type, subject, detail) VALUES ('{kind}', 's', '')");
    for unknown in [ask("bribe", "open"), ask("plan", "forged"), change("rumour")] {
        let refused = database.execute_batch(&unknown).unwrap_err().to_string();
        assert!(refused.contains("CHECK constraint failed"), "{unknown}: {refused}");
    }
    for known in [ask("plan", "open"), change("notice")] {
        let mut explained = database.prepare(&format!("EXPLAIN {known}")).unwrap();
        let steps = explained.query_map([], |row| row.get::<_, String>("opcode")).unwrap();
        let steps: Vec<_> = steps.map(Result::unwrap).collect();
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{known}: {steps:?}");
    }
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    let dir = new_home_on_sqlite(BY_HAND);
    open(&dir).close().await;
    let path = dir.path().join("aye.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(
        Store::open(&Home::at(dir.path()), now(), |_| {}),
        Err(OpenError::Newer { found: 99, .. })
    ));
    assert!(matches!(open_to_read(&path), Err(OpenError::Newer { .. })));
}

#[test]
fn the_bundled_sqlite_is_new_enough() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[tokio::test]
async fn commits_are_synced_in_full() {
    let dir = new_home();
    let store = open(&dir);
    let setting = async |sql: &'static str| {
        let value = store.write(|tx| tx.connection.one_value::<rusqlite::types::Value>(sql, params![])).await;
        value.unwrap()
    };
    match is_postgres() {
        false => {
            assert_eq!(setting("PRAGMA journal_mode").await, "wal".to_owned().into());
            assert_eq!(setting("PRAGMA synchronous").await, 2.into());
            assert_eq!(setting("PRAGMA temp_store").await, 2.into());
        }
        true => {
            let sql = "SELECT current_setting('synchronous_commit')";
            assert_eq!(setting(sql).await, "on".to_owned().into());
        }
    }
}

#[tokio::test]
async fn lists_find_by_state_by_agent_and_by_how_an_id_begins() {
    let dir = new_home();
    let store = open(&dir);
    let put = |tx: &mut Tx| {
        for agent in ["x", "y"] {
            tx.put_agent(&AgentRow::unannounced(agent.try_into().unwrap(), now()))?;
        }
        for (id, agent) in [("b7", "x"), ("aa", "x"), ("b", "y"), ("bz9", "x"), ("c", "y")] {
            let body = json!({"plan": "Go on"});
            let body = aye_core::Body::decode(aye_core::Kind::Plan, body).unwrap();
            let (id, agent, key) =
                (id.try_into().unwrap(), agent.try_into().unwrap(), id.try_into().unwrap());
            let head = aye_core::AskHead::new(id, key, agent, "", &body, now());
            tx.insert_ask(&aye_core::Ask::open(head, body))?;
        }
        let gone = aye_core::State::Withdrawn { why: aye_core::Withdrawal::Gone, answer: None, at: now() };
        let end = |id: &str| tx.end_ask(&tx.ask(&id.try_into().unwrap())?.unwrap(), &gone);
        assert!(end("b")?);
        end("aa")
    };
    assert!(store.write(put).await.unwrap());
    store.close().await;
    let database = look(&dir);
    let check = |state: Option<&str>, agent: Option<&str>, prefix: Option<&str>, expected: &[&str]| {
        let filter = AskFilter {
            state: state.map(str::to_owned),
            agent: agent.map(|agent| agent.try_into().unwrap()),
            id_prefix: prefix.map(str::to_owned),
            limit: 10,
            ..AskFilter::default()
        };
        let found: Vec<_> =
            database.asks(&filter).unwrap().asks.into_iter().map(|ask| String::from(ask.head.id)).collect();
        assert_eq!(found, expected, "{filter:?}");
    };
    check(None, None, None, &["c", "bz9", "b", "aa", "b7"]);
    check(Some("open"), None, None, &["b7", "bz9", "c"]);
    check(Some("open"), Some("x"), None, &["b7", "bz9"]);
    check(Some("withdrawn"), None, None, &["b", "aa"]);
    check(Some("withdrawn"), Some("y"), None, &["b"]);
    check(Some("expired"), None, None, &[]);
    check(Some("answered"), None, None, &[]);
    check(None, None, Some("b"), &["bz9", "b", "b7"]);
    check(Some("open"), Some("x"), Some("b"), &["b7", "bz9"]);
    check(None, None, Some("bz"), &["bz9"]);
    check(Some("ended"), None, None, &["b", "aa"]);
    let older = AskFilter { before: Some("b".try_into().unwrap()), limit: 10, ..AskFilter::default() };
    let older = database.asks(&older).unwrap().asks;
    assert_eq!(older.iter().map(|ask| ask.id.as_str()).collect::<Vec<_>>(), ["aa", "b7"]);
    let mut filter =
        AskFilter { state: Some("open".into()), limit: 10, most_bytes: Some(30), ..AskFilter::default() };
    let mut pages = Vec::new();
    loop {
        let page = database.asks(&filter).unwrap();
        pages.push(page.asks.iter().map(|ask| ask.id.to_string()).collect::<Vec<_>>().join(" "));
        filter.after = page.next();
        if filter.after.is_none() {
            break;
        }
    }
    assert_eq!(pages, ["b7", "bz9", "c"], "19 bytes each: two are too many, and one always fits");
    filter.limit = 2;
    filter.most_bytes = None;
    let page = database.asks(&filter).unwrap();
    assert_eq!((page.asks.len(), page.next().unwrap().as_str()), (2, "bz9"));
}

#[tokio::test]
async fn what_a_start_waits_for_does_not_leave_it_a_trigger_that_is_gone_from_the_file() {
    let dir = new_home_on_sqlite(BY_HAND);
    let home = Home::at(dir.path());
    open(&dir).close().await;
    let other = by_hand::open(&home);
    let added = "CREATE TRIGGER added BEFORE DELETE ON memory BEGIN SELECT RAISE(IGNORE); END";
    other
        .execute_batch(&format!("INSERT INTO memory VALUES ('web', 'k', '1', '{{}}', NULL); {added}"))
        .unwrap();
    let starting = Connection::open(home.database()).unwrap();
    let kept = |connection: &Connection| connection.execute("DELETE FROM memory", []).unwrap() == 0;
    assert!(kept(&starting), "the trigger is read and in force");
    assert!(matches!(sqlite::begin_unchanged(&starting, &home.database()), Err(OpenError::Changed { .. })));
    by_hand::edit_schema(&other, "DELETE FROM sqlite_master WHERE name = 'added'");
    assert!(!kept(&sqlite::begin_unchanged(&starting, &home.database()).unwrap()));
}

#[tokio::test]
async fn a_change_that_did_not_reach_its_row_is_a_fault() {
    let dir = new_home_on_sqlite(BY_HAND);
    let store = open(&dir);
    let agent = || aye_core::AgentId::try_from("agent").unwrap();
    type Change = fn(&mut Tx, &aye_core::AgentId) -> Result<(), StoreError>;
    let put: Change = |tx, agent| {
        let outline = json!({"n": 1, "pause": null, "pass": null});
        tx.put_outline(agent, &serde_json::from_value(outline).unwrap())
    };
    store
        .write(move |tx| {
            tx.put_agent(&AgentRow::unannounced(agent(), now()))?;
            put(tx, &agent())
        })
        .await
        .unwrap();
    let changes: [(&str, Change); 6] = [
        ("INSERT ON audit", |tx, _| note(tx, "never")),
        ("UPDATE ON outlines", put),
        ("DELETE ON outlines", |tx, agent| tx.forget_outline(agent)),
        ("INSERT ON memory", |tx, _| tx.put_memory(aye_core::Surface::Web, "k", "1", &json!({}))),
        ("UPDATE ON commands", |tx, agent| tx.put_command(agent, &json!({})).map(drop)),
        ("UPDATE ON agents", |tx, agent| tx.put_agent(&AgentRow::unannounced(agent.clone(), now()))),
    ];
    for (event, change) in changes {
        let done = store.write(move |tx| {
            let trigger = format!("CREATE TRIGGER added BEFORE {event} BEGIN SELECT RAISE(IGNORE); END");
            tx.connection.sqlite().execute_batch(&trigger)?;
            change(tx, &agent())
        });
        assert!(matches!(done.await, Err(StoreError::Foreign { .. })), "{event}");
    }
}

#[tokio::test]
async fn what_the_policy_asked_for_last_is_not_taken_from_a_trail_that_was_changed() {
    let dir = new_home_on_sqlite(BY_HAND);
    let store = open(&dir);
    let last = async || store.read(Reader::last_proof).await.unwrap();
    assert_eq!(last().await, None);
    for (kind, proof) in [("hub.started", "passkey"), ("policy.read", "none"), ("policy.read", "passkey")] {
        let line = move |tx: &mut Tx| tx.audit(now(), kind, "hub", None, None, json!({ "proof": proof }));
        store.write(line).await.unwrap();
        store.write(|tx| note(tx, "other")).await.unwrap();
        assert_eq!(serde_json::to_value(last().await).unwrap(), proof);
    }
    let newest = "seq = (SELECT max(seq) FROM audit WHERE kind = 'policy.read')";
    let database = by_hand::open(&Home::at(dir.path()));
    by_hand::change_rows(&database, &format!("UPDATE audit SET kind = 'x' WHERE {newest}"));
    assert_eq!(last().await, Some(aye_core::Proof::Passkey));
}

#[tokio::test]
async fn a_statement_is_planned_once_for_all_values() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let read = |reader: &Reader| {
        for id in ["a", "b", "c"] {
            reader.agent(&aye_core::AgentId::try_from(id).unwrap())?;
        }
        let sql::Connection::Sqlite(connection) = &reader.connection else { unreachable!() };
        let used = connection.prepare_cached(&reader.select_agent())?;
        let status = |status| used.get_status(status);
        Ok((status(StatementStatus::Run), status(StatementStatus::RePrepare)))
    };
    assert_eq!(store.read(read).await.unwrap(), (3, 0));
}
