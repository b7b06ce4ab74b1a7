//! `aye answer`.

use super::*;

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
    let cases: [(&str, &Value, &[&str], Value, &str); 9] = [
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
        ("permission", &permission, &["--deny"], json!({"decision": "deny", "interrupt": false}), "denied"),
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

/// A question whose answer is not kept.
fn password(hub: &Hub) -> Value {
    let body = json!({"questions": [{"question": "Password?", "free_text": true, "secret": true}]});
    raise(hub, "k1", "question", body)
}

#[test]
fn a_secret_is_read_from_a_pipe_and_refused_as_an_argument() {
    let hub = Hub::start();
    let asked = password(&hub);
    let listed = printed(&hub.aye(&["show", id(&asked)]));
    assert!(
        listed.contains(&format!("aye answer {}   (it then asks for the secret)", id(&asked))),
        "{listed}"
    );
    for words in [&["--text", "hunter2"][..], &["--answer", "{}"], &["--reply", "hunter2"]] {
        let refused = aye(&hub.home).args(["answer", id(&asked)]).args(words).output().unwrap();
        assert!(complained(&refused).contains("does not belong in a command"), "{refused:?}");
    }
    let mut answering = aye(&hub.home)
        .args(["answer", id(&asked)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut answering.stdin.take().unwrap(), b" hunter2 \n").unwrap();
    eventually("the answer", || (hub.ask(&asked)["state"] == "answered").then_some(()));
    let path = format!("/api/asks/{}/resolution", id(&asked));
    let told = hub.get(&path, &hub.agent("a1")).body;
    assert_eq!(told["outcome"]["answer"], json!({"answers": [{"text": " hunter2 "}]}));
    hub.post(&format!("/api/asks/{}/receipt", id(&asked)), &hub.agent("a1"), json!({"receipt": "delivered"}));
    let said = printed(&answering.wait_with_output().unwrap());
    assert_eq!(said, "Recorded: (a secret, not kept)\nDelivered to the agent\n");
    assert!(!printed(&hub.aye(&["log", "--json"])).contains("hunter2"));
    assert!(hub.aye(&["verify"]).status.success());
}

#[test]
fn a_script_asks_for_a_secret() {
    let hub = Hub::start();
    let (script, asked) = ask(&hub, &["Password?", "--secret"]);
    assert_eq!(shown(&hub, &asked)["body"]["questions"][0]["secret"], true);
    let mut answering = aye(&hub.home).args(["answer", &asked]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut answering.stdin.take().unwrap(), b"hunter2\n").unwrap();
    assert_eq!(told(script), (Some(0), "hunter2\n".into(), String::new()));
    ended(&mut answering);
    assert!(!shown(&hub, &asked).to_string().contains("hunter2"));
}
