//! A server as OpenCode's that does not keep to its protocol: whatever it does, nothing is approved, and the run ends with
//! a sentence.

use crate::support::{Hub, aye, complained, eventually, printed};
use aye_testkit::agent::{heard, serve_agent};
use serde_json::{Value, json};
use std::process::{Child, Output, Stdio};

struct Scene {
    hub: Hub,
    work: tempfile::TempDir,
}

impl Scene {
    /// Everything is allowed by a rule here, so that whatever gets through is approved.
    fn new() -> Self {
        let mut hub = Hub::start();
        std::fs::write(hub.home.join("config.toml"), "[policy]\nauto_approve = [\"*\"]\n").unwrap();
        hub.stop();
        hub.restart();
        Self { hub, work: tempfile::tempdir().unwrap() }
    }

    fn run(&self, steps: &[Value]) -> Child {
        let opening = [
            json!({"await": "/session/ses_1/prompt_async"}),
            event("session.status", json!({"status": {"type": "busy"}})),
        ];
        let script = Value::from([&opening[..], steps].concat()).to_string();
        std::fs::write(self.work.path().join("script.json"), script).unwrap();
        let mut command = aye(&self.hub.home);
        command.args(["run", "--agent", "opencode", "do it"]).current_dir(self.work.path());
        command.env("AYE_OPENCODE", serve_agent()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn to_its_end(&self, steps: &[Value]) -> Output {
        self.run(steps).wait_with_output().unwrap()
    }

    /// What the server was told in reply to its requests.
    fn replies(&self) -> Vec<Value> {
        let all = heard(&self.work.path().join("heard.jsonl")).into_iter();
        all.filter(|call| call["path"].as_str().unwrap().contains("/reply")).collect()
    }

    /// The ask that is open, once it is.
    fn ask(&self) -> Value {
        eventually("the ask", || {
            let list = self.hub.get("/api/asks?state=open", &self.hub.operator()).body;
            list["asks"].get(0).cloned()
        })
    }

    fn alarms(&self) -> Vec<Value> {
        let alarms = self.hub.get("/api/alarms", &self.hub.operator()).body;
        alarms["asks"].as_array().unwrap().clone()
    }

    #[track_caller]
    fn only_alarm(&self) -> Value {
        let [alarm] = &self.alarms()[..] else { panic!("{:?}", self.alarms()) };
        alarm.clone()
    }

    #[track_caller]
    fn approved_nothing(&self) {
        let replies = self.replies();
        assert!(!Value::from(replies.clone()).to_string().contains("once"), "{replies:?}");
    }
}

fn event(kind: &str, mut about: Value) -> Value {
    about["sessionID"] = "ses_1".into();
    json!({"event": {"type": kind, "properties": about}})
}

fn part(call: &str, state: Value) -> Value {
    let part = json!({"type": "tool", "tool": "bash", "callID": call, "messageID": "msg_1", "state": state});
    event("message.part.updated", json!({ "part": part }))
}

fn begins(call: &str, command: &str) -> Value {
    part(call, json!({"status": "running", "input": {"command": command}}))
}

fn asks(id: &str, call: &str, command: &str) -> Value {
    let tool = json!({"messageID": "msg_1", "callID": call});
    event(
        "permission.asked",
        json!({"id": id, "permission": "bash", "patterns": [command], "metadata": {"command": command}, "always": [], "tool": tool}),
    )
}

fn replied(id: &str, reply: &str) -> Value {
    event("permission.replied", json!({"requestID": id, "reply": reply}))
}

fn idle() -> Value {
    event("session.idle", json!({}))
}

#[track_caller]
fn ended_with(output: &Output, words: &str) {
    assert!(!output.status.success(), "{output:?}");
    let said = printed(output) + &complained(output);
    assert!(said.contains(words), "{words:?} in {said}");
}

#[test]
fn a_server_that_keeps_to_it_is_answered() {
    let scene = Scene::new();
    let done = part("c", json!({"status": "completed", "input": {}, "output": ""}));
    let awaited = json!({"await": "/permission/per_1"});
    // The request may come before the call that it is about.
    let steps =
        [asks("per_1", "c", "make"), begins("c", "make"), awaited, replied("per_1", "once"), done, idle()];
    let output = scene.to_its_end(&steps);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.replies(), [json!({"path": "/permission/per_1/reply", "body": {"reply": "once"}})]);
}

#[test]
fn what_is_no_event_ends_the_run() {
    let whole = asks("per_1", "c", "make")["event"].to_string();
    let nameless = event("permission.asked", json!({"permission": "bash"}));
    for (words, steps) in [
        ("cannot be read", vec![json!({"say": "data: {\"type\":\"permission.as\n\n"})]),
        ("cannot be read", vec![json!({"say": format!("data: {}", &whole[..60])}), json!({"end": 0})]),
        ("cannot be read", vec![json!({"say": format!("data: r[\"Session\",{{}}] {whole}\n\n")})]),
        ("has no type", vec![json!({"event": {}})]),
        ("has no id", vec![nameless]),
        ("never asked", vec![replied("per_9", "once")]),
        ("in the middle of its turn", vec![json!({"end": 0})]),
    ] {
        let scene = Scene::new();
        ended_with(&scene.to_its_end(&steps), words);
        scene.approved_nothing();
    }
}

#[test]
fn an_id_that_is_used_twice_ends_the_run() {
    let scene = Scene::new();
    let steps = [
        begins("c", "make"),
        asks("per_1", "c", "make"),
        json!({"await": "/permission/per_1"}),
        begins("d", "rm x"),
        asks("per_1", "d", "rm x"),
    ];
    ended_with(&scene.to_its_end(&steps), "two requests under the id per_1");
    assert_eq!(scene.replies().len(), 1);
}

#[test]
fn an_answer_that_is_not_ours_ends_the_run() {
    for (steps, approved) in [
        // Nobody has answered it yet, because no rule decides what is unclear.
        (vec![begins("c", "ls"), asks("per_1", "c", "make"), replied("per_1", "once")], 0),
        (vec![begins("c", "ls"), asks("per_1", "c", "make"), replied("per_1", "reject")], 0),
        // Its call has not begun, so nobody was shown it.
        (vec![asks("per_1", "c", "make"), replied("per_1", "once")], 0),
        (
            vec![
                begins("c", "make"),
                asks("per_1", "c", "make"),
                json!({"await": "/permission/per_1"}),
                replied("per_1", "always"),
            ],
            1,
        ),
        (
            vec![
                begins("c", "make"),
                asks("per_1", "c", "make"),
                json!({"await": "/permission/per_1"}),
                replied("per_1", "reject"),
            ],
            1,
        ),
    ] {
        let scene = Scene::new();
        ended_with(&scene.to_its_end(&steps), "Somebody else answered");
        let once = scene.replies().iter().filter(|reply| reply["body"]["reply"] == "once").count();
        assert_eq!(once, approved);
        let alarm = scene.only_alarm();
        let (state, receipt) = (&alarm["state"], &alarm["receipt"]);
        match approved {
            0 => assert_eq!((state, receipt), (&json!("withdrawn"), &json!(null)), "{alarm}"),
            _ => assert_eq!((state, receipt), (&json!("answered"), &json!("disputed")), "{alarm}"),
        }
        assert!(alarm["note"].as_str().unwrap().contains("somebody else"), "{alarm}");
    }
}

#[test]
fn a_refused_call_that_somebody_else_approves_is_an_alarm() {
    let scene = Scene::new();
    let run = scene.run(&[
        begins("c", "ls"),
        asks("per_1", "c", "rm x"),
        json!({"await": "/permission/per_1"}),
        replied("per_1", "once"),
        part("c", json!({"status": "completed", "input": {}, "output": ""})),
    ]);
    let ask = scene.ask();
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    ended_with(&run.wait_with_output().unwrap(), "Somebody else answered");
    let alarm = scene.only_alarm();
    assert_eq!((&alarm["id"], &alarm["receipt"]), (&ask["id"], &json!("disputed")));
    scene.approved_nothing();
}

#[test]
fn what_a_refusal_refuses_as_well_is_no_alarm() {
    let scene = Scene::new();
    let run = scene.run(&[
        begins("c", "ls"),
        asks("per_1", "c", "rm x"),
        begins("d", "ls"),
        asks("per_2", "d", "rm y"),
        json!({"await": "/permission/per_1"}),
        replied("per_1", "reject"),
        replied("per_2", "reject"),
        part("c", json!({"status": "error", "input": {}, "error": "The user rejected permission"})),
        part("d", json!({"status": "error", "input": {}, "error": "The user rejected permission"})),
        idle(),
    ]);
    let first = eventually("both asks", || {
        let list = scene.hub.get("/api/asks?state=open", &scene.hub.operator()).body;
        let asks = list["asks"].as_array().unwrap().clone();
        let is_first = |ask: &&Value| ask["display"].to_string().contains("rm x");
        asks.iter().find(is_first).filter(|_| asks.len() == 2).cloned()
    });
    assert_eq!(scene.hub.answer(&first, json!({"decision": "deny"})).status, 200);
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.alarms(), Vec::<Value>::new());
}

#[test]
fn a_request_after_the_end_is_not_approved() {
    let scene = Scene::new();
    // In one write: a request that comes when the run has ended meets nobody.
    let events = [idle(), begins("c", "make"), asks("per_1", "c", "make")];
    let said: String = events.iter().map(|event| format!("data: {}\n\n", event["event"])).collect();
    let output = scene.to_its_end(&[json!({ "say": said })]);
    ended_with(&output, "asked for something after it had ended its turn");
    scene.approved_nothing();
}

#[test]
fn a_flood_ends_the_run_and_nothing_of_it_is_approved() {
    let scene = Scene::new();
    let flood = (0..600).flat_map(|n| {
        let (id, call) = (format!("per_{n}"), format!("c{n}"));
        // No rule decides what is unclear.
        [begins(&call, "ls"), asks(&id, &call, "make")]
    });
    let output = scene.to_its_end(&flood.collect::<Vec<_>>());
    ended_with(&output, "more than 500 things at once");
    scene.approved_nothing();
}

#[test]
fn a_flood_of_requests_about_calls_that_never_begin_ends_the_run() {
    let scene = Scene::new();
    let flood = (0..600).map(|n| asks(&format!("per_{n}"), &format!("c{n}"), "make"));
    let output = scene.to_its_end(&flood.collect::<Vec<_>>());
    ended_with(&output, "more than 500 calls that have not begun");
    scene.approved_nothing();
}

#[test]
fn a_request_that_does_not_say_what_its_call_says_is_asked_whatever_the_rules_say_and_for_once_alone() {
    let scene = Scene::new();
    let run = scene.run(&[
        begins("c", "ls"),
        asks("per_1", "c", "rm x"),
        json!({"await": "/permission/per_1"}),
        idle(),
    ]);
    let ask = scene.ask();
    assert_eq!(
        (&ask["body"]["tool"], &ask["body"]["scopes"]),
        (&json!("Unclear"), &json!([{"scope": "once"}]))
    );
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny", "message": "why"})).status, 200);
    assert!(run.wait_with_output().unwrap().status.success());
    assert_eq!(scene.replies()[0]["body"], json!({"reply": "reject", "message": "why"}));
}

#[test]
fn an_id_leads_nowhere_else() {
    let scene = Scene::new();
    let id = "../session/ses_1/shell?x=";
    let output = scene.to_its_end(&[
        begins("c", "make"),
        asks(id, "c", "make"),
        json!({"await": "/permission/"}),
        idle(),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.replies()[0]["path"], "/permission/%2E%2E%2Fsession%2Fses_1%2Fshell%3Fx%3D/reply");
}
