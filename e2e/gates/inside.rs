//! What runs inside an agent never acts for a person.

use crate::support::terminal::Terminal;
use crate::support::{Hub, eventually, path_of, saying, try_call, yes_or_no};
use serde_json::json;

/// Makes the test's own process the agent's, so that everything it does happens inside the agent.
fn become_the_agent(hub: &Hub, id: &str) -> String {
    let token = hub.agent(id);
    register_process(hub, &token, id, std::process::id());
    token
}

/// Over the Unix socket: only there does a process id mean one of this machine's.
fn register_process(hub: &Hub, token: &str, id: &str, pid: u32) {
    let profile = json!({"kind": "claude", "pid": pid});
    let registered = hub.call_unix("PUT", &format!("/api/agents/{id}"), token, profile);
    assert_eq!(registered.status, 200, "{}", registered.body);
}

#[test]
fn what_runs_inside_an_agent_is_no_operator_on_the_unix_socket() {
    let hub = Hub::start();
    let operator = hub.operator();
    let bot = become_the_agent(&hub, "bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let why = "this process runs inside the agent bot, and an agent never answers for a person";
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    let refused = [
        hub.call_unix("POST", &path_of(&ask, "/answer"), &operator, call.clone()),
        hub.call_unix("POST", "/api/agents/bot/answer-question", &operator, json!({"answers": ["yes"]})),
        hub.call_unix("POST", "/api/tokens", &operator, json!({"role": "operator"})),
        hub.call_unix("POST", "/api/sign-in-links", &operator, json!({})),
        hub.call_unix("GET", "/api/tokens", &operator, json!({})),
    ];
    for reply in refused {
        assert_eq!((reply.status, &reply.body), (403, &json!({"error": why})));
    }
    assert_eq!(hub.call_unix("GET", "/api/asks", &operator, json!({})).status, 200, "it may look");

    let mut follower = hub.follow_unix(&operator);
    let result = follower.say(json!({
        "type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"], "key": "a",
    }));
    assert_eq!(result, json!({"type": "result", "key": "a", "status": 403, "error": why}));
    let result = follower.say(json!({
        "type": "ask_user_response", "conversation_id": "bot", "answers": {"Go on?": "yes"},
    }));
    assert_eq!(result, json!({"type": "result", "key": null, "status": 403, "error": why}));
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn a_socket_opened_before_the_agent_was_known_is_no_operator_afterwards() {
    let hub = Hub::start();
    let mut follower = hub.follow_unix(&hub.operator());
    let bot = become_the_agent(&hub, "bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let result = follower.say(json!({
        "type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"],
    }));
    assert_eq!(result["status"], 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn an_agent_that_declares_itself_ended_is_no_operator_while_its_process_lives() {
    let hub = Hub::start();
    let other = hub.agent("other");
    let bot = become_the_agent(&hub, "bot");
    let ask = hub.raise(&other, "other", "k", "question", yes_or_no());
    hub.register(&bot, "bot", json!({"state": "ended"}));
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    let reply = hub.call_unix("POST", &path_of(&ask, "/answer"), &hub.operator(), call);
    assert_eq!(reply.status, 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn an_agent_that_names_another_process_still_has_the_one_it_named_first() {
    let hub = Hub::start();
    let bot = become_the_agent(&hub, "bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    register_process(&hub, &bot, "bot", other.id());
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    let reply = hub.call_unix("POST", &path_of(&ask, "/answer"), &hub.operator(), call);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(reply.status, 403);
}

#[test]
fn a_process_named_over_tcp_is_nobodys() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    hub.register(&bot, "bot", json!({"kind": "claude", "pid": std::process::id()}));
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    assert_eq!(hub.call_unix("POST", &path_of(&ask, "/answer"), &hub.operator(), call).status, 200);
}

#[test]
fn what_runs_inside_an_agent_gets_no_token_of_another() {
    let hub = Hub::start();
    let other = hub.agent("other");
    let bot = become_the_agent(&hub, "bot");
    hub.register(&other, "other", json!({}));
    let hand_out = |agent: &str| hub.call_unix("POST", &format!("/api/agents/{agent}/token"), "", json!({}));
    assert_eq!(hand_out("bot").body, json!({"token": bot}));
    let refused = hand_out("other");
    let why = "this process runs inside the agent bot and may not speak for other";
    assert_eq!((refused.status, refused.body), (403, json!({"error": why})));
    assert_eq!(hand_out("new").status, 200, "what an agent starts may be an agent of its own");
}

#[test]
fn a_command_inside_an_agent_is_refused_and_the_same_outside_is_not() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let id = ask["id"].as_str().unwrap();
    // The shell waits until the hub knows whose process it is; a subshell makes it a grandchild.
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "read go; (\"$0\" answer \"$1\" yes; exit $?); exit $?",
        env!("CARGO_BIN_EXE_aye"),
        id,
    ]);
    shell.env("AYE_HOME", &hub.home).env_remove("AYE_URL").env_remove("AYE_TOKEN");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    register_process(&hub, &bot, "bot", shell.id());
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let refused = shell.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "aye: this process runs inside the agent bot, and an agent never answers for a person\n"
    );
    assert_eq!(hub.ask(&ask), ask);

    let answered = hub.aye(&["answer", id, "yes"]);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    let answered = eventually("the answer", || Some(hub.ask(&ask)).filter(|ask| ask["state"] == "answered"));
    assert_eq!(answered["answer"], saying("yes"));
    assert_eq!(answered["by"], json!({"name": hub.person(), "surface": "terminal"}));
}

/// Over TCP nobody sees which process calls, so the token that every process of the person can read does not count there.
#[test]
fn the_operators_file_is_no_token_over_tcp() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let bearer = format!("Bearer {}", hub.operator());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let answer = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let calls = [
        ("POST", path_of(&ask, "/answer"), Some(answer.as_bytes())),
        ("POST", "/api/tokens".to_owned(), Some(br#"{"role": "operator"}"#.as_slice())),
        ("POST", "/api/sign-in-links".to_owned(), Some(b"{}".as_slice())),
        ("GET", "/api/asks".to_owned(), None),
        ("GET", "/api/me".to_owned(), None),
        ("GET", "/api/ws".to_owned(), None),
    ];
    let why = "the token in operator.token is accepted on the Unix socket only; for the network, make one with `aye token create`";
    for (method, path, body) in calls {
        let refused = try_call(&hub.address, method, &path, &headers, body).unwrap();
        assert_eq!((refused.status, refused.body), (401, json!({"error": why})), "{path}");
    }
    assert_eq!(hub.ask(&ask), ask);
    // One that the person made counts there, and the file's on the socket.
    let made = hub.aye(&["token", "create", "--role", "operator"]);
    let made = String::from_utf8(made.stdout).unwrap();
    let bearer = format!("Bearer {}", made.trim());
    let headers = [("Authorization", bearer.as_str()), headers[1]];
    let answered =
        try_call(&hub.address, "POST", &path_of(&ask, "/answer"), &headers, Some(answer.as_bytes())).unwrap();
    assert_eq!(answered.status, 200, "{}", answered.body);
    assert!(hub.aye(&["list"]).status.success());
}

/// A shell within a shell, as people have after `bash`, and the terminal around it: nothing below may call them an agent.
#[test]
fn a_program_in_a_persons_shell_cannot_make_that_shell_an_agent() {
    let (hub, dir, terminal) = (Hub::start(), tempfile::tempdir().unwrap(), Terminal::default());
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let rogue = hub.agent("rogue");
    let socket = aye::home::Home::at(&hub.home).socket();
    let name = dir.path().join("name");
    // Names every process above itself, nearest first.
    let script = format!(
        "pid=$PPID\nwhile [ $pid -gt 1 ]; do\n\
         curl -sS --unix-socket '{}' -X PUT -H 'Authorization: Bearer {rogue}' -H 'Content-Type: application/json' \
         -d \"{{\\\"pid\\\":$pid}}\" http://localhost/api/agents/rogue >/dev/null\n\
         pid=$(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f2)\ndone\necho all \"named\"\n",
        socket.display()
    );
    std::fs::write(&name, script).unwrap();
    terminal.start("bash", &["--norc"], |command| {
        command
            .env("AYE_HOME", &hub.home)
            .env_remove("AYE_URL")
            .env_remove("AYE_TOKEN")
            .env("PS1", "outer> ");
    });
    terminal.sees("outer>");
    terminal.type_line("PS1='inner> ' bash --norc");
    terminal.sees("\ninner>");
    terminal.type_line(&format!("sh {}", name.display()));
    terminal.sees("all named");
    let (id, aye) = (ask["id"].as_str().unwrap(), env!("CARGO_BIN_EXE_aye"));
    terminal.type_line(&format!("{aye} answer {id} yes"));
    hub.once(&ask, "the person's answer", |ask| ask["state"] == "answered");
}
