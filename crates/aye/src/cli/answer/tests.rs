use super::*;
use aye_core::Kind;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    answer: Answer,
}

#[track_caller]
fn built(body: &Body, words: &[&str]) -> Result<Value, String> {
    let line =
        Line::try_parse_from(["answer", "k3"].iter().chain(words)).map_err(|error| error.to_string())?;
    let answer = line.answer.build(body).map_err(|error| error.to_string())?;
    aye_core::Answer::read(body, answer.clone()).map_err(|error| error.to_string())?;
    Ok(answer)
}

fn one() -> Body {
    let body = json!({"questions": [{"question": "Which?", "multi_select": true, "free_text": true,
        "options": [{"label": "Red, dark"}, {"label": "Blue"}, {"label": "7"}]}]});
    Body::decode(Kind::Question, body).unwrap()
}

fn two() -> Body {
    let options = json!([{"label": "a"}, {"label": "b"}, {"label": "c"}]);
    let body = json!({"questions": [
        {"question": "One?", "options": options, "free_text": true},
        {"question": "Many?", "options": options, "multi_select": true, "free_text": true}]});
    Body::decode(Kind::Question, body).unwrap()
}

fn permission() -> Body {
    let body = json!({"tool": "Bash", "input": {}, "scopes": [{"scope": "once"}, {"scope": "session"}]});
    Body::decode(Kind::Permission, body).unwrap()
}

#[test]
fn picks_are_numbers_or_labels() {
    let picked = |words: &[&str]| built(&one(), words).unwrap()["answers"][0]["selected"].clone();
    assert_eq!(picked(&["1", "Blue"]), json!(["Red, dark", "Blue"]));
    assert_eq!(picked(&["red, dark"]), json!(["Red, dark"]));
    assert_eq!(picked(&["7"]), json!(["7"]));
    assert_eq!(picked(&["1,2"]), json!(["Red, dark", "Blue"]));
    assert_eq!(picked(&["#1, 2", "7"]), json!(["Red, dark", "Blue", "7"]));
    assert!(built(&one(), &["4"]).unwrap_err().contains("no option 4"));
    assert!(built(&one(), &["Green"]).unwrap_err().contains("use --text"));
    assert!(built(&one(), &[]).unwrap_err().contains("not answered"));
}

#[test]
fn a_pick_that_is_one_option_by_label_and_another_by_number_is_not_guessed() {
    let question = |labels: &[&str]| {
        let options: Vec<_> = labels.iter().map(|label| json!({ "label": label })).collect();
        json!({"question": labels.join(" or "), "options": options, "multi_select": true, "free_text": true})
    };
    let body = |questions: Value| Body::decode(Kind::Question, json!({ "questions": questions })).unwrap();
    let one = body(json!([question(&["2", "4", "1", "-"])]));
    let picked = |words: &[&str]| built(&one, words).unwrap()["answers"][0]["selected"].clone();
    let said = built(&one, &["1"]).unwrap_err();
    assert!(said.contains("#3") && said.contains("#1") && said.contains("quotes"), "{said}");
    assert_eq!(picked(&["#1"]), json!(["2"]));
    assert_eq!(picked(&["#3", "#4"]), json!(["1", "-"]));
    assert_eq!(picked(&["3"]), json!(["1"]));
    for unclear in [&["2"][..], &["4"], &["-"], &["#1", "-"]] {
        assert!(built(&one, unclear).unwrap_err().contains('#'), "{unclear:?}");
    }
    let same = body(json!([question(&["1", "2"])]));
    assert_eq!(built(&same, &["1"]).unwrap(), json!({"answers": [{"selected": ["1"]}]}));
    let marked = body(json!([question(&["#2", "#1"])]));
    assert!(built(&marked, &["#1"]).unwrap_err().contains("write 2 or 1"));
    assert_eq!(built(&marked, &["1"]).unwrap(), json!({"answers": [{"selected": ["#2"]}]}));
    let several = body(json!([question(&["a", "b", "1,2"]), question(&["c", "+1"])]));
    assert_eq!(built(&several, &["1,2", "1"]).unwrap()["answers"][0], json!({"selected": ["1,2"]}));
    assert_eq!(
        built(&several, &["#1,#2", "+1"]).unwrap(),
        json!({"answers": [{"selected": ["a", "b"]}, {"selected": ["+1"]}]})
    );
}

#[test]
fn own_words_and_notes_go_with_the_picks() {
    assert_eq!(
        built(&one(), &["2", "--text", "3=three", "--note", "soft"]).unwrap(),
        json!({"answers": [{"selected": ["Blue"], "text": "3=three", "notes": "soft"}]})
    );
}

#[test]
fn several_questions_take_one_argument_each() {
    assert_eq!(
        built(&two(), &["-", "1,3", "--text", "2=mine"]).unwrap(),
        json!({"answers": [{"skip": true}, {"selected": ["a", "c"], "text": "mine"}]})
    );
    assert_eq!(
        built(&two(), &["--text", "1=own", "--text", "2=words"]).unwrap(),
        json!({"answers": [{"text": "own"}, {"text": "words"}]})
    );
    assert!(built(&two(), &["1"]).unwrap_err().contains("Many?"));
    assert!(built(&two(), &["1", "2", "3"]).unwrap_err().contains("2 questions and 3 picks"));
    assert!(built(&two(), &["1", "2", "--text", "mine"]).unwrap_err().contains("say which"));
}

#[test]
fn a_whole_ask_can_be_declined_or_replied_to() {
    assert_eq!(built(&two(), &["--skip"]).unwrap(), json!({"skip": true}));
    assert_eq!(built(&two(), &["--reply", "later"]).unwrap(), json!({"response": "later"}));
    assert!(built(&two(), &["--skip", "1"]).is_err());
}

#[test]
fn permissions_and_plans_are_allowed_or_denied() {
    assert_eq!(built(&permission(), &["--allow"]).unwrap(), json!({"decision": "allow", "scope": "once"}));
    assert_eq!(
        built(&permission(), &["--allow", "--scope", "session", "--input", "{\"a\":1}"]).unwrap(),
        json!({"decision": "allow", "scope": "session", "input": {"a": 1}})
    );
    assert_eq!(
        built(&permission(), &["--deny", "no", "--interrupt"]).unwrap(),
        json!({"decision": "deny", "message": "no", "interrupt": true})
    );
    assert_eq!(
        built(&permission(), &["--input", "{\"a\":1}"]).unwrap(),
        json!({"decision": "allow", "scope": "once", "input": {"a": 1}})
    );
    assert!(built(&permission(), &["--input", "{}", "--deny", "no"]).is_err());
    assert!(built(&permission(), &["--scope", "session"]).unwrap_err().contains("say --allow"));
    let plan = Body::decode(Kind::Plan, json!({"plan": "x"})).unwrap();
    assert!(built(&plan, &["--allow", "--scope", "session"]).unwrap_err().contains("--scope"));
    assert_eq!(built(&plan, &["--outline"]).unwrap(), json!({"decision": "outline"}));
    assert_eq!(built(&plan, &["--allow"]).unwrap(), json!({"decision": "allow"}));
}

#[test]
fn an_answer_of_the_wrong_kind_is_refused_before_it_is_sent() {
    assert!(built(&one(), &["--allow"]).unwrap_err().contains("this is a question"));
    assert!(built(&permission(), &["1"]).unwrap_err().contains("this is a permission"));
    assert!(built(&permission(), &["--outline"]).unwrap_err().contains("decision"));
    assert!(built(&permission(), &["--allow", "--scope", "always"]).unwrap_err().contains("not offered"));
}
