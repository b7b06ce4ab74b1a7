//! How an ask ended, as Claude Code is told it, and what its transcript must then show.

use super::receipts::Expected;
use super::translate::rules_for;
use super::wire::{CanUseTool, Permit, tool_result_line, with_fields};
use aye_core::{Answer, Body, Choice, PlanVerdict, Question, Reply, Verdict};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Tells the agent of an answer. Every question is answered or said to be skipped, because the agent's own
/// tool drops what is missing without a word.
pub fn permit(
    tool: &CanUseTool,
    body: &Body,
    answer: &Answer,
    message: Option<&str>,
) -> Result<(Permit, Expected), serde_json::Error> {
    Ok(match (body, answer) {
        (Body::Question(questions), Answer::Question(Reply::Each { answers })) => {
            let (answers, annotations) = answered(&questions.questions, answers);
            let mut added = Map::new();
            added.insert("answers".into(), Value::Object(answers.clone()));
            if !annotations.is_empty() {
                added.insert("annotations".into(), Value::Object(annotations));
            }
            (allow(with_fields(&tool.input, added)?), Expected::Answers(answers))
        }
        (Body::Question(_), Answer::Question(Reply::Response { response })) => {
            let added = [("answers".to_owned(), json!({})), ("response".to_owned(), json!(response))];
            let input = with_fields(&tool.input, added.into_iter().collect())?;
            (allow(input), Expected::Words(response.to_string()))
        }
        (_, Answer::Permission(Verdict::Allow { scope, input })) => {
            let suggested = tool.permission_suggestions.as_deref().unwrap_or_default();
            let input = match input {
                Some(edited) => to_raw_value(edited)?,
                None => tool.input.clone(),
            };
            (Permit::Allow { input, rules: rules_for(*scope, suggested) }, Expected::Allowed)
        }
        (_, Answer::Plan(PlanVerdict::Allow { plan })) => {
            let input = match plan {
                Some(plan) => {
                    with_fields(&tool.input, [("plan".to_owned(), json!(plan))].into_iter().collect())?
                }
                None => tool.input.clone(),
            };
            (allow(input), Expected::Allowed)
        }
        (_, Answer::Permission(Verdict::Deny { interrupt, .. })) => deny(message, REFUSED, *interrupt),
        (_, Answer::Plan(PlanVerdict::Deny { .. })) => deny(message, REFUSED, false),
        (_, Answer::Plan(PlanVerdict::Outline)) => {
            deny(message, "The user wants to see an outline of the plan first.", false)
        }
        (_, Answer::Question(Reply::Skip { .. })) => {
            deny(message, "The user declined to answer these questions.", false)
        }
        (Body::Permission(_) | Body::Plan(_), Answer::Question(_)) => {
            deny(None, "The answer did not fit what was asked, so nothing is approved.", false)
        }
    })
}

/// The answer to questions as the result of the tool that asked them: the words alone for one question, a
/// map from question to answer for several.
pub fn told_as_result(tool_use_id: &str, body: &Body, answer: &Answer) -> (String, Expected) {
    let words = match (body, answer) {
        (Body::Question(questions), Answer::Question(Reply::Each { answers })) => {
            let (answers, _) = answered(&questions.questions, answers);
            match answers.values().next() {
                Some(Value::String(only)) if answers.len() == 1 => only.clone(),
                _ => Value::Object(answers).to_string(),
            }
        }
        (_, Answer::Question(Reply::Response { response })) => response.to_string(),
        (_, answer) => {
            let message =
                answer.message().unwrap_or("The user declined to answer these questions.").to_owned();
            let line = tool_result_line(tool_use_id, &message, true);
            return (line, Expected::Refused { message, interrupt: false });
        }
    };
    (tool_result_line(tool_use_id, &words, false), Expected::Words(words))
}

/// Tells the agent that nobody answered: never an approval.
pub fn unanswered(message: Option<&str>) -> (Permit, Expected) {
    deny(message, "Nobody answered. This was not approved.", false)
}

fn allow(input: Box<RawValue>) -> Permit {
    Permit::Allow { input, rules: Vec::new() }
}

/// Told to the model for a refusal without words. It states what happened and puts no words in the person's mouth.
const REFUSED: &str = "Refused (no reason given).";

fn deny(message: Option<&str>, otherwise: &str, interrupt: bool) -> (Permit, Expected) {
    let message = message.unwrap_or(otherwise).to_owned();
    (Permit::Deny { message: message.clone(), interrupt }, Expected::Refused { message, interrupt })
}

/// Answers by the exact text of their question, and what goes beside them.
fn answered(questions: &[Question], choices: &[Choice]) -> (Map<String, Value>, Map<String, Value>) {
    let (mut answers, mut annotations) = (Map::new(), Map::new());
    for (question, choice) in questions.iter().zip(choices) {
        answers.insert(question.question.clone(), choice.in_words().into());
        let annotation = annotation(question, choice);
        if !annotation.is_empty() {
            annotations.insert(question.question.clone(), Value::Object(annotation));
        }
    }
    (answers, annotations)
}

fn annotation(question: &Question, choice: &Choice) -> Map<String, Value> {
    let mut annotation = Map::new();
    let Choice::Given { selected, text: _, notes } = choice else { return annotation };
    let chosen = question.options.iter().filter(|offer| selected.contains(&offer.label));
    let previews: Vec<_> = chosen.filter_map(|offer| offer.preview.as_deref()).collect();
    if !previews.is_empty() {
        annotation.insert("preview".into(), previews.join("\n").into());
    }
    if let Some(notes) = notes {
        annotation.insert("notes".into(), notes.as_str().into());
    }
    annotation
}

#[cfg(test)]
mod tests {
    use super::super::wire::permit_line;
    use super::*;
    use std::path::Path;

    /// What is written to the agent for an answer to this tool call.
    fn told(tool: &str, input: Value, suggestions: Option<Vec<Value>>, answer: Value) -> Value {
        let tool = CanUseTool {
            tool_name: tool.into(),
            input: to_raw_value(&input).unwrap(),
            tool_use_id: None,
            agent_id: None,
            permission_suggestions: suggestions,
        };
        let body = super::super::translate::ask(&tool, Path::new("/src"), &aye_policy::OwnPlaces::default())
            .unwrap();
        let answer = Answer::read(&body, answer).unwrap();
        let (permit, _) = permit(&tool, &body, &answer, answer.message()).unwrap();
        let line: Value = serde_json::from_str(&permit_line("r", &permit)).unwrap();
        line["response"]["response"].clone()
    }

    fn questions() -> Value {
        json!({"questions": [
            {"question": "One?", "header": "A", "options": [{"label": "x, y", "description": "", "preview": "P"}, {"label": "z", "description": ""}], "multiSelect": false},
            {"question": "Many?", "header": "A", "options": [{"label": "x, y", "description": ""}, {"label": "z", "description": ""}], "multiSelect": true}]})
    }

    #[test]
    fn answers_go_by_question_text_with_notes_and_previews_beside_them() {
        let answer = json!({"answers": [{"selected": ["x, y"], "notes": "soft"}, {"selected": ["x, y", "z"], "text": "own"}]});
        let told = told("AskUserQuestion", questions(), None, answer);
        assert_eq!(told["behavior"], "allow");
        assert_eq!(told["updatedInput"]["questions"], questions()["questions"]);
        assert_eq!(told["updatedInput"]["answers"], json!({"One?": "x, y", "Many?": "\"x, y\", z, own"}));
        assert_eq!(told["updatedInput"]["annotations"], json!({"One?": {"preview": "P", "notes": "soft"}}));
    }

    #[test]
    fn a_skipped_question_is_said_to_be_skipped_and_a_reply_stands_for_all() {
        let one = told(
            "AskUserQuestion",
            questions(),
            None,
            json!({"answers": [{"skip": true}, {"selected": ["z"]}]}),
        );
        assert_eq!(one["updatedInput"]["answers"], json!({"One?": "(skipped by the user)", "Many?": "z"}));
        let reply = told("AskUserQuestion", questions(), None, json!({"response": "think again"}));
        assert_eq!(
            (&reply["updatedInput"]["answers"], &reply["updatedInput"]["response"]),
            (&json!({}), &json!("think again"))
        );
        let declined = told("AskUserQuestion", questions(), None, json!({"skip": true}));
        assert_eq!(
            declined,
            json!({"behavior": "deny", "message": "The user declined to answer these questions."})
        );
    }

    #[test]
    fn a_permission_is_allowed_with_its_own_input_an_edited_one_or_with_rules() {
        let (bash, suggestion) = (
            json!({"command": "ls"}),
            json!({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "localSettings"}),
        );
        let allow = |answer: Value| told("Bash", bash.clone(), Some(vec![suggestion.clone()]), answer);
        assert_eq!(
            allow(json!({"decision": "allow", "scope": "once"})),
            json!({"behavior": "allow", "updatedInput": {"command": "ls"}})
        );
        let edited = allow(json!({"decision": "allow", "scope": "once", "input": {"command": "ls -l"}}));
        assert_eq!(edited["updatedInput"], json!({"command": "ls -l"}));
        assert_eq!(
            allow(json!({"decision": "allow", "scope": "always"}))["updatedPermissions"],
            json!([suggestion])
        );
        let session = allow(json!({"decision": "allow", "scope": "session"}));
        assert_eq!(session["updatedPermissions"][0]["destination"], "session");
        let denied = allow(json!({"decision": "deny", "message": "no", "interrupt": true}));
        assert_eq!(denied, json!({"behavior": "deny", "message": "no", "interrupt": true}));
        assert_eq!(allow(json!({"decision": "deny"}))["message"], "Refused (no reason given).");
    }

    #[test]
    fn a_plan_is_approved_edited_or_refused() {
        let plan = |answer: Value| told("ExitPlanMode", json!({"plan": "1. x", "extra": 1}), None, answer);
        assert_eq!(plan(json!({"decision": "allow"}))["updatedInput"], json!({"plan": "1. x", "extra": 1}));
        let edited = plan(json!({"decision": "allow", "plan": "2. y"}));
        assert_eq!(edited["updatedInput"], json!({"plan": "2. y", "extra": 1}));
        assert_eq!(plan(json!({"decision": "deny", "message": "smaller"}))["message"], "smaller");
        assert_eq!(plan(json!({"decision": "deny"}))["message"], "Refused (no reason given).");
        assert_eq!(plan(json!({"decision": "outline"}))["behavior"], "deny");
    }

    #[test]
    fn an_agent_that_asks_by_a_bare_tool_call_gets_the_answer_as_its_result() {
        let asked = |questions: &Value| {
            Body::Question(super::super::translate::questions(questions.as_object().unwrap()).unwrap())
        };
        let result = |questions: &Value, answer: Value| {
            let body = asked(questions);
            let (line, expected) = told_as_result("t", &body, &Answer::read(&body, answer).unwrap());
            let line: Value = serde_json::from_str(&line).unwrap();
            (line["message"]["content"][0].clone(), expected)
        };
        let one = json!({"question": "Which?", "options": ["a", "b"], "multiSelect": true});
        let (told, expected) = result(&one, json!({"answers": [{"selected": ["a", "b"]}]}));
        assert_eq!(
            told,
            json!({"type": "tool_result", "tool_use_id": "t", "content": "a, b", "is_error": false})
        );
        assert_eq!(expected, Expected::Words("a, b".into()));
        let (told, _) = result(&questions(), json!({"answers": [{"selected": ["z"]}, {"skip": true}]}));
        let map: Value = serde_json::from_str(told["content"].as_str().unwrap()).unwrap();
        assert_eq!(map, json!({"One?": "z", "Many?": "(skipped by the user)"}));
        let (told, _) = result(&one, json!({"skip": true}));
        assert_eq!(told["is_error"], true);
    }

    #[test]
    fn silence_is_a_refusal() {
        assert!(matches!(unanswered(None).0, Permit::Deny { interrupt: false, .. }));
    }
}
