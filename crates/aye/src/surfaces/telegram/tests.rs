//! What people see, as snapshots; the `|` lines are buttons.

use super::card::{Progress, card};
use super::ended::{ended, refused_plan, too_late};
use super::form::{Action, Draft, Entry, Typing, Wanted, press};
use super::html::LONGEST;
use super::render::{Asker, Button, Shown, approves, open};
use super::settings::{Pace, Settings, Token};
use crate::url::HubUrl;
use aye_core::lifecycle::Delivery;
use aye_core::{
    Agent, AgentId, AgentState, Answer, Ask, AskId, Body, By, Digest, Expiry, Key, Kind, Proof, Reach,
    Receipt, State, Surface, Text,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

pub fn settings(users: &[i64], chats: &[i64]) -> Settings {
    Settings {
        token: Token::try_from("1:fake".to_owned()).unwrap(),
        token_file: "telegram.token".into(),
        users: users.into(),
        chats: chats.into(),
        notify_after: Duration::ZERO,
        remind_after: None,
        notify_end: true,
        notify_failure: true,
        api_url: HubUrl::https("api.example"),
        public_url: None,
        pace: Pace { second: Duration::from_secs(1) },
    }
}

pub fn ask(kind: Kind, body: Value) -> Ask {
    ask_with(Body::decode(kind, body).unwrap())
}

pub fn ask_with(body: Body) -> Ask {
    Ask {
        id: AskId::try_from("k3f9").unwrap(),
        key: Key::try_from("k").unwrap(),
        agent: AgentId::try_from("claude-1").unwrap(),
        cwd: "/src/web".into(),
        tool_use_id: None,
        sub_agent: None,
        cwd_checked: false,
        digest: Digest::of("/src/web", &body),
        body,
        extras: aye_core::Extras::default(),
        created_at: Timestamp::UNIX_EPOCH,
        deadline: None,
        proof: Proof::None,
        state: State::Open,
    }
}

const ANN: super::form::Who = super::form::Who { user: 1, name: "Ann" };

pub fn asker() -> Asker {
    Asker { name: "claude".into(), deadline: None, is_claude: true, has_link: false }
}

fn picture(shown: &Shown) -> String {
    let row = |row: &Vec<Button>| {
        let labels: Vec<_> = row.iter().map(|(label, _)| label.as_str()).collect();
        format!("\n| {}", labels.join(" | "))
    };
    let buttons = shown.rows.iter().map(row).collect::<String>();
    let file = shown.file.as_ref().map(|(name, _)| format!("\nfile {name}")).unwrap_or_default();
    format!("{}{buttons}{file}", shown.page.html())
}

pub fn actions(shown: &Shown) -> Vec<Action> {
    shown.rows.iter().flatten().map(|(_, action)| action.clone()).collect()
}

fn settled(mut ask: Ask, answer: Value, receipt: Receipt) -> Ask {
    ask.state = State::Answered {
        answer: Answer::read(&ask.body, answer).unwrap(),
        by: By::Person { name: Text::try_from("Ann").unwrap(), surface: Surface::Telegram },
        key: None,
        at: Timestamp::UNIX_EPOCH,
        delivery: Delivery { receipt, evidence: None },
    };
    ask
}

fn questions() -> Ask {
    let questions = json!({"questions": [
        {"question": "Which database <now>?", "header": "DB", "free_text": true, "options": [
            {"label": "PostgreSQL", "description": "a server & more"},
            {"label": "SQLite", "description": "a file", "preview": "db = \"a.db\""}]},
        {"question": "Which features?", "header": "Features", "multi_select": true, "free_text": true, "options": [
            {"label": "Dark mode"}, {"label": "i18n"}]}]});
    ask(Kind::Question, questions)
}

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
    let typing = Draft { typing: Some(Typing { user: 1, name: "Ann".into(), what: Wanted::Words }), ..draft };
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
fn a_permission_shows_the_whole_command_and_the_exact_rule() {
    let permission = json!({"tool": "Bash", "input": {"command": "rm -rf \u{202e}x && echo '<b>'", "timeout": 5},
        "scopes": [{"scope": "once"}, {"scope": "session", "rule": "allow Bash(rm:*) for this session"}]});
    let mut asked = ask(Kind::Permission, permission);
    asked.extras.parts = vec!["rm -rf \u{202e}x".into(), "echo '<b>'".into()];
    asked.extras.caution = Some("it hides something".into());
    insta::assert_snapshot!(picture(&open(&asked, &Draft::default(), &asker())), @r"
    🔐 <b>Run a command</b>
    <i>claude in /src/web</i>
    <pre>rm -rf \u{202e}x &amp;&amp; echo '&lt;b&gt;'</pre>
    <i>Part 1: </i><code>rm -rf \u{202e}x</code>
    <i>Part 2: </i><code>echo '&lt;b&gt;'</code>
    <b>⚠️ Look closely: it hides something</b>
    <code>timeout</code>: <code>5</code>

    For the session: Claude's own rule: <code>allow Bash(rm:*) for this session</code>
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
        let strict = Ask { proof: Proof::Passkey, ..ask };
        let shown = picture(&open(&strict, &Draft::default(), &asker()));
        assert!(shown.contains("takes a passkey") && !shown.contains("aye answer"), "{shown}");
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
    asks.iter_mut().for_each(|ask| ask.cwd = huge.clone());
    for ask in asks {
        let waiting = match press(&ask.body, Draft::default(), &Action::DenyWhy, ANN) {
            super::form::Next::Draft(draft) => draft,
            super::form::Next::Answer(_) | super::form::Next::Stale(_) => Draft::default(),
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

#[test]
fn the_end_says_what_was_chosen_by_whom_and_whether_it_arrived() {
    let answer = json!({"answers": [{"selected": ["SQLite"], "notes": "in a file"}, {"selected": ["Dark mode"], "text": "offline"}]});
    let answered = settled(questions(), answer, Receipt::Confirmed);
    insta::assert_snapshot!(ended(&answered, &asker(), &Draft::default()).html(), @"
    ❓ <b>DB</b>
    <i>claude in /src/web</i>

    Which database &lt;now&gt;?
    → <b>SQLite</b>
    <i>Note: </i>in a file
    Which features?
    → <b>Dark mode, offline</b>

    ✅ <b>Answered</b> by Ann (telegram)
    <i>Confirmed by the agent's own transcript</i>
    ");
    assert_eq!(too_late(&answered), "Already decided by Ann (telegram): SQLite · Dark mode, offline");
    let permission = json!({"tool": "Bash", "input": {"command": "ls"}});
    let denied = settled(
        ask(Kind::Permission, permission),
        json!({"decision": "deny", "message": "not now"}),
        Receipt::Delivered,
    );
    insta::assert_snapshot!(ended(&denied, &asker(), &Draft::default()).html(), @"
    🔐 <b>Run a command</b>
    <i>claude in /src/web</i>
    <pre>ls</pre>

    ⛔ <b>Denied</b> by Ann (telegram)
    not now
    <i>Delivered to the agent</i>
    ");
    let expired = State::Expired {
        why: Expiry::Deadline,
        at: Timestamp::UNIX_EPOCH,
        delivery: Delivery { receipt: Receipt::Pending, evidence: None },
    };
    let expired = Ask { state: expired, ..ask(Kind::Plan, json!({"plan": "1. x"})) };
    insta::assert_snapshot!(ended(&expired, &asker(), &Draft::default()).html(), @"
    📋 <b>A plan</b>
    <i>claude in /src/web</i>

    1. x

    ⌛ <b>Nobody answered in time</b>
    ");
    assert_eq!(too_late(&expired), "Too late: nobody answered in time.");
}

#[test]
fn a_plan_refused_by_itself_can_be_let_pass_until_the_time_is_over() {
    let plan = ask(Kind::Plan, json!({"plan": "1. x"}));
    insta::assert_snapshot!(picture(&refused_plan(&plan, &asker(), Some(25), None)), @"
    📋 <b>A plan came before the outline</b>
    <i>claude in /src/web</i>

    1. x

    <i>End of the plan.</i>

    Denied automatically, because you asked for an outline first. Approve it within 25 s, and the same plan passes when it comes again.
    | ✅ Approve plan | ⛔ Deny
    ");
    insta::assert_snapshot!(picture(&refused_plan(&plan, &asker(), None, None)), @"
    📋 <b>A plan came before the outline</b>
    <i>claude in /src/web</i>

    1. x

    <b>Denied automatically. The time to approve it is over.</b>
    ");
}

#[test]
fn a_run_shows_its_last_steps_and_in_the_end_its_words_and_cost() {
    let agent = Agent {
        id: AgentId::try_from("a1").unwrap(),
        kind: "claude".into(),
        reach: Reach::Driven,
        host: String::new(),
        cwd: "/src/web".into(),
        title: String::new(),
        session: None,
        state: AgentState::Working,
        cost: None,
        open_asks: 0,
        outline: None,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let mut progress = Progress::default();
    progress.add(1, &json!({"type": "prompt", "text": "do it"}));
    for n in 0..7 {
        progress.add(
            n + 2,
            &json!({"type": "tool", "id": "x", "name": "Bash", "input": {"command": format!("make <{n}>")}}),
        );
    }
    progress.add(10, &json!({"type": "text", "id": "t1", "delta": "I am "}));
    progress.add(11, &json!({"type": "text", "id": "t1", "delta": "half"}));
    progress.add(12, &json!({"type": "news", "of": "tomorrow"}));
    insta::assert_snapshot!(card(&agent, "web", &progress, None).0.html(), @"
    ⏳ <b>web</b> · working
    <i>… 2 earlier steps</i>
    · Bash make &lt;2&gt;
    · Bash make &lt;3&gt;
    · Bash make &lt;4&gt;
    · Bash make &lt;5&gt;
    · Bash make &lt;6&gt;

    I am half
    ");
    progress.add(13, &json!({"type": "text", "id": "t1", "text": "I am done."}));
    progress.add(14, &json!({"type": "turn", "error": false, "cost": 0.0123, "turns": 3, "duration_ms": 5100, "text": "I am <done>."}));
    progress.add(15, &json!({"type": "text", "id": "t2", "text": "another turn"}));
    insta::assert_snapshot!(card(&agent, "web", &progress, None).0.html(), @"
    ✅ <b>web</b> · done

    I am &lt;done&gt;.

    <i>$0.0123 · 3 turns · 7 steps · 5.1 s</i>
    ");
    let mut long = Progress::default();
    long.add(1, &json!({"type": "turn", "error": true, "text": "word ".repeat(2000)}));
    let (page, file) = card(&agent, "web", &long, None);
    assert!(page.fits() && page.plain().contains("failed"));
    assert_eq!(file.unwrap(), "word ".repeat(2000).trim());
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
                0 => super::form::typed(&ask.body, draft.clone(), ANN, " words "),
                // A button of a message as it was before.
                1 if !earlier.is_empty() => {
                    let old: &Action = &earlier[which % earlier.len()];
                    press(&ask.body, draft.clone(), old, ANN)
                }
                _ => press(&ask.body, draft.clone(), &buttons[which % buttons.len()], ANN),
            };
            earlier.extend(buttons);
            match next {
                super::form::Next::Draft(next) => draft = next,
                super::form::Next::Stale(_) => {}
                super::form::Next::Answer(answer) => {
                    Answer::read(&ask.body, answer).unwrap();
                    break;
                }
            }
        }
    }
}

#[test]
fn only_what_the_agent_can_take_has_a_button() {
    let mut asked = ask(Kind::Plan, json!({"plan": "1. x"}));
    let buttons = |asked: &Ask| {
        let shown = open(asked, &Draft::default(), &asker());
        shown.rows.into_iter().flatten().map(|(_, action)| action).collect::<Vec<_>>()
    };
    assert!(buttons(&asked).contains(&Action::Outline));
    asked.extras.can.outline = false;
    assert_eq!(buttons(&asked), [Action::Approve, Action::Deny, Action::DenyWhy]);
    asked.extras.can = aye_core::Can::elsewhere("answer it in its terminal");
    assert_eq!(buttons(&asked), []);
    let shown = open(&asked, &Draft::default(), &asker());
    assert!(shown.page.plain().ends_with("It cannot be answered here: answer it in its terminal"));
}
