use super::*;
use crate::digest::canonical;
use proptest::prelude::*;
use serde_json::json;

#[track_caller]
fn refused(kind: Kind, body: Value, field: &str, words: &str) {
    let error = Body::decode(kind, body).unwrap_err();
    assert_eq!(error.field, field);
    assert!(error.problem.contains(words), "{error}");
}

#[test]
fn a_question_nobody_could_answer_is_refused() {
    let q = |q: Value| json!({"questions": [q]});
    refused(Kind::Question, json!({"questions": []}), "", "1 to 32 questions");
    refused(
        Kind::Question,
        q(json!({"question": " ", "free_text": true})),
        "questions[0]",
        "must not be empty",
    );
    refused(Kind::Question, q(json!({"question": "x"})), "questions[0]", "needs options");
    refused(
        Kind::Question,
        q(json!({"question": "x", "options": [{"label": "a"}, {"label": "a"}]})),
        "questions[0]",
        "two options are labelled \"a\"",
    );
    refused(
        Kind::Question,
        q(json!({"question": "x", "multiSelect": true})),
        "questions[0].multiSelect",
        "unknown field",
    );
}

fn raised(body: Value) -> Result<(Value, Option<Before>), Invalid> {
    RaisedBody::decode(Kind::Permission, body).map(|(body, before)| (body.to_json(), before))
}

#[test]
fn a_display_that_is_raised_is_dropped_and_one_that_was_stored_is_kept() {
    let stored = json!({"tool": "Bash", "input": {"command": "bash evil.sh"},
        "display": {"kind": "command", "text": "git status"}, "scopes": [{"scope": "once"}]});
    let body = Body::decode(Kind::Permission, stored.clone()).unwrap();
    assert_eq!(body.to_json(), stored, "its digest covers it");
    for display in [stored["display"].clone(), json!("nonsense"), Value::Null] {
        let mut body = stored.clone();
        body["display"] = display;
        let today =
            json!({"tool": "Bash", "input": {"command": "bash evil.sh"}, "scopes": [{"scope": "once"}]});
        assert_eq!(raised(body).unwrap(), (today, None));
    }
}

#[test]
fn words_for_what_the_hub_would_grant_are_not_taken_from_who_asks() {
    let scopes = json!([
        {"scope": "once", "rule": "only looks"},
        {"scope": "session", "rule": "Bash(git status)", "kept_by": "agent"},
        {"scope": "always", "rule": "only git status", "kept_by": "hub"}]);
    let (body, _) = raised(json!({"tool": "Bash", "input": {}, "scopes": scopes})).unwrap();
    let kept = json!([
        {"scope": "once"},
        {"scope": "session", "rule": "Bash(git status)", "kept_by": "agent"},
        {"scope": "always", "kept_by": "hub"}]);
    assert_eq!(body["scopes"], kept);
}

#[test]
fn what_the_machine_says_of_the_file_is_outside_the_body_and_bounded() {
    let with = |before: Value| raised(json!({"tool": "Write", "input": {}, "before": before}));
    let places = json!({"places": [{"old_start": 1, "new_start": 1, "removed": ["x"]}]});
    let (body, before) = with(places).unwrap();
    assert_eq!(body, json!({"tool": "Write", "input": {}, "scopes": [{"scope": "once"}]}));
    assert_eq!(before.unwrap().places[0].removed, ["x"]);
    let long = json!({"places": [{"old_start": 1, "new_start": 1, "removed": ["x".repeat(64 * 1024)]}]});
    assert!(with(long).unwrap_err().problem.contains("65536 bytes"));
    let smuggled = json!({"places": [{"old_start": 1, "new_start": 1, "removed": ["x\n+y"]}]});
    assert!(with(smuggled).unwrap_err().problem.contains("line break"));
}

#[test]
fn a_permission_offers_each_scope_once_and_never_none() {
    let permission = |scopes: Value| json!({"tool": "X", "input": {}, "scopes": scopes});
    refused(Kind::Permission, permission(json!([])), "", "at least one");
    refused(Kind::Permission, permission(json!([{"scope": "once"}, {"scope": "once"}])), "", "only once");
    refused(
        Kind::Permission,
        permission(json!([{"scope": "forever"}])),
        "scopes[0].scope",
        "unknown variant",
    );
}

#[test]
fn an_empty_plan_is_refused() {
    refused(Kind::Plan, json!({"plan": "\n"}), "plan", "must not be empty");
}

/// Text with everything in it that is written in another way than it is read.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,8}",
        any::<String>(),
        Just("\u{0}\u{8}\t\n\u{c}\r\u{1f}\"\\/\u{7f}\u{2028}".to_owned())
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn question() -> impl Strategy<Value = Question> {
    let offer = (text(), text(), prop::option::of(text()), any::<bool>())
        .prop_map(|(label, description, preview, allows)| Offer { label, description, preview, allows });
    let options = prop::collection::vec(offer, 0..3);
    let said = (text(), text(), options, any::<bool>(), any::<bool>(), any::<bool>());
    said.prop_map(|(question, header, options, multi_select, free_text, secret)| Question {
        question,
        header,
        options,
        multi_select,
        free_text,
        secret,
    })
}

fn permission() -> impl Strategy<Value = Permission> {
    let scope = prop::sample::select(vec![Scope::Once, Scope::Session, Scope::Always]);
    let keeper = prop::option::of(prop::sample::select(vec![Keeper::Agent, Keeper::Hub]));
    let offer = (scope, prop::option::of(text()), keeper).prop_map(|(scope, rule, kept_by)| ScopeOffer {
        scope,
        rule,
        kept_by,
    });
    let input = prop::collection::vec((text(), value()), 0..4);
    let said = (text(), input, prop::option::of(value()), prop::collection::vec(offer, 0..3));
    said.prop_map(|(tool, input, display, scopes)| Permission {
        tool,
        input: input.into_iter().collect(),
        display,
        scopes,
    })
}

fn body() -> impl Strategy<Value = Body> {
    let plan = text().prop_filter_map("a plan has words", |plan| Text::try_from(plan).ok());
    prop_oneof![
        prop::collection::vec(question(), 0..3).prop_map(|questions| Body::Question(Questions { questions })),
        permission().prop_map(Body::Permission),
        plan.prop_map(|plan| Body::Plan(Plan { plan })),
    ]
}

proptest! {
    #[test]
    fn a_body_is_written_as_the_canonical_json_of_what_others_read(body in body()) {
        let mut written = String::new();
        body.write_canonical(&mut written);
        prop_assert_eq!(written, canonical(&body.to_json()));
    }

    #[test]
    fn an_ask_is_no_longer_than_is_told_without_writing_it(body in body()) {
        prop_assert!(crate::length::tests::is_at_most_so_long(body));
    }
}
