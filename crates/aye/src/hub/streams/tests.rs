//! What is held of texts that stream, without a store.

use super::*;

fn agent() -> AgentId {
    AgentId::try_from("a").unwrap()
}

/// Streams that hold the beginning of one text.
fn holding(text: &str) -> Streams {
    let streams = Streams::default();
    let texts = vec![Streaming::kept("t", text.to_owned())];
    let taken = Taken { texts, over: Vec::new(), made_room: 0, first: Vec::new(), last: Vec::new() };
    streams.settle(&agent(), taken);
    streams
}

fn go_on(streams: &Streams, from: u64, text: &str) {
    let event = json!({ "type": "text", "id": "t", "from": from, "delta": text });
    assert!(streams.go_on(&agent(), &[event], true).is_some());
}

fn to_write(streams: &Streams) -> Option<Unwritten> {
    streams.unwritten(streams.names_of_unwritten(None).pop()?)
}

#[test]
fn a_version_that_was_not_written_is_written_again_and_so_is_what_came_meanwhile() {
    let streams = holding("one ");
    assert!(to_write(&streams).is_none());
    go_on(&streams, 4, "two ");
    // Its transaction is rolled back, and nothing is said of it.
    assert_eq!(to_write(&streams).unwrap().text, "one two ");
    let version = to_write(&streams).unwrap();
    go_on(&streams, 8, "three");
    streams.written(&version, SoFar::Written);
    let version = to_write(&streams).unwrap();
    assert_eq!(version.text, "one two three");
    streams.written(&version, SoFar::Written);
    assert!(to_write(&streams).is_none());
}

#[test]
fn more_that_another_hub_wrote_is_taken_over_and_a_text_that_is_over_is_forgotten() {
    let streams = holding("one ");
    go_on(&streams, 4, "two");
    streams.written(&to_write(&streams).unwrap(), SoFar::Kept("one two three".to_owned()));
    assert!(to_write(&streams).is_none());
    go_on(&streams, 13, " four");
    let version = to_write(&streams).unwrap();
    assert_eq!(version.text, "one two three four");
    streams.written(&version, SoFar::Over);
    assert_eq!(streams.agents(), 0);
}

#[test]
fn texts_of_an_agent_that_left_another_hub_are_written_and_then_forgotten() {
    let streams = holding("one ");
    go_on(&streams, 4, "two");
    streams.let_go(&agent());
    streams.written(&to_write(&streams).unwrap(), SoFar::Written);
    assert_eq!(streams.agents(), 0);
    let streams = holding("one");
    streams.let_go(&agent());
    assert_eq!(streams.agents(), 0);
}

#[test]
fn what_comes_after_a_gap_is_added_when_the_gap_is_closed() {
    let streams = holding("one ");
    go_on(&streams, 8, "three");
    go_on(&streams, 13, " four");
    assert!(to_write(&streams).is_none());
    go_on(&streams, 4, "tw");
    streams.written(&to_write(&streams).unwrap(), SoFar::Kept("one two th".to_owned()));
    assert_eq!(to_write(&streams).unwrap().text, "one two three four");
    for n in 0..1_000 {
        go_on(&streams, 100 + 2 * n, "x");
    }
    assert!(streams.text(&agent(), "t").unwrap().ahead.len() <= MOST_AHEAD);
}

#[test]
fn a_text_that_is_too_long_is_kept_up_to_a_whole_character_and_never_with_a_gap() {
    let mut text = Streaming::kept("t", "x".repeat(LONGEST_SO_FAR - 1));
    for delta in ["é", "y", "z"] {
        text.add(Delta { id: "t", from: None, text: delta });
    }
    assert_eq!(text.text.len(), LONGEST_SO_FAR - 1);
    let mut text = Streaming::kept("t", "x".repeat(LONGEST_SO_FAR - 5));
    for delta in ["abc", "é漢", "y"] {
        text.add(Delta { id: "t", from: None, text: delta });
    }
    assert!(text.text.ends_with("xabcé") && text.text.len() == LONGEST_SO_FAR);
    assert_eq!(text.characters, LONGEST_SO_FAR as u64 - 5 + 6);
}
