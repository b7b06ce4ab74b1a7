use super::super::actions::{Action, press};
use super::super::ended::{ended, refused_plan};
use super::super::html::LONGEST;
use super::super::render::{approves, open};
use super::{ANN, actions, ask, asker, picture, questions, settled};
use crate::surfaces::form::{Draft, Entry, FormStep, TextKind, Typing, typed};
use aye_core::{Answer, Ask, Body, Kind, Proof, Receipt};
use serde_json::json;

#[test]
fn a_question_shows_every_option_with_its_description() {
    insta::assert_snapshot!(picture(&open(&questions(), &Draft::default(), &asker())), @"
    ❓ <b>DB</b> · 1 of 2
    <i>claude in /src/web</i>

    Which database &lt;now&gt;?

    1. <b>PostgreSQL</b>
    a server &amp; more

    2. <b>SQLite</b>
    a file
    <pre>db = &quot;a.db&quot;</pre>

    | 1. PostgreSQL
    | 2. SQLite
    | Other… | Note… | Skip
    ");
}

#[test]
fn several_picks_are_toggles_and_typing_can_be_cancelled() {
    let ask = questions();
    let draft = Draft {
        at: 1,
        entries: vec![
            Entry::default(),
            Entry { picks: vec![1], notes: Some("subtle".into()), ..Entry::default() },
        ],
        typing: None,
        ..Draft::default()
    };
    insta::assert_snapshot!(picture(&open(&ask, &draft, &asker())), @"
    ❓ <b>Features</b> · 2 of 2
    <i>claude in /src/web</i>

    Which features?

    1. <b>Dark mode</b>

    2. <b>i18n</b>

    <i>Note: </i>subtle

    <i>Tap all that apply, then Done.</i>
    | ☐ 1. Dark mode
    | ☑ 2. i18n
    | Done
    | Other… | Change note… | Skip
    | ‹ Back
    ");
    let typing =
        Draft { typing: Some(Typing { user: 1, name: "Ann".into(), what: TextKind::Words }), ..draft };
    insta::assert_snapshot!(picture(&open(&ask, &typing, &asker())), @"
    ❓ <b>Features</b> · 2 of 2
    <i>claude in /src/web</i>

    Which features?

    1. <b>Dark mode</b>

    2. <b>i18n</b>

    <i>Note: </i>subtle

    <b>✍️ Send your answer as your next message.</b>
    | ☐ 1. Dark mode
    | ☑ 2. i18n
    | Done
    | Cancel
    | ‹ Back
    ");
}

#[test]
fn a_question_for_a_secret_is_shown_and_nothing_offers_to_take_it() {
    let key = json!({"question": "The key?", "header": "Key", "free_text": true, "secret": true});
    let several = json!({"question": "Which ones?", "multi_select": true, "free_text": true,
        "options": [{"label": "Auth"}, {"label": "Log"}]});
    let asked = ask(Kind::Question, json!({"questions": [key]}));
    let shown = open(&asked, &Draft::default(), &asker());
    assert!(shown.wants_page);
    insta::assert_snapshot!(picture(&shown), @"
    ❓ <b>Key</b>
    <i>claude in /src/web</i>

    The key?


    It cannot be answered here: it asks for a secret, which is never sent over Telegram. Answer it on the page or in a terminal
    ");
    // Nor is anything else of a form that has one.
    let form = ask(Kind::Question, json!({"questions": [several, key]}));
    for at in 0..=2 {
        let shown = open(&form, &Draft { at, ..Draft::default() }, &asker());
        assert_eq!(actions(&shown), []);
        assert!(!shown.page.plain().contains("Tap") && !shown.page.plain().contains("Reply"));
    }
}

#[test]
fn a_permission_shows_the_whole_command_and_the_exact_rule() {
    let permission = json!({"tool": "Bash", "input": {"command": "rm -rf \u{202e}x && echo '<b>'", "timeout": 5},
        "scopes": [{"scope": "once"}, {"scope": "session", "rule": "allow Bash(rm:*) for this session"}]});
    let mut asked = ask(Kind::Permission, permission);
    asked.extras.remarks.parts = vec!["rm -rf \u{202e}x".into(), "echo '<b>'".into()];
    asked.extras.remarks.caution = Some("it hides something".into());
    insta::assert_snapshot!(picture(&open(&asked, &Draft::default(), &asker())), @r"
    🔐 <b>Run a command</b>
    <i>claude in /src/web</i>
    <pre>rm -rf \u{202e}x &amp;&amp; echo '&lt;b&gt;'</pre>
    <i>Runs 2 commands:</i>
    1. <code>rm -rf \u{202e}x</code>
    2. <code>echo '&lt;b&gt;'</code>
    <b>⚠️ Look closely: it hides something</b>
    <code>timeout</code>: <code>5</code>

    For the session: the agent's own rule: <code>allow Bash(rm:*) for this session</code>
    | ✅ Allow once | ⛔ Deny
    | ✅ Allow for session
    | ⛔ Deny with reason…
    ");
}

#[test]
fn what_cannot_be_shown_whole_cannot_be_allowed() {
    let command = format!("echo {}", "x".repeat(LONGEST));
    let permission = json!({"tool": "Bash", "input": {"command": command}});
    let shown = open(&ask(Kind::Permission, permission), &Draft::default(), &asker());
    insta::assert_snapshot!(picture(&shown), @"
    🔐 <b>Run a command</b>
    <i>claude in /src/web</i>

    Too long to show here, so it cannot be allowed here. The file below has all of it. It can be allowed on the page, or with <code>aye answer k3f9 --allow</code>
    | ⛔ Deny
    | ⛔ Deny with reason…
    file permission.txt
    ");
    assert!(shown.file.unwrap().1.contains(&command));
}

#[test]
fn what_is_too_long_and_takes_a_passkey_names_the_page_alone() {
    let long = "x".repeat(LONGEST * 20);
    let permission = json!({"tool": "Bash", "input": {"command": long}});
    for ask in [ask(Kind::Permission, permission), ask(Kind::Plan, json!({"plan": long}))] {
        let mut strict = ask;
        strict.head.proof = Proof::Passkey;
        let shown = picture(&open(&strict, &Draft::default(), &asker()));
        assert!(shown.contains("takes a passkey") && !shown.contains("aye answer"), "{shown}");
    }
}

#[test]
fn a_question_that_is_too_long_to_be_shown_offers_here_only_what_refuses() {
    let labels = |length: usize, allows: bool| {
        let options = json!([{"label": "Yes", "allows": allows}, {"label": "No"}]);
        let question = json!({"question": "x".repeat(length), "options": options});
        let shown =
            open(&ask(Kind::Question, json!({ "questions": [question] })), &Draft::default(), &asker());
        let names: Vec<_> = shown.rows.into_iter().flatten().map(|(name, _)| name).collect();
        (names.join(" | "), shown.file.is_some())
    };
    let (both, no) = ("1. Yes | 2. No | Note… | Skip", "2. No | Note… | Skip");
    assert_eq!(labels(LONGEST / 2, true), (both.to_owned(), false));
    // What is whole in several messages can be read there.
    assert_eq!(labels(LONGEST * 2, true), (both.to_owned(), false));
    assert_eq!(labels(LONGEST * 20, true), (no.to_owned(), true));
    assert_eq!(labels(LONGEST * 20, false), (both.to_owned(), true));
}

#[test]
fn a_question_that_takes_a_passkey_offers_here_only_what_refuses() {
    for (several, no) in [(false, "1. Yes | 2. No"), (true, "☐ 1. Yes | ☐ 2. No | Done")] {
        let options = json!([{"label": "Yes", "allows": true}, {"label": "No"}]);
        let question =
            json!({"question": "Go?", "options": options, "free_text": true, "multi_select": several});
        let mut asked = ask(Kind::Question, json!({ "questions": [question] }));
        let labels = |asked: &Ask| {
            let shown = open(asked, &Draft::default(), &asker());
            let names: Vec<_> = shown.rows.into_iter().flatten().map(|(name, _)| name).collect();
            names.join(" | ")
        };
        assert_eq!(labels(&asked), format!("{no} | Other… | Note… | Skip"));
        asked.head.proof = Proof::Passkey;
        let refusing: Vec<_> = no.split(" | ").filter(|name| !name.contains("Yes")).collect();
        assert_eq!(labels(&asked), format!("{} | Note… | Skip", refusing.join(" | ")));
        assert!(picture(&open(&asked, &Draft::default(), &asker())).contains("takes a passkey"));
    }
}

#[test]
fn one_character_decides_whether_it_can_be_allowed() {
    let shown = |length: usize| {
        let text = "x".repeat(length);
        let permission = json!({"tool": "Bash", "input": {"command": text}});
        open(&ask(Kind::Permission, permission), &Draft::default(), &asker())
    };
    let fits = LONGEST + 1 - shown(1).page.length();
    assert_eq!(shown(fits).page.length(), LONGEST);
    assert!(actions(&shown(fits)).contains(&Action::AllowOnce));
    assert!(!actions(&shown(fits + 1)).contains(&Action::AllowOnce));
}

#[test]
fn a_plan_is_shown_whole_in_parts_or_as_a_file_without_approval() {
    insta::assert_snapshot!(picture(&open(&ask(Kind::Plan, json!({"plan": "1. **x**\n2. y"})), &Draft::default(), &asker())), @"
    📋 <b>A plan to approve</b>
    <i>claude in /src/web</i>

    1. <b>x</b>
    2. y

    <i>End of the plan.</i>
    | ✅ Approve | ⛔ Deny
    | ⛔ Deny with reason…
    | ⏸ Pause and outline
    ");
    let plan = |lines: usize| {
        open(
            &ask(Kind::Plan, json!({"plan": "a line of a plan\n".repeat(lines)})),
            &Draft::default(),
            &asker(),
        )
    };
    let parts = plan(600);
    assert_eq!((parts.parts.len(), parts.file.is_some()), (3, false));
    assert!(parts.parts.iter().all(|part| part.fits()) && actions(&parts).contains(&Action::Approve));
    let shown: usize = parts.parts.iter().map(|part| part.plain().matches("a line of a plan").count()).sum();
    assert_eq!(shown, 600);
    let file = plan(2000);
    assert!(file.file.is_some() && !actions(&file).contains(&Action::Approve));
    assert!(actions(&file).contains(&Action::DenyWhy) && actions(&file).contains(&Action::Outline));
}

#[test]
fn whatever_is_asked_fits_and_nothing_too_long_is_approved() {
    let huge = "<&😀\u{200b}>".repeat(900);
    let question = json!({"questions": [{"question": huge, "header": huge, "free_text": true,
        "options": (0..95).map(|i| json!({"label": format!("{i}{huge}"), "description": huge})).collect::<Vec<_>>()}]});
    let scopes = json!([{"scope": "once"}, {"scope": "session", "rule": huge}]);
    let permission = json!({"tool": huge, "input": {huge.as_str(): huge}, "scopes": scopes});
    let mut asks = vec![
        ask(Kind::Question, question),
        ask(Kind::Permission, permission),
        ask(Kind::Plan, json!({"plan": huge})),
    ];
    asks.iter_mut().for_each(|ask| ask.head.cwd = huge.clone());
    for ask in asks {
        let waiting = match press(&ask.body, Draft::default(), &Action::DenyWhy, ANN) {
            FormStep::Draft(draft) => draft,
            FormStep::Answer(_) | FormStep::Stale(_) => Draft::default(),
        };
        for draft in [Draft::default(), waiting] {
            let shown = open(&ask, &draft, &asker());
            assert!(shown.page.fits() && actions(&shown).len() <= 100, "{}", shown.page.length());
            assert!(!actions(&shown).iter().any(approves));
        }
        assert!(refused_plan(&ask, &asker(), Some(5), None).page.fits());
        assert!(ended(&settled_somehow(ask), &asker(), &Draft::default()).fits());
    }
}

fn settled_somehow(ask: Ask) -> Ask {
    let words = "x".repeat(5000);
    let answer = match ask.body {
        Body::Question(_) => json!({"answers": [{"text": words, "notes": words}]}),
        Body::Permission(_) | Body::Plan(_) => json!({"decision": "deny", "message": words}),
    };
    settled(ask, answer, Receipt::Disputed)
}

proptest::proptest! {
    #[test]
    fn whatever_is_pressed_and_typed_in_whatever_order_the_answer_fits_its_ask(
        shape in proptest::collection::vec((0..4_usize, proptest::bool::ANY, proptest::bool::ANY), 1..5),
        moves in proptest::collection::vec((0..40_usize, 0..8_usize), 1..60),
    ) {
        let question = |(options, several, own): &(usize, bool, bool)| {
            let options: Vec<_> = (0..*options).map(|n| json!({ "label": format!("o{n}") })).collect();
            json!({ "question": "?", "multi_select": several, "free_text": *own || options.is_empty(), "options": options })
        };
        let ask = ask(Kind::Question, json!({ "questions": shape.iter().map(question).collect::<Vec<_>>() }));
        let mut draft = Draft::default();
        let mut earlier = vec![];
        for (which, how) in moves {
            let buttons = actions(&open(&ask, &draft, &asker()));
            let next = match how {
                0 => typed(&ask.body, &ask.extras.can, draft.clone(), ANN, " words "),
                // A button of a message as it was before.
                1 if !earlier.is_empty() => {
                    let old: &Action = &earlier[which % earlier.len()];
                    press(&ask.body, draft.clone(), old, ANN)
                }
                _ => press(&ask.body, draft.clone(), &buttons[which % buttons.len()], ANN),
            };
            earlier.extend(buttons);
            match next {
                FormStep::Draft(next) => draft = next,
                FormStep::Stale(_) => {}
                FormStep::Answer(answer) => {
                    Answer::read(&ask.body, answer).unwrap();
                    break;
                }
            }
        }
    }
}

#[test]
fn only_what_the_agent_can_take_has_a_button() {
    let question =
        json!({"questions": [{"question": "Go?", "options": [{"label": "yes"}], "free_text": true}]});
    let permission = json!({"tool": "Bash", "input": {"command": "ls"}, "scopes": [{"scope": "once"}]});
    let plan = json!({"plan": "1. x"});
    let cases = [
        (Kind::Question, &question, json!({}), "1. yes | Other… | Note… | Skip"),
        (Kind::Question, &question, json!({"text": false}), "1. yes | Note… | Skip"),
        (Kind::Question, &question, json!({"notes": false}), "1. yes | Other… | Skip"),
        (Kind::Question, &question, json!({"skip": false}), "1. yes | Other… | Note…"),
        // What is skipped here is one question after another, which ends no turn.
        (Kind::Question, &question, json!({"deny_ends_turn": true}), "1. yes | Other… | Note… | Skip"),
        (
            Kind::Question,
            &question,
            json!({"text": false, "questions": [{"skip": false, "text": false}]}),
            "1. yes | Note… | Skip all",
        ),
        (
            Kind::Question,
            &question,
            json!({"text": false, "questions": [{"notes": false}]}),
            "1. yes | Other… | Skip",
        ),
        (Kind::Question, &question, json!({"answer": false}), ""),
        (Kind::Permission, &permission, json!({}), "✅ Allow once | ⛔ Deny | ⛔ Deny with reason…"),
        (Kind::Permission, &permission, json!({"reason": false}), "✅ Allow once | ⛔ Deny"),
        (
            Kind::Permission,
            &permission,
            json!({"reason": false, "deny_ends_turn": true}),
            "✅ Allow once | ⛔ Deny (ends the turn)",
        ),
        (
            Kind::Permission,
            &permission,
            json!({"deny_ends_turn": true}),
            "✅ Allow once | ⛔ Deny (ends the turn) | ⛔ Deny with reason… (ends the turn)",
        ),
        (Kind::Permission, &permission, json!({"answer": false}), ""),
        (Kind::Plan, &plan, json!({}), "✅ Approve | ⛔ Deny | ⛔ Deny with reason… | ⏸ Pause and outline"),
        (Kind::Plan, &plan, json!({"outline": false}), "✅ Approve | ⛔ Deny | ⛔ Deny with reason…"),
        (Kind::Plan, &plan, json!({"reason": false}), "✅ Approve | ⛔ Deny | ⏸ Pause and outline"),
        (
            Kind::Plan,
            &plan,
            json!({"reason": false, "outline": false, "deny_ends_turn": true}),
            "✅ Approve | ⛔ Deny (ends the turn)",
        ),
        (Kind::Plan, &plan, json!({"answer": false}), ""),
    ];
    for (kind, body, can, labels) in cases {
        let mut asked = ask(kind, body.clone());
        asked.extras.can = serde_json::from_value(can.clone()).unwrap();
        let shown = open(&asked, &Draft::default(), &asker());
        let shown: Vec<_> = shown.rows.into_iter().flatten().map(|(name, _)| name).collect();
        assert_eq!(shown.join(" | "), labels, "{kind:?} {can}");
    }
    let mut asked = ask(Kind::Plan, plan);
    asked.extras.can = aye_core::Can::elsewhere("answer it in its terminal");
    let shown = open(&asked, &Draft::default(), &asker());
    assert!(shown.page.plain().ends_with("It cannot be answered here: answer it in its terminal"));
}

#[test]
fn words_that_the_agent_cannot_take_are_not_taken() {
    let form = json!({"questions": [{"question": "Name?", "free_text": true}, {"question": "Why?", "free_text": true}]});
    let mut asked = ask(Kind::Question, form);
    let hint = "Reply to this message with your answer.";
    assert!(open(&asked, &Draft::default(), &asker()).page.plain().contains(hint));
    asked.extras.can =
        serde_json::from_value(json!({"text": false, "notes": false, "reason": false})).unwrap();
    assert!(!open(&asked, &Draft::default(), &asker()).page.plain().contains(hint));
    let typing = |what| Draft {
        typing: Some(Typing { user: ANN.user, name: "Ann".into(), what }),
        ..Draft::default()
    };
    let can = &asked.extras.can;
    for what in [TextKind::Words, TextKind::Notes] {
        assert!(matches!(typed(&asked.body, can, typing(what), ANN, "mine"), FormStep::Stale(_)), "{what:?}");
    }
    let of_the_second =
        json!({"text": false, "notes": false, "questions": [{"text": false, "notes": false}, {}]});
    let of_the_second = serde_json::from_value(of_the_second).unwrap();
    for (at, what) in [(0, TextKind::Words), (0, TextKind::Notes), (1, TextKind::Words), (1, TextKind::Notes)]
    {
        let next = typed(&asked.body, &of_the_second, Draft { at, ..typing(what) }, ANN, "mine");
        assert_eq!(matches!(next, FormStep::Stale(_)), at == 0, "{at} {what:?}");
    }
    let plan = ask(Kind::Plan, json!({"plan": "1. x"})).body;
    assert!(matches!(typed(&plan, can, typing(TextKind::Reason), ANN, "smaller"), FormStep::Stale(_)));
}
