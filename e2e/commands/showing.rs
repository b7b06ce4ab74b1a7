//! `aye list` and `aye show`: what people see, and what is never obeyed.

use super::*;

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
