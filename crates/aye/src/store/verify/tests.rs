//! A database of the version before lines were keyed, whose lines said less.

use super::super::sqlite::{LAST_UNKEYED_SCHEMA, MIGRATIONS};
use super::super::{Store, open_to_read};
use super::*;
use aye_core::trail::Chain;
use aye_core::{AgentId, By, Surface, Text};
use aye_policy::{Exactly, Grant};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

struct Old {
    dir: tempfile::TempDir,
    db: Connection,
    chain: Chain,
}

impl Old {
    fn home(&self) -> Home {
        Home::at(self.dir.path())
    }

    fn line(&mut self, second: i64, kind: &str, who: &str, agent: Option<&str>, detail: Value) {
        let line = Line {
            seq: self.chain.lines + 1,
            at: at(second),
            kind: kind.into(),
            who: who.into(),
            agent: agent.map(str::to_owned),
            ask: None,
            detail,
        };
        let hash = line.hash(&self.chain.head, None);
        let sql = "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7)";
        let detail = line.detail.to_string();
        let row = (line.seq, line.at.as_millisecond(), kind, who, agent, detail, &hash);
        self.db.execute(sql, row).unwrap();
        self.chain = Chain { head: hash, lines: line.seq };
    }

    fn grant(&mut self, id: &str, agent: Option<&str>, ended: Option<i64>) {
        let grant = Grant {
            agent: agent.map(|agent| AgentId::try_from(agent).unwrap()),
            folder: "/src".into(),
            tool: "Bash".into(),
            exactly: Exactly::Command("make".into()),
            expires_at: None,
            by: By::Person { name: Text::try_from("ann").unwrap(), surface: Surface::Web },
            at: at(3),
            proof: aye_core::Proof::None,
        };
        let body = serde_json::to_string(&grant).unwrap();
        let sql = "INSERT INTO grants VALUES (?1, ?2, '/src', 'Bash', ?3, ?4)";
        self.db.execute(sql, (id, agent, body, ended.map(|second| second * 1000))).unwrap();
        let told = json!({"grant": id, "words": grant.words()});
        self.line(3, "grant.made", &grant.by.to_string(), Some("a"), told);
    }

    fn verify(&self) -> Result<Verified, VerifyError> {
        let against = Against::in_home(&self.home()).unwrap();
        open_to_read(&self.home().database()).unwrap().verify(&against, |_, _| {})
    }
}

fn old() -> Old {
    let dir = tempfile::tempdir().unwrap();
    let db = Connection::open(dir.path().join("aye.db")).unwrap();
    for migration in &MIGRATIONS[..LAST_UNKEYED_SCHEMA] {
        db.execute_batch(migration).unwrap();
    }
    db.pragma_update(None, "user_version", LAST_UNKEYED_SCHEMA).unwrap();
    let mut old = Old { dir, db, chain: Chain::default() };
    let token = |id: &str, role: &str, name: &str| json!({"token": id, "role": role, "name": name});
    old.db
        .execute_batch(
            "INSERT INTO tokens VALUES ('owner-1', x'01', 'operator', NULL, 'ann', NULL, 1, 1000, NULL);
             INSERT INTO tokens VALUES ('wall', x'02', 'viewer', NULL, 'wall', NULL, 1, 1000, 2000);",
        )
        .unwrap();
    old.line(1, "token.created", "hub", None, token("owner-1", "operator", "ann"));
    old.line(1, "token.created", "ann", None, token("wall", "viewer", "wall"));
    old.line(2, "token.revoked", "ann", None, json!({"token": "wall"}));
    // Forgotten with its agent, of which there was no line.
    old.line(2, "token.created", "a", Some("a"), token("agent:a", "agent", "a"));
    old.grant("g-1", Some("a"), Some(4));
    old.grant("g-2", None, None);
    old.line(4, "agent.ended", "a", Some("a"), json!({}));
    old
}

#[test]
fn a_database_of_the_version_before_keys_verifies_with_what_its_lines_say() {
    let old = old();
    let verified = old.verify().unwrap();
    assert_eq!((verified.lines, verified.grants, verified.tokens), (7, 2, 2));
    assert_eq!(verified.unchecked, Vec::<String>::new());
    assert!(verified.remarks[0].starts_with("It is not keyed yet"), "{:?}", verified.remarks);
}

#[test]
fn what_was_changed_in_it_is_found() {
    for (sql, why) in [
        ("UPDATE tokens SET role = 'operator'", "token wall: it is not the one that was made"),
        ("UPDATE tokens SET revoked_at = NULL", "token wall: it was not revoked as the trail says"),
        ("DELETE FROM tokens WHERE id = 'wall'", "token wall: the trail knows it, the database does not"),
        ("UPDATE grants SET ended_at = NULL", "grant g-1: it did not end as the trail says"),
        (
            "UPDATE grants SET body = replace(body, 'make', 'rm') WHERE id = 'g-2'",
            "grant g-2: it is not the one that was made",
        ),
        (
            "INSERT INTO tokens SELECT 'x', hash, role, agent, name, surface, kept, 1, NULL FROM tokens LIMIT 1",
            "token x: the trail does not know it",
        ),
    ] {
        let old = old();
        old.db.execute_batch(sql).unwrap();
        assert_eq!(old.verify().unwrap_err().to_string(), why);
    }
}

#[tokio::test]
async fn the_next_start_keys_it_from_there_on() {
    let old = old();
    let store = Store::open(&old.home(), at(9), |_| {}).unwrap();
    store.write(|tx| tx.audit(at(9), "hub.started", "hub", None, None, json!({}))).await.unwrap();
    store.close().await;
    let verified = old.verify().unwrap();
    assert_eq!((verified.lines, verified.unchecked, verified.remarks), (9, vec![], vec![]));
}
