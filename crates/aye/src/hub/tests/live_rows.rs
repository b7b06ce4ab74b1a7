//! Somebody who can write the database, and cannot read `chain.key`, removes rows that stand or puts earlier states of them
//! back, while the hub runs or while it does not.

use super::policy::decision;
use super::*;
use store::by_hand::{change_rows, keep_rows};

const FOR_SCRIPTS: &str = "[[policy.rules]]\ncommand = \"make\"\nagent = \"script\"\naction = \"allow\"";
const FOR_SRC: &str = "[[policy.rules]]\ncommand = \"make\"\ncwd = \"/src\"\naction = \"allow\"";

fn here(kind: &str, cwd: &str) -> Registration {
    Registration { kind: Some(kind.try_into().unwrap()), cwd: Some(cwd.into()), ..Registration::default() }
}

impl Desk {
    /// As somebody whose SQLite does not look at references.
    fn without(&self, sql: &str) {
        let database = self.database();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        change_rows(&database, sql);
    }

    async fn make(&self, name: &str, key: &str) -> Result<Ask, Problem> {
        let command = json!({"tool": "Bash", "input": {"command": "make"}});
        let body = Body::decode(Kind::Permission, command).unwrap();
        Ok(self.hub.raise(Raise { body, ..raise(name, key, "x", None) }).await?.ask)
    }
}

#[tokio::test]
async fn an_agent_whose_row_was_removed_is_not_new_again() {
    let mut desk = Desk::on_sqlite_with_policy(FOR_SCRIPTS, BY_HAND).await;
    desk.hub.register(agent("bot"), here("claude", "/work")).await.unwrap();
    assert_eq!(decision(&desk.make("bot", "k1").await.unwrap()), "open");
    desk.without("DELETE FROM agents WHERE id = 'bot'");
    for refused in [
        desk.make("bot", "k2").await.map(drop),
        desk.hub.register(agent("bot"), here("script", "/work")).await.map(drop),
    ] {
        assert!(refused.unwrap_err().to_string().contains("agents bot: changed, and not by the hub"));
    }
    desk.is_found("agent bot: the trail knows it, the database does not");
    // While the hub is down it is the same: it is known again, and nothing that it says of itself counts.
    desk.crash_and_restart().await;
    desk.hub.register(agent("bot"), here("script", "/work")).await.unwrap();
    assert_eq!(decision(&desk.make("bot", "k3").await.unwrap()), "open");
    desk.crash_and_restart().await;
    assert_eq!(decision(&desk.make("bot", "k4").await.unwrap()), "open");
    desk.is_found("it ended what stood");
    // Others that are new are what they say.
    desk.hub.register(agent("new"), here("script", "/work")).await.unwrap();
    assert_eq!(decision(&desk.make("new", "k").await.unwrap()), "allow");
}

#[tokio::test]
async fn an_agent_that_was_registered_twice_is_found() {
    let desk = Desk::with_policy("").await;
    desk.hub.register(agent("bot"), here("claude", "/work")).await.unwrap();
    desk.verified().unwrap();
    let again = json!({"kind": "script"});
    let work = move |tx: &mut store::Tx| {
        let bot = agent("bot");
        tx.audit(Timestamp::UNIX_EPOCH, "agent.registered", "bot", Some(&bot), None, again)
    };
    desk.hub.inner.store.write(work).await.unwrap();
    desk.is_found("agent bot: it was registered twice");
}

#[tokio::test]
async fn an_earlier_state_of_an_agent_does_not_count() {
    let mut desk = Desk::on_sqlite_with_policy(FOR_SRC, BY_HAND).await;
    // It has no folder yet, and so the one that it names next is the first.
    desk.hub.register(agent("bot"), Registration::default()).await.unwrap();
    let earlier = "SELECT cwd, first_cwd, mac FROM agents WHERE id = 'bot'";
    let earlier: (String, String, String) =
        desk.database().query_row(earlier, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    desk.hub.register(agent("bot"), here("script", "/work")).await.unwrap();
    let put_back = "UPDATE agents SET cwd = ?1, first_cwd = ?2, mac = ?3 WHERE id = 'bot'";
    for restarts in [false, true] {
        desk.database().execute(put_back, earlier.clone()).unwrap();
        desk.is_found("are not as the hub left them");
        if restarts {
            desk.crash_and_restart().await;
        }
        desk.hub.register(agent("bot"), here("script", "/src")).await.unwrap();
        assert_eq!(decision(&desk.make("bot", &format!("{restarts}")).await.unwrap()), "open");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_inside_an_agent_stays_inside_whatever_rows_are_removed() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let told = Registration { pid: Some(process.id()), ..Registration::default() };
    desk.hub.register(agent("bot"), told).await.unwrap();
    desk.hub.register(agent("other"), Registration::default()).await.unwrap();
    desk.verified().unwrap();
    let around = async |desk: &Desk| desk.hub.agent_around(this_process(process.id())).await.unwrap();
    for change in [
        "DELETE FROM agents WHERE id = 'bot'",
        "UPDATE processes SET agent = 'other'",
        "DELETE FROM processes",
        "DELETE FROM agents WHERE id = 'bot'; DELETE FROM processes",
    ] {
        let kept = keep_rows(&desk.database());
        desk.without(change);
        desk.verified().unwrap_err();
        assert_eq!(around(&desk).await, Some(agent("bot")), "{change}");
        kept.put_back(&desk.database());
    }
    desk.crash_and_restart().await;
    assert_eq!(around(&desk).await, Some(agent("bot")));
    desk.without("DELETE FROM processes");
    desk.is_found("are not as the hub left them");
    desk.crash_and_restart().await;
    desk.is_found("it ended what stood");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[tokio::test]
async fn what_stood_before_a_trail_that_was_cut_is_ended_and_people_are_told() {
    for cut in [true, false] {
        let mut desk = Desk::on_sqlite_with_policy(FOR_SRC, BY_HAND).await;
        desk.hub.register(agent("bot"), here("claude", "/src")).await.unwrap();
        let granted = desk.run("k1", "cargo test").await;
        desk.decide(&granted, json!({"decision": "allow", "scope": "always"})).await.unwrap();
        let first = desk.plan("a", "1. x").await;
        desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
        desk.preapprove(PlanApproval::Allow, &first).await.unwrap();
        let name = Text::try_from("ann").unwrap();
        let token = desk.hub.create_token(aye_core::Role::Operator, name, "ann").await.unwrap();
        desk.hub.close().await;
        match cut {
            true => desk.without("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)"),
            false => desk.without("DELETE FROM tokens WHERE id LIKE 'owner-%'"),
        }
        desk.hub = open(&desk.dir, &desk.clock).await;
        assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
        assert_eq!(decision(&desk.run("k2", "cargo test").await), "open");
        assert_eq!(decision(&desk.plan("b", "1. x").await), "open");
        assert_eq!(decision(&desk.make("bot", "k").await.unwrap()), "open");
        assert!(desk.hub.credential(&token).await.unwrap().is_none());
        let operator = Home::at(desk.dir.path()).read_operator_token().unwrap().unwrap();
        assert!(desk.hub.credential(&operator).await.unwrap().is_some());
        let told = desk.hub.notices().pop().unwrap();
        let why = if cut { "missing from the trail" } else { "somebody changed" };
        assert!(told["problem"].as_str().unwrap().contains(why), "{told}");
        assert!(desk.trail().await.contains(&"grant.ended".to_owned()));
        desk.verified().unwrap_err();
        // Who can reach more than the database can say that this is well.
        desk.hub.close().await;
        std::fs::remove_file(Home::at(desk.dir.path()).chain_key_file()).unwrap();
        desk.hub = open(&desk.dir, &desk.clock).await;
        assert_eq!(desk.hub.notices(), Vec::<Value>::new());
        assert_eq!(decision(&desk.run("k3", "cargo test").await), "open", "it stays ended");
    }
}

#[tokio::test]
async fn a_hub_that_is_killed_before_it_ended_what_stood_does_so_at_its_next_start() {
    let mut desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let granted = desk.run("k1", "make").await;
    desk.decide(&granted, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    desk.hub.close().await;
    desk.without("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)");
    let home = Home::at(desk.dir.path());
    let killed = store::Store::open(&home, desk.clock.now(), |_| {}).unwrap();
    assert!(killed.doubt().is_some());
    killed.close().await;
    desk.hub = open(&desk.dir, &desk.clock).await;
    assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
    assert_eq!(decision(&desk.run("k2", "make").await), "open");
}

#[tokio::test]
async fn a_change_that_is_given_up_leaves_what_stands_as_it_was() {
    let mut desk = Desk::with_policy("").await;
    let ask = desk.run("k", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    let id = format!("g-{}", ask.id);
    let now = desk.clock.now();
    let given_up = desk.hub.inner.store.write(move |tx| {
        tx.revoke_grant(&id, "ann", now)?;
        tx.register_agent(&store::AgentRow::unannounced(agent("bot"), now))?;
        Err::<(), _>(Problem::NoSuchAsk)
    });
    given_up.await.unwrap_err();
    assert_eq!(decision(&desk.run("k2", "make").await), "allow");
    desk.hub.register(agent("bot"), Registration::default()).await.unwrap();
    desk.verified().unwrap();
    desk.crash_and_restart().await;
    assert_eq!(desk.hub.notices(), Vec::<Value>::new());
    assert_eq!(decision(&desk.run("k3", "make").await), "allow");
}

#[tokio::test]
async fn agents_that_an_earlier_version_marked_are_marked_anew_once() {
    let before = "row_mac('agents', id, kind, host, cwd, first_cwd, pid, pid_started)";
    let mut desk = Desk::on_sqlite_with_policy(FOR_SRC, BY_HAND).await;
    for name in ["bot", "changed"] {
        desk.hub.register(agent(name), here("claude", "/src")).await.unwrap();
    }
    let home = Home::at(desk.dir.path());
    let mark = || store::by_hand::open_with_the_key(&home);
    let older = |desk: &Desk| {
        mark().execute_batch(&format!("UPDATE agents SET mac = {before}; DELETE FROM standing")).unwrap();
        desk.without("UPDATE agents SET kind = 'script' WHERE id = 'changed'");
    };
    desk.hub.close().await;
    older(&desk);
    let file = home.chain_key().unwrap().unwrap();
    let marks = crate::home::RowMarks::Macs;
    home.write_chain_key(&crate::home::ChainKeyFile { marks, ..file }).unwrap();
    desk.is_found("agents changed");
    desk.hub = open(&desk.dir, &desk.clock).await;
    assert_eq!(decision(&desk.make("bot", "k").await.unwrap()), "allow");
    assert_eq!(decision(&desk.make("changed", "k").await.unwrap()), "open");
    desk.hub.close().await;
    older(&desk);
    desk.hub = open(&desk.dir, &desk.clock).await;
    assert_eq!(decision(&desk.make("bot", "k2").await.unwrap()), "open");
}
