//! One line of a transcript. Only what the model and the person said counts; newer versions write many
//! other kinds of lines, some of which repeat whole messages.

use super::returned::{Beside, Returned};
use crate::agents::claude::wire::{ToolResult, result_text};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptLine {
    pub session: Option<String>,
    pub cwd: Option<String>,
    pub timestamp: Option<String>,
    /// Said by or to a sub-agent.
    pub sidechain: bool,
    /// Id of that sub-agent, in newer versions.
    pub sub_agent: Option<String>,
    /// The permission mode from here on.
    pub mode: Option<String>,
    pub said: Said,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// What the model said, and the tools it called.
    Assistant {
        text: String,
        calls: Vec<ToolCall>,
    },
    Results(Vec<Returned>),
    /// The person said something new: whatever was asked before is no longer waited for.
    Turn,
    /// Of no consequence for asks.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// As the model wrote it, byte for byte.
    pub input: String,
}

impl TranscriptLine {
    pub fn calls(&self) -> &[ToolCall] {
        match &self.said {
            Said::Assistant { calls, .. } => calls,
            Said::Results(_) | Said::Turn | Said::Other => &[],
        }
    }

    /// What this line says of a tool call, if it is that call's result.
    pub fn result_of(self, tool_use_id: &str) -> Option<Returned> {
        match self.said {
            Said::Results(results) => {
                results.into_iter().find(|returned| returned.result.tool_use_id == tool_use_id)
            }
            Said::Assistant { .. } | Said::Turn | Said::Other => None,
        }
    }

    /// Whether the person went on with the session itself, past all that it asked.
    pub fn is_new_turn(&self) -> bool {
        self.said == Said::Turn && !self.sidechain
    }
}

/// Fields of another type than expected count as absent, never as an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    is_sidechain: Option<&'a RawValue>,
    #[serde(borrow)]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow)]
    is_meta: Option<&'a RawValue>,
    #[serde(borrow)]
    permission_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_result: Option<&'a RawValue>,
    #[serde(borrow)]
    permission_decision: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_denial_kind: Option<&'a RawValue>,
    #[serde(borrow)]
    user_feedback: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
}

/// Nothing for what is not a JSON object, such as a line that is still being written.
pub fn decode(bytes: &[u8]) -> Option<TranscriptLine> {
    let written: WrittenLine = serde_json::from_slice(bytes).ok()?;
    let said = match text(written.kind).as_deref() {
        Some("assistant") => {
            let blocks = blocks(written.message);
            let words = blocks.iter().filter_map(|block| text(block.text));
            Said::Assistant { text: words.collect::<Vec<_>>().join("\n"), calls: calls(&blocks) }
        }
        Some("user") => said_by_user(&written),
        _ => Said::Other,
    };
    Some(TranscriptLine {
        session: text(written.session_id),
        cwd: text(written.cwd),
        timestamp: text(written.timestamp),
        sidechain: flag(written.is_sidechain),
        sub_agent: text(written.agent_id),
        mode: text(written.permission_mode),
        said,
    })
}

fn said_by_user(written: &WrittenLine) -> Said {
    let results: Vec<_> = blocks(written.message).iter().filter_map(result).collect();
    if !results.is_empty() {
        let beside = Beside {
            detail: json(written.tool_use_result),
            decision: json(written.permission_decision).unwrap_or_default(),
            denial: text(written.tool_denial_kind),
            feedback: text(written.user_feedback),
        };
        return Said::Results(results.into_iter().map(|result| Returned::new(result, &beside)).collect());
    }
    // Notes that the program itself adds to the conversation are nobody's turn.
    match flag(written.is_meta) || written.message.is_none() {
        true => Said::Other,
        false => Said::Turn,
    }
}

/// A message's content as its blocks; plain text has none.
fn blocks(message: Option<&RawValue>) -> Vec<Block<'_>> {
    let content = message.and_then(|message| serde_json::from_str::<Message>(message.get()).ok()?.content);
    let blocks: Vec<&RawValue> =
        content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
    blocks.into_iter().filter_map(|block| serde_json::from_str(block.get()).ok()).collect()
}

fn calls(blocks: &[Block]) -> Vec<ToolCall> {
    let calls = blocks.iter().filter(|block| text(block.kind).as_deref() == Some("tool_use"));
    let calls = calls.filter_map(|block| {
        let input = block.input.map_or("{}", RawValue::get).to_owned();
        Some(ToolCall { id: text(block.id)?, name: text(block.name)?, input })
    });
    calls.collect()
}

fn result(block: &Block) -> Option<ToolResult> {
    if text(block.kind).as_deref() != Some("tool_result") {
        return None;
    }
    let content = json(block.content).unwrap_or_default();
    Some(ToolResult {
        tool_use_id: text(block.tool_use_id)?,
        text: result_text(&content),
        is_error: flag(block.is_error),
        // Whoever reads a transcript asks what was answered, not what it looked like.
        images: Vec::new(),
    })
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

fn json(raw: Option<&RawValue>) -> Option<Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

fn flag(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decoded(line: Value) -> TranscriptLine {
        decode(line.to_string().as_bytes()).unwrap()
    }

    fn user(content: Value) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": content}, "isSidechain": false,
            "sessionId": "s", "cwd": "/src", "timestamp": "2026-11-16T00:00:00Z"})
    }

    #[test]
    fn a_call_keeps_its_input_as_it_was_written() {
        let line = r#"{"isSidechain":false,"message":{"type":"message","role":"assistant","content":[{"type":"text","text":"tool_use"},
            {"type":"tool_use","id":"toolu_1","name":"AskUserQuestion","input":{"n":1.10,"b":"\u00e4"}}]},"type":"assistant","sessionId":"s"}"#;
        let line = decode(line.as_bytes()).unwrap();
        assert_eq!(
            line.calls(),
            [ToolCall {
                id: "toolu_1".into(),
                name: "AskUserQuestion".into(),
                input: r#"{"n":1.10,"b":"\u00e4"}"#.into()
            }]
        );
        assert_eq!((line.session.as_deref(), line.sidechain), (Some("s"), false));
    }

    #[test]
    fn a_result_brings_what_stands_beside_it() {
        let mut line = user(
            json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "ok"}]}]),
        );
        line["toolUseResult"] = json!({"answers": {"Which?": "SQLite"}});
        let line = decoded(line);
        assert!(!line.is_new_turn());
        assert_eq!(line.clone().result_of("toolu_2"), None);
        let Returned { result, detail, .. } = line.result_of("toolu_1").unwrap();
        assert_eq!((result.text.as_str(), result.is_error), ("ok", false));
        assert_eq!(detail.unwrap()["answers"]["Which?"], "SQLite");
    }

    #[test]
    fn only_what_a_person_says_to_the_session_itself_is_a_turn() {
        assert!(decoded(user(json!("go on"))).is_new_turn());
        assert!(decoded(user(json!([{"type": "text", "text": "tool_result"}]))).is_new_turn());
        let mut aside = user(json!("look it up"));
        aside["isSidechain"] = json!(true);
        assert!(!decoded(aside).is_new_turn());
        let mut meta = user(json!("caveat"));
        meta["isMeta"] = json!(true);
        assert!(!decoded(meta).is_new_turn());
    }

    #[test]
    fn other_kinds_of_lines_repeat_messages_and_do_not_count() {
        let call = json!([{"type": "tool_use", "id": "t", "name": "AskUserQuestion", "input": {}}]);
        let blob = json!({"type": "api-request-blob", "message": {"role": "assistant", "content": call}});
        assert_eq!(decoded(blob).said, Said::Other);
        let blob = json!({"type": "api-request-blob", "message": {"role": "user", "content": "hello"}});
        assert_eq!(decoded(blob).said, Said::Other);
    }

    #[test]
    fn a_field_of_another_type_is_as_good_as_absent_and_half_a_line_is_none() {
        let line = json!({"type": "user", "sessionId": 7, "cwd": null, "isSidechain": "no", "message": {"content": 5}});
        let line = decoded(line);
        assert_eq!((line.session, line.cwd, line.sidechain, line.said), (None, None, false, Said::Turn));
        assert_eq!(decoded(json!({"type": ["user"]})).said, Said::Other);
        let whole = user(json!("hello")).to_string();
        for end in 0..whole.len() {
            assert_eq!(decode(&whole.as_bytes()[..end]), None);
        }
    }
}
