//! The commands in the input of a tool, whatever the tool is called. Deny and ask rules match against them.
//!
//! Only `Bash` says for sure where its command is. Of other tools, this goes by the names of fields and tools, and
//! rather finds too much: a rule that denies or asks too often is noticed, one that misses is not.

use crate::call::{COMMAND_FIELD, HARMLESS_FIELDS};
use crate::own_places::collect_strings;
use crate::shell::{Script, line};
use aye_core::tool::{Operation, Tool};
use serde_json::{Map, Value};

/// Texts that are parsed one by one; any further ones are parsed as one, so that the time is bounded.
const MOST_TEXTS: usize = 8;

/// Words in the name of a field that holds a command.
const COMMAND_WORDS: [&str; 13] = [
    "command",
    "commands",
    "cmd",
    "cmds",
    "cmdline",
    "commandline",
    "script",
    "scripts",
    "program",
    "executable",
    "argv",
    "exe",
    "invocation",
];
/// Words in the name of a field that holds a command, unless its value is one word, such as the shell to use.
const SHELL_WORDS: [&str; 8] = ["shell", "bash", "sh", "exec", "execute", "run", "terminal", "powershell"];
/// Fields with the arguments for a command in a field beside them.
const ARGUMENT_FIELDS: [&str; 5] = ["args", "arguments", "argv", "params", "parameters"];
/// Words in the name of a tool that runs commands.
const TOOL_WORDS: [&str; 15] = [
    "bash",
    "sh",
    "zsh",
    "shell",
    "powershell",
    "pwsh",
    "terminal",
    "console",
    "exec",
    "execute",
    "command",
    "commands",
    "cmd",
    "ssh",
    "subprocess",
];
/// Tools of Claude Code that watch or end a command and start none.
const NO_COMMANDS: [&str; 4] = ["BashOutput", "KillBash", "KillShell", "TaskOutput"];

/// Whether the call runs a command, as far as its name and its input tell.
pub(crate) fn carries_command(tool: &str, input: &Map<String, Value>) -> bool {
    runs_shell(tool) || !texts(tool, input).is_empty()
}

/// All commands in the input as one script; none if there are none.
pub(crate) fn script(tool: &str, input: &Map<String, Value>) -> Option<Script> {
    let mut texts = texts(tool, input);
    if runs_shell(tool) {
        let command = input.get(COMMAND_FIELD).and_then(Value::as_str).unwrap_or_default().to_owned();
        texts.retain(|text| *text != command);
        texts.insert(0, command);
    }
    if texts.len() > MOST_TEXTS {
        let further = texts.split_off(MOST_TEXTS - 1);
        texts.push(further.join("\n"));
    }
    texts.iter().map(|text| Script::read(text)).reduce(Script::and)
}

fn runs_shell(tool: &str) -> bool {
    Tool::named(tool).map(Tool::act) == Some(Operation::Command)
}

fn texts(tool: &str, input: &Map<String, Value>) -> Vec<String> {
    let operation = Tool::named(tool).map(Tool::act);
    if matches!(operation, Some(Operation::Question | Operation::Plan)) {
        return vec![];
    }
    let mut texts = vec![];
    collect(input, &mut texts);
    if texts.is_empty() && is_named_like_shell(tool, operation, input) {
        let fields = input.iter().filter(|(field, _)| !HARMLESS_FIELDS.contains(&field.as_str()));
        fields.for_each(|(_, value)| collect_all(value, &mut texts));
    }
    texts.retain(|text| !text.trim().is_empty());
    texts
}

fn is_named_like_shell(tool: &str, operation: Option<Operation>, input: &Map<String, Value>) -> bool {
    match operation {
        // An agent says of such a call that it executes something, and shows that as a title.
        Some(Operation::Unclear) => input.get("kind").is_some_and(|kind| kind == "execute"),
        Some(_) => false,
        None => !NO_COMMANDS.contains(&tool) && has_word(tool, &TOOL_WORDS),
    }
}

/// The commands in an object and in what it contains.
fn collect(fields: &Map<String, Value>, texts: &mut Vec<String>) {
    let arguments = || {
        let found = ARGUMENT_FIELDS.iter().filter_map(|field| fields.get(*field));
        found.filter_map(arguments).find(|text| !text.is_empty())
    };
    for (field, value) in fields {
        let is_argument = ARGUMENT_FIELDS.contains(&field.to_lowercase().as_str());
        let is_command = has_word(field, &COMMAND_WORDS);
        match value {
            Value::String(text) if is_command => {
                texts.push(text.clone());
                texts.extend(arguments().filter(|_| !is_argument).map(|rest| format!("{text} {rest}")));
            }
            Value::String(text) => {
                let is_line = text.contains(char::is_whitespace) && has_word(field, &SHELL_WORDS);
                texts.extend(is_line.then(|| text.clone()));
            }
            Value::Array(items) if is_command || has_word(field, &SHELL_WORDS) => {
                collect_list(field, items, texts);
            }
            Value::Array(items) => items.iter().for_each(|item| collect_nested(item, texts)),
            Value::Object(_) => collect_nested(value, texts),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn collect_nested(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Object(fields) => collect(fields, texts),
        Value::Array(items) => items.iter().for_each(|item| collect_nested(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A list is the words of one command, or several commands.
fn collect_list(field: &str, items: &[Value], texts: &mut Vec<String>) {
    let words: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        let lines = items.iter().filter_map(Value::as_str).map(str::to_owned);
        texts.extend(lines);
        return items.iter().for_each(|item| collect_nested(item, texts));
    };
    let is_plural = has_word(field, &["commands", "cmds", "scripts"]);
    if is_plural || words.iter().take(1).any(|word| word.contains(char::is_whitespace)) {
        texts.extend(words.iter().cloned());
    }
    texts.push(line(&words));
}

/// Every text of an input whose fields have no telling names. A list may be the words of one command.
fn collect_all(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            let words: Vec<String> = items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            texts.push(line(&words));
            items.iter().for_each(|item| collect_all(item, texts));
        }
        Value::Object(fields) => fields.values().for_each(|value| collect_all(value, texts)),
        Value::String(text) => texts.push(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn arguments(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(_) => {
            let mut words = vec![];
            collect_strings(value, &mut words);
            Some(line(&words.into_iter().map(str::to_owned).collect::<Vec<_>>()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Whether one of the words that a name is made of is among these: `runCommand` and `run_command` have two.
fn has_word(name: &str, known: &[&str]) -> bool {
    let mut word = String::new();
    let mut after_small = false;
    for c in name.chars().chain(['_']) {
        let begins_word = c.is_uppercase() && after_small;
        if (begins_word || !c.is_alphanumeric()) && !word.is_empty() {
            if known.contains(&word.as_str()) {
                return true;
            }
            word.clear();
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase() || c.is_numeric();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(tool: &str, input: Value, expected: &[&str]) {
        assert_eq!(texts(tool, input.as_object().unwrap()), expected, "{tool} {input}");
    }

    #[test]
    fn a_command_is_found_under_the_names_that_tools_give_it() {
        check("mine:execute", json!({"command": "rm -rf x", "description": "it's"}), &["rm -rf x"]);
        check("x", json!({"cmd": "rm x", "cwd": "/tmp"}), &["rm x"]);
        check("x", json!({"shellCommand": "rm x"}), &["rm x"]);
        check("x", json!({"Command": ["bash", "-lc", "rm x"]}), &["bash -lc 'rm x'"]);
        check("x", json!({"commands": ["ls", "rm x"]}), &["ls", "rm x", "ls 'rm x'"]);
        check("x", json!({"command": "rm", "args": ["-rf", "a b"]}), &["rm", "rm -rf 'a b'"]);
        check("x", json!({"program": "rm", "arguments": "-rf x"}), &["rm", "rm -rf x"]);
        check("x", json!({"steps": [{"run": {"command": "rm x"}}]}), &["rm x"]);
        check("x", json!({"bash": "rm x"}), &["rm x"]);
        check("Read", json!({"file_path": "/x", "command": "rm x"}), &["rm x"]);
    }

    #[test]
    fn every_text_counts_for_a_tool_that_is_named_like_a_shell() {
        check("mcp__shell__run", json!({"line": "rm x", "description": "it's"}), &["rm x"]);
        check("runInTerminal", json!({"input": ["rm", "x"]}), &["rm x", "rm", "x"]);
        check("Unclear", json!({"title": "rm x", "kind": "execute"}), &["rm x", "execute"]);
    }

    #[test]
    fn other_texts_are_no_commands() {
        check("Write", json!({"file_path": "/x.sh", "content": "rm -rf x"}), &[]);
        check("mcp__files__write", json!({"path": "/x", "text": "rm -rf x"}), &[]);
        check("Task", json!({"description": "run a command", "prompt": "rm -rf x"}), &[]);
        check("x", json!({"shell": "bash", "url": "https://x.example/command"}), &[]);
        check("KillShell", json!({"shell_id": "1"}), &[]);
        check("Unclear", json!({"title": "rm x"}), &[]);
        check("AskUserQuestion", json!({"command": "rm x"}), &[]);
    }

    #[test]
    fn a_call_with_very_many_commands_is_still_looked_through() {
        let many: Vec<String> = (0..500).map(|n| format!("echo {n}")).chain(["rm x".into()]).collect();
        let script = script("x", json!({"commands": many}).as_object().unwrap()).unwrap();
        assert!(script.parts.iter().any(|part| part.reaches.contains(&"rm x".to_owned())));
    }
}
