//! A browser's session: signed in once, and worth nothing without what its page signs.

use super::{JSON, bearer, read_and_upgrade};
use crate::support::browser::{Browser, code_of};
use crate::support::{Hub, Reply, path_of, saying, yes_or_no};
use serde_json::json;
use std::collections::BTreeSet;

/// What the hub says to this browser with this token of its page.
fn with(hub: &Hub, browser: &Browser, token: &str) -> (u16, u16) {
    let origin = format!("http://{}", hub.address);
    read_and_upgrade(hub, &[("Cookie", &browser.cookie), ("Origin", &origin), ("Aye-Page", token)])
}

fn challenge(hub: &Hub, browser: &Browser) -> String {
    let reply = browser.challenge(&|method, path, headers, body| hub.call(method, path, headers, body));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body["challenge"].as_str().unwrap().to_owned()
}

fn trade(hub: &Hub, browser: &Browser, challenge: &str, signature: &str) -> Reply {
    browser.trade(&|method, path, headers, body| hub.call(method, path, headers, body), challenge, signature)
}

#[test]
fn a_sign_in_link_works_once_and_answers_as_the_web() {
    let hub = Hub::start();
    let browser = hub.browser_by(&hub.link).unwrap_or_else(|reply| panic!("{}", reply.body));
    let cookie = browser.signed_in.header("set-cookie").unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with("aye_session=aye_"), "{cookie}");
    let attributes: BTreeSet<_> = attributes.split("; ").collect();
    assert_eq!(attributes, BTreeSet::from(["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=2592000"]));
    assert_eq!(hub.browser_by(&hub.link).err().map(|reply| reply.status), Some(410));

    let (origin, token) = (format!("http://{}", hub.address), hub.page_token(&browser));
    let headers =
        [("Cookie", pair), ("Aye-Page", &*token), ("Origin", &*origin), ("Aye-Surface", "telegram"), JSON];
    let ask = hub.raise(&hub.agent("bot"), "bot", "k", "question", yes_or_no());
    let body = json!({"answer": saying("yes"), "digest": ask["digest"]}).to_string();
    let answered = hub.call("POST", &path_of(&ask, "/answer"), &headers, Some(body.as_bytes()));
    assert_eq!(answered.status, 200);
    assert_eq!(answered.body["by"], json!({"name": hub.person(), "surface": "web"}));

    let made = hub.call("POST", "/api/sign-in-links", &headers, Some(b"{}"));
    assert_eq!(made.status, 201);
    assert!(hub.browser_by(made.body["url"].as_str().unwrap()).is_ok());
}

#[test]
fn looking_at_a_sign_in_link_does_not_use_it_up() {
    let hub = Hub::start();
    let (path, code) =
        hub.link.strip_prefix(&format!("http://{}", hub.address)).unwrap().split_once('#').unwrap();
    assert_eq!((path, code.len()), ("/sign-in", 64));
    // What a preview, a crawler or a browser that loads ahead may send; some send what is after the #.
    for path in [path.to_owned(), format!("{path}?{code}"), format!("{path}/{code}")] {
        for method in ["HEAD", "GET", "OPTIONS", "POST"] {
            let reply = hub.call(method, &path, &[("Sec-Purpose", "prefetch;prerender")], None);
            assert_eq!(reply.header("set-cookie"), None, "{method} {path}");
        }
    }
    assert_eq!(hub.call("HEAD", "/sign-in", &[], None).status, 200);
    for method in ["HEAD", "GET"] {
        assert_eq!(hub.call(method, "/api/sign-in", &[], None).status, 405);
    }
    // Nor does a call that is not a page's, or brings no key.
    let origin = format!("http://{}", hub.address);
    let body = |key: &str| json!({"code": code, "public_key": key}).to_string();
    let post = |headers: &[(&str, &str)], body: &str| {
        hub.call("POST", "/api/sign-in", headers, Some(body.as_bytes())).status
    };
    let point = format!("04{}", "1".repeat(128));
    assert_eq!(post(&[JSON], &body(&point)), 403);
    assert_eq!(post(&[JSON, ("Origin", "http://evil.example")], &body(&point)), 403);
    assert_eq!(post(&[("Origin", &origin), ("Content-Type", "text/plain")], &body(&point)), 415);
    for key in ["", "04", &point[..128], &format!("02{}", "1".repeat(128)), &"x".repeat(130)] {
        assert_eq!(post(&[JSON, ("Origin", &origin)], &body(key)), 422, "{key}");
    }
    assert!(hub.browser_by(&hub.link).is_ok());
}

#[test]
fn a_browsers_session_outlives_the_hub_and_neither_its_page_token_nor_a_link_does() {
    let mut hub = Hub::start();
    let made = hub.post("/api/sign-in-links", &hub.operator(), json!({})).body;
    let unused = code_of(made["url"].as_str().unwrap()).to_owned();
    let mut browser = hub.browser();
    let (old, unsigned) = (hub.page_token(&browser), challenge(&hub, &browser));
    hub.kill();
    hub.restart();
    // On another port now; browsers tell ports apart, and the hub is told where this one signed in.
    let moved = std::mem::replace(&mut browser.origin, format!("http://{}", hub.address));
    assert_eq!(browser.challenge(&|m, p, h, b| hub.call(m, p, h, b)).status, 401);
    browser.origin = moved.clone();
    let host = moved.strip_prefix("http://").unwrap().to_owned();
    let call = |method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>| {
        hub.call(method, path, &[headers, &[("Host", &*host)]].concat(), body)
    };
    let read = |token: &str| {
        let headers = [("Cookie", &*browser.cookie), ("Origin", &*moved), ("Aye-Page", token)];
        call("GET", "/api/asks", &headers, None).status
    };
    assert_eq!(read(&old), 401, "what was sent to anybody while the hub was down is worth nothing now");
    assert_eq!(browser.trade(&call, &unsigned, &browser.sign(&moved, &unsigned)).status, 409);
    assert_eq!(read(&browser.token(&call)), 200);
    let link = format!("{moved}/sign-in#{unused}");
    assert_eq!(hub.browser_by(&link).err().map(|reply| reply.status), Some(410));
}

#[test]
fn a_challenge_counts_once_for_its_session_its_key_and_its_origin() {
    let hub = Hub::start();
    let (mine, other) = (hub.browser(), hub.browser());
    let given = challenge(&hub, &mine);
    let refused = |challenge: &str, signature: &str| trade(&hub, &mine, challenge, signature).status;
    assert_eq!(refused(&given, ""), 401);
    assert_eq!(refused(&given, &"00".repeat(64)), 401);
    assert_eq!(refused(&given, &other.sign(&other.origin, &given)), 401, "another key");
    for origin in ["http://localhost:1", "https://evil.example", ""] {
        assert_eq!(refused(&given, &mine.sign(origin, &given)), 401, "signed for {origin:?}");
    }
    let theirs = challenge(&hub, &other);
    assert_eq!(refused(&theirs, &mine.sign(&mine.origin, &theirs)), 409, "another session's");
    let made_up = "f".repeat(given.len());
    assert_eq!(refused(&made_up, &mine.sign(&mine.origin, &made_up)), 409);
    let token = hub.page_token(&mine);
    assert_eq!(refused(&token, &mine.sign(&mine.origin, &token)), 409, "a token is no challenge");
    assert_eq!(with(&hub, &mine, &given), (401, 401), "and a challenge no token");

    let signature = mine.sign(&mine.origin, &given);
    let traded = trade(&hub, &mine, &given, &signature);
    assert_eq!((traded.status, traded.body["lasts"].as_i64()), (200, Some(600)));
    assert_eq!(with(&hub, &mine, traded.body["token"].as_str().unwrap()), (200, 101));
    assert_eq!(refused(&given, &signature), 409, "a second time");
    assert_eq!(with(&hub, &other, traded.body["token"].as_str().unwrap()), (401, 401));
}

#[test]
fn many_unanswered_challenges_cost_nothing_and_leave_the_page_its_own() {
    let hub = Hub::start();
    let browser = hub.browser();
    let first = challenge(&hub, &browser);
    for _ in 0..2000 {
        challenge(&hub, &browser);
    }
    assert_eq!(trade(&hub, &browser, &first, &browser.sign(&browser.origin, &first)).status, 200);
}

#[test]
fn a_challenge_is_for_a_browsers_cookie_alone() {
    let hub = Hub::start();
    let (token, origin) = (hub.operator(), format!("http://{}", hub.address));
    for path in ["/api/session/challenge", "/api/session/token"] {
        let call = |headers: &[(&str, &str)]| {
            hub.call("POST", path, &[headers, &[JSON, ("Origin", &origin)]].concat(), Some(b"{}")).status
        };
        assert_eq!(call(&[]), 401);
        assert_eq!(call(&[("Authorization", &bearer(&token))]), 401);
        assert_eq!(call(&[("Cookie", &format!("aye_session={token}"))]), 401);
    }
}

#[test]
fn a_token_that_is_meant_for_a_header_is_no_cookie() {
    let hub = Hub::start();
    let (browser, origin) = (hub.browser(), format!("http://{}", hub.address));
    let page = hub.page_token(&browser);
    for token in [hub.operator(), hub.token("operator"), hub.token("viewer"), hub.agent("bot")] {
        assert_eq!(hub.get("/api/me", &token).status, 200);
        let cookie = format!("aye_session={token}");
        let headers = [("Cookie", &*cookie), ("Origin", &*origin), ("Aye-Page", &*page)];
        assert_eq!(read_and_upgrade(&hub, &headers), (401, 401));
        assert_eq!(read_and_upgrade(&hub, &headers[..2]), (401, 401));
    }
    // Nor the other way round.
    let session = browser.cookie.split_once('=').unwrap().1;
    assert_eq!(
        read_and_upgrade(&hub, &[("Authorization", &bearer(session)), ("Aye-Page", &page)]),
        (401, 401)
    );
}

#[test]
fn an_open_socket_takes_a_new_token_of_its_own_session_alone() {
    let hub = Hub::start();
    let (mine, other) = (hub.browser(), hub.browser());
    let (page, origin) = (hub.page_token(&mine), format!("http://{}", hub.address));
    let headers = [("Cookie", &*mine.cookie), ("Origin", &*origin), ("Aye-Page", &*page)];
    let mut socket = hub.try_follow("", &headers).unwrap_or_else(|status| panic!("{status}"));
    let mut show = |token: &str| socket.say(json!({"type": "token", "token": token}))["status"].clone();
    assert_eq!(show(&hub.page_token(&mine)), 200);
    assert_eq!(show(&hub.page_token(&other)), 401);
    assert_eq!(show(""), 401);
    let mut plain = hub.follow("", &hub.operator());
    assert_eq!(plain.say(json!({"type": "token", "token": hub.page_token(&mine)}))["status"], 401);
}

#[test]
fn a_page_is_told_to_sign_anew_whatever_others_have_tried() {
    let hub = Hub::start();
    let browser = hub.browser();
    let wrong = || hub.get("/api/asks", "wrong").status;
    assert!((0..30).map(|_| wrong()).any(|status| status == 429));
    // A token that has ended, or a session that has: both are told apart from trying too often.
    assert_eq!(with(&hub, &browser, "ended"), (401, 401));
    let origin = format!("http://{}", hub.address);
    let gone = [("Cookie", "aye_session=aye_0_0"), ("Origin", &*origin), JSON];
    assert_eq!(hub.call("POST", "/api/session/challenge", &gone, Some(b"{}")).status, 401);
    assert_eq!(wrong(), 429);
    assert_eq!(with(&hub, &browser, &hub.page_token(&browser)), (200, 101));
}

#[test]
fn a_read_that_names_no_origin_counts_only_at_the_host_where_the_session_signed_in() {
    let hub = Hub::start();
    let browser = hub.browser();
    let token = hub.page_token(&browser);
    let read = |host: &str| {
        let headers = [
            ("Cookie", &*browser.cookie),
            ("Aye-Page", &*token),
            ("Sec-Fetch-Site", "same-origin"),
            ("Host", host),
        ];
        hub.call("GET", "/api/asks", &headers, None).status
    };
    let port = hub.address.rsplit_once(':').unwrap().1;
    assert_eq!(read(&hub.address), 200);
    for other in ["127.0.0.1", "127.0.0.2", "[::1]"] {
        assert_eq!(read(&format!("{other}:{port}")), 401, "{other}");
    }
    assert_eq!(read("localhost:1"), 401);
}
