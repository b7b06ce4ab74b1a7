//! What a browser may be made to send by a page from elsewhere gets nothing.

use super::{JSON, bearer, read_and_upgrade, signed_in};
use crate::support::{Hub, Reply, path_of, saying, yes_or_no};
use serde_json::json;

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
    let (here, token) = (&hub.address, hub.token("operator"));
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

#[test]
fn a_page_from_elsewhere_cannot_call_with_any_credential() {
    let hub = Hub::start();
    let (token, (cookie, page)) = (bearer(&hub.operator()), signed_in(&hub));
    let page = ("Aye-Page", &*page);
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
            let headers = [credential, page, ("Origin", origin)];
            assert_eq!(read_and_upgrade(&hub, &headers), (403, 403), "{origin:?} with {}", credential.0);
            let site = [credential, page, ("Origin", origin), ("Sec-Fetch-Site", "same-origin")];
            assert_eq!(read_and_upgrade(&hub, &site), (403, 403), "{origin:?} with {}", credential.0);
        }
    }
    let same = format!("http://{}", hub.address);
    for credential in [("Authorization", &*token), ("Cookie", &*cookie)] {
        assert_eq!(read_and_upgrade(&hub, &[credential, page, ("Origin", &same)]), (200, 101));
        let twice = [credential, page, ("Origin", &*same), ("Origin", "http://evil.example")];
        assert_eq!(read_and_upgrade(&hub, &twice), (403, 403));
    }
    assert_eq!(read_and_upgrade(&hub, &[("Origin", &same)]), (401, 401));
}

#[test]
fn a_cookie_alone_must_say_where_it_comes_from() {
    let hub = Hub::start();
    let (token, (cookie, page)) = (bearer(&hub.operator()), signed_in(&hub));
    let page = ("Aye-Page", &*page);
    assert_eq!(read_and_upgrade(&hub, &[("Authorization", &token)]), (200, 101));
    assert_eq!(read_and_upgrade(&hub, &[("Cookie", &cookie), page]), (403, 403));
    let from = |site: &'static str| [("Cookie", cookie.as_str()), page, ("Sec-Fetch-Site", site)];
    assert_eq!(read_and_upgrade(&hub, &from("same-origin")), (200, 403));
    assert_eq!(read_and_upgrade(&hub, &from("none")), (200, 403));
    assert_eq!(read_and_upgrade(&hub, &from("same-site")), (403, 403));
    assert_eq!(read_and_upgrade(&hub, &from("cross-site")), (403, 403));

    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let headers = [("Cookie", &*cookie), page, ("Sec-Fetch-Site", "same-origin"), JSON];
    let answered = hub.call("POST", &path_of(&ask, "/answer"), &headers, Some(body.as_bytes()));
    assert_eq!(answered.status, 403);
    let headers = [("Cookie", &*cookie), page, ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(hub.call("DELETE", "/api/tokens/agent:bot", &headers, None).status, 403);
    assert_eq!(hub.ask(&ask), ask);
}

#[test]
fn a_wrong_header_is_not_made_good_by_a_right_cookie() {
    let hub = Hub::start();
    let (cookie, page) = signed_in(&hub);
    let origin = format!("http://{}", hub.address);
    let browser = [("Cookie", &*cookie), ("Aye-Page", &*page), ("Origin", &*origin)];
    let headers = [browser[0], browser[1], browser[2], ("Authorization", "Bearer nonsense")];
    assert_eq!(read_and_upgrade(&hub, &headers), (401, 401));
}

/// A browser sends a cookie to every port of a machine, so whoever serves pages on another one may have it.
#[test]
fn a_stolen_cookie_alone_gets_nothing() {
    let hub = Hub::start();
    let ((cookie, page), bot) = (signed_in(&hub), hub.agent("bot"));
    let origin = format!("http://{}", hub.address);
    let with =
        |half: &str| read_and_upgrade(&hub, &[("Cookie", &cookie), ("Origin", &origin), ("Aye-Page", half)]);
    assert_eq!(with(&page), (200, 101));
    for wrong in ["", "nonsense", &page[..111], &"0".repeat(112), &page.to_uppercase(), &cookie] {
        assert_eq!(with(wrong), (401, 401), "{wrong:?}");
    }
    let stolen = [("Cookie", &*cookie), ("Origin", &*origin), JSON];
    assert_eq!(read_and_upgrade(&hub, &stolen[..2]), (401, 401));
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    assert_eq!(hub.call("POST", &path_of(&ask, "/answer"), &stolen, Some(body.as_bytes())).status, 401);
    assert_eq!(hub.call("POST", "/api/sign-in-links", &stolen, Some(b"{}")).status, 401);
    assert_eq!(hub.ask(&ask), ask);

    // Nor does what a page keeps without its cookie, or with the cookie of another session.
    let half = [("Aye-Page", &*page), ("Origin", &*origin)];
    assert_eq!(read_and_upgrade(&hub, &half), (401, 401));
    let (other, _) = signed_in(&hub);
    let mixed = [("Cookie", &*other), ("Aye-Page", &*page), ("Origin", &*origin)];
    assert_eq!(read_and_upgrade(&hub, &mixed), (401, 401));

    // A page can set no header on a WebSocket, and offers its half as a protocol instead.
    let offered = format!("aye, aye.page.{page}");
    let browser = [("Cookie", &*cookie), ("Origin", &*origin), ("Sec-WebSocket-Protocol", &*offered)];
    assert!(hub.try_follow("", &browser).is_ok());
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
    let nothing = br#"{"code":"nothing","public_key":"04"}"#;
    let here = format!("http://{}", hub.address);
    let preflight = [
        evil,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    let replies: Vec<(u16, Reply)> = vec![
        (200, hub.call("GET", "/", &[], None)),
        (200, hub.call("GET", "/api/health", &[], None)),
        (200, hub.call("GET", "/api/asks", &[("Authorization", &token)], None)),
        (200, hub.call("GET", "/sign-in", &[], None)),
        (400, hub.call("GET", "/api/asks?limit=many", &[("Authorization", &token)], None)),
        (401, hub.call("GET", "/api/asks", &[], None)),
        (403, hub.call("GET", "/api/asks", &[("Host", "evil.example")], None)),
        (403, hub.call("GET", "/api/asks", &[("Authorization", &token), evil], None)),
        (403, hub.call("OPTIONS", "/api/asks", &preflight, None)),
        (404, hub.call("GET", "/nothing/here", &[], None)),
        (404, hub.call("GET", "/api/asks/nothing", &[("Authorization", &token)], None)),
        (405, hub.call("DELETE", "/api/asks", &[("Authorization", &token)], None)),
        (405, hub.call("OPTIONS", "/api/asks", &[("Origin", &format!("http://{}", hub.address))], None)),
        (422, hub.call("POST", "/api/sign-in", &[("Origin", &here), JSON], Some(nothing))),
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
