use super::*;

fn translated(kind: &str, asked: Value, told: Option<Value>) -> (String, Value) {
    let cwd = Path::new("/src");
    let call = Call { kind, version: "0.61.0", cwd, asked: &asked, told: told.as_ref() };
    let (tool, input) = call.tool_and_input();
    (tool, Value::Object(input))
}

fn content(text: &str) -> Value {
    json!([{"type": "content", "content": {"type": "text", "text": text}}])
}

#[test]
fn rules_see_what_the_agent_shows_and_a_title_is_not_a_command() {
    let qwen = json!({"kind": "execute", "title": "ls", "rawInput": {"command": "rm x"},
        "_meta": {"toolName": "run_shell_command"}});
    let posing = json!({"kind": "execute", "rawInput": {"command": "x"}, "_meta": {"toolName": "Bash"}});
    let title = json!({"kind": "execute", "title": "ls", "content": [], "locations": []});
    let diff = json!({"type": "diff", "path": "/a", "oldText": "x", "newText": "y"});
    let edit = |content: Value| json!({"kind": "edit", "title": "a", "content": content});
    for (kind, call, tool, input) in [
        ("qwen", qwen.clone(), "Bash", json!({"command": "rm x"})),
        ("other", qwen, "other:execute", json!({"command": "rm x"})),
        // A tool by the name of one of ours is not ours.
        ("qwen", posing, "qwen:Bash", json!({"command": "x"})),
        ("gemini", title.clone(), "Unclear", json!({"title": "ls", "kind": "execute"})),
        ("qwen", title.clone(), "Unclear", json!({"title": "ls", "kind": "execute"})),
        ("kimi", title.clone(), "Unclear", json!({"title": "ls", "kind": "execute"})),
        ("copilot", title.clone(), "Unclear", json!({"title": "ls", "kind": "execute"})),
        ("other", title, "Unclear", json!({"title": "ls", "kind": "execute"})),
        ("other", json!({"title": "ls", "rawInput": {}}), "Unclear", json!({"title": "ls"})),
        (
            "other",
            json!({"title": "ls", "rawInput": "ls"}),
            "Unclear",
            json!({"title": "ls", "rawInput": "ls"}),
        ),
        ("gemini", edit(json!([diff])), "Write", json!({"file_path": "/a", "content": "y"})),
    ] {
        assert_eq!(translated(kind, call.clone(), None), (tool.to_owned(), input), "{kind} {call}");
    }
    for unclear in [edit(json!([diff, diff])), json!({"kind": "delete", "content": [diff]})] {
        assert_eq!(translated("gemini", unclear, None).0, "Unclear");
    }
    // Of another agent nobody knows whether a diff shows all of the file.
    for kind in ["qwen", "kimi", "copilot", "other"] {
        let (tool, input) = translated(kind, edit(json!([diff])), None);
        assert_eq!((tool.as_str(), &input["content"]), ("Unclear", &json!([diff])), "{kind}");
    }
}

#[test]
fn words_alone_are_those_of_a_call_that_shows_nothing_it_would_do() {
    let alone = |asked: &Value, told: Option<&Value>| {
        Call { kind: "mine", version: "1", cwd: Path::new("/src"), asked, told }.is_words_alone()
    };
    let words =
        json!({"title": "Which DB?", "kind": "other", "content": content("Pick one"), "rawInput": {}});
    assert!(alone(&words, None) && alone(&json!({}), Some(&words)));
    let diff = json!({"type": "diff", "path": "/a", "oldText": "x", "newText": "y"});
    for shows in [
        json!({"rawInput": {"command": "rm x"}}),
        json!({"rawInput": "rm x"}),
        json!({"content": [diff]}),
        json!({"content": {"type": "diff"}}),
        json!({"content": [{"type": "terminal", "terminalId": "t"}]}),
        json!({"locations": [{"path": "/a"}]}),
        json!({"kind": "execute"}),
        json!({"kind": "edit"}),
        json!({"kind": "delete"}),
        json!({"kind": "move"}),
        json!({"kind": "fetch"}),
        json!({"kind": "read"}),
        json!({"kind": 7}),
    ] {
        assert!(!alone(&shows, None) && !alone(&words, Some(&shows)), "{shows}");
    }
}

#[test]
fn the_title_of_geminis_shell_is_its_command_where_all_of_it_is_as_in_the_version_that_was_read() {
    let shell = |words: &str| json!({"toolCallId": "run_shell_command__c1", "kind": "execute", "title": "rm x; ls", "content": content(words)});
    let here = "[current working directory /src]";
    for (words, input) in [
        (here.to_owned(), json!({"command": "rm x; ls"})),
        (format!("{here} (lists)"), json!({"command": "rm x; ls", "description": "lists"})),
        (format!("{here} [background]"), json!({"command": "rm x; ls", "is_background": true})),
    ] {
        assert_eq!(translated("gemini", shell(&words), None), ("Bash".into(), input), "{words}");
    }
    for words in
        ["", "[in sub]", "[current working directory /src/sub]", "[current working directory /src] more"]
    {
        assert_eq!(translated("gemini", shell(words), None).0, "Unclear", "{words}");
    }
    let changed = |field: &str, value: Value| {
        let mut call = shell(here);
        call[field] = value;
        call
    };
    for call in [
        changed("toolCallId", json!("mcp_x_y__c1")),
        changed("kind", json!("other")),
        changed("title", Value::Null),
        changed("content", json!([])),
    ] {
        assert_eq!(translated("gemini", call.clone(), None).0, "Unclear", "{call}");
    }
    let (asked, cwd) = (shell(here), Path::new("/src"));
    let newer = Call { kind: "gemini", version: "0.62.0", cwd, asked: &asked, told: None };
    assert_eq!(newer.tool_and_input().0, "Unclear");
}

#[test]
fn kimi_is_asked_about_what_it_announced_and_not_about_what_it_shortens() {
    let asked =
        |title: &str| json!({"title": title, "content": content("Requesting approval to Running: touch…")});
    let told = |title: &str, input: &str| {
        Some(json!({"title": title, "kind": "execute", "content": content(input)}))
    };
    for (name, input, tool, expected) in [
        ("Bash", r#"{"command":"touch a; rm b"}"#, "Bash", json!({"command": "touch a; rm b"})),
        ("Write", r#"{"path":"a","content":"x"}"#, "Write", json!({"file_path": "a", "content": "x"})),
        (
            "Write",
            r#"{"path":"a","content":"x","mode":"overwrite"}"#,
            "Write",
            json!({"file_path": "a", "content": "x"}),
        ),
        (
            "Write",
            r#"{"path":"a","content":"x","mode":"append"}"#,
            "kimi:Write",
            json!({"path": "a", "content": "x", "mode": "append"}),
        ),
        ("FetchURL", r#"{"url":"https://x"}"#, "FetchURL", json!({"url": "https://x"})),
    ] {
        assert_eq!(
            translated("kimi", asked(name), told(name, input)),
            (tool.to_owned(), expected),
            "{name} {input}"
        );
    }
    for (told, why) in [
        (None, "nothing was announced"),
        (told("Read", r#"{"command":"ls"}"#), "it announced another tool"),
        (told("Bash", r#"{"command":"ls"#), "half of an input"),
        (told("Bash", r#"{"command":"ls","command":"rm x"}"#), "an input that reads in two ways"),
        (told("Bash", r#"{"command":"ls","cwd":"/"}"#), "another folder"),
    ] {
        assert_eq!(translated("kimi", asked("Bash"), told).0, "Unclear", "{why}");
    }
}

#[test]
fn copilot_is_asked_about_the_input_that_it_announced_if_its_request_says_the_same() {
    let asked = |kind: &str, raw: Value| json!({"title": "does it", "kind": kind, "rawInput": raw});
    let told = |raw: Value| Some(json!({"title": "does it", "rawInput": raw}));
    let command = asked("execute", json!({"command": "ls", "commands": ["ls"]}));
    let input = json!({"command": "ls", "description": "lists"});
    assert_eq!(translated("copilot", command.clone(), told(input.clone())), ("Bash".into(), input));
    assert_eq!(translated("copilot", command.clone(), told(json!({"command": "rm x"}))).0, "Unclear");
    assert_eq!(translated("copilot", command, None).0, "copilot:execute");
    let change = asked("edit", json!({"fileName": "/a", "diff": "…"}));
    assert_eq!(
        translated("copilot", change.clone(), told(json!({"path": "/a", "file_text": "x"}))),
        ("Write".into(), json!({"file_path": "/a", "content": "x"}))
    );
    assert_eq!(
        translated("copilot", change.clone(), told(json!({"path": "/a", "old_str": "x", "new_str": "y"}))),
        ("Edit".into(), json!({"file_path": "/a", "old_string": "x", "new_string": "y"}))
    );
    assert_eq!(
        translated("copilot", change, told(json!({"path": "/b", "file_text": "x"}))).0,
        "copilot:edit"
    );
}

#[test]
fn what_a_request_leaves_out_was_announced_and_what_it_contradicts_is_unclear() {
    let told = Some(json!({"kind": "execute", "rawInput": {"command": "rm x"}}));
    assert_eq!(
        translated("mine", json!({"title": "ls"}), told.clone()),
        ("mine:execute".into(), json!({"command": "rm x"}))
    );
    let (tool, input) = translated("mine", json!({"title": "ls", "rawInput": {"command": "ls"}}), told);
    assert_eq!(tool, "Unclear");
    assert_eq!(input["announced_rawInput"], json!({"command": "rm x"}));
}
