//! `aye doctor`, `token`, `open`, and the demo.

use super::*;
use std::os::unix::fs::PermissionsExt;

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
        ["home", "files", "policy", "rules", "telegram", "passkeys", "trail", "hub", "token", "agents"];
    assert_eq!(about, expected);

    let kinds: Vec<_> = findings["agents"].as_array().unwrap().iter().map(|agent| &agent["kind"]).collect();
    assert_eq!(kinds, ["claude", "codex", "opencode", "gemini", "qwen", "kimi", "copilot"]);

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
fn doctor_lists_the_agents_that_are_here_with_their_versions_and_the_ways_to_them() {
    let hub = Hub::start();
    let programs = tempfile::tempdir().unwrap();
    let program = |name: &str, script: &str| {
        let path = programs.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("claude", "echo '2.1.327 (Claude Code)'");
    program("codex", "echo codex-cli 9.9.9");
    program("qwen", "exit 1");
    program("mine", "echo mine 0.3.1");
    let own = format!(
        "[agents.mine]\nprotocol = \"acp\"\ncommand = {:?}\n[agents.other]\nprotocol = \"codex\"\n[agents.codex]\nargs = []\n",
        programs.path().join("mine")
    );
    std::fs::write(hub.home.join("config.toml"), own).unwrap();
    let look = |arguments: &[&str]| {
        let mut command = aye(&hub.home);
        command.args(arguments).env("PATH", programs.path()).env_remove("AYE_CLAUDE").output().unwrap()
    };
    let found = json_of(&look(&["doctor", "--json"]));
    let agent =
        |kind: &str| found["agents"].as_array().unwrap().iter().find(|a| a["kind"] == kind).unwrap().clone();
    assert_eq!(
        agent("claude"),
        json!({"kind": "claude", "name": "Claude Code", "program": programs.path().join("claude"),
            "version": "2.1.327", "tested": "2.1.327", "reached": ["driven", "hooks", "watched", "MCP"]})
    );
    assert_eq!((&agent("codex")["version"], &agent("qwen")["version"]), (&json!("9.9.9"), &Value::Null));
    assert_eq!(agent("kimi")["program"], Value::Null);
    assert_eq!(
        agent("mine"),
        json!({"kind": "mine", "name": "mine", "program": programs.path().join("mine"), "version": "0.3.1",
            "tested": null, "reached": ["driven over ACP"]})
    );
    assert_eq!(found["agents"].as_array().unwrap().len(), 9, "known kinds are listed once");
    let words = printed(&look(&["doctor"]));
    for line in [
        "Claude Code  2.1.327 (tested)                   driven, hooks, watched, MCP",
        "Codex        9.9.9 (tested: 0.169.0)",
        "Qwen Code    version unknown (tested: 0.24.4)",
        "Kimi Code    not installed (tested: ",
        "mine         0.3.1 (not tested)                 driven over ACP",
        "other        not installed (not tested)         driven",
    ] {
        assert!(words.contains(line), "{line:?} in\n{words}");
    }
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

#[test]
fn open_draws_the_sign_in_link_as_a_code_where_a_phone_can_reach_it() {
    let mut hub = Hub::start();
    let refused = hub.aye(&["open", "--qr"]);
    assert_eq!((code(&refused), printed(&refused).as_str()), (Some(1), ""));
    assert!(
        complained(&refused).contains("a phone cannot sign in at http://localhost:"),
        "{}",
        complained(&refused)
    );

    hub.stop();
    fs::write(hub.home.join("config.toml"), "[hub]\npublic_url = \"https://aye.example\"\n").unwrap();
    hub.restart();
    let drawn = printed(&hub.aye(&["open", "--qr"]));
    let (picture, link) = drawn.trim_end().rsplit_once('\n').unwrap();
    assert!(link.starts_with("https://aye.example/sign-in#"), "{link}");
    // Two rows in each line, with a margin of two on every side.
    let rows = picture.lines().flat_map(|line| {
        let cells: Vec<_> = line.chars().filter(|c| "█▀▄ ".contains(*c)).collect();
        ["█▀", "█▄"].map(|dark| cells.iter().map(|cell| dark.contains(*cell)).collect::<Vec<_>>())
    });
    let rows: Vec<_> = rows.collect();
    let expected = qrcodegen::QrCode::encode_text(link, qrcodegen::QrCodeEcc::Low).unwrap();
    for (y, row) in (-2_i32..).zip(&rows) {
        for (x, dark) in (-2_i32..).zip(row) {
            assert_eq!(*dark, expected.get_module(x, y), "{x}, {y}");
        }
    }
    assert!(rows.len() as i32 >= expected.size() + 4 && rows[0].len() as i32 == expected.size() + 4);
}

#[test]
fn a_shell_that_has_read_the_completions_completes_commands_and_options() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("completions");
    let completions = aye(&dir.path().join("home")).args(["completions", "bash"]).output().unwrap();
    fs::write(&script, completions.stdout).unwrap();
    for (typed, expected) in [("an", "answer"), ("hooks inst", "install"), ("open --q", "--qr")] {
        let words = format!("aye {typed}");
        let last = words.split(' ').count() - 1;
        let ask = format!(
            "source {script:?}; COMP_WORDS=({words}); COMP_CWORD={last}; _aye aye \"${{COMP_WORDS[{last}]}}\"; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let shell = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        assert_eq!(printed(&shell).trim(), expected, "{typed}: {}", complained(&shell));
    }
}
