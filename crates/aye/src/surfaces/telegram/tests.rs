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

fn ask(kind: Kind, body: Value) -> Ask {
    ask_with(Body::decode(kind, body).unwrap())
}

fn ask_with(body: Body) -> Ask {
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

fn asker() -> Asker {
    Asker { name: "claude".into(), deadline: None, is_claude: true }
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

fn actions(shown: &Shown) -> Vec<Action> {
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

    <i>note: </i>subtle

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

    <i>note: </i>subtle

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
    🔐 May <code>Bash</code> run?
    <i>claude in /src/web</i>
    <pre>rm -rf \u{202e}x &amp;&amp; echo '&lt;b&gt;'</pre>
    <i>part 1: </i><code>rm -rf \u{202e}x</code>
    <i>part 2: </i><code>echo '&lt;b&gt;'</code>
    <b>⚠️ look closely: it hides something</b>
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
    🔐 May <code>Bash</code> run?
    <i>claude in /src/web</i>

    Too long to be shown whole here, so it cannot be allowed here. All of it is in the file below; allow it on the page or with <code>aye answer k3f9 --allow</code>
    | ⛔ Deny
    | ⛔ Deny with reason…
    file permission.txt
    ");
    assert!(shown.file.unwrap().1.contains(&command));
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
    | ✅ Approve | ⛔ Refuse
    | ⛔ Refuse with feedback…
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
        assert!(ended(&settled_somehow(ask), &asker()).fits());
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
    insta::assert_snapshot!(ended(&answered, &asker()).html(), @"
    ❓ <b>DB</b>
    <i>claude in /src/web</i>

    Which database &lt;now&gt;?
    → <b>SQLite</b>
    <i>note: </i>in a file
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
    insta::assert_snapshot!(ended(&denied, &asker()).html(), @"
    🔐 <b>Bash</b>
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
    insta::assert_snapshot!(ended(&expired, &asker()).html(), @"
    📋 <b>A plan</b>
    <i>claude in /src/web</i>

    1. x

    ⌛ <b>nobody answered in time</b>
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

    Refused automatically, because you asked for an outline first. Approve it within 25 s, and the same plan passes when it comes again.
    | ✅ Approve plan | ⛔ Deny
    ");
    insta::assert_snapshot!(picture(&refused_plan(&plan, &asker(), None, None)), @"
    📋 <b>A plan came before the outline</b>
    <i>claude in /src/web</i>

    1. x

    <b>Refused automatically. The time to approve it is over.</b>
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
    <i>… 2 steps before</i>
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

/// What people see of a page, and each stretch of it that is marked like this.
fn seen(page: &super::html::Page) -> aye_testkit::telegram::Marked {
    aye_testkit::telegram::seen(page.html(), Some("HTML")).unwrap()
}

fn marked(page: &super::html::Page, kinds: &[&str]) -> Vec<String> {
    let seen = seen(page);
    let found = seen.entities.iter().filter(|entity| kinds.contains(&entity.kind));
    found.map(|entity| seen.of(entity)).collect()
}

/// The plan that a message shows, with the marks that Telegram shows as something else.
fn read_plan(page: &super::html::Page) -> String {
    let seen = seen(page);
    let is_gap = |at: &usize| seen.text[*at..].starts_with(&['\n', '\n']);
    let start = (0..seen.text.len()).find(is_gap).unwrap() + 2;
    let end = (0..seen.text.len()).rev().find(is_gap).unwrap();
    let (mut at, mut out) = (start, String::new());
    let part = |from: usize, to: usize| super::exact::read(&seen.text[from..to].iter().collect::<String>());
    for entity in seen.entities.iter().filter(|entity| entity.start >= start && entity.end <= end) {
        let text = super::exact::read(&seen.of(entity));
        out += &part(at, entity.start);
        out += &match entity.kind {
            "b" if text.starts_with('#') => text,
            "b" => format!("**{text}**"),
            "code" => format!("`{text}`"),
            "pre" => format!("```{}\n{text}\n```", entity.argument),
            kind => panic!("a plan has no {kind}"),
        };
        at = entity.end;
    }
    out + &part(at, end)
}

/// Text as people and attackers write it: what Telegram changes, what hides, what looks like our own signs.
fn any_text() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let odd = prop::sample::select(vec![
        "\t",
        "\r",
        "\n",
        " ",
        "  \n",
        "\u{0}",
        "\u{1b}",
        "\u{7f}",
        "\u{a0}",
        "\u{ad}",
        "\u{30a}",
        "\u{333}",
        "\u{33f}",
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{200e}",
        "\u{200f}",
        "\u{2028}",
        "\u{202e}",
        "\u{202f}",
        "\u{2066}",
        "\u{3000}",
        "\u{feff}",
        "\u{e0041}",
        "⇥",
        "␠",
        "⏎",
        "␍",
        "\\u{9}",
        "\\u{5c}",
        "\\",
        "\\t",
        "u{9}",
        "&lt;",
        "&#9;",
        "&",
        "<b>",
        "**",
        "`",
        "\n```\n",
        "```rs\n",
        "\n# ",
        "#",
        "</pre>",
        "<",
        "\"",
        "a",
        "b",
        "1",
        "-",
        "+",
        "❤️",
        "日",
        "😀",
        "👩\u{200d}💻",
    ]);
    let piece = prop_oneof![4 => odd.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// The tool and the input that a message shows, read back from what people see of it. Only stretches of code count,
/// by our own words before them.
fn read_back(page: &super::html::Page) -> (String, Option<serde_json::Map<String, Value>>) {
    let seen = seen(page);
    let code: Vec<_> = seen.entities.iter().filter(|entity| ["code", "pre"].contains(&entity.kind)).collect();
    let (mut tool, mut file, mut blocks, mut rest, mut field) =
        (String::new(), None, vec![], json!({}), String::new());
    for (n, entity) in code.iter().enumerate() {
        let text = super::exact::read(&seen.of(entity));
        let from = if n == 0 { 0 } else { code[n - 1].end };
        let before: String = seen.text[from..entity.start].iter().collect();
        match before.rsplit('\n').next().unwrap() {
            _ if entity.kind == "pre" => blocks.push((before.trim().ends_with("as JSON:"), text)),
            "🔐 May " => tool = text,
            "File: " => file = Some(text),
            "" => field = text,
            ": " => rest[field.as_str()] = serde_json::from_str(&text).unwrap(),
            words => assert!(words.starts_with("part ") || words.ends_with("own rule: "), "{words}"),
        }
    }
    let hunk = |text: &String| {
        let mut lines = text.split('\n').map(str::to_owned);
        lines.next();
        json!({"old_start": 0, "new_start": 0, "lines": lines.collect::<Vec<_>>()})
    };
    let blocks_of = |blocks: &[(bool, String)]| blocks.iter().map(|(_, text)| hunk(text)).collect::<Vec<_>>();
    let display = match (&file, blocks.first()) {
        (Some(file), _) => json!({"kind": "diff", "text": "", "file": file, "hunks": blocks_of(&blocks)}),
        (None, Some((true, text))) => json!({"kind": "json", "text": text}),
        (None, Some((false, text))) => json!({"kind": "command", "text": text}),
        (None, None) => panic!("nothing is shown"),
    };
    let mut display = display;
    display["title"] = json!("");
    display["rest"] = rest;
    let display: aye_core::Display = serde_json::from_value(display).unwrap();
    let input = display.rebuild(&tool);
    (tool, input)
}

/// What an adapter may raise, lies included.
fn any_raise() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let tool = prop_oneof![
        3 => Just("Bash".to_owned()), 2 => Just("Edit".to_owned()), 2 => Just("Write".to_owned()),
        2 => Just("MultiEdit".to_owned()), 1 => any_text().prop_map(|text| format!("x{text}")),
    ];
    let odd = prop_oneof![
        any_text().prop_map(Value::from),
        Just(json!(1)),
        Just(json!(null)),
        Just(json!(["x", {"y": 1.5}]))
    ];
    let fields = prop::collection::btree_map(
        prop_oneof![
            3 => prop::sample::select(vec!["command", "file_path", "old_string", "new_string", "content", "replace_all"]).prop_map(str::to_owned),
            1 => any_text(),
        ],
        prop_oneof![4 => any_text().prop_map(Value::from), 1 => odd],
        0..6,
    );
    let edits = prop::collection::vec((any_text(), any_text(), any::<bool>()), 0..3);
    let lines = prop::collection::vec(any_text().prop_map(|text| text.replace('\n', "")), 0..3);
    (tool, fields, edits, lines, any_text()).prop_map(|(tool, fields, edits, lines, lie)| {
        let mut input = json!(fields);
        if tool != "Bash" {
            input["file_path"] = json!(lie);
        }
        if tool == "MultiEdit" {
            let edit = |(old, new, all): &(String, String, bool)| json!({"old_string": old, "new_string": new, "replace_all": all});
            input["edits"] = json!(edits.iter().map(edit).collect::<Vec<_>>());
        }
        json!({"tool": tool, "input": input, "display": {"kind": "command", "text": lie},
            "before": {"places": [{"old_start": 1, "new_start": 1, "removed": lines, "above": lines, "below": lines}]},
            "scopes": [{"scope": "once"}, {"scope": "session", "rule": lie, "kept_by": "agent"}, {"scope": "always", "rule": lie, "kept_by": "hub"}]})
    })
}

proptest::proptest! {
    #[test]
    fn what_telegram_displays_of_a_permission_reads_back_as_its_input_or_it_cannot_be_allowed(raise in any_raise()) {
        if let Ok((body, before)) = aye_core::RaisedBody::decode(Kind::Permission, raise) {
            let mut ask = ask_with(body);
            ask.extras.before = before;
            let shown = open(&ask, &Draft::default(), &asker());
            let allowed: Vec<_> = actions(&shown).into_iter().filter(approves).collect();
            if let (Body::Permission(permission), false) = (&ask.body, allowed.is_empty()) {
                let (tool, input) = read_back(&shown.page);
                proptest::prop_assert_eq!(&tool, &permission.tool);
                proptest::prop_assert_eq!(input.as_ref(), Some(&permission.input));
                proptest::prop_assert!(!allowed.contains(&Action::AllowAlways), "the hub granted nothing");
            }
        }
    }

    #[test]
    fn what_telegram_displays_of_code_reads_back_as_the_code(text in any_text()) {
        let page = |page: super::html::Page| page.text("🔐\n");
        let block = page(super::html::Page::default()).pre(&text);
        let line = page(super::html::Page::default()).code(&text);
        let read = |page| marked(page, &["pre", "code"]).concat();
        proptest::prop_assert_eq!(super::exact::read(&read(&block)), text.clone());
        proptest::prop_assert_eq!(super::exact::read(&read(&line)), text);
    }

    #[test]
    fn what_telegram_displays_of_a_plan_reads_back_as_the_plan_or_it_cannot_be_approved(
        text in any_text(), times in 1..400_usize,
    ) {
        let plan = format!("x{}", text.repeat(times));
        let ask = ask(Kind::Plan, json!({ "plan": plan }));
        let shown = open(&ask, &Draft::default(), &asker());
        if actions(&shown).contains(&Action::Approve) {
            let pages = if shown.parts.is_empty() { std::slice::from_ref(&shown.page) } else { &shown.parts };
            let all: String = pages.iter().map(read_plan).collect();
            proptest::prop_assert_eq!(all, plan);
        }
    }
}
