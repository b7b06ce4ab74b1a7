//! A plan whose request does not carry it: what the transcript has of it.

use super::line::{self, Said};
use super::scan::{last_turn, open_calls};
use super::tail::{Tail, TailEvent};
use serde_json::Value;
use std::fs::File;
use std::path::Path;

/// Shown where an agent wants to carry out a plan that it has not written.
const NO_PLAN: &str = "Claude wants to leave plan mode. It has written no plan.";

/// The plan of the call that waits, or else what the agent said last.
pub fn plan_in(transcript: &Path, tool: &str) -> String {
    let calls = open_calls(transcript, tool).unwrap_or_default();
    let input = calls.last().and_then(|call| call.input.as_deref());
    let input: Value = input.and_then(|input| serde_json::from_str(input).ok()).unwrap_or_default();
    let plan = input["plan"].as_str().filter(|plan| !plan.trim().is_empty()).map(str::to_owned);
    plan.unwrap_or_else(|| match last_words(transcript) {
        Some(words) => format!("{NO_PLAN} It said last:\n\n{words}"),
        None => NO_PLAN.to_owned(),
    })
}

fn last_words(transcript: &Path) -> Option<String> {
    let file = File::open(transcript).ok()?;
    let start = last_turn(&file, file.metadata().ok()?.len()).ok()??;
    let mut words = None;
    let read = Tail::from(transcript, start).ok()?.read(|found| {
        if let TailEvent::Line(bytes) = found
            && let Some(Said::Assistant { text, .. }) = line::decode(bytes).map(|line| line.said)
            && !text.trim().is_empty()
        {
            words = Some(text);
        }
    });
    read.ok().and(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_is_what_its_call_says_or_what_was_said_before_it() {
        let shown = |input: Value| {
            let said = |content: Value| json!({"type": "assistant", "message": {"content": content}});
            let lines = [
                json!({"type": "user", "message": {"content": "plan it"}}),
                said(json!([{"type": "text", "text": "First this, then that."}])),
                said(json!([{"type": "tool_use", "id": "t", "name": "ExitPlanMode", "input": input}])),
            ];
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), lines.map(|line| format!("{line}\n")).concat()).unwrap();
            plan_in(file.path(), "ExitPlanMode")
        };
        assert_eq!(shown(json!({"plan": "1. x"})), "1. x");
        assert_eq!(shown(json!({})), format!("{NO_PLAN} It said last:\n\nFirst this, then that."));
        assert_eq!(plan_in(Path::new("/nowhere"), "ExitPlanMode"), NO_PLAN);
    }
}
