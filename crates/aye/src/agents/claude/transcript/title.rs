//! The title that Claude Code shows for a session: its name, or a summary, or else its first prompt.

use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Lines with a title are short, and are written again as the session goes on, so these ends of a long transcript do.
const FROM_START: u64 = 1024 * 1024;
const FROM_END: u64 = 4 * 1024 * 1024;
const LONGEST_LINE: usize = 8 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Title(Option<(Rank, String)>);

/// The kinds of title, the one that is preferred last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Prompt,
    Summary,
    Generated,
    Given,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum TitleLine {
    CustomTitle { custom_title: String },
    AgentName { agent_name: String },
    AiTitle { ai_title: String },
    Summary { summary: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_sidechain: bool,
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Value,
}

impl Title {
    /// As far as the beginning and the end of the transcript tell.
    pub fn of(transcript: &Path) -> io::Result<Self> {
        let file = File::open(transcript)?;
        let length = file.metadata()?.len();
        let mut title = Self::default();
        let tail = length.saturating_sub(FROM_END).max(FROM_START.min(length));
        for (from, until) in [(0, length.min(FROM_START)), (tail, length)] {
            let mut window = vec![0; usize::try_from(until - from).unwrap_or_default()];
            file.read_exact_at(&mut window, from)?;
            // What is cut at either end is no JSON.
            window.split(|byte| *byte == b'\n').for_each(|line| title.see(line));
        }
        Ok(title)
    }

    pub fn text(&self) -> Option<&str> {
        self.0.as_ref().map(|(_, text)| text.as_str())
    }

    /// True if it is only the session's first prompt.
    pub fn is_prompt(&self) -> bool {
        matches!(self.0, Some((Rank::Prompt, _)))
    }

    pub fn see(&mut self, line: &[u8]) {
        let has = |word: &str| memmem::find(line, word.as_bytes()).is_some();
        let seen = match &self.0 {
            None if has("\"user\"") => prompt(line).map(|text| (Rank::Prompt, text)),
            None | Some(_) => None,
        };
        let may_be_title = || {
            line.len() <= LONGEST_LINE && ["-title\"", "\"agent-name\"", "\"summary\""].into_iter().any(has)
        };
        let seen = seen.or_else(|| may_be_title().then(|| titled(line)).flatten());
        let known = self.0.as_ref().map(|(rank, _)| *rank);
        if let Some((rank, text)) = seen
            && known.is_none_or(|known| rank >= known)
            && !text.trim().is_empty()
        {
            self.0 = Some((rank, crate::agents::title(&text)));
        }
    }
}

fn titled(line: &[u8]) -> Option<(Rank, String)> {
    Some(match serde_json::from_slice(line).ok()? {
        TitleLine::CustomTitle { custom_title: text } | TitleLine::AgentName { agent_name: text } => {
            (Rank::Given, text)
        }
        TitleLine::AiTitle { ai_title } => (Rank::Generated, ai_title),
        TitleLine::Summary { summary } => (Rank::Summary, summary),
    })
}

/// The person's own words. Commands and notes of the program are in tags.
fn prompt(line: &[u8]) -> Option<String> {
    let line: PromptLine = serde_json::from_slice(line).ok()?;
    if line.kind != "user" || line.is_meta || line.is_sidechain {
        return None;
    }
    let is_own = |text: &&str| {
        let text = text.trim_start();
        !text.is_empty() && !text.starts_with('<') && !text.starts_with("[Request interrupted")
    };
    match &line.message.content {
        Value::String(text) => Some(text.as_str()).filter(is_own).map(str::to_owned),
        Value::Array(blocks) => {
            let mut texts = blocks.iter().filter(|block| block["type"] == "text");
            texts.find_map(|block| block["text"].as_str().filter(is_own)).map(str::to_owned)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn user(content: Value) -> Value {
        json!({"type": "user", "isSidechain": false, "message": {"role": "user", "content": content}})
    }

    fn title_of(lines: &[Value]) -> Option<String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for line in lines {
            writeln!(file, "{line}").unwrap();
        }
        Title::of(file.path()).unwrap().text().map(str::to_owned)
    }

    #[test]
    fn the_title_is_the_one_that_claude_code_shows() {
        let generated = |text: &str| json!({"type": "ai-title", "aiTitle": text, "sessionId": "s"});
        let given = |text: &str| json!({"type": "custom-title", "customTitle": text, "sessionId": "s"});
        let summary = json!({"type": "summary", "summary": "Earlier work", "leafUuid": "x"});
        let prompt = user(json!("\n fix it\nand more"));
        let is = |lines: &[Value], title: &str| assert_eq!(title_of(lines).as_deref(), Some(title));
        is(&[prompt.clone(), user(json!("then this"))], "fix it");
        is(&[prompt.clone(), summary.clone()], "Earlier work");
        is(&[summary.clone(), prompt.clone()], "Earlier work");
        is(&[prompt.clone(), generated("Fix"), summary, generated("Fix more")], "Fix more");
        is(&[given("Mine"), prompt.clone(), generated("Fix")], "Mine");
        is(&[given("Mine"), given("Mine now"), given("")], "Mine now");
        let blob = json!({"type": "api-request-blob", "message": {"content": "x"}, "note": "ai-title"});
        is(&[prompt, blob], "fix it");
    }

    #[test]
    fn only_what_a_person_wrote_is_a_prompt() {
        let mut meta = user(json!("Caveat"));
        meta["isMeta"] = json!(true);
        let mut aside = user(json!("look it up"));
        aside["isSidechain"] = json!(true);
        let result = user(json!([{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]));
        let command = user(json!("<command-name>/clear</command-name>"));
        let others = [meta, aside, result, command, json!({"type": "user"}), json!(7)];
        assert_eq!(title_of(&others), None);
        let image = user(json!([{"type": "image"}, {"type": "text", "text": "what is this?"}]));
        assert_eq!(title_of(&[&others[..], &[image]].concat()).as_deref(), Some("what is this?"));
    }

    #[test]
    fn a_title_at_either_end_of_a_long_transcript_is_found() {
        let filler: Vec<_> = (0..8).map(|_| user(json!("x".repeat(900 * 1024)))).collect();
        let (prompt, title) = (user(json!("go")), json!({"type": "ai-title", "aiTitle": "Going"}));
        assert_eq!(title_of(&[std::slice::from_ref(&prompt), &filler[..]].concat()).as_deref(), Some("go"));
        assert_eq!(title_of(&[&[prompt], &filler[..], &[title]].concat()).as_deref(), Some("Going"));
    }
}
