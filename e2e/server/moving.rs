use super::hub_on;
use crate::support::{Hub, aye, code, complained, ended, printed, saying, yes_or_no};
use aye_testkit::postgres::Cluster;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn copy(home: &Path, url: &str) -> Command {
    let mut command = aye(home);
    command.args(["store", "copy", "--to", url]);
    command
}

/// Kills the copy when it has printed so many lines, and says whether it was not complete yet.
fn is_cut_off_at(lines: usize, home: &Path, url: &str) -> bool {
    let mut copy = copy(home, url).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(copy.stdout.take().unwrap());
    assert_eq!(said.lines().take(lines).map(Result::unwrap).count(), lines);
    copy.kill().unwrap();
    copy.wait().unwrap();
    let name = url.split(['/', '?']).nth(3).unwrap();
    Cluster::shared().sql(name, "SELECT to_regclass('copy_of') IS NOT NULL") == "t"
}

/// A database into which the copy was cut off in all of these places. A copy may be complete before it is killed; another
/// one is begun then.
fn cut_off_at(places: &[usize], home: &Path) -> String {
    let mut databases = std::iter::repeat_with(|| Cluster::shared().new_database()).take(50);
    let cut_off = |url: &String| places.iter().all(|lines| is_cut_off_at(*lines, home, url));
    databases.find(cut_off).expect("a copy that was cut off")
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_script_that_waits_is_answered_after_the_home_has_moved() {
    let mut hub = Hub::start();
    let mut script = aye(&hub.home);
    let mut script =
        script.args(["ask", "Go on?", "--option", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let ask = hub.open_ask();
    let token = hub.agent("a1");
    let kept = hub.raise(&token, "a1", "k", "question", yes_or_no());
    for part in 0..20 {
        let said = |i| json!({"type": "text", "id": format!("{part}-{i}"), "text": "word ".repeat(100)});
        let events: Vec<Value> = (0..100).map(said).collect();
        let reported = hub.post("/api/agents/a1/events", &token, json!({ "events": events }));
        assert_eq!(reported.status, 204, "{}", reported.body);
    }
    let refused = copy(&hub.home, &Cluster::shared().new_database()).output().unwrap();
    assert_eq!(code(&refused), Some(1));
    assert!(complained(&refused).contains("nothing was copied: another hub (process"), "{refused:?}");
    assert!(hub.stop().success());
    let url = cut_off_at(&[1, 4, 6, 9], &hub.home);
    let copied = copy(&hub.home, &url).output().unwrap();
    assert_eq!(code(&copied), Some(0), "{}", complained(&copied));
    let said = printed(&copied);
    for words in ["conversations        2000\n", "The trail is whole: ", "chain.key ", "[store]\n"] {
        assert!(said.contains(words), "{said}");
    }
    let verified = |server: bool| {
        let mut verify = aye(&hub.home);
        if server {
            verify.env("AYE_DATABASE_URL", &url);
        }
        let verified = verify.arg("verify").output().unwrap();
        assert_eq!(code(&verified), Some(0), "{}", complained(&verified));
        printed(&verified)
    };
    assert_eq!(verified(true), verified(false));
    let moved = hub_on(&url, &hub.home);
    assert_eq!(moved.open_asks().len(), 2);
    assert_eq!(moved.get("/api/agents/a1/commands", &token).status, 200);
    assert_eq!(moved.answer(&ask, saying("yes")).status, 200);
    assert_eq!(ended(&mut script).code(), Some(0));
    assert_eq!(printed(&script.wait_with_output().unwrap()), "yes\n");
    assert_eq!(moved.answer(&kept, saying("no")).status, 200);
    drop(moved);
    assert!(verified(true).starts_with("The trail is whole: "));
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_hub_refuses_a_database_whose_copy_was_cut_off() {
    let mut hub = Hub::start();
    hub.raise(&hub.agent("a1"), "a1", "k", "question", yes_or_no());
    assert!(hub.stop().success());
    let url = cut_off_at(&[1], &hub.home);
    for words in [&["up", "--no-open", "--listen", "127.0.0.1:0"][..], &["verify"]] {
        let refused = aye(&hub.home).env("AYE_DATABASE_URL", &url).args(words).output().unwrap();
        assert_eq!(code(&refused), Some(1));
        assert!(complained(&refused).contains("a copy into it was cut off"), "{refused:?}");
    }
}
