//! What the trail says of grants, tokens and the policy is compared with what is there.

use super::*;

/// A home in which people granted, made tokens, and took some of it back; and no hub.
fn home() -> Hub {
    let mut hub = Hub::start();
    let bot = hub.agent("bot");
    hub.register(&bot, "bot", json!({"kind": "claude", "cwd": "/src/web"}));
    let grant = |key: &str, command: &str, scope: &str| {
        let kept = |scope: &str| json!({"scope": scope, "kept_by": "hub"});
        let scopes = json!([{"scope": "once"}, kept("session"), kept("always")]);
        let body = json!({"tool": "Bash", "input": {"command": command}, "scopes": scopes});
        let ask = hub.raise(&bot, "bot", key, "permission", body);
        assert_eq!(hub.answer(&ask, json!({"decision": "allow", "scope": scope})).status, 200);
        format!("g-{}", id(&ask))
    };
    grant("k1", "cargo test", "always");
    grant("k2", "cargo check", "session");
    let revoked = grant("k3", "cargo build", "always");
    assert_eq!(hub.delete(&format!("/api/grants/{revoked}"), &hub.operator()).status, 204);
    let made = hub.post("/api/tokens", &hub.operator(), json!({"role": "viewer", "name": "wall"}));
    let token = made.body["token"].as_str().unwrap();
    let token = token.strip_prefix("aye_").unwrap().rsplit_once('_').unwrap().0.to_owned();
    assert_eq!(hub.delete(&format!("/api/tokens/{token}"), &hub.operator()).status, 204);
    hub.token("viewer");
    // One that is forgotten with its agent, and one that a person made, which is not.
    let own = hub.call_unix("POST", "/api/agents/passing/token", "", json!({})).body["token"].clone();
    let own = own.as_str().unwrap();
    hub.register(own, "passing", json!({"kind": "script"}));
    hub.register(own, "passing", json!({"state": "ended"}));
    let other = hub.call_unix("POST", "/api/agents/staying/token", "", json!({})).body["token"].clone();
    assert_eq!(other, hub.agent("staying"));
    hub.register(&bot, "bot", json!({"state": "ended"}));
    assert!(hub.stop().success());
    hub
}

#[test]
fn verify_knows_every_grant_and_token_and_finds_what_was_done_to_them() {
    let hub = home();
    let whole = hub.aye(&["verify"]);
    assert_eq!(code(&whole), Some(0), "{whole:?}");
    assert!(printed(&whole).contains("3 grants, "), "{whole:?}");
    let cases = [
        (
            "INSERT INTO grants SELECT 'g-forged', agent, folder, tool, body, NULL, mac FROM grants LIMIT 1",
            "grant g-forged: the trail does not know it",
        ),
        (
            "UPDATE grants SET body = replace(body, 'cargo test', 'rm -rf x')",
            "it is not the one that was made",
        ),
        (
            "UPDATE grants SET body = json_set(body, '$.expires_at', '2999-01-01T00:00:00Z')",
            "it is not the one that was made",
        ),
        ("UPDATE grants SET folder = '/'", "it is not the one that was made"),
        ("UPDATE grants SET agent = 'other' WHERE agent = 'bot'", "it is not the one that was made"),
        ("UPDATE grants SET ended_at = NULL WHERE body LIKE '%build%'", "it did not end as the trail says"),
        ("UPDATE grants SET ended_at = NULL WHERE agent = 'bot'", "it did not end as the trail says"),
        ("UPDATE grants SET ended_at = 1 WHERE ended_at IS NULL", "it did not end as the trail says"),
        ("DELETE FROM grants WHERE agent = 'bot'", "the trail knows it, the database does not"),
        (
            "INSERT INTO tokens (id, hash, role, name, created_at) VALUES ('forged', x'00', 'operator', 'me', 0)",
            "token forged: the trail does not know it",
        ),
        ("UPDATE tokens SET role = 'operator' WHERE id = 'agent:bot'", "it is not the one that was made"),
        ("UPDATE tokens SET role = 'operator' WHERE role = 'viewer'", "it is not the one that was made"),
        ("UPDATE tokens SET hash = x'00' WHERE role = 'operator'", "it is not the one that was made"),
        ("UPDATE tokens SET name = 'Ann' WHERE role = 'operator'", "it is not the one that was made"),
        ("UPDATE tokens SET surface = 'web' WHERE role = 'operator'", "it is not the one that was made"),
        ("UPDATE tokens SET agent = 'other' WHERE id = 'agent:bot'", "it is not the one that was made"),
        ("UPDATE tokens SET kept = 0 WHERE id = 'agent:staying'", "it is not the one that was made"),
        ("UPDATE tokens SET created_at = 1 WHERE role = 'operator'", "it is not the one that was made"),
        ("UPDATE tokens SET revoked_at = NULL", "it was not revoked as the trail says"),
        ("UPDATE tokens SET revoked_at = 1 WHERE id = 'agent:bot'", "it was not revoked as the trail says"),
        ("DELETE FROM tokens WHERE id = 'agent:bot'", "the trail knows it, the database does not"),
        ("UPDATE asks SET deadline = 1 WHERE key = 'k1'", "it was not raised as the trail says"),
    ];
    let kept = fs::read(hub.home.join("aye.db")).unwrap();
    for (sql, why) in cases {
        fs::write(hub.home.join("aye.db"), &kept).unwrap();
        tamper(&hub, sql);
        is_found(&hub, why);
    }
}

#[test]
fn verify_says_when_config_toml_is_not_the_one_that_the_hub_read() {
    let mut hub = Hub::start();
    assert!(hub.stop().success());
    let said = |hub: &Hub| {
        let verified = hub.aye(&["verify"]);
        assert_eq!(code(&verified), Some(0), "{verified:?}");
        printed(&verified).contains("config.toml was changed since the hub last read it")
    };
    assert!(!said(&hub));
    fs::write(hub.home.join("config.toml"), "[policy]\nauto_approve = [\"Read\"]\n").unwrap();
    assert!(said(&hub));
    hub.restart();
    assert!(!said(&hub));
    // Broken or not, it is known which file was read; and so it is where nothing of it concerns the policy.
    for text in ["broken", "[projects]\nweb = \"/src/web\"\n"] {
        fs::write(hub.home.join("config.toml"), text).unwrap();
        crate::support::eventually("the hub to read it", || (!said(&hub)).then_some(()));
    }
}
