//! Somebody who can write the database puts an earlier state of it back while the hub runs, or another schema for a
//! moment: the hub works with neither.

use super::policy::decision;
use super::*;
use aye_core::trail::{Chain, Line};
use store::by_hand::{change_rows, edit_schema, keep_rows, set_schema_number};

const CHANGED: &str = "not by the hub";

#[track_caller]
fn refused<T>(result: Result<T, Problem>, words: &str) {
    let why = result.err().map(|problem| problem.to_string()).unwrap_or_default();
    assert!(why.contains(words), "{why:?}");
}

#[tokio::test]
async fn on_a_database_that_was_put_back_to_an_earlier_state_the_hub_neither_reads_nor_writes() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let (granted, denied) = (desk.run("k1", "make").await, desk.run("k2", "rm -rf build").await);
    desk.decide(&granted, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    let kept = keep_rows(&desk.database());
    desk.hub.revoke_grant(format!("g-{}", granted.id), "ann".into()).await.unwrap();
    desk.decide(&denied, denial("no")).await.unwrap();
    kept.put_back(&desk.database());
    for _ in 0..2 {
        refused(desk.hub.grants().await, "earlier state");
        refused(desk.hub.ask(&denied.id).await, "earlier state");
        refused(desk.decide(&denied, json!({"decision": "allow", "scope": "once"})).await, "earlier state");
        refused(desk.hub.raise(raise("agent", "k3", "1. x", None)).await, "earlier state");
        refused(desk.hub.first_passkey_code().await, "earlier state");
    }
    desk.is_found("is not the one that chain.head names");
    desk.crash_and_restart().await;
    desk.is_found("lines that it had written before were gone");
}

#[tokio::test]
async fn a_line_that_is_taken_from_the_end_of_the_trail_or_added_to_it_ends_all_writing() {
    for change in [
        "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
        "INSERT INTO audit SELECT seq + 1, at, kind, who, agent, ask, detail, hash FROM audit ORDER BY seq DESC LIMIT 1",
        "UPDATE audit SET hash = '0' WHERE seq = (SELECT max(seq) FROM audit)",
    ] {
        let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        change_rows(&desk.database(), change);
        refused(desk.hub.raise(raise("agent", "k", "1. x", None)).await, "not the newest of the trail");
        desk.verified().unwrap_err();
    }
}

const KEEPS_OUTLINES: &str = "CREATE TRIGGER added BEFORE DELETE ON outlines BEGIN SELECT RAISE(IGNORE); END";

#[tokio::test]
async fn a_trigger_that_only_memory_has_is_not_in_force() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let first = desk.plan("a", "1. x").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    desk.preapprove(PlanApproval::Allow, &first).await.unwrap();
    // Readers know the new number; the writer reads the trigger with it and refuses, and then it is gone from the file.
    set_schema_number(&desk.database(), 1);
    desk.hub.grants().await.unwrap();
    edit_schema(
        &desk.database(),
        &format!("INSERT INTO sqlite_master VALUES ('trigger', 'added', 'outlines', 0, '{KEEPS_OUTLINES}')"),
    );
    refused(desk.hub.raise(raise("agent", "b", "1. x", None)).await, CHANGED);
    edit_schema(&desk.database(), "DELETE FROM sqlite_master WHERE name = 'added'");
    assert_eq!(decision(&desk.plan("c", "1. x").await), "allow");
    assert_eq!(decision(&desk.plan("d", "1. x").await), "open");
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_table_that_only_memory_has_is_not_read() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    desk.hub.revoke_grant(format!("g-{}", ask.id), "ann".into()).await.unwrap();
    let database = desk.database();
    let table = "name = 'grants'";
    let text: String = database
        .query_row(&format!("SELECT sql FROM sqlite_master WHERE {table}"), [], |row| row.get(0))
        .unwrap();
    let index: (i64, String) = database
        .query_row("SELECT rootpage, sql FROM sqlite_master WHERE name = 'grants_in_force'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let other = text.replace("ended_at ", "ended_xx ").replace("mac TEXT", "mac TEXT, ended_at INTEGER");
    assert_ne!(other, text);
    set_schema_number(&database, 1);
    edit_schema(
        &database,
        &format!(
            "UPDATE sqlite_master SET sql = '{other}' WHERE {table};
             DELETE FROM sqlite_master WHERE name = 'grants_in_force'"
        ),
    );
    refused(desk.hub.grants().await, CHANGED);
    refused(desk.hub.raise(raise("agent", "b", "1. x", None)).await, CHANGED);
    edit_schema(
        &database,
        &format!(
            "UPDATE sqlite_master SET sql = '{text}' WHERE {table};
             INSERT INTO sqlite_master VALUES ('index', 'grants_in_force', 'grants', {}, '{}')",
            index.0, index.1
        ),
    );
    assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
    assert_eq!(decision(&desk.run("k2", "make").await), "open");
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_changed_schema_under_the_number_of_the_one_before_is_seen() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    desk.database().execute_batch(KEEPS_OUTLINES).unwrap();
    for _ in 0..2 {
        refused(desk.hub.raise(raise("agent", "b", "1. x", None)).await, CHANGED);
        refused(desk.hub.grants().await, CHANGED);
        set_schema_number(&desk.database(), -1);
    }
}

#[tokio::test]
async fn a_trigger_with_the_name_of_sqlites_statistics_is_seen() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    edit_schema(
        &desk.database(),
        "INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_stat1', 'outlines', 0,
         'CREATE TRIGGER sqlite_stat1 BEFORE DELETE ON outlines BEGIN SELECT RAISE(IGNORE); END')",
    );
    set_schema_number(&desk.database(), 1);
    refused(desk.hub.raise(raise("agent", "b", "1. x", None)).await, CHANGED);
    refused(desk.hub.grants().await, CHANGED);
}

/// As the hub wrote lines before it had a key.
fn rewritten(lines: &[(u64, i64, String, String)]) -> Vec<String> {
    let mut chain = Chain::default();
    let rewrite = |(seq, at, kind, detail): &(u64, i64, String, String)| {
        let line = Line {
            seq: *seq,
            at: Timestamp::from_millisecond(*at).unwrap(),
            kind: kind.clone(),
            who: "hub".into(),
            agent: None,
            ask: None,
            detail: serde_json::from_str(detail).unwrap(),
        };
        chain = Chain { head: line.hash(&chain.head, None), lines: line.seq };
        chain.head.clone()
    };
    lines.iter().map(rewrite).collect()
}

#[tokio::test]
async fn a_trail_that_was_written_anew_without_the_key_is_found_after_a_start_too() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    desk.run("k", "make").await;
    desk.hub.close().await;
    let database = desk.database();
    let (newest, hash): (u64, String) = database
        .query_row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    // All lines are somebody else's, and one more; only the hash that `chain.head` names stays until the hub has started.
    let mut lines: Vec<_> =
        (1..=newest + 1).map(|seq| (seq, 1_000_000, "hub.note".to_owned(), "{}".to_owned())).collect();
    lines[0].2 = "hub.started".into();
    let hashes = rewritten(&lines);
    let row = |((seq, at, kind, detail), hash): (&(u64, i64, String, String), &String)| {
        format!("INSERT INTO audit VALUES ({seq}, {at}, '{kind}', 'hub', NULL, NULL, '{detail}', '{hash}')")
    };
    let all: Vec<_> = lines.iter().zip(&hashes).map(row).collect();
    let kept = format!("UPDATE audit SET hash = '{hash}' WHERE seq = {newest}");
    change_rows(&database, &format!("DELETE FROM audit; {}; {kept}", all.join("; ")));
    desk.hub = open(&desk.dir, &desk.clock).await;
    let mended = &hashes[usize::try_from(newest).unwrap() - 1];
    change_rows(&database, &format!("UPDATE audit SET hash = '{mended}' WHERE seq = {newest}"));
    desk.verified().unwrap_err();
    desk.crash_and_restart().await;
    desk.verified().unwrap_err();
}
