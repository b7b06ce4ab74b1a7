use super::*;
use aye_core::{Answer, Body, Reply};

fn form(properties: Value, required: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"mode": "form", "message": "Please say", "requestedSchema": schema})
}

fn answered(form: &(Form, Questions), answers: Value) -> Result<Value, String> {
    let body = Body::Question(form.1.clone());
    match Answer::read(&body, json!({ "answers": answers })).unwrap() {
        Answer::Question(Reply::Each { answers }) => form.0.accept(&answers),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_kind_of_field_is_a_question_whose_answer_fits_the_form() {
    let titled = json!([{"const": "pg", "title": "PostgreSQL", "description": "large"}, {"const": "lite", "title": "SQLite"}]);
    for (field, answer, expected) in [
        (json!({"type": "string", "oneOf": titled}), json!({"selected": ["SQLite"]}), json!("lite")),
        (json!({"type": "string", "enum": ["a", "b"]}), json!({"selected": ["b"]}), json!("b")),
        (
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}),
            json!({"selected": ["B"]}),
            json!("b"),
        ),
        (
            json!({"type": "array", "items": {"anyOf": titled}, "minItems": 1}),
            json!({"selected": ["PostgreSQL", "SQLite"]}),
            json!(["pg", "lite"]),
        ),
        (json!({"type": "array", "items": {"enum": ["a", "b"]}}), json!({"selected": ["a"]}), json!(["a"])),
        (json!({"type": "string", "maxLength": 5}), json!({"text": "fünf!"}), json!("fünf!")),
        (json!({"type": "string", "format": "email"}), json!({"text": "a@b"}), json!("a@b")),
        (json!({"type": "string", "format": "date"}), json!({"text": "2026-01-31"}), json!("2026-01-31")),
        (json!({"type": "integer", "minimum": 1, "maximum": 9}), json!({"text": " 9 "}), json!(9)),
        (json!({"type": "number"}), json!({"text": "-2.5"}), json!(-2.5)),
        (json!({"type": "boolean"}), json!({"selected": ["No"]}), json!(false)),
    ] {
        let read = Form::read(&form(json!({ "x": field }), &["x"])).unwrap();
        let accepted = json!({"action": "accept", "content": {"x": expected}});
        assert_eq!(answered(&read, json!([answer])), Ok(accepted), "{field}");
    }
}

#[test]
fn an_answer_that_does_not_fit_is_never_made_to() {
    for (field, answer, why) in [
        (json!({"type": "string", "minLength": 3}), json!({"text": "ab"}), "at least 3 characters"),
        (json!({"type": "string", "format": "email"}), json!({"text": "nobody"}), "an e-mail address"),
        (json!({"type": "string", "format": "date"}), json!({"text": "tomorrow"}), "a date"),
        (json!({"type": "string", "format": "date-time"}), json!({"text": "2026-01-31"}), "a time"),
        (json!({"type": "integer"}), json!({"text": "2.5"}), "a whole number"),
        (json!({"type": "integer", "maximum": 9}), json!({"text": "10"}), "not above 9"),
        (json!({"type": "number"}), json!({"text": "many"}), "a number"),
        (
            json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 1}),
            json!({"selected": ["a", "b"]}),
            "0 to 1",
        ),
        (json!({"type": "string"}), json!({"skip": true}), "must be answered"),
    ] {
        let read = Form::read(&form(json!({ "x": field }), &["x"])).unwrap();
        let refused = answered(&read, json!([answer])).unwrap_err();
        assert!(refused.contains(why), "{field}: {refused}");
    }
}

#[test]
fn what_is_not_required_may_be_left_out() {
    let properties =
        json!({"name": {"type": "string", "title": "Name"}, "age": {"type": "integer", "title": "Age"}});
    let read = Form::read(&form(properties, &["name"])).unwrap();
    let accepted = answered(&read, json!([{"text": "Ada"}, {"skip": true}]));
    assert_eq!(accepted, Ok(json!({"action": "accept", "content": {"name": "Ada"}})));
    let shown: Vec<_> = read.1.questions.iter().map(|question| question.question.as_str()).collect();
    assert_eq!(shown, ["Please say\n\nName", "Age (a whole number, may be skipped)"]);
}

#[test]
fn what_cannot_be_asked_or_checked_is_declined_with_the_reason() {
    let one = |field: Value| form(json!({ "x": field }), &[]);
    for (params, why) in [
        (one(json!({"type": "object"})), "is of a kind that aye cannot ask for: object"),
        (one(json!({"type": "string", "pattern": "^a$"})), "has a limit that aye cannot check: pattern"),
        (one(json!({"type": "string", "format": "hostname"})), "cannot check: hostname"),
        (one(json!({"type": "number", "exclusiveMinimum": 1})), "cannot check: exclusiveMinimum"),
        (one(json!({"type": "array", "items": {"type": "string"}})), "does not say what may be picked"),
        (one(json!({"type": "string", "enum": []})), "has nothing to pick"),
        (one(json!({"type": "string", "enum": ["a", "a"]})), "two options are labelled"),
        (one(json!({"oneOf": [{"title": "A"}]})), "has an option without a value"),
        (form(json!({}), &[]), "1 to 32 questions"),
        (form(json!({"x": {"type": "string"}}), &["y"]), "requires a field that it does not have"),
        (json!({"mode": "form", "message": "m"}), "has no fields"),
        (json!({"mode": "voice", "message": "m"}), "in a way that aye does not know"),
        (json!({"mode": "url", "message": "m", "url": "javascript:x"}), "not one of the web"),
    ] {
        let refused = Form::read(&params).unwrap_err();
        assert!(refused.contains(why), "{params}: {refused}");
    }
}

#[test]
fn an_address_is_shown_whole_and_left_to_the_person() {
    let params = json!({"mode": "url", "message": "Sign in", "url": "https://example.com/x?y=1"});
    let read = Form::read(&params).unwrap();
    let question = &read.1.questions[0];
    assert!(
        question.question.starts_with("Sign in\n")
            && question.question.ends_with("\nhttps://example.com/x?y=1")
    );
    assert_eq!(answered(&read, json!([{"selected": [OPENED]}])), Ok(json!({"action": "accept"})));
}

#[test]
fn kimi_puts_the_questions_of_its_fields_into_the_message() {
    let field = |title: &str| json!({"type": "string", "title": title, "enum": ["a"]});
    let mut params = form(json!({"q0": field("DB"), "q1": field("F")}), &["q0", "q1"]);
    params["message"] = "Which DB?\nWhich features?".into();
    let shown = |params: &Value| {
        let questions = Form::read(params).unwrap().1.questions;
        questions.into_iter().map(|question| (question.question, question.header)).collect::<Vec<_>>()
    };
    let pair = |question: &str, header: &str| (question.to_owned(), header.to_owned());
    assert_eq!(shown(&params), [pair("Which DB?", "DB"), pair("Which features?", "F")]);
    params["message"] = "Say".into();
    assert_eq!(shown(&params), [pair("Say\n\nDB", "DB"), pair("F", "F")]);
}
