//! How many bytes an ask has at most as JSON, without writing it: what is shown of a permission would have to be made first.

use crate::answer::{Answer, Choice, PlanVerdict, Reply, Verdict};
use crate::ask::Ask;
use crate::body::{Body, Offer, Permission, Question};
use crate::display::Extras;
use crate::ids::Text;
use crate::lifecycle::State;
use crate::tool::Tool;
use serde_json::{Map, Value};

/// The names of all fields, times, ids, words for states, and what the hub itself says of a tool.
const FIXED: usize = 2048;
/// The names and flags around each entry of a list, and what a diff says around each edit.
const ENTRY: usize = 256;
/// How often a text of an input can occur in what is shown of it (the file of a diff in four places), made longer by what
/// shows hidden characters and by lines that become entries of a list.
const SHOWN: usize = 24;

/// In longer texts nobody looks for what is escaped: the whole is hardly a small one.
const LONG: usize = 8192;

impl Ask {
    /// None where something beside the ask is shown, which only writing it tells.
    pub fn length_at_most(&self) -> Option<usize> {
        if self.extras != Extras::default() {
            return None;
        }
        let head = &self.head;
        let names =
            [head.id.as_str(), head.key.as_str(), head.agent.as_str(), &head.cwd, head.digest.as_str()];
        let more = [head.tool_use_id.as_deref(), head.sub_agent.as_deref(), self.state.note()];
        let texts: usize = names.into_iter().chain(more.into_iter().flatten()).map(text).sum();
        let by = match &self.state {
            State::Answered { by, .. } => text(&by.to_string()),
            State::Open | State::Expired { .. } | State::Withdrawn { .. } => 0,
        };
        let shown = match &self.body {
            Body::Permission(permission) => displayed(permission),
            Body::Question(_) | Body::Plan(_) => 0,
        };
        Some(FIXED + texts + by + asked(&self.body) + shown + self.state.answer().map_or(0, answered))
    }
}

/// A text between its quotes.
fn text(text: &str) -> usize {
    if text.len() > LONG {
        return 6 * text.len() + 2;
    }
    let is_escaped = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    text.len() + 5 * text.bytes().filter(is_escaped).count() + 2
}

fn optional<T: AsRef<str>>(given: Option<T>) -> usize {
    given.map_or(0, |given| text(given.as_ref()))
}

fn fields(fields: &Map<String, Value>) -> usize {
    2 + fields.iter().map(|(name, item)| text(name) + value(item) + 2).sum::<usize>()
}

fn value(json: &Value) -> usize {
    match json {
        Value::Null | Value::Bool(_) => 5,
        // As long as any number is.
        Value::Number(_) => 32,
        Value::String(given) => text(given),
        Value::Array(items) => 2 + items.iter().map(|item| value(item) + 1).sum::<usize>(),
        Value::Object(given) => fields(given),
    }
}

fn asked(body: &Body) -> usize {
    match body {
        Body::Question(asked) => {
            let offers = |offers: &[Offer]| {
                let offer = |it: &Offer| {
                    ENTRY + text(&it.label) + text(&it.description) + optional(it.preview.as_ref())
                };
                offers.iter().map(offer).sum::<usize>()
            };
            let question =
                |it: &Question| ENTRY + text(&it.question) + text(&it.header) + offers(&it.options);
            asked.questions.iter().map(question).sum()
        }
        Body::Permission(permission) => {
            let scopes: usize =
                permission.scopes.iter().map(|offer| ENTRY + optional(offer.rule.as_ref())).sum();
            text(&permission.tool) + fields(&permission.input) + scopes + permission.told().map_or(0, value)
        }
        Body::Plan(plan) => text(plan.plan.as_str()),
    }
}

/// What is shown of a permission: its command and its other fields as they are, or a diff, or its input on many lines.
fn displayed(permission: &Permission) -> usize {
    match Tool::named(&permission.tool) {
        Some(Tool::Command) if permission.input.get("command").is_some_and(Value::is_string) => {
            fields(&permission.input)
        }
        Some(_) | None => {
            let (tool, input) = (text(&permission.tool), &permission.input);
            SHOWN * (tool + fields(input)) + ENTRY + input.values().map(|item| lines(item, 1)).sum::<usize>()
        }
    }
}

/// For each value, the line it has for itself and as an entry of a diff.
fn lines(json: &Value, depth: usize) -> usize {
    let below = match json {
        Value::Array(items) => items.iter().map(|item| lines(item, depth + 1)).sum(),
        Value::Object(fields) => fields.values().map(|item| lines(item, depth + 1)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    ENTRY + 4 * depth + below
}

fn answered(answer: &Answer) -> usize {
    let choice = |choice: &Choice| match choice {
        Choice::Skipped { .. } => ENTRY,
        Choice::Secret { secret } => ENTRY + text(&secret.salt) + text(&secret.mac),
        Choice::Given { selected, text: own, notes } => {
            let picked: usize = selected.iter().map(|label| text(label) + 1).sum();
            let words = [own, notes].into_iter().flatten();
            ENTRY + picked + words.map(|words| text(words.as_str())).sum::<usize>()
        }
    };
    let message = |message: &Option<Text>| message.as_ref().map_or(0, |it| text(it.as_str()));
    ENTRY
        + match answer {
            Answer::Question(Reply::Each { answers }) => answers.iter().map(choice).sum(),
            Answer::Question(Reply::Response { response }) => text(response.as_str()),
            Answer::Question(Reply::Skip { message: said, .. })
            | Answer::Permission(Verdict::Deny { message: said, .. })
            | Answer::Plan(PlanVerdict::Deny { message: said }) => message(said),
            Answer::Permission(Verdict::Allow { input, .. }) => input.as_ref().map_or(0, fields),
            Answer::Plan(PlanVerdict::Allow { plan }) => message(plan),
            Answer::Plan(PlanVerdict::Outline) => 0,
        }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ask::AskHead;
    use crate::body::Kind;
    use crate::ids::{AgentId, AskId, Key};
    use crate::lifecycle::{AskEvent, Step, step};
    use crate::who::By;
    use jiff::Timestamp;
    use serde_json::json;

    fn open(body: Body) -> Ask {
        let (key, agent) = (Key::try_from("key").unwrap(), AgentId::try_from("agent").unwrap());
        let head = AskHead {
            tool_use_id: Some("\u{0}\"".repeat(100)),
            sub_agent: Some("Explore".into()),
            cwd_checked: true,
            ..AskHead::new(AskId::from_random(7), key, agent, "/src/\u{1}", &body, Timestamp::UNIX_EPOCH)
        };
        Ask::open(head, body)
    }

    fn length(ask: &Ask) -> usize {
        serde_json::to_string(ask).unwrap().len()
    }

    /// Whether an ask that says this is no longer than was told.
    pub fn is_at_most_so_long(body: Body) -> bool {
        let ask = open(body);
        length(&ask) <= ask.length_at_most().unwrap()
    }

    #[track_caller]
    fn check(kind: Kind, body: serde_json::Value, answer: serde_json::Value) {
        let ask = open(Body::decode(kind, body).unwrap());
        let answer = Answer::read(&ask.body, answer).unwrap();
        let by = By::Rule { rule: Text::try_from("a \"rule\"").unwrap() };
        let event = AskEvent::Answer { answer, by, key: None };
        let Ok(Step::Changed(state)) = step(&ask.state, None, event, Timestamp::UNIX_EPOCH) else { panic!() };
        let ask = Ask { state, ..ask };
        let (most, written) = (ask.length_at_most().unwrap(), length(&ask));
        assert!((written..written + 30_000).contains(&most), "{written} bytes, told {most}");
    }

    #[test]
    fn what_was_answered_counts() {
        let long = "\"\u{1}".repeat(2_000);
        let question =
            json!({"questions": [{"question": "Which?", "options": [{"label": "a"}], "free_text": true}]});
        check(Kind::Question, question.clone(), json!({"answers": [{"text": long, "notes": long}]}));
        check(Kind::Question, question.clone(), json!({"response": long}));
        check(Kind::Question, question, json!({"skip": true, "message": long}));
        let run = json!({"tool": "Bash", "input": {"command": "make ".repeat(400), "description": "Build"}});
        check(
            Kind::Permission,
            run.clone(),
            json!({"decision": "allow", "scope": "once", "input": {"command": long}}),
        );
        check(Kind::Permission, run, json!({"decision": "deny", "message": long}));
        check(Kind::Plan, json!({"plan": long}), json!({"decision": "allow", "plan": long}));
    }

    #[test]
    fn deep_input_is_long_when_it_is_shown() {
        let deep = (0..100).fold(json!([1, 2, 3]), |inner, _| json!([inner, 1]));
        let body = Body::decode(Kind::Permission, json!({"tool": "x", "input": {"deep": deep}})).unwrap();
        assert!(length(&open(body.clone())) > 20_000);
        assert!(is_at_most_so_long(body));
    }
}
