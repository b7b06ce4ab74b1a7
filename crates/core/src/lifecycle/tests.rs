use super::*;
use crate::answer::PlanVerdict;
use crate::ids::Text;
use crate::who::Surface;
use proptest::prelude::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn person(name: &str) -> By {
    By::Person { name: Text::try_from(name).unwrap(), surface: Surface::Terminal }
}

fn saying(words: &str) -> Answer {
    Answer::Plan(PlanVerdict::Deny { message: Some(Text::try_from(words).unwrap()) })
}

fn answer(name: &str, words: &str, key: Option<&str>) -> AskEvent {
    AskEvent::Answer {
        answer: saying(words),
        by: person(name),
        key: key.map(|key| AnswerKey::try_from(key).unwrap()),
    }
}

fn receipt(receipt: Receipt) -> AskEvent {
    AskEvent::Receipt(Delivery { receipt, evidence: None })
}

#[track_caller]
fn changed(state: &State, event: AskEvent) -> State {
    match step(state, None, event, at(1)) {
        Ok(Step::Changed(state)) => state,
        other => panic!("expected a change, got {other:?}"),
    }
}

#[test]
fn second_answer_is_refused_and_the_first_stays() {
    let answered = changed(&State::Open, answer("ann", "yes", None));
    assert_eq!(step(&answered, None, answer("bob", "no", None), at(2)), Err(Refused::Ended));
    assert_eq!(answered.by(), Some(&person("ann")));
}

#[test]
fn the_same_answer_under_the_same_key_counts_once() {
    let answered = changed(&State::Open, answer("ann", "yes", Some("k1")));
    assert_eq!(step(&answered, None, answer("ann", "yes", Some("k1")), at(2)), Ok(Step::Unchanged));
    assert_eq!(step(&answered, None, answer("ann", "no", Some("k1")), at(2)), Err(Refused::Ended));
    assert_eq!(step(&answered, None, answer("ann", "yes", Some("k2")), at(2)), Err(Refused::Ended));
    assert_eq!(step(&answered, None, answer("ann", "yes", None), at(2)), Err(Refused::Ended));
}

#[test]
fn an_answer_a_moment_before_the_deadline_wins_and_one_at_it_is_too_late() {
    let deadline = Some(at(10));
    let words = || answer("ann", "yes", None);
    assert!(matches!(step(&State::Open, deadline, words(), at(9)), Ok(Step::Changed(_))));
    assert_eq!(step(&State::Open, deadline, words(), at(10)), Err(Refused::Expired));
    assert_eq!(step(&State::Open, deadline, AskEvent::Expire(Expiry::Deadline), at(9)), Err(Refused::NotDue));
    assert_eq!(step(&State::Open, None, AskEvent::Expire(Expiry::Deadline), at(9)), Err(Refused::NotDue));
    assert!(matches!(
        step(&State::Open, deadline, AskEvent::Expire(Expiry::Deadline), at(10)),
        Ok(Step::Changed(State::Expired { .. }))
    ));
}

#[test]
fn receipts_only_ever_say_more() {
    let answered = changed(&State::Open, answer("ann", "yes", None));
    let delivered = changed(&answered, receipt(Receipt::Delivered));
    let confirmed = changed(&delivered, receipt(Receipt::Confirmed));
    assert_eq!(step(&confirmed, None, receipt(Receipt::Confirmed), at(2)), Ok(Step::Unchanged));
    assert_eq!(
        step(&confirmed, None, receipt(Receipt::Unknown), at(2)),
        Err(Refused::Receipt { from: Receipt::Confirmed, to: Receipt::Unknown })
    );
    assert_eq!(
        step(&delivered, None, receipt(Receipt::Undelivered), at(2)),
        Err(Refused::Receipt { from: Receipt::Delivered, to: Receipt::Undelivered })
    );
    let unknown = changed(&delivered, receipt(Receipt::Unknown));
    assert_eq!(changed(&unknown, receipt(Receipt::Disputed)).receipt(), Some(Receipt::Disputed));
    let undelivered = changed(&answered, receipt(Receipt::Undelivered));
    assert_eq!(changed(&undelivered, receipt(Receipt::Disputed)).receipt(), Some(Receipt::Disputed));
    assert_eq!(
        step(&undelivered, None, receipt(Receipt::Confirmed), at(2)),
        Err(Refused::Receipt { from: Receipt::Undelivered, to: Receipt::Confirmed })
    );
}

#[test]
fn what_was_withdrawn_has_no_receipt() {
    let gone = AskEvent::Withdraw { why: Withdrawal::Gone, answer: None };
    let withdrawn = changed(&State::Open, gone.clone());
    assert_eq!(step(&withdrawn, None, gone, at(2)), Ok(Step::Unchanged));
    assert_eq!(step(&withdrawn, None, receipt(Receipt::Delivered), at(2)), Err(Refused::NothingSent));
    assert_eq!(step(&State::Open, None, receipt(Receipt::Delivered), at(2)), Err(Refused::NothingSent));
}

fn any_event() -> impl Strategy<Value = AskEvent> {
    let receipts = prop_oneof![
        Just(Receipt::Pending),
        Just(Receipt::Delivered),
        Just(Receipt::Confirmed),
        Just(Receipt::Disputed),
        Just(Receipt::Superseded),
        Just(Receipt::Undelivered),
        Just(Receipt::Unknown),
    ];
    let keys = prop_oneof![Just(None), Just(Some("k1")), Just(Some("k2"))];
    prop_oneof![
        3 => ("[ab]", "[yn]", keys).prop_map(|(name, words, key)| answer(&name, &words, key)),
        1 => prop_oneof![Just(Expiry::Deadline), Just(Expiry::Unattended)].prop_map(AskEvent::Expire),
        1 => prop_oneof![Just(Withdrawal::Terminal), Just(Withdrawal::Cancelled), Just(Withdrawal::Gone)]
            .prop_map(|why| AskEvent::Withdraw { why, answer: None }),
        3 => receipts.prop_map(receipt),
    ]
}

proptest! {
    /// Whatever happens in whatever order: an ask ends at most once, and its end never changes.
    #[test]
    fn an_ask_ends_once_and_stays_ended(
        deadline in prop::option::of(0i64..20),
        events in prop::collection::vec((any_event(), 0i64..3), 0..40),
    ) {
        let deadline = deadline.map(at);
        let mut state = State::Open;
        let mut now = 0;
        let mut ended = None;
        for (event, pause) in events {
            now += pause;
            let was_open = state.is_open();
            let is_answer = matches!(event, AskEvent::Answer { .. });
            if let Ok(Step::Changed(next)) = step(&state, deadline, event, at(now)) {
                prop_assert!(!is_answer || was_open, "an ended ask took an answer");
                prop_assert!(!(is_answer && deadline.is_some_and(|d| at(now) >= d)), "a late answer was taken");
                state = next;
            }
            let end = (state.name(), state.answer().cloned(), state.by().cloned(), state.ended_at());
            match &ended {
                Some(first) => prop_assert_eq!(first, &end),
                None if !state.is_open() => ended = Some(end),
                None => {}
            }
        }
    }
}
