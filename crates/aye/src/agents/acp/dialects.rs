//! How each agent says over ACP which tool it will use and with what. What is not read here for sure is unclear.

use super::calls::{contradict, raw_input, texts};
use crate::agents::driven::tools::{OwnTool, to_vocabulary};
use aye_core::Tool;
use serde_json::{Map, Value, json};
use std::path::Path;

pub type ToolAndInput = (String, Map<String, Value>);

const QWEN: [OwnTool; 4] = [
    OwnTool { name: "run_shell_command", tool: Tool::Command, fields: &[] },
    OwnTool { name: "write_file", tool: Tool::Write, fields: &[] },
    OwnTool { name: "edit", tool: Tool::Edit, fields: &[] },
    OwnTool { name: "read_file", tool: Tool::Read, fields: &[] },
];

const KIMI: [OwnTool; 4] = [
    OwnTool { name: "Bash", tool: Tool::Command, fields: &[] },
    OwnTool { name: "Write", tool: Tool::Write, fields: &[("path", "file_path")] },
    OwnTool { name: "Edit", tool: Tool::Edit, fields: &[("path", "file_path")] },
    OwnTool { name: "Read", tool: Tool::Read, fields: &[("path", "file_path")] },
];

/// The versions of Gemini CLI whose source was read: the title of their shell tool is the whole command.
const GEMINI_READ: [&str; 1] = ["0.61.0"];

/// A call as far as it is known: what the request says of it, and what was announced before.
pub struct Call<'a> {
    pub kind: &'a str,
    /// The version of the agent, as it names itself.
    pub version: &'a str,
    pub cwd: &'a Path,
    pub asked: &'a Value,
    pub told: Option<&'a Value>,
}

impl Call<'_> {
    /// What the call will do, as far as the agent shows it.
    pub fn tool_and_input(&self) -> ToolAndInput {
        let known = match self.kind {
            "gemini" => self.of_gemini(),
            "kimi" => self.of_kimi(),
            "copilot" => self.of_copilot(),
            "qwen" => self.of_qwen(),
            _ => None,
        };
        known.or_else(|| self.of_any()).unwrap_or_else(|| self.unclear())
    }

    /// Whether the agent shows words of it and nothing else: no input, no change, no file, and no kind by which it would
    /// touch something.
    pub fn is_words_alone(&self) -> bool {
        let is_text = |block: &Value| block["type"] == "content" && block["content"]["type"] == "text";
        let alone = |call: &Value| {
            let content = &call["content"];
            let is_told = content.is_null() || content.as_array().is_some_and(|all| all.iter().all(is_text));
            touches_nothing(call) && is_told && shown(call, &["rawInput", "locations"]).is_empty()
        };
        alone(self.asked) && self.told.is_none_or(alone)
    }

    fn of_qwen(&self) -> Option<ToolAndInput> {
        let (raw, name) = (raw_input(self.asked)?, self.asked["_meta"]["toolName"].as_str()?);
        Some(to_vocabulary(&QWEN, self.kind, name, raw.clone()))
    }

    /// Gemini CLI shows the command as the title, and the folder in words.
    fn of_gemini(&self) -> Option<ToolAndInput> {
        let id = self.asked["toolCallId"].as_str()?;
        let is_shell = id.starts_with("run_shell_command__") && self.asked["kind"] == "execute";
        let here = format!("[current working directory {}]", self.cwd.display());
        let mut said = texts(self.asked);
        let words = said.next().filter(|_| is_shell && GEMINI_READ.contains(&self.version))?;
        let rest = words.strip_prefix(&here).filter(|_| said.next().is_none())?;
        let (rest, in_background) = match rest.strip_suffix(" [background]") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let mut input = Map::from_iter([("command".to_owned(), self.asked["title"].clone())]);
        if let Some(words) = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')) {
            input.insert("description".to_owned(), words.into());
        } else if !rest.is_empty() {
            return None;
        }
        if in_background {
            input.insert("is_background".to_owned(), true.into());
        }
        self.asked["title"].is_string().then(|| (Tool::Command.name().to_owned(), input))
    }

    /// Kimi announces a call with its input as text, and shortens what it asks.
    fn of_kimi(&self) -> Option<ToolAndInput> {
        let told = self.told?;
        let name = self.asked["title"].as_str().filter(|name| told["title"] == **name)?;
        let mut said = texts(told);
        let text = said.next().filter(|_| said.next().is_none())?;
        let Ok(Value::Object(mut input)) = aye_core::json::parse(text.as_bytes()) else { return None };
        if input.get("mode").is_some_and(|mode| mode == "overwrite") {
            input.shift_remove("mode");
        }
        // A file that grows is not written anew, and a command elsewhere is another one.
        let alters = ["cwd", "mode"].iter().any(|field| input.contains_key(*field));
        let own: &[OwnTool] = if alters { &[] } else { &KIMI };
        Some(to_vocabulary(own, self.kind, name, input)).filter(|_| !(alters && name == "Bash"))
    }

    /// Copilot names no tools. It announces a call with the input, and asks with what it made of that.
    fn of_copilot(&self) -> Option<ToolAndInput> {
        let (asked, told) = (raw_input(self.asked)?, raw_input(self.told?)?);
        let has = |fields: &[&str]| {
            told.len() == fields.len() && fields.iter().all(|field| told[*field].is_string())
        };
        let renamed = |tool: Tool, fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(own, ours)| ((*ours).to_owned(), told[*own].clone()));
            (tool.name().to_owned(), fields.collect())
        };
        let same_file = || asked.get("fileName") == told.get("path");
        match self.asked["kind"].as_str()? {
            "execute" if told.get("command")?.is_string() && asked.get("command") == told.get("command") => {
                Some((Tool::Command.name().to_owned(), told.clone()))
            }
            "edit" if told.contains_key("file_text") && has(&["path", "file_text"]) && same_file() => {
                Some(renamed(Tool::Write, &[("path", "file_path"), ("file_text", "content")]))
            }
            "edit" if told.contains_key("old_str") && has(&["path", "old_str", "new_str"]) && same_file() => {
                let fields = [("path", "file_path"), ("old_str", "old_string"), ("new_str", "new_string")];
                Some(renamed(Tool::Edit, &fields))
            }
            _ => None,
        }
    }

    /// Of an agent of which nothing else is known: what it shows, by the protocol's word for it.
    fn of_any(&self) -> Option<ToolAndInput> {
        let told = self.told.and_then(raw_input);
        let raw = match (raw_input(self.asked), told) {
            (Some(asked), Some(told)) if contradict(asked, told) => return None,
            (Some(asked), _) => asked,
            (None, Some(told)) => told,
            // The protocol does not say that a diff shows all of a file; Gemini CLI's does.
            (None, None) if self.kind == "gemini" => return written(self.asked),
            (None, None) => return None,
        };
        let mut input = raw.clone();
        let content = shown(self.asked, &["content"]).into_iter();
        input.extend(content.map(|(field, value)| (format!("acp_{field}"), value)));
        let told = self.told.map_or(&Value::Null, |told| &told["kind"]);
        let kind = self.asked["kind"].as_str().or(told.as_str()).unwrap_or("other");
        Some((format!("{}:{kind}", self.kind), input))
    }

    /// A title is only words.
    fn unclear(&self) -> ToolAndInput {
        let mut input = shown(self.asked, &["title", "kind", "rawInput", "content", "locations"]);
        let told = self.told.map(|told| shown(told, &["rawInput", "content"])).unwrap_or_default();
        input.extend(told.into_iter().map(|(field, value)| (format!("announced_{field}"), value)));
        (Tool::Unclear.name().to_owned(), input)
    }
}

/// Whether the protocol's word for what a call does names nothing that it would touch.
pub fn touches_nothing(call: &Value) -> bool {
    call["kind"].is_null() || ["other", "think", "switch_mode"].iter().any(|kind| call["kind"] == *kind)
}

/// One file with all that it will hold; anything beside that would be lost.
fn written(call: &Value) -> Option<ToolAndInput> {
    let [change] = call["content"].as_array()?.as_slice() else { return None };
    let is_change = call["kind"] == "edit" && change["type"] == "diff" && change["oldText"].is_string();
    let (path, text) = (change["path"].as_str()?, change["newText"].as_str()?);
    let fields = [("file_path".to_owned(), json!(path)), ("content".to_owned(), json!(text))];
    is_change.then(|| (Tool::Write.name().to_owned(), fields.into_iter().collect()))
}

fn shown(call: &Value, fields: &[&str]) -> Map<String, Value> {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let fields = fields.iter().map(|field| ((*field).to_owned(), call[*field].clone()));
    fields.filter(|(_, value)| !empty(value)).collect()
}

/// Whether the agent's words for what it would allow from then on say what that is. "For this session" is every command
/// of the same program for Gemini, so the hub keeps exactly what was shown instead.
pub fn says_what_it_keeps(kind: &str) -> bool {
    !matches!(kind, "gemini" | "kimi" | "copilot")
}

/// Whether the agent ends its turn when it is refused something.
pub fn refusal_ends_turn(kind: &str) -> bool {
    matches!(kind, "qwen" | "copilot")
}

#[cfg(test)]
mod tests;
