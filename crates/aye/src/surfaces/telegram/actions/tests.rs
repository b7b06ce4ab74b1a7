use super::*;
use crate::surfaces::form::{Entry, INCOMPLETE, NOTHING_PICKED, Typing, typed};
use aye_core::{Answer, Can, Kind};

fn body() -> Body {
    let options = json!([{"label": "a, b"}, {"label": "c"}, {"label": "d"}]);
    let questions = json!({"questions": [
        {"question": "One?", "options": options, "free_text": true},
        {"question": "Many?", "options": options, "multi_select": true, "free_text": true},
        {"question": "Own?", "free_text": true},
        {"question": "Fixed?", "options": options}]});
    Body::decode(Kind::Question, questions).unwrap()
}

const ANN: Who = Who { user: 1, name: "Ann" };
const BOB: Who = Who { user: 2, name: "Bob" };

#[track_caller]
fn on(next: FormStep) -> Draft {
    match next {
        FormStep::Draft(draft) => draft,
        FormStep::Answer(_) | FormStep::Stale(_) => panic!("{next:?}"),
    }
}

#[test]
fn a_form_is_filled_by_picks_toggles_texts_and_notes_and_fits_its_ask() {
    let body = body();
    let go = |draft: Draft, action: Action| press(&body, draft, &action, ANN);
    let draft = on(go(Draft::default(), Action::Notes { question: 0 }));
    let draft = on(typed(&body, &Can::default(), draft, ANN, "subtle "));
    let draft = on(go(draft, Action::Pick { question: 0, option: 1 }));
    let draft = on(go(draft, Action::Toggle { question: 1, option: 2 }));
    let draft = on(go(draft, Action::Toggle { question: 1, option: 1 }));
    let draft = on(go(draft, Action::Toggle { question: 1, option: 1 }));
    let draft = on(go(draft, Action::Toggle { question: 1, option: 0 }));
    let draft = on(go(draft, Action::Words { question: 1 }));
    let draft = on(typed(&body, &Can::default(), draft, ANN, "and mine"));
    let draft = on(go(draft, Action::Done { question: 1 }));
    let draft = on(typed(&body, &Can::default(), draft, ANN, "freely"));
    let draft = on(go(draft, Action::Skip { question: 3 }));
    assert_eq!(draft.at, 4, "all of it is shown before it is sent");
    let FormStep::Answer(answer) = go(draft, Action::Send) else { panic!("no answer") };
    assert_eq!(
        answer,
        json!({"answers": [
            {"selected": ["c"], "notes": "subtle"},
            {"selected": ["a, b", "d"], "text": "and mine"},
            {"selected": [], "text": "freely"},
            {"skip": true}]})
    );
    Answer::read(&body, answer).unwrap();
}

#[test]
fn back_keeps_what_was_chosen_and_a_new_choice_replaces_it() {
    let body = body();
    let draft = on(press(&body, Draft::default(), &Action::Pick { question: 0, option: 1 }, ANN));
    let draft = on(press(&body, draft, &Action::Back { question: 1 }, ANN));
    assert_eq!((draft.at, draft.entry(0).picks), (0, vec![1]));
    let draft = Draft { at: 0, ..draft };
    let draft = on(typed(&body, &Can::default(), draft, ANN, "other"));
    assert_eq!(
        draft.entry(0),
        Entry { text: Some("other".into()), by: Some("Ann".into()), ..Entry::default() }
    );
    let draft = on(press(&body, draft, &Action::Back { question: 1 }, ANN));
    let draft = on(press(&body, draft, &Action::Pick { question: 0, option: 2 }, ANN));
    assert_eq!(draft.entry(0), Entry { picks: vec![2], by: Some("Ann".into()), ..Entry::default() });
}

#[test]
fn a_change_after_the_review_leads_back_to_it_and_nothing_is_sent_without_an_answer() {
    let body = body();
    let mut draft = Draft::default();
    for question in 0..4 {
        draft = on(press(&body, draft, &Action::Skip { question }, ANN));
    }
    let draft = on(press(&body, draft, &Action::Change { question: 1 }, BOB));
    let draft = on(press(&body, draft, &Action::Toggle { question: 1, option: 0 }, BOB));
    assert_eq!(press(&body, draft.clone(), &Action::Send, BOB), FormStep::Stale(NO_LONGER));
    assert!(draft.is_shared());
    let done = on(press(&body, draft.clone(), &Action::Done { question: 1 }, BOB));
    assert_eq!(done.at, 4);
    // Taken off again, and left by the way back.
    let draft = on(press(&body, draft, &Action::Toggle { question: 1, option: 0 }, BOB));
    let draft = on(press(&body, draft, &Action::Back { question: 1 }, BOB));
    let draft = on(press(&body, draft, &Action::Pick { question: 0, option: 0 }, BOB));
    assert_eq!(draft.at, 1, "it has no answer now");
    let forced = Draft { at: 4, ..draft };
    assert_eq!(press(&body, forced, &Action::Send, BOB), FormStep::Stale(INCOMPLETE));
}

#[test]
fn a_button_of_an_earlier_question_does_nothing_to_the_next() {
    let body = body();
    let draft = on(press(&body, Draft::default(), &Action::Pick { question: 0, option: 1 }, ANN));
    let again = press(&body, draft, &Action::Pick { question: 0, option: 0 }, ANN);
    assert_eq!(again, FormStep::Stale(MOVED_ON));
}

#[test]
fn done_needs_something_picked() {
    let draft = Draft { at: 1, ..Draft::default() };
    assert_eq!(press(&body(), draft, &Action::Done { question: 1 }, ANN), FormStep::Stale(NOTHING_PICKED));
}

#[test]
fn a_tap_instead_of_the_text_it_waited_for_ends_the_waiting() {
    let body = body();
    let draft = on(press(&body, Draft::default(), &Action::Words { question: 0 }, ANN));
    assert_eq!(draft.typing, Some(Typing { user: 1, name: "Ann".into(), what: TextKind::Words }));
    let draft = on(press(&body, draft, &Action::Pick { question: 0, option: 0 }, ANN));
    assert_eq!((draft.at, draft.typing), (1, None));
}

#[test]
fn words_alone_neither_allow_nor_deny() {
    let plan = Body::decode(Kind::Plan, json!({"plan": "x"})).unwrap();
    assert!(matches!(typed(&plan, &Can::default(), Draft::default(), ANN, "yes, go"), FormStep::Stale(_)));
    let waiting = on(press(&plan, Draft::default(), &Action::DenyWhy, ANN));
    assert!(matches!(typed(&plan, &Can::default(), waiting.clone(), BOB, "mine"), FormStep::Stale(_)));
    assert_eq!(
        typed(&plan, &Can::default(), waiting, ANN, "smaller"),
        FormStep::Answer(json!({"decision": "deny", "message": "smaller"}))
    );
}

#[test]
fn a_question_without_free_text_takes_none() {
    let draft = Draft { at: 3, ..Draft::default() };
    assert!(matches!(typed(&body(), &Can::default(), draft, ANN, "mine"), FormStep::Stale(_)));
}
