//! Tokens and sign-in links: made, used, slowed when wrong, and revoked.

use super::{bearer, read_and_upgrade, signed_in};
use crate::support::{Hub, eventually, path_of, yes_or_no};
use serde_json::{Value, json};

#[test]
fn many_wrong_tokens_are_slowed_and_a_right_one_still_passes() {
    let hub = Hub::start();
    let ((cookie, page), origin) = (signed_in(&hub), format!("http://{}", hub.address));
    let statuses: Vec<u16> = (0..30).map(|_| hub.get("/api/asks", "aye_wrong_token").status).collect();
    assert_eq!(statuses[..20], [401; 20]);
    assert_eq!(statuses[20..], [429; 10]);
    assert_eq!(hub.try_follow("", &[("Authorization", "Bearer wrong")]).err(), Some(429));

    assert_eq!(hub.get("/api/asks", &hub.operator()).status, 200);
    assert_eq!(
        read_and_upgrade(&hub, &[("Cookie", &cookie), ("Aye-Page", &page), ("Origin", &origin)]),
        (200, 101)
    );
    assert_eq!(hub.call("GET", "/api/health", &[], None).status, 200);
    assert_eq!(hub.call("GET", "/api/asks", &[], None).status, 401);
    assert!(hub.aye(&["list"]).status.success());
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
        "created_at": mine["created_at"], "expires_at": null, "revoked": false, "label": null, "yours": false,
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
    assert_eq!(agent.status.code(), Some(1), "{agent:?}");
}

#[test]
fn tokens_are_kept_nowhere_but_in_the_operators_own_file() {
    let hub = Hub::start();
    let (cookie, page) = signed_in(&hub);
    let session = cookie.split_once('=').unwrap().1;
    let page = format!("page_{page}");
    let code = format!("code_{}", crate::support::browser::code_of(&hub.link));
    let secrets = [hub.operator(), hub.token("viewer"), hub.agent("bot"), session.to_owned(), page, code];
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
        let wait = || hub.get(&path_of(&ask, "/resolution?wait=600"), &bot).status;
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        assert_eq!(hub.delete("/api/tokens/agent:bot", &hub.operator()).status, 204);
        for status in waiting.into_iter().map(|waiting| waiting.join().unwrap()) {
            assert!([204, 401].contains(&status), "{status}");
        }
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
