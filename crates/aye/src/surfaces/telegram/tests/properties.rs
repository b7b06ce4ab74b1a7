//! What Telegram displays reads back as what would be approved, for whatever is raised.

use super::super::actions::Action;
use super::super::render::{approves, open};
use super::{actions, ask, ask_with, asker};
use crate::surfaces::form::Draft;
use aye_core::{Body, Kind};
use serde_json::{Value, json};

/// What people see of a page, and each stretch of it that is marked like this.
fn seen(page: &super::super::html::RichText) -> aye_testkit::telegram::Marked {
    aye_testkit::telegram::seen(page.html(), Some("HTML")).unwrap()
}

fn marked(page: &super::super::html::RichText, kinds: &[&str]) -> Vec<String> {
    let seen = seen(page);
    let found = seen.entities.iter().filter(|entity| kinds.contains(&entity.kind));
    found.map(|entity| seen.of(entity)).collect()
}

/// The plan that a message shows, with the marks that Telegram shows as something else.
fn read_plan(page: &super::super::html::RichText) -> String {
    let seen = seen(page);
    let is_gap = |at: &usize| seen.text[*at..].starts_with(&['\n', '\n']);
    let start = (0..seen.text.len()).find(is_gap).unwrap() + 2;
    let end = (0..seen.text.len()).rev().find(is_gap).unwrap();
    let (mut at, mut out) = (start, String::new());
    let part =
        |from: usize, to: usize| super::super::exact::read(&seen.text[from..to].iter().collect::<String>());
    for entity in seen.entities.iter().filter(|entity| entity.start >= start && entity.end <= end) {
        let text = super::super::exact::read(&seen.of(entity));
        out += &part(at, entity.start);
        out += &match entity.kind {
            "b" if text.starts_with('#') => text,
            "b" => format!("**{text}**"),
            "code" => format!("`{text}`"),
            "pre" => format!("```{}\n{text}\n```", entity.argument),
            kind => panic!("a plan has no {kind}"),
        };
        at = entity.end;
    }
    out + &part(at, end)
}

/// Text as people and attackers write it: what Telegram changes, what hides, what looks like our own signs.
fn any_text() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let odd = prop::sample::select(vec![
        "\t",
        "\r",
        "\n",
        " ",
        "  \n",
        "\u{0}",
        "\u{1b}",
        "\u{7f}",
        "\u{a0}",
        "\u{ad}",
        "\u{30a}",
        "\u{333}",
        "\u{33f}",
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{200e}",
        "\u{200f}",
        "\u{2028}",
        "\u{202e}",
        "\u{202f}",
        "\u{2066}",
        "\u{3000}",
        "\u{feff}",
        "\u{e0041}",
        "⇥",
        "␠",
        "⏎",
        "␍",
        "\\u{9}",
        "\\u{5c}",
        "\\",
        "\\t",
        "u{9}",
        "&lt;",
        "&#9;",
        "&",
        "<b>",
        "**",
        "`",
        "\n```\n",
        "```rs\n",
        "\n# ",
        "#",
        "</pre>",
        "<",
        "\"",
        "a",
        "b",
        "1",
        "-",
        "+",
        "❤️",
        "日",
        "😀",
        "👩\u{200d}💻",
    ]);
    let piece = prop_oneof![4 => odd.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// The tool and the input that a message shows, read back from what people see of it. Only stretches of code count,
/// by our own words before them; a command's title says that it is Bash.
fn read_back(page: &super::super::html::RichText) -> (String, Option<serde_json::Map<String, Value>>) {
    let seen = seen(page);
    let code: Vec<_> = seen.entities.iter().filter(|entity| ["code", "pre"].contains(&entity.kind)).collect();
    let is_number = |words: &str| words.strip_suffix(". ").is_some_and(|n| n.parse::<u32>().is_ok());
    let (mut tool, mut file, mut blocks, mut rest, mut field) =
        (String::new(), None, vec![], json!({}), String::new());
    for (n, entity) in code.iter().enumerate() {
        let text = super::super::exact::read(&seen.of(entity));
        let from = if n == 0 { 0 } else { code[n - 1].end };
        let before: String = seen.text[from..entity.start].iter().collect();
        match before.rsplit('\n').next().unwrap() {
            _ if entity.kind == "pre" => blocks.push((before.trim().ends_with("as JSON:"), text)),
            "🔐 Use " => tool = text,
            " · " => tool = text,
            words if words.starts_with("🔐 ") => {
                words.trim_start_matches("🔐 ").trim_end().clone_into(&mut tool);
                file = Some(text);
            }
            "" => field = text,
            ": " => rest[field.as_str()] = serde_json::from_str(&text).unwrap(),
            words => assert!(is_number(words) || words.ends_with("own rule: "), "{words}"),
        }
    }
    let hunk = |text: &String| {
        let mut lines = text.split('\n').map(str::to_owned);
        lines.next();
        json!({"old_start": 0, "new_start": 0, "lines": lines.collect::<Vec<_>>()})
    };
    let blocks_of = |blocks: &[(bool, String)]| blocks.iter().map(|(_, text)| hunk(text)).collect::<Vec<_>>();
    let display = match (&file, blocks.first()) {
        (Some(file), _) => json!({"kind": "diff", "text": "", "file": file, "hunks": blocks_of(&blocks)}),
        (None, Some((true, text))) => json!({"kind": "json", "text": text}),
        (None, Some((false, text))) => {
            tool = "Bash".to_owned();
            json!({"kind": "command", "text": text})
        }
        (None, None) => panic!("nothing is shown"),
    };
    let mut display = display;
    display["title"] = json!("");
    display["rest"] = rest;
    let display: aye_core::Display = serde_json::from_value(display).unwrap();
    let input = display.rebuild(&tool);
    (tool, input)
}

/// What an adapter may raise, lies included.
fn any_raise() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let tool = prop_oneof![
        3 => Just("Bash".to_owned()), 2 => Just("Edit".to_owned()), 2 => Just("Write".to_owned()),
        2 => Just("MultiEdit".to_owned()), 1 => any_text().prop_map(|text| format!("x{text}")),
    ];
    let odd = prop_oneof![
        any_text().prop_map(Value::from),
        Just(json!(1)),
        Just(json!(null)),
        Just(json!(["x", {"y": 1.5}]))
    ];
    let fields = prop::collection::btree_map(
        prop_oneof![
            3 => prop::sample::select(vec!["command", "file_path", "old_string", "new_string", "content", "replace_all"]).prop_map(str::to_owned),
            1 => any_text(),
        ],
        prop_oneof![4 => any_text().prop_map(Value::from), 1 => odd],
        0..6,
    );
    let edits = prop::collection::vec((any_text(), any_text(), any::<bool>()), 0..3);
    let lines = prop::collection::vec(any_text().prop_map(|text| text.replace('\n', "")), 0..3);
    (tool, fields, edits, lines, any_text()).prop_map(|(tool, fields, edits, lines, lie)| {
        let mut input = json!(fields);
        if tool != "Bash" {
            input["file_path"] = json!(lie);
        }
        if tool == "MultiEdit" {
            let edit = |(old, new, all): &(String, String, bool)| json!({"old_string": old, "new_string": new, "replace_all": all});
            input["edits"] = json!(edits.iter().map(edit).collect::<Vec<_>>());
        }
        json!({"tool": tool, "input": input, "display": {"kind": "command", "text": lie},
            "before": {"places": [{"old_start": 1, "new_start": 1, "removed": lines, "above": lines, "below": lines}]},
            "scopes": [{"scope": "once"}, {"scope": "session", "rule": lie, "kept_by": "agent"}, {"scope": "always", "rule": lie, "kept_by": "hub"}]})
    })
}

proptest::proptest! {
    #[test]
    fn what_telegram_displays_of_a_permission_reads_back_as_its_input_or_it_cannot_be_allowed(raise in any_raise()) {
        if let Ok((body, before)) = aye_core::RaisedBody::decode(Kind::Permission, raise) {
            let mut ask = ask_with(body);
            ask.extras.before = before;
            let shown = open(&ask, &Draft::default(), &asker());
            let allowed: Vec<_> = actions(&shown).into_iter().filter(approves).collect();
            if let (Body::Permission(permission), false) = (&ask.body, allowed.is_empty()) {
                let (tool, input) = read_back(&shown.page);
                proptest::prop_assert_eq!(&tool, &permission.tool);
                proptest::prop_assert_eq!(input.as_ref(), Some(&permission.input));
                proptest::prop_assert!(!allowed.contains(&Action::AllowAlways), "the hub granted nothing");
            }
        }
    }

    #[test]
    fn what_telegram_displays_of_code_reads_back_as_the_code(text in any_text()) {
        let page = |page: super::super::html::RichText| page.text("🔐\n");
        let block = page(super::super::html::RichText::default()).pre(&text);
        let line = page(super::super::html::RichText::default()).code(&text);
        let read = |page| marked(page, &["pre", "code"]).concat();
        proptest::prop_assert_eq!(super::super::exact::read(&read(&block)), text.clone());
        proptest::prop_assert_eq!(super::super::exact::read(&read(&line)), text);
    }

    #[test]
    fn what_telegram_displays_of_a_plan_reads_back_as_the_plan_or_it_cannot_be_approved(
        text in any_text(), times in 1..400_usize,
    ) {
        let plan = format!("x{}", text.repeat(times));
        let ask = ask(Kind::Plan, json!({ "plan": plan }));
        let shown = open(&ask, &Draft::default(), &asker());
        if actions(&shown).contains(&Action::Approve) {
            let pages = if shown.parts.is_empty() { std::slice::from_ref(&shown.page) } else { &shown.parts };
            let all: String = pages.iter().map(read_plan).collect();
            proptest::prop_assert_eq!(all, plan);
        }
    }
}
