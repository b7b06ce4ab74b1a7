//! The hub, or the adapter, is killed in the middle of it.

use super::{Story, bash, ended, which_database};
use crate::support::{eventually, signal};
use aye::home::Home;
use aye_testkit::model::tool;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

fn asking() -> Story {
    Story::new(vec![vec![tool("toolu_q", "AskUserQuestion", which_database())]])
}

fn sqlite() -> Value {
    json!({"answers": [{"selected": ["SQLite"]}]})
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_hub_that_is_killed_while_the_agent_waits_delivers_the_answer_after_its_restart() {
    let mut story = asking();
    let run = story.run(&[]);
    let before = story.hub.open_ask();
    story.hub.kill();
    story.hub.restart();
    let ask = story.hub.answer_next(sqlite());
    assert_eq!(ask["id"], before["id"]);
    story.told("toolu_q", "\"Which DB?\"=\"SQLite\"");
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_hub_that_is_killed_right_after_the_answer_still_delivers_it_once() {
    let mut story = asking();
    let run = story.run(&[]);
    // The adapter hears of nothing until the hub that took the answer is gone.
    let ask = story.hub.open_ask();
    signal(&run, Signal::STOP);
    assert_eq!(story.hub.answer(&ask, sqlite()).status, 200);
    story.hub.kill();
    signal(&run, Signal::CONT);
    story.hub.restart();
    story.told("toolu_q", "\"Which DB?\"=\"SQLite\"");
    story.confirmed(&ask);
    ended(run);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_adapter_that_is_killed_while_the_ask_is_open_takes_it_back() {
    let story = asking();
    let mut run = story.run(&[]);
    let ask = story.hub.open_ask();
    run.kill().unwrap();
    run.wait().unwrap();
    let ended = story.hub.once(&ask, "the ask to end", |ask| ask["state"] != "open");
    assert_eq!((&ended["state"], &ended["note"]), (&json!("withdrawn"), &json!("the agent is gone")));
    assert_eq!(story.hub.answer(&ask, sqlite()).status, 409);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_adapter_that_is_killed_before_it_heard_the_answer_leaves_it_unknown_and_the_model_is_not_told() {
    let story = asking();
    let mut run = story.run(&[]);
    let ask = story.hub.open_ask();
    signal(&run, Signal::STOP);
    assert_eq!(story.hub.answer(&ask, sqlite()).status, 200);
    run.kill().unwrap();
    run.wait().unwrap();
    let settled = story.settled(&ask);
    assert_eq!(
        (&settled["state"], &settled["receipt"]),
        (&json!("answered"), &json!("unknown")),
        "{settled}"
    );
    let requests = Value::from(story.model.requests()).to_string();
    assert!(!requests.contains("\\\"Which DB?\\\"=\\\"SQLite\\\""), "{requests}");
}

/// A home whose socket leads to the hub, but lets no receipt through.
fn home_without_receipts(story: &Story) -> tempfile::TempDir {
    let home =
        tempfile::Builder::new().prefix("aye").permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
    std::fs::copy(story.hub.home.join("operator.token"), home.path().join("operator.token")).unwrap();
    let listener = UnixListener::bind(Home::at(home.path()).socket()).unwrap();
    let far = Home::at(&story.hub.home).socket();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let Ok(mut server) = UnixStream::connect(&far) else { continue };
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            thread::spawn(move || {
                let mut chunk = [0; 64 * 1024];
                while let Ok(n @ 1..) = client.read(&mut chunk) {
                    let said = String::from_utf8_lossy(&chunk[..n]);
                    let receipt = said.contains("/receipt HTTP") || said.contains("\"receipts\":[{");
                    if receipt || server.write_all(&chunk[..n]).is_err() {
                        break;
                    }
                }
                // Either end may have gone first.
                drop((client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both)));
            });
        }
    });
    home
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_adapter_that_is_killed_between_writing_and_reporting_leaves_the_answer_unknown() {
    let story = asking();
    let home = home_without_receipts(&story);
    let mut run = story.command(&[], "do it").env("AYE_HOME", home.path()).spawn().unwrap();
    let ask = story.hub.answer_next(sqlite());
    // The model was told, and nobody could report it.
    story.told("toolu_q", "\"Which DB?\"=\"SQLite\"");
    assert_eq!(story.hub.ask(&ask)["receipt"], "pending");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(story.settled(&ask)["receipt"], "unknown");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_adapter_that_is_killed_while_the_tool_runs_never_calls_it_confirmed() {
    let story = Story::new(vec![vec![tool("toolu_b", "Bash", bash("touch begun && sleep 20"))]]);
    let mut run = story.run(&[]);
    let ask = story.hub.answer_next(json!({"decision": "allow", "scope": "once"}));
    eventually("the command to run", || story.has("begun").then_some(()));
    story.hub.once(&ask, "delivery", |ask| ask["receipt"] == "delivered");
    run.kill().unwrap();
    run.wait().unwrap();
    let agent = story.agent();
    eventually("the agent to be gone", || {
        let path = format!("/api/agents/{}", agent["id"].as_str().unwrap());
        let state = story.hub.get(&path, &story.hub.operator()).body["state"].clone();
        (state == "ended").then_some(())
    });
    assert!(matches!(story.hub.ask(&ask)["receipt"].as_str(), Some("delivered" | "unknown")));
}
