//! What a transcript shows of a tool call that returned: what the agent got, who decided it, and, as an answer, what
//! was said in the terminal. Hooks and watchers read it here alike.

use super::super::receipts::{Expected, Fate, REFUSED_TO_SUB_AGENT, excerpt, judge};
use super::super::wire::ToolResult;
use super::line;
use aye_core::{Answer, Body, Question, Receipt};
use serde_json::{Map, Value, json};

/// The result of a tool call, with what newer versions tell of who decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Returned {
    pub result: ToolResult,
    /// The structured part beside the result.
    pub detail: Option<Value>,
    fate: Fate,
    decider: DecidedBy,
    /// For how long the person allowed it, as far as that is told.
    scope: &'static str,
    /// What the person wrote beside a refusal.
    feedback: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecidedBy {
    Hook,
    Terminal,
    /// A rule, a mode or another hook of the agent.
    Agent,
    /// Older versions do not tell.
    Unknown,
}

/// What is beside the results in a line.
#[derive(Default)]
pub struct Beside {
    pub detail: Option<Value>,
    pub decision: Value,
    pub denial: Option<String>,
    pub feedback: Option<String>,
}

impl Beside {
    /// Reads the structured fields; none where there are none, as in older versions.
    fn fate(&self) -> Option<Fate> {
        match (self.decision["decision"].as_str(), self.denial.as_deref()) {
            // What was allowed may still be interrupted while it runs.
            (Some("accept"), None | Some("interrupted" | "cancelled")) => Some(Fate::Ran),
            (_, Some("user-rejected" | "permission-rule")) => Some(Fate::Refused),
            (_, Some(kind)) if kind.starts_with("automode-") => Some(Fate::Refused),
            // Ended with its turn, or a kind from a newer version.
            (_, Some(_)) => Some(Fate::Unknown),
            (Some("reject"), None) => Some(Fate::Refused),
            (_, None) => None,
        }
    }
}

impl Returned {
    pub fn new(result: ToolResult, beside: &Beside) -> Self {
        let source = beside.decision["source"].as_str();
        let decider = match source {
            Some("hook") => DecidedBy::Hook,
            Some(source) if source.starts_with("user") => DecidedBy::Terminal,
            _ => match beside.denial.as_deref() {
                Some("user-rejected") => DecidedBy::Terminal,
                Some("permission-rule") => DecidedBy::Agent,
                Some(kind) if kind.starts_with("automode-") => DecidedBy::Agent,
                _ => DecidedBy::Unknown,
            },
        };
        let fate = beside.fate().unwrap_or_else(|| Fate::by_words(&result));
        let scope = match (beside.decision["grantScope"].as_str(), source) {
            (Some("session"), _) => "session",
            (Some("always"), _) | (_, Some("user_permanent")) => "always",
            _ => "once",
        };
        // To sub-agents it begins a sentence, with a capital letter.
        let said = || Some(result.text.split_once("he user said:\n")?.1.to_owned());
        let feedback = beside.feedback.clone().or_else(|| said().filter(|_| fate == Fate::Refused));
        Self { result, detail: beside.detail.clone(), fate, decider, scope, feedback }
    }

    /// The result of this call, if this line of the transcript is it.
    pub fn in_line(bytes: &[u8], tool_use_id: &str) -> Option<Self> {
        line::decode(bytes)?.result_of(tool_use_id)
    }

    /// The answers by question, as they were given.
    pub fn answers(&self) -> Option<&Map<String, Value>> {
        self.detail.as_ref()?["answers"].as_object()
    }

    /// Whether the person ended the turn with it and the agent now waits for a prompt.
    pub fn ends_turn(&self) -> bool {
        self.decider == DecidedBy::Terminal
            && self.fate == Fate::Refused
            && self.feedback.is_none()
            && !self.result.text.starts_with(REFUSED_TO_SUB_AGENT)
    }

    /// What the result says of our answer, and on what grounds.
    pub fn judge(&self, expected: &Expected) -> (Receipt, String) {
        judge(expected, &self.result, self.detail.as_ref(), self.fate, self.feedback.as_deref())
    }

    /// The answer that was given in the terminal, where it can be told.
    pub fn answer(&self, body: &Body) -> Option<Value> {
        let refused = |mut refusal: Value| {
            if let Some(feedback) = self.feedback.as_deref().filter(|words| !words.trim().is_empty()) {
                refusal["message"] = feedback.into();
            }
            refusal
        };
        // What cannot be told, and what no person decided, is nobody's answer.
        let is_refused = match (self.fate, self.decider) {
            (Fate::Unknown, _) | (Fate::Refused, DecidedBy::Agent) => return None,
            (fate, _) => fate == Fate::Refused,
        };
        let answer = match body {
            Body::Question(_) if is_refused => refused(json!({ "skip": true })),
            Body::Question(_) | Body::Plan(_) if self.result.is_error && !is_refused => return None,
            Body::Question(questions) => match self.answers().filter(|answers| !answers.is_empty()) {
                Some(answers) => {
                    let choices = questions.questions.iter().map(|question| self.choice(question, answers));
                    json!({ "answers": choices.collect::<Vec<_>>() })
                }
                None => json!({ "response": self.detail.as_ref()?["response"].as_str()? }),
            },
            Body::Permission(_) if is_refused => {
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
            Body::Plan(_) if is_refused => refused(json!({ "decision": "deny" })),
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
        let (receipt, evidence) = self.judge(expected);
        let superseded = || {
            let shown =
                self.answer(body).map_or_else(|| self.result.text.clone(), |answer| answer.to_string());
            (Receipt::Superseded, format!("the terminal was first: {}", excerpt(&shown)))
        };
        match (receipt, self.decider) {
            // The same decision, but not on what the person had changed.
            (Receipt::Confirmed, DecidedBy::Terminal) if edited => superseded(),
            (Receipt::Confirmed | Receipt::Unknown, _) | (_, DecidedBy::Hook | DecidedBy::Agent) => {
                (receipt, evidence)
            }
            (_, DecidedBy::Terminal) => superseded(),
            (_, DecidedBy::Unknown) if self.answer(body).is_some() => superseded(),
            (_, DecidedBy::Unknown) => (receipt, evidence),
        }
    }

    fn choice(&self, question: &Question, answers: &Map<String, Value>) -> Value {
        let words = answers.get(&question.question).map(in_words).unwrap_or_default();
        if words.trim().is_empty() {
            return json!({ "skip": true });
        }
        let (selected, text) = picks(question, &words);
        let mut choice = Map::new();
        if !selected.is_empty() {
            choice.insert("selected".into(), selected.into());
        }
        if !text.is_empty() {
            choice.insert("text".into(), text.into());
        }
        let notes = self.detail.as_ref().map(|detail| &detail["annotations"][&question.question]["notes"]);
        if let Some(notes) = notes.and_then(Value::as_str).filter(|notes| !notes.is_empty()) {
            choice.insert("notes".into(), notes.into());
        }
        Value::Object(choice)
    }
}

/// An answer as the one line in which the terminal writes it.
pub fn in_words(given: &Value) -> String {
    match given {
        Value::String(words) => words.clone(),
        Value::Array(picks) => picks.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    }
}

/// One of several picks as it is, or in quotes: versions differ in when they quote, and what they escape then.
pub fn spellings(pick: &str) -> [String; 3] {
    [pick.to_owned(), Value::from(pick).to_string(), format!("\"{pick}\"")]
}

/// Labels as long as there are labels; what follows is free text. Where only one may be picked, all of the words are
/// a label, or none is.
fn picks<'a>(question: &'a Question, words: &'a str) -> (Vec<&'a str>, &'a str) {
    let (mut selected, mut rest) = (Vec::new(), words);
    while let Some((label, after)) = first_pick(question, rest) {
        selected.push(label);
        rest = after;
    }
    match question.multi_select || (selected.len() == 1 && rest.is_empty()) {
        true => (selected, rest),
        false => (Vec::new(), words),
    }
}

/// The label with which these words begin, and what follows it. The longest one counts, because one may begin like
/// another.
fn first_pick<'a>(question: &'a Question, words: &'a str) -> Option<(&'a str, &'a str)> {
    let fits = question.options.iter().filter_map(|offer| {
        let rest = spellings(&offer.label).iter().rev().find_map(|form| words.strip_prefix(form.as_str()))?;
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(", ")? };
        Some((offer.label.as_str(), rest))
    });
    fits.max_by_key(|(label, _)| label.len())
}

#[cfg(test)]
mod tests {
    use super::super::pending::{Closed, Pending};
    use super::*;
    use aye_core::Kind;

    fn shown(result: Value, detail: Value, beside: Value) -> Returned {
        let mut line = json!({"type": "user", "toolUseResult": detail, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_other", "content": "x"}, result]}});
        line.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
        line["message"]["content"][1]["type"] = "tool_result".into();
        line["message"]["content"][1]["tool_use_id"] = "toolu_1".into();
        assert_eq!(Returned::in_line(line.to_string().as_bytes(), "toolu_2"), None);
        let to_a_hook = Returned::in_line(line.to_string().as_bytes(), "toolu_1").unwrap();
        let call = json!({"type": "assistant", "message": {"content": [
            {"type": "tool_use", "id": "toolu_1", "name": "T", "input": {}}]}});
        let mut pending = Pending::default();
        let mut closed = [call, line].map(|line| {
            pending.see(line::decode(line.to_string().as_bytes()).unwrap(), false, |tool| tool == "T")
        });
        let (_, to_a_watcher) = closed[1].remove(0);
        assert_eq!(to_a_watcher, Closed::Returned(Box::new(to_a_hook.clone())));
        to_a_hook
    }

    fn by(source: &str) -> Value {
        json!({"permissionDecision": {"decision": "accept", "source": source}})
    }

    fn questions() -> Body {
        let options = json!([{"label": "a"}, {"label": "a, b"}, {"label": "c"}, {"label": "\"d\\"}]);
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
        let (skipped, d) = (json!({"skip": true}), "\"d\\");
        for (one, many, expected) in [
            (
                json!("a, b"),
                json!("a, b, c, own words, a"),
                [json!({"selected": ["a, b"]}), json!({"selected": ["a, b", "c"], "text": "own words, a"})],
            ),
            (
                json!("my own"),
                json!(["c", "a"]),
                [json!({"text": "my own"}), json!({"selected": ["c", "a"]})],
            ),
            (json!("c"), Value::Null, [json!({"selected": ["c"]}), skipped.clone()]),
            (json!(" "), json!("else"), [skipped, json!({"text": "else"})]),
            // Quoted, with escapes and without.
            (
                json!("a"),
                json!("\"a, b\", \"\\\"d\\\\\", own, words"),
                [json!({"selected": ["a"]}), json!({"selected": ["a, b", d], "text": "own, words"})],
            ),
            (json!(d), json!("\"c\", \"\"d\\\""), [json!({"selected": [d]}), json!({"selected": ["c", d]})]),
            // Where one is picked, labels within other words are words.
            (json!("c, then a"), json!("a"), [json!({"text": "c, then a"}), json!({"selected": ["a"]})]),
            (json!("c, a"), json!("a"), [json!({"text": "c, a"}), json!({"selected": ["a"]})]),
        ] {
            let mut detail = json!({"answers": {"One?": one, "Many?": many}});
            let seen = shown(json!({"content": "…"}), detail.clone(), json!({})).answer(&questions());
            assert_eq!(seen, Some(json!({ "answers": expected })));
            detail["annotations"] = json!({"Many?": {"notes": "n"}});
            let noted = shown(json!({"content": "…"}), detail, json!({})).answer(&questions()).unwrap();
            let is_skipped = expected[1]["skip"] == true;
            assert_eq!(noted["answers"][1]["notes"], if is_skipped { Value::Null } else { json!("n") });
        }
        let reply = shown(json!({"content": "…"}), json!({"answers": {}, "response": "hm"}), json!({}));
        assert_eq!(reply.answer(&questions()), Some(json!({"response": "hm"})));
        let nothing = shown(json!({"content": "…"}), json!({"answers": {}}), json!({}));
        assert_eq!(nothing.answer(&questions()), None);
    }

    #[test]
    fn a_plan_is_read_with_the_changes_that_were_made_to_it() {
        let plan = Body::decode(Kind::Plan, json!({"plan": "1. x"})).unwrap();
        let seen = |result: Value, detail: Value| shown(result, detail, json!({})).answer(&plan);
        let approved = json!({"content": "User has approved your plan"});
        assert_eq!(seen(approved.clone(), Value::Null), Some(json!({"decision": "allow"})));
        let edited = json!({"plan": "2. y", "planWasEdited": true});
        assert_eq!(seen(approved, edited), Some(json!({"decision": "allow", "plan": "2. y"})));
        let refused = seen(json!({"content": REJECTED, "is_error": true}), Value::Null);
        assert_eq!(refused, Some(json!({"decision": "deny"})));
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

    const DENIED: &str = "Permission for this tool use was denied. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file).";

    /// Every kind of refusal and cancellation, with the structured fields and, where versions have none, by words.
    #[test]
    fn refusals_are_told_by_their_fields_and_are_never_taken_for_an_approval() {
        let kind = |kind: &str| json!({ "toolDenialKind": kind });
        let refusal = |interrupt: bool| Some(json!({"decision": "deny", "interrupt": interrupt}));
        let with_words = Some(json!({"decision": "deny", "interrupt": false, "message": "use rm"}));
        let mut said = kind("user-rejected");
        said["userFeedback"] = "use rm".into();
        let (new, sub_agent) = ("a sentence from next year", format!("{DENIED} Try a different approach"));
        let to_sub_agent = format!("{DENIED} The user said:\nuse rm");
        let accepted = json!({"toolDenialKind": "interrupted", "permissionDecision": {"decision": "accept"}});
        let rejected = json!({"permissionDecision": {"decision": "reject", "source": "user_reject"}});
        for (text, beside, expected) in [
            (REJECTED, kind("user-rejected"), refusal(true)),
            (new, kind("user-rejected"), refusal(true)),
            (new, rejected, refusal(true)),
            (new, said, with_words.clone()),
            (&sub_agent, kind("user-rejected"), refusal(false)),
            (&sub_agent, json!({}), refusal(false)),
            (&to_sub_agent, json!({}), with_words),
            // Refused by nobody who was asked.
            (new, kind("permission-rule"), None),
            (new, kind("automode-blocked"), None),
            (new, kind("automode-unavailable"), None),
            // Whether these ran cannot be told, except that one was allowed before.
            ("[Request interrupted by user for tool use]", kind("interrupted"), None),
            ("[Request interrupted by user for tool use]", json!({}), None),
            (new, kind("cancelled"), None),
            (new, kind("from-next-year"), None),
            (new, json!({}), None),
            (new, accepted, Some(json!({"decision": "allow", "scope": "once"}))),
        ] {
            let result = json!({"content": text, "is_error": true});
            let returned = shown(result, json!("Error: x"), beside.clone());
            assert_eq!(returned.answer(&permission()), expected, "{text} {beside}");
        }
    }

    #[test]
    fn our_refusal_of_a_sub_agent_is_confirmed_and_what_nobody_knows_is_unknown() {
        let refused = |message: &str| Expected::Refused { message: message.into(), interrupt: false };
        let receipt = |text: &str, beside: Value, expected: &Expected| {
            let shown = shown(json!({"content": text, "is_error": true}), Value::Null, beside);
            shown.receipt(&permission(), expected, false).0
        };
        let said = format!("{DENIED} The user said:\nnot today");
        assert_eq!(receipt(&said, json!({}), &refused("not today")), Receipt::Confirmed);
        let fields = json!({"toolDenialKind": "user-rejected", "userFeedback": "not today"});
        assert_eq!(receipt("new words", fields, &refused("not today")), Receipt::Confirmed);
        let typed = Expected::Refused { message: "x".into(), interrupt: true };
        let fields = json!({"toolDenialKind": "user-rejected"});
        assert_eq!(receipt(DENIED, fields.clone(), &typed), Receipt::Confirmed);
        assert_eq!(receipt(DENIED, fields, &Expected::Allowed), Receipt::Superseded);
        let cancelled = json!({"toolDenialKind": "cancelled"});
        for expected in [Expected::Allowed, refused("not today")] {
            assert_eq!(receipt("new words", json!({}), &expected), Receipt::Unknown);
            assert_eq!(receipt("new words", cancelled.clone(), &expected), Receipt::Unknown);
        }
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
