use super::super::actions::Action;
use super::super::memory::{Content, SentMessage, Side, SideKind};
use serde_json::Value;

/// What earlier versions remembered, and what the store makes of it.
const MIGRATED: &str = include_str!("../../../store/sqlite/migrations/0012_messages.json");

#[test]
fn messages_of_earlier_versions_keep_their_buttons_and_what_was_filled_in() {
    let migrated: Vec<Value> = serde_json::from_str(MIGRATED).unwrap();
    let read = |row: &Value| serde_json::from_value::<SentMessage>(row["after"].clone()).unwrap();
    let messages: Vec<_> = migrated.iter().map(read).collect();
    let [ask, run, list] = &messages[..] else { panic!("three messages") };
    assert_eq!((ask.message, &ask.tokens["t"]), (Some(5), &Action::Pick { question: 0, option: 1 }));
    assert_eq!(ask.sides, [Side { message: Some(6), what: SideKind::Part { question: 0 } }]);
    let shown = ask.as_ask().unwrap();
    assert_eq!((shown.draft.at, shown.decided.as_deref()), (1, Some("Approved by Ann")));
    assert_eq!((run.as_run().unwrap().since, run.settled, run.lost), (7, true, true));
    assert_eq!((&run.tokens["t"], run.is_shown_by(9)), (&Action::Stop, true));
    assert!(matches!(&list.shows, Content::List(shown) if shown.asks.len() == 1 && !shown.opened));
    assert!(matches!(&list.tokens["t"], Action::Show { .. }));
}
