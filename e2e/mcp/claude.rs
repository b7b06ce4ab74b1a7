//! The real Claude Code as the client: what counts is what its model is told.

use super::delivered;
use crate::support::{Hub, aye, claude, saying, signal};
use aye_testkit::model::{Model, tool};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

struct Scene {
    hub: Hub,
    model: Model,
    work: tempfile::TempDir,
}

const ASK: &str = "mcp__aye__ask_human";
const CHECK: &str = "mcp__aye__check_answer";

impl Scene {
    fn new(calls: Vec<Value>) -> Self {
        let model = Model::scripted(calls.into_iter().map(|call| vec![call]).collect());
        Self { hub: Hub::start(), model, work: tempfile::tempdir().unwrap() }
    }

    fn on_stdio(&self) -> Value {
        let program = aye(&self.hub.home).get_program().to_str().unwrap().to_owned();
        json!({"command": program, "args": ["mcp"], "env": {"AYE_HOME": self.hub.home}})
    }

    fn over_http(&self) -> Value {
        let bearer = format!("Bearer {}", self.hub.agent("claude-by-http"));
        json!({"type": "http", "url": format!("http://{}/mcp", self.hub.address), "headers": {"Authorization": bearer}})
    }

    /// Claude Code itself, as anybody starts it.
    fn run(&self, server: Value) -> Child {
        let config = self.work.path().join("mcp.json");
        std::fs::write(&config, json!({"mcpServers": {"aye": server}}).to_string()).unwrap();
        let mut command = Command::new(claude());
        command.args(["-p", "do it", "--allowedTools", &format!("{ASK},{CHECK}"), "--strict-mcp-config"]);
        command.arg("--mcp-config").arg(config).current_dir(self.work.path()).env("HOME", self.work.path());
        command.env("ANTHROPIC_BASE_URL", &self.model.url).env("ANTHROPIC_API_KEY", "sk-ant-fake");
        command.env("CLAUDE_CONFIG_DIR", self.work.path().join(".config")).env("IS_SANDBOX", "1");
        command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1,localhost");
        command.env("DISABLE_AUTOUPDATER", "1").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command.env_remove("AYE_URL").env_remove("AYE_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn ends(&self, run: Child) {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

fn which_database() -> Value {
    json!({"question": "Which DB?", "options": ["PostgreSQL", "SQLite"]})
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn its_model_is_told_the_answer_over_both_transports() {
    for transport in [Scene::on_stdio, Scene::over_http] {
        let permission = tool("toolu_p", ASK, json!({"permission": "drop the table"}));
        let scene = Scene::new(vec![tool("toolu_q", ASK, which_database()), permission]);
        let run = scene.run(transport(&scene));
        let ask = scene.hub.answer_next(saying("SQLite"));
        let told = scene.model.told("toolu_q");
        assert!(told.contains("SQLite") && !told.contains("PostgreSQL"), "{told}");
        delivered(&scene.hub, &ask);
        let ask = scene.hub.answer_next(json!({"decision": "deny", "message": "never that one"}));
        let told = scene.model.told("toolu_p");
        assert!(told.contains("never that one"), "{told}");
        delivered(&scene.hub, &ask);
        scene.ends(run);
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_session_that_is_interrupted_takes_its_ask_back() {
    for transport in [Scene::on_stdio, Scene::over_http] {
        let scene = Scene::new(vec![tool("toolu_q", ASK, which_database())]);
        let run = scene.run(transport(&scene));
        let ask = scene.hub.open_ask();
        signal(&run, Signal::INT);
        super::note_of_withdrawn(&scene.hub, &ask);
        run.wait_with_output().unwrap();
        assert_eq!(scene.model.requests().len(), 1);
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_model_that_does_not_wait_gets_a_ticket_and_later_the_answer() {
    let mut question = which_database();
    question["wait_seconds"] = json!(0);
    let scene = Scene::new(vec![tool("toolu_q", ASK, question)]);
    scene.ends(scene.run(scene.on_stdio()));
    let told = scene.model.told("toolu_q");
    let ask = scene.hub.open_ask();
    let ticket = ask["id"].as_str().unwrap();
    assert!(told.contains(ticket), "{told}");
    // Another session, later.
    assert_eq!(scene.hub.answer(&ask, saying("SQLite")).status, 200);
    let model = Model::scripted(vec![vec![tool("toolu_c", CHECK, json!({"ticket": ticket}))]]);
    let scene = Scene { model, ..scene };
    scene.ends(scene.run(scene.on_stdio()));
    assert!(scene.model.told("toolu_c").contains("SQLite"));
    delivered(&scene.hub, &ask);
}
