//! What follows from Codex's messages, without Codex.

use super::Codex;
use crate::agents::driven::Start;
use crate::agents::driven::asks::ToRaise;
use crate::agents::driven::{Driver, Effect, Event, RunEvent};
use crate::agents::lines::Line;
use aye_core::{AsksFor, Body};
use serde_json::{Value, json};

type Effects = Vec<Effect<String>>;

fn input(driver: &mut Driver<Codex>, message: Value) -> Effects {
    driver.handle(Event::Input(Line::Whole(message.to_string().into_bytes())))
}

fn start(mode: Option<&str>, resume: Option<&str>) -> Driver<Codex> {
    let own = |text: Option<&str>| text.map(str::to_owned);
    Driver::new(
        Codex::new(Start {
            kind: "codex".into(),
            cwd: "/src".into(),
            places: aye_policy::OwnPlaces::default(),
            mode: own(mode),
            resume: own(resume),
        }),
        "run".into(),
    )
}

/// The messages among the effects.
fn written(effects: &Effects) -> Vec<Value> {
    let lines = effects.iter().filter_map(|effect| match effect {
        Effect::Write(line) => Some(serde_json::from_str(line).unwrap()),
        _ => None,
    });
    lines.collect()
}

fn in_a_turn() -> Driver<Codex> {
    let mut driver = start(None, None);
    driver.begin("go", None);
    input(&mut driver, json!({"id": 1, "result": {}}));
    input(&mut driver, json!({"id": 2, "result": {"thread": {"id": "t"}}}));
    input(&mut driver, json!({"id": 3, "result": {"turn": {"id": "u"}}}));
    driver
}

fn raised(effects: &Effects) -> Value {
    let body = effects.iter().find_map(|effect| match effect {
        Effect::Raise(ToRaise { body: Body::Permission(permission), .. }) => Some(permission),
        _ => None,
    });
    let body = body.unwrap_or_else(|| panic!("{effects:?}"));
    json!([body.tool, body.input, body.scopes.len()])
}

fn change(diff: &str) -> Value {
    json!([{"path": "/src/a", "kind": {"type": "add"}, "diff": diff}])
}

fn begins(changes: &Value) -> Value {
    let item = json!({"type": "fileChange", "id": "c", "changes": changes, "status": "inProgress"});
    json!({"method": "item/started", "params": {"threadId": "t", "item": item}})
}

fn asks_to_change() -> Value {
    json!({"method": "item/fileChange/requestApproval", "id": 0, "params":
        {"threadId": "t", "turnId": "u", "itemId": "c", "reason": null, "grantRoot": null}})
}

fn command(fields: Value) -> Value {
    let mut params = json!({"kind": "command", "threadId": "t", "turnId": "u", "itemId": "c", "environmentId": "local",
        "command": "/bin/bash -lc 'make x'", "cwd": "/src", "availableDecisions": ["accept"]});
    for (field, value) in fields.as_object().unwrap() {
        params[field] = value.clone();
    }
    json!({"method": "item/commandExecution/requestApproval", "id": 0, "params": params})
}

#[test]
fn a_session_is_opened_before_the_prompt_and_asks_for_everything_unless_told_otherwise() {
    let mut driver = start(None, None);
    let first = written(&driver.begin("go", None));
    assert_eq!((first.len(), &first[0]["method"]), (1, &json!("initialize")));
    let opens = written(&input(&mut driver, json!({"id": 1, "result": {}})));
    let params = &opens[1]["params"];
    assert_eq!(
        (&opens[1]["method"], &params["approvalPolicy"], &params["approvalsReviewer"]),
        (&json!("thread/start"), &json!("untrusted"), &json!("user"))
    );
    let prompt = written(&input(&mut driver, json!({"id": 2, "result": {"thread": {"id": "t"}}})));
    assert_eq!(prompt[0]["params"]["input"], json!([{"type": "text", "text": "go"}]));
    let mut driver = start(Some("full-access"), Some("s"));
    driver.begin("go", None);
    let opens = written(&input(&mut driver, json!({"id": 1, "result": {}})));
    let params = &opens[1]["params"];
    assert_eq!(
        (&opens[1]["method"], &params["threadId"], &params["sandbox"]),
        (&json!("thread/resume"), &json!("s"), &json!("danger-full-access"))
    );
}

#[test]
fn a_session_with_another_policy_than_was_asked_for_gets_no_prompt() {
    let opened = |settings: Value| {
        let mut driver = start(None, None);
        driver.begin("go", None);
        input(&mut driver, json!({"id": 1, "result": {}}));
        let mut result = json!({"thread": {"id": "t"}});
        result.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let effects = input(&mut driver, json!({"id": 2, "result": result}));
        let known = effects.iter().find_map(|effect| match effect {
            Effect::Register(known) => known.asks,
            _ => None,
        });
        (known.unwrap(), written(&effects).len(), driver.has_failed())
    };
    let taken = json!({"approvalPolicy": "untrusted", "approvalsReviewer": "user"});
    assert_eq!(opened(taken), (AsksFor::Everything, 1, false));
    let never = json!({"approvalPolicy": "never", "approvalsReviewer": "user"});
    assert_eq!(opened(never), (AsksFor::Nothing, 0, true));
    let reviewed = json!({"approvalPolicy": "untrusted", "approvalsReviewer": "auto_review"});
    assert_eq!(opened(reviewed), (AsksFor::Some, 0, true));
    assert_eq!(opened(json!({})), (AsksFor::Unknown, 1, false), "a version that does not tell");
}

#[test]
fn an_interrupt_waits_until_the_turn_has_a_name() {
    let mut driver = start(None, None);
    driver.begin("go", None);
    input(&mut driver, json!({"id": 1, "result": {}}));
    input(&mut driver, json!({"id": 2, "result": {"thread": {"id": "t"}}}));
    assert_eq!(written(&driver.handle(Event::Interrupt)), Vec::<Value>::new());
    let interrupts = written(&input(&mut driver, json!({"id": 3, "result": {"turn": {"id": "u"}}})));
    assert_eq!(interrupts[0]["params"], json!({"threadId": "t", "turnId": "u"}));
}

#[test]
fn everything_that_a_request_says_is_in_its_input() {
    let asked = |fields| raised(&input(&mut in_a_turn(), command(fields)));
    assert_eq!(asked(json!({})), json!(["Bash", {"command": "make x"}, 3]));
    assert_eq!(
        asked(json!({"reason": "why"})),
        json!(["Bash", {"command": "make x", "description": "why"}, 3])
    );
    // Whatever else it says, no rule passes it by and no grant covers it.
    for (field, value) in [
        ("additionalPermissions", json!({"network": {"enabled": true}})),
        ("networkApprovalContext", json!({"host": "evil.example", "protocol": "https"})),
        ("environmentId", json!("elsewhere")),
        ("somethingNew", json!(1)),
    ] {
        let asked = asked(json!({ field: value }));
        assert_eq!((&asked[1][field], &asked[2]), (&value, &json!(1)), "{asked}");
    }
    let elsewhere = asked(json!({"cwd": "/etc"}));
    assert_eq!(elsewhere, json!(["Bash", {"command": "make x", "workdir": "/etc"}, 1]));
    for odd in [json!(["/etc"]), json!(7), json!({"path": "/etc"})] {
        assert_eq!(asked(json!({ "cwd": odd })), json!(["Bash", {"command": "make x", "workdir": odd}, 1]));
    }
    assert_eq!(asked(json!({"cwd": null})), json!(["Bash", {"command": "make x"}, 3]));
    let stdin = asked(json!({"kind": "writeStdin", "command": "y\n"}));
    assert_eq!(stdin, json!(["Unclear", {"command": "y\n", "kind": "writeStdin"}, 1]));
    assert_eq!(asked(json!({"command": null}))[0], "Unclear");
}

#[test]
fn a_change_is_what_codex_announced_and_nothing_is_known_without_that() {
    let mut driver = in_a_turn();
    input(&mut driver, begins(&change("hello\n")));
    let asked = raised(&input(&mut driver, asks_to_change()));
    assert_eq!(asked, json!(["Write", {"file_path": "/src/a", "content": "hello\n"}, 3]));
    let unknown = raised(&input(&mut in_a_turn(), asks_to_change()));
    assert_eq!(unknown, json!(["Unclear", {"change": "c"}, 1]));
    // Wider leave than for this change is never given without a look at it.
    let mut driver = in_a_turn();
    input(&mut driver, begins(&change("hello\n")));
    let mut wider = asks_to_change();
    wider["params"]["grantRoot"] = "/".into();
    let asked = raised(&input(&mut driver, wider));
    assert_eq!(
        (&asked[0], &asked[1]["grantRoot"], &asked[1]["content"]),
        (&json!("Unclear"), &json!("/"), &json!("hello\n"))
    );
}

#[test]
fn a_change_that_becomes_another_while_somebody_decides_is_refused() {
    let mut driver = in_a_turn();
    input(&mut driver, begins(&change("hello\n")));
    input(&mut driver, asks_to_change());
    assert_eq!(written(&input(&mut driver, begins(&change("hello\n")))), Vec::<Value>::new());
    let effects = input(&mut driver, begins(&change("evil\n")));
    assert_eq!(written(&effects), [json!({"id": 0, "result": {"decision": "decline"}})]);
    assert!(matches!(effects.last(), Some(Effect::Tell(RunEvent::ToolStarted { .. }))), "{effects:?}");
}

#[test]
fn a_secret_is_asked_for_as_one() {
    let question =
        json!({"id": "k", "question": "The key?", "isSecret": true, "isOther": true, "options": []});
    let asked = json!({"method": "item/tool/requestUserInput", "id": 0, "params":
        {"threadId": "t", "turnId": "u", "itemId": "c", "questions": [question]}});
    let effects = input(&mut in_a_turn(), asked);
    let asks_secretly =
        |effect: &Effect<String>| matches!(effect, Effect::Raise(raise) if raise.body.has_secret());
    assert!(effects.iter().any(asks_secretly), "{effects:?}");
}

#[test]
fn what_is_not_known_is_refused_and_another_sessions_end_is_not_ours() {
    let mut driver = in_a_turn();
    let unknown =
        json!({"method": "item/permissions/requestApproval", "id": 0, "params": {"permissions": {}}});
    assert_eq!(written(&input(&mut driver, unknown))[0]["error"]["code"], -32601);
    let ended = |thread: &str| json!({"method": "turn/completed", "params": {"threadId": thread, "turn": {"status": "completed"}}});
    assert_eq!(input(&mut driver, ended("another")), []);
    let effects = input(&mut driver, ended("t"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Tell(RunEvent::Turn(_)))), "{effects:?}");
}
