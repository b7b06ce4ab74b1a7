//! Questions by agent and tool call, for programs that know those and not our asks.

use crate::support::Reply;
use crate::{Room, error};
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
        "toolId": "toolu_1", "sessionId": "5e55-1011", "timestamp": ask["created_at"],
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
