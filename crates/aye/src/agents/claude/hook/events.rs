//! What Claude Code hands to a hook on its standard input, and what it reads from its standard output.
//! Unknown events and fields are ignored; a known event that cannot be read is left to the terminal.

use super::super::wire::{CanUseTool, Permit};
use crate::protocol::RefusedCall;
use aye_core::AgentId;
use aye_core::digest::sha256_hex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What every event says of the session it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    /// One agent a session, under a name that follows from it.
    pub agent: AgentId,
    pub transcript_path: PathBuf,
    pub cwd: String,
    /// The sub-agent that the event is about; none for the session itself.
    pub sub_agent: Option<String>,
    pub sub_agent_kind: Option<String>,
    /// The permission mode that the session is in.
    pub mode: Option<String>,
}

impl Session {
    /// Sub-agents have transcripts of their own, beside that of their session.
    pub fn transcript(&self) -> PathBuf {
        let own = self.sub_agent.as_ref().filter(|id| is_plain(id)).map(|id| {
            self.transcript_path.with_extension("").join("subagents").join(format!("agent-{id}.jsonl"))
        });
        own.filter(|own| own.exists()).unwrap_or_else(|| self.transcript_path.clone())
    }

    /// Where Claude Code keeps everything: `<here>/projects/<folder>/<session>.jsonl`.
    pub fn config_dir(&self) -> Option<&Path> {
        self.transcript_path.ancestors().nth(3)
    }
}

/// The agent that a session is, as its hooks name it.
pub fn agent_of(session: &str) -> Result<AgentId, &'static str> {
    let name = match is_plain(session) && session.len() <= 64 {
        true => session.to_owned(),
        false => sha256_hex(session.as_bytes()),
    };
    AgentId::try_from(format!("claude-{name}"))
}

/// A name that can be part of a file's name and means nothing else there.
pub fn is_plain(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[derive(Debug)]
pub enum HookEvent {
    SessionStart,
    SessionEnd,
    UserPromptSubmit {
        prompt: String,
    },
    /// A tool is about to be used, if it may.
    PreToolUse {
        tool: String,
        input: Value,
        tool_use_id: String,
    },
    /// May this tool run? The terminal asks the same at this moment.
    PermissionRequest(CanUseTool),
    PostToolUse,
    /// Auto mode refused a call, and nobody was asked.
    PermissionDenied(RefusedCall),
    Stop,
    /// The terminal waits for a prompt.
    Idle,
    Other,
}

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("not a Claude Code hook event: {0}")]
    NoEvent(#[from] serde_json::Error),
    #[error("the session id {0}")]
    Name(&'static str),
}

#[derive(Deserialize)]
struct Fields {
    session_id: String,
    transcript_path: PathBuf,
    #[serde(default)]
    cwd: String,
    agent_id: Option<String>,
    agent_type: Option<String>,
    #[serde(default)]
    hook_event_name: String,
    prompt: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Box<RawValue>>,
    tool_use_id: Option<String>,
    permission_suggestions: Option<Vec<Value>>,
    notification_type: Option<String>,
    permission_mode: Option<String>,
    reason: Option<Value>,
}

pub fn decode(bytes: &[u8]) -> Result<(Session, HookEvent), Unreadable> {
    let fields: Fields = serde_json::from_slice(bytes)?;
    let session = Session {
        agent: agent_of(&fields.session_id).map_err(Unreadable::Name)?,
        id: fields.session_id,
        transcript_path: fields.transcript_path,
        cwd: fields.cwd,
        // A sub-agent may be in another.
        mode: fields.permission_mode.filter(|_| fields.agent_id.is_none()),
        sub_agent: fields.agent_id,
        sub_agent_kind: fields.agent_type,
    };
    let event = match fields.hook_event_name.as_str() {
        "SessionStart" => HookEvent::SessionStart,
        "SessionEnd" => HookEvent::SessionEnd,
        "UserPromptSubmit" => HookEvent::UserPromptSubmit { prompt: fields.prompt.unwrap_or_default() },
        "PreToolUse" => match (fields.tool_name, fields.tool_input, fields.tool_use_id) {
            (Some(tool), Some(input), Some(tool_use_id)) => {
                HookEvent::PreToolUse { tool, input: serde_json::from_str(input.get())?, tool_use_id }
            }
            _ => HookEvent::Other,
        },
        "PermissionRequest" => {
            let missing = |field| <serde_json::Error as serde::de::Error>::missing_field(field);
            HookEvent::PermissionRequest(CanUseTool {
                tool_name: fields.tool_name.ok_or_else(|| missing("tool_name"))?,
                input: fields.tool_input.ok_or_else(|| missing("tool_input"))?,
                tool_use_id: fields.tool_use_id,
                agent_id: session.sub_agent.clone(),
                permission_suggestions: fields.permission_suggestions,
            })
        }
        "PostToolUse" => HookEvent::PostToolUse,
        "PermissionDenied" => match (fields.tool_name, fields.tool_use_id) {
            (Some(name), Some(id)) => HookEvent::PermissionDenied(RefusedCall {
                id,
                name,
                input: fields
                    .tool_input
                    .map_or(Ok(Value::Null), |input| serde_json::from_str(input.get()))?,
                reason: fields.reason.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
                sub_agent: session.sub_agent_kind.clone(),
            }),
            _ => HookEvent::Other,
        },
        "Stop" => HookEvent::Stop,
        "Notification" if fields.notification_type.as_deref() == Some("idle_prompt") => HookEvent::Idle,
        _ => HookEvent::Other,
    };
    Ok((session, event))
}

/// A decision, as the one thing that is ever printed. Without an input the agent uses its own.
pub fn decision_line(permit: &Permit, with_input: bool) -> String {
    let decision = match permit {
        Permit::Allow { input, rules } => {
            let mut decision = json!({ "behavior": "allow" });
            if !rules.is_empty() {
                decision["updatedPermissions"] = Value::Array(rules.clone());
            }
            let mut text = decision.to_string();
            if with_input {
                // The input goes in as it is, its numbers to the last digit.
                text.truncate(text.len() - 1);
                text += &format!(",\"updatedInput\":{}}}", input.get());
            }
            text
        }
        Permit::Deny { message, interrupt } => {
            json!({ "behavior": "deny", "message": message, "interrupt": interrupt }).to_string()
        }
    };
    format!(
        "{{\"hookSpecificOutput\":{{\"hookEventName\":\"PermissionRequest\",\"decision\":{decision}}}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::to_raw_value;

    fn event(name: &str, more: Value) -> Value {
        let mut event = json!({"session_id": "s-1", "transcript_path": "/c/projects/-src/s-1.jsonl", "cwd": "/src",
            "hook_event_name": name, "from_next_year": {"x": 1}});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    fn decoded(event: &Value) -> (Session, HookEvent) {
        decode(event.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_permission_request_is_a_request_to_use_a_tool() {
        let asked = event(
            "PermissionRequest",
            json!({"tool_name": "Bash", "tool_input": {"command": "ls", "n": 1.10}, "agent_id": "a1", "agent_type": "Explore"}),
        );
        let (session, event) = decoded(&asked);
        assert_eq!((session.id.as_str(), session.cwd.as_str()), ("s-1", "/src"));
        assert_eq!(session.config_dir(), Some(Path::new("/c")));
        assert_eq!(session.mode, None, "a sub-agent may be in another mode");
        let HookEvent::PermissionRequest(tool) = event else { panic!("{event:?}") };
        assert_eq!((tool.tool_name.as_str(), tool.agent_id.as_deref()), ("Bash", Some("a1")));
    }

    #[test]
    fn every_event_may_say_which_mode_the_session_is_in() {
        let mode = |more| decoded(&event("PostToolUse", more)).0.mode;
        assert_eq!(
            mode(json!({"permission_mode": "bypassPermissions"})).as_deref(),
            Some("bypassPermissions")
        );
        assert_eq!(mode(json!({})), None);
    }

    #[test]
    fn a_refused_call_is_told_with_its_input_and_why() {
        let refused = event(
            "PermissionDenied",
            json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1", "reason": "why"}),
        );
        let HookEvent::PermissionDenied(call) = decoded(&refused).1 else { panic!("another event") };
        let (id, name, input) = ("toolu_1".into(), "Bash".into(), json!({"command": "ls"}));
        assert_eq!(call, RefusedCall { id, name, input, reason: "why".into(), sub_agent: None });
    }

    #[test]
    fn what_is_new_passes_by_and_what_is_broken_is_an_error() {
        assert!(matches!(decoded(&event("FromNextYear", json!({}))).1, HookEvent::Other));
        assert!(matches!(
            decoded(&event("Notification", json!({"notification_type": "x"}))).1,
            HookEvent::Other
        ));
        for broken in ["", "{}", "[]", "{\"session_id\":1}", "{\"session_id\":\"s\""] {
            assert!(decode(broken.as_bytes()).is_err(), "{broken}");
        }
        let no_input = event("PermissionRequest", json!({"tool_name": "Bash"}));
        assert!(decode(no_input.to_string().as_bytes()).is_err());
    }

    #[test]
    fn decisions_are_written_as_claude_code_reads_them() {
        let allow = |rules| Permit::Allow { input: to_raw_value(&json!({"a": 1})).unwrap(), rules };
        let lines = [
            decision_line(&allow(vec![]), false),
            decision_line(&allow(vec![]), true),
            decision_line(&allow(vec![json!({"type": "setMode"})]), true),
            decision_line(&Permit::Deny { message: "no \"x\"\n".into(), interrupt: false }, false),
        ];
        insta::assert_snapshot!(lines.concat(), @r#"
        {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}
        {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedInput":{"a":1}}}}
        {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedPermissions":[{"type":"setMode"}],"updatedInput":{"a":1}}}}
        {"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"no \"x\"\n","interrupt":false}}}
        "#);
    }
}
