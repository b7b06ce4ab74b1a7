//! A database that goes away under a hub, and comes back.

use super::hub_on;
use crate::metrics::metrics;
use crate::support::{Hub, aye, code, complained, ended, eventually, path_of, printed, saying};
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
