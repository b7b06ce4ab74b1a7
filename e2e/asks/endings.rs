//! How an ask ends for its agent: waiting for it, taking it back, and saying what became of it.

use super::{Room, error, with};
use crate::support::{Hub, path_of, saying, yes_or_no};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn an_unknown_ask_is_not_found() {
    let room = Room::new();
    let unknown = json!({"id": "0000000000"});
    let call = json!({"answer": saying("yes"), "digest": "sha256:0"});
    let replies = [
        room.hub.get(&path_of(&unknown, ""), &room.hub.operator()),
        room.try_answer(&unknown, call),
        room.resolution(&unknown),
        room.receipt(&unknown, "delivered"),
        room.withdraw(&unknown, json!({"why": "cancelled"})),
    ];
    for reply in replies {
        assert_eq!((reply.status, reply.body), (404, error("there is no such request")));
    }
    for id in ["%20", "a%2Fb", "%ff", "%00", &"x".repeat(65), "..%2Ftokens"] {
        let reply = room.hub.get(&format!("/api/asks/{id}"), &room.hub.operator());
        assert_eq!((reply.status, reply.body), (404, error("there is nothing by that name")), "{id}");
    }
}

#[test]
fn an_ask_that_nobody_answers_in_time_expires_and_says_so() {
    let room = Room::new();
    let raise = json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no(), "timeout": "1s"});
    let start = Instant::now();
    let ask = room.try_raise(raise.clone()).body;
    let resolution = room.hub.get(&path_of(&ask, "/resolution?wait=30"), &room.bot);
    assert!(start.elapsed() >= Duration::from_secs(1), "it expired early");
    let message = "Nobody answered in time. This was not approved; do not take it as an answer.";
    let outcome = json!({"decision": "expired", "answer": null, "message": message});
    assert_eq!(
        (resolution.status, resolution.body),
        (200, json!({"state": "expired", "outcome": outcome, "by": null}))
    );

    let late = room.hub.answer(&ask, saying("yes"));
    let expired = with(
        &ask,
        json!({
            "state": "expired", "receipt": "pending", "note": "nobody answered in time",
            "ended_at": late.body["ask"]["ended_at"],
        }),
    );
    let why = "nobody answered in time, and the agent is told so";
    assert_eq!((late.status, late.body), (410, json!({"error": why, "ask": expired})));
    assert_eq!(room.hub.answer(&ask, json!({"nonsense": true})).status, 410);
    assert_eq!(room.withdraw(&ask, json!({"why": "cancelled"})).status, 409);
    assert_eq!(room.try_raise(raise).body, expired);
    let delivered = room.receipt(&ask, "delivered");
    assert_eq!((delivered.status, &delivered.body["receipt"]), (200, &json!("delivered")));
}

#[test]
fn a_wait_for_the_end_is_woken_by_it() {
    let room = Room::new();
    for i in 0..20 {
        let ask = room.question(&format!("k{i}"));
        // Far longer than this client waits for a reply: only a wake-up ends it in time.
        let resolution = std::thread::scope(|scope| {
            let wait = scope.spawn(|| room.hub.get(&path_of(&ask, "/resolution?wait=600"), &room.bot));
            assert_eq!(room.hub.answer(&ask, saying("no")).status, 200);
            wait.join().unwrap()
        });
        let by = room.hub.ask(&ask)["by"].clone();
        let outcome = json!({"decision": "answered", "answer": saying("no"), "message": null});
        assert_eq!(
            (resolution.status, resolution.body),
            (200, json!({"state": "answered", "outcome": outcome, "by": by}))
        );
    }
}

#[test]
fn a_wait_that_ends_first_says_nothing() {
    let room = Room::new();
    let ask = room.question("k");
    let start = Instant::now();
    let reply = room.hub.get(&path_of(&ask, "/resolution?wait=1"), &room.bot);
    assert_eq!((reply.status, reply.body), (204, Value::Null));
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(room.resolution(&ask).status, 204);
    assert_eq!(room.hub.get(&path_of(&ask, "/resolution?wait=0"), &room.bot).status, 204);
    for wait in ["-1", "soon", "1.5", "99999999999999999999"] {
        assert_eq!(room.hub.get(&path_of(&ask, &format!("/resolution?wait={wait}")), &room.bot).status, 400);
    }
}

#[test]
fn a_wait_outlives_the_hub_that_was_asked() {
    let mut hub = Hub::start();
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    assert_eq!(hub.answer(&ask, saying("yes")).status, 200);
    hub.kill();
    hub.restart();
    let resolution = hub.get(&path_of(&ask, "/resolution?wait=30"), &bot);
    assert_eq!((resolution.status, &resolution.body["outcome"]["answer"]), (200, &saying("yes")));
}

#[test]
fn an_ask_settled_in_the_agents_terminal_is_withdrawn_with_its_answer() {
    let room = Room::new();
    let ask = room.question("k");
    let invalid = room.withdraw(&ask, json!({"why": "terminal", "answer": saying("maybe")}));
    assert_eq!((invalid.status, &invalid.body["field"]), (422, &json!("answer.answers[0].selected")));
    for why in [json!({}), json!({"why": "bored"}), json!({"why": "cancelled", "by": "me"})] {
        assert_eq!(room.withdraw(&ask, why.clone()).status, 422, "{why}");
    }
    assert_eq!(room.hub.ask(&ask), ask);

    let withdrawal = json!({"why": "terminal", "answer": saying("yes")});
    let gone = room.withdraw(&ask, withdrawal.clone());
    let withdrawn = with(
        &ask,
        json!({
            "state": "withdrawn", "answer": saying("yes"), "note": "answered in the agent's own terminal",
            "ended_at": gone.body["ended_at"],
        }),
    );
    assert_eq!((gone.status, &gone.body), (200, &withdrawn));
    assert_eq!(room.withdraw(&ask, withdrawal).body, withdrawn, "saying it again is not an error");
    assert_eq!(room.withdraw(&ask, json!({"why": "gone"})).status, 409);

    let late = room.hub.answer(&ask, saying("no"));
    let why = "this request is no longer open: answered in the agent's own terminal";
    assert_eq!((late.status, late.body), (409, json!({"error": why, "ask": withdrawn})));
    let outcome =
        json!({"decision": "withdrawn", "answer": null, "message": "answered in the agent's own terminal"});
    assert_eq!(room.resolution(&ask).body, json!({"state": "withdrawn", "outcome": outcome, "by": null}));
    assert_eq!(room.receipt(&ask, "delivered").status, 409, "nothing went to the agent");
}

#[test]
fn an_answered_ask_cannot_be_withdrawn() {
    let room = Room::new();
    let ask = room.question("k");
    let answered = room.hub.answer(&ask, saying("yes")).body;
    let late = room.withdraw(&ask, json!({"why": "cancelled"}));
    assert_eq!((late.status, &late.body["ask"]), (409, &answered));
    assert_eq!(room.hub.ask(&ask), answered);
}

#[test]
fn receipts_go_forwards_only() {
    let room = Room::new();
    let after = |reports: &[&str]| {
        let ask = room.question(&format!("k{}", reports.join("-")));
        assert_eq!(room.receipt(&ask, reports[0]).status, 409, "nothing to acknowledge while it is open");
        room.hub.answer(&ask, saying("yes"));
        reports.iter().map(|report| room.receipt(&ask, report).status).collect::<Vec<_>>()
    };
    assert_eq!(after(&["delivered", "delivered", "confirmed", "confirmed"]), [200; 4]);
    assert_eq!(after(&["confirmed", "delivered"]), [200, 409]);
    assert_eq!(after(&["confirmed", "disputed"]), [200, 409]);
    assert_eq!(after(&["delivered", "pending"]), [200, 409]);
    assert_eq!(after(&["delivered", "undelivered"]), [200, 409]);
    assert_eq!(after(&["delivered", "disputed", "confirmed"]), [200, 200, 409]);
    assert_eq!(after(&["delivered", "superseded", "delivered"]), [200, 200, 409]);
    assert_eq!(after(&["undelivered", "delivered"]), [200, 409]);
    assert_eq!(after(&["unknown", "delivered", "confirmed"]), [200, 200, 200]);
    assert_eq!(after(&["delivered", "unknown", "disputed"]), [200, 200, 200]);
}

#[test]
fn an_answer_that_the_agent_showed_at_once_has_one_receipt_in_the_trail() {
    let room = Room::new();
    let ask = room.question("k");
    assert_eq!(room.hub.answer(&ask, saying("yes")).status, 200);
    let shown =
        json!({"events": [], "receipts": [{"ask": ask["id"], "receipt": "confirmed", "evidence": "seen"}]});
    assert!(room.hub.post("/api/agents/bot/events", &room.bot, shown).status < 300);
    assert_eq!(room.hub.ask(&ask)["receipt"], "confirmed");
    let trail = room.hub.aye(&["log", "--json"]).stdout;
    let kinds = std::str::from_utf8(&trail).unwrap().lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["kind"].as_str().unwrap().to_owned()
    });
    let receipts: Vec<_> = kinds.filter(|kind| kind.starts_with("receipt.")).collect();
    assert_eq!(receipts, ["receipt.confirmed"]);
    assert!(room.hub.aye(&["verify"]).status.success());
}

#[test]
fn a_receipt_shows_what_it_was_concluded_from() {
    let room = Room::new();
    let ask = room.question("k");
    let answered = room.hub.answer(&ask, saying("yes")).body;
    let report = |receipt: &str, evidence: &str| {
        let report = json!({"receipt": receipt, "evidence": evidence});
        room.hub.post(&path_of(&ask, "/receipt"), &room.bot, report)
    };
    let delivered = report("delivered", "written to the pipe");
    assert_eq!(
        delivered.body,
        with(&answered, json!({"receipt": "delivered", "note": "written to the pipe"}))
    );
    let disputed = report("disputed", "the transcript says no").body;
    assert_eq!(disputed, with(&answered, json!({"receipt": "disputed", "note": "the transcript says no"})));
    let refused = report("delivered", "written again");
    let why = "the receipt is disputed and cannot become delivered";
    assert_eq!((refused.status, refused.body), (409, json!({"error": why, "ask": disputed})));
    for unfounded in [json!({"receipt": "confirmed"}), json!({"receipt": "confirmed", "evidence": " "})] {
        let reply = room.hub.post(&path_of(&ask, "/receipt"), &room.bot, unfounded);
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!("evidence")));
    }
    for receipt in [json!({}), json!({"receipt": "lost"}), json!({"receipt": null})] {
        let reply = room.hub.post(&path_of(&ask, "/receipt"), &room.bot, receipt);
        assert_eq!((reply.status, &reply.body["field"]), (422, &json!("receipt")));
    }
    assert_eq!(room.hub.ask(&ask), disputed);
}
