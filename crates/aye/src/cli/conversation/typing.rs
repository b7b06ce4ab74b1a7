//! What a person types under an ask, as an answer to it. Nothing is guessed: what is no clear answer is none.

use crate::cli::answer::{Ambiguous, answers};
use crate::surfaces::terminal::{TAKES_A_PASSKEY, shorten};
use aye_core::visible::one_line;
use aye_core::{AskView, Body, Keeper, Permission, Proof, Question, Scope};
use serde_json::{Value, json};

#[derive(Debug, PartialEq)]
pub enum TypedLine {
    /// An empty line does nothing.
    Nothing,
    Answer(Value),
    /// Not an answer; this is what would be one.
    Unclear(String),
}

pub fn read(line: &str, ask: &AskView) -> TypedLine {
    match secret(ask) {
        Some(Secret::Line) if line.is_empty() => return TypedLine::Nothing,
        Some(Secret::Line) => return TypedLine::Answer(json!({ "answers": [{ "text": line }] })),
        Some(Secret::BesideOthers) => return TypedLine::Unclear(hint(ask)),
        Some(Secret::Pick) | None => {}
    }
    let line = line.trim();
    if line.is_empty() {
        return TypedLine::Nothing;
    }
    let by_word = ask.proof == Proof::None;
    let answer = match &ask.body {
        Body::Question(questions) => match question(line, &questions.questions) {
            Ok(answer) => answer,
            Err(Ambiguous(why)) => return TypedLine::Unclear(format!("{why}.")),
        },
        Body::Permission(permission) => {
            let verdict = verdict(line).filter(|verdict| ask.can.stop || verdict.get("interrupt").is_none());
            verdict.or_else(|| allow(line, &lasting(permission, ask)).filter(|_| by_word))
        }
        Body::Plan(_) if line == "outline" => Some(json!({ "decision": "outline" })),
        Body::Plan(_) if is_allow(line) && by_word => Some(json!({ "decision": "allow" })),
        Body::Plan(_) => verdict(line).filter(|verdict| verdict.get("interrupt").is_none()),
    };
    answer.map_or_else(|| TypedLine::Unclear(unclear(line, ask)), TypedLine::Answer)
}

/// How a secret is typed.
enum Secret {
    /// All of the line is the secret, with every blank.
    Line,
    /// Like the answer to any other question.
    Pick,
    /// Not here.
    BesideOthers,
}

fn secret(ask: &AskView) -> Option<Secret> {
    match &ask.body {
        Body::Question(asked) if ask.body.has_secret() => Some(match asked.questions.as_slice() {
            [only] if only.options.is_empty() => Secret::Line,
            [_] => Secret::Pick,
            _ => Secret::BesideOthers,
        }),
        Body::Question(_) | Body::Permission(_) | Body::Plan(_) => None,
    }
}

/// Why the line is not an answer, and what would be one.
fn unclear(line: &str, ask: &AskView) -> String {
    let line = shorten(&one_line(line), 40);
    let why = match (&ask.body, line.split_whitespace().next()) {
        (Body::Question(_), _) if ask.body.has_secret() => "This is not one of the options.".to_owned(),
        (Body::Question(questions), _) if questions.questions.len() > 1 => {
            format!("“{line}” does not answer all {} questions.", questions.questions.len())
        }
        (Body::Question(_), _) => format!("“{line}” is not one of the options."),
        (Body::Permission(_) | Body::Plan(_), Some(word))
            if is_allow(word) && ask.proof == Proof::Passkey =>
        {
            "This cannot be allowed here.".to_owned()
        }
        (Body::Permission(_), Some("stop")) => "This agent's turn cannot be ended from here.".to_owned(),
        (Body::Permission(_), Some("allow")) => format!("“{line}” is not offered."),
        (Body::Permission(_) | Body::Plan(_), _) => format!("“{line}” neither allows nor denies this."),
    };
    format!("{why} {}", hint(ask))
}

/// What can be typed, and where the rest can be done.
pub fn hint(ask: &AskView) -> String {
    let can = &ask.can;
    match secret(ask) {
        Some(Secret::Line) => return "Type the secret: it is not shown, and not kept.".to_owned(),
        Some(Secret::Pick) => {
            return "Type a number, or = and the secret: it is not shown, and not kept.".to_owned();
        }
        Some(Secret::BesideOthers) => return format!("This asks for a secret: aye answer {}.", ask.id),
        None => {}
    }
    let ends_turn = if can.deny_ends_turn { " (which ends the turn)" } else { "" };
    let why = if can.reason { " [why]" } else { "" };
    let deny = format!("deny{why}{ends_turn}");
    let mut ways: Vec<String> = Vec::new();
    match &ask.body {
        Body::Question(questions) => {
            match questions.questions.as_slice() {
                [only] if only.options.is_empty() => {}
                [only] if only.multi_select => ways.push("numbers (1,3)".into()),
                [_] => ways.push("a number".into()),
                several if (0..several.len()).any(|i| can.for_question(i).skip) => {
                    ways.push("a number for each question (1 2,3 -)".into())
                }
                _ => ways.push("a number for each question (1 2,3)".into()),
            }
            let words = if questions.questions.len() == 1 { can.for_question(0).text } else { can.response };
            ways.extend((words && takes_words(&questions.questions)).then(|| "=your words".into()));
            ways.extend(can.skip.then(|| format!("skip{ends_turn}")));
        }
        Body::Permission(permission) => {
            if ask.proof == Proof::None {
                ways.push("allow".into());
                ways.extend(lasting(permission, ask).iter().map(|scope| format!("allow {scope}")));
            }
            ways.push(deny);
            // Where denying ends the turn anyway, there is nothing more to stop.
            ways.extend((can.stop && !can.deny_ends_turn).then(|| format!("stop{why}")));
        }
        Body::Plan(_) => {
            ways.extend((ask.proof == Proof::None).then(|| "allow".into()));
            ways.push(deny);
            ways.extend(can.outline.then(|| "outline".into()));
        }
    }
    let passkey = match ask.proof {
        Proof::Passkey => format!(" {TAKES_A_PASSKEY}."),
        Proof::None => String::new(),
    };
    let ways = match ways.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, [only])) => format!("{only} or {last}"),
        Some((last, rest)) => format!("{}, or {last}", rest.join(", ")),
        None => String::new(),
    };
    format!("Type {ways}.{passkey}")
}

/// For how long it can be allowed beyond this once: what the agent keeps, and what the hub would grant.
fn lasting(permission: &Permission, ask: &AskView) -> Vec<Scope> {
    let granted = |scope| {
        let grants = ask.display.as_ref().map(|display| &display.remarks.grants);
        grants.is_some_and(|grants| match scope {
            Scope::Once => false,
            Scope::Session => grants.session.is_some(),
            Scope::Always => grants.always.is_some(),
        })
    };
    let offers = permission.scopes.iter().filter(|offer| offer.scope != Scope::Once);
    let can_be_had = offers.filter(|offer| match offer.keeper() {
        Keeper::Agent => true,
        Keeper::Hub => granted(offer.scope),
    });
    can_be_had.map(|offer| offer.scope).collect()
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
        // Only alone: "no problem" is not a refusal.
        _ if ["n", "no"].iter().any(|no| line.eq_ignore_ascii_case(no)) => Some(verdict),
        "stop" => {
            verdict["interrupt"] = true.into();
            Some(verdict)
        }
        _ => None,
    }
}

/// Allows this once.
fn is_allow(line: &str) -> bool {
    line == "allow" || ["y", "yes"].iter().any(|yes| line.eq_ignore_ascii_case(yes))
}

fn allow(line: &str, offered: &[Scope]) -> Option<Value> {
    let words: Vec<_> = line.split_whitespace().collect();
    let scope = match words.as_slice() {
        [only] if is_allow(only) => Scope::Once,
        ["allow", scope] => *offered.iter().find(|offered| offered.to_string() == *scope)?,
        _ => return None,
    };
    Some(json!({ "decision": "allow", "scope": scope }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::Kind;

    fn ask(kind: Kind, body: Value) -> AskView {
        let view = json!({"id": "k3v9m2pqxx", "key": "k", "agent": "bot", "cwd": "/src", "kind": kind, "body": body,
            "digest": "sha256:00", "created_at": "2026-01-01T00:00:00Z", "state": "open"});
        AskView::from_json(view).unwrap()
    }

    fn question_of(questions: Value) -> AskView {
        ask(Kind::Question, json!({ "questions": questions }))
    }

    fn one() -> Value {
        json!({"question": "Which?", "header": "", "options": [{"label": "SQLite", "description": ""}, {"label": "two words", "description": ""}], "multi_select": false, "free_text": true})
    }

    #[track_caller]
    fn answer(body: &AskView, line: &str, expected: Value) {
        assert_eq!(read(line, body), TypedLine::Answer(expected), "{line}");
    }

    #[track_caller]
    fn is_unclear(body: &AskView, line: &str) {
        assert!(matches!(read(line, body), TypedLine::Unclear(_)), "{line}");
    }

    #[test]
    fn a_question_takes_a_number_a_label_or_marked_words() {
        let body = question_of(json!([one()]));
        answer(&body, "1", json!({"answers": [{"selected": ["SQLite"]}]}));
        answer(&body, "two words", json!({"answers": [{"selected": ["two words"]}]}));
        answer(&body, "= my own ", json!({"answers": [{"text": "my own"}]}));
        answer(&body, "skip", json!({"skip": true}));
        is_unclear(&body, "3");
        is_unclear(&body, "whatever you think");
        is_unclear(&body, "=");
    }

    #[test]
    fn a_line_that_can_be_read_in_two_ways_is_unclear_and_says_how_to_write_each() {
        let offering = |labels: &[&str], multi_select: bool| {
            let options: Vec<_> =
                labels.iter().map(|label| json!({"label": label, "description": ""})).collect();
            question_of(json!([{"question": "Which?", "header": "", "options": options,
                "multi_select": multi_select, "free_text": true}]))
        };
        let says = |body: &AskView, line: &str, hint: &str| match read(line, body) {
            TypedLine::Unclear(why) => assert!(why.contains(hint), "{line}: {why}"),
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
    fn a_secret_is_the_line_as_it_was_typed() {
        let secret = json!({"question": "Password?", "free_text": true, "secret": true});
        let alone = question_of(json!([secret]));
        answer(&alone, " skip 1 ", json!({"answers": [{"text": " skip 1 "}]}));
        assert_eq!(read("", &alone), TypedLine::Nothing);
        assert_eq!(hint(&alone), "Type the secret: it is not shown, and not kept.");
        let beside_another = question_of(json!([one(), secret]));
        is_unclear(&beside_another, "1 x");
        assert_eq!(hint(&beside_another), "This asks for a secret: aye answer k3v9m2pqxx.");
        let mut with_options = one();
        with_options["secret"] = true.into();
        let with_options = question_of(json!([with_options]));
        answer(&with_options, "=hunter2", json!({"answers": [{"text": "hunter2"}]}));
        answer(&with_options, "1", json!({"answers": [{"selected": ["SQLite"]}]}));
        let TypedLine::Unclear(why) = read("hunter2", &with_options) else { panic!("an answer") };
        assert!(!why.contains("hunter2") && why.contains("= and the secret"), "{why}");
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
        is_unclear(&body, "1");
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
        for yes in ["y", "yes", "Y", "Yes"] {
            answer(&body, yes, json!({"decision": "allow", "scope": "once"}));
        }
        for line in ["yes please", "yep", "1", "allowed", "Allow!", "allow always", "allow session now"] {
            is_unclear(&body, line);
        }
        assert_eq!(read("  ", &body), TypedLine::Nothing);
        let says = |line: &str| match read(line, &body) {
            TypedLine::Unclear(why) => why,
            other => panic!("{other:?}"),
        };
        let hint = "Type allow, allow session, deny [why], or stop [why].";
        assert_eq!(says("yep"), format!("“yep” neither allows nor denies this. {hint}"));
        assert_eq!(says("allow always"), format!("“allow always” is not offered. {hint}"));
    }

    #[test]
    fn a_plan_is_approved_refused_or_outlined() {
        let body = ask(Kind::Plan, json!({"plan": "1. x"}));
        answer(&body, "allow", json!({"decision": "allow"}));
        answer(&body, "outline", json!({"decision": "outline"}));
        answer(&body, "deny smaller", json!({"decision": "deny", "message": "smaller"}));
        is_unclear(&body, "allow session");
        is_unclear(&body, "stop");
    }

    #[test]
    fn what_takes_a_passkey_can_be_refused_here_and_the_hint_says_where_to_allow_it() {
        let call = json!({"tool": "Bash", "input": {"command": "ls"}});
        for (kind, body, refusals) in [
            (Kind::Permission, call, ["deny no", "stop"]),
            (Kind::Plan, json!({"plan": "1. x"}), ["deny no", "outline"]),
        ] {
            let mut strict = ask(kind, body);
            strict.head.proof = Proof::Passkey;
            for line in refusals {
                assert!(matches!(read(line, &strict), TypedLine::Answer(_)), "{line}");
            }
            is_unclear(&strict, "allow");
            let hint = hint(&strict);
            assert!(!hint.contains("Type allow") && hint.contains("aye open"), "{hint}");
        }
    }

    #[test]
    fn only_what_can_be_had_is_offered() {
        let scopes = json!([{"scope": "once"}, {"scope": "session", "kept_by": "hub"}, {"scope": "always", "kept_by": "hub"}]);
        let mut body = ask(
            Kind::Permission,
            json!({"tool": "Bash", "input": {"command": "echo $(date)"}, "scopes": scopes}),
        );
        assert_eq!(hint(&body), "Type allow, deny [why], or stop [why].");
        is_unclear(&body, "allow session");
        body.display.as_mut().unwrap().remarks.grants.session = Some("run it".into());
        assert_eq!(hint(&body), "Type allow, allow session, deny [why], or stop [why].");
        answer(&body, "allow session", json!({"decision": "allow", "scope": "session"}));
        is_unclear(&body, "allow always");
    }

    #[test]
    fn only_what_the_agent_can_take_is_offered() {
        let one_question = || question_of(json!([one()]));
        let two_questions = || question_of(json!([one(), one()]));
        let permission = || ask(Kind::Permission, json!({"tool": "Bash", "input": {"command": "ls"}}));
        let plan = || ask(Kind::Plan, json!({"plan": "1. x"}));
        let cases = [
            (one_question(), json!({}), "a number, =your words, or skip"),
            (one_question(), json!({"skip": false}), "a number or =your words"),
            (one_question(), json!({"skip": false, "text": false}), "a number"),
            (
                one_question(),
                json!({"text": false, "deny_ends_turn": true}),
                "a number or skip (which ends the turn)",
            ),
            (two_questions(), json!({}), "a number for each question (1 2,3 -), =your words, or skip"),
            (
                two_questions(),
                json!({"response": false, "questions": [{"skip": false}, {"skip": false}]}),
                "a number for each question (1 2,3) or skip",
            ),
            (
                two_questions(),
                json!({"skip": false, "response": false}),
                "a number for each question (1 2,3)",
            ),
            (permission(), json!({}), "allow, deny [why], or stop [why]"),
            (permission(), json!({"reason": false}), "allow, deny, or stop"),
            (permission(), json!({"stop": false}), "allow or deny [why]"),
            (permission(), json!({"deny_ends_turn": true}), "allow or deny [why] (which ends the turn)"),
            (plan(), json!({}), "allow, deny [why], or outline"),
            (
                plan(),
                json!({"outline": false, "reason": false, "deny_ends_turn": true}),
                "allow or deny (which ends the turn)",
            ),
        ];
        for (ask, can, ways) in cases {
            let ask = AskView { can: serde_json::from_value(can.clone()).unwrap(), ..ask };
            assert_eq!(hint(&ask), format!("Type {ways}."), "{can}");
        }
        let ask = AskView { can: serde_json::from_value(json!({"stop": false})).unwrap(), ..permission() };
        let TypedLine::Unclear(why) = read("stop", &ask) else { panic!() };
        assert!(why.starts_with("This agent's turn cannot be ended from here."), "{why}");
    }
}
