//! What Codex asks for, as an ask.

use super::command::script;
use super::diff;
use crate::agents::driven::rpc::question as read_question;
use crate::agents::driven::tools::{RunContext, kept_by_hub};
use aye_core::{Body, Can, Permission, Questions, ScopeOffer, Tool};
use serde_json::{Map, Value, json};

/// Fields of a request that say nothing of what will happen: where it belongs, and what Codex offers beside it. Any
/// other field is part of the input, so that a person sees it and no rule passes it by.
const ASIDE: [&str; 12] = [
    "kind",
    "threadId",
    "turnId",
    "itemId",
    "approvalId",
    "startedAtMs",
    "command",
    "cwd",
    "reason",
    "commandActions",
    "proposedExecpolicyAmendment",
    "availableDecisions",
];
/// The environment that is this machine.
const HERE: &str = "local";

/// What Codex takes of an answer to a permission.
pub fn can_permit() -> Can {
    let why = "Codex takes neither a changed input nor words with a refusal".to_owned();
    Can { edit: false, reason: false, why: Some(why.into()), ..Can::default() }
}

/// What it takes of an answer to a question.
pub fn can_answer() -> Can {
    let why = "Codex takes one answer to each question, and knows no other".to_owned();
    Can { skip: false, response: false, why: Some(why.into()), ..Can::default() }
}

pub fn command(params: &Map<String, Value>, place: &RunContext) -> Result<Body, String> {
    let mut input = Map::new();
    let line = params.get("command").and_then(Value::as_str).unwrap_or_default();
    let runs = params.get("kind").is_none_or(|kind| kind == "command");
    let script = script(line).filter(|_| runs);
    input.insert("command".into(), script.as_deref().unwrap_or(line).into());
    if let Some(reason @ Value::String(_)) = params.get("reason") {
        input.insert("description".into(), reason.clone());
    }
    // A folder that is not the session's stays in sight, and no rule allows what it does not know.
    let is_here = |cwd: &Value| cwd.as_str().is_some_and(|cwd| std::path::Path::new(cwd) == place.cwd);
    let elsewhere = params.get("cwd").filter(|cwd| !cwd.is_null() && !is_here(cwd));
    input.extend(elsewhere.map(|cwd| ("workdir".to_owned(), cwd.clone())));
    input.extend(others(params));
    match script {
        Some(_) => permission(Tool::Command.name().to_owned(), input, place),
        None => {
            input.extend(params.get("kind").filter(|_| !runs).map(|kind| ("kind".to_owned(), kind.clone())));
            unclear(input)
        }
    }
}

/// A change of files, with the changes that Codex told of when it began; without them nobody can know what it does.
pub fn change(
    params: &Map<String, Value>,
    changes: Option<&Value>,
    place: &RunContext,
) -> Result<Body, String> {
    let mut input = others(params);
    input.extend(
        params
            .get("reason")
            .filter(|reason| !reason.is_null())
            .map(|reason| ("reason".into(), reason.clone())),
    );
    match changes.and_then(diff::tool_and_input) {
        Some((tool, change)) if input.is_empty() => permission(tool, change, place),
        Some((_, change)) => {
            input.extend(change);
            unclear(input)
        }
        None => {
            input.insert("change".into(), params.get("itemId").cloned().unwrap_or_default());
            unclear(input)
        }
    }
}

fn others(params: &Map<String, Value>) -> Map<String, Value> {
    let says_something = |(field, value): &(&String, &Value)| {
        let is_here = *field == "environmentId" && *value == HERE;
        !ASIDE.contains(&field.as_str()) && !value.is_null() && !is_here
    };
    params.iter().filter(says_something).map(|(field, value)| (field.clone(), value.clone())).collect()
}

fn permission(tool: String, input: Map<String, Value>, place: &RunContext) -> Result<Body, String> {
    let scopes = kept_by_hub(place.kind, &tool, &input, place.cwd, place.places);
    Permission::new(tool, input, Some(scopes)).map(Body::Permission)
}

/// A person sees what there is, and may allow it once.
fn unclear(input: Map<String, Value>) -> Result<Body, String> {
    let tool = Tool::Unclear.name().to_owned();
    Permission::new(tool, input, Some(vec![ScopeOffer::once()])).map(Body::Permission)
}

/// The questions, and Codex's own names for them.
pub fn questions(params: &Map<String, Value>) -> Result<(Vec<String>, Questions), String> {
    let asked = params.get("questions").and_then(Value::as_array).ok_or("it has no questions")?;
    let mut ids = Vec::new();
    let mut questions = Vec::new();
    for question in asked {
        let id = question["id"].as_str().ok_or("a question has no id")?;
        if ids.iter().any(|known| known == id) {
            return Err(format!("two of its questions have the id {id}"));
        }
        ids.push(id.to_owned());
        let no_options = question["options"].as_array().is_none_or(Vec::is_empty);
        let mut read = read_question(question, false, question["isOther"] == true || no_options)?;
        read.secret = question["isSecret"] == true;
        questions.push(read);
    }
    Ok((ids, Questions::new(questions)?))
}

/// What a person wants to know of an item that Codex works on: a name for it, and its input.
pub fn tool_of_item(item: &Value) -> Option<(String, Value)> {
    match item["type"].as_str()? {
        "commandExecution" => {
            let line = item["command"].as_str()?;
            let command = script(line).unwrap_or_else(|| line.to_owned());
            Some((Tool::Command.name().to_owned(), json!({ "command": command })))
        }
        "fileChange" => {
            let (tool, input) = diff::tool_and_input(&item["changes"])?;
            Some((tool, Value::Object(input)))
        }
        "mcpToolCall" => {
            let name = |field: &str| item[field].as_str().unwrap_or_default();
            Some((format!("mcp__{}__{}", name("server"), name("tool")), item["arguments"].clone()))
        }
        "webSearch" => Some(("WebSearch".to_owned(), json!({ "query": item["query"] }))),
        _ => None,
    }
}
