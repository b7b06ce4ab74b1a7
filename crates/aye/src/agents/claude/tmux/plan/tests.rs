use super::*;
use aye_core::{Answer, Body};
use serde_json::{Value, json};

fn option(label: &str) -> Value {
    json!({"label": label, "description": "."})
}

fn question(text: &str, multi: bool) -> Value {
    json!({"question": text, "header": "H", "multi_select": multi, "free_text": true, "options": [option("a"), option("b, c")]})
}

fn previews() -> Value {
    json!({"question": "Look?", "header": "H", "multi_select": false, "free_text": true,
        "options": [{"label": "a", "description": ".", "preview": "A"}, {"label": "b", "description": ".", "preview": "B"}]})
}

fn planned(questions: Value, answer: Value) -> Result<Plan, Unplannable> {
    let body = Body::decode(aye_core::Kind::Question, json!({ "questions": questions })).unwrap();
    let Answer::Question(reply) = Answer::read(&body, answer).unwrap() else { panic!("a reply") };
    let Body::Question(body) = body else { panic!("questions") };
    plan(&body.questions, &reply)
}

fn keys(questions: Value, answer: Value) -> String {
    let steps = planned(questions, answer).unwrap().steps;
    let key = |step: &Step| match &step.key {
        Key::Digit(digit) => digit.to_string(),
        Key::Text(text) => format!("{:?}", text.as_str()),
        Key::Notes => "n".into(),
        other => format!("{other:?}"),
    };
    steps.iter().map(key).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_form_of_question_has_its_keys() {
    let picked = |label: &str| json!({"answers": [{"selected": [label]}]});
    assert_eq!(keys(json!([question("One?", false)]), picked("b, c")), "2");
    assert_eq!(
        keys(json!([question("One?", false)]), json!({"answers": [{"text": "own"}]})),
        "3 \"own\" Enter"
    );
    assert_eq!(keys(json!([question("One?", false)]), json!({"response": "own"})), "3 \"own\" Enter");
    assert_eq!(
        keys(json!([question("Many?", true)]), json!({"answers": [{"selected": ["b, c", "a"]}]})),
        "1 2 Tab 1"
    );
    let both = json!({"answers": [{"selected": ["a"], "text": "own"}]});
    assert_eq!(keys(json!([question("Many?", true)]), both), "1 Down Down \"own\" Tab Enter 1");
    assert_eq!(keys(json!([previews()]), picked("b")), "2 Enter");
    let noted = json!({"answers": [{"selected": ["b"], "notes": "soft"}]});
    assert_eq!(keys(json!([previews()]), noted), "2 n \"soft\" Escape Enter");
    assert_eq!(keys(json!([question("One?", false)]), json!({"skip": true})), "Escape");
    assert_eq!(keys(json!([previews()]), json!({"answers": [{"skip": true}]})), "Escape");
    let several =
        json!([question("One?", false), question("Two?", false), question("Many?", true), previews()]);
    let answers =
        json!({"answers": [{"selected": ["a"]}, {"skip": true}, {"selected": ["a"]}, {"selected": ["a"]}]});
    assert_eq!(keys(several, answers), "1 3 \"(skipped by the user)\" Enter 1 Tab 1 Enter 1");
}

#[test]
fn what_a_terminal_cannot_take_is_not_tried() {
    let refused = |questions: Value, answer: Value| planned(questions, answer).unwrap_err();
    let one = || json!([question("One?", false)]);
    assert_eq!(refused(one(), json!({"skip": true, "message": "later"})), Unplannable::Message);
    assert_eq!(
        refused(one(), json!({"answers": [{"text": "a\u{7}b"}]})),
        Unplannable::Text(Untypeable::Control)
    );
    assert_eq!(refused(one(), json!({"answers": [{"selected": ["a"], "notes": "x"}]})), Unplannable::Notes);
    assert_eq!(refused(json!([previews()]), json!({"answers": [{"text": "x"}]})), Unplannable::NoFreeText);
    let skipped = json!({"answers": [{"skip": true}, {"selected": ["a"]}]});
    assert_eq!(refused(json!([previews(), question("One?", false)]), skipped), Unplannable::NoFreeText);
    let two = json!([question("One?", false), question("Two?", false)]);
    assert_eq!(refused(two, json!({"response": "x"})), Unplannable::Response);
    let options: Vec<_> = (0..8).map(|i| option(&i.to_string())).collect();
    let mut many = question("One?", false);
    many["options"] = json!(options);
    assert_eq!(refused(json!([many]), json!({"answers": [{"selected": ["1"]}]})), Unplannable::TooMany);
}

#[test]
fn picks_are_meant_in_the_order_of_the_options_with_or_without_quotes() {
    let forms = |multi: bool, answer: Value| {
        let plan = planned(json!([question("Q?", multi)]), answer).unwrap();
        let Expected::Typed(typed) = plan.expected else { panic!("answers") };
        let [(question, forms)] = typed.try_into().unwrap();
        assert_eq!(question, "Q?");
        forms
    };
    let several = forms(true, json!({"answers": [{"selected": ["b, c", "a"], "text": "d, e"}]}));
    for form in ["a, b, c, d, e", "a, \"b, c\", \"d, e\"", "a, \"b, c\", d, e"] {
        assert!(several.contains(&form.to_owned()), "{form} in {several:?}");
    }
    assert!(!several.iter().any(|form| form.starts_with('b')));
    assert_eq!(forms(false, json!({"answers": [{"selected": ["b, c"]}]})), ["b, c"]);
    assert_eq!(written("\"x\""), ["\"x\"", "\"\\\"x\\\"\"", "\"\"x\"\""]);
    assert_eq!(written("x; y"), ["x; y"]);
}

#[test]
fn what_can_be_taken_is_what_has_keys() {
    let several = json!([question("One?", false), previews(), question("Many?", true)]);
    for questions in [json!([question("One?", false)]), json!([previews()]), several] {
        let body = Body::decode(aye_core::Kind::Question, json!({ "questions": questions })).unwrap();
        let Body::Question(asked) = &body else { panic!("questions") };
        let can = can_answer(&asked.questions);
        let picked = || vec![json!({"selected": ["a"]}); asked.questions.len()];
        let one_by_one = (0..asked.questions.len()).flat_map(|i| {
            let others =
                [json!({"text": "x"}), json!({"skip": true}), json!({"selected": ["a"], "notes": "n"})];
            others.into_iter().map(move |other| (i, other))
        });
        let mut answers: Vec<_> = one_by_one
            .map(|(i, other)| {
                let mut answers = picked();
                answers[i] = other;
                json!({ "answers": answers })
            })
            .collect();
        answers.extend([
            json!({"skip": true}),
            json!({"skip": true, "message": "m"}),
            json!({"response": "r"}),
        ]);
        for answer in answers {
            let taken = can.take(&Answer::read(&body, answer.clone()).unwrap()).is_ok();
            assert_eq!(planned(questions.clone(), answer.clone()).is_ok(), taken, "{questions} {answer}");
        }
    }
}
