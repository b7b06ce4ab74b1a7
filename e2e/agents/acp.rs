//! What the Agent Client Protocol carries beside permissions: forms, plans, several ways to say yes, sessions that are
//! loaded, modes. With scripted agents, and with the real ones where they have it.

use super::{COPILOT, GEMINI, KIMI, QWEN, Stage};
use crate::support::{Hub, aye, complained, eventually, printed};
use aye::config::KnownAgent;
use aye_testkit::agent::{heard, rpc_agent};
use aye_testkit::model::{Model, text, tool};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Child, Output, Stdio};

/// A scripted agent that needs a section in config.toml.
struct Scene {
    hub: Hub,
    work: tempfile::TempDir,
}

fn line(mut message: Value) -> Value {
    message["jsonrpc"] = "2.0".into();
    json!({ "line": message })
}

fn request(id: u64, method: &str, params: Value) -> Value {
    line(json!({"id": id, "method": method, "params": params}))
}

fn option(id: &str, kind: &str, name: &str) -> Value {
    json!({"optionId": id, "kind": kind, "name": name})
}

fn asks(id: u64, call: Value, options: &[Value]) -> Value {
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    request(id, "session/request_permission", params)
}

fn yes_or_no() -> [Value; 2] {
    [option("yes", "allow_once", "Yes"), option("no", "reject_once", "No")]
}

fn form(id: u64, properties: Value, required: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let params = json!({"sessionId": "s", "mode": "form", "message": "Say", "requestedSchema": schema});
    request(id, "elicitation/create", params)
}

fn replied(to: &str, result: Value) -> Value {
    json!({"await": to, "line": {"jsonrpc": "2.0", "id": "ID", "result": result}})
}

fn update(update: Value) -> Value {
    line(json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}))
}

fn reply() -> Value {
    json!({"await": "reply"})
}

/// The reply to the prompt, which is the third request that the agent gets.
fn turn_ends() -> Value {
    line(json!({"id": 3, "result": {"stopReason": "end_turn"}}))
}

impl Scene {
    /// Everything is allowed by a rule here, so that what is asked is asked whatever the rules say.
    fn new() -> Self {
        Self::under("[policy]\nauto_approve = [\"*\"]\n")
    }

    fn under(policy: &str) -> Self {
        let mut scene = Self { hub: Hub::start(), work: tempfile::tempdir().unwrap() };
        let config = format!(
            "{policy}[agents.mine]\nprotocol = \"acp\"\ncommand = {:?}\nargs = [\"--acp\"]\n",
            rpc_agent()
        );
        std::fs::write(scene.hub.home.join("config.toml"), config).unwrap();
        scene.hub.stop();
        scene.hub.restart();
        scene
    }

    fn run(&self, steps: &[Value]) -> Child {
        self.run_as("mine", steps)
    }

    fn run_as(&self, kind: &str, steps: &[Value]) -> Child {
        let opening = [
            replied("initialize", json!({"protocolVersion": 1})),
            replied("session/new", json!({"sessionId": "s"})),
            json!({"await": "session/prompt"}),
        ];
        self.script(kind, &[], &[&opening[..], steps].concat())
    }

    fn script(&self, kind: &str, arguments: &[&str], steps: &[Value]) -> Child {
        let script = Value::from(steps.to_vec()).to_string();
        std::fs::write(self.work.path().join("script.json"), script).unwrap();
        let mut command = aye(&self.hub.home);
        command.args(["run", "--agent", kind]).args(arguments).arg("do it").current_dir(self.work.path());
        for program in ["AYE_GEMINI", "AYE_QWEN", "AYE_KIMI", "AYE_COPILOT"] {
            command.env(program, rpc_agent());
        }
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn ask(&self) -> Value {
        eventually("the ask", || {
            let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
            list["asks"].get(0).cloned()
        })
    }

    fn answer(&self, answer: Value) -> Value {
        let ask = self.ask();
        let recorded = self.hub.answer(&ask, answer);
        assert_eq!(recorded.status, 200, "{}", recorded.body);
        ask
    }

    fn heard(&self) -> Vec<Value> {
        heard(&self.work.path().join("heard.jsonl"))
    }

    /// What the agent was told in reply to its requests.
    fn results(&self) -> Vec<Value> {
        let replies = self.heard().into_iter().filter(|message| message["method"].is_null());
        replies.map(|reply| reply["result"].clone()).collect()
    }
}

fn words(run: Child) -> String {
    let output: Output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    printed(&output) + &complained(&output)
}

fn picked(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

#[test]
fn a_form_is_asked_as_questions_and_answered_as_it_takes_it() {
    let scene = Scene::new();
    let db = json!({"type": "string", "title": "DB", "oneOf": [{"const": "pg", "title": "PostgreSQL"}, {"const": "lite", "title": "SQLite"}]});
    let features = json!({"type": "array", "title": "Features", "items": {"anyOf": [{"const": "a", "title": "Auth"}, {"const": "l", "title": "Log"}]}});
    let properties = json!({"db": db, "features": features, "port": {"type": "integer", "title": "Port"},
        "tls": {"type": "boolean", "title": "TLS"}, "name": {"type": "string", "title": "Name"}});
    let run = scene.run(&[form(7, properties, json!(["db", "port"])), reply(), turn_ends()]);
    let ask = scene.answer(json!({"answers": [{"selected": ["SQLite"]}, {"selected": ["Auth", "Log"]},
        {"text": "5432"}, {"selected": ["No"]}, {"skip": true}]}));
    words(run);
    let headers = ask["body"]["questions"].as_array().unwrap().iter().map(|question| &question["header"]);
    assert_eq!(headers.collect::<Vec<_>>(), ["DB", "Features", "Port", "TLS", "Name"]);
    assert_eq!(ask["can"]["response"], false, "{ask}");
    let content = json!({"db": "lite", "features": ["a", "l"], "port": 5432, "tls": false});
    assert_eq!(scene.results(), [json!({"action": "accept", "content": content})]);
    let initialize = &scene.heard()[0]["params"]["clientCapabilities"]["elicitation"];
    assert_eq!(*initialize, json!({"form": {}, "url": {}}));
}

#[test]
fn a_form_that_is_declined_or_does_not_fit_is_declined_and_the_reason_is_told() {
    let port = json!({"port": {"type": "integer", "title": "Port"}});
    for (answer, reason) in [
        (json!({"skip": true}), None),
        (json!({"answers": [{"text": "many"}]}), Some("declined, because \"Port\" must be a whole number")),
        (json!({"answers": [{"skip": true}]}), None),
    ] {
        let scene = Scene::new();
        let run = scene.run(&[form(7, port.clone(), json!(["port"])), reply(), turn_ends()]);
        scene.answer(answer.clone());
        let said = words(run);
        assert!(reason.is_none_or(|reason| said.contains(reason)), "{answer}: {said}");
        assert_eq!(scene.results(), [json!({"action": "decline"})], "{answer}");
    }
}

#[test]
fn a_form_that_cannot_be_asked_is_declined_at_once_with_a_sentence() {
    let scene = Scene::new();
    let odd = form(7, json!({"x": {"type": "string", "pattern": "^a+$"}}), json!([]));
    let said = words(scene.run(&[odd, reply(), turn_ends()]));
    assert!(
        said.contains("form was declined, because its field x has a limit that aye cannot check"),
        "{said}"
    );
    assert_eq!(scene.results(), [json!({"action": "decline"})]);
}

#[test]
fn an_address_is_shown_and_never_opened() {
    for (answer, action) in [
        (json!({"answers": [{"selected": ["I have opened it"]}]}), "accept"),
        (json!({"skip": true}), "decline"),
    ] {
        let scene = Scene::new();
        let (server, url) = nobody_calls();
        let params =
            json!({"sessionId": "s", "mode": "url", "message": "Sign in", "elicitationId": "e", "url": url});
        let run = scene.run(&[request(7, "elicitation/create", params), reply(), turn_ends()]);
        let ask = scene.answer(answer);
        words(run);
        assert!(ask["body"]["questions"][0]["question"].as_str().unwrap().contains(&url), "{ask}");
        assert_eq!(scene.results(), [json!({ "action": action })]);
        server.set_nonblocking(true).unwrap();
        assert!(server.accept().is_err(), "somebody opened the address");
    }
}

fn nobody_calls() -> (std::net::TcpListener, String) {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sign-in", server.local_addr().unwrap());
    (server, url)
}

fn two_ways() -> [Value; 4] {
    [
        option("q0", "allow_once", "PostgreSQL"),
        option("q1", "allow_once", "SQLite"),
        option("skip", "reject_once", "Skip"),
        option("always", "allow_always", "Always"),
    ]
}

fn selecting(label: &str) -> Value {
    json!({"answers": [{"selected": [label]}]})
}

#[test]
fn several_ways_to_allow_what_is_only_words_are_a_question_and_no_rule_picks_one() {
    for (answer, expected) in [
        (selecting("SQLite"), picked("q1")),
        (selecting("Skip"), picked("skip")),
        (json!({"skip": true}), picked("skip")),
    ] {
        let scene = Scene::new();
        let call = json!({"toolCallId": "c", "title": "Which DB?"});
        let run = scene.run(&[asks(7, call, &two_ways()), reply(), turn_ends()]);
        let ask = scene.ask();
        // Nobody knows what "always" would be here.
        assert_eq!(scene.hub.answer(&ask, selecting("Always")).status, 422);
        scene.answer(answer);
        words(run);
        let allows = "Allows it; the agent shows nothing of it but these words";
        let way = |label: &str| json!({"label": label, "description": allows, "allows": true});
        let no = json!({"label": "Skip", "description": "Refuses it"});
        let question = &ask["body"]["questions"][0];
        assert_eq!((&ask["kind"], &question["question"]), (&json!("question"), &json!("Which DB?")));
        assert_eq!(question["options"], json!([way("PostgreSQL"), way("SQLite"), no]));
        assert_eq!(scene.results(), [expected]);
    }
}

#[test]
fn a_call_that_shows_what_it_does_stays_a_permission_however_many_ways_there_are_to_allow_it() {
    let scene = Scene::under("");
    let diff = json!([{"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}]);
    for (call, tool) in [
        (json!({"rawInput": {"command": "rm -rf x"}}), "mine:other"),
        (json!({"kind": "execute"}), "Unclear"),
        (json!({"kind": "delete"}), "Unclear"),
        (json!({"content": diff}), "Unclear"),
    ] {
        let mut asked = call.clone();
        asked["toolCallId"] = "c".into();
        asked["title"] = "Which?".into();
        let run = scene.run(&[asks(7, asked, &two_ways()), reply(), turn_ends()]);
        let ask = scene.answer(json!({"decision": "allow", "scope": "once"}));
        words(run);
        assert_eq!((&ask["kind"], &ask["body"]["tool"]), (&json!("permission"), &json!(tool)), "{call}");
        let input = &ask["body"]["input"];
        assert_eq!(
            (&input["acp_option"], &input["acp_other_options"]),
            (&json!("PostgreSQL"), &json!(["SQLite"])),
            "people see which way is taken: {call}"
        );
        assert_eq!(scene.results().last(), Some(&picked("q0")));
    }
}

fn removes() -> Value {
    json!({"toolCallId": "c", "kind": "execute", "title": "ls", "_meta": {"toolName": "run_shell_command"},
        "rawInput": {"command": "rm -rf x"}})
}

#[test]
fn a_rule_refuses_a_command_however_many_ways_there_are_to_allow_it() {
    let scene = Scene::under("[[policy.rules]]\ntool = \"Bash\"\ncommand = \"rm *\"\naction = \"deny\"\n");
    words(scene.run_as("qwen", &[asks(7, removes(), &two_ways()), reply(), turn_ends()]));
    assert_eq!(scene.results(), [picked("skip")]);
}

#[test]
fn what_takes_a_passkey_takes_it_in_whatever_way_it_is_allowed() {
    let plan = json!([{"type": "content", "content": {"type": "text", "text": "1. x"}}]);
    let once = json!({"decision": "allow", "scope": "once"});
    for (kind, call, allow, refuse) in [
        ("qwen", removes(), once, json!({"decision": "deny"})),
        ("mine", json!({"toolCallId": "c", "title": "Which DB?"}), selecting("SQLite"), selecting("Skip")),
        (
            "kimi",
            json!({"toolCallId": "c", "title": "ExitPlanMode", "content": plan}),
            selecting("SQLite"),
            json!({"skip": true}),
        ),
    ] {
        let scene = Scene::under("[policy]\nproof = \"passkey\"\n");
        let run = scene.run_as(kind, &[asks(7, call, &two_ways()), reply(), turn_ends()]);
        let ask = scene.ask();
        assert_eq!(ask["proof"], "passkey", "{ask}");
        let refused = scene.hub.answer(&ask, allow);
        assert_eq!((refused.status, &refused.body["proof"]), (403, &json!("passkey")), "{kind}");
        scene.answer(refuse);
        words(run);
        assert_eq!(scene.results(), [picked("skip")], "{kind}");
    }
}

#[test]
fn where_a_refusal_ends_the_turn_the_option_that_refuses_says_so() {
    let scene = Scene::new();
    let call = json!({"toolCallId": "c", "title": "Which DB?"});
    let run = scene.run_as("qwen", &[asks(7, call, &two_ways()), reply(), turn_ends()]);
    let ask = scene.answer(selecting("Skip"));
    words(run);
    assert_eq!(ask["body"]["questions"][0]["options"][2]["description"], "Refuses it (ends the turn)");
    assert_eq!(ask["can"]["deny_ends_turn"], true);
}

#[test]
fn a_title_alone_is_asked_whatever_the_rules_say_and_for_once_alone() {
    let scene = Scene::new();
    let options = [yes_or_no().to_vec(), vec![option("always", "allow_always", "Always")]].concat();
    let call = json!({"toolCallId": "c", "kind": "execute", "title": "ls"});
    let run = scene.run(&[asks(7, call, &options), reply(), turn_ends()]);
    let ask = scene.ask();
    assert_eq!(
        (&ask["body"]["tool"], &ask["body"]["scopes"]),
        (&json!("Unclear"), &json!([{"scope": "once"}]))
    );
    assert!(ask["display"]["caution"].as_str().unwrap().contains("no rule decides it"), "{ask}");
    for scope in ["session", "always"] {
        assert_eq!(scene.hub.answer(&ask, json!({"decision": "allow", "scope": scope})).status, 422);
    }
    scene.answer(json!({"decision": "allow", "scope": "once"}));
    words(run);
    assert_eq!(scene.results(), [picked("yes")]);
}

#[test]
fn what_was_announced_is_decided_by_a_rule_and_what_contradicts_it_is_not() {
    let scene = Scene::new();
    let told = |id: &str, command: &str| {
        update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute", "title": "x",
            "status": "pending", "rawInput": {"command": command}}))
    };
    let steps = [
        told("c1", "ls"),
        asks(7, json!({"toolCallId": "c1", "title": "x"}), &yes_or_no()),
        reply(),
        told("c2", "rm x"),
        asks(8, json!({"toolCallId": "c2", "title": "x", "rawInput": {"command": "ls"}}), &yes_or_no()),
        reply(),
        turn_ends(),
    ];
    let run = scene.run(&steps);
    let ask = scene.answer(json!({"decision": "deny"}));
    words(run);
    assert_eq!((&ask["body"]["tool"], &ask["tool_use_id"]), (&json!("Unclear"), &json!("c2")));
    assert_eq!(scene.results(), [picked("yes"), picked("no")]);
}

#[test]
fn a_plan_that_changes_while_somebody_decides_is_refused() {
    for (changes, expected) in [(false, "yes"), (true, "no")] {
        let scene = Scene::new();
        let file = scene.work.path().join("plan.md");
        std::fs::write(&file, "1. write tests").unwrap();
        let title = format!("Requesting plan approval for: {}", file.display());
        let call = json!({"toolCallId": "exit_plan_mode__1", "kind": "other", "title": title});
        let steps = [
            replied("initialize", json!({"protocolVersion": 1})),
            replied("session/new", json!({"sessionId": "s"})),
            json!({"await": "session/prompt"}),
            asks(7, call, &yes_or_no()),
            reply(),
            turn_ends(),
        ];
        let run = scene.script("gemini", &[], &steps);
        let ask = scene.ask();
        assert_eq!((&ask["kind"], &ask["body"]["plan"]), (&json!("plan"), &json!("1. write tests")));
        if changes {
            std::fs::write(&file, "1. remove everything").unwrap();
        }
        scene.answer(json!({"decision": "allow"}));
        let said = words(run);
        assert_eq!(scene.results(), [picked(expected)]);
        assert_eq!(said.contains("changed its plan while somebody decided"), changes, "{said}");
        if changes {
            assert_eq!(scene.hub.ask(&ask)["receipt"], "disputed");
        }
    }
}

const SESSION: &str = "74410bbb-5b75-4095-8167-ff1e17ecd565";

#[test]
fn a_session_is_loaded_and_what_it_replays_was_said_before() {
    let scene = Scene::new();
    let said = |text: &str| {
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    };
    let modes = json!({"currentModeId": "https://x/modes#agent", "availableModes": [{"id": "https://x/modes#agent"}, {"id": "https://x/modes#plan"}]});
    let steps = [
        replied("initialize", json!({"protocolVersion": 1})),
        json!({"await": "session/load", "say": said("from before")["line"].to_string() + "\n"}),
        line(json!({"id": 2, "result": {"modes": modes}})),
        replied("session/set_mode", json!({})),
        json!({"await": "session/prompt"}),
        said("from now"),
        line(json!({"id": 4, "result": {"stopReason": "end_turn"}})),
    ];
    let said = words(scene.script("mine", &["--resume", SESSION, "--mode", "plan"], &steps));
    assert!(said.contains("from now") && !said.contains("from before"), "{said}");
    let told = |method: &str| {
        scene.heard().into_iter().find(|message| message["method"] == method).unwrap()["params"].clone()
    };
    assert_eq!(told("session/load")["sessionId"], SESSION);
    assert_eq!(told("session/set_mode")["modeId"], "https://x/modes#plan");
}

#[test]
fn a_mode_that_the_agent_does_not_have_ends_the_run_with_those_that_it_has() {
    let scene = Scene::new();
    let modes =
        json!({"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "https://x/modes#plan"}]});
    let steps = [
        replied("initialize", json!({"protocolVersion": 1})),
        replied("session/new", json!({"sessionId": "s", "modes": modes})),
    ];
    let output = scene.script("mine", &["--mode", "nonsense"], &steps).wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_eq!(modes_in(&output), ["ask", "plan"]);
    assert!(!scene.heard().iter().any(|message| message["method"] == "session/prompt"));
}

/// The session of an agent that says it is in one mode, and what it tells before it takes another.
fn in_modes(current: &str, before_reply: Value, after: &[Value]) -> Vec<Value> {
    let modes = json!({"currentModeId": current, "availableModes": [{"id": "default"}, {"id": "yolo"}]});
    let opening = [
        replied("initialize", json!({"protocolVersion": 1})),
        replied("session/new", json!({"sessionId": "s", "modes": modes})),
        json!({"await": "session/set_mode", "say": before_reply["line"].to_string() + "\n"}),
        line(json!({"id": 3, "result": {}})),
    ];
    [&opening, after].concat()
}

fn mode_is(mode: &str) -> Value {
    update(json!({"sessionUpdate": "current_mode_update", "currentModeId": mode}))
}

#[test]
fn a_mode_is_set_also_where_the_agent_says_it_is_in_it() {
    for current in ["default", "yolo"] {
        let scene = Scene::new();
        let turn = [
            json!({"await": "session/prompt"}),
            mode_is("yolo"),
            line(json!({"id": 4, "result": {"stopReason": "end_turn"}})),
        ];
        let said = words(scene.script("kimi", &[], &in_modes(current, mode_is("default"), &turn)));
        assert!(said.contains("asks for nothing"), "{said}");
        let heard = scene.heard();
        let set = heard.iter().position(|message| message["method"] == "session/set_mode").unwrap();
        assert_eq!(heard[set]["params"]["modeId"], "default");
        assert_eq!(heard[set + 1]["method"], "session/prompt");
        // What it changed to in its turn is known.
        let agents = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
        assert_eq!(agents["agents"][0]["asks"], "nothing", "{agents}");
    }
}

#[test]
fn an_agent_that_stays_in_a_mode_that_asks_for_less_gets_no_prompt() {
    let scene = Scene::new();
    let output =
        scene.script("kimi", &[], &in_modes("default", mode_is("yolo"), &[])).wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = printed(&output) + &complained(&output);
    assert!(said.contains("set to the mode default, but is in one that asks for less"), "{said}");
    assert!(!scene.heard().iter().any(|message| message["method"] == "session/prompt"));
}

#[test]
fn an_agent_that_allows_everything_is_set_to_ask() {
    let scene = Scene::new();
    let modes =
        json!({"currentModeId": "x#agent", "availableModes": [{"id": "x#agent"}, {"id": "x#autopilot"}]});
    let option = |value: &str| json!([{"id": "allow_all", "currentValue": value}]);
    let steps = [
        replied("initialize", json!({"protocolVersion": 1})),
        replied("session/new", json!({"sessionId": "s", "modes": modes, "configOptions": option("on")})),
        replied("session/set_config_option", json!({"configOptions": option("off")})),
        replied("session/set_mode", json!({})),
        json!({"await": "session/prompt"}),
        line(json!({"id": 5, "result": {"stopReason": "end_turn"}})),
    ];
    words(scene.script("copilot", &[], &steps));
    let heard = scene.heard();
    let set = heard.iter().find(|message| message["method"] == "session/set_config_option").unwrap();
    assert_eq!(set["params"], json!({"sessionId": "s", "configId": "allow_all", "value": "off"}));
    let agents = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
    assert_eq!(agents["agents"][0]["asks"], "everything", "{agents}");
}

/// The modes that the agent has, as the run says when it ends.
fn modes_in(output: &Output) -> Vec<String> {
    let said = printed(output) + &complained(output);
    let (_, modes) = said.split_once("no permission mode nonsense. It has these: ").expect(&said);
    let (modes, _) = modes.split_once('.').expect(&said);
    modes.split(", ").map(str::to_owned).collect()
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn the_modes_that_are_offered_for_an_agent_are_those_that_it_has() {
    for agent in [&GEMINI, &QWEN, &KIMI, &COPILOT] {
        let stage = Stage::new(agent, Model::scripted(vec![]));
        let output = stage.run(&["--mode", "nonsense"]).wait_with_output().unwrap();
        // What Copilot does unless a mode is named is its mode `agent`.
        let own =
            modes_in(&output).into_iter().map(|mode| if mode == "agent" { "default".into() } else { mode });
        let offered = KnownAgent::of(agent.kind).unwrap().modes.iter().map(|mode| mode.name.to_owned());
        assert_eq!(own.collect::<BTreeSet<_>>(), offered.collect(), "{}", agent.name);
    }
}

#[test]
fn an_agent_that_needs_a_section_of_its_own_gets_its_arguments_and_says_why_it_does_not_start() {
    let scene = Scene::new();
    let error =
        json!({"code": -32603, "message": "Internal error", "data": {"details": "no model is configured"}});
    let steps = [
        replied("initialize", json!({"protocolVersion": 1})),
        json!({"await": "session/new", "line": {"jsonrpc": "2.0", "id": "ID", "error": error}}),
    ];
    let output = scene.script("mine", &[], &steps).wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = printed(&output) + &complained(&output);
    assert!(said.contains("Internal error: no model is configured"), "{said}");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_plan_that_is_refused_is_not_carried_out() {
    for (agent, told) in
        [(&QWEN, None), (&GEMINI, Some("canceled by the user")), (&KIMI, Some("requested revisions"))]
    {
        let (stage, run) = agent.plans.expect("a tool that plans")(agent);
        let ask = stage.answer(json!({"decision": "deny"}));
        assert_eq!(ask["kind"], "plan", "{ask}");
        stage.confirmed(&ask);
        run.wait_with_output().unwrap();
        let heard = stage.model.heard_of("call_p").unwrap_or_default();
        assert!(
            !heard.contains("approved") && heard.contains(told.unwrap_or_default()),
            "{}: {heard}",
            agent.name
        );
    }
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_form_of_kimi_with_several_questions_is_answered() {
    let option = |label: &str| json!({"label": label, "description": "."});
    let question = |text: &str, several: bool| json!({"question": text, "header": "H", "multi_select": several, "options": [option("One"), option("Two")]});
    let questions = [question("Which?", false), question("Which of them?", true)];
    let stage = Stage::new(
        &KIMI,
        Model::scripted(vec![vec![tool("call_q", "AskUserQuestion", json!({ "questions": questions }))]]),
    );
    let run = stage.run(&[]);
    let ask = stage.answer(json!({"answers": [{"selected": ["Two"]}, {"selected": ["One", "Two"]}]}));
    assert_eq!(ask["body"]["questions"][1]["question"], "Which of them?");
    let told: Value = serde_json::from_str(&stage.model.told("call_q")).unwrap();
    assert_eq!(told["answers"], json!({"Which?": "Two", "Which of them?": "One, Two"}));
    stage.confirmed(&ask);
    words(run);
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_session_of_kimi_goes_on() {
    let call = |id: &str| vec![tool(id, "Bash", json!({"command": "echo it ran"}))];
    let stage = Stage::new(&KIMI, Model::scripted(vec![call("call_1"), vec![text("Done.")], call("call_2")]));
    let first = stage.run(&[]);
    stage.answer(json!({"decision": "allow", "scope": "once"}));
    words(first);
    let session = stage.agent()["session"].as_str().unwrap().to_owned();
    let second = stage.run(&["--resume", &session]);
    let ask = stage.answer(json!({"decision": "allow", "scope": "once"}));
    stage.told("call_2", "it ran");
    stage.confirmed(&ask);
    words(second);
}
