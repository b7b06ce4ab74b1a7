//! What an agent asks for over ACP, as an ask.

use super::Asking;
use super::calls::texts;
use super::dialects::{Call, refusal_ends_turn, touches_nothing};
use super::options::{Choice, Lasts, Options};
use crate::agents::driven::Start;
use crate::agents::driven::rpc::question as read_question;
use crate::agents::driven::tools::kept_by_hub;
use aye_core::{
    Body, Can, Keeper, Offer, Permission, Plan, Question, QuestionDraft, Questions, Scope, ScopeOffer, Text,
    Tool,
};
use serde_json::Value;

/// What the agent can take of an answer to this.
pub fn can(kind: &str, asking: &Asking) -> Can {
    let none =
        Can { response: false, notes: false, edit: false, reason: false, outline: false, ..Can::default() };
    let (why, deny_ends_turn) = match asking {
        Asking::Permission(options) | Asking::Plan(options, _) => (
            "its protocol carries neither a change nor words with a refusal",
            refusal_ends_turn(kind) || options.refusing().is_none(),
        ),
        Asking::Questions(_) => {
            ("it takes one text for each question, and nothing else", refusal_ends_turn(kind))
        }
        Asking::Pick(options) => (
            "it takes one of these options, and nothing else",
            refusal_ends_turn(kind) || options.refusing().is_none(),
        ),
        Asking::Form(_) => ("it takes what its form has fields for, and nothing else", false),
    };
    Can { why: Some(why.to_owned().into()), deny_ends_turn, ..none }
}

/// The questions, if it is Qwen that asks some in the guise of a permission. What would touch something stays a
/// permission, whatever else it says of itself.
pub fn questions(call: &Call) -> Option<Result<Questions, String>> {
    let meta = &call.asked["_meta"];
    let asks = call.kind == "qwen" && meta["qwenInteractionKind"] == "user_question";
    (asks && touches_nothing(call.asked)).then(|| {
        let asked = meta["qwenQuestions"].as_array().ok_or("it has no questions")?;
        let read = |question: &Value| read_question(question, question["multiSelect"] == true, true);
        Questions::new(asked.iter().map(read).collect::<Result<_, _>>()?)
    })
}

/// A request in words that can be allowed in several ways, as the question which of them. `allowing` is said of each
/// of these ways.
pub fn pick(call: &Call, options: &Options, allowing: &str) -> Result<Body, String> {
    let title = call.asked["title"].as_str().unwrap_or("The agent asks");
    let said = texts(call.asked).next().map_or(call.told, |_| Some(call.asked));
    let parts = std::iter::once(title).chain(said.into_iter().flat_map(texts));
    let refuses = match refusal_ends_turn(call.kind) {
        true => "Refuses it (ends the turn)",
        false => "Refuses it",
    };
    let offer = |choice: &Choice| {
        let description = if choice.allows() { allowing } else { refuses };
        let (label, description) = (choice.name.clone(), description.to_owned());
        Offer { label, description, preview: None, allows: choice.allows() }
    };
    let question = Question::try_from(QuestionDraft {
        question: parts.collect::<Vec<_>>().join("\n\n"),
        header: "Permission".to_owned(),
        options: options.for_once().map(offer).collect(),
        ..QuestionDraft::default()
    })?;
    Questions::new(vec![question]).map(Body::Question)
}

pub fn plan(text: &str) -> Result<Body, String> {
    let plan = Text::try_from(text.to_owned()).map_err(|why| format!("its plan cannot be shown: {why}"))?;
    Ok(Body::Plan(Plan { plan }))
}

pub fn permission(call: &Call, options: &Options, start: &Start) -> Result<Body, String> {
    let (tool, mut input) = call.tool_and_input();
    // To allow it is to pick the first of several ways, and people see which.
    let mut ways = options.for_once().filter(|choice| choice.allows()).map(|choice| choice.name.clone());
    if let (true, Some(first)) = (options.differ(), ways.next()) {
        input.insert("acp_option".to_owned(), first.into());
        input.insert("acp_other_options".to_owned(), ways.collect());
    }
    let mut scopes = vec![];
    if options.allowing(Lasts::Once).is_some() {
        scopes.push(ScopeOffer::once());
    }
    // Nobody knows what an unclear call will be the next time.
    if Tool::named(&tool) != Some(Tool::Unclear) {
        let agents = [(Scope::Session, Lasts::Session), (Scope::Always, Lasts::Always)];
        let agents = agents.into_iter().filter_map(|(scope, lasts)| {
            let rule = options.allowing(lasts)?.name.clone();
            Some(ScopeOffer { scope, rule: Some(rule), kept_by: Some(Keeper::Agent) })
        });
        scopes.extend(agents);
        let hubs = kept_by_hub(&start.kind, &tool, &input, &start.cwd, &start.places);
        let missing = |offer: &ScopeOffer| {
            offer.scope != Scope::Once && !scopes.iter().any(|known| known.scope == offer.scope)
        };
        let missing: Vec<_> = hubs.into_iter().filter(missing).collect();
        scopes.extend(missing.into_iter().filter(|_| options.allowing(Lasts::Once).is_some()));
    }
    if scopes.is_empty() {
        return Err("it offers no way to allow it once".into());
    }
    Permission::new(tool, input, Some(scopes)).map(Body::Permission)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aye_policy::OwnPlaces;
    use serde_json::json;
    use std::path::Path;

    fn scopes(asked: Value, offered: &[(&str, &str)]) -> Result<(String, Vec<Value>), String> {
        let option = |(kind, name): &(&str, &str)| json!({"optionId": name, "kind": kind, "name": name});
        let options = Options::read(&offered.iter().map(option).collect(), true).unwrap();
        let cwd = Path::new("/src");
        let start = Start {
            kind: "mine".into(),
            cwd: cwd.into(),
            places: OwnPlaces::new(&["/home/ada/.aye"], Some("/home/ada")),
            mode: None,
            resume: None,
        };
        let call = Call { kind: "mine", version: "1", cwd, asked: &asked, told: None };
        match permission(&call, &options, &start)? {
            Body::Permission(permission) => {
                let scopes = permission.scopes.iter().map(|offer| serde_json::to_value(offer).unwrap());
                Ok((permission.tool.clone(), scopes.collect()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_agent_keeps_is_offered_in_its_words_and_only_where_it_offers_it() {
        let asked = json!({"kind": "execute", "rawInput": {"command": "ls"}});
        let once = json!({"scope": "once"});
        let agents = |scope: &str, rule: &str| json!({"scope": scope, "rule": rule, "kept_by": "agent"});
        let hubs = |scope: &str| json!({"scope": scope, "kept_by": "hub"});
        for (offered, expected) in [
            (
                &[("allow_once", "Yes"), ("reject_once", "No")][..],
                vec![once.clone(), hubs("session"), hubs("always")],
            ),
            (
                &[("allow_once", "Yes"), ("allow_always", "This session")],
                vec![once.clone(), agents("session", "This session"), hubs("always")],
            ),
            (
                &[("allow_once", "Yes"), ("allow_always", "ls *")],
                vec![once, agents("always", "ls *"), hubs("session")],
            ),
            (&[("allow_always", "ls *"), ("reject_once", "No")], vec![agents("always", "ls *")]),
        ] {
            assert_eq!(scopes(asked.clone(), offered), Ok(("mine:execute".into(), expected)), "{offered:?}");
        }
        assert!(scopes(asked, &[("reject_once", "No")]).is_err());
    }

    #[test]
    fn only_qwen_asks_questions_in_the_guise_of_a_permission_and_only_by_a_call_that_touches_nothing() {
        let meta = json!({"qwenInteractionKind": "user_question", "qwenQuestions": [{"question": "Which?"}]});
        let asks = |agent: &str, kind: &str| {
            let asked = json!({"kind": kind, "_meta": meta, "rawInput": {"command": "rm x"}});
            let call = Call { kind: agent, version: "1", cwd: Path::new("/src"), asked: &asked, told: None };
            questions(&call).is_some()
        };
        assert!(asks("qwen", "think") && asks("qwen", "other"));
        for (agent, kind) in [("mine", "think"), ("gemini", "other"), ("qwen", "execute"), ("qwen", "edit")] {
            assert!(!asks(agent, kind), "{agent} {kind}");
        }
    }

    #[test]
    fn what_is_only_a_title_is_marked_and_never_allowed_for_longer_than_once() {
        let all = [("allow_once", "Yes"), ("allow_always", "This session"), ("allow_always", "Always")];
        for asked in [
            json!({"title": "ls"}),
            json!({"title": "ls", "kind": "execute"}),
            json!({"title": "ls", "kind": "execute", "rawInput": {}}),
            json!({"title": "ls", "kind": "execute", "rawInput": null, "content": [], "locations": []}),
            json!({"title": "ls", "kind": "read", "locations": [{"path": "/etc/passwd"}]}),
            json!({"title": "ls", "content": [{"type": "content", "content": {"type": "text", "text": "ls"}}]}),
        ] {
            let expected = Ok(("Unclear".to_owned(), vec![json!({"scope": "once"})]));
            assert_eq!(scopes(asked.clone(), &all), expected, "{asked}");
            assert!(scopes(asked, &all[1..]).is_err());
        }
    }
}
