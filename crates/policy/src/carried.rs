//! The commands in the input of a tool, whatever the tool is called. Deny and ask rules match against them.
//!
//! Only `Bash` says for sure where its command is. Of other tools, this goes by the names of fields and tools, and
//! rather finds too much: a rule that denies or asks too often is noticed, one that misses is not.

use crate::call::{COMMAND_FIELD, HARMLESS_FIELDS};
use crate::own_places::collect_strings;
use crate::shell::{LONGEST, Script, line};
use aye_core::tool::{Operation, Tool};
use serde_json::{Map, Value};
use std::cell::LazyCell;

/// Texts that are parsed one by one; any further ones are parsed as one, so that the time is bounded.
const MOST_TEXTS: usize = 8;
/// No more is looked for beyond this: an input can put the same long arguments after each of many commands. One of the texts
/// that are parsed is too long then, so a person is asked.
const MOST_BYTES: usize = MOST_TEXTS * LONGEST;

/// Words in the name of a field that holds a command.
const COMMAND_WORDS: [&str; 14] = [
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
    "entrypoint",
];
/// Words in the name of a field that holds a command, unless its value is one word, such as the shell to use.
const SHELL_WORDS: [&str; 8] = ["shell", "bash", "sh", "exec", "execute", "run", "terminal", "powershell"];
/// Fields with the arguments for a command in a field beside them.
const ARGUMENT_FIELDS: [&str; 5] = ["args", "arguments", "argv", "params", "parameters"];
/// The arguments as a list, or all of a command.
const LIST_FIELD: &str = "args";
/// Fields that may name a program beside such a list.
const PROGRAM_FIELDS: [&str; 5] = ["bin", "binary", "file", "path", "name"];
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

/// The texts that were found.
#[derive(Default)]
struct Texts {
    found: Vec<String>,
    bytes: usize,
}

impl Texts {
    fn push(&mut self, text: String) {
        if !self.is_full() {
            self.bytes += text.len() + 1;
            self.found.push(text);
        }
    }

    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }
}

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
    let mut texts = Texts::default();
    collect(input, &mut texts);
    if texts.found.is_empty() && is_named_like_shell(tool, operation, input) {
        let fields = input.iter().filter(|(field, _)| !HARMLESS_FIELDS.contains(&field.as_str()));
        fields.for_each(|(_, value)| collect_all(value, &mut texts));
    }
    texts.found.retain(|text| !text.trim().is_empty());
    texts.found
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
fn collect(fields: &Map<String, Value>, texts: &mut Texts) {
    let rest = LazyCell::new(|| {
        let found = ARGUMENT_FIELDS.iter().filter_map(|field| fields.get(*field));
        found.filter_map(arguments).find(|text| !text.is_empty())
    });
    let list = fields.get(LIST_FIELD).and_then(Value::as_array);
    let before = texts.found.len();
    for (field, value) in fields {
        let is_argument = ARGUMENT_FIELDS.contains(&field.to_lowercase().as_str());
        let is_command = names_command(field);
        match value {
            _ if texts.is_full() => return,
            Value::String(text) if is_command => {
                texts.push(text.clone());
                if let Some(rest) = rest.as_ref().filter(|_| !is_argument) {
                    texts.push(format!("{text} {rest}"));
                }
            }
            Value::String(text) if text.contains(char::is_whitespace) => {
                if has_word(field, &SHELL_WORDS) {
                    texts.push(text.clone());
                }
            }
            // One word beside a list of arguments may be the program that they are for.
            Value::String(text) if list.is_some() && PROGRAM_FIELDS.contains(&field.as_str()) => {
                let rest = rest.as_deref().unwrap_or_default();
                texts.push(format!("{text} {rest}"));
            }
            Value::Array(items) if is_command || has_word(field, &SHELL_WORDS) => {
                collect_list(field, items, texts);
            }
            Value::Array(items) => items.iter().for_each(|item| collect_nested(item, texts)),
            Value::Object(_) => collect_nested(value, texts),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    if let Some(words) = list.filter(|_| texts.found.len() == before) {
        collect_list(LIST_FIELD, words, texts);
    }
}

fn collect_nested(value: &Value, texts: &mut Texts) {
    match value {
        _ if texts.is_full() => {}
        Value::Object(fields) => collect(fields, texts),
        Value::Array(items) => items.iter().for_each(|item| collect_nested(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A list is the words of one command, or several commands.
fn collect_list(field: &str, items: &[Value], texts: &mut Texts) {
    let words: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        items.iter().filter_map(Value::as_str).for_each(|text| texts.push(text.to_owned()));
        for item in items {
            match item {
                Value::Array(words) => collect_list(field, words, texts),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    collect_nested(item, texts);
                }
            }
        }
        return;
    };
    let is_plural = has_word(field, &["commands", "cmds", "scripts"]);
    if is_plural || words.iter().take(1).any(|word| word.contains(char::is_whitespace)) {
        words.iter().for_each(|word| texts.push(word.clone()));
    }
    texts.push(line(&words));
}

/// Every text of an input whose fields have no telling names. A list may be the words of one command.
fn collect_all(value: &Value, texts: &mut Texts) {
    match value {
        _ if texts.is_full() => {}
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

fn names_command(field: &str) -> bool {
    let name = field.to_lowercase();
    has_word(field, &COMMAND_WORDS) || name.ends_with("command") || name.ends_with("cmd")
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
        check("x", json!({"shellcommand": "rm x"}), &["rm x"]);
        check("x", json!({"path": "/bin/rm", "args": ["-rf", "x"]}), &["/bin/rm -rf x"]);
        check("x", json!({"args": ["rm", "x"]}), &["rm x"]);
        check("x", json!({"entrypoint": ["rm", "x"]}), &["rm x"]);
        check("x", json!({"commands": [["rm", "x"], ["ls"]]}), &["rm", "x", "rm x", "ls", "ls"]);
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
        check("x", json!({"path": "/x", "params": ["a"]}), &[]);
        check("x", json!({"name": "x", "arguments": {"a": "b"}}), &[]);
        check("x", json!({"shell": "bash", "url": "https://x.example/command"}), &[]);
        check("KillShell", json!({"shell_id": "1"}), &[]);
        check("Unclear", json!({"title": "rm x"}), &[]);
        check("AskUserQuestion", json!({"command": "rm x"}), &[]);
    }

    #[test]
    fn arguments_named_by_many_commands_are_not_all_copied() {
        let mut input: Map<String, Value> = (0..4000).map(|n| (format!("cmd_{n}"), json!("x"))).collect();
        input.insert("args".to_owned(), json!(["y".repeat(400_000)]));
        let found = texts("x", &input);
        assert!(found.iter().map(String::len).sum::<usize>() < MOST_BYTES + 500_000);
        assert_eq!(script("x", &input).unwrap().plain, Err(crate::shell::Opaque::TooLong));
    }

    #[test]
    fn a_call_with_very_many_commands_is_still_looked_through() {
        let many: Vec<String> = (0..500).map(|n| format!("echo {n}")).chain(["rm x".into()]).collect();
        let script = script("x", json!({"commands": many}).as_object().unwrap()).unwrap();
        assert!(script.parts.iter().any(|part| part.reaches.contains(&"rm x".to_owned())));
    }
}
