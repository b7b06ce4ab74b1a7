//! What the agent's own transcript shows of a tool call that we asked about: whether the terminal answered
//! it, what it answered, and so what became of our own answer.

use super::super::receipts::{Expected, excerpt, is_refusal, judge};
use super::super::transcript::line;
use super::super::wire::ToolResult;
use aye_core::{Answer, Body, Question, Receipt};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The result of a tool call, with what newer versions tell of who decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    result: ToolResult,
    detail: Option<Value>,
    decider: Decider,
    /// For how long the person allowed it, as far as that is told.
    scope: &'static str,
    /// What the person wrote beside a refusal.
    feedback: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decider {
    Hook,
    Terminal,
    /// Older versions do not tell.
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Beside {
    permission_decision: Value,
    tool_denial_kind: Value,
    user_feedback: Value,
}

impl Shown {
    /// The result of this call, if this line of the transcript is it.
    pub fn in_line(bytes: &[u8], tool_use_id: &str) -> Option<Self> {
        let line = line::decode(bytes)?;
        let (result, detail) = line.result_of(tool_use_id)?;
        let beside: Beside = serde_json::from_slice(bytes).unwrap_or_default();
        let decider = match beside.permission_decision["source"].as_str() {
            Some("hook") => Decider::Hook,
            Some(source) if source.starts_with("user") => Decider::Terminal,
            _ if beside.tool_denial_kind == "user-rejected" => Decider::Terminal,
            _ => Decider::Unknown,
        };
        let decision = &beside.permission_decision;
        let scope = match (decision["grantScope"].as_str(), decision["source"].as_str()) {
            (Some("session"), _) => "session",
            (Some("always"), _) | (_, Some("user_permanent")) => "always",
            _ => "once",
        };
        let said = || Some(result.text.split_once("the user said:\n")?.1.to_owned());
        let feedback = beside.user_feedback.as_str().map(str::to_owned).or_else(said);
        Some(Self { result: result.clone(), detail: detail.cloned(), decider, scope, feedback })
    }

    fn is_refused(&self) -> bool {
        self.result.is_error && is_refusal(&self.result.text)
    }

    /// Whether the person ended the turn with it and the agent now waits for a prompt.
    pub fn ends_turn(&self) -> bool {
        self.decider == Decider::Terminal && self.is_refused() && self.feedback.is_none()
    }

    /// The answer that was given in the terminal, where it can be told.
    pub fn answer(&self, body: &Body) -> Option<Value> {
        let refused = |mut refusal: Value| {
            if let Some(feedback) = self.feedback.as_deref().filter(|words| !words.trim().is_empty()) {
                refusal["message"] = feedback.into();
            }
            refusal
        };
        let answer = match body {
            Body::Question(_) if self.result.is_error => refused(json!({ "skip": true })),
            Body::Question(questions) => {
                let detail = self.detail.as_ref()?;
                match (detail["answers"].as_object(), detail["response"].as_str()) {
                    (Some(answers), _) if !answers.is_empty() => {
                        let annotations = &detail["annotations"];
                        let choices = questions
                            .questions
                            .iter()
                            .map(|question| choice(question, answers.get(&question.question), annotations));
                        json!({ "answers": choices.collect::<Vec<_>>() })
                    }
                    (_, Some(response)) => json!({ "response": response }),
                    (_, None) => return None,
                }
            }
            Body::Permission(_) if self.is_refused() => {
                refused(json!({ "decision": "deny", "interrupt": self.ends_turn() }))
            }
            Body::Permission(_) => {
                let allowed = json!({ "decision": "allow", "scope": self.scope });
                // The terminal may offer more than we were told of.
                match Answer::read(body, allowed.clone()) {
                    Ok(_) => allowed,
                    Err(_) => json!({ "decision": "allow", "scope": "once" }),
                }
            }
            Body::Plan(_) if self.result.is_error => refused(json!({ "decision": "deny" })),
            Body::Plan(_) => {
                let mut allowed = json!({ "decision": "allow" });
                if let Some(detail) = self.detail.as_ref().filter(|detail| detail["planWasEdited"] == true) {
                    allowed["plan"] = detail["plan"].clone();
                }
                allowed
            }
        };
        Answer::read(body, answer.clone()).ok().map(|_| answer)
    }

    /// What became of an answer of ours, and on what grounds.
    pub fn receipt(&self, body: &Body, expected: &Expected, edited: bool) -> (Receipt, String) {
        let (receipt, evidence) = judge(expected, &self.result, self.detail.as_ref());
        let superseded = || {
            let shown =
                self.answer(body).map_or_else(|| self.result.text.clone(), |answer| answer.to_string());
            (Receipt::Superseded, format!("the terminal was first: {}", excerpt(&shown)))
        };
        match (receipt, self.decider) {
            // The same decision, but not on what the person had changed.
            (Receipt::Confirmed, Decider::Terminal) if edited => superseded(),
            (Receipt::Confirmed, _) | (_, Decider::Hook) => (receipt, evidence),
            (_, Decider::Terminal) => superseded(),
            (_, Decider::Unknown) if self.answer(body).is_some() => superseded(),
            (_, Decider::Unknown) => (receipt, evidence),
        }
    }
}

fn choice(question: &Question, answered: Option<&Value>, annotations: &Value) -> Value {
    let mut words = match answered {
        Some(Value::String(words)) => words.clone(),
        Some(Value::Array(picks)) => picks.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    if words.trim().is_empty() {
        return json!({ "skip": true });
    }
    let mut selected = Vec::new();
    while let Some((label, rest)) = picked(question, &words) {
        selected.push(label);
        words = rest;
    }
    let mut choice = Map::new();
    if !selected.is_empty() {
        choice.insert("selected".into(), selected.into());
    }
    if !words.is_empty() {
        choice.insert("text".into(), words.into());
    }
    if let Some(notes) = annotations[&question.question]["notes"].as_str().filter(|notes| !notes.is_empty()) {
        choice.insert("notes".into(), notes.into());
    }
    Value::Object(choice)
}

/// The pick with which these words begin, and what follows it. The longest label counts, because one may
/// begin like another; what is no label is free text, to the end.
fn picked(question: &Question, words: &str) -> Option<(String, String)> {
    let labels = question.options.iter().map(|offer| &offer.label);
    let fits = labels.filter_map(|label| {
        let rest =
            words.strip_prefix(&format!("\"{label}\"")).or_else(|| words.strip_prefix(label.as_str()))?;
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(", ")? };
        Some((label.clone(), rest.to_owned()))
    });
    fits.max_by_key(|(label, _)| label.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_core::Kind;

    fn shown(result: Value, detail: Value, beside: Value) -> Shown {
        let mut line = json!({"type": "user", "toolUseResult": detail, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_other", "content": "x"}, result]}});
        line.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
        line["message"]["content"][1]["type"] = "tool_result".into();
        line["message"]["content"][1]["tool_use_id"] = "toolu_1".into();
        assert_eq!(Shown::in_line(line.to_string().as_bytes(), "toolu_2"), None);
        Shown::in_line(line.to_string().as_bytes(), "toolu_1").unwrap()
    }

    fn by(source: &str) -> Value {
        json!({"permissionDecision": {"decision": "accept", "source": source}})
    }

    fn questions() -> Body {
        let options = json!([{"label": "a"}, {"label": "a, b"}, {"label": "c"}]);
        let questions = json!({"questions": [
            {"question": "One?", "options": options, "free_text": true},
            {"question": "Many?", "options": options, "multi_select": true, "free_text": true}]});
        Body::decode(Kind::Question, questions).unwrap()
    }

    fn permission() -> Body {
        Body::decode(Kind::Permission, json!({"tool": "Bash", "input": {"command": "ls"}})).unwrap()
    }

    const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected.";

    #[test]
    fn answers_of_the_terminal_are_read_back_into_picks_and_words() {
        let answered = |one: Value, many: Value| {
            let detail =
                json!({"answers": {"One?": one, "Many?": many}, "annotations": {"One?": {"notes": "n"}}});
            shown(json!({"content": "…"}), detail, json!({})).answer(&questions()).unwrap()
        };
        assert_eq!(
            answered(json!("a, b"), json!("a, b, c, own words, a")),
            json!({"answers": [
                {"selected": ["a, b"], "notes": "n"}, {"selected": ["a, b", "c"], "text": "own words, a"}]})
        );
        assert_eq!(
            answered(json!("my own"), json!(["c", "a"])),
            json!({"answers": [{"text": "my own", "notes": "n"}, {"selected": ["c", "a"]}]})
        );
        let some = shown(json!({"content": "…"}), json!({"answers": {"One?": "c"}}), json!({}));
        assert_eq!(
            some.answer(&questions()).unwrap(),
            json!({"answers": [{"selected": ["c"]}, {"skip": true}]})
        );
    }

    #[test]
    fn escape_is_a_refusal_and_words_beside_it_are_kept() {
        let escaped = shown(
            json!({"content": REJECTED, "is_error": true}),
            json!("User rejected tool use"),
            json!({"toolDenialKind": "user-rejected"}),
        );
        assert_eq!(escaped.answer(&questions()).unwrap(), json!({"skip": true}));
        assert!(escaped.ends_turn());
        let with_words = shown(
            json!({"content": format!("{REJECTED} To tell you how to proceed, the user said:\nuse rm"), "is_error": true}),
            json!("x"),
            json!({}),
        );
        assert_eq!(
            with_words.answer(&permission()).unwrap(),
            json!({"decision": "deny", "interrupt": false, "message": "use rm"})
        );
        assert!(!with_words.ends_turn());
    }

    #[test]
    fn a_tool_that_ran_was_allowed_even_if_it_failed() {
        let failed = shown(json!({"content": "exit code 1", "is_error": true}), Value::Null, json!({}));
        assert_eq!(failed.answer(&permission()).unwrap(), json!({"decision": "allow", "scope": "once"}));
    }

    #[test]
    fn an_answer_is_superseded_by_another_of_the_terminal_and_confirmed_by_the_same() {
        let ours = Expected::Answers(json!({"One?": "a", "Many?": "c"}).as_object().unwrap().clone());
        let receipt = |answers: Value, beside: Value| {
            let shown = shown(json!({"content": "…"}), json!({ "answers": answers }), beside);
            shown.receipt(&questions(), &ours, false).0
        };
        let (same, other) = (json!({"One?": "a", "Many?": "c"}), json!({"One?": "c", "Many?": "c"}));
        assert_eq!(receipt(same.clone(), by("hook")), Receipt::Confirmed);
        assert_eq!(receipt(same, by("user_temporary")), Receipt::Confirmed);
        assert_eq!(receipt(other.clone(), by("user_temporary")), Receipt::Superseded);
        assert_eq!(receipt(other.clone(), json!({})), Receipt::Superseded);
        // Ours was taken, and came out as something else: that is an alarm.
        assert_eq!(receipt(other, by("hook")), Receipt::Disputed);
        assert_eq!(receipt(json!({}), json!({})), Receipt::Disputed);
    }

    #[test]
    fn an_edited_input_is_not_what_the_terminal_allowed() {
        let ran = |source: &str, edited: bool| {
            shown(json!({"content": "done"}), Value::Null, by(source))
                .receipt(&permission(), &Expected::Allowed, edited)
                .0
        };
        assert_eq!(ran("user_temporary", false), Receipt::Confirmed);
        assert_eq!(ran("user_temporary", true), Receipt::Superseded);
        assert_eq!(ran("hook", true), Receipt::Confirmed);
    }

    #[test]
    fn a_refusal_that_the_terminal_overruled_is_superseded() {
        let refused = Expected::Refused { message: "no".into(), interrupt: false };
        let ran = shown(json!({"content": "done"}), Value::Null, by("user_permanent"));
        let (receipt, evidence) = ran.receipt(&permission(), &refused, false);
        assert_eq!(receipt, Receipt::Superseded);
        assert!(evidence.contains("allow"), "{evidence}");
    }
}
