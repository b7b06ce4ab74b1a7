//! Runs that go on by themselves, runs that are started from afar, and answers typed where a run is shown.

mod steer;
mod terminal;

use crate::support::{Hub, aye, code, complained, eventually, printed};
use aye_testkit::agent::{heard, scripted_agent};
use aye_testkit::scenario::{text, tool};
use serde_json::{Value, json};
use std::process::Command;

struct Scene {
    hub: Hub,
    work: tempfile::TempDir,
}

fn which() -> Value {
    let option = |label: &str| json!({"label": label, "description": ""});
    json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [option("PostgreSQL"), option("SQLite")]}]})
}

impl Scene {
    /// A hub whose config.toml says this, and an agent that does these steps.
    fn new(config: &str, steps: Value) -> Self {
        let work = tempfile::tempdir().unwrap();
        let mut hub = Hub::start();
        std::fs::write(hub.home.join("config.toml"), config.replace("WORK", work.path().to_str().unwrap()))
            .unwrap();
        hub.stop();
        hub.restart();
        let scene = Self { hub, work };
        scene.script(steps);
        scene
    }

    fn script(&self, steps: Value) {
        let scenario = json!({"heard": "heard.jsonl", "steps": steps});
        std::fs::write(self.work.path().join("scenario.json"), scenario.to_string()).unwrap();
    }

    fn aye(&self) -> Command {
        let mut command = aye(&self.hub.home);
        command.current_dir(self.work.path()).env("AYE_CLAUDE", scripted_agent());
        command
    }

    fn heard(&self) -> Vec<Value> {
        heard(&self.work.path().join("heard.jsonl"))
    }

    fn prompts(&self) -> Vec<Value> {
        self.heard()
            .iter()
            .filter(|line| line["type"] == "user")
            .map(|line| line["message"]["content"].clone())
            .collect()
    }

    fn agent(&self, id: &str) -> Value {
        self.hub.get(&format!("/api/agents/{id}"), &self.hub.operator()).body
    }

    fn until(&self, id: &str, state: &str) -> Value {
        eventually(state, || Some(self.agent(id)).filter(|agent| agent["state"] == state))
    }

    fn ask(&self) -> Value {
        eventually("an ask", || {
            let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
            list["asks"].get(0).cloned()
        })
    }

    fn steer(&self, id: &str, how: &str, body: Value) {
        let reply = self.hub.post(&format!("/api/agents/{id}/{how}"), &self.hub.operator(), body);
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    fn start(&self, run: Value) -> crate::support::Reply {
        self.hub.post("/api/agents", &self.hub.operator(), run)
    }
}

#[test]
fn a_detached_run_outlives_the_hub_takes_further_prompts_and_ends_when_it_is_stopped() {
    let question = tool("toolu_q", "AskUserQuestion", which());
    let mut scene = Scene::new("", json!([[text("First.")], {"do": "turn"}, [question], [text("Second.")]]));
    let started = scene.aye().args(["run", "--detach", "begin"]).output().unwrap();
    assert_eq!(code(&started), Some(0), "{}", complained(&started));
    let id = printed(&started).trim().to_owned();
    scene.until(&id, "idle");
    scene.steer(&id, "prompt", json!({"text": "go on"}));
    let ask = scene.ask();
    scene.hub.kill();
    scene.hub.restart();
    assert_eq!(scene.hub.answer(&ask, json!({"answers": [{"selected": ["SQLite"]}]})).status, 200);
    scene.until(&id, "idle");
    assert_eq!(scene.hub.ask(&ask)["receipt"], "confirmed");
    assert_eq!(scene.prompts(), ["begin", "go on"]);
    scene.steer(&id, "stop", json!({}));
    scene.until(&id, "ended");
    let events = scene.hub.get(&format!("/api/agents/{id}/events"), &scene.hub.operator()).body;
    let kinds: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|e| e["event"]["type"].clone()).collect();
    assert_eq!(kinds.first(), Some(&json!("prompt")));
    assert_eq!(kinds.last(), Some(&json!("ended")));
    let log = std::fs::read_to_string(scene.hub.home.join("runs").join(format!("{id}.log"))).unwrap();
    for words in
        ["First.", "Which DB?", "The hub is away.", "The hub is back.", "SQLite, by", "> go on", "Second."]
    {
        assert!(log.contains(words), "{words} in {log}");
    }
}

#[test]
fn a_detached_run_that_cannot_start_says_why() {
    let scene = Scene::new("", json!([]));
    let failed =
        scene.aye().env("AYE_CLAUDE", "/nowhere/claude").args(["run", "--detach", "x"]).output().unwrap();
    assert_eq!((code(&failed), printed(&failed).as_str()), (Some(1), ""));
    assert!(complained(&failed).contains("cannot start /nowhere/claude"), "{}", complained(&failed));
}

#[test]
fn a_run_is_started_from_afar_in_a_project_with_the_environment_its_owner_named() {
    let config = format!(
        "[agents.claude]\ncommand = {:?}\nenv = [\"GIVEN_*\", \"SET=by the owner\"]\n[projects]\nweb = \"WORK\"\n",
        scripted_agent()
    );
    let scene = Scene::new(&config, json!([[text("Hello.")]]));
    let known = scene.hub.get("/api/projects", &scene.hub.operator()).body;
    assert_eq!(known["projects"], json!([{"name": "web", "path": scene.work.path()}]));
    let claude = json!({"kind": "claude", "modes": ["default", "plan", "acceptEdits", "dontAsk"]});
    assert_eq!(known["agents"][0], claude);
    let started = scene.start(json!({"cwd": "web", "prompt": "--help", "mode": "plan"}));
    assert_eq!(started.status, 201, "{}", started.body);
    let id = started.body["id"].as_str().unwrap();
    assert_eq!((&started.body["reach"], &started.body["title"]), (&json!("driven"), &json!("--help")));
    scene.until(id, "idle");
    assert_eq!(scene.prompts(), ["--help"]);
    let begun = &scene.heard()[0];
    let arguments = begun["arguments"].to_string();
    assert!(arguments.contains("--permission-mode=plan"), "{arguments}");
    let names = begun["environment"].as_array().unwrap();
    assert!(names.contains(&json!("SET")) && names.contains(&json!("HOME")), "{names:?}");
    for secret in ["AYE_TOKEN", "CARGO_MANIFEST_DIR", "CARGO"] {
        assert!(!names.contains(&json!(secret)), "{secret} was not named");
    }
    scene.steer(id, "stop", json!({}));
    scene.until(id, "ended");
}

#[test]
fn what_may_not_be_started_from_afar_is_refused_and_nothing_runs() {
    let scene = Scene::new("", json!([]));
    let work = scene.work.path();
    for (run, field) in [
        (json!({"cwd": "/no/such/folder", "prompt": "x"}), "cwd"),
        (json!({"cwd": work, "prompt": "x", "mode": "bypassPermissions"}), "mode"),
        (json!({"cwd": work, "prompt": "x", "mode": "auto"}), "mode"),
        (json!({"cwd": work, "prompt": "x", "agent": "other"}), "agent"),
        (json!({"cwd": work, "prompt": "x", "resume": "--settings"}), "resume"),
    ] {
        let refused = scene.start(run.clone());
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!(field)), "{run}: {}", refused.body);
    }
    let missing = Scene::new("[agents.claude]\ncommand = \"/nowhere/claude\"\n", json!([]));
    let failed = missing.start(json!({"cwd": missing.work.path(), "prompt": "x"}));
    assert_eq!(failed.status, 502);
    assert!(failed.body["error"].as_str().unwrap().contains("/nowhere/claude"), "{}", failed.body);
    for scene in [scene, missing] {
        let agents = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
        assert_eq!(agents["agents"], json!([]));
    }
}

#[test]
fn a_session_goes_on_with_its_own_kind_of_agent_alone() {
    let config =
        format!("[agents.claude]\ncommand = {0:?}\n[agents.other]\ncommand = {0:?}\n", scripted_agent());
    let scene = Scene::new(&config, json!([[text("Hello.")]]));
    let first = scene.aye().args(["run", "--agent", "other", "--once", "begin"]).output().unwrap();
    assert_eq!(code(&first), Some(0), "{}", complained(&first));
    let known = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
    let goes_on = json!({"cwd": scene.work.path(), "prompt": "go on", "resume": known["agents"][0]["id"]});
    let refused = scene.start(goes_on.clone());
    assert_eq!(refused.status, 502, "{}", refused.body);
    let why = refused.body["error"].as_str().unwrap();
    assert!(why.contains("is a session of other, not of claude"), "{why}");
    let with = |kind: &str| {
        let mut run = goes_on.clone();
        run["agent"] = kind.into();
        scene.start(run)
    };
    assert_eq!(with("claude").status, 502);
    let started = with("other");
    assert_eq!((started.status, &started.body["kind"]), (201, &json!("other")), "{}", started.body);
    scene.steer(started.body["id"].as_str().unwrap(), "stop", json!({}));
}

#[test]
fn an_agent_that_asks_by_a_bare_tool_call_gets_its_answer_as_the_result() {
    let config = format!("[agents.other]\ncommand = {:?}\nasks_by = \"tool_use\"\n", scripted_agent());
    let scene =
        Scene::new(&config, json!([{"do": "bare", "block": tool("toolu_b", "AskUserQuestion", which())}]));
    let mut run = scene.aye().args(["run", "--agent", "other", "go"]).spawn().unwrap();
    let ask = scene.ask();
    assert_eq!(scene.hub.answer(&ask, json!({"answers": [{"selected": ["SQLite"]}]})).status, 200);
    assert!(crate::support::ended(&mut run).success());
    let told = scene.heard().into_iter().find(|line| line["message"]["content"][0]["type"] == "tool_result");
    assert_eq!(told.unwrap()["message"]["content"][0]["content"], "SQLite");
}
