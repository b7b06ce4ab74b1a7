//! Screens as version 2.1.325 draws them, 80 columns wide.

use super::*;
use aye_core::{Body, Kind};
use serde_json::{Value, json};

const RULE: &str = "────────────────────────────────────────────────────────────────────────────────";
const HINT: &str = "Enter to select · Tab/Arrow keys to navigate · Esc to cancel";

fn questions(questions: Value) -> Vec<Question> {
    match Body::decode(Kind::Question, json!({ "questions": questions })).unwrap() {
        Body::Question(body) => body.questions,
        Body::Permission(_) | Body::Plan(_) => panic!("questions"),
    }
}

fn two() -> Vec<Question> {
    questions(json!([
        {"question": "Which DB, given that this question is rather long and will be wrapped?", "header": "DB", "multi_select": false, "free_text": true,
         "options": [{"label": "PostgreSQL; with a label so long that it needs several lines to be shown here", "description": "❯ 2. a server"},
                     {"label": "-SQLite 日本語 😀 ü", "description": "a file"}]},
        {"question": "Many?", "header": "Many", "multi_select": true, "free_text": true,
         "options": [{"label": "p, q", "description": "Submit"}, {"label": "r", "description": "."}]}]))
}

fn dialog(tabs: &str, question: &str, rows: &str, last: &str) -> String {
    format!("● Hm.\n{RULE}\n{tabs}\n\n{question}\n\n{rows}\n{RULE}\n  {last}\n\n{HINT}\n\n\n")
}

fn first_page() -> String {
    dialog(
        "←  ☐ DB  ☐ Many  ✔ Submit  →",
        "│ Which DB, given that this question is rather long and will be\n│ wrapped?",
        "❯ 1. PostgreSQL; with a label so long that it needs several lines to be\n     shown here\n     ❯ 2. a server\n  2. -SQLite 日本語 😀 ü\n     a file\n  3. Type something.",
        "4. Chat about this",
    )
}

fn second_page() -> String {
    dialog(
        "←  ☒ DB  ☒ Many  ✔ Submit  →",
        "Many?",
        "  1. [✔] p, q\n         Submit\n  2. [ ] r\n         .\n❯ 3. [✔] Off line\n     Submit",
        "4. Chat about this",
    )
}

fn untouched() -> ExpectedScreen {
    ExpectedScreen::Question { index: 0, ticked: vec![], at: At::AnyOption, typed: None }
}

fn ticked(ticked: &[usize], at: At, typed: Option<&str>) -> ExpectedScreen {
    ExpectedScreen::Question { index: 1, ticked: ticked.to_vec(), at, typed: typed.map(str::to_owned) }
}

#[test]
fn a_question_is_recognised_however_it_is_wrapped() {
    assert_eq!(compare(&first_page(), &two(), &untouched()), Ok(()));
    let page = ExpectedScreen::Question { index: 0, ticked: vec![], at: At::Option(0), typed: None };
    assert_eq!(compare(&first_page(), &two(), &page), Ok(()));
}

#[test]
fn ticks_the_highlight_and_what_was_typed_are_told_apart() {
    let shown = second_page();
    assert_eq!(compare(&shown, &two(), &ticked(&[0, 2], At::FreeText, Some("Offline"))), Ok(()));
    assert_eq!(compare(&shown, &two(), &ticked(&[0], At::FreeText, Some("Offline"))), Err(OTHER_CHOICE));
    assert_eq!(compare(&shown, &two(), &ticked(&[0, 2], At::Submit, Some("Offline"))), Err(OTHER_CHOICE));
    assert_eq!(compare(&shown, &two(), &ticked(&[0, 2], At::FreeText, Some("Online"))), Err(OTHER_TEXT));
    assert_eq!(compare(&shown, &two(), &ticked(&[0, 2], At::FreeText, None)), Err(OTHER_ROWS));
    let submit = shown.replace("❯ 3.", "  3.").replace("     Submit\n─", "❯    Submit\n─");
    for shown in [submit.replace("   Submit\n─", "   Next\n─"), submit] {
        assert_eq!(compare(&shown, &two(), &ticked(&[0, 2], At::Submit, Some("Offline"))), Ok(()));
    }
}

#[test]
fn anything_else_on_the_screen_is_something_else() {
    let differs = |screen: &str| compare(screen, &two(), &untouched()).unwrap_err();
    assert_eq!(differs(""), OTHER_DIALOG);
    assert_eq!(differs(&second_page()), OTHER_DIALOG);
    assert_eq!(differs(&first_page().replace("☐ Many", "☒ Many")), OTHER_DIALOG);
    assert_eq!(differs(&first_page().replace("rather", "very")), OTHER_DIALOG);
    assert_eq!(differs(&first_page().replace("-SQLite", "MySQL")), OTHER_ROWS);
    assert_eq!(differs(&first_page().replace("a file", "a folder")), OTHER_ROWS);
    assert_eq!(differs(&first_page().replace("3. Type something.", "3. Something typed")), OTHER_ROWS);
    assert_eq!(differs(&first_page().replace("❯ 1.", "  1.").replace("  3. T", "❯ 3. T")), OTHER_CHOICE);
    assert_eq!(
        differs(&format!("{}{RULE}\n Bash command\n ❯ 1. Yes\n   2. No\n", first_page())),
        OTHER_DIALOG
    );
    assert_eq!(differs("❯ \n  ? for shortcuts\n"), OTHER_DIALOG);
}

#[test]
fn a_question_with_previews_has_its_own_form() {
    let asked = questions(
        json!([{"question": "Layout?", "header": "Layout", "multi_select": false, "free_text": true, "options": [
        {"label": "A **very** long label that will not fit", "description": "x", "preview": "+--+\n|  |"},
        {"label": "List\nwith newline", "description": "y", "preview": "- a"}]}]),
    );
    let screen = |notes: &str| {
        dialog(
            " ☐ Layout",
            "Layout?",
            &format!(
                "  1. A **very** long label        ┌────────────────┐\n    that will not fit             │ +--+  2. x     │\n❯ 2. List\u{fffd}with newline            └────────────────┘\n\n                                  Notes: {notes}"
            ),
            "Chat about this",
        )
    };
    let page = |typed: Option<&str>| ExpectedScreen::Question {
        index: 0,
        ticked: vec![],
        at: At::Option(1),
        typed: typed.map(str::to_owned),
    };
    assert_eq!(compare(&screen("press n to add notes"), &asked, &page(None)), Ok(()));
    assert_eq!(compare(&screen("Add notes on this design…"), &asked, &page(Some(""))), Ok(()));
    let typed = screen("keep it\n                                  subtle");
    assert_eq!(compare(&typed, &asked, &page(Some("keep it subtle"))), Ok(()));
    assert_eq!(compare(&typed, &asked, &page(None)), Err(OTHER_TEXT));
    let left = ExpectedScreen::Question {
        index: 0,
        ticked: vec![],
        at: At::Noted(1),
        typed: Some("keep it subtle".into()),
    };
    assert_eq!(compare(&typed, &asked, &left), Ok(()));
    let editing = typed.replace("Esc to cancel", "ctrl+g to edit in Vim · Esc to cancel");
    assert_ne!(editing, typed);
    assert_eq!(compare(&editing, &asked, &page(Some("keep it subtle"))), Ok(()));
    assert_eq!(compare(&editing, &asked, &left), Err(OTHER_CHOICE));
    assert_eq!(compare(&screen("press n to add notes"), &asked, &page(Some(""))), Err(OTHER_TEXT));
}

#[test]
fn the_review_page_must_say_what_is_meant_and_nothing_else() {
    let review = |body: &str| {
        format!(
            "{RULE}\n←  ☒ DB  ☒ Many  ✔ Submit  →\n\nReview your answers\n\n{body}\nReady to submit your answers?\n\n❯ 1. Submit answers\n  2. Cancel\n\n\n"
        )
    };
    let body = " │ ● Which DB, given that this question is rather long and will be\n │   wrapped?\n   → -SQLite 日本語 😀 ü\n ● Many?\n   → \"p, q\", Offline\n";
    let page = ExpectedScreen::Review {
        answers: vec![
            vec!["-SQLite 日本語 😀 ü".into()],
            vec!["p, q, Offline".into(), "\"p, q\", Offline".into()],
        ],
    };
    assert_eq!(compare(&review(body), &two(), &page), Ok(()));
    let since_327 = |body: &str| review(body).replace("Ready to submit your answers?\n", "");
    assert_eq!(compare(&since_327(body), &two(), &page), Ok(()));
    let warned_since_327 = format!("⚠ Some questions are unanswered\n{body}");
    assert_eq!(compare(&since_327(&warned_since_327), &two(), &page), Err(OTHER_ANSWERS));
    assert_eq!(compare(&review(&body.replace("Offline", "Online")), &two(), &page), Err(OTHER_ANSWERS));
    assert_eq!(compare(&review(&body.replace("-SQLite", "SQLite")), &two(), &page), Err(OTHER_ANSWERS));
    let warned = format!("⚠ You have not answered all questions\n{body}");
    assert_eq!(compare(&review(&warned), &two(), &page), Err(OTHER_ANSWERS));
    let cancel = review(body).replace("❯ 1.", "  1.").replace("  2. C", "❯ 2. C");
    assert_eq!(compare(&cancel, &two(), &page), Err(OTHER_DIALOG));
    assert_eq!(compare(&first_page(), &two(), &page), Err(OTHER_DIALOG));
}
