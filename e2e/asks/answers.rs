//! Answers: the first that fits counts, and whatever is refused leaves the ask as it was.

use super::{Room, with};
use crate::support::{Reply, saying};
use serde_json::json;

#[test]
fn a_second_answer_is_refused_and_names_the_first() {
    let room = Room::new();
    let ask = room.question("k");
    let first = room.hub.answer(&ask, saying("yes"));
    assert_eq!(first.status, 200);
    let by = json!({"name": room.hub.person(), "surface": "api"});
    let answered = with(
        &ask,
        json!({
            "state": "answered", "receipt": "pending", "answer": saying("yes"), "by": by,
            "ended_at": first.body["ended_at"],
        }),
    );
    assert_eq!(first.body, answered);

    let name = room.hub.person();
    let why = format!("this request was already answered by {} (api)", name.as_str().unwrap());
    let late = [
        json!({"answer": saying("no"), "digest": ask["digest"]}),
        json!({"answer": saying("yes"), "digest": ask["digest"]}),
        json!({"answer": saying("no"), "digest": "sha256:0"}),
        json!({"answer": {"nonsense": 1}, "digest": ask["digest"]}),
        json!({"answer": saying("maybe"), "digest": ask["digest"], "key": "k"}),
    ];
    for call in late {
        let second = room.try_answer(&ask, call.clone());
        assert_eq!((second.status, second.body), (409, json!({"error": why, "ask": answered})), "{call}");
    }
    assert_eq!(room.hub.ask(&ask), answered);
}

#[test]
fn of_many_answers_at_once_exactly_one_counts() {
    let room = Room::new();
    let ask = room.question("k");
    let answer = |label: &'static str| room.hub.answer(&ask, saying(label));
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let callers: Vec<_> =
            (0..16).map(|i| scope.spawn(move || answer(if i % 2 == 0 { "yes" } else { "no" }))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!(won.len(), 1);
    for reply in lost {
        assert_eq!((reply.status, &reply.body["ask"]), (409, &won[0].body));
    }
    assert_eq!(room.hub.ask(&ask), won[0].body);
}

#[test]
fn an_answer_to_something_else_than_was_shown_is_refused() {
    let room = Room::new();
    let ask = room.question("k");
    let other = room.raise("other", "plan", json!({"plan": "p"}));
    for digest in [&other["digest"], &json!("sha256:0"), &json!("")] {
        let reply = room.try_answer(&ask, json!({"answer": saying("yes"), "digest": digest}));
        let why = "the request is not the one that was shown: look at it again before answering";
        assert_eq!((reply.status, reply.body), (412, json!({"error": why, "ask": ask})));
    }
    for (call, field) in [
        (json!({"answer": saying("yes")}), "digest"),
        (json!({"answer": saying("yes"), "digest": null}), "digest"),
        (json!({"digest": ask["digest"]}), "answer"),
        (json!({"answer": saying("yes"), "digest": ask["digest"], "key": ""}), "key"),
        (json!({"answer": saying("yes"), "digest": ask["digest"], "force": true}), "force"),
    ] {
        let reply = room.try_answer(&ask, call.clone());
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{call}");
    }
    assert_eq!(room.hub.ask(&ask), ask);
}

#[test]
fn an_invalid_answer_names_the_field_and_changes_nothing() {
    let room = Room::new();
    let questions = json!({"questions": [
        {"question": "Store?", "header": "Pick", "options": [{"label": "SQLite"}, {"label": "Postgres"}]},
        {"question": "Features?", "header": "Pick", "options": [{"label": "dark"}, {"label": "i18n"}],
         "multi_select": true, "free_text": true},
    ]});
    let permission = json!({
        "tool": "Bash", "input": {"command": "ls"},
        "scopes": [{"scope": "once"}, {"scope": "session", "rule": "ls for this session"}],
    });
    let question = room.raise("q", "question", questions);
    let permission = room.raise("p", "permission", permission);
    let plan = room.raise("l", "plan", json!({"plan": "1. do it"}));
    let (ok, skip) = (json!({"selected": ["SQLite"]}), json!({"skip": true}));
    let cases = [
        (&question, json!(null), "answer"),
        (&question, json!([]), "answer"),
        (&question, json!({}), "answer.answers"),
        (&question, json!({"answers": []}), "answer.answers"),
        (&question, json!({"answers": [ok]}), "answer.answers"),
        (&question, json!({"answers": [ok, skip, skip]}), "answer.answers"),
        (&question, json!({"answers": [{}, skip]}), "answer.answers[0].selected"),
        (&question, json!({"answers": [{"selected": []}, skip]}), "answer.answers[0].selected"),
        (&question, json!({"answers": [{"selected": ["sqlite"]}, skip]}), "answer.answers[0].selected"),
        (
            &question,
            json!({"answers": [{"selected": ["SQLite", "Postgres"]}, skip]}),
            "answer.answers[0].selected",
        ),
        (&question, json!({"answers": [{"text": "mine"}, skip]}), "answer.answers[0].text"),
        (&question, json!({"answers": [{"selected": "SQLite"}, skip]}), "answer.answers[0].selected"),
        (
            &question,
            json!({"answers": [{"selected": ["SQLite"], "skip": true}, skip]}),
            "answer.answers[0].skip",
        ),
        (&question, json!({"answers": [{"skip": false}, skip]}), "answer.answers[0].skip"),
        (&question, json!({"answers": [ok, {"selected": ["dark", "dark"]}]}), "answer.answers[1].selected"),
        (&question, json!({"answers": [ok, {"selected": ["dark"], "text": " "}]}), "answer.answers[1].text"),
        (
            &question,
            json!({"answers": [ok, {"selected": ["dark"], "colour": 1}]}),
            "answer.answers[1].colour",
        ),
        (&question, json!({"answers": [ok, skip], "response": "x"}), "answer.answers"),
        (&question, json!({"response": ""}), "answer.response"),
        (&question, json!({"response": "x", "message": "y"}), "answer.message"),
        (&question, json!({"decision": "allow"}), "answer.decision"),
        (&permission, json!({}), "answer.decision"),
        (&permission, json!({"decision": "yes"}), "answer.decision"),
        (&permission, json!({"decision": "outline"}), "answer.decision"),
        (&permission, json!({"decision": true}), "answer.decision"),
        (&permission, json!({"decision": "allow"}), "answer.scope"),
        (&permission, json!({"decision": "allow", "scope": "always"}), "answer.scope"),
        (&permission, json!({"decision": "allow", "scope": "once", "input": "ls"}), "answer.input"),
        (&permission, json!({"decision": "allow", "scope": "once", "message": "x"}), "answer.message"),
        (&permission, json!({"decision": "deny", "message": ""}), "answer.message"),
        (&permission, json!({"decision": "deny", "scope": "once"}), "answer.scope"),
        (&permission, saying("yes"), "answer.decision"),
        (&plan, json!({"decision": "allow", "scope": "once"}), "answer.scope"),
        (&plan, json!({"decision": "allow", "plan": ""}), "answer.plan"),
        (&plan, json!({"decision": "outline", "message": "x"}), "answer.message"),
        (&plan, json!("allow"), "answer"),
    ];
    for (ask, answer, field) in cases {
        let reply = room.hub.answer(ask, answer.clone());
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{answer}: {}", reply.body);
        assert!(reply.body["error"].as_str().is_some_and(|why| !why.is_empty()), "{answer}");
    }
    for ask in [&question, &permission, &plan] {
        assert_eq!(room.hub.ask(ask), *ask);
        assert_eq!(room.resolution(ask).status, 204);
    }
}

const WRITE_AN_OUTLINE: &str = "Not approved yet: the person wants to read an outline first. Write the outline of your plan as plain text in your reply, and do not send a new plan until you are asked to.";

#[test]
fn each_form_of_answer_reaches_the_agent_as_it_was_given() {
    let room = Room::new();
    let questions = || {
        json!({"questions": [
            {"question": "Store?", "header": "Pick", "options": [{"label": "a, b"}, {"label": "c"}], "free_text": true},
            {"question": "More?", "header": "Pick", "options": [{"label": "d"}], "multi_select": true, "free_text": true},
        ]})
    };
    let permission = || json!({"tool": "Bash", "input": {"command": "ls"}, "scopes": [{"scope": "once"}, {"scope": "session"}]});
    let plan = || json!({"plan": "p"});
    let cases = [
        (
            "question",
            questions(),
            json!({"answers": [{"selected": ["a, b"]}, {"selected": ["d"], "text": "e", "notes": "f"}]}),
            "answered",
            json!(null),
        ),
        (
            "question",
            questions(),
            json!({"answers": [{"text": "z"}, {"skip": true}]}),
            "answered",
            json!(null),
        ),
        ("question", questions(), json!({"response": "neither"}), "answered", json!("neither")),
        ("question", questions(), json!({"skip": true}), "declined", json!(null)),
        ("question", questions(), json!({"skip": true, "message": "later"}), "declined", json!("later")),
        ("permission", permission(), json!({"decision": "allow", "scope": "session"}), "allow", json!(null)),
        (
            "permission",
            permission(),
            json!({"decision": "allow", "scope": "once", "input": {"command": "ls -l"}}),
            "allow",
            json!(null),
        ),
        (
            "permission",
            permission(),
            json!({"decision": "deny", "message": "no", "interrupt": true}),
            "deny",
            json!("no"),
        ),
        ("plan", plan(), json!({"decision": "allow"}), "allow", json!(null)),
        ("plan", plan(), json!({"decision": "allow", "plan": "q"}), "allow", json!(null)),
        ("plan", plan(), json!({"decision": "deny", "message": "no"}), "deny", json!("no")),
        ("plan", plan(), json!({"decision": "outline"}), "outline", json!(WRITE_AN_OUTLINE)),
    ];
    for (i, (kind, body, answer, decision, message)) in cases.into_iter().enumerate() {
        let ask = room.raise(&format!("k{i}"), kind, body);
        let recorded = room.hub.answer(&ask, answer.clone());
        assert_eq!((recorded.status, &recorded.body["answer"]), (200, &answer));
        let outcome = json!({"decision": decision, "answer": answer, "message": message});
        assert_eq!(
            room.resolution(&ask).body,
            json!({"state": "answered", "outcome": outcome, "by": recorded.body["by"]})
        );
    }
}

#[test]
fn an_answer_sent_again_under_its_key_is_not_answered_again() {
    let room = Room::new();
    let ask = room.question("k");
    let call = |label: &str, key: &str| json!({"answer": saying(label), "digest": ask["digest"], "key": key});
    let first = room.try_answer(&ask, call("yes", "act-1"));
    assert_eq!(first.status, 200);
    let again = room.try_answer(&ask, call("yes", "act-1"));
    assert_eq!((again.status, &again.body), (200, &first.body));
    let other = [
        call("no", "act-1"),
        call("yes", "act-2"),
        json!({"answer": saying("yes"), "digest": ask["digest"]}),
    ];
    for call in other {
        let refused = room.try_answer(&ask, call.clone());
        assert_eq!((refused.status, &refused.body["ask"]), (409, &first.body), "{call}");
    }
    assert_eq!(room.receipt(&ask, "delivered").status, 200);
    let again = room.try_answer(&ask, call("yes", "act-1"));
    assert_eq!((again.status, &again.body["receipt"]), (200, &json!("delivered")));
}
