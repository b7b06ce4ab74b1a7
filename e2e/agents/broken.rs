//! Agents that do not keep to their protocol: whatever they do, nothing is approved, and the run ends with a sentence.

use crate::support::{Hub, aye, complained, eventually, printed};
use aye_testkit::agent::{heard, rpc_agent};
use serde_json::{Value, json};
use std::process::{Child, Output, Stdio};

/// A protocol as an agent speaks that keeps to it.
struct Dialect {
    kind: &'static str,
    /// Names its program.
    variable: &'static str,
    /// A session that was opened, and a turn that began.
    opening: fn() -> Vec<Value>,
    /// A request to run a command.
    approval: fn(id: u64, command: &str) -> Value,
    turn_ends: fn() -> Value,
    /// Instead of a session, this error.
    fails: fn(Value) -> Vec<Value>,
    /// What a request gets that is approved.
    approved: fn(id: u64) -> Value,
}

const CODEX: Dialect = Dialect {
    kind: "codex",
    variable: "AYE_CODEX",
    opening: || {
        let thread = json!({"thread": {"id": "t"}});
        let turn = json!({"turn": {"id": "u", "items": [], "status": "inProgress"}});
        vec![
            json!({"await": "initialize", "line": {"id": "ID", "result": {}}}),
            json!({"await": "thread/start", "line": {"id": "ID", "result": thread}}),
            json!({"await": "turn/start", "line": {"id": "ID", "result": turn}}),
            json!({"line": {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}}),
        ]
    },
    // As Codex quotes it.
    approval: |id, command| {
        let quote = if command.contains([' ', '$']) { "'" } else { "" };
        json!({"method": "item/commandExecution/requestApproval", "id": id, "params": {
            "kind": "command", "threadId": "t", "turnId": "u", "itemId": format!("call_{id}"),
            "command": format!("/bin/bash -lc {quote}{command}{quote}"), "availableDecisions": ["accept", "cancel"]}})
    },
    turn_ends: || {
        let turn = json!({"id": "u", "status": "completed"});
        json!({"line": {"method": "turn/completed", "params": {"threadId": "t", "turn": turn}}})
    },
    fails: |error| {
        vec![
            json!({"await": "initialize", "line": {"id": "ID", "result": {}}}),
            json!({"await": "thread/start", "line": {"id": "ID", "error": error}}),
        ]
    },
    approved: |id| json!({"id": id, "result": {"decision": "accept"}}),
};

const ACP: Dialect = Dialect {
    kind: "qwen",
    variable: "AYE_QWEN",
    opening: || {
        let version = json!({"protocolVersion": 1});
        vec![
            json!({"await": "initialize", "line": {"jsonrpc": "2.0", "id": "ID", "result": version}}),
            json!({"await": "session/new", "line": {"jsonrpc": "2.0", "id": "ID", "result": {"sessionId": "s"}}}),
            json!({"await": "session/prompt"}),
        ]
    },
    approval: |id, command| {
        let call = json!({"toolCallId": format!("call_{id}"), "kind": "execute", "title": command,
            "_meta": {"toolName": "run_shell_command"}, "rawInput": {"command": command}});
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind, "name": kind});
        let options = [option("proceed_once", "allow_once"), option("cancel", "reject_once")];
        json!({"jsonrpc": "2.0", "method": "session/request_permission", "id": id,
            "params": {"sessionId": "s", "toolCall": call, "options": options}})
    },
    // The reply to the prompt, which is the third request that it gets.
    turn_ends: || json!({"line": {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}}),
    fails: |error| {
        vec![
            json!({"await": "initialize", "line": {"jsonrpc": "2.0", "id": "ID", "result": {"protocolVersion": 1}}}),
            json!({"await": "session/new", "line": {"jsonrpc": "2.0", "id": "ID", "error": error}}),
        ]
    },
    approved: |id| {
        let outcome = json!({"outcome": "selected", "optionId": "proceed_once"});
        json!({"id": id, "result": {"outcome": outcome}, "jsonrpc": "2.0"})
    },
};

const DIALECTS: [Dialect; 2] = [CODEX, ACP];

struct Scene {
    dialect: Dialect,
    hub: Hub,
    work: tempfile::TempDir,
}

impl Scene {
    /// Everything is allowed by a rule here, so that whatever gets through is approved.
    fn new(dialect: Dialect) -> Self {
        let mut scene = Self::without_rules(dialect);
        std::fs::write(scene.hub.home.join("config.toml"), "[policy]\nauto_approve = [\"*\"]\n").unwrap();
        scene.hub.stop();
        scene.hub.restart();
        scene
    }

    fn without_rules(dialect: Dialect) -> Self {
        Self { dialect, hub: Hub::start(), work: tempfile::tempdir().unwrap() }
    }

    fn run(&self, steps: &[Value]) -> Child {
        self.script(&[(self.dialect.opening)(), steps.to_vec()].concat())
    }

    fn script(&self, steps: &[Value]) -> Child {
        let script = Value::from(steps.to_vec()).to_string();
        std::fs::write(self.work.path().join("script.json"), script).unwrap();
        let mut command = aye(&self.hub.home);
        command.args(["run", "--agent", self.dialect.kind, "do it"]).current_dir(self.work.path());
        command.env(self.dialect.variable, rpc_agent()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn approval(&self, id: u64, command: &str) -> Value {
        (self.dialect.approval)(id, command)
    }

    fn turn_ends(&self) -> Value {
        (self.dialect.turn_ends)()
    }

    fn heard(&self) -> Vec<Value> {
        heard(&self.work.path().join("heard.jsonl"))
    }

    /// What the agent was told in reply to its requests.
    fn replies(&self) -> Vec<Value> {
        self.heard().into_iter().filter(|message| message["method"].is_null()).collect()
    }

    #[track_caller]
    fn approved_nothing(&self) {
        let replies = self.replies();
        let approved = replies.iter().any(|reply| reply["result"] == (self.dialect.approved)(0)["result"]);
        assert!(!approved, "{}: {replies:?}", self.dialect.kind);
    }
}

#[track_caller]
fn ended_with(output: &Output, words: &str) {
    assert!(!output.status.success(), "{output:?}");
    let said = printed(output) + &complained(output);
    assert!(said.contains(words), "{words:?} in {said}");
}

#[test]
fn an_agent_that_keeps_to_it_is_answered() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let request = json!({"line": scene.approval(0, "make")});
        let run = scene.run(&[request, json!({"await": "reply"}), scene.turn_ends()]);
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(scene.replies(), [(scene.dialect.approved)(0)]);
    }
}

#[test]
fn what_is_no_message_ends_the_run() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let wrong_id = json!({"id": 77, "result": (scene.dialect.approved)(0)["result"]});
        for (words, broken) in [
            ("cannot be read", "{\"method\":\"item/comm\n".to_owned()),
            ("cannot be read", format!("{}\n", &scene.approval(0, "make").to_string()[..60])),
            ("never made", wrong_id.to_string() + "\n"),
            ("neither id nor name", "{}\n".to_owned()),
        ] {
            let output = scene.run(&[json!({"say": broken})]).wait_with_output().unwrap();
            ended_with(&output, words);
            scene.approved_nothing();
        }
    }
}

#[test]
fn half_a_message_at_the_end_is_none() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let half = scene.approval(0, "make").to_string()[..80].to_owned();
        let output = scene.run(&[json!({"say": half}), json!({"end": 0})]).wait_with_output().unwrap();
        ended_with(&output, "cannot be read");
        scene.approved_nothing();
    }
}

#[test]
fn an_id_that_is_used_twice_ends_the_run_and_neither_request_is_approved_again() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let steps = [
            json!({"line": scene.approval(0, "make")}),
            json!({"await": "reply"}),
            json!({"line": scene.approval(0, "rm x")}),
        ];
        let output = scene.run(&steps).wait_with_output().unwrap();
        ended_with(&output, "two requests under the id 0");
        assert_eq!(scene.replies().len(), 1);
    }
}

#[test]
fn a_request_that_reads_in_two_ways_is_refused_and_the_turn_goes_on() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let twice = scene.approval(0, "make").to_string().replacen(
            "\"command\":",
            "\"command\":\"ls\",\"command\":",
            1,
        );
        let steps = [json!({"say": twice + "\n"}), json!({"await": "reply"}), scene.turn_ends()];
        let output = scene.run(&steps).wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(scene.replies()[0]["error"]["code"], -32600, "{:?}", scene.replies());
    }
}

#[test]
fn a_request_after_the_end_is_not_approved() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let late = json!({"line": scene.approval(3, "make")});
        let output = scene.run(&[scene.turn_ends(), late]).wait_with_output().unwrap();
        ended_with(&output, "asked for something after it had ended its turn");
        scene.approved_nothing();
        let asks = scene.hub.get("/api/asks?state=answered", &scene.hub.operator()).body;
        assert_eq!(asks["asks"], json!([]), "no rule decided it");
    }
}

#[test]
fn a_flood_ends_the_run_and_nothing_of_it_is_approved() {
    for dialect in DIALECTS {
        let scene = Scene::without_rules(dialect);
        let steps: Vec<_> = (0..600).map(|id| json!({"line": scene.approval(id, "make")})).collect();
        let output = scene.run(&steps).wait_with_output().unwrap();
        ended_with(&output, "more than 500 things at once");
        scene.approved_nothing();
        let open = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        assert_eq!(open["asks"], json!([]));
    }
}

#[test]
fn a_session_that_cannot_be_opened_ends_the_run_with_the_reason() {
    for dialect in DIALECTS {
        let scene = Scene::new(dialect);
        let script = (scene.dialect.fails)(json!({"code": -1, "message": "no model is configured"}));
        ended_with(&scene.script(&script).wait_with_output().unwrap(), "no model is configured");
    }
}

#[test]
fn a_command_that_cannot_be_taken_apart_is_asked_whatever_the_rules_say_and_for_once_alone() {
    let mut scene = Scene::new(CODEX);
    let mut odd = scene.approval(0, "x");
    odd["params"]["command"] = "/bin/bash -lc 'make' extra".into();
    let mut steps = vec![json!({"line": odd}), json!({"await": "reply"}), scene.turn_ends()];
    let run = scene.run(&steps);
    let ask = eventually("the ask", || {
        let list = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        list["asks"].get(0).cloned()
    });
    assert_eq!(ask["body"]["tool"], "Unclear");
    assert_eq!(ask["body"]["scopes"], json!([{"scope": "once"}]));
    assert!(ask["display"]["caution"].as_str().unwrap().contains("no rule decides it"), "{ask}");
    let words = scene.hub.answer(&ask, json!({"decision": "deny", "message": "why"}));
    assert!(words.body.to_string().contains("words with a refusal"), "{}", words.body);
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    assert!(run.wait_with_output().unwrap().status.success());
    assert_eq!(scene.replies(), [json!({"id": 0, "result": {"decision": "decline"}})]);
    // It may be what a rule about commands wants a passkey for.
    let rule = "[[policy.rules]]\ntool = \"Bash\"\naction = \"ask\"\nproof = \"passkey\"\n";
    std::fs::write(scene.hub.home.join("config.toml"), rule).unwrap();
    scene.hub.stop();
    scene.hub.restart();
    let run = scene.run(&steps);
    let ask = eventually("the ask", || {
        let list = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        list["asks"].get(0).cloned()
    });
    let allowed = scene.hub.answer(&ask, json!({"decision": "allow", "scope": "once"}));
    assert_eq!((allowed.status, &allowed.body["proof"]), (403, &json!("passkey")));
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    assert!(run.wait_with_output().unwrap().status.success());
    // The same of a change that was never told of.
    let change = json!({"method": "item/fileChange/requestApproval", "id": 0, "params": {
        "threadId": "t", "turnId": "u", "itemId": "call_9"}});
    steps[0] = json!({"line": change});
    let run = scene.run(&steps);
    let ask = eventually("the ask", || {
        let list = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        list["asks"].get(0).cloned()
    });
    assert_eq!(
        (&ask["body"]["tool"], &ask["body"]["scopes"]),
        (&json!("Unclear"), &json!([{"scope": "once"}]))
    );
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    run.wait_with_output().unwrap();
}
