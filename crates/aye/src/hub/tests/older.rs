//! A home of the version before displays were made by the hub: its asks have an adapter's display inside the body and
//! inside the digest.

use super::*;
use aye_core::RaisedBody;
use aye_core::trail::{Chain, Line};

const SCHEMA: [&str; 4] = [
    include_str!("../../store/sqlite/migrations/0001_ground.sql"),
    include_str!("../../store/sqlite/migrations/0002_counts.sql"),
    include_str!("../../store/sqlite/migrations/0003_sub_agents.sql"),
    include_str!("../../store/sqlite/migrations/0004_telegram.sql"),
];

/// As an adapter of that version raised it, and as that hub wrote it down.
fn lying() -> Value {
    json!({"tool": "Bash", "input": {"command": "bash evil.sh"},
        "display": {"kind": "command", "text": "git status"},
        "scopes": [{"scope": "once"}, {"scope": "always", "rule": "only git status", "kept_by": "hub"}]})
}

fn digest(body: &Value) -> String {
    let whole = json!({"kind": "permission", "cwd": "/src", "body": body});
    format!("sha256:{}", aye_core::digest::sha256_hex(aye_core::digest::canonical(&whole).as_bytes()))
}

/// Two asks, one open and one answered, with their trail.
fn write_old_home(dir: &std::path::Path) {
    let database = store::by_hand::open(&Home::at(dir));
    for (n, migration) in SCHEMA.iter().enumerate() {
        database.execute_batch(migration).unwrap();
        database.pragma_update(None, "user_version", n + 1).unwrap();
    }
    let mut chain = Chain::default();
    let mut audit = |kind: &str, who: &str, ask: Option<&str>, at: i64, detail: Value| {
        let line = Line {
            seq: chain.lines + 1,
            at: Timestamp::from_millisecond(at).unwrap(),
            kind: kind.into(),
            who: who.into(),
            agent: Some("claude-1".into()),
            ask: ask.map(str::to_owned),
            detail,
        };
        let hash = line.hash(&chain.head, None);
        let row =
            (line.seq, at, &line.kind, &line.who, &line.agent, &line.ask, line.detail.to_string(), &hash);
        database.execute("INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", row).unwrap();
        chain = Chain { head: hash, lines: line.seq };
    };
    let agent = "INSERT INTO agents (id, kind, reach, host, cwd, title, report, created_at)
        VALUES ('claude-1', 'claude', 'driven', 'h', '/src', 't', 'working', 1000)";
    database.execute(agent, []).unwrap();
    audit("agent.registered", "claude-1", None, 1000, json!({"kind": "claude"}));
    let (body, digest) = (lying(), digest(&lying()));
    for (id, key, at) in [("old1", "k1", 2000), ("old2", "k2", 3000)] {
        let ask = "INSERT INTO asks (id, agent, key, cwd, kind, body, digest, created_at)
            VALUES (?1, 'claude-1', ?2, '/src', 'permission', ?3, ?4, ?5)";
        database.execute(ask, (id, key, body.to_string(), &digest, at)).unwrap();
        let detail = json!({"kind": "permission", "key": key, "digest": digest, "deadline": null});
        audit("ask.raised", "claude-1", Some(id), at, detail);
    }
    let (answer, by) =
        (json!({"decision": "allow", "scope": "once"}), json!({"name": "ann", "surface": "web"}));
    let ended =
        "UPDATE asks SET state = 'answered', answer = ?1, by = ?2, ended_at = 4000, receipt = 'pending'
        WHERE id = 'old2'";
    database.execute(ended, (answer.to_string(), by.to_string())).unwrap();
    let detail = json!({"digest": digest, "answer": answer, "by": by, "why": null});
    audit("ask.answered", "ann (web)", Some("old2"), 4000, detail);
}

fn verified(dir: &std::path::Path) -> store::verify::Verified {
    let home = Home::at(dir);
    let database = store::open_to_read(&home.database()).unwrap();
    let against = store::verify::Against::in_home(&home).unwrap();
    database.verify(&against, |_, _| {}).unwrap()
}

#[tokio::test]
async fn asks_of_the_version_before_keep_body_and_digest_and_are_shown_by_their_input() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path()).unwrap();
    write_old_home(dir.path());
    let clock = Clock::manual(Timestamp::from_second(1_000_000).unwrap());
    let hub = open(&dir, &clock).await;
    let all = hub.asks(AskFilter { limit: 10, ..AskFilter::default() }).await.unwrap().asks;
    assert_eq!(all.len(), 2);
    for ask in &all {
        assert_eq!(ask.body.to_json(), lying());
        assert_eq!(ask.digest.as_str(), digest(&lying()));
        let shown = serde_json::to_value(ask).unwrap();
        assert_eq!(shown["body"], lying());
        assert_eq!(shown["display"]["text"], "bash evil.sh");
        assert!(!shown["display"].to_string().contains("git status"), "{shown}");
    }
    let open_one = hub.snapshot().await.unwrap().asks.pop().unwrap();
    let words = open_one.display().unwrap().remarks.grants.always.unwrap();
    assert!(words.starts_with("run exactly `bash evil.sh` in /src"), "{words}");
    // Its adapter, which has not been restarted, raises it again.
    let (body, before) = RaisedBody::decode(Kind::Permission, lying()).unwrap();
    let key = Key::try_from("k1").unwrap();
    let again = Raise { body, before, key, ..raise("claude-1", "k1", "x", None) };
    let again = hub.raise(again).await.unwrap();
    assert!(!again.new && again.ask.id == open_one.id);
    let answered = hub.answer(call(&open_one, "ann", "not that", None)).await.unwrap();
    assert_eq!(answered.state.name(), "answered");
    hub.close().await;
    assert_eq!(verified(dir.path()).asks, 2);
}

#[tokio::test]
async fn what_the_machine_says_of_a_file_is_dropped_when_the_ask_ends() {
    let desk = Desk::on_sqlite(BY_HAND).await;
    let body = json!({"tool": "Write", "input": {"file_path": "a", "content": "2\n"},
        "before": {"places": [{"old_start": 1, "new_start": 1, "new_lines": 1, "removed": ["secret"]}]}});
    let (body, before) = RaisedBody::decode(Kind::Permission, body).unwrap();
    let raised = Raise { body, before, ..raise("agent", "k", "x", None) };
    let ask = desk.hub.raise(raised.clone()).await.unwrap().ask;
    let display = ask.display().unwrap();
    assert!(display.before && display.text.contains("-secret\n+2\n"), "{}", display.text);
    assert_eq!(desk.hub.ask(&ask.id).await.unwrap().display().unwrap(), display);
    // The digest does not cover it: the file may have changed when the adapter raises its ask again.
    let again = desk.hub.raise(Raise { before: None, ..raised }).await.unwrap();
    assert!(!again.new && again.ask.digest == ask.digest);
    let ended = desk.answer(&ask, "no").await.unwrap();
    assert!(!ended.display().unwrap().before);
    let database = store::by_hand::open(&Home::at(desk.dir.path()));
    let kept = "SELECT count(*) FROM asks WHERE extras IS NOT NULL";
    assert_eq!(database.query_row(kept, [], |row| row.get::<_, u64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn an_agent_has_so_many_asks_open_and_no_more() {
    let desk = Desk::new().await;
    let ask = |agent: &str, n: usize| desk.hub.raise(raise(agent, &format!("k{n}"), "x", None));
    let all = futures_util::future::join_all((0..1000).map(|n| ask("a", n))).await;
    let first = all.into_iter().map(|raised| raised.unwrap().ask).next().unwrap();
    let refused = ask("a", 1000).await.unwrap_err();
    assert!(matches!(refused, Problem::TooMuchOpen { asks: 1000, .. }), "{refused}");
    assert!(refused.to_string().contains("1000 requests open"), "{refused}");
    assert!(!ask("a", 1).await.unwrap().new, "what is open already is found");
    ask("b", 0).await.unwrap();
    desk.answer(&first, "no").await.unwrap();
    ask("a", 1000).await.unwrap();
}

#[tokio::test]
async fn what_is_shown_beside_an_ask_counts_as_much_as_the_ask() {
    let desk = Desk::new().await;
    let removed = "x".repeat(60_000);
    let body = json!({"tool": "Write", "input": {"file_path": "a", "content": "2\n"},
        "before": {"places": [{"old_start": 1, "new_start": 1, "new_lines": 1, "removed": [removed]}]}});
    let (body, before) = RaisedBody::decode(Kind::Permission, body).unwrap();
    let ask = |n: usize| {
        let raise = raise("a", &format!("k{n}"), "x", None);
        desk.hub.raise(Raise { body: body.clone(), before: before.clone(), ..raise })
    };
    let all = futures_util::future::join_all((0..300).map(ask)).await;
    let taken = all.iter().filter(|raised| raised.is_ok()).count();
    assert!((250..280).contains(&taken), "{taken}");
    let refused = all.into_iter().find_map(Result::err).unwrap();
    assert!(matches!(refused, Problem::TooMuchOpen { .. }), "{refused}");
}
