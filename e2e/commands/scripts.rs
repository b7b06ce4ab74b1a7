//! `aye ask`: what a script gets, and how it ends.

use super::*;

#[test]
fn a_script_gets_the_answer_one_line_a_pick_and_ends_with_0() {
    let hub = Hub::start();
    let (script, id) =
        ask(&hub, &["Which?", "--option", "a: the first", "--option", "b, or so", "--multi", "--text"]);
    let recorded = hub.aye(&["answer", &id, "1", "b, or so", "--text", "and more"]);
    assert_eq!(code(&recorded), Some(0), "{recorded:?}");
    assert_eq!(told(script), (Some(0), "a\nb, or so\nand more\n".into(), String::new()));

    let (script, id) = ask(&hub, &["Name?", "--json"]);
    let recorded = hub.aye(&["answer", &id, "--text", "Aye", "--json"]);
    assert_eq!(json_of(&recorded)["answer"], json!({"answers": [{"text": "Aye"}]}));
    let (code, out, complaints) = told(script);
    assert_eq!((code, complaints), (Some(0), String::new()));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!({"answers": [{"text": "Aye"}]}));
}

#[test]
fn a_script_whose_question_is_declined_ends_with_2_however_it_was_declined() {
    let hub = Hub::start();
    for decline in ["--skip", "-"] {
        let (script, id) = ask(&hub, &["Go on?", "--option", "yes"]);
        assert_eq!(code(&hub.aye(&["answer", &id, decline])), Some(0));
        assert_eq!(
            told(script),
            (Some(2), String::new(), "aye: the person declined to answer\n".into()),
            "{decline}"
        );
    }
    let (script, id) = ask(&hub, &["Go on?", "--json"]);
    let answer = json!({"skip": true, "message": "not now"});
    assert_eq!(code(&hub.aye(&["answer", &id, "--answer", &answer.to_string()])), Some(0));
    let (code, out, _) = told(script);
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (Some(2), answer));
}

#[test]
fn a_script_that_nobody_answers_in_time_ends_with_3() {
    let hub = Hub::start();
    let late = hub.aye(&["ask", "Anybody?", "--timeout", "50ms"]);
    assert_eq!((code(&late), printed(&late)), (Some(3), String::new()));
    assert!(complained(&late).contains("Nobody answered in time. This was not approved"), "{late:?}");
    let late = hub.aye(&["ask", "Anybody?", "--timeout", "50ms", "--json"]);
    assert_eq!((code(&late), json_of(&late)), (Some(3), Value::Null));
    let asks = json_of(&hub.aye(&["list", "--all", "--json"]));
    let states: Vec<_> = asks["asks"].as_array().unwrap().iter().map(|ask| &ask["state"]).collect();
    assert_eq!(states, ["expired", "expired"]);
    let answered = hub.aye(&["answer", id(&asks["asks"][0]), "--text", "here"]);
    assert_eq!(code(&answered), Some(4));
    assert!(complained(&answered).contains("nobody answered in time"), "{answered:?}");
}

#[test]
fn a_script_that_asks_badly_ends_with_1_and_leaves_nothing_behind() {
    let hub = Hub::start();
    for (words, why) in [
        (&["Which?", "--option", "a", "--option", "a"][..], "two options are labelled \"a\""),
        (&[" "], "the question must not be empty"),
        (&["Now?", "--timeout=-5s"], "must be a duration"),
    ] {
        let refused = aye(&hub.home).arg("ask").args(words).output().unwrap();
        assert_eq!((code(&refused), printed(&refused)), (Some(1), String::new()), "{refused:?}");
        assert!(complained(&refused).contains(why), "{refused:?}");
    }
    assert_eq!(hub.get("/api/agents", &hub.operator()).body, json!({"agents": []}));
}

#[test]
fn ctrl_c_takes_the_question_back_and_ends_with_130() {
    let hub = Hub::start();
    for (by, expected) in [(Signal::INT, 130), (Signal::TERM, 1)] {
        let (script, id) = ask(&hub, &["Go on?"]);
        signal(&script, by);
        let (code, out, complaints) = told(script);
        assert_eq!((code, out.as_str()), (Some(expected), ""));
        assert!(complaints.contains("the question was taken back"), "{complaints}");
        let ask = shown(&hub, &id);
        assert_eq!((&ask["state"], &ask["note"]), (&json!("withdrawn"), &json!("cancelled by the agent")));
        let late = hub.aye(&["answer", &id, "--text", "too late"]);
        let why = "aye: this request is no longer open: cancelled by the agent\n";
        assert_eq!(all_of(&late), (Some(4), String::new(), why.into()));
    }
}
