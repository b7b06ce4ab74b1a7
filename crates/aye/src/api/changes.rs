//! Changes as they go over the WebSocket.

use crate::hub::conversations::Piece;
use crate::hub::{Change, Subject};
use crate::protocol::Frame;
use aye_core::{Agent, Ask};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The text of a change, written once and shared by all who are sent it. None for one that is too large to be held:
/// that is caught up with from the store.
pub fn text(change: &Change) -> Option<Utf8Bytes> {
    let seq = change.seq;
    let frame: Frame<&Ask, &Agent, &Value> = match &change.subject {
        Subject::Ask(ask) => Frame::Ask { seq, ask: &**ask },
        Subject::Agent(agent) => Frame::Agent { seq, agent: &**agent },
        Subject::Event(agent, event) => Frame::Event { seq, agent: agent.clone(), event },
        Subject::Notice(notice) => Frame::Notice { seq, notice },
        Subject::Large(_) => return None,
    };
    let text = change.text.get_or_init(|| serde_json::to_string(&frame).unwrap_or_default().into());
    Utf8Bytes::try_from(text.clone()).ok()
}

/// So much text goes into one message, in bytes; a longer piece is one by itself.
const MOST_JOINED: usize = 32 * 1024;

/// Pieces of one text that follow each other, to go out as one message: a page takes one message of a hundred lines for
/// little more than one of a single line.
pub struct JoinedPieces {
    all: Piece,
    /// How many characters of the text come before the next piece.
    end: u64,
}

impl JoinedPieces {
    pub fn begin(piece: &Piece) -> Self {
        Self { all: piece.clone(), end: end_of(piece) }
    }

    /// Adds the piece if it goes on where these end, and returns whether it does.
    pub fn join(&mut self, next: &Piece) -> bool {
        let goes_on = next.from == self.end && next.id == self.all.id && next.agent == self.all.agent;
        if !goes_on || self.all.text.len() + next.text.len() > MOST_JOINED {
            return false;
        }
        self.all.text.push_str(&next.text);
        self.end = end_of(next);
        true
    }

    /// Written for each who is sent it: whoever reads more slowly has more of it joined.
    pub fn text(self) -> Utf8Bytes {
        let Piece { agent, id, from, text } = self.all;
        let frame: Frame<&Ask, &Agent, &Value> = Frame::Piece { agent, id, from, text };
        serde_json::to_string(&frame).unwrap_or_default().into()
    }
}

fn end_of(piece: &Piece) -> u64 {
    piece.from.saturating_add(piece.text.chars().count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::AgentId;

    fn piece(agent: &str, id: &str, from: u64, text: &str) -> Piece {
        Piece { agent: AgentId::try_from(agent).unwrap(), id: id.into(), from, text: text.into() }
    }

    #[test]
    fn pieces_that_follow_each_other_are_one_message() {
        let mut joined = JoinedPieces::begin(&piece("a", "t", 3, "d🦀"));
        assert!(joined.join(&piece("a", "t", 5, "f")));
        assert!(joined.join(&piece("a", "t", 6, "g")));
        insta::assert_snapshot!(joined.text().as_str(), @r#"{"type":"piece","agent":"a","id":"t","from":3,"text":"d🦀fg"}"#);
    }

    #[test]
    fn other_texts_other_agents_and_gaps_are_messages_of_their_own() {
        let mut joined = JoinedPieces::begin(&piece("a", "t", 0, "ab"));
        for other in [
            piece("b", "t", 2, "c"),
            piece("a", "u", 2, "c"),
            piece("a", "t", 3, "d"),
            piece("a", "t", 1, "b"),
            piece("a", "t", 2, &"c".repeat(MOST_JOINED)),
        ] {
            assert!(!joined.join(&other), "{other:?}");
        }
        assert!(joined.join(&piece("a", "t", 2, "c")));
    }
}
