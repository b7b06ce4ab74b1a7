//! Somebody who can write the database, and cannot read `chain.key`, while the hub runs: nothing is approved by it, or
//! `aye verify` finds it.

use super::policy::{decision, rule};
use super::*;

const EVERY_ALLOW: &str = "[policy]\nproof = \"passkey\"";

impl Desk {
    fn database(&self) -> store::by_hand::Database {
        store::by_hand::open(&Home::at(self.dir.path()))
    }

    fn forge(&self, sql: &str) {
        self.database().execute_batch(sql).unwrap();
    }

    /// The same by somebody who has the key, to see what is found even then.
    fn forge_with_the_key(&self, sql: &str) {
        store::by_hand::open_with_the_key(&Home::at(self.dir.path())).execute_batch(sql).unwrap();
    }

    #[track_caller]
    fn is_found(&self, words: &str) {
        let found = self.verified().unwrap_err().to_string();
        assert!(found.contains(words), "{found}");
    }
}

fn grant(command: &str) -> String {
    json!({
        "agent": null, "folder": "/src/web", "tool": "Bash", "exactly": {"command": command}, "expires_at": null,
        "by": {"name": "ann", "surface": "web"}, "at": "1970-01-12T13:46:40Z", "proof": "passkey",
    })
    .to_string()
}

fn insert_grant(command: &str, mac: &str) -> String {
    let body = grant(command);
    format!("INSERT INTO grants VALUES ('g-evil', NULL, '/src/web', 'Bash', '{body}', NULL, {mac})")
}

#[tokio::test]
async fn a_grant_that_the_hub_did_not_make_allows_nothing() {
    for policy in ["", EVERY_ALLOW] {
        let desk = Desk::with_policy(policy).await;
        for (key, mac) in ["NULL", "'0'", "''"].into_iter().enumerate() {
            desk.forge(&insert_grant("rm -rf build", mac));
            assert_eq!(decision(&desk.run(&format!("k{key}"), "rm -rf build").await), "open");
            assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
            desk.is_found("grant g-evil: the trail does not know it");
            desk.forge("DELETE FROM grants");
        }
        desk.verified().unwrap();
    }
}

#[tokio::test]
async fn a_grant_that_was_changed_allows_nothing() {
    for change in ["body = replace(body, 'make', 'rm -rf build')", "id = 'g-other'"] {
        let desk = Desk::with_policy("").await;
        let ask = desk.run("k", "make").await;
        desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
        desk.forge(&format!("UPDATE grants SET {change}"));
        assert_eq!(decision(&desk.run("k2", "make").await), "open", "{change}");
        assert_eq!(decision(&desk.run("k3", "rm -rf build").await), "open", "{change}");
    }
}

#[tokio::test]
async fn triggers_that_somebody_added_have_nothing_approved_and_are_named() {
    let desk = Desk::with_policy("").await;
    let (plain, marked) =
        (insert_grant("make", "NULL"), insert_grant("make", "row_mac('grants', 'g-evil', 'x')"));
    desk.forge(&format!("CREATE TRIGGER add_one AFTER INSERT ON asks BEGIN {plain}; END"));
    assert_eq!(decision(&desk.run("k1", "make").await), "open");
    desk.forge("DELETE FROM grants");
    desk.is_found("trigger add_one was added");

    // The hub's own function cannot be made use of by them.
    desk.forge(&format!(
        "DROP TRIGGER add_one; CREATE TRIGGER add_one AFTER INSERT ON asks BEGIN {marked}; END"
    ));
    let refused = desk.hub.raise(raise("agent", "k2", "1. x", None)).await.unwrap_err();
    assert!(refused.to_string().contains("unsafe use of row_mac"), "{refused}");
    desk.forge("DROP TRIGGER add_one");
    desk.verified().unwrap();

    // A row that is changed while the hub writes it is not the row that it marked.
    let change = "UPDATE grants SET body = replace(body, 'cargo test', 'make')";
    desk.forge(&format!("CREATE TRIGGER swap AFTER INSERT ON grants BEGIN {change}; END"));
    let ask = desk.run("k3", "cargo test").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    assert_eq!(decision(&desk.run("k4", "make").await), "open");
}

#[tokio::test]
async fn verify_names_whatever_was_added_to_the_schema_or_is_missing_from_it() {
    for (change, found) in [
        ("CREATE TABLE extra (x)", "table extra was added"),
        ("CREATE VIEW extra AS SELECT 1", "view extra was added"),
        ("CREATE INDEX extra ON grants (id)", "index extra was added"),
        ("DROP TRIGGER asks_end_once", "trigger asks_end_once is missing"),
        ("ALTER TABLE grants ADD COLUMN extra TEXT", "table grants was changed"),
        ("DROP INDEX grants_in_force", "index grants_in_force is missing"),
    ] {
        let desk = Desk::new().await;
        desk.verified().unwrap();
        desk.forge(change);
        desk.is_found(found);
    }
    let desk = Desk::new().await;
    desk.forge("ANALYZE");
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_grant_that_was_there_for_one_call_is_found_even_if_it_had_a_good_mac() {
    let desk = Desk::with_policy(EVERY_ALLOW).await;
    let body = grant("rm -rf build");
    desk.forge_with_the_key(&insert_grant("rm -rf build", &format!("row_mac('grants', 'g-evil', '{body}')")));
    let ran = desk.run("k1", "rm -rf build").await;
    assert_eq!((decision(&ran), rule(&ran)), ("allow", Some("grant g-evil")));
    desk.forge("DELETE FROM grants");
    desk.is_found("it was allowed by a grant that the trail does not know");
}

#[tokio::test]
async fn a_grant_that_is_revived_for_one_call_is_found() {
    let desk = Desk::with_policy("").await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    let id = format!("g-{}", ask.id);
    desk.hub.revoke_grant(id.clone(), "ann".into()).await.unwrap();
    let ended: i64 = desk.database().query_row("SELECT ended_at FROM grants", [], |row| row.get(0)).unwrap();
    desk.forge("UPDATE grants SET ended_at = NULL");
    assert_eq!(decision(&desk.run("k2", "make").await), "allow");
    desk.forge(&format!("UPDATE grants SET ended_at = {ended}"));
    desk.is_found("it was allowed by a grant that had ended");
}

#[tokio::test]
async fn a_grant_that_is_widened_for_one_call_is_found_even_if_it_had_a_good_mac() {
    let cover = "it was allowed by a grant that does not cover it";
    let proof = "it was allowed by a grant that was given without the passkey that it takes";
    for (path, wide, command, later, policy, found) in [
        ("$.exactly.command", "'rm -rf build'", "rm -rf build", 0, "", cover),
        ("$.agent", "NULL", "make", 0, "", cover),
        ("$.expires_at", "NULL", "make", 13, "", cover),
        ("$.proof", "'passkey'", "make", 0, EVERY_ALLOW, proof),
    ] {
        let desk = Desk::with_policy("").await;
        let ask = desk.run("k", "make").await;
        desk.decide(&ask, json!({"decision": "allow", "scope": "session"})).await.unwrap();
        desk.rewrite(policy).await;
        desk.clock.advance(SignedDuration::from_hours(later));
        desk.forge("CREATE TABLE kept AS SELECT id, body, mac FROM grants");
        let wide = format!("json_set(body, '{path}', {wide})");
        desk.forge_with_the_key(&format!(
            "UPDATE grants SET body = {wide}, mac = row_mac('grants', id, {wide})"
        ));
        let mut call = raise(if path == "$.agent" { "other" } else { "agent" }, "k2", "x", None);
        call.body = desk.run("k3", command).await.body;
        let here = Registration { cwd: Some("/src/web".into()), ..Registration::default() };
        desk.hub.register(call.agent.clone(), here).await.unwrap();
        assert_eq!(decision(&desk.hub.raise(call).await.unwrap().ask), "allow", "{path}");
        desk.forge("UPDATE grants SET (body, mac) = (SELECT body, mac FROM kept); DROP TABLE kept");
        desk.is_found(found);
    }
}

#[tokio::test]
async fn a_plan_does_not_pass_by_an_approval_that_the_hub_did_not_write() {
    let pass = |proof: &str| {
        json!({"n": 0, "pause": null, "pass": {"digest": null, "by": "ann", "proof": proof}}).to_string()
    };
    for (policy, proof) in [("", "none"), (EVERY_ALLOW, "passkey")] {
        let desk = Desk::with_policy(policy).await;
        let body = pass(proof);
        desk.forge(&format!("INSERT INTO outlines VALUES ('agent', '{body}', NULL)"));
        assert_eq!(decision(&desk.plan("a", "1. delete everything").await), "open");
        desk.forge_with_the_key(&format!(
            "INSERT OR REPLACE INTO outlines VALUES ('agent', '{body}', row_mac('outlines', 'agent', '{body}'))"
        ));
        let passed = desk.plan("b", "1. delete everything").await;
        assert_eq!((decision(&passed), rule(&passed)), ("allow", Some("approved in advance by ann")));
        desk.is_found("it passed as approved in advance, and nobody had approved it");
    }
}

#[tokio::test]
async fn an_approval_in_advance_that_is_put_back_after_it_served_is_found() {
    let desk = Desk::with_policy("").await;
    let first = desk.plan("a", "1. x").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    desk.preapprove(PlanApproval::Allow, &first).await.unwrap();
    let kept: (String, String) = desk
        .database()
        .query_row("SELECT body, mac FROM outlines", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(decision(&desk.plan("b", "1. x").await), "allow");
    desk.verified().unwrap();
    let put_back = "INSERT OR REPLACE INTO outlines VALUES ('agent', ?1, ?2)";
    desk.database().execute(put_back, kept).unwrap();
    assert_eq!(decision(&desk.plan("c", "1. x").await), "allow");
    desk.is_found("nobody had approved it");
}
