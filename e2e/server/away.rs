//! A database that goes away under a hub, and comes back.

use super::hub_on;
use crate::metrics::metrics;
use crate::support::{Hub, aye, code, complained, ended, eventually, path_of, printed, saying, yes_or_no};
use aye_testkit::postgres::Cluster;
use serde_json::json;
use std::process::Stdio;

fn is_healthy(hub: &Hub) -> bool {
    hub.get("/api/health", "").status == 200
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_hub_says_that_its_database_is_away_and_goes_on_by_itself() {
    let cluster = Cluster::start();
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let hub = hub_on(&cluster.new_database(), &dir.path().join("home"));
    let mut script = aye(&hub.home);
    let mut script =
        script.args(["ask", "Go on?", "--option", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let ask = hub.open_ask();
    assert!(is_healthy(&hub));
    cluster.stop_at_once();
    let said = eventually("the hub to notice", || {
        Some(hub.get("/api/health", "")).filter(|reply| reply.status == 503)
    });
    assert_eq!(
        said.body,
        json!({
            "error": "The hub cannot reach its database. Nothing that was recorded is lost, and it goes on by itself.",
            "reason": "database_away",
        })
    );
    let refused = hub.answer(&ask, saying("yes"));
    assert_eq!((refused.status, &refused.body["reason"]), (503, &json!("database_away")));
    // Whoever watches sees it as well.
    let figures = metrics(&hub, &hub.operator());
    assert!(figures.contains("\naye_database_up 0\n") && !figures.contains("aye_asks{"), "{figures}");
    let doctor = hub.aye(&["doctor"]);
    assert_eq!(code(&doctor), Some(1));
    assert!(printed(&doctor).contains("The hub cannot reach its database."), "{}", printed(&doctor));
    let list = hub.aye(&["list"]);
    assert!(complained(&list).contains("the database cannot be reached"), "{}", complained(&list));
    assert!(script.try_wait().unwrap().is_none());
    cluster.start_again();
    eventually("the hub to go on", || is_healthy(&hub).then_some(()));
    assert_eq!(hub.get(&path_of(&ask, ""), &hub.operator()).body["state"], "open");
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    assert_eq!(ended(&mut script).code(), Some(0));
    assert_eq!(printed(&script.wait_with_output().unwrap()), "yes\n");
    let figures = metrics(&hub, &hub.operator());
    assert!(figures.contains("\naye_database_up 1\n"), "{figures}");
    assert!(figures.contains("\naye_database_losses_total 1\n"), "{figures}");
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_hub_whose_database_is_behind_is_not_healthy_until_it_is_put_right() {
    let cluster = Cluster::shared();
    let (url, dir) = (cluster.new_database(), tempfile::Builder::new().prefix("aye").tempdir().unwrap());
    let name = url.split(['/', '?']).nth(3).unwrap();
    let hub = hub_on(&url, &dir.path().join("home"));
    hub.raise(&hub.agent("a1"), "a1", "k", "question", yes_or_no());
    // As after a failover to a standby that had not received the last line.
    cluster.sql(
        name,
        "ALTER TABLE audit DISABLE TRIGGER USER;
         CREATE TABLE lost AS SELECT * FROM audit ORDER BY seq DESC LIMIT 1;
         DELETE FROM audit WHERE seq IN (SELECT seq FROM lost)",
    );
    let said = eventually("the hub to notice", || {
        Some(hub.get("/api/health", "")).filter(|reply| reply.status == 503)
    });
    assert_eq!(said.body["reason"], "database_behind");
    assert_eq!(hub.get("/api/asks", &hub.operator()).status, 500);
    cluster.sql(name, "INSERT INTO audit SELECT * FROM lost");
    eventually("the hub to go on", || is_healthy(&hub).then_some(()));
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_hub_that_a_newer_schema_excludes_says_so() {
    let cluster = Cluster::shared();
    let (url, dir) = (cluster.new_database(), tempfile::Builder::new().prefix("aye").tempdir().unwrap());
    let name = url.split(['/', '?']).nth(3).unwrap();
    let hub = hub_on(&url, &dir.path().join("home"));
    let ask = hub.raise(&hub.agent("a1"), "a1", "k", "question", yes_or_no());
    let oldest = cluster.sql(name, "SELECT oldest FROM schema_version");
    cluster.sql(name, "UPDATE schema_version SET oldest = 99");
    let refused = hub.answer(&ask, saying("yes"));
    assert_eq!((refused.status, &refused.body["reason"]), (503, &json!("database_behind")));
    let said = eventually("the hub to notice", || {
        Some(hub.get("/api/health", "")).filter(|reply| reply.status == 503)
    });
    let words = said.body["error"].as_str().unwrap();
    assert!(words.starts_with("A newer version of aye has changed the database"), "{words}");
    cluster.sql(name, &format!("UPDATE schema_version SET oldest = {oldest}"));
    eventually("the hub to go on", || is_healthy(&hub).then_some(()));
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
}
