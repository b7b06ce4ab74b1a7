use super::*;
use crate::body::{Body, Kind};
use proptest::prelude::*;
use serde_json::json;

fn permission(tool: &str, input: Value) -> Permission {
    let Value::Object(input) = input else { panic!("no object") };
    Permission::new(tool.into(), input, None).unwrap()
}

fn shown(tool: &str, input: Value) -> Display {
    Display::of(&permission(tool, input), &Extras::default())
}

fn with_before(tool: &str, input: Value, places: Value) -> Display {
    let before = serde_json::from_value(json!({ "places": places })).unwrap();
    Display::of(&permission(tool, input), &Extras { before: Some(before), ..Extras::default() })
}

fn lines(display: &Display) -> Vec<&str> {
    display.hunks.iter().flatten().flat_map(|hunk| &hunk.lines).map(String::as_str).collect()
}

#[test]
fn a_command_is_shown_whole_and_its_other_fields_beside_it() {
    let long = format!("echo {}", "x".repeat(100_000));
    let display = shown("Bash", json!({"command": long, "description": "harmless", "timeout": 5}));
    assert_eq!((display.kind, display.title.as_str()), (DisplayKind::Command, "Run a command"));
    assert_eq!(display.text, long);
    assert_eq!(Value::from(display.rest), json!({"description": "harmless", "timeout": 5}));
}

#[test]
fn an_edit_shows_both_strings_whole() {
    let input =
        json!({"file_path": "a\n.rs", "old_string": "one\ntwo", "new_string": "2\n", "replace_all": true});
    let display = shown("Edit", input);
    assert_eq!(lines(&display), ["-one", "-two", "+2", "+"]);
    assert_eq!((display.title.as_str(), display.file.as_deref()), ("Edit a\\n.rs", Some("a\n.rs")));
    assert_eq!(display.text, "--- a\\n.rs\n+++ a\\n.rs\n@@ -0,2 +0,2 @@\n-one\n-two\n+2\n+\n");
    assert_eq!(Value::from(display.rest), json!({"replace_all": true}));
    assert!(!display.before);
}

#[test]
fn what_the_machine_says_stands_around_an_edit_and_takes_nothing_from_it() {
    let input = json!({"file_path": "a", "old_string": "two", "new_string": "2"});
    let places = json!([{"old_start": 9, "new_start": 9, "above": ["one"], "below": ["three"]}]);
    let display = with_before("Edit", input, places);
    assert_eq!(lines(&display), [" one", "-two", "+2", " three"]);
    assert_eq!(display.hunks.as_ref().unwrap()[0].old_start, 8);
    assert!(display.before);
}

#[test]
fn a_write_shows_all_of_its_content_and_what_the_machine_says_it_replaces() {
    let input = json!({"file_path": "a", "content": "one\n2\nthree"});
    assert_eq!(lines(&shown("Write", input.clone())), ["+one", "+2", "+three", NO_NEWLINE]);
    let places = json!([{"old_start": 2, "new_start": 2, "new_lines": 1, "removed": ["two"]},
        {"old_start": 4, "new_start": 4, "removed": ["four"], "unended": true}]);
    let display = with_before("Write", input.clone(), places);
    assert_eq!(lines(&display), [" one", "-two", "+2", " three", NO_NEWLINE, "-four", NO_NEWLINE]);
    assert!(display.before);
    let beyond = with_before("Write", input, json!([{"old_start": 1, "new_start": 3, "new_lines": 2}]));
    assert_eq!((lines(&beyond).len(), beyond.before), (4, false), "what does not fit is not believed");
}

#[test]
fn several_edits_are_several_hunks_and_what_else_they_say_is_beside_them() {
    let edits = json!([{"old_string": "a", "new_string": "b", "replace_all": true}, {"old_string": "", "new_string": "c"}]);
    let display = shown("MultiEdit", json!({"file_path": "a.txt", "edits": edits}));
    assert_eq!(lines(&display), ["-a", "+b", "+c"]);
    assert_eq!(Value::from(display.rest), json!({"edits": [{"replace_all": true}, {}]}));
}

#[test]
fn what_has_no_better_form_is_shown_as_json() {
    for (tool, input) in [
        ("Edit", json!({"file_path": "a", "old_string": 1, "new_string": "y"})),
        ("Write", json!({"file_path": ["a"], "content": "x"})),
        ("MultiEdit", json!({"file_path": "a", "edits": []})),
        ("MultiEdit", json!({"file_path": "a", "edits": [{"old_string": "x"}]})),
        ("mcp__x", json!({"b": 1, "a": [2]})),
        ("Bash", json!({"command": 1})),
        ("bash", json!({"command": "ls"})),
    ] {
        let display = shown(tool, input.clone());
        assert_eq!((display.kind, display.title), (DisplayKind::Json, format!("Use {tool}")));
        assert_eq!(serde_json::from_str::<Value>(&display.text).unwrap(), input);
    }
}

#[test]
fn a_tool_that_looks_like_another_is_not_shown_as_that_one_and_says_so() {
    for tool in ["B\u{430}sh", "Bash ", "Bash\u{200b}"] {
        let display = shown(tool, json!({"command": "ls"}));
        assert_eq!(display.kind, DisplayKind::Json);
        assert_eq!(display.remarks.caution.as_deref(), Some(ODD_NAME));
    }
    assert_eq!(shown("mcp__plugin_x-1__y", json!({})).remarks.caution, None);
}

#[test]
fn a_display_that_does_not_show_its_input_is_not_taken_from_a_hub() {
    let permission = permission("Bash", json!({"command": "bash evil.sh"}));
    let mut extras = Extras::default();
    extras.remarks.caution = Some("x".into());
    let honest = Display::of(&permission, &extras);
    let sent = serde_json::to_value(&honest).unwrap();
    assert_eq!(Display::checked(Some(sent.clone()), &permission), honest);
    let mut lie = sent;
    lie["text"] = "git status".into();
    for sent in [Some(lie), Some(json!(1)), None] {
        assert_eq!(Display::checked(sent, &permission).text, "bash evil.sh");
    }
}

/// Text with everything in it that could be lost on the way.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,6}",
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\r".to_owned()),
        Just("\\ No newline at end of file".to_owned()),
        Just("+x\n-y\n z".to_owned()),
        Just("\u{1b}[2K\u{202e}\u{2028}\u{85}\u{0}".to_owned()),
        Just("\\u{202e}\\n\"".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Value::from),
        hostile().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((hostile(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An input for a tool, mostly in the form that the tool expects.
pub fn call() -> impl Strategy<Value = (String, Map<String, Value>)> {
    let names = ["command", "file_path", "content", "old_string", "new_string", "edits", "replace_all", "x"];
    let field = move |name: &'static str| {
        let edit = (hostile(), hostile(), prop::option::of(value())).prop_map(|(old, new, more)| {
            let mut edit = json!({"old_string": old, "new_string": new});
            if let Some(more) = more {
                edit["replace_all"] = more;
            }
            edit
        });
        let usual = match name {
            "edits" => prop::collection::vec(edit, 0..4).prop_map(Value::from).boxed(),
            _ => hostile().prop_map(Value::from).boxed(),
        };
        (Just(name), prop_oneof![8 => usual, 1 => value()], prop::bool::weighted(0.85))
    };
    let fields = names.map(field).to_vec();
    let tool = prop::sample::select(vec!["Bash", "Write", "Edit", "MultiEdit", "mcp__x", "Wr\u{456}te"]);
    (tool, fields, prop::collection::vec((hostile(), value()), 0..3)).prop_map(|(tool, fields, more)| {
        let fields = fields.into_iter().filter(|(_, _, kept)| *kept);
        let fields = fields.map(|(name, value, _)| (name.to_owned(), value));
        (tool.to_owned(), fields.chain(more).collect())
    })
}

/// What a machine may say of a file, true or not.
pub fn before() -> impl Strategy<Value = Before> {
    let line = || prop::collection::vec(hostile().prop_map(|line| line.replace('\n', "")), 0..3);
    let place = (0..4u64, 0..5u64, 0..3u64, line(), any::<bool>(), 0..3u64, line(), line());
    let place = place.prop_map(|(old_start, new_start, new_lines, removed, unended, edit, above, below)| {
        ChangedPlace { old_start, new_start, new_lines, removed, unended, edit, above, below }
    });
    prop::collection::vec(place, 0..3).prop_map(|places| Before::new(places).unwrap())
}

proptest! {
    #[test]
    fn the_input_can_be_rebuilt_from_what_is_shown_whatever_is_said_beside_it(
        (tool, input) in call(),
        before in prop::option::of(before()),
    ) {
        let permission = Permission::new(tool.clone(), input.clone(), None).unwrap();
        let display = Display::of(&permission, &Extras { before, ..Extras::default() });
        prop_assert_eq!(display.rebuild(&tool), Some(input.clone()), "{:?}", display);
        prop_assert!(lines(&display).iter().all(|line| !line.contains('\n') && line.starts_with([' ', '+', '-', '\\'])));
        prop_assert!(!display.title.contains(char::is_control));
        // And as a surface far away reads it.
        let text = serde_json::to_string(&display).unwrap();
        let sent: Display = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&sent, &display);
        prop_assert_eq!(sent.rebuild(&tool), Some(input));
    }

    #[test]
    fn the_same_is_shown_of_an_ask_whoever_describes_it(
        (tool, input) in call(),
        lie in value(),
    ) {
        let body = json!({"tool": tool, "input": input, "display": lie});
        let (body, _) = crate::body::RaisedBody::decode(Kind::Permission, body).unwrap();
        let honest = Permission::new(tool, input, None).unwrap();
        prop_assert_eq!(&body, &Body::Permission(honest.clone()));
    }

    #[test]
    fn an_ask_is_no_longer_than_is_told_without_making_its_display((tool, input) in call()) {
        let permission = Permission::new(tool, input, None).unwrap();
        prop_assert!(crate::length::tests::is_at_most_so_long(Body::Permission(permission)));
    }
}
