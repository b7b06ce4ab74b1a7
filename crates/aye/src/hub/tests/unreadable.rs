//! Somebody who can write the database leaves rows that make no sense: each counts for nothing, and for nobody else is
//! anything different.

use super::*;
use store::by_hand::change_rows;

const A_MINUTE: &str = "[policy]\ntimeout = { permission = \"60s\" }";

impl Desk {
    fn spoil(&self, table: &str, change: &str, id: &str) {
        change_rows(&self.database(), &format!("UPDATE {table} SET {change} WHERE id = '{id}'"));
    }

    /// Whatever everybody needs, with this ask in it.
    async fn serves(&self, ask: &Ask, change: &str) {
        let any = AskFilter { limit: 10, ..AskFilter::default() };
        let listed = self.hub.asks(any.clone()).await.unwrap().asks;
        assert!(listed.iter().any(|listed| listed.id == ask.id), "{change}");
        for decided_by in [Decider::AnyRule, Decider::Person, Decider::Rule("x".into())] {
            self.hub.asks(AskFilter { decided_by: Some(decided_by), ..any.clone() }).await.unwrap();
        }
        self.hub.decided_by_rules().await.unwrap();
        self.hub.snapshot().await.unwrap();
        let CatchUp::Missed { changes, .. } = self.hub.catch_up(0).await.unwrap() else { panic!("{change}") };
        let is_it = |change: &Change| matches!(&change.subject, Subject::Ask(told) if told.id == ask.id);
        assert!(changes.iter().any(is_it), "{change}");
        self.hub.agents(true).await.unwrap();
    }
}

#[tokio::test]
async fn an_ask_that_cannot_be_read_holds_up_no_other() {
    let open = [
        "kind = 'plan'",
        "body = '{'",
        "digest = ''",
        "created_at = 9223372036854775807",
        "extras = '{'",
        "deadline = -9223372036854775808",
        "deadline = 9223372036854775807",
        "id = '?? ??'",
        "state = 'answered'",
        "proof = NULL, mac = NULL",
    ];
    let ended =
        ["by = 'x'", "answer = NULL", "answer = '{'", "ended_at = NULL", "receipt = 'x'", "answer_key = ''"];
    for (change, ends) in
        open.map(|change| (change, false)).into_iter().chain(ended.map(|change| (change, true)))
    {
        let mut desk = Desk::on_sqlite_with_policy(A_MINUTE, BY_HAND).await;
        let (spoiled, other) = (desk.run("k1", "make").await, desk.run("k2", "ls").await);
        if ends {
            desk.decide(&spoiled, json!({"decision": "allow", "scope": "once"})).await.unwrap();
        }
        desk.spoil("asks", change, spoiled.id.as_str());
        desk.serves(&other, change).await;
        desk.advance(SignedDuration::from_secs(61));
        desk.hub.tick().await.unwrap();
        assert_eq!(desk.hub.ask(&other.id).await.unwrap().state.name(), "expired", "{change}");
        desk.crash_and_restart().await;
        desk.serves(&other, change).await;
        desk.verified().unwrap_err();
    }
}

#[tokio::test]
async fn an_agent_that_cannot_be_read_or_ended_holds_up_no_other() {
    for (table, change) in [
        ("agents", "reach = 'x'"),
        ("agents", "report = 'x'"),
        ("agents", "created_at = 9223372036854775807"),
        ("asks", "body = replace(body, 'make', 'cat')"),
        ("asks", "body = '{'"),
        ("asks", "receipt = 'pending'"),
    ] {
        let mut desk = Desk::on_sqlite_with_policy(A_MINUTE, BY_HAND).await;
        let mut processes = Vec::new();
        let names = ["agent", "other"];
        for name in names {
            processes.push(std::process::Command::new("sleep").arg("60").spawn().unwrap());
            let pid = processes.last().map(std::process::Child::id);
            desk.hub.register(agent(name), Registration { pid, ..Registration::default() }).await.unwrap();
        }
        let (spoiled, mut call) = (desk.run("k", "make").await, raise("other", "k", "x", None));
        call.body = spoiled.body.clone();
        let other = desk.hub.raise(call).await.unwrap().ask;
        if change.contains("receipt") {
            let gone = desk.hub.withdraw(spoiled.id.clone(), agent("agent"), Withdrawal::Gone, None);
            gone.await.unwrap();
        }
        let id = if table == "agents" { "agent" } else { spoiled.id.as_str() };
        desk.spoil(table, change, id);
        for process in &mut processes {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        desk.hub.tick().await.unwrap();
        assert_eq!(
            desk.hub.ask(&other.id).await.unwrap().state.note(),
            Some("the agent is gone"),
            "{change}"
        );
        desk.crash_and_restart().await;
        desk.serves(&other, change).await;
    }
}

#[tokio::test]
async fn an_ask_of_an_agent_that_cannot_be_read_holds_up_no_deadline() {
    let desk = Desk::on_sqlite_with_policy(A_MINUTE, BY_HAND).await;
    let spoiled = desk.run("k", "make").await;
    desk.hub.register(agent("other"), Registration::default()).await.unwrap();
    let other = desk.hub.raise(raise("other", "k", "x", Some(70))).await.unwrap().ask;
    desk.spoil("agents", "reach = 'x'", "agent");
    desk.advance(SignedDuration::from_secs(71));
    desk.hub.tick().await.unwrap_err();
    assert!(desk.hub.ask(&spoiled.id).await.unwrap().state.is_open());
    assert_eq!(desk.hub.ask(&other.id).await.unwrap().state.name(), "expired");
    assert_eq!(desk.hub.agent("other").await.unwrap().state.to_string(), "lost");
}

#[tokio::test]
async fn a_hub_starts_whatever_cannot_be_read_in_other_tables() {
    for change in [
        "UPDATE tokens SET name = ''",
        "UPDATE tokens SET created_at = 9223372036854775807",
        "UPDATE grants SET body = '{'",
        "UPDATE outbox SET detail = '{'",
        "INSERT INTO outlines VALUES ('agent', '{', NULL)",
        "INSERT INTO passkeys VALUES ('p', x'', x'', '', '', -1, 9223372036854775807, NULL, NULL, NULL)",
    ] {
        let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        let ask = desk.run("k1", "make").await;
        desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
        change_rows(&desk.database(), change);
        desk.crash_and_restart().await;
        let other = desk.run("k2", "ls").await;
        desk.serves(&other, change).await;
        desk.hub.passkeys().await.unwrap();
        desk.hub.grants().await.unwrap();
    }
}

#[tokio::test]
async fn verify_names_a_row_that_the_hub_did_not_write() {
    for (change, found) in [
        ("UPDATE agents SET cwd = '/'", "agents agent"),
        ("INSERT INTO outlines VALUES ('agent', '{}', NULL)", "outlines agent"),
        ("INSERT INTO commands VALUES (7, 'agent', '{}', NULL)", "commands 7"),
        ("INSERT INTO memory VALUES ('web', 'a', 'b', '{}', 'x')", "memory web a b"),
        ("UPDATE asks SET cwd_checked = 1 - cwd_checked", "asks "),
        ("UPDATE asks SET tool_use_id = 't'", "asks "),
        ("UPDATE asks SET sub_agent = 't'", "asks "),
    ] {
        let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
        let ask = desk.run("k", "make").await;
        desk.verified().unwrap();
        change_rows(&desk.database(), change);
        desk.is_found(found);
        desk.is_found("it was not written by the hub, or changed since");
        let allowed = desk.decide(&ask, json!({"decision": "allow", "scope": "once"})).await;
        assert_eq!(allowed.is_ok(), !change.contains("asks"), "{change}");
    }
}

#[tokio::test]
async fn verify_looks_at_the_file_of_the_database_too() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let other = "(SELECT rootpage FROM sqlite_master WHERE name = 'asks_due')";
    let sql = format!("UPDATE sqlite_master SET rootpage = {other} WHERE name = 'agents_alive'");
    store::by_hand::edit_schema(&desk.database(), &sql);
    desk.is_found("the file of the database is damaged");
}

#[tokio::test]
async fn numbers_that_somebody_used_up_are_not_taken_for_a_full_disk() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let last = "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'outbox'";
    desk.database().execute_batch(last).unwrap();
    let refused = desk.hub.raise(raise("agent", "k", "1. x", None)).await.unwrap_err().to_string();
    assert!(refused.contains("not by the hub: the numbers for new rows of outbox are used up"), "{refused}");
}

#[tokio::test]
async fn a_token_that_cannot_be_read_hides_no_other() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let before = desk.hub.tokens().await.unwrap();
    desk.database()
        .execute_batch(
            "INSERT INTO tokens (id, hash, role, name, created_at) VALUES ('x', x'', 'viewer', '', 9223372036854775807)",
        )
        .unwrap();
    assert_eq!(desk.hub.tokens().await.unwrap(), before);
    desk.is_found("tokens x");
}

#[tokio::test]
async fn an_index_that_leads_to_another_row_is_not_followed_and_found() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let (one, other) = (desk.run("k1", "make").await, desk.run("k2", "rm -rf build").await);
    // The index by id, opened as a table: each id leads to the other's row.
    let database = desk.database();
    let index = "(SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_asks_1')";
    store::by_hand::edit_schema(
        &database,
        &format!(
            "INSERT INTO sqlite_master VALUES ('table', 'by_id', 'by_id', {index},
             'CREATE TABLE by_id (id TEXT, n INTEGER, PRIMARY KEY (id, n)) WITHOUT ROWID')"
        ),
    );
    store::by_hand::set_schema_number(&database, 1);
    let by_id = desk.database();
    by_id
        .execute_batch(
            "CREATE TEMP TABLE swapped AS SELECT id, (SELECT sum(n) FROM by_id) - n AS n FROM by_id;
             DELETE FROM by_id; INSERT INTO by_id SELECT id, n FROM swapped",
        )
        .unwrap();
    store::by_hand::edit_schema(&by_id, "DELETE FROM sqlite_master WHERE name = 'by_id'");
    store::by_hand::set_schema_number(&by_id, 1);
    for (ask, instead) in [(&one, &other), (&other, &one)] {
        let shown = desk.hub.ask(&ask.id).await;
        assert!(shown.map_or(true, |shown| shown.body != instead.body));
        let allowed = desk.decide(ask, json!({"decision": "allow", "scope": "once"})).await;
        assert!(allowed.is_err(), "{allowed:?}");
    }
    desk.is_found("");
}
