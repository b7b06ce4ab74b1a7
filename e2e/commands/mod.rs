//! Every command as a person or a script types it: what it prints, and how it ends.

mod answering;
mod scripts;
mod setup;
mod showing;

use crate::support::{
    Hub, aye, code, complained, ended, eventually, json_of, printed, saying, signal, yes_or_no,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// What a command ended with, printed and complained.
fn all_of(output: &Output) -> (Option<i32>, String, String) {
    (code(output), printed(output), complained(output))
}

fn id(ask: &Value) -> &str {
    ask["id"].as_str().unwrap()
}

/// A script that asks and waits, and the id of its ask.
fn ask(hub: &Hub, arguments: &[&str]) -> (Child, String) {
    let known = open_asks(hub);
    let mut command = aye(&hub.home);
    command.arg("ask").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let script = command.spawn().unwrap();
    let asked = eventually("the ask", || open_asks(hub).into_iter().find(|ask| !known.contains(ask)));
    (script, id(&asked).to_owned())
}

fn open_asks(hub: &Hub) -> Vec<Value> {
    json_of(&hub.aye(&["list", "--json"]))["asks"].as_array().unwrap().clone()
}

fn told(mut script: Child) -> (Option<i32>, String, String) {
    ended(&mut script);
    all_of(&script.wait_with_output().unwrap())
}

fn shown(hub: &Hub, id: &str) -> Value {
    json_of(&hub.aye(&["show", id, "--json"]))
}

fn raise(hub: &Hub, key: &str, kind: &str, body: Value) -> Value {
    hub.raise(&hub.agent("a1"), "a1", key, kind, body)
}

#[test]
fn every_command_explains_itself_with_examples() {
    let home = Path::new("/nowhere");
    let words: &[&[&str]] = &[
        &[],
        &["up"],
        &["ask"],
        &["list"],
        &["show"],
        &["answer"],
        &["agents"],
        &["attach"],
        &["send"],
        &["interrupt"],
        &["stop"],
        &["run"],
        &["log"],
        &["verify"],
        &["store", "copy"],
        &["token"],
        &["open"],
        &["doctor"],
    ];
    for command in words {
        let help = aye(home).args(*command).arg("--help").output().unwrap();
        let example = format!("  aye {}", command.join(" "));
        assert!(help.status.success());
        assert!(printed(&help).contains(&example), "{command:?} shows no example:\n{}", printed(&help));
        assert!(!printed(&help).contains('\u{1b}'));
    }
    for (command, codes) in [
        ("ask", "Exit codes: 0 answered, 2 declined, 3 nobody in time, 1 error, 130 interrupted."),
        ("answer", "Exit codes: 0 recorded, 4 already ended, 5 invalid, 1 error."),
        ("verify", "Exit codes: 0 whole, 1 broken, 6 nothing wrong, but not all of it could be checked."),
        ("send", "Exit codes: 0 sent, 6 no such agent or not unique, 1 error."),
        ("stop", "Exit codes: 0 done, 6 no such agent or not unique, 1 error."),
        ("doctor", "Exit codes: 0 all is well, 1 something is missing."),
    ] {
        let help = printed(&aye(home).args([command, "--help"]).output().unwrap());
        assert!(help.contains(codes), "{help}");
    }
    let version = aye(home).arg("--version").output().unwrap();
    assert_eq!(printed(&version), format!("aye {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_agent_that_cannot_be_joined_is_named_with_the_way_to_it() {
    for (kind, name) in
        [("gemini", "Gemini CLI"), ("qwen", "Qwen Code"), ("kimi", "Kimi Code"), ("copilot", "Copilot CLI")]
    {
        for words in [&[kind][..], &[kind, "--help"], &[kind, "--model", "x", "do it"]] {
            let refused = aye(Path::new("/nowhere")).args(words).output().unwrap();
            let sentence =
                format!("aye: {name} cannot be joined in its own terminal. Use: aye run --agent {kind}\n");
            assert_eq!(all_of(&refused), (Some(1), String::new(), sentence), "{words:?}");
        }
        for help in [&["--help"][..], &["run", "--help"]] {
            let help = printed(&aye(Path::new("/nowhere")).args(help).output().unwrap());
            assert!(help.contains(name), "{help}");
        }
    }
}

#[test]
fn a_mistyped_command_is_an_error_and_never_looks_like_a_declined_question() {
    for words in [&["ask"][..], &["ask", "Go on?", "--optoin", "yes"], &["answer"], &["lits"], &[]] {
        let refused = aye(Path::new("/nowhere")).args(words).output().unwrap();
        assert_eq!((code(&refused), printed(&refused)), (Some(1), String::new()), "{words:?}");
        assert!(complained(&refused).contains("Usage: aye"), "{refused:?}");
    }
}

#[test]
fn without_a_hub_commands_say_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        &["list"][..],
        &["show", "k3"],
        &["answer", "k3", "1"],
        &["ask", "Go on?"],
        &["open"],
        &["token", "list"],
        &["log"],
        &["verify"],
    ] {
        let refused = aye(&dir.path().join("home")).args(words).output().unwrap();
        assert_eq!((code(&refused), printed(&refused)), (Some(1), String::new()), "{words:?}");
        let why = complained(&refused);
        assert!(why.starts_with("aye: ") && why.contains("`aye up`"), "{words:?}: {why}");
    }
    assert!(!dir.path().join("home").exists(), "looking makes nothing");
}

#[test]
fn a_hub_elsewhere_is_reached_by_its_url_and_token() {
    let (hub, elsewhere) = (Hub::start(), tempfile::tempdir().unwrap());
    let url = format!("http://{}", hub.address);
    let there = |token: Option<&str>| {
        let mut command = aye(elsewhere.path());
        command.env("AYE_URL", &url).args(["list"]);
        command.envs(token.map(|token| ("AYE_TOKEN", token))).output().unwrap()
    };
    assert_eq!(
        all_of(&there(Some(&hub.token("operator")))),
        (Some(0), "Nothing to answer right now.\n".into(), String::new())
    );
    assert_eq!(complained(&there(None)), "aye: AYE_URL is set, so AYE_TOKEN must be too\n");
    let refused = complained(&there(Some("aye_no_token")));
    assert_eq!(refused, "aye: this token is not valid, or was revoked\n");
    let odd =
        aye(elsewhere.path()).args(["list"]).env("AYE_URL", "https://x/y").env("AYE_TOKEN", "t").output();
    assert!(complained(&odd.unwrap()).contains("AYE_URL must look like http://127.0.0.1:7177"));
}
