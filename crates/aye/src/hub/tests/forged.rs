//! Somebody who can write the database, and cannot read `chain.key`, while the hub runs: nothing is approved by it, or
//! `aye verify` finds it.

use super::policy::{decision, rule};
use super::*;

const EVERY_ALLOW: &str = "[policy]\nproof = \"passkey\"";

impl Desk {
    pub(super) fn database(&self) -> store::by_hand::Database {
        store::by_hand::open(&Home::at(self.dir.path()))
    }

    fn forge(&self, sql: &str) {
        self.database().execute_batch(sql).unwrap();
    }

    /// A database beside the hub's, for somebody to keep in it what they change.
    fn aside(&self) -> String {
        format!("ATTACH '{}' AS aside", self.dir.path().join("aside.db").display())
    }

    fn forge_rows(&self, sql: &str) {
        store::by_hand::change_rows(&self.database(), sql);
    }

    /// The same by somebody who has the key and reaches the hub's memory, to see what is found even then.
    async fn forge_with_the_key(&self, sql: &str) {
        let home = Home::at(self.dir.path());
        store::by_hand::open_with_the_key(&home).execute_batch(sql).unwrap();
        store::by_hand::take_rows_for_own(&self.hub.inner.store, &home).await;
    }

    /// As after a version that did not mark them.
    pub(super) fn forget_that_rows_are_marked(&self) {
        let home = Home::at(self.dir.path());
        let file = home.chain_key().unwrap().unwrap();
        home.write_chain_key(&crate::home::ChainKeyFile { marks: crate::home::RowMarks::None, ..file })
            .unwrap();
    }

    #[track_caller]
    pub(super) fn is_found(&self, words: &str) {
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
        let desk = Desk::on_sqlite_with_policy(policy, BY_HAND).await;
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
        let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        let ask = desk.run("k", "make").await;
        desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
        desk.forge(&format!("UPDATE grants SET {change}"));
        assert_eq!(decision(&desk.run("k2", "make").await), "open", "{change}");
        assert_eq!(decision(&desk.run("k3", "rm -rf build").await), "open", "{change}");
    }
}

#[tokio::test]
async fn on_a_schema_that_somebody_changed_the_hub_neither_reads_nor_writes() {
    let plain = insert_grant("make", "NULL");
    for (change, undo) in [
        (format!("CREATE TRIGGER added AFTER INSERT ON asks BEGIN {plain}; END"), "DROP TRIGGER added"),
        (
            "CREATE TRIGGER added BEFORE DELETE ON outlines BEGIN SELECT RAISE(IGNORE); END".into(),
            "DROP TRIGGER added",
        ),
        ("CREATE VIEW added AS SELECT 1".into(), "DROP VIEW added"),
        // A column by the name under which the check of the MAC is read.
        ("ALTER TABLE asks ADD COLUMN ours INTEGER DEFAULT 1".into(), "ALTER TABLE asks DROP COLUMN ours"),
    ] {
        let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        let ask = desk.run("k1", "make").await;
        desk.forge(&change);
        for refused in [
            desk.hub.raise(raise("agent", "k2", "1. x", None)).await.map(drop),
            desk.hub.ask(&ask.id).await.map(drop),
            desk.decide(&ask, json!({"decision": "allow", "scope": "once"})).await.map(drop),
        ] {
            assert!(refused.unwrap_err().to_string().contains("not by the hub"), "{change}");
        }
        desk.forge(undo);
        desk.decide(&ask, json!({"decision": "allow", "scope": "once"})).await.unwrap();
        desk.verified().unwrap();
    }
}

#[tokio::test]
async fn an_approval_is_handed_out_for_what_was_approved_alone() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "once"})).await.unwrap();
    desk.forge_rows("UPDATE asks SET body = replace(body, 'make', 'rm -rf build')");
    let mut again = raise("agent", "k", "x", None);
    again.body = desk.run("k2", "rm -rf build").await.body;
    let refused = desk.hub.raise(again).await.unwrap_err().to_string();
    assert!(refused.contains("not by the hub"), "{refused}");
}

#[tokio::test]
async fn a_row_that_somebody_changed_holds_up_no_other() {
    let desk = Desk::on_sqlite_with_policy("[policy]\ntimeout = { permission = \"60s\" }", BY_HAND).await;
    let (changed, other) = (desk.run("k1", "make").await, desk.run("k2", "ls").await);
    desk.forge_rows(&format!(
        "UPDATE asks SET body = replace(body, 'make', 'cat') WHERE id = '{}'",
        changed.id
    ));
    let listed = desk.hub.asks(AskFilter { limit: 10, ..AskFilter::default() }).await.unwrap().asks;
    assert_eq!(listed.iter().map(|ask| &ask.id).collect::<Vec<_>>(), [&other.id]);
    desk.advance(SignedDuration::from_secs(61));
    desk.hub.tick().await.unwrap();
    assert_eq!(desk.hub.ask(&other.id).await.unwrap().state.name(), "expired");
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
        let desk = Desk::on_sqlite(BY_HAND).await;
        desk.verified().unwrap();
        desk.forge(change);
        desk.is_found(found);
    }
    let desk = Desk::on_sqlite(BY_HAND).await;
    desk.forge("ANALYZE");
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_grant_that_was_there_for_one_call_is_found_even_if_it_had_a_good_mac() {
    let desk = Desk::on_sqlite_with_policy(EVERY_ALLOW, BY_HAND).await;
    let body = grant("rm -rf build");
    let mac = format!("row_mac('grants', 'g-evil', '{body}')");
    desk.forge_with_the_key(&insert_grant("rm -rf build", &mac)).await;
    let ran = desk.run("k1", "rm -rf build").await;
    assert_eq!((decision(&ran), rule(&ran)), ("allow", Some("grant g-evil")));
    desk.forge("DELETE FROM grants");
    desk.is_found("it was allowed by a grant that the trail does not know");
}

#[tokio::test]
async fn a_grant_that_had_ended_allows_nothing_when_its_row_comes_back() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    let id = format!("g-{}", ask.id);
    desk.hub.revoke_grant(id.clone(), "ann".into()).await.unwrap();
    let ended: i64 = desk.database().query_row("SELECT ended_at FROM grants", [], |row| row.get(0)).unwrap();
    desk.forge("UPDATE grants SET ended_at = NULL");
    assert_eq!(decision(&desk.run("k2", "make").await), "open");
    assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
    desk.is_found("it did not end as the trail says");
    desk.crash_and_restart().await;
    assert_eq!(decision(&desk.run("k3", "make").await), "open");
    // Even if the hub had believed it.
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    desk.hub.revoke_grant(format!("g-{}", ask.id), "ann".into()).await.unwrap();
    desk.forge_with_the_key("UPDATE grants SET ended_at = NULL").await;
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
        let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        let ask = desk.run("k", "make").await;
        desk.decide(&ask, json!({"decision": "allow", "scope": "session"})).await.unwrap();
        desk.rewrite(policy).await;
        desk.advance(SignedDuration::from_hours(later));
        desk.forge(&format!("{}; CREATE TABLE aside.kept AS SELECT id, body, mac FROM grants", desk.aside()));
        let wide = format!("json_set(body, '{path}', {wide})");
        desk.forge_with_the_key(&format!(
            "UPDATE grants SET body = {wide}, mac = row_mac('grants', id, {wide})"
        ))
        .await;
        let mut call = raise(if path == "$.agent" { "other" } else { "agent" }, "k2", "x", None);
        call.body = desk.run("k3", command).await.body;
        let here = Registration { cwd: Some("/src/web".into()), ..Registration::default() };
        desk.hub.register(call.agent.clone(), here).await.unwrap();
        assert_eq!(decision(&desk.hub.raise(call).await.unwrap().ask), "allow", "{path}");
        desk.forge(&format!(
            "{}; UPDATE grants SET (body, mac) = (SELECT body, mac FROM aside.kept)",
            desk.aside()
        ));
        desk.is_found(found);
    }
}

#[tokio::test]
async fn a_plan_does_not_pass_by_an_approval_that_the_hub_did_not_write() {
    let pass = |proof: &str| {
        json!({"n": 0, "pause": null, "pass": {"digest": null, "by": "ann", "proof": proof}}).to_string()
    };
    for (policy, proof) in [("", "none"), (EVERY_ALLOW, "passkey")] {
        let desk = Desk::on_sqlite_with_policy(policy, BY_HAND).await;
        let body = pass(proof);
        desk.forge(&format!("INSERT INTO outlines VALUES ('agent', '{body}', NULL)"));
        assert_eq!(decision(&desk.plan("a", "1. delete everything").await), "open");
        desk.forge_with_the_key(&format!(
            "INSERT OR REPLACE INTO outlines VALUES ('agent', '{body}', row_mac('outlines', 'agent', '{body}'))"
        ))
        .await;
        let passed = desk.plan("b", "1. delete everything").await;
        assert_eq!((decision(&passed), rule(&passed)), ("allow", Some("approved in advance by ann")));
        desk.is_found("it passed as approved in advance, and nobody had approved it");
    }
}

#[tokio::test]
async fn an_approval_in_advance_that_is_put_back_after_it_served_lets_nothing_pass() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
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
    desk.database().execute(put_back, kept.clone()).unwrap();
    assert_eq!(decision(&desk.plan("c", "1. x").await), "open");
    desk.is_found("are not as the hub left them");
    desk.database().execute(put_back, kept.clone()).unwrap();
    desk.crash_and_restart().await;
    assert_eq!(decision(&desk.plan("d", "1. x").await), "open");
    // Even if the hub had believed it.
    desk.database().execute(put_back, kept).unwrap();
    desk.forge_with_the_key("").await;
    assert_eq!(decision(&desk.plan("e", "1. x").await), "allow");
    desk.is_found("it ended what stood");
}

#[tokio::test]
async fn a_token_that_the_hub_did_not_make_or_with_another_role_opens_nothing() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let viewer =
        desk.hub.create_token(aye_core::Role::Viewer, Text::try_from("wall").unwrap(), "ann").await.unwrap();
    let own = "aye_evil_0";
    let hash = aye_core::digest::sha256_hex(own.as_bytes());
    desk.forge(&format!(
        "INSERT INTO tokens (id, hash, role, name, kept, created_at) VALUES ('evil', x'{hash}', 'operator', 'ann', 1, 1)"
    ));
    desk.crash_and_restart().await;
    assert!(desk.hub.credential(own).await.unwrap().is_none());
    desk.forge("DELETE FROM tokens WHERE id = 'evil'");
    desk.verified().unwrap();
    desk.forge("UPDATE tokens SET role = 'operator'");
    desk.crash_and_restart().await;
    assert!(desk.hub.credential(&viewer).await.unwrap().is_none());
}

#[tokio::test]
async fn a_revoked_token_that_is_revived_for_one_start_of_the_hub_opens_nothing() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let name = Text::try_from("old").unwrap();
    let token = desk.hub.create_token(aye_core::Role::Operator, name, "ann").await.unwrap();
    let id = desk.hub.credential(&token).await.unwrap().unwrap().id;
    desk.hub.revoke_token(&id, "ann").await.unwrap();
    desk.crash_and_restart().await;
    desk.verified().unwrap();
    desk.forge("UPDATE tokens SET revoked_at = NULL");
    desk.crash_and_restart().await;
    assert!(desk.hub.credential(&token).await.unwrap().is_none());
    let operator = Home::at(desk.dir.path()).read_operator_token().unwrap().unwrap();
    assert!(desk.hub.credential(&operator).await.unwrap().is_some());
    desk.is_found("it ended what stood");
}

#[tokio::test]
async fn an_agents_token_that_was_revoked_is_not_handed_out_again_when_its_row_is_removed() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let hand_out = async |desk: &Desk| desk.hub.hand_out_agent_token(&agent("bot"), "test", false).await;
    hand_out(&desk).await.unwrap();
    desk.hub.revoke_token("agent:bot", "ann").await.unwrap();
    desk.forge("DELETE FROM tokens WHERE id = 'agent:bot'");
    assert!(hand_out(&desk).await.is_err());
    desk.is_found("token agent:bot: the trail knows it, the database does not");
    desk.crash_and_restart().await;
    desk.is_found("it ended what stood");
}

#[tokio::test]
async fn what_the_database_says_of_an_agent_counts_only_as_the_hub_wrote_it() {
    let policy = "[[policy.rules]]\ncommand = \"make\"\ncwd = \"/src\"\naction = \"allow\"";
    let desk = Desk::on_sqlite_with_policy(policy, BY_HAND).await;
    assert_eq!(decision(&desk.run("k1", "make").await), "open");
    desk.forge("UPDATE agents SET cwd = '/src', first_cwd = '/src'");
    assert_eq!(decision(&desk.run("k2", "make").await), "open");
    // What is said anew does not make it the hub's own.
    let here = |cwd: &str| Registration { cwd: Some(cwd.into()), ..Registration::default() };
    desk.hub.register(agent("agent"), here("/src/sub")).await.unwrap();
    desk.hub.register(agent("agent"), here("/src")).await.unwrap();
    assert_eq!(decision(&desk.run("k3", "make").await), "open");
    desk.hub.register(agent("another"), here("/src")).await.unwrap();
    let mut call = raise("another", "k", "x", None);
    call.body = desk.run("k4", "make").await.body;
    assert_eq!(decision(&desk.hub.raise(call).await.unwrap().ask), "allow");
}

const ANSWER: &str =
    r#"answer = '{"decision":"allow","scope":"once"}', by = '{"name":"ann","surface":"web"}'"#;

#[tokio::test]
async fn an_answer_that_only_the_database_has_reaches_no_agent() {
    for receipt in ["pending", "delivered"] {
        let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        let ask = desk.run("k", "make").await;
        desk.forge(&format!(
            "UPDATE asks SET state = 'answered', {ANSWER}, ended_at = created_at, receipt = '{receipt}'"
        ));
        let told = desk.hub.resolution(&ask.id, &agent("agent"), Duration::ZERO).await;
        assert!(told.unwrap_err().to_string().contains("not by the hub"));
        let mut again = raise("agent", "k", "x", None);
        again.body = ask.body.clone();
        assert!(desk.hub.raise(again).await.unwrap_err().to_string().contains("not by the hub"));
        desk.is_found("behind the trail's back");
    }
}

#[tokio::test]
async fn another_answer_than_the_persons_reaches_no_agent() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, denial("no")).await.unwrap();
    desk.forge_rows(&format!("UPDATE asks SET {ANSWER}"));
    let told = desk.hub.resolution(&ask.id, &agent("agent"), Duration::ZERO).await;
    assert!(told.unwrap_err().to_string().contains("not by the hub"));
}

#[tokio::test]
async fn a_person_is_neither_shown_nor_answers_what_the_agent_did_not_ask() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "rm -rf build").await;
    let list = async || desk.hub.asks(AskFilter { limit: 10, ..AskFilter::default() }).await;
    desk.forge_rows("UPDATE asks SET body = replace(body, 'rm -rf build', 'ls')");
    assert!(desk.hub.ask(&ask.id).await.unwrap_err().to_string().contains("not by the hub"));
    assert!(list().await.unwrap().asks.is_empty());
    desk.hub.snapshot().await.unwrap();
    // With a digest that fits it is shown, and then cannot be answered.
    let mut other = raise("agent", "k2", "x", None);
    other.body = Body::decode(Kind::Permission, json!({"tool": "Bash", "input": {"command": "ls"}})).unwrap();
    let other = desk.hub.raise(other).await.unwrap().ask;
    desk.forge_rows(&format!(
        "UPDATE asks SET (body, digest) = (SELECT body, digest FROM asks WHERE id = '{}') WHERE id = '{}'",
        other.id, ask.id
    ));
    let shown = desk.hub.ask(&ask.id).await.unwrap();
    let answered = desk.decide(&shown, json!({"decision": "allow", "scope": "once"})).await;
    assert!(answered.unwrap_err().to_string().contains("not by the hub"));
}

#[tokio::test]
async fn commands_and_memories_that_the_hub_did_not_write_are_passed_by() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let driven = Registration { reach: Some(aye_core::Reach::Driven), ..Registration::default() };
    desk.hub.register(agent("driven"), driven).await.unwrap();
    let prompt = Command::Prompt { text: Text::try_from("go on").unwrap(), image: None };
    let n = desk.hub.command(agent("driven"), prompt, "ann".into()).await.unwrap();
    let memo = Memo { kind: "copy", key: "1".into(), body: Some(json!({"ask": "a"})) };
    desk.hub.remember(Surface::Telegram, vec![memo]).await.unwrap();
    desk.forge(
        "INSERT INTO commands (agent, body, mac) SELECT agent, body, mac FROM commands;
         INSERT INTO memory SELECT surface, kind, '2', body, mac FROM memory",
    );
    let queued = desk.hub.commands(&agent("driven"), 0, Duration::ZERO).await.unwrap();
    assert_eq!(queued.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [n]);
    assert_eq!(desk.hub.recall(Surface::Telegram, "copy").await.unwrap().len(), 1);
    desk.forge("UPDATE memory SET body = replace(body, 'a', 'b')");
    assert_eq!(desk.hub.recall(Surface::Telegram, "copy").await.unwrap(), vec![]);
}

#[tokio::test]
async fn rows_of_an_earlier_version_are_taken_over_once_and_never_again() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    let waiting = desk.run("k2", "cargo test").await;
    desk.hub.inner.store.close().await;
    let tables = ["grants", "outlines", "tokens", "passkeys", "agents", "asks", "commands", "memory"];
    let unmark = tables.map(|table| format!("UPDATE {table} SET mac = NULL")).join(";");
    desk.forge(&unmark);
    desk.forget_that_rows_are_marked();
    desk.hub = open(&desk.dir, &desk.clock).await;
    assert_eq!(decision(&desk.run("k3", "make").await), "allow");
    desk.decide(&waiting, denial("no")).await.unwrap();
    desk.verified().unwrap();

    desk.forge(&unmark);
    desk.crash_and_restart().await;
    let mut call = raise("new", "k", "x", None);
    call.body = desk.hub.ask(&ask.id).await.unwrap().body;
    desk.hub
        .register(agent("new"), Registration { cwd: Some("/src/web".into()), ..Registration::default() })
        .await
        .unwrap();
    assert_eq!(decision(&desk.hub.raise(call).await.unwrap().ask), "open");
}
