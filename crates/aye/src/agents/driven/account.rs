//! The account of a run, in the order of events: for the terminal it runs in, and for every other surface.

pub use crate::protocol::{RefusedCall, Tokens, Turn};

use crate::protocol::{ConversationEvent, Image, Resolution};
use aye_core::{AskId, AskView, Decision, Receipt};
use serde_json::{Value, json};
use std::time::Duration;

/// What a tool printed is told up to here; the agent itself has all of it.
const LONGEST_RESULT: usize = 10_000;
/// Anything else that is said is told up to here, so that one event never crowds out the others.
const LONGEST_TEXT: usize = 20_000;
/// The same for the reason of a refused call.
const LONGEST_REASON: usize = 1_000;

/// All pictures of a result together, in base64; what is larger is left out.
const LARGEST_IMAGES: usize = 150 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// A prompt went to the agent.
    Prompt(String),
    /// The agent speaks; this is how the text named `id` goes on.
    Speaks {
        id: String,
        delta: String,
    },
    /// What it said in the end, whole.
    Said {
        id: String,
        text: String,
    },
    ToolStarted {
        id: String,
        name: String,
        input: Value,
        sub_agent: Option<String>,
    },
    ToolEnded {
        id: String,
        failed: bool,
        text: String,
        images: Vec<Image>,
        /// Known to the run, which remembers when the call began and whose it is.
        took: Option<Duration>,
        sub_agent: Option<String>,
    },
    Asked(Box<AskView>),
    /// How an ask ended, in the words of the hub.
    AskEnded {
        ask: AskId,
        resolution: Resolution,
    },
    /// The agent no longer wants to know.
    Withdrawn {
        ask: AskId,
    },
    /// A rule decided, and nobody was asked.
    Decided {
        tool: String,
        decision: Decision,
        rule: String,
    },
    NotConfirmed {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
    },
    Turn(Turn),
    /// The agent refused a call without asking anybody.
    RefusedItself(RefusedCall),
    Trouble(String),
    /// Whether the agent works, as the hub says; of a session in its own terminal nothing else does.
    Works(bool),
    /// A hint for the person at the terminal of this run.
    Hint(String),
    Ended {
        code: Option<i32>,
    },
}

impl RunEvent {
    /// What another surface was told by [`RunEvent::event`]; none where that is newer than this program.
    pub fn read(event: &Value) -> Option<Self> {
        let whole = |text: String, left_out: usize| match left_out {
            0 => text,
            left_out => format!("{text}\n… {left_out} characters are left out here"),
        };
        Some(match ConversationEvent::read(event) {
            ConversationEvent::Prompt { text, left_out } => RunEvent::Prompt(whole(text, left_out)),
            ConversationEvent::Text { id, delta: Some(delta), .. } => RunEvent::Speaks { id, delta },
            ConversationEvent::Text { id, text: Some(text), left_out, .. } => {
                RunEvent::Said { id, text: whole(text, left_out) }
            }
            ConversationEvent::Tool { id, name, input, sub_agent, .. } => {
                RunEvent::ToolStarted { id, name, input, sub_agent }
            }
            ConversationEvent::ToolResult { id, failed, text, duration_ms, sub_agent, .. } => {
                let (images, took) = (Vec::new(), duration_ms.map(Duration::from_millis));
                RunEvent::ToolEnded { id, failed, text, images, took, sub_agent }
            }
            ConversationEvent::Turn { mut turn, left_out } => {
                turn.text = turn.text.map(|text| whole(text, left_out));
                RunEvent::Turn(turn)
            }
            ConversationEvent::Trouble { text, left_out } => RunEvent::Trouble(whole(text, left_out)),
            ConversationEvent::RefusedItself { call, .. } => RunEvent::RefusedItself(call),
            ConversationEvent::Ended { code } => RunEvent::Ended { code },
            ConversationEvent::Text { .. } | ConversationEvent::Other => return None,
        })
    }

    /// As other surfaces get it; asks they see by themselves.
    pub fn event(&self) -> Option<ConversationEvent> {
        Some(match self {
            RunEvent::Prompt(text) => {
                let (text, left_out) = beginning(text, LONGEST_TEXT);
                ConversationEvent::Prompt { text, left_out }
            }
            RunEvent::Speaks { id, delta } => piece(id, None, delta),
            RunEvent::Said { id, text } => {
                let (text, left_out) = beginning(text, LONGEST_TEXT);
                ConversationEvent::Text {
                    id: id.clone(),
                    delta: None,
                    from: None,
                    text: Some(text),
                    partial: false,
                    left_out,
                }
            }
            RunEvent::ToolStarted { id, name, input, sub_agent } => {
                let (id, name, sub_agent) = (id.clone(), name.clone(), sub_agent.clone());
                let (input, left_out) = cut_input(input);
                ConversationEvent::Tool { id, name, input, sub_agent, left_out }
            }
            RunEvent::ToolEnded { id, failed, text, images, took, sub_agent } => {
                let (text, left_out) = beginning(text, LONGEST_RESULT);
                let mut room = LARGEST_IMAGES;
                let shown = images.iter().take_while(|image| {
                    let fits = image.data.len() <= room;
                    room = room.saturating_sub(image.data.len());
                    fits
                });
                let shown: Vec<_> = shown.cloned().collect();
                ConversationEvent::ToolResult {
                    id: id.clone(),
                    failed: *failed,
                    text,
                    left_out,
                    images_left_out: images.len() - shown.len(),
                    images: shown,
                    duration_ms: took.map(|took| took.as_millis() as u64),
                    sub_agent: sub_agent.clone(),
                }
            }
            RunEvent::Turn(turn) => {
                let said = turn.text.as_ref().map(|text| beginning(text, LONGEST_TEXT));
                let (text, left_out) = said.map_or((None, 0), |(text, left_out)| (Some(text), left_out));
                ConversationEvent::Turn { turn: Turn { text, ..turn.clone() }, left_out }
            }
            RunEvent::Trouble(words) => {
                let (text, left_out) = beginning(words, LONGEST_TEXT);
                ConversationEvent::Trouble { text, left_out }
            }
            RunEvent::RefusedItself(call) => {
                let (input, left_out) = cut_input(&call.input);
                let (reason, _) = beginning(&call.reason, LONGEST_REASON);
                ConversationEvent::RefusedItself {
                    call: RefusedCall { input, reason, ..call.clone() },
                    left_out,
                }
            }
            RunEvent::Ended { code } => ConversationEvent::Ended { code: *code },
            RunEvent::Asked(_)
            | RunEvent::AskEnded { .. }
            | RunEvent::Withdrawn { .. }
            | RunEvent::Decided { .. }
            | RunEvent::Works(_)
            | RunEvent::Hint(_)
            | RunEvent::NotConfirmed { .. } => return None,
        })
    }
}

/// How a text goes on after so many characters.
pub fn piece(id: &str, from: Option<u64>, delta: &str) -> ConversationEvent {
    let (delta, left_out) = beginning(delta, LONGEST_TEXT);
    ConversationEvent::Text {
        id: id.to_owned(),
        delta: Some(delta),
        from,
        text: None,
        partial: false,
        left_out,
    }
}

fn cut_input(input: &Value) -> (Value, usize) {
    match beginning(&input.to_string(), LONGEST_TEXT) {
        (_, 0) => (input.clone(), 0),
        (start, left_out) => (json!({ "cut": start }), left_out),
    }
}

/// As much of a text as is told, and how many characters are missing then.
fn beginning(text: &str, longest: usize) -> (String, usize) {
    match text.char_indices().nth(longest) {
        Some((end, _)) => (text[..end].to_owned(), text[end..].chars().count()),
        None => (text.to_owned(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the hub takes in one call.
    const MOST_BYTES: usize = 256 * 1024;

    fn pictures() -> Vec<Image> {
        let data = || "A".repeat(LARGEST_IMAGES / 2);
        std::iter::repeat_with(|| Image { media_type: "image/png".into(), data: data() }).take(3).collect()
    }

    #[test]
    fn pictures_are_told_as_far_as_they_fit() {
        let told = RunEvent::ToolEnded {
            id: "t".into(),
            failed: false,
            text: String::new(),
            images: pictures(),
            took: None,
            sub_agent: None,
        };
        let event = json!(told.event().unwrap());
        assert_eq!((event["images"].as_array().unwrap().len(), &event["images_left_out"]), (2, &json!(1)));
    }

    #[test]
    fn no_event_is_too_long_to_be_told_and_each_says_what_is_missing() {
        // The worst a character can become in JSON, where the input of a tool is a string within a string.
        let long = "\u{1}".repeat(400_000);
        let id = || "t".to_owned();
        let turn = Turn { text: Some(long.clone()), ..Turn::default() };
        let input = json!({ "content": long });
        for told in [
            RunEvent::Prompt(long.clone()),
            RunEvent::Speaks { id: id(), delta: long.clone() },
            RunEvent::Said { id: id(), text: long.clone() },
            RunEvent::ToolStarted { id: id(), name: "Write".into(), input, sub_agent: None },
            RunEvent::ToolEnded {
                id: id(),
                failed: false,
                text: long.clone(),
                images: pictures(),
                took: None,
                sub_agent: None,
            },
            RunEvent::Turn(turn),
            RunEvent::Trouble(long.clone()),
        ] {
            let event = json!(told.event().unwrap());
            assert!(event.to_string().len() < MOST_BYTES, "{}", event["type"]);
            assert!(event["left_out"].as_u64() >= Some(380_000), "{}", event["type"]);
        }
    }

    #[test]
    fn what_is_told_is_read_back() {
        let (id, tokens) =
            (|| "t".to_owned(), Tokens { input: 1, output: 2, cache_read: 3, cache_written: 4 });
        let turn = Turn {
            failed: true,
            cost: Some(0.5),
            turns: Some(2),
            duration_ms: Some(7),
            text: Some("x".into()),
            tokens,
        };
        for told in [
            RunEvent::Prompt("go".into()),
            RunEvent::Speaks { id: id(), delta: "wo".into() },
            RunEvent::Said { id: id(), text: "words".into() },
            RunEvent::ToolStarted {
                id: id(),
                name: "Bash".into(),
                input: json!({"command": "ls"}),
                sub_agent: Some("s".into()),
            },
            RunEvent::ToolEnded {
                id: id(),
                failed: true,
                text: "no".into(),
                images: vec![],
                took: Some(Duration::from_millis(9)),
                sub_agent: Some("s".into()),
            },
            RunEvent::Turn(turn),
            RunEvent::Trouble("no".into()),
            RunEvent::Ended { code: None },
        ] {
            assert_eq!(RunEvent::read(&json!(told.event())), Some(told));
        }
        let cut = RunEvent::Prompt("x".repeat(LONGEST_TEXT + 5)).event().unwrap();
        assert!(
            matches!(RunEvent::read(&json!(cut)), Some(RunEvent::Prompt(text)) if text.ends_with("… 5 characters are left out here"))
        );
        assert_eq!(RunEvent::read(&json!({"type": "newer"})), None);
    }

    #[test]
    fn what_is_short_is_told_whole() {
        let input = json!({"command": "ls"});
        let told =
            RunEvent::ToolStarted { id: "t".into(), name: "Bash".into(), input, sub_agent: Some("s".into()) };
        let whole =
            json!({"type": "tool", "id": "t", "name": "Bash", "input": {"command": "ls"}, "sub_agent": "s"});
        assert_eq!(json!(told.event()), whole);
        let said = RunEvent::Said { id: "x".into(), text: "é".repeat(LONGEST_TEXT) };
        assert_eq!(json!(said.event()).get("left_out"), None);
    }
}
