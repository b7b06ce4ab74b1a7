//! What a person types under an ask, as an answer to it. Nothing is guessed: what is no clear answer is none.

use crate::cli::answer::{Ambiguous, answers};
use aye_core::{Body, Question, Scope};
use serde_json::{Value, json};

#[derive(Debug, PartialEq)]
pub enum Typed {
    /// An empty line does nothing.
    Nothing,
    Answer(Value),
    /// Not an answer; this is what would be one.
    Unclear(String),
}

pub fn read(line: &str, body: &Body) -> Typed {
    let line = line.trim();
    if line.is_empty() {
        return Typed::Nothing;
    }
    let answer = match body {
        Body::Question(questions) => match question(line, &questions.questions) {
            Ok(answer) => answer,
            Err(Ambiguous(why)) => return Typed::Unclear(format!("{why}.")),
        },
        Body::Permission(permission) => {
            let offered: Vec<_> = permission.scopes.iter().map(|offer| offer.scope).collect();
            verdict(line).or_else(|| allow(line, &offered))
        }
        Body::Plan(_) if line == "outline" => Some(json!({ "decision": "outline" })),
        Body::Plan(_) if line == "allow" => Some(json!({ "decision": "allow" })),
        Body::Plan(_) => verdict(line).filter(|verdict| verdict.get("interrupt").is_none()),
    };
    answer.map_or_else(|| Typed::Unclear(format!("That is no answer to this. {}", hint(body))), Typed::Answer)
}

/// What can be typed.
pub fn hint(body: &Body) -> String {
    match body {
        Body::Question(questions) => {
            let picks = match questions.questions.as_slice() {
                [only] if only.options.is_empty() => return "Type =your words, or skip.".into(),
                [only] if only.multi_select => "numbers (1 3)",
                [_] => "a number",
                _ => "a number for each question (1 2,3 -)",
            };
            let words = if takes_words(&questions.questions) { ", =your words" } else { "" };
            format!("Type {picks}{words}, or skip.")
        }
        Body::Permission(permission) => {
            let scopes = permission.scopes.iter().filter(|offer| offer.scope != Scope::Once);
            let scopes: String = scopes.map(|offer| format!(", allow {}", offer.scope)).collect();
            format!("Type allow{scopes}, deny [why], or stop [why].")
        }
        Body::Plan(_) => "Type allow, deny [why], or outline.".into(),
    }
}

fn takes_words(questions: &[Question]) -> bool {
    questions.iter().all(|question| question.free_text)
}

fn question(line: &str, questions: &[Question]) -> Result<Option<Value>, Ambiguous> {
    let word = line.to_lowercase();
    let meant = |fits: &dyn Fn(&str) -> bool| {
        let mut options = questions.iter().flat_map(|question| question.options.iter().zip(1..));
        options.find(|(offer, _)| fits(&offer.label.to_lowercase())).map(|(_, number)| number)
    };
    if line == "skip" {
        return match meant(&|label| label == word) {
            Some(n) => {
                Err(Ambiguous(format!("skip is an option here: type #{n} for it, or - to skip a question")))
            }
            None => Ok(Some(json!({ "skip": true }))),
        };
    }
    if let Some(words) = line.strip_prefix('=').map(str::trim).filter(|words| !words.is_empty()) {
        if let Some(n) = meant(&|label| label.starts_with('=') && word.starts_with(label)) {
            return Err(Ambiguous(format!(
                "An option begins like this: type #{n} for it, or = and a space before your own words"
            )));
        }
        return Ok(match (takes_words(questions), questions) {
            (false, _) => None,
            (true, [_]) => Some(json!({ "answers": [{ "text": words }] })),
            (true, _) => Some(json!({ "response": words })),
        });
    }
    picks(line, questions)
}

/// A label may have spaces in it, so a line is one pick or several.
fn picks(line: &str, questions: &[Question]) -> Result<Option<Value>, Ambiguous> {
    let read = |picks: &[String]| match answers(picks, &[], &[], questions) {
        Ok(answer) => Ok(Some(answer)),
        Err(problem) => problem.downcast::<Ambiguous>().map_or(Ok(None), Err),
    };
    let whole = read(&[line.to_owned()])?;
    let parts: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    if let [Question { multi_select: false, .. }] = questions {
        return Ok(whole);
    }
    match (whole, read(&parts)?) {
        (Some(whole), Some(parts)) if whole != parts => {
            Err(Ambiguous("This is one option and could be several: type # and a number for each".into()))
        }
        (whole, parts) => Ok(whole.or(parts)),
    }
}

fn verdict(line: &str) -> Option<Value> {
    let (word, why) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut verdict = json!({ "decision": "deny" });
    if !why.trim().is_empty() {
        verdict["message"] = why.trim().into();
    }
    match word {
        "deny" => Some(verdict),
        "stop" => {
            verdict["interrupt"] = true.into();
            Some(verdict)
        }
        _ => None,
    }
}

fn allow(line: &str, offered: &[Scope]) -> Option<Value> {
    let words: Vec<_> = line.split_whitespace().collect();
    let scope = match words.as_slice() {
        ["allow"] => Scope::Once,
        ["allow", scope] => *offered.iter().find(|offered| offered.to_string() == *scope)?,
        _ => return None,
    };
    Some(json!({ "decision": "allow", "scope": scope }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::Kind;

    fn ask(kind: Kind, body: Value) -> Body {
        Body::decode(kind, body).unwrap()
    }

    fn question_of(questions: Value) -> Body {
        ask(Kind::Question, json!({ "questions": questions }))
    }

    fn one() -> Value {
        json!({"question": "Which?", "header": "", "options": [{"label": "SQLite", "description": ""}, {"label": "two words", "description": ""}], "multi_select": false, "free_text": true})
    }

    #[track_caller]
    fn answer(body: &Body, line: &str, expected: Value) {
        assert_eq!(read(line, body), Typed::Answer(expected), "{line}");
    }

    #[track_caller]
    fn unclear(body: &Body, line: &str) {
        assert!(matches!(read(line, body), Typed::Unclear(_)), "{line}");
    }

    #[test]
    fn a_question_takes_a_number_a_label_or_marked_words() {
        let body = question_of(json!([one()]));
        answer(&body, "1", json!({"answers": [{"selected": ["SQLite"]}]}));
        answer(&body, "two words", json!({"answers": [{"selected": ["two words"]}]}));
        answer(&body, "= my own ", json!({"answers": [{"text": "my own"}]}));
        answer(&body, "skip", json!({"skip": true}));
        unclear(&body, "3");
        unclear(&body, "whatever you think");
        unclear(&body, "=");
    }

    #[test]
    fn a_line_that_can_be_read_in_two_ways_is_unclear_and_says_how_to_write_each() {
        let offering = |labels: &[&str], multi_select: bool| {
            let options: Vec<_> =
                labels.iter().map(|label| json!({"label": label, "description": ""})).collect();
            question_of(json!([{"question": "Which?", "header": "", "options": options,
                "multi_select": multi_select, "free_text": true}]))
        };
        let says = |body: &Body, line: &str, hint: &str| match read(line, body) {
            Typed::Unclear(why) => assert!(why.contains(hint), "{line}: {why}"),
            other => panic!("{line}: {other:?}"),
        };
        let body = offering(&["run", "Skip"], false);
        says(&body, "skip", "#2");
        answer(&body, "#2", json!({"answers": [{"selected": ["Skip"]}]}));
        answer(&body, "-", json!({"answers": [{"skip": true}]}));
        let body = offering(&["2", "4", "1", "-"], false);
        says(&body, "1", "#3");
        says(&body, "-", "#4");
        answer(&body, "#1", json!({"answers": [{"selected": ["2"]}]}));
        answer(&body, "3", json!({"answers": [{"selected": ["1"]}]}));
        let body = offering(&["a", "=1.0"], false);
        says(&body, "=1.0", "#2");
        says(&body, "=1.0 or so", "#2");
        answer(&body, "= 1.0", json!({"answers": [{"text": "1.0"}]}));
        answer(&body, "=mine", json!({"answers": [{"text": "mine"}]}));
        let labels = ["two", "words", "two words", "1 2"];
        for line in ["two words", "1 2"] {
            says(&offering(&labels, true), line, "#");
            answer(&offering(&labels, false), line, json!({"answers": [{"selected": [line]}]}));
        }
    }

    #[test]
    fn several_questions_take_a_pick_each() {
        let mut many = one();
        many["multi_select"] = true.into();
        many["question"] = "Many?".into();
        let body = question_of(json!([one(), many]));
        answer(
            &body,
            "1 1,2",
            json!({"answers": [{"selected": ["SQLite"]}, {"selected": ["SQLite", "two words"]}]}),
        );
        answer(&body, "1 -", json!({"answers": [{"selected": ["SQLite"]}, {"skip": true}]}));
        answer(&body, "=think again", json!({"response": "think again"}));
        unclear(&body, "1");
    }

    #[test]
    fn an_approval_is_one_word_and_nothing_near_it() {
        let body = ask(
            Kind::Permission,
            json!({"tool": "Bash", "input": {"command": "ls"}, "scopes": [{"scope": "once"}, {"scope": "session", "rule": "r"}]}),
        );
        answer(&body, "allow", json!({"decision": "allow", "scope": "once"}));
        answer(&body, "allow session", json!({"decision": "allow", "scope": "session"}));
        answer(&body, "deny not now", json!({"decision": "deny", "message": "not now"}));
        answer(&body, "stop", json!({"decision": "deny", "interrupt": true}));
        for line in ["y", "yes", "1", "allowed", "Allow!", "allow always", "allow session now"] {
            unclear(&body, line);
        }
        assert_eq!(read("  ", &body), Typed::Nothing);
    }

    #[test]
    fn a_plan_is_approved_refused_or_outlined() {
        let body = ask(Kind::Plan, json!({"plan": "1. x"}));
        answer(&body, "allow", json!({"decision": "allow"}));
        answer(&body, "outline", json!({"decision": "outline"}));
        answer(&body, "deny smaller", json!({"decision": "deny", "message": "smaller"}));
        unclear(&body, "allow session");
        unclear(&body, "stop");
    }
}
