//! Our hooks in Claude Code's settings: for one session by `--settings`, or for every one in a settings file.

mod file;
mod text;

pub use file::{FileChange, SettingsError, SettingsFile};

use crate::processes::find_program;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The longest that a hook may wait and that Claude Code still counts rightly: a week.
const LONGEST: u32 = 604_800;
/// What only tells us something must never hold the agent up.
const MOMENT: u32 = 10;

/// The events we are called at, and for how many seconds at most.
const EVENTS: [(&str, u32); 9] = [
    ("PermissionRequest", LONGEST),
    ("PreToolUse", MOMENT),
    ("PostToolUse", MOMENT),
    ("PermissionDenied", MOMENT),
    ("UserPromptSubmit", MOMENT),
    ("Stop", MOMENT),
    ("Notification", MOMENT),
    ("SessionStart", MOMENT),
    ("SessionEnd", MOMENT),
];

/// Settings of a shape that Claude Code would not understand either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongShape(String);

/// How Claude Code is to call us: a line for its shell, which is replaced by us so that nothing stands
/// between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    pub program: PathBuf,
    /// `AYE_HOME`, where it is not the usual one.
    pub home: Option<String>,
}

impl HookCommand {
    /// The program that runs now, by the name under which it was called: that one stays when the program
    /// is replaced by a newer version.
    pub fn of_this_program() -> anyhow::Result<Self> {
        let running = std::env::current_exe().context("cannot tell where this program is")?;
        let called = std::env::args_os().next().and_then(|name| find_program(Path::new(&name)));
        let called = called.and_then(|path| std::path::absolute(path).ok());
        let is_it = |path: &PathBuf| {
            path.canonicalize().ok().is_some_and(|found| Some(found) == running.canonicalize().ok())
        };
        let program = called.filter(is_it).unwrap_or(running);
        let home = match std::env::var_os("AYE_HOME").filter(|home| !home.is_empty()) {
            Some(home) => {
                let home = std::path::absolute(home)?.into_os_string();
                Some(home.into_string().ok().context("AYE_HOME is not valid UTF-8")?)
            }
            None => None,
        };
        Ok(Self { program, home })
    }

    pub fn line(&self) -> anyhow::Result<String> {
        let program = self.program.to_str();
        let program = program.with_context(|| format!("{} is not valid UTF-8", self.program.display()))?;
        let home = self.home.as_ref().map(|home| format!("AYE_HOME={} ", quoted(home))).unwrap_or_default();
        Ok(format!("{home}exec {} hook", quoted(program)))
    }

    /// Reads back a line of ours; anybody else's is nothing.
    fn read(line: &str) -> Option<Self> {
        let (home, rest) = match line.trim().strip_prefix("AYE_HOME=") {
            Some(rest) => {
                let (home, rest) = unquoted(rest)?;
                (Some(home), rest.trim_start())
            }
            None => (None, line.trim()),
        };
        let (program, rest) = unquoted(rest.strip_prefix("exec ").unwrap_or(rest).trim_start())?;
        let program = PathBuf::from(program);
        let is_ours = program.file_name()?.to_str()?.starts_with("aye") && rest.trim() == "hook";
        is_ours.then_some(Self { program, home })
    }
}

/// One word for every shell, whatever it contains.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The first word of a line as `quoted` writes it, or one without quotes, and the rest.
fn unquoted(line: &str) -> Option<(String, &str)> {
    let (mut word, mut rest) = (String::new(), line);
    loop {
        let (part, after) = match rest.strip_prefix('\'') {
            Some(inside) => inside.split_once('\'')?,
            None => match rest.strip_prefix("\\'") {
                Some(after) => ("'", after),
                None => {
                    let end = rest
                        .find(|c: char| c.is_whitespace() || c == '\'' || c == '\\')
                        .unwrap_or(rest.len());
                    rest.split_at(end)
                }
            },
        };
        word += part;
        let ends = after.is_empty() || after.starts_with(char::is_whitespace);
        if ends || after.len() == rest.len() {
            return (ends && !word.is_empty()).then_some((word, after));
        }
        rest = after;
    }
}

fn entry(command: &str, timeout: u32) -> Value {
    json!({ "matcher": "*", "hooks": [{ "type": "command", "command": command, "timeout": timeout }] })
}

/// Adds our hooks to the `hooks` of some settings. What is there already stays where it is.
pub fn add(hooks: &mut Map<String, Value>, command: &str) -> Result<(), WrongShape> {
    check(hooks)?;
    for (event, timeout) in EVENTS {
        let ours = entry(command, timeout);
        let groups = hooks.get(event).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_there = groups.iter().filter(|group| **group == ours).count() == 1;
        let handlers = groups.iter().flat_map(handlers_of).filter(|handler| command_of(handler).is_some());
        if is_there && handlers.count() == 1 {
            continue;
        }
        remove_from(hooks, event);
        match hooks.get_mut(event) {
            Some(Value::Array(groups)) => groups.push(ours),
            _ => drop(hooks.insert(event.to_owned(), json!([ours]))),
        }
    }
    Ok(())
}

/// Takes our hooks out again, of whatever version, and what is then empty.
pub fn remove(hooks: &mut Map<String, Value>) -> Result<(), WrongShape> {
    check(hooks)?;
    let events: Vec<_> = hooks.keys().cloned().collect();
    for event in events {
        remove_from(hooks, &event);
    }
    Ok(())
}

fn remove_from(hooks: &mut Map<String, Value>, event: &str) {
    let Some(Value::Array(groups)) = hooks.get_mut(event) else { return };
    let before = groups.len();
    groups.retain_mut(|group| {
        let Some(Value::Array(handlers)) = group.get_mut("hooks") else { return true };
        let all = handlers.len();
        handlers.retain(|handler| command_of(handler).is_none());
        !handlers.is_empty() || all == 0
    });
    if groups.is_empty() && before > 0 {
        hooks.shift_remove(event);
    }
}

/// Which of our commands are called, and at which events.
pub fn installed(hooks: &Map<String, Value>) -> Vec<(String, HookCommand)> {
    let groups = hooks
        .iter()
        .flat_map(|(event, groups)| groups.as_array().into_iter().flatten().map(move |group| (event, group)));
    let handlers =
        groups.flat_map(|(event, group)| handlers_of(group).iter().map(move |handler| (event, handler)));
    handlers.filter_map(|(event, handler)| Some((event.clone(), command_of(handler)?))).collect()
}

/// The events at which this command is not called, and should be.
pub fn missing(installed: &[(String, HookCommand)], command: &HookCommand) -> Vec<&'static str> {
    let is_called = |event: &str| installed.iter().any(|(at, found)| at == event && found == command);
    EVENTS.iter().map(|(event, _)| *event).filter(|event| !is_called(event)).collect()
}

fn handlers_of(group: &Value) -> &[Value] {
    group["hooks"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn command_of(handler: &Value) -> Option<HookCommand> {
    HookCommand::read(handler["command"].as_str()?)
}

fn check(hooks: &Map<String, Value>) -> Result<(), WrongShape> {
    for (event, groups) in hooks {
        let wrong = |what: &str| Err(WrongShape(format!("hooks.{event} {what}")));
        let Value::Array(groups) = groups else { return wrong("is not a list") };
        for group in groups {
            match group {
                Value::Object(group) if group.get("hooks").is_none_or(Value::is_array) => {}
                Value::Object(_) => return wrong("has an entry whose hooks are not a list"),
                _ => return wrong("has an entry that is not an object"),
            }
        }
    }
    Ok(())
}

/// The arguments for the person's own program, with our hooks in them. Only the last `--settings` counts, so
/// ours go into the person's, and before everything else where there are none.
pub fn arguments(given: Vec<OsString>, command: &str) -> anyhow::Result<Vec<OsString>> {
    let mut arguments = given;
    let options = arguments.iter().take_while(|argument| *argument != "--").count();
    let is_settings = |argument: &OsString| {
        argument == "--settings" || argument.to_str().is_some_and(|text| text.starts_with("--settings="))
    };
    let last = arguments[..options].iter().rposition(is_settings);
    let Some(at) = last else {
        let ours = with_hooks(Map::new(), command)?;
        arguments.splice(0..0, [OsString::from("--settings"), ours.into()]);
        return Ok(arguments);
    };
    let (place, prefix) = match arguments[at] == "--settings" {
        true => (at + 1, ""),
        false => (at, "--settings="),
    };
    // Without a value the person's own program says what is wrong.
    let Some(value) = arguments.get(place) else { return Ok(arguments) };
    let value = value.to_str().context("the value of --settings is not valid UTF-8")?;
    let merged = with_hooks(person_settings(&value[prefix.len()..])?, command)?;
    arguments[place] = format!("{prefix}{merged}").into();
    Ok(arguments)
}

fn with_hooks(mut settings: Map<String, Value>, command: &str) -> anyhow::Result<String> {
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    let Value::Object(hooks) = hooks else { bail!("the hooks in --settings are not an object") };
    add(hooks, command).context("the settings given with --settings cannot be used")?;
    Ok(Value::Object(settings).to_string())
}

fn person_settings(value: &str) -> anyhow::Result<Map<String, Value>> {
    let (text, place) = match value.trim_start().starts_with('{') {
        true => (value.to_owned(), "the value of --settings".to_owned()),
        false => {
            let text =
                std::fs::read_to_string(value).with_context(|| format!("cannot read --settings {value}"))?;
            (text, value.to_owned())
        }
    };
    serde_json::from_str(&text).with_context(|| format!("{place} is not a JSON object"))
}

#[cfg(test)]
mod tests;
