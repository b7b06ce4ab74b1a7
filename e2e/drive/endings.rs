//! Agents that end, are silent, or no longer listen.

use super::{Scene, bash, once, question, yes};
use crate::support::{eventually, signal};
use rustix::process::Signal;
use serde_json::json;

#[test]
fn an_agent_that_ends_in_the_middle_of_an_ask_takes_it_with_it() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "ask", "block": question("toolu_q"), "wait": false},
        {"do": "until", "file": "go"},
        {"do": "exit", "code": 3}]));
    let ask = scene.hub.open_ask();
    scene.make("go");
    let ended = scene.end(run);
    ended.says("ended with exit code 3");
    assert_eq!(ended.code(), Some(3));
    let gone = scene.hub.once(&ask, "the end of the ask", |ask| ask["state"] == "withdrawn");
    assert_eq!(gone["note"], "the agent is gone");
    assert_eq!(scene.hub.answer(&ask, yes()).status, 409);
}

#[test]
fn an_agent_that_is_killed_in_the_middle_of_an_ask_takes_it_with_it() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "ask", "block": bash("toolu_1", "ls"), "wait": false},
        {"do": "until", "file": "go"},
        {"do": "kill"}]));
    let ask = scene.hub.open_ask();
    scene.make("go");
    assert_eq!(scene.end(run).code(), Some(128 + 9), "as a shell tells it");
    assert_eq!(scene.hub.ask(&ask)["state"], "withdrawn");
}

#[test]
fn an_agent_that_is_gone_before_its_answer_was_written_did_not_get_it() {
    let scene = Scene::new();
    let run = scene.run(json!([
        {"do": "ask", "block": bash("toolu_1", "ls"), "wait": false},
        {"do": "until", "file": "go"},
        {"do": "kill"}]));
    let ask = scene.hub.open_ask();
    // The adapter sees neither the answer nor the end until both have happened.
    signal(&run, Signal::STOP);
    scene.hub.answer_next(once());
    scene.make("go");
    signal(&run, Signal::CONT);
    scene.end(run);
    let settled = scene.hub.once(&ask, "the receipt", |ask| ask["receipt"] != "pending");
    // Into the pipe of an agent that never reads again it may still be written.
    let receipt = settled["receipt"].as_str().unwrap();
    assert!(matches!(receipt, "undelivered" | "unknown" | "delivered"), "{receipt}");
}

#[test]
fn a_silent_agent_is_interrupted_through_the_hub() {
    let scene = Scene::new();
    let run = scene.run(json!([{"do": "silence"}]));
    scene.steer("interrupt");
    scene.end(run).says("stopped · ");
}

#[test]
fn an_interrupt_takes_an_open_ask_back_and_no_answer_is_sent() {
    let scene = Scene::new();
    let run = scene.run(json!([[bash("toolu_1", "ls")]]));
    let ask = scene.hub.open_ask();
    scene.steer("interrupt");
    scene.end(run);
    let ask = scene.hub.ask(&ask);
    assert_eq!((&ask["state"], scene.replies().len()), (&json!("withdrawn"), 0));
}

#[test]
fn an_agent_that_reads_nothing_more_is_ended_and_its_answer_not_called_delivered() {
    let scene = Scene::new();
    let write = aye_testkit::scenario::tool("toolu_1", "Write", json!({"file_path": "x", "content": "y"}));
    let run = scene.run(json!([{"do": "ask", "block": write, "wait": false}, {"do": "deaf"}]));
    // More than a pipe holds.
    let input = json!({"file_path": "x", "content": "z".repeat(200_000)});
    let ask = scene.hub.answer_next(json!({"decision": "allow", "scope": "once", "input": input}));
    scene.hub.once(&ask, "the answer", |ask| ask["state"] == "answered");
    scene.steer("stop");
    scene.end(run);
    let settled = scene.hub.once(&ask, "the receipt", |ask| ask["receipt"] != "pending");
    assert!(matches!(settled["receipt"].as_str(), Some("undelivered" | "unknown")), "{settled}");
}

#[test]
fn a_killed_adapter_leaves_neither_an_agent_nor_an_ask_behind() {
    let scene = Scene::new();
    let mut run = scene.run(json!([[question("toolu_q")]]));
    let ask = scene.hub.open_ask();
    run.kill().unwrap();
    let gone = scene.hub.once(&ask, "the end of the ask", |ask| ask["state"] == "withdrawn");
    assert_eq!(gone["note"], "the agent is gone");
    let pid = aye_testkit::agent::heard(&scene.file("heard.jsonl"))[0]["pid"].clone();
    eventually("the agent to end", || {
        (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(())
    });
    scene.end(run);
}

#[test]
fn ctrl_c_once_interrupts_the_turn_and_twice_ends_the_run() {
    let scene = Scene::new();
    let mut run = scene.run(json!([
        {"do": "ask", "block": bash("toolu_1", "ls"), "wait": false},
        {"do": "silence", "stubborn": true}]));
    let ask = scene.hub.open_ask();
    signal(&run, Signal::INT);
    eventually("the agent to be interrupted", || {
        let lines = aye_testkit::agent::heard(&scene.file("heard.jsonl"));
        lines.iter().any(|line| line["request"]["subtype"] == "interrupt").then_some(())
    });
    assert_eq!(run.try_wait().unwrap(), None);
    signal(&run, Signal::INT);
    scene.end(run);
    assert_eq!((&scene.hub.ask(&ask)["state"], scene.replies().len()), (&json!("withdrawn"), 0));
}

/// Field 6 of its line in /proc, counted after the name in brackets.
fn session_of(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after) = stat.rsplit_once(')').unwrap();
    after.split_whitespace().nth(3).unwrap().parse().unwrap()
}

#[test]
fn an_agent_lives_in_a_session_of_its_own_and_cannot_type_into_our_terminal() {
    let scene = Scene::new();
    let run = scene.run(json!([{"do": "ask", "block": bash("toolu_1", "ls")}]));
    scene.hub.open_ask();
    let agent = aye_testkit::agent::heard(&scene.file("heard.jsonl"))[0]["pid"].as_u64().unwrap();
    let leader = session_of(agent);
    assert_eq!(session_of(leader), leader);
    assert_ne!(session_of(run.id().into()), leader);
    scene.hub.answer_next(once());
    scene.end(run);
}

#[test]
fn an_agent_that_has_ended_is_gone_although_what_it_started_holds_its_output() {
    let scene = Scene::new();
    let agent = scene.file("agent.sh");
    let request = json!({"type": "control_request", "request_id": "r1", "request":
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}});
    let script = format!(
        "#!/bin/sh\necho '{request}'\nread first\nread second\nsleep 60 & echo $! > pid\nwhile [ ! -e go ]; do sleep 0.1; done\nexit 3\n"
    );
    std::fs::write(&agent, script).unwrap();
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let run = scene.command(json!([])).env("AYE_CLAUDE", &agent).spawn().unwrap();
    let ask = scene.hub.open_ask();
    scene.make("go");
    assert_eq!(scene.end(run).code(), Some(3));
    assert_eq!(scene.hub.ask(&ask)["note"], "the agent is gone");
    let left = std::fs::read_to_string(scene.file("pid")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_reader_that_pauses_holds_up_neither_the_answer_nor_the_end() {
    let scene = Scene::new();
    let words = "many words ".repeat(20_000);
    let mut run = scene.run(json!([
        [aye_testkit::scenario::text(&words)],
        {"do": "ask", "block": bash("toolu_1", "ls")},
        {"do": "silence"}]));
    let ask = scene.hub.answer_next(once());
    scene.hub.once(&ask, "the receipt", |ask| ask["receipt"] == "confirmed");
    signal(&run, Signal::TERM);
    signal(&run, Signal::TERM);
    let open = run.stdout.take();
    scene.hub.once(&ask, "the end of the agent", |_| {
        let agents = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
        agents["agents"][0]["state"] == "ended"
    });
    signal(&run, Signal::TERM);
    scene.end(run);
    drop(open);
}

#[test]
fn what_an_agent_complains_about_is_shown_and_not_obeyed() {
    let scene = Scene::new();
    let agent = scene.file("agent.sh");
    std::fs::write(&agent, "#!/bin/sh\nprintf '\\033[2Jall clear\\n' >&2\nexit 0\n").unwrap();
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let ended = scene.end(scene.command(json!([])).env("AYE_CLAUDE", &agent).spawn().unwrap());
    ended.says("all clear");
    assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'), "{}{}", ended.out, ended.err);
}
