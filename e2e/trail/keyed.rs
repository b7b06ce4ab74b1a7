//! Lines that are bound with the hub's own key: who can write the database still cannot rewrite the trail.

use super::*;
use aye_core::trail::{ChainKey, GENESIS, Line};
use rusqlite::Connection;

fn lines(database: &Connection) -> Vec<Line> {
    let mut statement =
        database.prepare("SELECT seq, at, kind, who, agent, ask, detail FROM audit ORDER BY seq").unwrap();
    let rows = statement.query_map([], |row| {
        Ok(Line {
            seq: row.get(0)?,
            at: jiff::Timestamp::from_millisecond(row.get(1)?).unwrap(),
            kind: row.get(2)?,
            who: row.get(3)?,
            agent: row.get(4)?,
            ask: row.get(5)?,
            detail: serde_json::from_str(&row.get::<_, String>(6)?).unwrap(),
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Writes this trail instead, with hashes that fit: from `keyed_from` on with this key.
fn rewrite(database: &Connection, mut lines: Vec<Line>, keyed_from: u64, key: Option<&ChainKey>) {
    database.execute_batch("DELETE FROM audit").unwrap();
    let mut previous = GENESIS.to_owned();
    for (line, seq) in lines.iter_mut().zip(1..) {
        line.seq = seq;
        previous = line.hash(&previous, key.filter(|_| seq >= keyed_from));
        let sql = "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let at = line.at.as_millisecond();
        let row =
            (seq, at, &line.kind, &line.who, &line.agent, &line.ask, line.detail.to_string(), &previous);
        database.execute(sql, row).unwrap();
    }
}

fn without(lines: Vec<Line>, kind: &str) -> Vec<Line> {
    lines.into_iter().filter(|line| line.kind != kind).collect()
}

#[test]
fn a_changed_answer_with_a_recomputed_chain_is_found() {
    let (hub, _) = trail();
    let database = unguarded(&hub);
    database.execute_batch("UPDATE asks SET answer = replace(answer, 'yes', 'no')").unwrap();
    let told: Vec<_> = lines(&database)
        .into_iter()
        .map(|line| match line.kind.as_str() {
            "ask.answered" => {
                let detail = line.detail.to_string().replace("yes", "no");
                Line { detail: serde_json::from_str(&detail).unwrap(), ..line }
            }
            _ => line,
        })
        .collect();
    // As before there were keys; as if there had never been one; with a key of their own.
    rewrite(&database, told.clone(), 1, None);
    is_found(&hub, "line 1 is not what was written");
    rewrite(&database, without(told.clone(), "chain.keyed"), 1, None);
    is_found(&hub, "the line that begins it is missing");
    rewrite(&database, told.clone(), 1, Some(&ChainKey::new([7; 32])));
    is_found(&hub, "line 1 is not what was written");
    let mut own = told;
    own[0].detail["key"] = json!(ChainKey::new([7; 32]).id());
    rewrite(&database, own, 1, Some(&ChainKey::new([7; 32])));
    is_found(&hub, "line 1 should begin it with the key in chain.key");

    // Not even without the key does a trail that has none pass for one of an earlier version.
    rewrite(&database, without(lines(&database), "chain.keyed"), 1, None);
    fs::remove_file(hub.home.join("chain.key")).unwrap();
    is_found(&hub, "the line that begins it is missing");
}

#[test]
fn the_line_that_begins_the_keyed_part_is_there_once_and_stays_where_it_is() {
    let (hub, _) = trail();
    let file = aye::home::Home::at(&hub.home).chain_key().unwrap().unwrap();
    let database = unguarded(&hub);
    let told = lines(&database);
    assert_eq!(told[0].kind, "chain.keyed");
    // Whatever is tried, it is tried with the right key, which is more than a forger has.
    let (mut moved, mut twice) = (told.clone(), told.clone());
    moved.swap(0, 1);
    rewrite(&database, moved, 2, Some(&file.key));
    is_found(&hub, "line 2 begins it where chain.key does not");
    twice.insert(3, told[0].clone());
    rewrite(&database, twice, 1, Some(&file.key));
    is_found(&hub, "line 4 says a second time that it begins");
    let mut changed = told.clone();
    changed.insert(
        3,
        Line { kind: "chain.rekeyed".into(), detail: json!({"key": "another"}), ..told[0].clone() },
    );
    rewrite(&database, changed, 1, Some(&file.key));
    is_found(&hub, "line 4 begins it where chain.key does not");
    rewrite(&database, told, 1, Some(&file.key));
    drop(database);
    assert_eq!(code(&hub.aye(&["verify"])), Some(0));
}

#[test]
fn without_its_key_the_keyed_part_is_said_to_be_unchecked() {
    let (hub, _) = trail();
    fs::remove_file(hub.home.join("chain.key")).unwrap();
    let verified = hub.aye(&["verify"]);
    assert_eq!(code(&verified), Some(6), "{verified:?}");
    let words = printed(&verified);
    assert!(words.contains("a part of the trail cannot be checked"), "{words}");
    assert!(words.contains("are keyed, and chain.key is not there"), "{words}");
    tamper(&hub, "UPDATE tokens SET role = 'viewer' WHERE role = 'operator'");
    is_found(&hub, "it is not the one that was made");
}

#[test]
fn a_lost_key_is_replaced_and_the_trail_and_verify_say_so() {
    let (mut hub, _) = trail();
    let key = || fs::read_to_string(hub.home.join("chain.key")).unwrap();
    let lost = key();
    fs::remove_file(hub.home.join("chain.key")).unwrap();
    hub.restart();
    raise(&hub, "k3", "question", yes_or_no());
    assert_ne!(fs::read_to_string(hub.home.join("chain.key")).unwrap(), lost);
    let told = lines_of(&hub.aye(&["log", "--kind", "chain.", "--json"]));
    let kinds: Vec<_> = told.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["chain.keyed", "chain.rekeyed"]);
    assert_eq!(told[1]["detail"]["lost"], told[0]["detail"]["key"]);
    let verified = hub.aye(&["verify"]);
    assert_eq!(code(&verified), Some(6), "{verified:?}");
    let words = printed(&verified);
    assert!(words.contains("the hub made a new key, because"), "{words}");
    assert!(words.contains("the key they were written with is lost"), "{words}");

    // What was written since is bound with the new one.
    assert!(hub.stop().success());
    tamper(&hub, "UPDATE audit SET who = 'Mallory' WHERE seq = (SELECT max(seq) FROM audit)");
    is_found(&hub, "is not what was written");
}

#[test]
fn a_trail_that_is_not_the_hubs_own_is_found_before_and_after_the_hub_starts_with_it() {
    type Change = fn(&Connection);
    let changes: [(&str, Change); 3] = [
        ("without a key", |database| {
            rewrite(database, without(lines(database), "chain.keyed"), 1, None);
        }),
        ("emptied", |database| {
            database.execute_batch("DELETE FROM audit; DELETE FROM asks; DELETE FROM tokens").unwrap();
        }),
        ("cut off", |database| {
            database.execute_batch("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)").unwrap();
        }),
    ];
    for (name, change) in changes {
        let (mut hub, _) = trail();
        change(&unguarded(&hub));
        let found = hub.aye(&["verify"]);
        assert_eq!(code(&found), Some(1), "{name}: {found:?}");
        for _ in 0..2 {
            hub.restart();
            is_found(&hub, "lines that it had written before were gone");
            assert!(hub.stop().success());
        }
        // Only who can reach more than the database can say that this is well.
        fs::remove_file(hub.home.join("chain.key")).unwrap();
        hub.restart();
        let accepted = hub.aye(&["verify"]);
        assert_eq!(code(&accepted), Some(6), "{name}: {accepted:?}");
    }
}

#[test]
fn a_database_that_was_removed_together_with_its_key_begins_anew() {
    let (mut hub, _) = trail();
    for name in ["aye.db", "chain.key"] {
        fs::remove_file(hub.home.join(name)).unwrap();
    }
    hub.restart();
    let verified = hub.aye(&["verify"]);
    assert_eq!(code(&verified), Some(0), "{verified:?}");
}

#[test]
fn a_hub_that_is_killed_between_its_key_and_the_line_about_it_writes_the_line_at_the_next_start() {
    let mut hub = Hub::start();
    assert!(hub.stop().success());
    tamper(&hub, "DELETE FROM audit; DELETE FROM tokens");
    // What comes after the line.
    fs::remove_file(hub.home.join("chain.head")).unwrap();
    hub.restart();
    assert_eq!(code(&hub.aye(&["verify"])), Some(0));
    assert_eq!(printed(&hub.aye(&["log", "--kind", "chain."])).lines().count(), 1);
}
