//! What an agent asks for over ACP, as an ask.

use super::{Options, Start};
use crate::agents::driven::rpc::question as read_question;
use crate::agents::driven::tools::{OwnTool, kept_by_hub, to_vocabulary};
use aye_core::{Body, Can, Keeper, Permission, Questions, Scope, ScopeOffer, Tool};
use serde_json::{Map, Value, json};

/// Qwen Code says which of its tools it uses, and with what.
const QWEN: [OwnTool; 4] = [
    OwnTool { name: "run_shell_command", tool: Tool::Command, fields: &[] },
    OwnTool { name: "write_file", tool: Tool::Write, fields: &[] },
    OwnTool { name: "edit", tool: Tool::Edit, fields: &[] },
    OwnTool { name: "read_file", tool: Tool::Read, fields: &[] },
];

/// What ACP carries of an answer to a permission.
pub fn can_permit(kind: &str) -> Can {
    let why = "its protocol carries neither a changed input nor words with a refusal".to_owned();
    Can {
        edit: false,
        reason: false,
        why: Some(why.into()),
        deny_ends_turn: refusal_ends_turn(kind),
        ..Can::default()
    }
}

/// What Qwen takes of an answer to its questions.
pub fn can_answer(kind: &str) -> Can {
    let why = "it takes one text for each question, and nothing else".to_owned();
    let deny_ends_turn = refusal_ends_turn(kind);
    Can {
        response: false,
        notes: false,
        reason: false,
        why: Some(why.into()),
        deny_ends_turn,
        ..Can::default()
    }
}

fn refusal_ends_turn(kind: &str) -> bool {
    kind == "qwen"
}

/// The questions, if it is Qwen that asks some in the guise of a permission.
pub fn questions(call: &Value) -> Option<Result<Questions, String>> {
    let meta = &call["_meta"];
    (meta["qwenInteractionKind"] == "user_question").then(|| {
        let asked = meta["qwenQuestions"].as_array().ok_or("it has no questions")?;
        let read = |question: &Value| read_question(question, question["multiSelect"] == true, true);
        Questions::new(asked.iter().map(read).collect::<Result<_, _>>()?)
    })
}

pub fn permission(call: &Value, options: &Options, start: &Start) -> Result<Body, String> {
    let (tool, input) = tool_and_input(call, &start.kind);
    let mut scopes = vec![];
    if options.allow_once.is_some() {
        scopes.push(ScopeOffer::once());
    }
    // Nobody knows what an unclear call will be the next time.
    if Tool::named(&tool) != Some(Tool::Unclear) {
        let agents = [(Scope::Session, &options.for_session), (Scope::Always, &options.always)];
        let agents = agents.into_iter().filter_map(|(scope, option)| {
            let rule = option.as_ref().map(|option| option.name.clone());
            rule.map(|rule| ScopeOffer { scope, rule: Some(rule), kept_by: Some(Keeper::Agent) })
        });
        scopes.extend(agents);
        let hubs = kept_by_hub(&start.kind, &tool, &input, &start.cwd, &start.places);
        let missing = |offer: &ScopeOffer| {
            offer.scope != Scope::Once && !scopes.iter().any(|known| known.scope == offer.scope)
        };
        let missing: Vec<_> = hubs.into_iter().filter(missing).collect();
        scopes.extend(missing.into_iter().filter(|_| options.allow_once.is_some()));
    }
    if scopes.is_empty() {
        return Err("it offers no way to allow it once".into());
    }
    Permission::new(tool, input, Some(scopes)).map(Body::Permission)
}

/// What the call will do, as far as the agent shows it. A title is only words.
pub fn tool_and_input(call: &Value, kind: &str) -> (String, Map<String, Value>) {
    let raw = call["rawInput"].as_object().filter(|raw| !raw.is_empty());
    match (raw, call["_meta"]["toolName"].as_str(), written(call)) {
        (Some(raw), Some(name), _) if kind == "qwen" => to_vocabulary(&QWEN, kind, name, raw.clone()),
        (Some(raw), ..) => {
            let mut input = raw.clone();
            input.extend(
                shown(call, &["content"]).into_iter().map(|(field, value)| (format!("acp_{field}"), value)),
            );
            (format!("{kind}:{}", call["kind"].as_str().unwrap_or("other")), input)
        }
        (None, _, Some(written)) => (Tool::Write.name().to_owned(), written),
        (None, _, None) => {
            (Tool::Unclear.name().to_owned(), shown(call, &["title", "kind", "content", "locations"]))
        }
    }
}

/// One file with all that it will hold; anything beside that would be lost.
fn written(call: &Value) -> Option<Map<String, Value>> {
    let [change] = call["content"].as_array()?.as_slice() else { return None };
    let is_change = call["kind"] == "edit" && change["type"] == "diff" && change["oldText"].is_string();
    let (path, text) = (change["path"].as_str()?, change["newText"].as_str()?);
    let fields = [("file_path".to_owned(), json!(path)), ("content".to_owned(), json!(text))];
    is_change.then(|| fields.into_iter().collect())
}

fn shown(call: &Value, fields: &[&str]) -> Map<String, Value> {
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let fields = fields.iter().map(|field| ((*field).to_owned(), call[*field].clone()));
    fields.filter(|(_, value)| !empty(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(kind: &str, call: Value) -> (String, Value) {
        let (tool, input) = tool_and_input(&call, kind);
        (tool, Value::Object(input))
    }

    #[test]
    fn rules_see_what_the_agent_shows_and_a_title_is_not_a_command() {
        let shell = json!({"kind": "execute", "title": "ls", "rawInput": {"command": "rm x"}, "_meta": {"toolName": "run_shell_command"}});
        assert_eq!(translated("qwen", shell.clone()), ("Bash".into(), json!({"command": "rm x"})));
        assert_eq!(translated("other", shell).0, "other:execute");
        let title = json!({"kind": "execute", "title": "ls", "content": [], "locations": []});
        assert_eq!(
            translated("gemini", title.clone()),
            ("Unclear".into(), json!({"title": "ls", "kind": "execute"}))
        );
        assert_eq!(translated("qwen", title).0, "Unclear");
        let diff = json!({"type": "diff", "path": "/a", "oldText": "x", "newText": "y"});
        let edit = |content: Value| json!({"kind": "edit", "title": "a", "content": content});
        assert_eq!(
            translated("gemini", edit(json!([diff]))),
            ("Write".into(), json!({"file_path": "/a", "content": "y"}))
        );
        assert_eq!(translated("gemini", edit(json!([diff, diff]))).0, "Unclear");
        assert_eq!(translated("gemini", json!({"kind": "delete", "content": [diff]})).0, "Unclear");
        // A tool by the name of one of ours is not ours.
        let posing = json!({"kind": "execute", "rawInput": {"command": "x"}, "_meta": {"toolName": "Bash"}});
        assert_eq!(translated("qwen", posing).0, "qwen:Bash");
    }
}
