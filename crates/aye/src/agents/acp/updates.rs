//! What an agent tells of its session while it works.

use super::dialects::Call;
use super::{Acp, Meanings, calls, outcome};
use crate::agents::driven::{Meaning, RunEvent};
use serde_json::Value;

impl Acp {
    pub(super) fn updated(&mut self, update: &Value) -> Meanings {
        if self.session.is_none() {
            return Vec::new();
        }
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                self.speaks(update["content"]["text"].as_str().unwrap_or_default())
            }
            Some("tool_call") => {
                let Some(id) = update["toolCallId"].as_str().map(str::to_owned) else { return Vec::new() };
                let (kind, cwd) = (self.start.kind.as_str(), self.start.cwd.as_path());
                let call = Call { kind, version: &self.version, cwd, asked: update, told: Some(update) };
                let (name, input) = call.tool_and_input();
                let started =
                    RunEvent::ToolStarted { id, name, input: Value::Object(input), sub_agent: None };
                let said = self.said().into_iter();
                said.chain([Meaning::Tells(started)]).chain(self.call_updated(update)).collect()
            }
            Some("tool_call_update") => self.call_updated(update),
            Some("current_mode_update") => {
                self.in_mode(update["currentModeId"].as_str()).into_iter().collect()
            }
            Some("config_option_update") => self.configured(&update["configOptions"]).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn speaks(&mut self, words: &str) -> Meanings {
        if words.is_empty() {
            return Vec::new();
        }
        // Gemini tells of its mode in the same way as of its words.
        let mode = words.strip_prefix("[MODE_UPDATE] ").filter(|_| self.start.kind == "gemini");
        if let Some(mode) = mode {
            return self.in_mode(Some(mode.trim())).into_iter().collect();
        }
        if self.speaking.is_none() {
            self.texts += 1;
            self.speaking = Some((format!("t{}", self.texts), String::new()));
        }
        let Some((id, said)) = &mut self.speaking else { return Vec::new() };
        said.push_str(words);
        vec![Meaning::Works, Meaning::Tells(RunEvent::Speaks { id: id.clone(), delta: words.to_owned() })]
    }

    fn call_updated(&mut self, update: &Value) -> Meanings {
        let Some(id) = update["toolCallId"].as_str().map(str::to_owned) else { return Vec::new() };
        self.calls.told(&id, update);
        let status = update["status"].as_str().unwrap_or_default();
        let judged = self.expected.get(&id).and_then(|expected| outcome::judge(expected, update));
        let shows = judged.map(|(receipt, evidence)| {
            self.expected.remove(&id);
            Meaning::Shows { call: id.clone(), receipt, evidence }
        });
        let ended = matches!(status, "completed" | "failed").then(|| {
            Meaning::Tells(RunEvent::ToolEnded {
                id,
                failed: status == "failed",
                text: calls::texts(update).collect(),
                images: Vec::new(),
                took: None,
                sub_agent: None,
            })
        });
        ended.into_iter().chain(shows).collect()
    }

    /// The message that has been said, once something else comes.
    pub(super) fn said(&mut self) -> Option<Meaning<Self>> {
        self.speaking.take().map(|(id, text)| Meaning::Tells(RunEvent::Said { id, text }))
    }
}
