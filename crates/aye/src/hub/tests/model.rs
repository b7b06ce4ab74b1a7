//! The hub against the simplest thing that could be right: whatever happens, in whatever order, with
//! crashes in between, it agrees with a small model about every ask.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use store::test_databases::is_postgres;

#[derive(Debug, Clone)]
enum Act {
    Raise { key: u8, timeout: Option<i64> },
    Answer { key: u8, name: &'static str, words: &'static str, idempotency: Option<&'static str> },
    Withdraw { key: u8 },
    Receipt { key: u8, receipt: Receipt },
    Pass { seconds: i64 },
    Crash,
}

#[derive(Debug, Clone, PartialEq)]
enum PlanRuling {
    Open,
    Answered { name: &'static str, words: &'static str, idempotency: Option<&'static str> },
    Expired,
    Withdrawn,
}

struct Modelled {
    ask: Ask,
    deadline: Option<Timestamp>,
    fate: PlanRuling,
    receipt: Option<Receipt>,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = 0u8..4;
    let receipts = prop_oneof![
        Just(Receipt::Delivered),
        Just(Receipt::Confirmed),
        Just(Receipt::Disputed),
        Just(Receipt::Undelivered),
        Just(Receipt::Unknown),
    ];
    let name = prop_oneof![Just("ann"), Just("bob")];
    let words = prop_oneof![Just("yes"), Just("no")];
    let idempotency = prop_oneof![Just(None), Just(Some("i1")), Just(Some("i2"))];
    let act = prop_oneof![
        3 => (key.clone(), prop::option::of(1i64..6)).prop_map(|(key, timeout)| Act::Raise { key, timeout }),
        5 => (key.clone(), name, words, idempotency)
            .prop_map(|(key, name, words, idempotency)| Act::Answer { key, name, words, idempotency }),
        1 => key.clone().prop_map(|key| Act::Withdraw { key }),
        3 => (key, receipts).prop_map(|(key, receipt)| Act::Receipt { key, receipt }),
        2 => (0i64..4).prop_map(|seconds| Act::Pass { seconds }),
        1 => Just(Act::Crash),
    ];
    prop::collection::vec(act, 1..40)
}

/// Which receipts may follow which, spelled out a second time on purpose.
fn may_follow(from: Receipt, to: Receipt) -> bool {
    let next: &[Receipt] = match from {
        Receipt::Pending => &[
            Receipt::Delivered,
            Receipt::Confirmed,
            Receipt::Disputed,
            Receipt::Superseded,
            Receipt::Undelivered,
            Receipt::Unknown,
        ],
        Receipt::Delivered => &[Receipt::Confirmed, Receipt::Disputed, Receipt::Superseded, Receipt::Unknown],
        Receipt::Unknown => &[
            Receipt::Delivered,
            Receipt::Confirmed,
            Receipt::Disputed,
            Receipt::Superseded,
            Receipt::Undelivered,
        ],
        Receipt::Undelivered => &[Receipt::Disputed],
        Receipt::Confirmed | Receipt::Disputed | Receipt::Superseded => &[],
    };
    next.contains(&to)
}

async fn perform(desk: &mut Desk, model: &mut BTreeMap<u8, Modelled>, act: Act) {
    let now = desk.clock.now();
    match act {
        Act::Raise { key, timeout } => {
            let raised = desk.hub.raise(raise("agent", &format!("k{key}"), "1. x", timeout)).await.unwrap();
            match model.get(&key) {
                Some(known) => assert_eq!((raised.new, &raised.ask.id), (false, &known.ask.id)),
                None => {
                    assert!(raised.new);
                    let deadline = timeout.map(|timeout| now + SignedDuration::from_secs(timeout));
                    model.insert(
                        key,
                        Modelled { ask: raised.ask, deadline, fate: PlanRuling::Open, receipt: None },
                    );
                }
            }
        }
        Act::Answer { key, name, words, idempotency } => {
            let Some(known) = model.get_mut(&key) else { return };
            let result = desk.hub.answer(call(&known.ask, name, words, idempotency)).await;
            let late = known.deadline.is_some_and(|deadline| now >= deadline);
            match (&known.fate, result) {
                (PlanRuling::Open, Err(Problem::Refused { refused: Refused::Expired, .. })) if late => {
                    (known.fate, known.receipt) = (PlanRuling::Expired, Some(Receipt::Pending));
                }
                (PlanRuling::Open, Ok(_)) if !late => {
                    known.fate = PlanRuling::Answered { name, words, idempotency };
                    known.receipt = Some(Receipt::Pending);
                }
                (PlanRuling::Answered { words: first, idempotency: Some(same), .. }, Ok(_)) => {
                    assert_eq!((Some(*same), *first), (idempotency, words));
                }
                (PlanRuling::Expired, Err(Problem::Refused { refused: Refused::Expired, .. })) => {}
                (
                    PlanRuling::Answered { words: first, idempotency: same, .. },
                    Err(Problem::Refused { refused: Refused::Ended, .. }),
                ) => {
                    assert!(same.is_none() || *same != idempotency || *first != words);
                }
                (PlanRuling::Withdrawn, Err(Problem::Refused { refused: Refused::Ended, .. })) => {}
                (fate, result) => panic!("{fate:?} was answered with {result:?}"),
            }
        }
        Act::Withdraw { key } => {
            let Some(known) = model.get_mut(&key) else { return };
            let result =
                desk.hub.withdraw(known.ask.id.clone(), agent("agent"), Withdrawal::Cancelled, None).await;
            match known.fate {
                PlanRuling::Open | PlanRuling::Withdrawn => {
                    result.unwrap();
                    known.fate = PlanRuling::Withdrawn;
                }
                PlanRuling::Answered { .. } | PlanRuling::Expired => assert!(result.is_err()),
            }
        }
        Act::Receipt { key, receipt } => {
            let Some(known) = model.get_mut(&key) else { return };
            let delivery = Delivery { receipt, evidence: Some("seen".into()) };
            let result = desk.hub.receipt(known.ask.id.clone(), agent("agent"), delivery).await;
            match known.receipt {
                Some(current) if current == receipt => assert!(result.is_ok()),
                Some(current) if may_follow(current, receipt) => {
                    result.unwrap();
                    known.receipt = Some(receipt);
                }
                Some(_) | None => assert!(result.is_err()),
            }
        }
        Act::Pass { seconds } => {
            desk.pass(seconds).await;
            let now = desk.clock.now();
            for known in model.values_mut() {
                if known.fate == PlanRuling::Open && known.deadline.is_some_and(|deadline| now >= deadline) {
                    (known.fate, known.receipt) = (PlanRuling::Expired, Some(Receipt::Pending));
                }
            }
        }
        Act::Crash => desk.crash_and_restart().await,
    }
}

async fn agrees(desk: &Desk, model: &BTreeMap<u8, Modelled>) {
    for known in model.values() {
        let ask = desk.hub.ask(&known.ask.id).await.unwrap();
        assert_eq!(ask.state.receipt(), known.receipt);
        match (&known.fate, &ask.state) {
            (PlanRuling::Open, State::Open)
            | (PlanRuling::Expired, State::Expired { .. })
            | (PlanRuling::Withdrawn, State::Withdrawn { .. }) => {}
            (PlanRuling::Answered { name, words, .. }, State::Answered { answer, by, .. }) => {
                assert_eq!(answer.to_json(), denial(words));
                assert_eq!(by, &call(&ask, name, words, None).by);
            }
            (fate, state) => panic!("the model says {fate:?}, the hub {state:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if is_postgres() { 8 } else { 48 }, ..ProptestConfig::default() })]

    #[test]
    fn the_hub_agrees_with_the_model_through_crashes(acts in acts()) {
        on_a_runtime(async { check(Desk::new().await, acts).await });
    }
}

fn on_a_runtime(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work);
}

async fn check(mut desk: Desk, acts: Vec<Act>) {
    let mut model = BTreeMap::new();
    for act in acts {
        perform(&mut desk, &mut model, act).await;
        agrees(&desk, &model).await;
    }
    desk.hub.inner.store.catch_up().await.unwrap();
    assert_eq!(desk.verified().unwrap().asks, model.len() as u64);
}
