use super::*;
use crate::body::Kind;
use serde_json::json;

/// A single-select that takes free text, and a multi-select that does; both under one header.
fn questions() -> Body {
    let options = json!([{"label": "Red, dark"}, {"label": "Blue"}]);
    Body::decode(
        Kind::Question,
        json!({"questions": [
            {"question": "One?", "header": "Colour", "options": options, "free_text": true},
            {"question": "Many?", "header": "Colour", "options": options, "multi_select": true, "free_text": true},
        ]}),
    )
    .unwrap()
}

fn closed_question() -> Body {
    let body = json!({"questions": [{"question": "One?", "options": [{"label": "a"}, {"label": "b"}]}]});
    Body::decode(Kind::Question, body).unwrap()
}

fn permission() -> Body {
    let body = json!({"tool": "Bash", "input": {"command": "ls"}, "scopes": [{"scope": "once"}, {"scope": "session", "rule": "ls"}]});
    Body::decode(Kind::Permission, body).unwrap()
}

fn plan() -> Body {
    Body::decode(Kind::Plan, json!({"plan": "1. x"})).unwrap()
}

#[track_caller]
fn accepted(body: &Body, answer: Value) {
    let read = Answer::read(body, answer.clone()).unwrap();
    assert_eq!(read.to_json(), answer, "an answer is kept exactly as it was given");
    assert_eq!(Answer::decode(body.kind(), read.to_json()).unwrap(), read);
}

#[track_caller]
fn refused(body: &Body, answer: Value, field: &str) {
    let error = Answer::read(body, answer).unwrap_err();
    assert_eq!(error.field, field, "{error}");
}

#[test]
fn every_question_is_answered_or_skipped() {
    let q = questions();
    accepted(&q, json!({"answers": [{"selected": ["Blue"]}, {"skip": true}]}));
    accepted(&q, json!({"answers": [{"skip": true}, {"skip": true}]}));
    refused(&q, json!({"answers": [{"selected": ["Blue"]}]}), "answers");
    refused(&q, json!({"answers": []}), "answers");
    refused(&q, json!({"answers": [{"selected": ["Blue"]}, {}]}), "answers[1].selected");
    refused(&q, json!({"answers": [{"selected": ["Blue"]}, {"selected": []}]}), "answers[1].selected");
    refused(
        &q,
        json!({"answers": [{"selected": ["Blue"]}, {"notes": "only a note"}]}),
        "answers[1].selected",
    );
    refused(&q, json!({"answers": [{"selected": ["Blue"]}, {"skip": false}]}), "answers[1].skip");
    refused(&q, json!({"answers": [{"selected": ["Blue"]}, {"skip": true, "text": "x"}]}), "answers[1].skip");
    refused(&q, json!({"answers": [{"selected": ["Blue"]}, {"skip": true}, {"skip": true}]}), "answers");
}

#[test]
fn labels_must_be_offered_ones_and_commas_survive() {
    let q = questions();
    accepted(&q, json!({"answers": [{"selected": ["Red, dark"]}, {"selected": ["Red, dark", "Blue"]}]}));
    refused(&q, json!({"answers": [{"selected": ["Red"]}, {"skip": true}]}), "answers[0].selected");
    refused(&q, json!({"answers": [{"selected": ["blue"]}, {"skip": true}]}), "answers[0].selected");
    refused(&q, json!({"answers": [{"skip": true}, {"selected": ["Blue", "Blue"]}]}), "answers[1].selected");
}

#[test]
fn a_single_select_takes_exactly_one_pick_or_one_text() {
    let q = questions();
    accepted(&q, json!({"answers": [{"text": "my own"}, {"skip": true}]}));
    accepted(&q, json!({"answers": [{"selected": ["Blue"], "notes": "light"}, {"skip": true}]}));
    refused(
        &q,
        json!({"answers": [{"selected": ["Blue", "Red, dark"]}, {"skip": true}]}),
        "answers[0].selected",
    );
    refused(&q, json!({"answers": [{"selected": ["Blue"], "text": "x"}, {"skip": true}]}), "answers[0].text");
}

#[test]
fn a_multi_select_takes_picks_text_and_notes_together() {
    let both = json!({"selected": ["Blue", "Red, dark"], "text": "Green", "notes": "soft"});
    accepted(&questions(), json!({"answers": [{"skip": true}, both]}));
}

#[test]
fn free_text_only_where_allowed_and_never_empty() {
    refused(&closed_question(), json!({"answers": [{"text": "c"}]}), "answers[0].text");
    refused(&questions(), json!({"answers": [{"text": " "}, {"skip": true}]}), "answers[0].text");
    refused(&questions(), json!({"response": ""}), "response");
    accepted(&questions(), json!({"response": "neither; think again"}));
    refused(&closed_question(), json!({"response": "neither"}), "response");
}

#[test]
fn declining_everything_may_say_why() {
    accepted(&questions(), json!({"skip": true}));
    accepted(&questions(), json!({"skip": true, "message": "not now"}));
    refused(&questions(), json!({"skip": false}), "skip");
    refused(&questions(), json!({"response": "x", "message": "y"}), "message");
    refused(&questions(), json!({"response": "x", "skip": true}), "answers");
    refused(&questions(), json!({}), "answers");
}

#[test]
fn a_permission_takes_only_its_own_decisions_and_offered_scopes() {
    let p = permission();
    accepted(&p, json!({"decision": "allow", "scope": "session"}));
    accepted(&p, json!({"decision": "allow", "scope": "once", "input": {"command": "ls -l"}}));
    accepted(&p, json!({"decision": "deny", "message": "no", "interrupt": true}));
    refused(&p, json!({"decision": "allow", "scope": "always"}), "scope");
    refused(&p, json!({"decision": "allow"}), "scope");
    refused(&p, json!({"decision": "allow", "scope": "once", "input": "ls"}), "input");
    refused(&p, json!({"decision": "deny", "scope": "once"}), "scope");
    refused(&p, json!({"decision": "deny", "message": " "}), "message");
    refused(&p, json!({"decision": "outline"}), "decision");
    refused(&p, json!({"decision": true}), "decision");
    refused(&p, json!({"scope": "once"}), "decision");
    refused(&p, json!({"answers": [{"selected": ["a"]}]}), "decision");
    refused(&p, json!(null), "");
}

#[test]
fn a_plan_takes_only_its_own_decisions() {
    accepted(&plan(), json!({"decision": "allow"}));
    accepted(&plan(), json!({"decision": "allow", "plan": "1. y"}));
    accepted(&plan(), json!({"decision": "deny", "message": "smaller"}));
    accepted(&plan(), json!({"decision": "outline"}));
    refused(&plan(), json!({"decision": "allow", "scope": "once"}), "scope");
    refused(&plan(), json!({"decision": "allow", "plan": ""}), "plan");
    refused(&plan(), json!({"decision": "outline", "message": "x"}), "message");
    refused(&plan(), json!({"decision": "approve"}), "decision");
}

#[test]
fn a_question_takes_no_decision() {
    refused(&questions(), json!({"decision": "allow"}), "decision");
}

#[test]
fn picks_are_joined_so_that_commas_stay_readable() {
    let words = |answer: Value| match Answer::read(&questions(), json!({"answers": [{"skip": true}, answer]}))
    {
        Ok(Answer::Question(Reply::Each { answers })) => answers[1].in_words(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        words(json!({"selected": ["Red, dark", "Blue"], "text": "Green"})),
        "\"Red, dark\", Blue, Green"
    );
    assert_eq!(words(json!({"skip": true})), "(skipped by the user)");
}

#[test]
fn an_answer_allows_by_an_option_that_does_or_by_words_beside_one_and_by_nothing_else() {
    let offers = |allows: bool| json!([{"label": "Yes", "allows": allows}, {"label": "No"}]);
    let asked = |allows: bool| {
        let one =
            json!({"question": "Go?", "options": offers(allows), "free_text": true, "multi_select": true});
        Body::decode(Kind::Question, json!({"questions": [one, {"question": "Why?", "free_text": true}]}))
            .unwrap()
    };
    let each = |first: Value| json!({"answers": [first, {"text": "so"}]});
    for (answer, allows) in [
        (each(json!({"selected": ["Yes"]})), true),
        (each(json!({"selected": ["No", "Yes"]})), true),
        (each(json!({"selected": ["No"], "text": "Yes"})), true),
        (json!({"response": "Yes"}), true),
        (each(json!({"selected": ["No"], "notes": "Yes"})), false),
        (each(json!({"skip": true})), false),
        (json!({"skip": true}), false),
    ] {
        for can_allow in [true, false] {
            let body = asked(can_allow);
            let read = Answer::read(&body, answer.clone()).unwrap();
            assert_eq!(read.allows(&body), allows && can_allow, "{answer}");
            assert_ne!(read.decision(), Decision::Allow, "it is still the answer to a question");
        }
    }
    let allowed = Answer::read(&plan(), json!({"decision": "allow"})).unwrap();
    assert!(allowed.allows(&plan()));
    // Other questions are written as before, so that their digests stay.
    assert_eq!(
        asked(false).to_json()["questions"][0]["options"][0],
        json!({"label": "Yes", "description": ""})
    );
}

#[test]
fn an_answer_that_skips_everything_is_a_decline() {
    let decision = |answer: Value| Answer::decode(Kind::Question, answer).unwrap().decision();
    assert_eq!(decision(json!({"skip": true})), Decision::Declined);
    assert_eq!(decision(json!({"answers": [{"skip": true}, {"skip": true}]})), Decision::Declined);
    assert_eq!(decision(json!({"answers": [{"skip": true}, {"selected": ["a"]}]})), Decision::Answered);
}
