//! Changes as they go over the WebSocket.

use crate::hub::{Change, Subject};
use aye_core::{Agent, AgentId, Ask};
use serde::Serialize;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Utf8Bytes;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame<'a> {
    Ask { seq: u64, ask: &'a Ask },
    Agent { seq: u64, agent: &'a Agent },
    Event { seq: u64, agent: &'a AgentId, event: &'a Value },
    Notice { seq: u64, notice: &'a Value },
}

/// The text of a change, written once and shared by all who are sent it. None for one that is too large to be held:
/// that is caught up with from the store.
pub fn text(change: &Change) -> Option<Utf8Bytes> {
    let seq = change.seq;
    let frame = match &change.subject {
        Subject::Ask(ask) => Frame::Ask { seq, ask },
        Subject::Agent(agent) => Frame::Agent { seq, agent },
        Subject::Event(agent, event) => Frame::Event { seq, agent, event },
        Subject::Notice(notice) => Frame::Notice { seq, notice },
        Subject::Large(_) => return None,
    };
    let text = change.text.get_or_init(|| serde_json::to_string(&frame).unwrap_or_default().into());
    Utf8Bytes::try_from(text.clone()).ok()
}
