//! Every command as a person or a script types it: what it prints, and how it ends.

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
        all_of(&there(Some(&hub.operator()))),
        (Some(0), "Nothing to answer right now.\n".into(), String::new())
    );
    assert_eq!(complained(&there(None)), "aye: AYE_URL is set, so AYE_TOKEN must be too\n");
    let refused = complained(&there(Some("aye_no_token")));
    assert_eq!(refused, "aye: this token is not valid, or was revoked\n");
    let odd =
        aye(elsewhere.path()).args(["list"]).env("AYE_URL", "https://x/y").env("AYE_TOKEN", "t").output();
    assert!(complained(&odd.unwrap()).contains("AYE_URL must look like http://127.0.0.1:7177"));
}

#[test]
fn a_script_gets_the_answer_one_line_a_pick_and_ends_with_0() {
    let hub = Hub::start();
    let (script, id) =
        ask(&hub, &["Which?", "--option", "a: the first", "--option", "b, or so", "--multi", "--text"]);
    let recorded = hub.aye(&["answer", &id, "1", "b, or so", "--text", "and more"]);
    assert_eq!(code(&recorded), Some(0), "{recorded:?}");
    assert_eq!(told(script), (Some(0), "a\nb, or so\nand more\n".into(), String::new()));

    let (script, id) = ask(&hub, &["Name?", "--json"]);
    let recorded = hub.aye(&["answer", &id, "--text", "Aye", "--json"]);
    assert_eq!(json_of(&recorded)["answer"], json!({"answers": [{"text": "Aye"}]}));
    let (code, out, complaints) = told(script);
    assert_eq!((code, complaints), (Some(0), String::new()));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!({"answers": [{"text": "Aye"}]}));
}

#[test]
fn a_script_whose_question_is_declined_ends_with_2_however_it_was_declined() {
    let hub = Hub::start();
    for decline in ["--skip", "-"] {
        let (script, id) = ask(&hub, &["Go on?", "--option", "yes"]);
        assert_eq!(code(&hub.aye(&["answer", &id, decline])), Some(0));
        assert_eq!(
            told(script),
            (Some(2), String::new(), "aye: the person declined to answer\n".into()),
            "{decline}"
        );
    }
    let (script, id) = ask(&hub, &["Go on?", "--json"]);
    let answer = json!({"skip": true, "message": "not now"});
    assert_eq!(code(&hub.aye(&["answer", &id, "--answer", &answer.to_string()])), Some(0));
    let (code, out, _) = told(script);
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (Some(2), answer));
}

#[test]
fn a_script_that_nobody_answers_in_time_ends_with_3() {
    let hub = Hub::start();
    let late = hub.aye(&["ask", "Anybody?", "--timeout", "50ms"]);
    assert_eq!((code(&late), printed(&late)), (Some(3), String::new()));
    assert!(complained(&late).contains("Nobody answered in time. This was not approved"), "{late:?}");
    let late = hub.aye(&["ask", "Anybody?", "--timeout", "50ms", "--json"]);
    assert_eq!((code(&late), json_of(&late)), (Some(3), Value::Null));
    let asks = json_of(&hub.aye(&["list", "--all", "--json"]));
    let states: Vec<_> = asks["asks"].as_array().unwrap().iter().map(|ask| &ask["state"]).collect();
    assert_eq!(states, ["expired", "expired"]);
    let answered = hub.aye(&["answer", id(&asks["asks"][0]), "--text", "here"]);
    assert_eq!(code(&answered), Some(4));
    assert!(complained(&answered).contains("nobody answered in time"), "{answered:?}");
}

#[test]
fn a_script_that_asks_badly_ends_with_1_and_leaves_nothing_behind() {
    let hub = Hub::start();
    for (words, why) in [
        (&["Which?", "--option", "a", "--option", "a"][..], "two options are labelled \"a\""),
        (&[" "], "the question must not be empty"),
        (&["Now?", "--timeout=-5s"], "must be a duration"),
    ] {
        let refused = aye(&hub.home).arg("ask").args(words).output().unwrap();
        assert_eq!((code(&refused), printed(&refused)), (Some(1), String::new()), "{refused:?}");
        assert!(complained(&refused).contains(why), "{refused:?}");
    }
    assert_eq!(hub.get("/api/agents", &hub.operator()).body, json!({"agents": []}));
}

#[test]
fn ctrl_c_takes_the_question_back_and_ends_with_130() {
    let hub = Hub::start();
    for (by, expected) in [(Signal::INT, 130), (Signal::TERM, 1)] {
        let (script, id) = ask(&hub, &["Go on?"]);
        signal(&script, by);
        let (code, out, complaints) = told(script);
        assert_eq!((code, out.as_str()), (Some(expected), ""));
        assert!(complaints.contains("the question was taken back"), "{complaints}");
        let ask = shown(&hub, &id);
        assert_eq!((&ask["state"], &ask["note"]), (&json!("withdrawn"), &json!("cancelled by the agent")));
        let late = hub.aye(&["answer", &id, "--text", "too late"]);
        let why = "aye: this request is no longer open: cancelled by the agent\n";
        assert_eq!(all_of(&late), (Some(4), String::new(), why.into()));
    }
}

#[test]
fn list_tells_requests_apart_by_what_who_and_where() {
    let hub = Hub::start();
    let token = hub.agent("a1");
    hub.register(&token, "a1", json!({"title": "Fix the parser", "cwd": "/src/web"}));
    hub.raise(
        &token,
        "a1",
        "k1",
        "permission",
        json!({"tool": "Read", "input": {"file_path": "/etc/hosts"}}),
    );
    hub.raise(&token, "a1", "k2", "permission", json!({"tool": "Bash", "input": {"command": "cargo test"}}));
    let list = printed(&hub.aye(&["list"]));
    assert!(list.contains("Read: /etc/hosts\n") && list.contains("Bash: cargo test\n"), "{list}");
    assert_eq!(list.matches("Fix the parser · /src/web · a1\n").count(), 2, "{list}");
}

#[test]
fn answer_says_what_became_of_the_answer() {
    let hub = Hub::start();
    // However loaded the machine is, a script takes its answer within a moment some time.
    eventually("the answer to be taken at once", || {
        let (script, id) = ask(&hub, &["Go on?", "--option", "yes"]);
        let answered = printed(&hub.aye(&["answer", &id, "1"]));
        told(script);
        answered.contains("Recorded: yes\nDelivered to the agent\n").then_some(())
    });
    let gone = raise(&hub, "k1", "question", yes_or_no());
    let answering = aye(&hub.home).args(["answer", id(&gone), "1"]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the answer", || (hub.ask(&gone)["state"] == "answered").then_some(()));
    let ended = json!({"receipt": "undelivered"});
    hub.post(&format!("/api/asks/{}/receipt", id(&gone)), &hub.agent("a1"), ended);
    let said = printed(&answering.wait_with_output().unwrap());
    assert!(said.starts_with("Recorded: yes\n"), "{said}");
}

#[test]
fn an_ask_is_answered_once_and_the_second_is_told_who_was_first() {
    let hub = Hub::start();
    let ask = raise(&hub, "k1", "question", yes_or_no());
    let first = hub.aye(&["answer", id(&ask), "YES"]);
    let why = format!(
        "Recorded: yes\nThe agent has not taken it yet. See what becomes of it: aye show {}\n",
        id(&ask)
    );
    assert_eq!(all_of(&first), (Some(0), why, String::new()));
    for again in [&["2"][..], &["yes"], &["nonsense"], &["--allow"]] {
        let again = aye(&hub.home).args(["answer", id(&ask)]).args(again).output().unwrap();
        assert_eq!((code(&again), printed(&again)), (Some(4), String::new()), "{again:?}");
        assert!(complained(&again).contains("already"), "{again:?}");
    }
    let again = hub.aye(&["answer", id(&ask), "no", "--json"]);
    assert_eq!((code(&again), printed(&again)), (Some(4), String::new()));
    assert!(complained(&again).contains("already answered by"), "{again:?}");
    assert_eq!(shown(&hub, id(&ask))["answer"], saying("yes"));
}

#[test]
fn an_answer_that_does_not_fit_ends_with_5_and_changes_nothing() {
    let hub = Hub::start();
    let body = json!({"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]});
    let question = raise(&hub, "k1", "question", body);
    let permission = raise(&hub, "k2", "permission", json!({"tool": "Bash", "input": {"command": "ls"}}));
    let cases: [(&Value, &[&str], &str); 11] = [
        (&question, &[], "\"Which?\" is not answered"),
        (&question, &["3"], "there is no option 3"),
        (&question, &["0"], "there is no option 0"),
        (&question, &["c"], "\"c\" is not one of the options; for your own words use --text"),
        (&question, &["1", "2"], "takes exactly one answer"),
        (&question, &["--text", "mine"], "takes no free text"),
        (&question, &["--allow"], "this is a question"),
        (&question, &["--answer", "{"], "--answer is not JSON"),
        (&question, &["--answer", "{}"], "give answers, a response, or skip"),
        (&permission, &["1"], "this is a permission: say --allow or --deny \"why\""),
        (&permission, &["--allow", "--scope", "always"], "always was not offered"),
    ];
    for (ask, words, why) in cases {
        let refused = aye(&hub.home).args(["answer", id(ask)]).args(words).output().unwrap();
        assert_eq!((code(&refused), printed(&refused)), (Some(5), String::new()), "{words:?} {refused:?}");
        assert!(complained(&refused).contains(why), "{words:?}: {}", complained(&refused));
        assert_eq!(shown(&hub, id(ask)), *ask);
    }
}

#[test]
fn the_beginning_of_an_id_is_enough_as_long_as_it_is_the_only_one() {
    let hub = Hub::start();
    // Enough asks that two must begin alike.
    let asks: Vec<_> = (0..40).map(|n| raise(&hub, &n.to_string(), "question", yes_or_no())).collect();
    let first = |ask: &Value| id(ask)[..1].to_owned();
    let twins = asks.iter().find(|ask| asks.iter().filter(|other| first(other) == first(ask)).count() > 1);
    let prefix = first(twins.unwrap());
    for command in [&["show", &prefix][..], &["answer", &prefix, "1"]] {
        let refused = hub.aye(command);
        let why = format!("aye: several requests begin with {prefix}: type more of the id\n");
        assert_eq!(all_of(&refused), (Some(1), String::new(), why));
    }
    let ask = &asks[0];
    let prefix = (1..=10).map(|n| &id(ask)[..n]);
    let prefix = prefix.into_iter().find(|p| asks.iter().filter(|a| id(a).starts_with(p)).count() == 1);
    let prefix = prefix.unwrap().to_uppercase();
    assert_eq!(shown(&hub, &prefix), *ask);
    assert_eq!(code(&hub.aye(&["answer", &prefix, "1"])), Some(0));
    assert_eq!(shown(&hub, id(ask))["answer"], saying("yes"));
    let unknown = hub.aye(&["show", "uuuu"]);
    let why = "aye: there is no request uuuu; `aye list` shows the open ones\n";
    assert_eq!(all_of(&unknown), (Some(1), String::new(), why.into()));
}

#[test]
fn several_questions_take_one_argument_each() {
    let hub = Hub::start();
    let options = json!([{"label": "a, b"}, {"label": "c"}, {"label": "1,2"}]);
    let body = json!({"questions": [
        {"question": "One?", "header": "Same", "options": options, "free_text": true},
        {"question": "Two?", "header": "Same", "options": options, "free_text": true},
        {"question": "Many?", "options": options, "multi_select": true, "free_text": true}]});
    let cases: [(&[&str], Value); 6] = [
        (&["2", "-", "1,2"], json!([{"selected": ["c"]}, {"skip": true}, {"selected": ["1,2"]}])),
        (
            &["a, b", "c", "1,3"],
            json!([{"selected": ["a, b"]}, {"selected": ["c"]}, {"selected": ["a, b", "1,2"]}]),
        ),
        (
            &["1", "--text", "2=my own", "--text", "3=words"],
            json!([{"selected": ["a, b"]}, {"text": "my own"}, {"text": "words"}]),
        ),
        (
            &["-", "-", "2", "--text", "3=too"],
            json!([{"skip": true}, {"skip": true}, {"selected": ["c"], "text": "too"}]),
        ),
        (
            &["1", "1", "1", "--note", "1=why=so"],
            json!([{"selected": ["a, b"], "notes": "why=so"}, {"selected": ["a, b"]}, {"selected": ["a, b"]}]),
        ),
        (&["-", "-", "-"], json!([{"skip": true}, {"skip": true}, {"skip": true}])),
    ];
    for (n, (words, answers)) in cases.into_iter().enumerate() {
        let ask = raise(&hub, &n.to_string(), "question", body.clone());
        let recorded = aye(&hub.home).args(["answer", id(&ask)]).args(words).output().unwrap();
        assert_eq!(code(&recorded), Some(0), "{recorded:?}");
        assert_eq!(shown(&hub, id(&ask))["answer"], json!({"answers": answers}), "{words:?}");
    }
    let ask = raise(&hub, "last", "question", body);
    for (words, why) in [
        (&["1"][..], "\"Two?\" is not answered"),
        (&["1", "1", "1", "1"], "there are 3 questions and 4 picks"),
        (&["1", "1", "--text", "mine"], "say which, as in --text 2=…"),
        (&["1", "1", "--text", "4=mine"], "there is no question 4"),
    ] {
        let refused = aye(&hub.home).args(["answer", id(&ask)]).args(words).output().unwrap();
        assert_eq!(code(&refused), Some(5));
        assert!(complained(&refused).contains(why), "{words:?}: {}", complained(&refused));
    }
    assert_eq!(code(&hub.aye(&["answer", id(&ask), "--reply", "ask me tomorrow"])), Some(0));
    assert_eq!(shown(&hub, id(&ask))["answer"], json!({"response": "ask me tomorrow"}));
}

#[test]
fn permissions_and_plans_are_allowed_refused_or_paused() {
    let (hub, dir) = (Hub::start(), tempfile::tempdir().unwrap());
    let edited = dir.path().join("plan.md");
    fs::write(&edited, "1. Only this.\n").unwrap();
    let permission = json!({"tool": "Bash", "input": {"command": "make"}, "scopes": [
        {"scope": "once"}, {"scope": "session", "rule": "make, until this session ends"}]});
    let plan = json!({"plan": "1. All of it."});
    let cases: [(&str, &Value, &[&str], Value, &str); 8] = [
        (
            "permission",
            &permission,
            &["--allow"],
            json!({"decision": "allow", "scope": "once"}),
            "allowed (once)",
        ),
        (
            "permission",
            &permission,
            &["--allow", "--scope", "session"],
            json!({"decision": "allow", "scope": "session"}),
            "allowed (session)",
        ),
        (
            "permission",
            &permission,
            &["--allow", "--input", "{\"command\":\"make test\"}"],
            json!({"decision": "allow", "scope": "once", "input": {"command": "make test"}}),
            "allowed (once), with edited input",
        ),
        (
            "permission",
            &permission,
            &["--deny", "not today"],
            json!({"decision": "deny", "message": "not today", "interrupt": false}),
            "denied: not today",
        ),
        (
            "permission",
            &permission,
            &["--deny", "", "--interrupt"],
            json!({"decision": "deny", "interrupt": true}),
            "denied",
        ),
        ("plan", &plan, &["--allow"], json!({"decision": "allow"}), "allowed"),
        (
            "plan",
            &plan,
            &["--allow", "--plan", edited.to_str().unwrap()],
            json!({"decision": "allow", "plan": "1. Only this.\n"}),
            "allowed, edited",
        ),
        ("plan", &plan, &["--outline"], json!({"decision": "outline"}), "paused: an outline first"),
    ];
    for (n, (kind, body, words, answer, recorded)) in cases.into_iter().enumerate() {
        let ask = raise(&hub, &n.to_string(), kind, body.clone());
        let output = aye(&hub.home).args(["answer", id(&ask)]).args(words).output().unwrap();
        assert_eq!((code(&output), complained(&output)), (Some(0), String::new()));
        assert!(printed(&output).starts_with(&format!("Recorded: {recorded}\n")), "{}", printed(&output));
        assert_eq!(shown(&hub, id(&ask))["answer"], answer);
        assert!(printed(&hub.aye(&["show", id(&ask)])).contains(recorded));
    }
}

#[test]
fn list_shows_what_is_open_oldest_first_and_with_all_what_has_ended() {
    let hub = Hub::start();
    assert_eq!(printed(&hub.aye(&["list"])), "Nothing to answer right now.\n");
    assert_eq!(json_of(&hub.aye(&["list", "--json"])), json!({"asks": []}));
    let first = raise(&hub, "k1", "question", yes_or_no());
    let second = raise(&hub, "k2", "plan", json!({"plan": "# Ship it\n\n1. Now."}));
    let list = printed(&hub.aye(&["list"]));
    let rows: Vec<_> = list.lines().collect();
    assert_eq!(rows.len(), 4, "{list}");
    for (row, words) in
        rows.chunks(2).zip([[id(&first), "question", "Go on?"], [id(&second), "plan", "# Ship it"]])
    {
        assert!(words.iter().all(|word| row[0].contains(word)) && row[1].ends_with(" a1"), "{row:?}");
    }
    assert_eq!(json_of(&hub.aye(&["list", "--json"])), json!({"asks": [first, second]}));

    hub.aye(&["answer", id(&first), "1"]);
    assert_eq!(json_of(&hub.aye(&["list", "--json"])), json!({"asks": [second]}));
    let all = printed(&hub.aye(&["list", "--all"]));
    assert!(all.contains("answered Go on?"), "{all}");
    let all = json_of(&hub.aye(&["list", "--all", "--json"]));
    assert_eq!(all, json!({"asks": [second, shown(&hub, id(&first))]}));
}

#[test]
fn names_file_names_and_json_are_shown_and_never_obeyed() {
    let hub = Hub::start();
    let hostile = "a\u{1b}[2Jb\u{9b}31m\u{202e}c";
    let shown = "a\\u{1b}[2Jb\\u{9b}31m\\u{202e}c";
    let token = printed(&hub.aye(&["token", "create", "--role", "operator", "--name", hostile]));
    let ask = raise(&hub, "k1", "plan", json!({"plan": hostile}));
    let call = json!({"answer": {"decision": "deny"}, "digest": ask["digest"]});
    assert_eq!(hub.post(&format!("/api/asks/{}/answer", id(&ask)), token.trim(), call).status, 200);
    let open = raise(&hub, "k2", "plan", json!({"plan": "x"}));
    let outputs = [
        hub.aye(&["token", "list"]),
        hub.aye(&["show", id(&ask)]),
        hub.aye(&["answer", id(&ask), "--deny", ""]),
        hub.aye(&["answer", id(&open), "--allow", "--plan", &format!("/none/{hostile}")]),
        hub.aye(&["pending", &format!("/none/{hostile}")]),
        hub.aye(&["log"]),
    ];
    for output in &outputs {
        let words = printed(output) + &complained(output);
        assert!(!words.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{words:?}");
        assert!(words.contains(shown), "{words}");
    }
    for arguments in [
        &["show", id(&ask), "--json"][..],
        &["list", "--all", "--json"],
        &["log", "--json"],
        &["token", "list", "--json"],
    ] {
        let json = printed(&hub.aye(arguments));
        assert!(!json.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{json:?}");
        assert!(json.contains("a\\u001b[2Jb\\u009b31m\\u202ec"), "{json}");
        for line in json.lines().filter(|_| arguments[0] == "log") {
            serde_json::from_str::<Value>(line).unwrap();
        }
        if arguments[0] == "show" {
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["body"]["plan"], hostile);
        }
    }
}

#[test]
fn what_an_agent_says_is_shown_and_never_obeyed() {
    let hub = Hub::start();
    let hostile = "ok\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}txet\u{200b}\r.";
    let body = json!({"questions": [{"question": hostile, "header": hostile,
        "options": [{"label": format!("1{hostile}"), "description": hostile, "preview": hostile}]}]});
    let question = raise(&hub, "k1", "question", body);
    let permission = raise(&hub, "k2", "permission", json!({"tool": hostile, "input": {"command": hostile}}));
    let plan = raise(&hub, "k3", "plan", json!({"plan": hostile}));
    let withdraw = json!({"why": "cancelled"});
    let mut outputs = vec![hub.aye(&["list"])];
    for ask in [&question, &permission, &plan] {
        outputs.push(hub.aye(&["show", id(ask)]));
        outputs.push(hub.aye(&["answer", id(ask), "nonsense"]));
        hub.post(&format!("/api/asks/{}/withdraw", id(ask)), &hub.agent("a1"), withdraw.clone());
    }
    outputs.push(hub.aye(&["list", "--all"]));
    outputs.push(hub.aye(&["log"]));
    for output in &outputs {
        let words = printed(output) + &complained(output);
        let obeyed =
            words.chars().find(|c| (c.is_control() && *c != '\n') || "\u{202e}\u{200b}".contains(*c));
        assert_eq!(obeyed, None, "{words}");
    }
    for shown in [&outputs[0], &outputs[1], &outputs[3], &outputs[5]] {
        let words = printed(shown);
        assert!(words.contains("ok\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{202e}txet\\u{200b}\\r."), "{words}");
    }
}

/// Runs a command as if a person had typed it: with a terminal at its other end.
fn on_a_terminal(hub: &Hub, line: &str, no_color: bool) -> Option<String> {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_aye")), "/dev/null"]);
    command.env("AYE_HOME", &hub.home).env("TERM", "xterm-256color").stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "AYE_URL", "AYE_TOKEN"] {
        command.env_remove(name);
    }
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let output = command.output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(printed(&output))
}

#[test]
fn colours_are_for_terminals_only_and_not_even_there_with_no_color() {
    let hub = Hub::start();
    let ask = raise(&hub, "k1", "question", yes_or_no());
    for words in [vec!["list"], vec!["show", id(&ask)], vec!["log"], vec!["doctor"], vec!["token", "list"]] {
        let piped = hub.aye(&words);
        assert!(!printed(&piped).contains('\u{1b}'), "{words:?}");
        let Some(coloured) = on_a_terminal(&hub, &words.join(" "), false) else {
            let note = "\nSKIPPED colours on a terminal: there is no `script` program here\n";
            std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes()).unwrap();
            return;
        };
        assert!(coloured.contains('\u{1b}'), "{words:?}: {coloured:?}");
        let plain = on_a_terminal(&hub, &words.join(" "), true).unwrap();
        assert!(!plain.contains('\u{1b}'), "{words:?}: {plain:?}");
    }
    for json in [format!("show {} --json", id(&ask)), "list --json".into(), "log --json --limit 1".into()] {
        let printed = on_a_terminal(&hub, &json, false).unwrap();
        assert!(serde_json::from_str::<Value>(&printed).is_ok(), "{printed:?}");
    }
}

#[test]
fn doctor_says_what_is_missing_and_the_command_that_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = aye(&dir.path().join("home")).arg("doctor").output().unwrap();
    assert_eq!(code(&nothing), Some(1));
    assert!(printed(&nothing).contains("is not there yet\n             aye up\n"), "{}", printed(&nothing));
    assert!(!dir.path().join("home").exists());

    let mut hub = Hub::start();
    let well = hub.aye(&["doctor", "--json"]);
    let findings = json_of(&well);
    assert_eq!((code(&well), &findings["fine"]), (Some(0), &json!(true)), "{findings}");
    let about: Vec<_> =
        findings["findings"].as_array().unwrap().iter().map(|f| f["about"].as_str().unwrap()).collect();
    let expected =
        ["home", "files", "policy", "rules", "telegram", "passkeys", "trail", "hub", "token", "claude"];
    assert_eq!(about, expected);

    let wrong = aye(&hub.home).arg("doctor").env("AYE_TOKEN", "aye_wrong_1").output().unwrap();
    assert_eq!(code(&wrong), Some(1));
    assert!(printed(&wrong).contains("unset AYE_TOKEN"), "{}", printed(&wrong));
    let viewer = printed(&hub.aye(&["token", "create", "--role", "viewer", "--name", "display"]));
    let weak = aye(&hub.home).arg("doctor").env("AYE_TOKEN", viewer.trim()).output().unwrap();
    assert_eq!(code(&weak), Some(1));
    assert!(printed(&weak).contains("aye token create --role operator"), "{}", printed(&weak));

    assert!(hub.stop().success());
    let stopped = hub.aye(&["doctor"]);
    assert_eq!(code(&stopped), Some(1));
    let words = printed(&stopped);
    assert!(words.contains("no hub answers") && words.contains("aye up"), "{words}");
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let hub = Hub::start();
    let made = hub.aye(&["token", "create", "--role", "viewer", "--name", "wall display"]);
    let token = printed(&made).trim().to_owned();
    assert_eq!(printed(&made), format!("{token}\n"));
    assert_eq!(
        hub.get("/api/me", &token).body,
        json!({"role": "viewer", "agent": null, "name": "wall display"})
    );
    let token_id = token.split('_').nth(1).unwrap();
    let list = json_of(&hub.aye(&["token", "list", "--json"]));
    let listed = list["tokens"].as_array().unwrap().iter().find(|t| t["id"] == token_id).unwrap();
    assert_eq!((&listed["name"], &listed["revoked"]), (&json!("wall display"), &json!(false)));
    let words = printed(&hub.aye(&["token", "list"]));
    assert!(words.contains("wall display") && !words.contains(&token), "{words}");

    let mut socket = hub.websocket(&token, "");
    socket.read().unwrap();
    let revoked = hub.aye(&["token", "revoke", token_id]);
    assert_eq!(printed(&revoked), format!("{token_id} is revoked, and what it had opened is closed.\n"));
    assert!(matches!(socket.read().unwrap(), tungstenite::Message::Close(Some(_))));
    assert_eq!(hub.get("/api/me", &token).status, 401);
    assert_eq!(
        all_of(&hub.aye(&["token", "revoke", token_id])),
        (Some(1), String::new(), "aye: no active token has this id\n".into())
    );

    let nightly = printed(&hub.aye(&["token", "create", "--role", "agent", "--agent", "nightly"]));
    let mut script = aye(&hub.home);
    script.args(["ask", "Go on?"]).env("AYE_TOKEN", nightly.trim()).stdout(Stdio::piped());
    let script = script.spawn().unwrap();
    let asked = eventually("the ask", || open_asks(&hub).pop());
    assert_eq!(asked["agent"], "nightly");
    let own = aye(&hub.home)
        .args(["answer", id(&asked), "--text", "yes"])
        .env("AYE_TOKEN", nightly.trim())
        .output();
    let own = own.unwrap();
    assert_eq!(code(&own), Some(1));
    assert!(complained(&own).contains("needs the role"), "{own:?}");
    assert_eq!(code(&hub.aye(&["answer", id(&asked), "--text", "yes"])), Some(0));
    assert_eq!(printed(&script.wait_with_output().unwrap()), "yes\n");
    let nobody = hub.aye(&["token", "create", "--role", "agent"]);
    assert_eq!(
        all_of(&nobody),
        (Some(1), String::new(), "aye: agent: an agent's token needs the agent it belongs to\n".into())
    );
}

#[test]
fn open_prints_a_link_that_works_once() {
    let hub = Hub::start();
    let link = printed(&hub.aye(&["open"]));
    assert!(link.starts_with(&format!("http://{}/sign-in#", hub.address)), "{link}");
    assert!(hub.browser_by(link.trim()).is_ok());
    assert_eq!(hub.browser_by(link.trim()).err().map(|reply| reply.status), Some(410));
}

#[test]
fn the_demo_asks_in_every_form_until_it_has_all_its_answers() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let mut command = aye(&home);
    command.args(["up", "--no-open", "--demo", "--listen", "127.0.0.1:0"]);
    let hub = Hub::start_with(command, home);
    let answers: [(&str, &str, &[&str]); 6] = [
        ("question", "Which database should the notes live in?", &["1"]),
        (
            "question",
            "What should the first release have?",
            &["1", "Export, as Markdown", "--text", "and speed"],
        ),
        ("question", "How should the list look?", &["2", "-"]),
        ("question", "What is the app called?", &["--text", "Notes"]),
        ("permission", "const MOST: usize = 100;", &["--allow", "--scope", "session"]),
        ("plan", "Ship the first release", &["--deny", "not on a Friday"]),
    ];
    for (kind, words, answer) in answers {
        let ask = eventually(words, || open_asks(&hub).pop().filter(|ask| ask["kind"] == kind));
        let shown = printed(&hub.aye(&["show", id(&ask)]));
        assert!(shown.contains(words), "{shown}");
        let recorded = aye(&hub.home).args(["answer", id(&ask)]).args(answer).output().unwrap();
        assert_eq!(code(&recorded), Some(0), "{recorded:?}");
        eventually("the next ask, or the end", || {
            let over = open_asks(&hub).first().is_some_and(|next| next["id"] != ask["id"]);
            (over || kind == "plan").then_some(())
        });
    }
    let agent = eventually("the end of the demo", || {
        let agents = hub.get("/api/agents?all=true", &hub.operator()).body;
        agents["agents"].as_array().unwrap().first().filter(|agent| agent["state"] == "ended").cloned()
    });
    let asks = json_of(&hub.aye(&["list", "--all", "--json"]));
    let receipts: Vec<_> = asks["asks"].as_array().unwrap().iter().map(|ask| &ask["receipt"]).collect();
    assert_eq!(receipts, vec!["confirmed"; 6]);
    let path = format!("/api/agents/{}/events", agent["id"].as_str().unwrap());
    let events = hub.get(&path, &hub.operator()).body;
    assert_eq!(events["events"].as_array().unwrap().len(), 6);
    assert_eq!(code(&hub.aye(&["verify"])), Some(0));
}
