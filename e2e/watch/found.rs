//! Which sessions are watched, by what name, and through which restarts.

use super::stage::Stage;
use super::{asks, picked, question, which_database};
use crate::support::{Hub, aye, complained, eventually, printed};
use aye_testkit::model::text;
use serde_json::json;
use std::fs;
use std::process::{Child, Command, Stdio};

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_hub_that_is_killed_and_a_watcher_that_is_killed_lose_nothing() {
    let mut stage = Stage::asking(vec![which_database("toolu_1")]);
    let before = stage.ask();
    stage.hub.kill();
    stage.hub.restart();
    stage.kill_watch();
    let recorded = stage.hub.answer(&before, picked("SQLite"));
    assert_eq!(recorded.status, 200);
    stage.start_watch(&[]);
    assert_eq!(stage.settled(&before)["receipt"], "confirmed");
    assert!(stage.model.told("toolu_1").contains("\"Which DB?\"=\"SQLite\""));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn what_was_answered_while_nobody_watched_is_told_afterwards() {
    let mut stage = Stage::asking(vec![which_database("toolu_1"), which_database("toolu_2")]);
    let first = stage.ask();
    stage.kill_watch();
    stage.sees("Which DB?");
    stage.press(&["2"]);
    assert!(stage.model.told("toolu_1").contains("SQLite"));
    stage.start_watch(&[]);
    let ended = stage.until(&first, |ask| ask["state"] != "open");
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &picked("SQLite")));
    stage.confirmed(picked("PostgreSQL"));
    assert!(stage.model.told("toolu_2").contains("PostgreSQL"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn keys_that_may_have_been_typed_are_never_typed_again() {
    let mut stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    stage.kill_watch();
    stage.hub.answer(&ask, picked("SQLite"));
    // As a watcher leaves it that died with its finger on a key.
    let token = stage.hub.agent(ask["agent"].as_str().unwrap());
    let path = format!("/api/asks/{}/receipt", ask["id"].as_str().unwrap());
    assert_eq!(stage.hub.post(&path, &token, json!({"receipt": "unknown"})).status, 200);
    stage.start_watch(&[]);
    let name = ask["agent"].as_str().unwrap();
    stage.until(&ask, |_| stage.agents().iter().any(|agent| agent["id"] == name && agent["state"] != "lost"));
    stage.sees("Which DB?");
    stage.press(&["1"]);
    let settled = stage.settled(&ask);
    assert_eq!(settled["receipt"], "disputed", "{settled}");
    assert!(stage.model.told("toolu_1").contains("PostgreSQL"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_outside_tmux_is_shown_with_the_reason_why_it_cannot_be_answered() {
    let mut stage = Stage::new(vec![which_database("toolu_1")]);
    let mut command = Command::new("script");
    // A terminal of its own, without tmux.
    let line = stage.claude().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    command
        .args(["-qfc", &format!("{line} 'do it'"), "/dev/null"])
        .env_remove("TMUX")
        .current_dir(stage.work());
    let mut session = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    stage.start_watch(&[]);
    let ask = stage.ask();
    let agent = stage.agents().into_iter().find(|agent| agent["id"] == ask["agent"]).unwrap();
    assert!(agent["title"].as_str().unwrap().contains("does not run in tmux"), "{agent}");
    assert_eq!(ask["can"]["answer"], false);
    let refused = stage.hub.answer(&ask, picked("SQLite"));
    assert_eq!(refused.status, 422);
    assert!(refused.body["error"].as_str().unwrap().contains("does not run in tmux"), "{}", refused.body);
    session.kill().unwrap();
    session.wait().unwrap();
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn an_agent_is_found_under_its_tmux_sessions_name() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    let operator = stage.hub.operator();
    let agent = stage.hub.get("/api/agents/main", &operator).body;
    assert_eq!((&agent["id"], &agent["tmux"]), (&ask["agent"], &json!("main")));
    assert!(printed(&stage.hub.aye(&["agents"])).contains("tmux session main"));
    let answer = json!({"answers": ["SQLite"]});
    let done = stage.hub.post("/api/agents/main/answer-question", &operator, answer);
    assert_eq!(done.body, json!({"success": true}));
    assert!(stage.model.told("toolu_1").contains("\"Which DB?\"=\"SQLite\""));
    // Two in one session have no name of their own.
    let token = stage.hub.agent("second");
    stage.hub.register(&token, "second", json!({"kind": "claude", "tmux": "main"}));
    assert_eq!(stage.hub.get("/api/agents/main", &operator).status, 404);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn sessions_of_one_folder_are_told_apart_by_tmux_sessions() {
    let mut stage = Stage::new(vec![which_database("toolu_1"), which_database("toolu_2")]);
    stage.start_session(&[]);
    stage.sees("Which DB?");
    stage.start_session_in("other", &[]);
    stage.start_watch(&[]);
    let both = eventually("both sessions", || Some(stage.hub.open_asks()).filter(|asks| asks.len() == 2));
    for command in ["agents", "list"] {
        let listed = printed(&stage.hub.aye(&[command]));
        for name in ["do it (tmux main)", "do it (tmux other)"] {
            assert!(listed.contains(name), "{name} in {listed}");
        }
    }
    let id = both[0]["id"].as_str().unwrap();
    assert!(printed(&stage.hub.aye(&["show", id])).contains("“do it (tmux "), "{id}");
    let attach = stage.hub.aye(&["send", "do it", "more"]);
    assert!(complained(&attach).contains("do it (tmux other)"), "{attach:?}");
    assert_ne!(both[0]["agent"], both[1]["agent"]);
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_found_late_has_the_title_that_claude_code_shows() {
    let mut stage = Stage::new(vec![which_database("toolu_1")]);
    stage.start_session(&[]);
    stage.sees("Which DB?");
    stage.press(&["2"]);
    stage.model.result_of("toolu_1");
    stage.start_watch(&[]);
    let is_called = |stage: &Stage, title: &str| {
        eventually(title, || {
            stage.agents().first().is_some_and(|agent| agent["title"] == title).then_some(())
        });
    };
    is_called(&stage, "do it");
    stage.press(&["/rename Databases"]);
    stage.sees("/rename Databases");
    stage.press(&["Enter"]);
    is_called(&stage, "Databases");
    // Whoever watches later finds what happened meanwhile.
    stage.kill_watch();
    stage.press(&["/rename Other databases"]);
    stage.sees("/rename Other databases");
    stage.press(&["Enter"]);
    stage.sees("renamed to: Other databases");
    stage.start_watch(&[]);
    is_called(&stage, "Other databases");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_folder_of_agents_names_them() {
    let mut stage = Stage::new(vec![which_database("toolu_1")]);
    let agents = stage.work().parent().unwrap().join("agents");
    fs::create_dir_all(agents.join("web")).unwrap();
    let state = json!({"id": "web", "workspace": stage.work(), "status": "running"});
    fs::write(agents.join("web/state.json"), state.to_string()).unwrap();
    stage.start_session(&[]);
    stage.start_watch(&["--agents-dir", agents.to_str().unwrap()]);
    assert_eq!(stage.ask()["agent"], "web");
    let answer = json!({"answers": ["SQLite"]});
    let done = stage.hub.post("/api/agents/web/answer-question", &stage.hub.operator(), answer);
    assert_eq!(done.body, json!({"success": true}));
    assert!(stage.model.told("toolu_1").contains("\"Which DB?\"=\"SQLite\""));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_that_the_hub_comes_to_know_by_a_better_way_is_left_to_it() {
    let stage = Stage::asking(vec![which_database("toolu_1")]);
    let ask = stage.ask();
    let watched = stage.agents().into_iter().find(|agent| agent["id"] == ask["agent"]).unwrap();
    let token = stage.hub.agent("hooked-1");
    let profile =
        json!({"kind": "claude", "reach": "hooked", "session": watched["session"], "state": "working"});
    stage.hub.register(&token, "hooked-1", profile);
    let ended = stage.until(&ask, |ask| ask["state"] != "open");
    assert_eq!(ended["state"], "withdrawn");
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_that_starts_later_is_found() {
    let mut stage = Stage::new(vec![asks("toolu_1", &[question("One?", false, &["x", "y"])])]);
    stage.start_watch(&[]);
    stage.start_session(&[]);
    stage.confirmed(picked("y"));
    assert!(stage.model.told("toolu_1").contains("\"One?\"=\"y\""));
}

/// As it is in a new folder for settings on a slow machine: the program says that it runs long before it writes down
/// what it asks.
#[test]
fn a_transcript_is_followed_even_if_its_folders_come_after_the_session_is_known() {
    let hub = Hub::start();
    let dir = tempfile::tempdir().unwrap();
    let (config, sessions) = (dir.path().join("config"), dir.path().join("config/sessions"));
    fs::create_dir_all(&config).unwrap();
    let mut watch = aye(&hub.home);
    watch.arg("watch").arg("--config-dir").arg(&config).stdout(Stdio::null()).stdin(Stdio::null());
    let _watch = Ended(watch.spawn().unwrap());
    let program = Ended(Command::new("sleep").arg("600").spawn().unwrap());
    fs::create_dir(&sessions).unwrap();
    let session = json!({"pid": program.0.id(), "sessionId": "late", "cwd": "/work", "kind": "interactive"});
    fs::write(sessions.join("1.json"), session.to_string()).unwrap();
    let list = |path: &str| hub.get(path, &hub.operator()).body;
    eventually("the session to be known", || list("/api/agents")["agents"].get(0).map(drop));

    let folder = config.join("projects/-work");
    fs::create_dir_all(&folder).unwrap();
    let input = json!({"questions": [question("One?", false, &["x", "y"])]});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "AskUserQuestion", "input": input});
    let line =
        json!({"type": "assistant", "sessionId": "late", "cwd": "/work", "message": {"content": [call]}});
    fs::write(folder.join("late.jsonl"), format!("{line}\n")).unwrap();
    let ask = eventually("its question", || list("/api/asks?state=open")["asks"].get(0).cloned());
    assert_eq!(ask["tool_use_id"], "toolu_1");
}

/// Whatever becomes of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_watched_session_that_asks_for_nothing_is_shown_as_that() {
    let mut stage = Stage::new(vec![vec![text("First done.")], vec![text("Second done.")]]);
    stage.start_session(&["--permission-mode", "bypassPermissions"]);
    stage.sees("First done.");
    stage.start_watch(&[]);
    let asks = |expected: &str| {
        eventually(&format!("the agent's mode to ask for {expected}"), || {
            stage.agents().first().is_some_and(|agent| agent["asks"] == expected).then_some(())
        });
    };
    asks("nothing");
    stage.press(&["BTab"]);
    stage.sees("auto mode on");
    stage.press(&["g", "o", "Enter"]);
    stage.sees("Second done.");
    asks("some");
}
