//! Every call needs a token, and each role may do its own part.

use super::{JSON, bearer};
use crate::support::{Hub, path_of, saying, yes_or_no};
use serde_json::json;
use std::collections::BTreeSet;

/// Every call that the hub describes, as `(METHOD, path)`.
fn described_calls(hub: &Hub) -> Vec<(String, String)> {
    let description = hub.get("/api/openapi.json", &hub.operator()).body;
    let paths = description["paths"].as_object().expect("the description").clone();
    let each = paths.into_iter().flat_map(|(path, operations)| {
        let methods: Vec<_> = operations.as_object().unwrap().keys().map(|m| m.to_uppercase()).collect();
        methods.into_iter().map(move |method| (method, path.clone()))
    });
    each.collect()
}

fn filled_in(path: &str) -> String {
    path.replace("{id}", "bot")
        .replace("{code}", "nothing")
        .replace("{name}", "nothing")
        .replace("{ticket}", "nothing")
}

#[test]
fn every_call_without_a_token_is_refused_on_loopback_too() {
    let hub = Hub::start();
    let mut passed = BTreeSet::new();
    for (method, path) in described_calls(&hub) {
        let reply = hub.call(&method, &filled_in(&path), &[JSON], Some(b"{}"));
        if reply.status == 401 {
            assert!(reply.body["error"].is_string(), "{method} {path}: {}", reply.body);
        } else {
            passed.insert((method, path, reply.status));
        }
    }
    let exempt = [
        ("GET", "/", 200),
        ("GET", "/assets/{name}", 404),
        ("GET", "/preview/{ticket}", 404),
        ("GET", "/api/health", 200),
        ("GET", "/sign-in", 200),
        ("POST", "/api/sign-in", 422),
    ];
    let exempt = exempt.map(|(method, path, status)| (method.to_owned(), path.to_owned(), status));
    assert_eq!(passed, BTreeSet::from(exempt));
    assert_eq!(hub.try_follow("", &[]).err(), Some(401));
}

#[test]
fn a_token_in_the_query_is_no_token() {
    let hub = Hub::start();
    let token = hub.operator();
    for name in ["token", "access_token", "authorization", "aye_session"] {
        for (method, path) in described_calls(&hub) {
            let path = format!("{}?{name}={token}", filled_in(&path));
            let status = hub.call(&method, &path, &[JSON], Some(b"{}")).status;
            let exempt = ["/?", "/assets/", "/preview/", "/api/health?", "/sign-in?", "/api/sign-in?"]
                .iter()
                .any(|open| path.starts_with(open));
            assert!(status == 401 || exempt, "{method} {path}: {status}");
        }
        assert_eq!(hub.try_follow(&format!("?{name}={token}"), &[]).err(), Some(401));
    }
}

#[test]
fn things_that_only_look_like_a_token_are_refused() {
    let hub = Hub::start();
    let token = hub.token("operator");
    let (id, secret) = token.strip_prefix("aye_").unwrap().split_once('_').unwrap();
    let wrong = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer {secret}"),
        format!("Bearer aye_{id}_"),
        format!("Bearer aye_{id}_{}", "0".repeat(64)),
        format!("Bearer {token}0"),
        format!("Bearer {}", token.to_uppercase()),
        format!("Bearer \u{e9}{token}"),
    ];
    for value in wrong {
        let reply = hub.call("GET", "/api/asks", &[("Authorization", &value)], None);
        assert_eq!(reply.status, 401, "{value:?}");
    }
    let right = hub.call("GET", "/api/asks", &[("authorization", &format!("bearer {token}"))], None);
    assert_eq!(right.status, 200);
}

#[test]
fn each_role_may_do_its_own_part_and_no_more() {
    const NOBODY: [bool; 3] = [false, false, false];
    const ANYBODY: [bool; 3] = [true, true, true];
    const AGENT: [bool; 3] = [true, false, false];
    const VIEWER: [bool; 3] = [false, true, true];
    const OPERATOR: [bool; 3] = [false, false, true];
    let matrix = [
        ("GET", "/", ANYBODY),
        ("GET", "/assets/{name}", ANYBODY),
        ("GET", "/preview/{ticket}", ANYBODY),
        ("GET", "/api/health", ANYBODY),
        ("GET", "/sign-in", ANYBODY),
        ("POST", "/api/sign-in", ANYBODY),
        ("POST", "/api/session/challenge", NOBODY),
        ("POST", "/api/session/token", NOBODY),
        ("GET", "/api/me", ANYBODY),
        ("GET", "/api/openapi.json", VIEWER),
        ("GET", "/api/asks", VIEWER),
        ("GET", "/api/asks/{id}", VIEWER),
        ("POST", "/api/asks/{id}/preview", VIEWER),
        ("GET", "/api/history", VIEWER),
        ("GET", "/api/alarms", VIEWER),
        ("POST", "/api/asks/{id}/seen", OPERATOR),
        ("GET", "/api/policy", VIEWER),
        ("GET", "/api/agents", VIEWER),
        ("GET", "/api/projects", VIEWER),
        ("GET", "/api/agents/{id}", VIEWER),
        ("GET", "/api/agents/{id}/events", VIEWER),
        ("GET", "/api/agents/{id}/pending-questions", VIEWER),
        ("GET", "/api/ws", VIEWER),
        ("GET", "/metrics", VIEWER),
        ("POST", "/api/agents", OPERATOR),
        ("POST", "/api/asks/{id}/answer", OPERATOR),
        ("POST", "/api/agents/{id}/answer-question", OPERATOR),
        ("POST", "/api/agents/{id}/prompt", OPERATOR),
        ("POST", "/api/agents/{id}/interrupt", OPERATOR),
        ("POST", "/api/agents/{id}/stop", OPERATOR),
        ("GET", "/api/tokens", OPERATOR),
        ("POST", "/api/tokens", OPERATOR),
        ("DELETE", "/api/tokens/{id}", OPERATOR),
        ("PUT", "/api/tokens/{id}/label", OPERATOR),
        ("PUT", "/api/agents/{id}/title", OPERATOR),
        ("POST", "/api/sign-in-links", OPERATOR),
        ("GET", "/api/passkeys", VIEWER),
        ("POST", "/api/passkeys", OPERATOR),
        ("POST", "/api/passkeys/challenge", OPERATOR),
        ("POST", "/api/passkeys/{id}/remove", OPERATOR),
        // Over the Unix socket alone.
        ("POST", "/api/passkeys/link", NOBODY),
        ("GET", "/api/grants", VIEWER),
        ("DELETE", "/api/grants/{id}", OPERATOR),
        ("POST", "/api/agents/{id}/plan-approval", OPERATOR),
        ("POST", "/api/asks", AGENT),
        ("GET", "/api/asks/{id}/resolution", AGENT),
        ("POST", "/api/asks/{id}/receipt", AGENT),
        ("POST", "/api/asks/{id}/late", AGENT),
        ("PUT", "/api/asks/{id}/can", AGENT),
        ("POST", "/api/asks/{id}/withdraw", AGENT),
        ("PUT", "/api/agents/{id}", AGENT),
        ("POST", "/api/agents/{id}/events", AGENT),
        ("GET", "/api/agents/{id}/commands", AGENT),
        ("POST", "/mcp", AGENT),
        ("POST", "/api/agents/{id}/token", NOBODY),
    ];
    let hub = Hub::start();
    let held: BTreeSet<_> =
        matrix.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(held, described_calls(&hub).into_iter().collect(), "every call is in the matrix");

    let tokens = [hub.agent("bot"), hub.token("viewer"), hub.token("operator")];
    for (method, path, allowed) in matrix {
        for (token, allowed) in tokens.iter().zip(allowed) {
            let headers = [("Authorization", &*bearer(token)), JSON];
            let status = hub.call(method, &filled_in(path), &headers, Some(b"{}")).status;
            match path {
                "/api/agents/{id}/token" => assert_eq!(status, 401, "{path} over TCP"),
                "/api/session/challenge" | "/api/session/token" => {
                    assert_eq!(status, 401, "{path} without a cookie");
                }
                _ => assert_eq!(status != 403, allowed, "{method} {path} with {token}: {status}"),
            }
            assert_ne!(status, 500, "{method} {path}");
        }
    }
    let upgrades = tokens.each_ref().map(|token| {
        hub.try_follow("", &[("Authorization", &bearer(token))]).map_or_else(|status| status, |_| 101)
    });
    assert_eq!(upgrades, [403, 101, 101]);
}

#[test]
fn me_says_whose_a_token_is() {
    let hub = Hub::start();
    let me = |token: &str| hub.get("/api/me", token).body;
    assert_eq!(me(&hub.agent("bot")), json!({"role": "agent", "agent": "bot", "name": "bot"}));
    assert_eq!(me(&hub.token("viewer")), json!({"role": "viewer", "agent": null, "name": "viewer"}));
    assert_eq!(me(&hub.operator())["role"], "operator");
}

#[test]
fn an_agent_cannot_answer_its_own_ask_nor_see_the_others() {
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    assert_eq!(hub.post(&path_of(&ask, "/answer"), &bot, call.clone()).status, 403);
    assert_eq!(hub.post(&path_of(&ask, "/answer"), &hub.token("viewer"), call).status, 403);
    let by_tool = json!({"answers": ["yes"]});
    assert_eq!(hub.post("/api/agents/bot/answer-question", &bot, by_tool).status, 403);
    assert_eq!(hub.get("/api/asks", &bot).status, 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn an_agent_has_no_say_in_the_asks_of_another() {
    let hub = Hub::start();
    let (bot, other) = (hub.agent("bot"), hub.agent("other"));
    let open = hub.raise(&bot, "bot", "open", "question", yes_or_no());
    let ended = hub.raise(&bot, "bot", "ended", "question", yes_or_no());
    assert_eq!(hub.answer(&ended, saying("yes")).status, 200);
    let ended = hub.ask(&ended);
    for ask in [&open, &ended] {
        let refused = [
            hub.get(&path_of(ask, "/resolution"), &other),
            hub.get(&path_of(ask, "/resolution?wait=30"), &other),
            hub.post(&path_of(ask, "/receipt"), &other, json!({"receipt": "delivered"})),
            hub.post(&path_of(ask, "/withdraw"), &other, json!({"why": "cancelled"})),
        ];
        for reply in refused {
            assert_eq!(reply.status, 403);
            assert_eq!(reply.body, json!({"error": "only the agent that raised this ask may do that"}));
        }
        assert_eq!(hub.ask(ask), *ask);
    }
}

#[test]
fn an_agent_speaks_for_itself_alone() {
    let hub = Hub::start();
    let (bot, other) = (hub.agent("bot"), hub.agent("other"));
    hub.register(&bot, "bot", json!({"title": "Bot"}));
    let before = hub.get("/api/agents/bot", &hub.operator()).body;
    let raise = json!({"key": "k", "agent": "bot", "kind": "question", "body": yes_or_no()});
    let refused = [
        hub.post("/api/asks", &other, raise),
        hub.put("/api/agents/bot", &other, json!({"state": "ended"})),
        hub.post("/api/agents/bot/events", &other, json!({"events": [{"type": "text"}]})),
        hub.get("/api/agents/bot/commands", &other),
    ];
    for reply in refused {
        assert_eq!(reply.status, 403);
        assert_eq!(reply.body, json!({"error": "this token belongs to another agent"}));
    }
    assert_eq!(hub.get("/api/agents/bot", &hub.operator()).body, before);
    assert_eq!(hub.get("/api/asks", &hub.operator()).body, json!({"asks": []}));
}
