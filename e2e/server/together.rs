//! Several hubs on one database, as `aye doctor` sees them.

use super::hub_on;
use crate::support::{aye, eventually, json_of};
use aye_testkit::postgres::Cluster;
use serde_json::Value;
use std::path::Path;

/// What `aye doctor` finds of the hubs.
fn finding(home: &Path, url: &str) -> Value {
    let doctor = aye(home).env("AYE_DATABASE_URL", url).args(["doctor", "--json"]).output().unwrap();
    let found = json_of(&doctor)["findings"].as_array().unwrap().clone();
    found.into_iter().find(|finding| finding["about"] == "hubs").expect("a finding about hubs")
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn doctor_names_the_hubs_of_a_database_and_what_this_home_has_of_its_own() {
    let url = Cluster::shared().new_database();
    let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let mut hub = hub_on(&url, &first);
    let found = eventually("the row of the hub", || {
        Some(finding(&first, &url)).filter(|finding| finding["fine"] == true)
    });
    let words = format!("process {}, version {}, seen ", hub.pid(), env!("CARGO_PKG_VERSION"));
    assert!(found["found"].as_str().unwrap().contains(&words), "{found}");
    std::fs::create_dir(&second).unwrap();
    for name in ["chain.key", "chain.head", "agent.key", "operator.token"] {
        std::fs::copy(first.join(name), second.join(name)).unwrap();
    }
    let mut other = hub_on(&url, &second);
    let found = eventually("the row of the other hub", || {
        Some(finding(&second, &url)).filter(|finding| finding["found"].as_str().unwrap().lines().count() == 2)
    });
    assert_eq!(found["fine"], true, "{found}");
    assert!(other.stop().success());
    std::fs::write(second.join("config.toml"), "[policy]\nauto_approve = [\"Read\"]\n").unwrap();
    let found = finding(&second, &url);
    assert!(found["found"].as_str().unwrap().contains("config.toml differs between the hubs"), "{found}");
    assert_eq!(found["fine"], true);
    std::fs::write(second.join("agent.key"), "00".repeat(32)).unwrap();
    let found = finding(&second, &url);
    assert!(found["found"].as_str().unwrap().contains("agent.key differ between the hubs"), "{found}");
    assert_eq!(found["fine"], false);
    // A hub that ends takes its row along.
    assert!(hub.stop().success());
    assert_eq!(finding(&first, &url)["found"], "none is there");
}
