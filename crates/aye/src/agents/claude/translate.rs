//! What Claude Code asks for, as an ask.

use super::wire::CanUseTool;
use crate::agents::driven::tools::kept_by_hub;
use crate::claude_settings::{self, FOLDERS, MODE, place_words};
use crate::config::DEFAULT_KIND;
use aye_core::{
    Body, Keeper, Offer, Permission, Plan, Question, QuestionDraft, Questions, Scope, ScopeOffer, Text, Tool,
};
use serde_json::{Map, Value};
use std::path::Path;

/// Why something an agent asks cannot be shown to a person; the agent is told so, and nothing is approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this cannot be shown to a person: {0}")]
pub struct Unshowable(String);

impl From<String> for Unshowable {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<&str> for Unshowable {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

/// The tool that asks questions.
pub const QUESTIONS: &str = Tool::Questions.name();
/// The tool that shows a plan.
pub const PLAN: &str = Tool::Plan.name();

/// The same of an agent whose plan may stand elsewhere than in the request.
pub fn ask_with_plan(
    tool: &CanUseTool,
    cwd: &Path,
    places: &aye_policy::OwnPlaces,
    plan: impl FnOnce() -> Option<String>,
) -> Result<Body, Unshowable> {
    let asked = ask(tool, cwd, places);
    if asked.is_err()
        && tool.tool_name == PLAN
        && let Some(plan) = plan().filter(|plan| !plan.trim().is_empty())
    {
        return Ok(Body::Plan(Plan { plan: Text::from_displayed(&plan) }));
    }
    asked
}

/// The ask behind a request to use a tool by an agent that works in `cwd`.
pub fn ask(tool: &CanUseTool, cwd: &Path, places: &aye_policy::OwnPlaces) -> Result<Body, Unshowable> {
    // Whatever the hub would not take, or would take for something else, is told to the agent here.
    let input = aye_core::json::parse(tool.input.get().as_bytes())
        .and_then(serde_json::from_value::<Map<String, Value>>)
        .map_err(|error| format!("its input cannot be used: {error}"))?;
    match Tool::named(&tool.tool_name) {
        Some(Tool::Questions) => questions(&input).map(Body::Question),
        Some(Tool::Plan) => plan(&input).map(Body::Plan),
        _ => permission(tool, input, cwd, places).map(Body::Permission),
    }
}

/// Also the old form, a single `question` beside its options.
pub fn questions(input: &Map<String, Value>) -> Result<Questions, Unshowable> {
    let alone = [Value::Object(input.clone())];
    let asked = match input.get("questions") {
        Some(Value::Array(questions)) => questions.as_slice(),
        Some(_) => return Err("`questions` is not a list".into()),
        None => &alone,
    };
    Ok(Questions::new(asked.iter().map(question).collect::<Result<_, _>>()?)?)
}

fn question(question: &Value) -> Result<Question, Unshowable> {
    let text = |field: &str| question[field].as_str().unwrap_or_default().to_owned();
    let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let draft = QuestionDraft {
        question: text("question"),
        header: text("header"),
        options: options.iter().map(offer).collect(),
        multi_select: question["multiSelect"].as_bool().unwrap_or(false),
        free_text: true,
        secret: false,
    };
    Ok(Question::try_from(draft)?)
}

fn offer(option: &Value) -> Offer {
    let text = |field: &str| option[field].as_str().map(str::to_owned);
    Offer {
        label: option.as_str().map(str::to_owned).or_else(|| text("label")).unwrap_or_default(),
        description: text("description").unwrap_or_default(),
        preview: text("preview"),
        allows: false,
    }
}

fn plan(input: &Map<String, Value>) -> Result<Plan, Unshowable> {
    let plan = input.get("plan").and_then(Value::as_str).unwrap_or_default();
    Ok(Plan { plan: Text::try_from(plan).map_err(|_| "the plan is empty")? })
}

fn permission(
    tool: &CanUseTool,
    input: Map<String, Value>,
    cwd: &Path,
    places: &aye_policy::OwnPlaces,
) -> Result<Permission, Unshowable> {
    let suggested = tool.permission_suggestions.as_deref().unwrap_or_default();
    let mut scopes = vec![ScopeOffer::once()];
    if suggested.is_empty() {
        scopes = kept_by_hub(DEFAULT_KIND, &tool.tool_name, &input, cwd, places);
    } else {
        for scope in [Scope::Session, Scope::Always] {
            let rules = rules_for(scope, suggested);
            if !rules.is_empty() {
                let rule = claude_settings::in_words(&rules.iter().map(rule_in_words).collect::<Vec<_>>());
                scopes.push(ScopeOffer { scope, rule: Some(rule), kept_by: Some(Keeper::Agent) });
            }
        }
    }
    Ok(Permission::new(tool.tool_name.clone(), input, Some(scopes))?)
}

/// The agent's own suggestions as they are to be kept: for the session what is about this tool, for always
/// what it would write into a settings file. Where there is a rule for just this, the agent's wish to change its
/// whole mode is left out.
pub fn rules_for(scope: Scope, suggested: &[Value]) -> Vec<Value> {
    let has_rules = suggested.iter().any(|suggestion| suggestion["type"] == "addRules");
    match scope {
        Scope::Once => Vec::new(),
        Scope::Session => suggested
            .iter()
            .filter(|suggestion| suggestion["type"] != "setMode" || !has_rules)
            .map(|suggestion| {
                let mut rule = suggestion.clone();
                rule["destination"] = "session".into();
                rule
            })
            .collect(),
        Scope::Always => {
            suggested.iter().filter(|suggestion| suggestion["destination"] != "session").cloned().collect()
        }
    }
}

/// Exactly what will be added, and where, in words.
fn rule_in_words(rule: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = place_words(rule["destination"].as_str());
    match rule["type"].as_str() {
        Some("addRules") => {
            let rules = rule["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
            let each = rules.iter().map(|rule| match rule["ruleContent"].as_str() {
                Some(content) => format!("{}({content})", text(&rule["toolName"])),
                None => text(&rule["toolName"]),
            });
            format!("{} {}{place}", text(&rule["behavior"]), each.collect::<Vec<_>>().join(", "))
        }
        Some("setMode") => format!("{MODE} {}{place}", text(&rule["mode"])),
        Some("addDirectories") => {
            let folders = rule["directories"].as_array().map(Vec::as_slice).unwrap_or_default();
            let folders: Vec<_> = folders.iter().map(text).collect();
            format!("{FOLDERS} {}{place}", folders.join(", "))
        }
        _ => format!("{rule}{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn can_use(tool: &str, input: Value, suggestions: Option<Vec<Value>>) -> CanUseTool {
        CanUseTool {
            tool_name: tool.into(),
            input: to_raw_value(&input).unwrap(),
            tool_use_id: Some("toolu_1".into()),
            agent_id: None,
            permission_suggestions: suggestions,
        }
    }

    fn translated(tool: &str, input: Value, suggestions: Option<Vec<Value>>) -> Result<Value, Unshowable> {
        let places = aye_policy::OwnPlaces::default();
        Ok(ask(&can_use(tool, input, suggestions), Path::new("/src"), &places)?.to_json())
    }

    #[test]
    fn questions_keep_everything_and_always_take_free_text() {
        let input = json!({"questions": [{"question": "Which?", "header": "DB", "multiSelect": true,
            "options": [{"label": "a", "description": "x", "preview": "p"}, {"label": "b", "description": ""}]}]});
        assert_eq!(
            translated("AskUserQuestion", input, None).unwrap(),
            json!({"questions": [{"question": "Which?", "header": "DB",
                "options": [{"label": "a", "description": "x", "preview": "p"}, {"label": "b", "description": ""}],
                "multi_select": true, "free_text": true}]})
        );
    }

    #[test]
    fn the_old_form_with_a_single_question_is_understood() {
        let asked =
            translated("AskUserQuestion", json!({"question": "Go on?", "options": ["yes", "no"]}), None)
                .unwrap();
        assert_eq!(asked["questions"][0]["question"], "Go on?");
        assert_eq!(asked["questions"][0]["options"][1]["label"], "no");
        assert!(translated("AskUserQuestion", json!({"question": "Why?"}), None).is_ok());
    }

    #[test]
    fn what_cannot_be_shown_is_refused_not_approved() {
        assert!(translated("AskUserQuestion", json!({"questions": []}), None).is_err());
        assert!(translated("AskUserQuestion", json!({"questions": "x"}), None).is_err());
        assert!(translated("ExitPlanMode", json!({"plan": " "}), None).is_err());
        assert!(translated("Bash", json!("rm -rf /"), None).is_err());
    }

    #[test]
    fn the_agents_own_rules_are_offered_in_words() {
        let rules = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "npm test:*"}], "behavior": "allow", "destination": "localSettings"});
        let asked = translated("Bash", json!({"command": "npm test"}), Some(vec![rules])).unwrap();
        assert_eq!(
            asked["scopes"],
            json!([
                {"scope": "once"},
                {"scope": "session", "rule": "allow Bash(npm test:*) for this session", "kept_by": "agent"},
                {"scope": "always", "rule": "allow Bash(npm test:*) in this project's local settings", "kept_by": "agent"}])
        );
        let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
        let asked = translated("Write", json!({"file_path": "/x", "content": ""}), Some(vec![mode])).unwrap();
        assert_eq!(asked["scopes"][1]["rule"], "switch to the mode acceptEdits for this session");
        assert_eq!(asked["scopes"].as_array().unwrap().len(), 2);
        let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"});
        let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
        let asked = translated("Bash", json!({"command": "ls"}), Some(vec![rule, mode])).unwrap();
        assert_eq!(
            asked["scopes"][1]["rule"], "allow Bash for this session",
            "no more than what is asked for"
        );
    }

    #[test]
    fn without_a_rule_of_its_own_the_hub_keeps_what_is_exact_and_offers_nothing_else() {
        let scopes = |command: &str| {
            translated("Bash", json!({ "command": command }), None).unwrap()["scopes"].clone()
        };
        assert_eq!(scopes("make")[1]["kept_by"], "hub");
        assert_eq!(scopes("make $(x)"), json!([{"scope": "once"}]));
    }
}
