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

/// A piece of a text, written for each who is sent it: it is short.
pub fn piece(piece: &Piece) -> Utf8Bytes {
    let Piece { agent, id, from, text } = piece.clone();
    let frame: Frame<&Ask, &Agent, &Value> = Frame::Piece { agent, id, from, text };
    serde_json::to_string(&frame).unwrap_or_default().into()
}
