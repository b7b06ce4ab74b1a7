//! Processes come and go: what a hub, an agent and a person may rely on when one of them ends.

use crate::support::{Hub, aye, complained, ended, eventually, printed, saying, signal, try_call, yes_or_no};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;

/// A script that asks and waits.
fn ask(hub: &Hub) -> Child {
    ask_with(aye(&hub.home))
}

fn ask_with(mut command: Command) -> Child {
    command.args(["ask", "Go on?", "--option", "yes", "--option", "no"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn exit_code_and_words(child: Child) -> (Option<i32>, String, String) {
    let mut child = child;
    ended(&mut child);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), printed(&output), complained(&output))
}

#[test]
fn a_second_hub_on_the_same_home_is_refused_and_the_first_goes_on() {
    let mut hub = Hub::start();
    let second = hub.aye(&["up", "--no-open", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(printed(&second), "");
    let words = complained(&second);
    assert!(words.contains(&format!("another hub (process {}) already uses", hub.pid())), "{words}");
    assert!(words.contains("AYE_HOME"), "{words}");

    let script = ask(&hub);
    let id = hub.open_ask()["id"].as_str().unwrap().to_owned();
    assert!(hub.aye(&["answer", &id, "yes"]).status.success());
    assert_eq!(exit_code_and_words(script), (Some(0), "yes\n".into(), String::new()));
    assert!(hub.stop().success());
}

#[track_caller]
fn stops_in_good_order_on(stop: Signal) {
    let mut hub = Hub::start();
    let agent = hub.agent("a1");
    let raised = hub.raise(&agent, "a1", "k1", "question", yes_or_no());
    // A long poll, a WebSocket and a script are all in the middle of something.
    let mut poll = TcpStream::connect(&hub.address).unwrap();
    let path = format!("/api/asks/{}/resolution?wait=600", raised["id"].as_str().unwrap());
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {agent}\r\n\r\n");
    poll.write_all(head.as_bytes()).unwrap();
    let mut socket = hub.websocket(&hub.token("operator"), "");
    let Message::Text(snapshot) = socket.read().unwrap() else { panic!("no snapshot") };
    assert!(snapshot.contains("snapshot"));
    let mut script = ask(&hub);
    let asked = eventually("the script's ask", || hub.open_asks().into_iter().nth(1));

    signal(&hub.child, stop);
    assert_eq!(ended(&mut hub.child).code(), Some(0));

    let mut reply = String::new();
    poll.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 204"), "{reply:?}");
    let goodbye = loop {
        match socket.read().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            _ => continue,
        }
    };
    assert_eq!((goodbye.code, goodbye.reason.as_str()), (CloseCode::Away, "the hub is stopping"));
    for left in ["aye.db-wal", "aye.db-shm", "aye.sock"] {
        assert!(!hub.home.join(left).exists(), "{left} stayed behind");
    }
    assert_eq!(script.try_wait().unwrap(), None, "the script must go on waiting");

    hub.restart();
    assert_eq!(hub.answer(&asked, saying("no")).status, 200);
    assert_eq!(exit_code_and_words(script), (Some(0), "no\n".into(), String::new()));
}

#[test]
fn sigterm_stops_the_hub_in_good_order_while_clients_wait() {
    stops_in_good_order_on(Signal::TERM);
}

#[test]
fn ctrl_c_stops_the_hub_in_good_order_while_clients_wait() {
    stops_in_good_order_on(Signal::INT);
}

#[test]
fn a_script_waits_through_kills_of_the_hub_and_then_gets_its_answer() {
    let mut hub = Hub::start();
    let mut script = ask(&hub);
    let asked = hub.open_ask();
    for _ in 0..3 {
        hub.kill();
        hub.restart();
        assert_eq!(hub.open_asks(), vec![asked.clone()]);
    }
    assert_eq!(script.try_wait().unwrap(), None);
    assert_eq!(hub.answer(&asked, saying("yes")).status, 200);
    assert_eq!(exit_code_and_words(script), (Some(0), "yes\n".into(), String::new()));
    let ask = hub.get(&format!("/api/asks/{}", asked["id"].as_str().unwrap()), &hub.operator()).body;
    assert_eq!(ask["receipt"], "delivered");
}

#[test]
fn an_answer_given_while_its_script_cannot_reach_the_hub_arrives_later() {
    let mut hub = Hub::start();
    let script = ask(&hub);
    let asked = hub.open_ask();
    signal(&script, Signal::STOP);
    assert_eq!(hub.answer(&asked, saying("yes")).status, 200);
    hub.kill();
    signal(&script, Signal::CONT);
    hub.restart();
    assert_eq!(exit_code_and_words(script), (Some(0), "yes\n".into(), String::new()));
}

#[test]
fn a_killed_script_takes_its_ask_with_it() {
    let hub = Hub::start();
    let mut script = ask(&hub);
    let asked = hub.open_ask();
    script.kill().unwrap();
    script.wait().unwrap();
    assert_eq!(gone(&hub, &asked)["note"], "the agent is gone");
    assert_eq!(hub.answer(&asked, saying("yes")).status, 409);
}

/// The ask once the hub has noticed that nobody waits for it any more.
fn gone(hub: &Hub, asked: &Value) -> Value {
    eventually("the ask to be withdrawn", || Some(hub.ask(asked)).filter(|ask| ask["state"] == "withdrawn"))
}

#[test]
fn ctrl_c_ends_a_script_even_while_the_hub_is_away() {
    let mut hub = Hub::start();
    let script = ask(&hub);
    let asked = hub.open_ask();
    hub.kill();
    signal(&script, Signal::INT);
    let (code, out, _) = exit_code_and_words(script);
    assert_eq!((code, out.as_str()), (Some(130), ""));
    hub.restart();
    assert_eq!(gone(&hub, &asked)["note"], "the agent is gone");
}

/// A hub as seen through a wire that is cut for good once something is about to be said.
fn hub_that_dies_at(hub: &Hub, last_words: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, far) = (listener.local_addr().unwrap().to_string(), hub.address.clone());
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&far).unwrap());
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (mut said, mut chunk) = (Vec::new(), [0; 4096]);
            while let Ok(n @ 1..) = client.read(&mut chunk) {
                said.extend_from_slice(&chunk[..n]);
                if String::from_utf8_lossy(&said).contains(last_words) {
                    // Whoever sees the line cut must not find the listener still there.
                    drop(listener);
                    client.shutdown(Shutdown::Both).unwrap();
                    return;
                }
                server.write_all(&chunk[..n]).unwrap();
            }
            // The other end may have gone first.
            let _ = server.shutdown(Shutdown::Both);
        }
    });
    format!("http://{near}")
}

#[test]
fn a_script_that_has_printed_its_answer_succeeds_even_if_the_hub_dies_then() {
    let hub = Hub::start();
    let mut command = aye(&hub.home);
    command.env("AYE_URL", hub_that_dies_at(&hub, "\"ended\"")).env("AYE_TOKEN", hub.token("operator"));
    let script = ask_with(command);
    assert_eq!(hub.answer(&hub.open_ask(), saying("yes")).status, 200);
    assert_eq!(exit_code_and_words(script), (Some(0), "yes\n".into(), String::new()));
}

#[test]
fn ctrl_c_ends_a_script_that_tries_in_vain_to_raise_its_ask() {
    let hub = Hub::start();
    let mut command = aye(&hub.home);
    command.env("AYE_URL", hub_that_dies_at(&hub, "POST /api/asks")).env("AYE_TOKEN", hub.token("operator"));
    let script = ask_with(command);
    eventually("the script to announce itself", || {
        let agents = hub.get("/api/agents", &hub.operator()).body;
        agents["agents"].as_array().unwrap().first().cloned()
    });
    signal(&script, Signal::INT);
    let (code, out, _) = exit_code_and_words(script);
    assert_eq!((code, out.as_str()), (Some(130), ""));
    assert_eq!(hub.open_asks(), Vec::<Value>::new());
}

#[test]
fn a_question_that_cannot_be_taken_back_is_said() {
    let hub = Hub::start();
    let near = hub_that_dies_at(&hub, "/resolution");
    let mut command = aye(&hub.home);
    command.env("AYE_URL", &near).env("AYE_TOKEN", hub.token("operator"));
    let script = ask_with(command);
    let address = near.trim_start_matches("http://");
    eventually("the script to wait for its answer", || TcpStream::connect(address).err());
    signal(&script, Signal::INT);
    let (code, out, words) = exit_code_and_words(script);
    assert_eq!((code, out.as_str()), (Some(130), ""));
    assert!(words.contains("could not be taken back"), "{words}");
}

#[test]
fn an_address_that_others_could_reach_is_refused_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7177"] {
        let refused = aye(&dir.path().join("home")).args(["up", "--no-open", "--listen", address]).output();
        let refused = refused.unwrap();
        let words = complained(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("--tls-cert") && words.contains("127.0.0.1"), "{words}");
    }
    assert!(!dir.path().join("home").exists(), "nothing is made before the address is right");
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = aye(&dir.path().join("home")).args(["up", "--no-open", "--listen", &address]).output();
    let refused = refused.unwrap();
    let words = complained(&refused);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains(&address) && words.contains("--listen") && words.contains("in use"), "{words}");
}

#[test]
fn links_name_localhost_and_nobody_else_can_listen_on_either_of_its_addresses() {
    let hub = Hub::start();
    let port = hub.address.strip_prefix("localhost:").expect("a name, which a passkey can belong to");
    assert!(hub.link.starts_with(&format!("http://localhost:{port}/sign-in#")), "{}", hub.link);
    let made = hub.post("/api/sign-in-links", &hub.operator(), json!({})).body;
    assert!(made["url"].as_str().unwrap().starts_with(&format!("http://localhost:{port}/")), "{made}");
    for address in ["127.0.0.1", "[::1]"].map(|ip| format!("{ip}:{port}")) {
        match TcpListener::bind(&address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let reply = try_call(&address, "GET", "/api/health", &[], None).unwrap();
                assert_eq!(reply.status, 200, "{address}");
            }
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => println!("no {address} here"),
            other => panic!("{address}: {other:?}"),
        }
    }
}

#[test]
fn somebody_elses_port_on_the_other_loopback_address_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let Ok(squatter) = TcpListener::bind("[::1]:0") else { return println!("there is no IPv6 here") };
    let port = squatter.local_addr().unwrap().port();
    let ours = format!("127.0.0.1:{port}");
    let refused = aye(&dir.path().join("home")).args(["up", "--no-open", "--listen", &ours]).output();
    let refused = refused.unwrap();
    let words = complained(&refused);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains(&format!("[::1]:{port}")) && words.contains("another user"), "{words}");
}

/// Starts the hub with sockets that it inherits, as systemd does.
fn with_passed_sockets(home: &std::path::Path, passed: &str, listen: &str) -> Command {
    let program = "import os, socket, sys\n\
        passed, program = sys.argv[1], sys.argv[2:]\n\
        port = int(passed.rsplit(':', 1)[1])\n\
        s = socket.create_server(('127.0.0.1', port)); os.dup2(s.fileno(), 3); os.set_inheritable(3, True)\n\
        os.environ['LISTEN_PID'] = str(os.getpid()); os.environ['LISTEN_FDS'] = '1'\n\
        os.execv(program[0], program)\n";
    let mut command = Command::new("python3");
    command.args(["-c", program, passed, env!("CARGO_BIN_EXE_aye"), "up", "--no-open", "--listen", listen]);
    command.env("AYE_HOME", home).env("AYE_LOG", "error").env_remove("AYE_URL").env_remove("AYE_TOKEN");
    command
}

#[test]
fn sockets_that_systemd_holds_are_used_and_must_be_the_right_ones() {
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("there is no python3 to pass sockets on");
    }
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut hub = Hub::start_with(with_passed_sockets(&home, &free, &free), home.clone());
    assert_eq!(hub.address, free.replace("127.0.0.1", "localhost"));
    assert_eq!(hub.get("/api/asks", &hub.operator()).status, 200);
    assert!(hub.stop().success());

    let refused = with_passed_sockets(&home, &free, "127.0.0.1:1").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(complained(&refused).contains("systemd passed a socket on"), "{}", complained(&refused));
}

#[test]
fn an_agents_token_survives_the_hub_and_is_the_same_when_handed_out_again() {
    let mut hub = Hub::start();
    let token = hub.agent("nightly");
    hub.raise(&token, "nightly", "k1", "question", yes_or_no());
    hub.kill();
    hub.restart();
    assert_eq!(hub.agent("nightly"), token);
    hub.raise(&token, "nightly", "k2", "question", yes_or_no());
    assert!(hub.stop().success());
    hub.restart();
    hub.raise(&token, "nightly", "k3", "question", yes_or_no());
}

/// Does a bit of everything with secrets, and returns those with what the hub logged meanwhile.
fn logs_and_secrets(level: &str) -> (String, Vec<String>, Vec<&'static str>) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let mut command = aye(&home);
    command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]).env("AYE_LOG", level);
    command.stderr(File::create(dir.path().join("log")).unwrap());
    let mut hub = Hub::start_with(command, home);

    let (operator, agent) = (hub.token("operator"), hub.agent("a1"));
    let made = hub.post("/api/tokens", &operator, json!({"role": "viewer", "name": "display"}));
    let viewer = made.body["token"].as_str().unwrap().to_owned();
    let wrong = format!("aye_wrong_{}", "5ec7e7".repeat(10));
    for token in [&wrong, &viewer] {
        let refused = hub.post("/api/asks/k3/answer", token, json!({}));
        assert!(matches!(refused.status, 401 | 403), "{refused:?}");
    }
    let browser = hub.browser_by(&hub.link).unwrap_or_else(|reply| panic!("{reply:?}"));
    let session = browser.cookie.split_once('=').unwrap().1.to_owned();
    assert_eq!(hub.get("/api/me", &session).status, 401, "a browser's session is no bearer's");
    let page = hub.page_token(&browser);
    let headers = [("Cookie", &*browser.cookie), ("Aye-Page", &page), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(hub.call("GET", "/api/me", &headers, None).body["role"], "operator");
    assert_eq!(hub.browser_by(&hub.link).err().map(|reply| reply.status), Some(410));
    let code = crate::support::browser::code_of(&hub.link).to_owned();

    let words = vec!["the-launch-word", "the-refused-word", "the-spoken-word", "the-denying-word"];
    let question = json!({"questions": [{"question": "What is the word?", "free_text": true}]});
    let [first, second] = ["k1", "k2"].map(|key| hub.raise(&agent, "a1", key, "question", question.clone()));
    let invalid = json!({"answers": [{"text": words[1]}, {"text": words[1]}]});
    assert_eq!(hub.answer(&first, invalid).status, 422);
    assert_eq!(hub.answer(&first, json!({"answers": [{"text": words[0]}]})).status, 200);
    assert_eq!(hub.answer(&first, json!({"answers": [{"text": words[1]}]})).status, 409);
    let mut socket = hub.websocket(&operator, "?after=0");
    let frame = json!({"type": "answer", "id": second["id"], "digest": second["digest"],
                       "answer": {"response": words[2]}});
    socket.send(Message::text(frame.to_string())).unwrap();
    while !socket.read().unwrap().to_text().unwrap().contains("\"result\"") {}
    let plan = hub.raise(&agent, "a1", "k3", "plan", json!({"plan": "x"}));
    assert_eq!(hub.answer(&plan, json!({"decision": "deny", "message": words[3]})).status, 200);

    let id = viewer.split('_').nth(1).unwrap().to_owned();
    let revoked = aye(&hub.home).args(["token", "revoke", &id]).output().unwrap();
    assert!(revoked.status.success(), "{revoked:?}");
    assert!(hub.stop().success());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("stopping"), "the log is empty: {log:?}");
    (log, vec![operator, agent, viewer, wrong, session, code], words)
}

#[test]
fn logs_hold_no_token_and_no_words_of_an_answer() {
    let (log, secrets, words) = logs_and_secrets("info");
    for secret in secrets.iter().map(String::as_str).chain(words) {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

#[test]
fn even_the_most_talkative_log_holds_no_token() {
    let (log, secrets, _) = logs_and_secrets("trace");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log:\n{log}");
    }
}

#[test]
fn scripts_that_share_a_token_ask_one_after_another_and_side_by_side() {
    let hub = Hub::start();
    let token = hub.agent("nightly");
    let ask = |question: &str| {
        let mut script = aye(&hub.home);
        script.args(["ask", question, "--option", "yes"]).env("AYE_TOKEN", &token);
        script.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let open = |count: usize| {
        eventually("the asks", || {
            let list =
                hub.get("/api/asks?state=open", &hub.operator()).body["asks"].as_array().unwrap().clone();
            (list.len() == count).then_some(list)
        })
    };
    let (first, second) = (ask("one?"), ask("two?"));
    for asked in open(2) {
        assert_eq!(hub.answer(&asked, saying("yes")).status, 200);
    }
    for script in [first, second] {
        assert_eq!(exit_code_and_words(script).0, Some(0));
    }
    let third = ask("three?");
    assert_eq!(hub.answer(&open(1)[0], saying("yes")).status, 200);
    assert_eq!(exit_code_and_words(third).0, Some(0));
}

#[test]
fn a_program_that_outlives_its_terminal_is_ended() {
    let (dir, hub) = (tempfile::tempdir().unwrap(), Hub::start());
    let (program, here) = (dir.path().join("claude"), dir.path().join("here"));
    // It does not end when its terminal does, and works on.
    fs::write(&program, format!("#!/bin/sh\ntrap '' HUP\necho $$ > {here:?}\nwhile :; do :; done\n"))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = aye(&hub.home);
    command.arg("claude").env("AYE_CLAUDE", &program).stdin(Stdio::null());
    let mut session = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = eventually("the program", || fs::read_to_string(&here).ok().filter(|pid| pid.ends_with('\n')));
    signal(&session, Signal::HUP);
    assert_eq!(ended(&mut session).code(), Some(128 + 9));
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
}
