//! Who gets in, and who may do what: any web page may reach loopback, and what an agent starts may too.

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::{Hub, Reply, eventually, path_of, saying, yes_or_no};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

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
    path.replace("{id}", "bot").replace("{code}", "nothing")
}

/// A browser that has used the sign-in link; its cookie.
fn signed_in(hub: &Hub) -> String {
    let link = hub.link.strip_prefix(&format!("http://{}", hub.address)).expect("a link to this hub");
    let reply = hub.call("GET", link, &[], None);
    assert_eq!(reply.status, 303);
    let cookie = reply.header("set-cookie").expect("a cookie");
    cookie.split(';').next().unwrap().to_owned()
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
    let exempt = [("GET", "/", 200), ("GET", "/api/health", 200), ("GET", "/sign-in/{code}", 410)];
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
            let exempt = ["/?", "/api/health?", "/sign-in/"].iter().any(|open| path.starts_with(open));
            assert!(status == 401 || exempt, "{method} {path}: {status}");
        }
        assert_eq!(hub.try_follow(&format!("?{name}={token}"), &[]).err(), Some(401));
    }
}

#[test]
fn things_that_only_look_like_a_token_are_refused() {
    let hub = Hub::start();
    let token = hub.operator();
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
        ("GET", "/api/health", ANYBODY),
        ("GET", "/sign-in/{code}", ANYBODY),
        ("GET", "/api/me", ANYBODY),
        ("GET", "/api/openapi.json", VIEWER),
        ("GET", "/api/asks", VIEWER),
        ("GET", "/api/asks/{id}", VIEWER),
        ("GET", "/api/agents", VIEWER),
        ("GET", "/api/agents/{id}", VIEWER),
        ("GET", "/api/agents/{id}/events", VIEWER),
        ("GET", "/api/agents/{id}/pending-questions", VIEWER),
        ("GET", "/api/ws", VIEWER),
        ("POST", "/api/asks/{id}/answer", OPERATOR),
        ("POST", "/api/agents/{id}/answer-question", OPERATOR),
        ("POST", "/api/agents/{id}/prompt", OPERATOR),
        ("POST", "/api/agents/{id}/interrupt", OPERATOR),
        ("POST", "/api/agents/{id}/stop", OPERATOR),
        ("GET", "/api/tokens", OPERATOR),
        ("POST", "/api/tokens", OPERATOR),
        ("DELETE", "/api/tokens/{id}", OPERATOR),
        ("POST", "/api/sign-in-links", OPERATOR),
        ("POST", "/api/asks", AGENT),
        ("GET", "/api/asks/{id}/resolution", AGENT),
        ("POST", "/api/asks/{id}/receipt", AGENT),
        ("POST", "/api/asks/{id}/withdraw", AGENT),
        ("PUT", "/api/agents/{id}", AGENT),
        ("POST", "/api/agents/{id}/events", AGENT),
        ("GET", "/api/agents/{id}/commands", AGENT),
        ("POST", "/api/agents/{id}/token", NOBODY),
    ];
    let hub = Hub::start();
    let held: BTreeSet<_> =
        matrix.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(held, described_calls(&hub).into_iter().collect(), "every call stands in the matrix");

    let tokens = [hub.agent("bot"), hub.token("viewer"), hub.token("operator")];
    for (method, path, allowed) in matrix {
        for (token, allowed) in tokens.iter().zip(allowed) {
            let headers = [("Authorization", &*bearer(token)), JSON];
            let status = hub.call(method, &filled_in(path), &headers, Some(b"{}")).status;
            match path {
                "/api/agents/{id}/token" => assert_eq!(status, 401, "{path} over TCP"),
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

#[test]
fn a_foreign_host_is_refused_before_anything_else_is_looked_at() {
    let hub = Hub::start();
    let token = bearer(&hub.operator());
    let port = hub.address.rsplit_once(':').unwrap().1;
    let ours = ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"];
    for host in ours.into_iter().flat_map(|name| [name.to_owned(), format!("{name}:{port}")]) {
        let reply = hub.call("GET", "/api/asks", &[("Host", &host), ("Authorization", &token)], None);
        assert_eq!(reply.status, 200, "{host}");
    }
    let foreign = [
        "evil.example",
        &format!("evil.example:{port}"),
        &format!("localhost.evil.example:{port}"),
        &format!("127.0.0.1.evil.example:{port}"),
        &format!("127.0.0.1@evil.example:{port}"),
        &format!("evil.example@127.0.0.1:{port}"),
        "0.0.0.0",
        "169.254.169.254",
        "127.0.0.1:http",
        "127.0.0.1, evil.example",
        "",
    ];
    for host in foreign {
        for headers in [vec![("Host", host)], vec![("Host", host), ("Authorization", &*token)]] {
            for path in ["/api/asks", "/api/health", "/", "/nothing/here"] {
                let reply = hub.call("GET", path, &headers, None);
                assert_eq!(reply.status, 403, "{host:?} {path}");
            }
        }
        if !host.is_empty() {
            let both = [("Host", host), ("Authorization", &*token), ("Origin", &*format!("http://{host}"))];
            assert_eq!(hub.call("GET", "/api/asks", &both, None).status, 403, "{host:?}");
            assert_eq!(hub.try_follow("", &both).err(), Some(403), "{host:?}");
        }
    }
}

#[test]
fn the_host_must_stand_there_once_and_agree_with_the_address_asked_for() {
    let hub = Hub::start();
    let (here, token) = (&hub.address, hub.operator());
    let get = |target: &str, version: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        let request = format!(
            "GET {target} HTTP/{version}\r\n{hosts}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        hub.raw(request.as_bytes()).status
    };
    assert_eq!(get("/api/asks", "1.1", &[here]), 200);
    assert_eq!(get("/api/asks", "1.1", &[]), 403);
    assert_eq!(get("/api/asks", "1.0", &[]), 403);
    assert_eq!(get("/api/asks", "1.1", &[here, here]), 403);
    assert_eq!(get("/api/asks", "1.1", &[here, "evil.example"]), 403);
    assert_eq!(get("/api/asks", "1.1", &["evil.example", here]), 403);
    assert_eq!(get("/api/asks", "1.1", &["127.0.0.1\u{e9}"]), 403);

    assert_eq!(get(&format!("http://{here}/api/asks"), "1.1", &[here]), 200);
    assert_eq!(get("http://evil.example/api/asks", "1.1", &[here]), 403);
    assert_eq!(get(&format!("http://{here}/api/asks"), "1.1", &["evil.example"]), 403);
    assert_eq!(get("http://evil.example/api/asks", "1.1", &["evil.example"]), 403);
    assert_eq!(get(&format!("http://evil.example@{here}/api/asks"), "1.1", &[here]), 403);
    assert_eq!(get(&format!("http://{here}/api/asks"), "1.1", &[]), 403);
}

/// What each of two ways in says to a request with these headers: a plain read, and an upgrade.
fn read_and_upgrade(hub: &Hub, headers: &[(&str, &str)]) -> (u16, u16) {
    let upgraded = hub.try_follow("", headers).map_or_else(|status| status, |_| 101);
    (hub.call("GET", "/api/asks", headers, None).status, upgraded)
}

#[test]
fn a_page_from_elsewhere_cannot_call_with_any_credential() {
    let hub = Hub::start();
    let (token, cookie) = (bearer(&hub.operator()), signed_in(&hub));
    let port = hub.address.rsplit_once(':').unwrap().1.to_owned();
    let foreign = [
        "http://evil.example".to_owned(),
        format!("http://evil.example:{port}"),
        "null".to_owned(),
        String::new(),
        "http://127.0.0.1:1".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("https://{}", hub.address),
        format!("http://{}.evil.example", hub.address),
        format!("http://{}/", hub.address),
        format!("http://{0} http://{0}", hub.address),
        format!("http://127.0.0.1:{port}0"),
        format!("ws://{}", hub.address),
        hub.address.clone(),
        format!("http://[::1]:{port}"),
    ];
    for origin in &foreign {
        for credential in [("Authorization", &*token), ("Cookie", &*cookie)] {
            let headers = [credential, ("Origin", origin)];
            assert_eq!(read_and_upgrade(&hub, &headers), (403, 403), "{origin:?} with {}", credential.0);
            let site = [credential, ("Origin", origin), ("Sec-Fetch-Site", "same-origin")];
            assert_eq!(read_and_upgrade(&hub, &site), (403, 403), "{origin:?} with {}", credential.0);
        }
    }
    let same = format!("http://{}", hub.address);
    for credential in [("Authorization", &*token), ("Cookie", &*cookie)] {
        assert_eq!(read_and_upgrade(&hub, &[credential, ("Origin", &same)]), (200, 101));
        let twice = [credential, ("Origin", &*same), ("Origin", "http://evil.example")];
        assert_eq!(read_and_upgrade(&hub, &twice), (403, 403));
    }
    assert_eq!(read_and_upgrade(&hub, &[("Origin", &same)]), (401, 401));
}

#[test]
fn a_cookie_alone_must_say_where_it_comes_from() {
    let hub = Hub::start();
    let (token, cookie) = (bearer(&hub.operator()), signed_in(&hub));
    assert_eq!(read_and_upgrade(&hub, &[("Authorization", &token)]), (200, 101));
    assert_eq!(read_and_upgrade(&hub, &[("Cookie", &cookie)]), (403, 403));
    let from = |site: &'static str| [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", site)];
    assert_eq!(read_and_upgrade(&hub, &from("same-origin")), (200, 403));
    assert_eq!(read_and_upgrade(&hub, &from("none")), (200, 403));
    assert_eq!(read_and_upgrade(&hub, &from("same-site")), (403, 403));
    assert_eq!(read_and_upgrade(&hub, &from("cross-site")), (403, 403));

    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let headers = [("Cookie", &*cookie), ("Sec-Fetch-Site", "same-origin"), JSON];
    let answered = hub.call("POST", &path_of(&ask, "/answer"), &headers, Some(body.as_bytes()));
    assert_eq!(answered.status, 403);
    let headers = [("Cookie", &*cookie), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(hub.call("DELETE", "/api/tokens/agent:bot", &headers, None).status, 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn a_wrong_header_is_not_made_good_by_a_right_cookie() {
    let hub = Hub::start();
    let cookie = signed_in(&hub);
    let origin = format!("http://{}", hub.address);
    let headers = [("Cookie", &*cookie), ("Origin", &*origin), ("Authorization", "Bearer nonsense")];
    assert_eq!(read_and_upgrade(&hub, &headers), (401, 401));
}

#[test]
fn what_is_not_sent_as_json_is_not_read() {
    let hub = Hub::start();
    let (token, bot) = (bearer(&hub.operator()), hub.agent("bot"));
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let answer = |kinds: &[&str]| {
        let mut headers = vec![("Authorization", &*token)];
        headers.extend(kinds.iter().map(|kind| ("Content-Type", *kind)));
        hub.call("POST", &path_of(&ask, "/answer"), &headers, Some(body.as_bytes())).status
    };
    let wrong: [&[&str]; 9] = [
        &[],
        &[""],
        &["text/plain"],
        &["application/x-www-form-urlencoded"],
        &["multipart/form-data; boundary=x"],
        &["text/plain; application/json"],
        &["application/jsonp"],
        &["application/json", "text/plain"],
        &["text/plain, application/json"],
    ];
    for kinds in wrong {
        assert_eq!(answer(kinds), 415, "{kinds:?}");
    }
    assert_eq!(hub.ask(&ask), ask);
    let put = hub.call("PUT", "/api/agents/bot", &[("Authorization", &bearer(&bot))], Some(b"{}"));
    assert_eq!(put.status, 415);
    assert_eq!(answer(&["Application/JSON; charset=utf-8"]), 200);
}

#[test]
fn every_response_keeps_browsers_at_arms_length() {
    let hub = Hub::start();
    let token = bearer(&hub.operator());
    let evil = ("Origin", "http://evil.example");
    let link = hub.link.rsplit_once(&hub.address).unwrap().1;
    let preflight = [
        evil,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    let replies: Vec<(u16, Reply)> = vec![
        (200, hub.call("GET", "/", &[], None)),
        (200, hub.call("GET", "/api/health", &[], None)),
        (200, hub.call("GET", "/api/asks", &[("Authorization", &token)], None)),
        (303, hub.call("GET", link, &[], None)),
        (400, hub.call("GET", "/api/asks?limit=many", &[("Authorization", &token)], None)),
        (401, hub.call("GET", "/api/asks", &[], None)),
        (403, hub.call("GET", "/api/asks", &[("Host", "evil.example")], None)),
        (403, hub.call("GET", "/api/asks", &[("Authorization", &token), evil], None)),
        (403, hub.call("OPTIONS", "/api/asks", &preflight, None)),
        (404, hub.call("GET", "/nothing/here", &[], None)),
        (404, hub.call("GET", "/api/asks/nothing", &[("Authorization", &token)], None)),
        (405, hub.call("DELETE", "/api/asks", &[("Authorization", &token)], None)),
        (405, hub.call("OPTIONS", "/api/asks", &[("Origin", &format!("http://{}", hub.address))], None)),
        (410, hub.call("GET", "/sign-in/nothing", &[], None)),
        (415, hub.call("POST", "/api/asks", &[("Authorization", &token)], Some(b"{}"))),
    ];
    for (status, reply) in replies {
        assert_eq!(reply.status, status, "{}", reply.head);
        assert!(!reply.head.to_ascii_lowercase().contains("access-control-"), "{}", reply.head);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{}", reply.head);
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{}", reply.head);
        assert_eq!(reply.header("x-frame-options"), Some("DENY"), "{}", reply.head);
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{}", reply.head);
        let policy = reply.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'"), "{}", reply.head);
        assert!(policy.contains("frame-ancestors 'none'"), "{}", reply.head);
    }
}

#[test]
fn many_wrong_tokens_are_slowed_and_a_right_one_still_passes() {
    let hub = Hub::start();
    let (cookie, origin) = (signed_in(&hub), format!("http://{}", hub.address));
    let statuses: Vec<u16> = (0..30).map(|_| hub.get("/api/asks", "aye_wrong_token").status).collect();
    assert_eq!(statuses[..20], [401; 20]);
    assert_eq!(statuses[20..], [429; 10]);
    assert_eq!(hub.try_follow("", &[("Authorization", "Bearer wrong")]).err(), Some(429));

    assert_eq!(hub.get("/api/asks", &hub.operator()).status, 200);
    assert_eq!(read_and_upgrade(&hub, &[("Cookie", &cookie), ("Origin", &origin)]), (200, 101));
    assert_eq!(hub.call("GET", "/api/health", &[], None).status, 200);
    assert_eq!(hub.call("GET", "/api/asks", &[], None).status, 401);
    assert!(hub.aye(&["list"]).status.success());
}

#[test]
fn a_sign_in_link_works_once_and_answers_as_the_web() {
    let hub = Hub::start();
    let link = hub.link.rsplit_once(&hub.address).unwrap().1.to_owned();
    let reply = hub.call("GET", &link, &[], None);
    assert_eq!((reply.status, reply.header("location")), (303, Some("/")));
    let cookie = reply.header("set-cookie").unwrap().to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with("aye_session=aye_"), "{cookie}");
    let attributes: BTreeSet<_> = attributes.split("; ").collect();
    assert_eq!(attributes, BTreeSet::from(["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=2592000"]));

    let again = hub.call("GET", &link, &[], None);
    assert_eq!((again.status, again.header("set-cookie")), (410, None));

    let origin = format!("http://{}", hub.address);
    let browser = [("Cookie", pair), ("Origin", &*origin), ("Aye-Surface", "telegram"), JSON];
    let ask = hub.raise(&hub.agent("bot"), "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let answered = hub.call("POST", &path_of(&ask, "/answer"), &browser, Some(body.as_bytes()));
    assert_eq!(answered.status, 200);
    assert_eq!(answered.body["by"], json!({"name": hub.person(), "surface": "web"}));

    let made = hub.call("POST", "/api/sign-in-links", &browser, Some(b"{}"));
    assert_eq!(made.status, 201);
    let link = made.body["url"].as_str().unwrap().rsplit_once(&hub.address).unwrap().1.to_owned();
    assert_eq!(hub.call("GET", &link, &[], None).status, 303);
    assert_eq!(hub.call("GET", &link, &[], None).status, 410);
}

#[test]
fn a_browsers_session_outlives_the_hub_and_a_sign_in_link_does_not() {
    let mut hub = Hub::start();
    let made = hub.post("/api/sign-in-links", &hub.operator(), json!({})).body;
    let unused = made["url"].as_str().unwrap().rsplit_once(&hub.address).unwrap().1.to_owned();
    let cookie = signed_in(&hub);
    hub.kill();
    hub.restart();
    let headers = [("Cookie", &*cookie), ("Origin", &*format!("http://{}", hub.address))];
    assert_eq!(read_and_upgrade(&hub, &headers), (200, 101));
    assert_eq!(hub.call("GET", &unused, &[], None).status, 410);
}

/// The tokens as the command lists them.
fn listed(hub: &Hub) -> Vec<Value> {
    let list = hub.aye(&["token", "list", "--json"]);
    assert!(list.status.success(), "{list:?}");
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    list["tokens"].as_array().unwrap().clone()
}

#[test]
fn tokens_are_made_listed_and_revoked_on_the_command_line() {
    let hub = Hub::start();
    let made = hub.aye(&["token", "create", "--role", "viewer", "--name", "wall display"]);
    assert!(made.status.success(), "{made:?}");
    let printed = String::from_utf8(made.stdout).unwrap();
    let token = printed.strip_suffix('\n').unwrap();
    assert_eq!(hub.get("/api/me", token).body["name"], "wall display");

    let mine = listed(&hub).into_iter().find(|token| token["name"] == "wall display").unwrap();
    let id = mine["id"].as_str().unwrap().to_owned();
    let expected = json!({
        "id": id, "role": "viewer", "agent": null, "name": "wall display", "surface": null,
        "created_at": mine["created_at"], "revoked": false,
    });
    assert_eq!(mine, expected);
    assert!(listed(&hub).iter().all(|listed| !listed.to_string().contains(token)));
    let people = String::from_utf8(hub.aye(&["token", "list"]).stdout).unwrap();
    assert!(people.contains("wall display") && !people.contains(token), "{people}");

    let revoked = hub.aye(&["token", "revoke", &id]);
    assert!(revoked.status.success(), "{revoked:?}");
    assert_eq!(hub.get("/api/me", token).status, 401);
    let mine = listed(&hub).into_iter().find(|token| token["name"] == "wall display").unwrap();
    assert_eq!(mine["revoked"], true);

    let again = hub.aye(&["token", "revoke", &id]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let agent = hub.aye(&["token", "create", "--role", "agent"]);
    assert_eq!(agent.status.code(), Some(5), "{agent:?}");
}

#[test]
fn tokens_are_kept_nowhere_but_in_the_operators_own_file() {
    let hub = Hub::start();
    let cookie = signed_in(&hub);
    let session = cookie.split_once('=').unwrap().1;
    let secrets = [hub.operator(), hub.token("viewer"), hub.agent("bot"), session.to_owned()];
    let mut looked_at = 0;
    for entry in std::fs::read_dir(&hub.home).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("operator.token") || !path.is_file() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        looked_at += 1;
        for token in &secrets {
            let secret = token.rsplit_once('_').unwrap().1.as_bytes();
            let found = bytes.windows(secret.len()).any(|window| window == secret);
            assert!(!found, "{} holds a token", path.display());
        }
    }
    assert!(looked_at >= 2, "the database at least");
}

#[test]
fn revoking_a_token_closes_what_it_had_opened_at_once() {
    let hub = Hub::start();
    let viewer = hub.token("viewer");
    let mut follower = hub.follow("", &viewer);
    let mut other = hub.follow("", &hub.operator());
    assert_eq!(follower.next()["type"], "snapshot");
    assert_eq!(other.next()["type"], "snapshot");
    let id = viewer.split('_').nth(1).unwrap();
    assert_eq!(hub.delete(&format!("/api/tokens/{id}"), &hub.operator()).status, 204);
    let close = follower.end().expect("a reason");
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1008, "the token was revoked"));
    assert_eq!(hub.get("/api/asks", &viewer).status, 401);
    assert_eq!(hub.try_follow("", &[("Authorization", &bearer(&viewer))]).err(), Some(401));

    hub.raise(&hub.agent("bot"), "bot", "k", "question", yes_or_no());
    assert_eq!(other.next()["type"], "ask", "the others go on");
    assert_eq!(hub.delete(&format!("/api/tokens/{id}"), &hub.operator()).status, 404);
}

#[test]
fn revoking_an_agents_token_ends_its_waiting_and_stays_through_a_restart() {
    let mut hub = Hub::start();
    let handed = hub.call_unix("POST", "/api/agents/bot/token", "", json!({}));
    assert_eq!(handed.status, 200, "{}", handed.body);
    let bot = handed.body["token"].as_str().unwrap().to_owned();
    assert_eq!(hub.call_unix("POST", "/api/agents/bot/token", "", json!({})).body["token"], bot.as_str());
    assert_eq!(hub.agent("bot"), bot, "one token an agent");

    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    std::thread::scope(|scope| {
        let wait = || hub.get(&path_of(&ask, "/resolution?wait=30"), &bot).status;
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        assert_eq!(hub.delete("/api/tokens/agent:bot", &hub.operator()).status, 204);
        let start = std::time::Instant::now();
        for status in waiting.into_iter().map(|waiting| waiting.join().unwrap()) {
            assert!([204, 401].contains(&status), "{status}");
        }
        assert!(start.elapsed().as_secs() < 10, "the waits ended by themselves");
    });
    for _ in 0..2 {
        assert_eq!(hub.get(&path_of(&ask, "/resolution"), &bot).status, 401);
        let refused = hub.call_unix("POST", "/api/agents/bot/token", "", json!({}));
        assert_eq!(refused.status, 403);
        assert_eq!(refused.body, json!({"error": "the token of this agent was revoked"}));
        let new = json!({"role": "agent", "agent": "bot"});
        assert_eq!(hub.post("/api/tokens", &hub.operator(), new).status, 403);
        hub.kill();
        hub.restart();
    }
    assert_eq!(hub.ask(&ask)["state"], "open");
}

#[test]
fn the_operators_file_gets_a_new_token_once_the_old_one_is_revoked() {
    let mut hub = Hub::start();
    let old = hub.operator();
    let id = old.split('_').nth(1).unwrap();
    assert!(hub.aye(&["token", "revoke", id]).status.success());
    assert_eq!(hub.get("/api/asks", &old).status, 401);
    hub.stop();
    hub.restart();
    assert_eq!(hub.get("/api/asks", &old).status, 401);
    assert_ne!(hub.operator(), old);
    assert_eq!(hub.get("/api/asks", &hub.operator()).status, 200);
}

/// Makes the test's own process the agent's, so that everything it does happens inside the agent.
fn become_the_agent(hub: &Hub, id: &str) -> String {
    let token = hub.agent(id);
    hub.register(&token, id, json!({"kind": "claude", "pid": std::process::id()}));
    token
}

#[test]
fn what_runs_inside_an_agent_is_no_operator_on_the_unix_socket() {
    let hub = Hub::start();
    let operator = hub.operator();
    let bot = become_the_agent(&hub, "bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let why = "this process runs inside the agent bot, and an agent never answers for a person";
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    let refused = [
        hub.call_unix("POST", &path_of(&ask, "/answer"), &operator, call.clone()),
        hub.call_unix("POST", "/api/agents/bot/answer-question", &operator, json!({"answers": ["yes"]})),
        hub.call_unix("POST", "/api/tokens", &operator, json!({"role": "operator"})),
        hub.call_unix("POST", "/api/sign-in-links", &operator, json!({})),
        hub.call_unix("GET", "/api/tokens", &operator, json!({})),
    ];
    for reply in refused {
        assert_eq!((reply.status, &reply.body), (403, &json!({"error": why})));
    }
    assert_eq!(hub.call_unix("GET", "/api/asks", &operator, json!({})).status, 200, "it may look");

    let mut follower = hub.follow_unix(&operator);
    let result = follower.say(json!({
        "type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"], "key": "a",
    }));
    assert_eq!(result, json!({"type": "result", "key": "a", "status": 403, "error": why}));
    let result = follower.say(json!({
        "type": "ask_user_response", "conversation_id": "bot", "answers": {"Go on?": "yes"},
    }));
    assert_eq!(result, json!({"type": "result", "key": null, "status": 403, "error": why}));
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn a_socket_opened_before_the_agent_was_known_is_no_operator_afterwards() {
    let hub = Hub::start();
    let mut follower = hub.follow_unix(&hub.operator());
    let bot = become_the_agent(&hub, "bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let result = follower.say(json!({
        "type": "answer", "id": ask["id"], "answer": saying("yes"), "digest": ask["digest"],
    }));
    assert_eq!(result["status"], 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn an_agent_that_declares_itself_ended_is_no_operator_while_its_process_lives() {
    let hub = Hub::start();
    let bot = become_the_agent(&hub, "bot");
    let other = hub.agent("other");
    let ask = hub.raise(&other, "other", "k", "question", yes_or_no());
    hub.register(&bot, "bot", json!({"state": "ended"}));
    let call = json!({"answer": saying("yes"), "digest": ask["digest"]});
    let reply = hub.call_unix("POST", &path_of(&ask, "/answer"), &hub.operator(), call);
    assert_eq!(reply.status, 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn what_runs_inside_an_agent_gets_no_token_of_another() {
    let hub = Hub::start();
    let bot = become_the_agent(&hub, "bot");
    let other = hub.agent("other");
    hub.register(&other, "other", json!({}));
    let hand_out = |agent: &str| hub.call_unix("POST", &format!("/api/agents/{agent}/token"), "", json!({}));
    assert_eq!(hand_out("bot").body, json!({"token": bot}));
    let refused = hand_out("other");
    let why = "this process runs inside the agent bot and may not speak for other";
    assert_eq!((refused.status, refused.body), (403, json!({"error": why})));
    assert_eq!(hand_out("new").status, 200, "what an agent starts may be an agent of its own");
}

#[test]
fn a_command_inside_an_agent_is_refused_and_the_same_outside_is_not() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let hub = Hub::start();
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let id = ask["id"].as_str().unwrap();
    // The shell waits until the hub knows whose process it is; a subshell makes it a grandchild.
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "read go; (\"$0\" answer \"$1\" yes; exit $?); exit $?",
        env!("CARGO_BIN_EXE_aye"),
        id,
    ]);
    shell.env("AYE_HOME", &hub.home).env_remove("AYE_URL").env_remove("AYE_TOKEN");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    hub.register(&bot, "bot", json!({"kind": "claude", "pid": shell.id()}));
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let refused = shell.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "aye: this process runs inside the agent bot, and an agent never answers for a person\n"
    );
    assert_eq!(hub.ask(&ask), ask);

    let answered = hub.aye(&["answer", id, "yes"]);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    let answered = eventually("the answer", || Some(hub.ask(&ask)).filter(|ask| ask["state"] == "answered"));
    assert_eq!(answered["answer"], saying("yes"));
    assert_eq!(answered["by"], json!({"name": hub.person(), "surface": "terminal"}));
}

#[test]
fn a_token_revoked_while_it_is_handed_out_is_revoked() {
    let hub = Hub::start();
    let operator = hub.operator();
    for i in 0..100 {
        let agent = format!("bot-{i}");
        let token = std::thread::scope(|scope| {
            let handed = scope.spawn(|| {
                hub.call_unix("POST", &format!("/api/agents/{agent}/token"), "", json!({})).body["token"]
                    .clone()
            });
            eventually("the token to revoke", || {
                (hub.delete(&format!("/api/tokens/agent:{agent}"), &operator).status == 204).then_some(())
            });
            handed.join().unwrap()
        });
        let Some(token) = token.as_str() else { continue };
        let status = hub.get("/api/me", token).status;
        assert!([401, 429].contains(&status), "{agent}: {status}");
    }
}
