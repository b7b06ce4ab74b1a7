//! The account of a run, in the order of events: for the terminal it runs in, and for every other surface.

use crate::protocol::{Image, Resolution};
use aye_core::{AskId, AskView, Decision, Receipt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// What a tool printed is told up to here; the agent itself has all of it.
const LONGEST_RESULT: usize = 10_000;
/// Anything else that is said is told up to here, so that one event never crowds out the others.
const LONGEST_TEXT: usize = 20_000;

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
        took: Option<Duration>,
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
    Doubt {
        ask: AskId,
        receipt: Receipt,
        evidence: String,
    },
    Turn(Turn),
    Trouble(String),
    /// Something to know for whoever sits where the run is shown.
    Hint(String),
    Ended {
        code: Option<i32>,
    },
}

/// The end of a turn, as far as the agent tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    pub failed: bool,
    pub text: Option<String>,
    /// In dollars.
    pub cost: Option<f64>,
    pub turns: Option<u64>,
    pub duration_ms: Option<u64>,
    pub tokens: Tokens,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_written: u64,
}

impl RunEvent {
    /// What another surface was told by [`RunEvent::event`]; none where that is newer than this program.
    pub fn read(event: &Value) -> Option<Self> {
        let text = |field: &str| event[field].as_str().map(str::to_owned);
        let missing = match event["left_out"].as_u64() {
            None | Some(0) => String::new(),
            Some(left_out) => format!("\n… {left_out} characters are left out here"),
        };
        let whole = |field: &str| text(field).map(|text| text + &missing);
        Some(match event["type"].as_str()? {
            "prompt" => RunEvent::Prompt(whole("text")?),
            "text" => match text("delta") {
                Some(delta) => RunEvent::Speaks { id: text("id")?, delta },
                None => RunEvent::Said { id: text("id")?, text: whole("text")? },
            },
            "tool" => RunEvent::ToolStarted {
                id: text("id")?,
                name: text("name")?,
                input: event["input"].clone(),
                sub_agent: text("sub_agent"),
            },
            "tool_result" => RunEvent::ToolEnded {
                id: text("id")?,
                failed: event["failed"] == true,
                text: text("text").unwrap_or_default(),
                images: Vec::new(),
                took: event["duration_ms"].as_u64().map(Duration::from_millis),
            },
            "turn" => RunEvent::Turn(Turn {
                failed: event["error"] == true,
                text: whole("text"),
                cost: event["cost"].as_f64(),
                turns: event["turns"].as_u64(),
                duration_ms: event["duration_ms"].as_u64(),
                tokens: serde_json::from_value(event["tokens"].clone()).unwrap_or_default(),
            }),
            "trouble" => RunEvent::Trouble(whole("text")?),
            "ended" => {
                RunEvent::Ended { code: event["code"].as_i64().and_then(|code| i32::try_from(code).ok()) }
            }
            _ => return None,
        })
    }

    /// As other surfaces get it; asks they see by themselves.
    pub fn event(&self) -> Option<Value> {
        Some(match self {
            RunEvent::Prompt(text) => cut(json!({ "type": "prompt" }), "text", text, LONGEST_TEXT),
            RunEvent::Speaks { id, delta } => {
                cut(json!({ "type": "text", "id": id }), "delta", delta, LONGEST_TEXT)
            }
            RunEvent::Said { id, text } => {
                cut(json!({ "type": "text", "id": id }), "text", text, LONGEST_TEXT)
            }
            RunEvent::ToolStarted { id, name, input, sub_agent } => {
                let mut event = json!({ "type": "tool", "id": id, "name": name });
                if let Some(sub_agent) = sub_agent {
                    event["sub_agent"] = sub_agent.as_str().into();
                }
                match beginning(&input.to_string(), LONGEST_TEXT) {
                    (_, 0) => event["input"] = input.clone(),
                    (start, left_out) => {
                        event["input"] = json!({ "cut": start });
                        event["left_out"] = left_out.into();
                    }
                }
                event
            }
            RunEvent::ToolEnded { id, failed, text, images, took } => {
                let (text, left_out) = beginning(text, LONGEST_RESULT);
                let mut room = LARGEST_IMAGES;
                let shown = images.iter().take_while(|image| {
                    let fits = image.data.len() <= room;
                    room = room.saturating_sub(image.data.len());
                    fits
                });
                let shown: Vec<_> = shown.collect();
                json!({
                    "type": "tool_result", "id": id, "failed": failed, "text": text, "left_out": left_out,
                    "images_left_out": images.len() - shown.len(), "images": shown,
                    "duration_ms": took.map(|took| took.as_millis() as u64),
                })
            }
            RunEvent::Turn(turn) => {
                let Tokens { input, output, cache_read, cache_written } = turn.tokens;
                let event = json!({
                    "type": "turn", "error": turn.failed, "cost": turn.cost, "turns": turn.turns,
                    "duration_ms": turn.duration_ms, "text": null,
                    "tokens": {
                        "input": input, "output": output, "cache_read": cache_read,
                        "cache_written": cache_written,
                    },
                });
                match &turn.text {
                    Some(text) => cut(event, "text", text, LONGEST_TEXT),
                    None => event,
                }
            }
            RunEvent::Trouble(words) => cut(json!({ "type": "trouble" }), "text", words, LONGEST_TEXT),
            RunEvent::Ended { code } => json!({ "type": "ended", "code": code }),
            RunEvent::Asked(_)
            | RunEvent::AskEnded { .. }
            | RunEvent::Withdrawn { .. }
            | RunEvent::Decided { .. }
            | RunEvent::Hint(_)
            | RunEvent::Doubt { .. } => return None,
        })
    }
}

/// The event with this text in it; `left_out` says how many characters of it are missing, if any.
fn cut(mut event: Value, field: &str, text: &str, longest: usize) -> Value {
    let (text, left_out) = beginning(text, longest);
    event[field] = text.into();
    if left_out > 0 {
        event["left_out"] = left_out.into();
    }
    event
}

fn beginning(text: &str, longest: usize) -> (&str, usize) {
    match text.char_indices().nth(longest) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
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
        };
        let event = told.event().unwrap();
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
            },
            RunEvent::Turn(turn),
            RunEvent::Trouble(long.clone()),
        ] {
            let event = told.event().unwrap();
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
            },
            RunEvent::Turn(turn),
            RunEvent::Trouble("no".into()),
            RunEvent::Ended { code: None },
        ] {
            assert_eq!(RunEvent::read(&told.event().unwrap()), Some(told));
        }
        let cut = RunEvent::Prompt("x".repeat(LONGEST_TEXT + 5)).event().unwrap();
        assert!(
            matches!(RunEvent::read(&cut), Some(RunEvent::Prompt(text)) if text.ends_with("… 5 characters are left out here"))
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
        assert_eq!(told.event(), Some(whole));
        let said = RunEvent::Said { id: "x".into(), text: "é".repeat(LONGEST_TEXT) };
        assert_eq!(said.event().unwrap().get("left_out"), None);
    }
}
