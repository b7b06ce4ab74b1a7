//! The audit trail: it tells all that happened, and shows whatever was changed behind its back.

mod keyed;
mod rows;

use crate::support::{Hub, aye, code, complained, json_of, printed, saying, yes_or_no};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

fn id(ask: &Value) -> &str {
    ask["id"].as_str().unwrap()
}

fn raise(hub: &Hub, key: &str, kind: &str, body: Value) -> Value {
    hub.raise(&hub.agent("a1"), "a1", key, kind, body)
}

fn lines_of(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    printed(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn log_tells_what_happened_and_finds_it_by_agent_ask_person_kind_and_time() {
    let mut hub = Hub::start();
    for agent in ["nightly", "daily"] {
        let token = hub.agent(agent);
        let ask = hub.raise(&token, agent, "k1", "question", yes_or_no());
        let token = json!({"role": "operator", "name": format!("Ann of {agent}")});
        let token = hub.post("/api/tokens", &hub.operator(), token).body["token"].clone();
        let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
        let path = format!("/api/asks/{}/answer", id(&ask));
        assert_eq!(hub.post(&path, token.as_str().unwrap(), call).status, 200);
    }
    let ask = json_of(&hub.aye(&["list", "--all", "--json"]))["asks"][0].clone();
    let log = |words: &[&str]| {
        let lines = lines_of(&aye(&hub.home).args(["log", "--json"]).args(words).output().unwrap());
        lines.iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = log(&[]);
    assert_eq!(
        all,
        [
            "chain.keyed",
            "token.created",
            "hub.started",
            "token.created",
            "agent.registered",
            "ask.raised",
            "token.created",
            "ask.answered",
            "token.created",
            "agent.registered",
            "ask.raised",
            "token.created",
            "ask.answered"
        ]
    );
    assert_eq!(
        log(&["--agent", "nightly"]),
        ["token.created", "agent.registered", "ask.raised", "ask.answered"]
    );
    assert_eq!(log(&["--ask", id(&ask)]), ["ask.raised", "ask.answered"]);
    assert_eq!(log(&["--who", "ann of DAILY"]), ["ask.answered"]);
    assert_eq!(log(&["--who", "ann"]), ["ask.answered", "ask.answered"]);
    assert_eq!(log(&["--kind", "ask"]), ["ask.raised", "ask.answered", "ask.raised", "ask.answered"]);
    assert_eq!(log(&["--kind", "ask.raised", "--agent", "daily"]), ["ask.raised"]);
    assert_eq!(log(&["--limit", "2"]), all[11..]);
    assert_eq!(log(&["--since", "1h"]), all);
    assert_eq!(log(&["--until", "1h"]), Vec::<String>::new());
    assert_eq!(log(&["--since", "2020-01-01T00:00:00Z", "--until", "3d"]), Vec::<String>::new());
    assert_eq!(
        log(&["--since", ask["ended_at"].as_str().unwrap(), "--kind", "ask.answered", "--limit", "1"]),
        ["ask.answered"]
    );
    assert_eq!(
        log(&["--until", ask["ended_at"].as_str().unwrap(), "--ask", id(&ask), "--kind", "ask.answered"]),
        Vec::<String>::new()
    );
    assert_eq!(log(&["--kind", "'; DROP TABLE audit; --"]), Vec::<String>::new());
    let refused = hub.aye(&["log", "--since", "yesterday"]);
    assert_eq!(code(&refused), Some(1));
    assert!(
        complained(&refused).contains("\"yesterday\" is neither a duration like 2h nor a time"),
        "{refused:?}"
    );

    let words = printed(&hub.aye(&["log", "--ask", id(&ask)]));
    assert!(words.contains("Ann of daily (api)  yes"), "{words}");
    let with_hub = printed(&hub.aye(&["log", "--json"]));
    assert!(hub.stop().success());
    let without = printed(&hub.aye(&["log", "--json"]));
    assert!(without.starts_with(&with_hub), "{without}");
    assert!(without.lines().last().unwrap().contains("hub.stopped"));
}

/// A home with a trail worth tampering with, and no hub.
fn trail() -> (Hub, Value) {
    let mut hub = Hub::start();
    let ask = raise(&hub, "k1", "question", yes_or_no());
    raise(&hub, "k2", "question", yes_or_no());
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    let delivered = json!({"receipt": "delivered", "evidence": "as it should be"});
    let told = hub.post(&format!("/api/asks/{}/receipt", id(&ask)), &hub.agent("a1"), delivered);
    assert_eq!(told.status, 200);
    assert!(hub.stop().success());
    (hub, told.body)
}

fn head(output: &Output) -> String {
    let words = printed(output);
    words.lines().last().unwrap().strip_prefix("head ").unwrap().to_owned()
}

#[test]
fn verify_works_without_a_hub_and_knows_a_head_noted_earlier() {
    let (mut hub, _) = trail();
    let whole = hub.aye(&["verify"]);
    assert!(printed(&whole).starts_with("The trail is whole: "), "{whole:?}");
    let noted = head(&whole);
    hub.restart();
    raise(&hub, "k3", "question", yes_or_no());
    let later = hub.aye(&["verify", "--contains", &noted]);
    assert_eq!(code(&later), Some(0), "{later:?}");
    assert_ne!(head(&later), noted);
    let foreign = hub.aye(&["verify", "--contains", &"0".repeat(64)]);
    assert_eq!((code(&foreign), printed(&foreign)), (Some(1), String::new()));
    assert!(complained(&foreign).contains("does not contain that head"), "{foreign:?}");

    // A cut tail fits into itself; what shows it is a head that was noted, by a person or by the hub beside the database,
    // and the hub's tag over what stood then.
    let newest = head(&later);
    assert!(hub.stop().success());
    tamper(&hub, &format!("DELETE FROM audit WHERE seq > (SELECT seq FROM audit WHERE hash = '{newest}')"));
    is_found(&hub, "the end of the trail was cut off");
    fs::remove_file(hub.home.join("chain.head")).unwrap();
    is_found(&hub, "are not as the hub left them");
    tamper(&hub, "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)");
    tamper(&hub, "DELETE FROM asks WHERE key = 'k3'");
    is_found(&hub, "are not as the hub left them");
    let cut = hub.aye(&["verify", "--contains", &newest]);
    assert!(complained(&cut).contains("does not contain that head"), "{cut:?}");
}

/// Changes the database behind the program's back, as its owner always can.
fn tamper(hub: &Hub, sql: &str) {
    unguarded(hub).execute_batch(sql).unwrap();
}

/// The database without anything in it that refuses changes; who is done with it covers the traces.
struct Unguarded {
    database: rusqlite::Connection,
    triggers: Vec<String>,
}

fn unguarded(hub: &Hub) -> Unguarded {
    let database = rusqlite::Connection::open(hub.home.join("aye.db")).unwrap();
    let triggers: Vec<(String, String)> = {
        let sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'";
        let mut names = database.prepare(sql).unwrap();
        let rows = names.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    for (name, _) in &triggers {
        database.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    database.pragma_update(None, "foreign_keys", false).unwrap();
    Unguarded { database, triggers: triggers.into_iter().map(|(_, sql)| sql).collect() }
}

impl std::ops::Deref for Unguarded {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &Self::Target {
        &self.database
    }
}

impl Drop for Unguarded {
    fn drop(&mut self) {
        self.database.execute_batch(&self.triggers.join(";")).unwrap();
    }
}

/// Verify refuses, and says this.
fn is_found(hub: &Hub, why: &str) {
    let broken = hub.aye(&["verify"]);
    assert_eq!((code(&broken), printed(&broken)), (Some(1), String::new()), "{broken:?}");
    let words = complained(&broken);
    assert!(words.starts_with("aye: the trail is not whole: ") && words.contains(why), "{why}: {words}");
}

#[test]
fn verify_finds_whatever_was_changed_behind_the_trails_back() {
    let cases = [
        (r#"UPDATE asks SET answer = replace(answer, 'yes', 'no')"#, "did not end as the trail says"),
        (
            r#"UPDATE asks SET by = '{"name":"Mallory","surface":"web"}' WHERE by IS NOT NULL"#,
            "did not end as the trail says",
        ),
        ("UPDATE asks SET ended_at = ended_at - 1000", "did not end as the trail says"),
        (
            "UPDATE asks SET state = 'open', answer = NULL, by = NULL, ended_at = NULL, receipt = NULL",
            "did not end as the trail says",
        ),
        (
            "UPDATE asks SET state = 'expired', why = 'deadline', ended_at = 1, receipt = 'pending' WHERE key = 'k2'",
            "behind the trail's back",
        ),
        ("UPDATE asks SET receipt = 'confirmed' WHERE key = 'k1'", "its receipt is not the one in the trail"),
        ("UPDATE asks SET evidence = 'trust me' WHERE key = 'k1'", "its receipt is not the one in the trail"),
        (
            "UPDATE asks SET body = replace(body, 'Go on?', 'Stop?')",
            "its text is not the one that was raised",
        ),
        ("UPDATE asks SET key = 'k9' WHERE key = 'k2'", "it was not raised as the trail says"),
        ("DELETE FROM asks WHERE key = 'k2'", "the trail knows it, the database does not"),
        (
            "INSERT INTO asks (n, id, agent, key, cwd, tool_use_id, kind, body, digest, created_at, deadline, state, answer, by, answer_key, why, ended_at, receipt, evidence, sub_agent) SELECT 99, 'forged', agent, 'k9', cwd, tool_use_id, kind, body, digest, created_at, deadline, state, answer, by, answer_key, why, ended_at, receipt, evidence, sub_agent FROM asks WHERE key = 'k2'",
            "behind the trail's back",
        ),
        ("UPDATE audit SET who = 'Mallory (web)' WHERE kind = 'ask.answered'", "is not what was written"),
        ("UPDATE audit SET at = at + 1 WHERE seq = 2", "line 2 is not what was written"),
        (
            "UPDATE audit SET detail = replace(detail, 'yes', 'no') WHERE kind = 'ask.answered'",
            "is not what was written",
        ),
        (
            "UPDATE audit SET hash = substr(hash, 2) || substr(hash, 1, 1) || 'x' WHERE seq = 3",
            "line 3 is not what was written",
        ),
        ("DELETE FROM audit WHERE seq = 1", "line 1 is missing: line 2 is in its place"),
        ("DELETE FROM audit WHERE kind = 'ask.raised'", "is missing"),
        ("UPDATE audit SET detail = 'not JSON' WHERE seq = 4", "cannot read"),
    ];
    let (hub, _) = trail();
    let kept = fs::read(hub.home.join("aye.db")).unwrap();
    for (sql, why) in cases {
        fs::write(hub.home.join("aye.db"), &kept).unwrap();
        assert_eq!(code(&hub.aye(&["verify"])), Some(0));
        tamper(&hub, sql);
        let broken = hub.aye(&["verify"]);
        assert_eq!((code(&broken), printed(&broken)), (Some(1), String::new()), "{sql}");
        let words = complained(&broken);
        assert!(words.starts_with("aye: the trail is not whole: "), "{sql}: {words}");
        assert_eq!(words.matches(why).count(), 1, "{sql}: {words}");
        let doctor = json_of(&hub.aye(&["doctor", "--json"]));
        let trail = doctor["findings"].as_array().unwrap().iter().find(|finding| finding["about"] == "trail");
        assert_eq!(trail.unwrap()["fine"], false, "{sql}");
    }
}

#[test]
fn the_database_itself_refuses_to_change_what_was_written() {
    let (hub, _) = trail();
    let database = rusqlite::Connection::open(hub.home.join("aye.db")).unwrap();
    for (sql, why) in [
        ("UPDATE audit SET who = 'x'", "the audit trail is append-only"),
        ("DELETE FROM audit", "the audit trail is append-only"),
        ("UPDATE asks SET answer = 'x' WHERE key = 'k1'", "an ended ask stays as it ended"),
        ("UPDATE asks SET state = 'open' WHERE key = 'k1'", "an ended ask stays as it ended"),
        ("UPDATE asks SET body = 'x' WHERE key = 'k2'", "an ask is immutable once raised"),
        ("DELETE FROM asks", "asks are kept"),
    ] {
        let refused = database.execute(sql, []).unwrap_err().to_string();
        assert_eq!(refused, why, "{sql}");
    }
    assert_eq!(code(&hub.aye(&["verify"])), Some(0));
}
