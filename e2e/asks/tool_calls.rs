//! Questions by agent and tool call, for programs that know those and not our asks.

use super::{Room, error};
use crate::support::Reply;
use serde_json::{Value, json};

/// Two questions at once, as an agent puts them through its own tool.
fn two_questions() -> Value {
    json!({"questions": [
        {"question": "Store?", "header": "Store", "options": [{"label": "SQLite", "description": "embedded"}, {"label": "Postgres"}]},
        {"question": "Features?", "header": "More", "options": [{"label": "Dark mode"}, {"label": "i18n"}],
         "multi_select": true, "free_text": true},
    ]})
}

impl Room {
    fn tool_call(&self, tool: &str) -> Value {
        let raise = json!({
            "key": format!("key-of-{tool}"), "agent": "bot", "kind": "question", "body": two_questions(),
            "tool_use_id": tool,
        });
        let raised = self.try_raise(raise);
        assert_eq!(raised.status, 201, "{}", raised.body);
        raised.body
    }

    /// Raises a question under this tool call, or, without one, under the key alone.
    fn tool_question(&self, key: &str, tool: Option<&str>, words: &str) -> Value {
        let body =
            json!({"questions": [{"question": words, "options": [{"label": "yes"}, {"label": "no"}]}]});
        let raise =
            json!({"key": key, "agent": "bot", "kind": "question", "body": body, "tool_use_id": tool});
        let raised = self.try_raise(raise);
        assert_eq!(raised.status, 201, "{}", raised.body);
        raised.body
    }

    fn take_back(&self, ask: &Value) {
        let path = format!("/api/asks/{}/withdraw", ask["id"].as_str().unwrap());
        assert_eq!(self.hub.post(&path, &self.bot, json!({"why": "cancelled"})).status, 200);
    }

    fn pending(&self, agent: &str) -> Value {
        self.hub.get(&format!("/api/agents/{agent}/pending-questions"), &self.hub.operator()).body
    }

    fn answer_question(&self, agent: &str, answer: Value) -> Reply {
        self.hub.post(&format!("/api/agents/{agent}/answer-question"), &self.hub.operator(), answer)
    }
}

#[test]
fn pending_questions_are_found_by_agent_or_session() {
    let room = Room::new();
    let nothing = json!({"pending": false, "questions": []});
    assert_eq!(room.pending("nobody"), nothing);
    room.hub.register(&room.bot, "bot", json!({"kind": "claude", "session": "5e55-1011"}));
    assert_eq!(room.pending("bot"), nothing);
    let ask = room.tool_call("toolu_1");
    room.raise("plan", "plan", json!({"plan": "not a question"}));
    let expected = json!({"pending": true, "questions": [{
        "toolId": "toolu_1", "sessionId": "5e55-1011", "timestamp": ask["created_at"], "digest": ask["digest"],
        "questions": [
            {"question": "Store?", "header": "Store", "multiSelect": false, "options": [
                {"label": "SQLite", "description": "embedded"}, {"label": "Postgres", "description": ""},
            ]},
            {"question": "Features?", "header": "More", "multiSelect": true, "options": [
                {"label": "Dark mode", "description": ""}, {"label": "i18n", "description": ""},
            ]},
        ],
    }]});
    assert_eq!(room.pending("bot"), expected);
    assert_eq!(room.pending("5e55-1011"), expected);
    assert_eq!(room.pending("5e55"), nothing);

    let answers = json!({"tool_call_id": "toolu_1", "answers": ["SQLite", ["Dark mode", "i18n"]]});
    let answered = room.answer_question("5e55-1011", answers);
    assert_eq!((answered.status, answered.body), (200, json!({"success": true})));
    assert_eq!(
        room.hub.ask(&ask)["answer"],
        json!({"answers": [{"selected": ["SQLite"]}, {"selected": ["Dark mode", "i18n"]}]})
    );
    assert_eq!(room.pending("bot"), nothing);
}

#[test]
fn free_text_must_be_marked_as_such() {
    let room = Room::new();
    let ask = room.tool_call("toolu_1");
    let refused = [
        (json!(["MySQL", ["i18n"]]), "answer.answers[0].selected"),
        (json!(["sqlite", ["i18n"]]), "answer.answers[0].selected"),
        (json!(["SQLite", "my own"]), "answer.answers[1].selected"),
        (json!(["SQLite", ["i18n", "my own"]]), "answer.answers[1].selected"),
        (json!([{"text": "my own"}, ["i18n"]]), "answer.answers[0].text"),
        (json!(["SQLite", {"text": " "}]), "answer.answers[1].text"),
        (json!(["SQLite", {"txt": "my own"}]), "answer.answers[1].txt"),
        (json!(["SQLite", []]), "answer.answers[1].selected"),
        (json!(["SQLite", [1]]), "answer.answers[1].selected[0]"),
        (json!(["SQLite"]), "answer.answers"),
        (json!(["SQLite", "i18n", "i18n"]), "answer.answers"),
        (json!([]), "answer.answers"),
        (json!(["SQLite", 1]), "answers[1]"),
        (json!([null, "i18n"]), "answers[0]"),
    ];
    for (answers, field) in refused {
        let reply = room.answer_question("bot", json!({"tool_call_id": "toolu_1", "answers": answers}));
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!(field)), "{answers}: {}", reply.body);
    }
    assert_eq!(room.answer_question("bot", json!({"tool_call_id": "toolu_1"})).body["field"], "answers");
    assert_eq!(room.hub.ask(&ask), ask);
    let answers = json!({"tool_call_id": "toolu_1", "answers": ["SQLite", {"text": "my own"}]});
    assert_eq!(room.answer_question("bot", answers).body, json!({"success": true}));
    let expected = json!({"answers": [{"selected": ["SQLite"]}, {"text": "my own"}]});
    assert_eq!(room.hub.ask(&ask)["answer"], expected);
}

#[test]
fn without_a_tool_call_only_the_one_pending_question_is_answered() {
    let room = Room::new();
    let (first, second) = (room.tool_call("toolu_1"), room.tool_call("toolu_2"));
    let answers = json!(["SQLite", "i18n"]);
    let unsaid = room.answer_question("bot", json!({"answers": answers}));
    let why = "several questions are pending: say which by tool_call_id";
    assert_eq!((unsaid.status, unsaid.body), (422, json!({"error": why, "field": "tool_call_id"})));
    let unknown = room.answer_question("bot", json!({"tool_call_id": "toolu_3", "answers": answers}));
    assert_eq!((unknown.status, unknown.body), (404, error("no such question is pending")));
    assert_eq!((room.hub.ask(&first), room.hub.ask(&second)), (first.clone(), second.clone()));

    let said = room.answer_question("bot", json!({"tool_call_id": "toolu_2", "answers": answers}));
    assert_eq!(said.status, 200);
    assert_eq!(room.hub.ask(&first), first);
    assert_eq!(room.answer_question("bot", json!({"answers": answers})).status, 200);
    assert_eq!(room.hub.ask(&first)["state"], "answered");

    let none = room.answer_question("bot", json!({"answers": answers}));
    assert_eq!((none.status, none.body), (404, error("no such question is pending")));
    let nobody = room.answer_question("nobody", json!({"answers": answers}));
    assert_eq!((nobody.status, nobody.body), (404, error("there is no such agent")));
}

const NAMED_TWICE: &str = "this tool call has named more than one request, so say which one was shown: \
    send the digest that pending-questions lists beside it";

#[test]
fn a_tool_call_that_named_another_ask_before_needs_the_digest_of_what_was_shown() {
    // By the tool call, by the key where there is none, and one by each.
    for tools in [[Some("t"), Some("t")], [None, Some("t")], [Some("t"), None]] {
        let room = Room::new();
        let keys = tools.map(|tool| if tool.is_some() { "its-own" } else { "t" });
        let keys =
            [keys[0].to_owned(), if keys[0] == keys[1] { "another".into() } else { keys[1].to_owned() }];
        let harmless = room.tool_question(&keys[0], tools[0], "Is it raining?");
        room.take_back(&harmless);
        let other = room.tool_question(&keys[1], tools[1], "Delete everything?");

        let yes = json!({"tool_call_id": "t", "answers": ["yes"]});
        let refused = room.answer_question("bot", yes.clone());
        assert_eq!((refused.status, refused.body), (422, json!({"error": NAMED_TWICE, "field": "digest"})));
        let with = |digest: &Value| {
            let mut answer = yes.clone();
            answer["digest"] = digest.clone();
            room.answer_question("bot", answer)
        };
        let stale = with(&harmless["digest"]);
        assert_eq!((stale.status, &stale.body["ask"]["id"]), (409, &harmless["id"]), "{}", stale.body);
        assert_eq!(with(&json!("sha256:0")).status, 412);
        assert_eq!(room.hub.ask(&other), other);

        let shown = room.pending("bot")["questions"][0]["digest"].clone();
        assert_eq!(with(&shown).body, json!({"success": true}));
        assert_eq!(room.hub.ask(&other)["state"], "answered");
    }
}

#[test]
fn a_digest_that_is_sent_is_always_checked() {
    let room = Room::new();
    let ask = room.tool_question("k", Some("t"), "Go on?");
    let wrong = [
        json!({"tool_call_id": "t", "answers": ["yes"], "digest": "sha256:0"}),
        json!({"answers": ["yes"], "digest": "sha256:0"}),
    ];
    for (answer, status) in wrong.into_iter().zip([412, 404]) {
        assert_eq!(room.answer_question("bot", answer).status, status);
    }
    assert_eq!(room.hub.ask(&ask), ask);
    let right = json!({"answers": ["yes"], "digest": ask["digest"]});
    assert_eq!(room.answer_question("bot", right).status, 200);
}

#[test]
fn without_a_tool_call_a_question_that_was_taken_back_is_not_answered_by_another() {
    let room = Room::new();
    let harmless = room.tool_question("k1", Some("t1"), "Is it raining?");
    room.take_back(&harmless);
    let other = room.tool_question("k2", Some("t2"), "Delete everything?");
    let refused = room.answer_question("bot", json!({"answers": ["yes"]}));
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("tool_call_id")), "{}", refused.body);
    let stale = json!({"answers": ["yes"], "digest": harmless["digest"]});
    assert_eq!(room.answer_question("bot", stale).status, 409);
    assert_eq!(room.hub.ask(&other), other);
}

#[test]
fn another_agent_of_the_same_session_does_not_get_the_answer() {
    let room = Room::new();
    room.hub.register(&room.bot, "bot", json!({"session": "s"}));
    room.tool_question("k", Some("t"), "Is it raining?");
    let second = room.hub.agent("a-second");
    room.hub.register(&second, "a-second", json!({"session": "s"}));
    let body = json!({"questions": [{"question": "Delete?", "options": [{"label": "yes"}]}]});
    let raise =
        json!({"key": "k", "agent": "a-second", "kind": "question", "body": body, "tool_use_id": "t"});
    assert_eq!(room.hub.post("/api/asks", &second, raise).status, 201);
    let refused = room.answer_question("s", json!({"tool_call_id": "t", "answers": ["yes"]}));
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("digest")));
}
