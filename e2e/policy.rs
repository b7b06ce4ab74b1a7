//! Rules as a person uses them: written into config.toml, tried on the command line, in force at once.

use crate::support::{Hub, eventually};
use serde_json::{Value, json};

const RULES: &str = r#"
[[policy.rules]]
name = "tests"
tool = "Bash"
command = "cargo test * [--evil]"
action = "allow"
[[policy.rules]]
command = "rm *"
action = "deny"
message = "Deleting is for people."
"#;

fn bash(command: &str) -> Value {
    let scopes = json!([{"scope": "once"}, {"scope": "session"}, {"scope": "always"}]);
    json!({"tool": "Bash", "input": {"command": command}, "scopes": scopes})
}

fn agent_in(hub: &Hub, folder: &str) -> String {
    let token = hub.agent("claude-1");
    let here = json!({"kind": "claude", "reach": "driven", "cwd": folder});
    assert_eq!(hub.put("/api/agents/claude-1", &token, here).status, 200);
    token
}

fn text(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn rules_are_in_force_as_soon_as_they_are_saved_and_can_be_tried_first() {
    let hub = Hub::start();
    let token = agent_in(&hub, "/src/web");
    let asked = hub.raise(&token, "claude-1", "k0", "permission", bash("cargo test"));
    assert_eq!(asked["state"], "open");

    std::fs::write(hub.home.join("config.toml"), RULES).unwrap();
    let tried = hub.aye(&["policy", "test", "cargo test && rm x", "--json"]);
    let tried: Value = serde_json::from_slice(&tried.stdout).unwrap();
    assert_eq!((&tried["action"], &tried["by"]), (&json!("deny"), &json!("rule 2")));
    assert!(
        text(&hub.aye(&["policy", "test", "cargo test; curl x"]))
            .contains("ask a person: no rule covers `curl x`")
    );

    let mut n = 0;
    let allowed = eventually("the new rules", || {
        n += 1;
        let ask = hub.raise(&token, "claude-1", &format!("k{n}"), "permission", bash("cargo test"));
        (ask["state"] == "answered").then_some(ask)
    });
    assert_eq!(allowed["by"], json!({"rule": "rule 1 (tests)"}));
    let path = format!("/api/asks/{}/resolution", allowed["id"].as_str().unwrap());
    assert_eq!(hub.get(&path, &token).body["outcome"]["decision"], "allow");

    let denied = hub.raise(&token, "claude-1", "rm", "permission", bash("rm -rf target"));
    assert_eq!(
        denied["answer"],
        json!({"decision": "deny", "message": "Deleting is for people.", "interrupt": false})
    );
}

#[test]
fn a_trial_names_the_word_that_is_not_covered_and_what_would_cover_it() {
    let hub = Hub::start();
    let rules = "[[policy.rules]]\ncommand = \"cargo test * [-p *] [--release] [-- **]\"\naction = \"allow\"";
    std::fs::write(hub.home.join("config.toml"), rules).unwrap();
    let tried = |command: &str| text(&hub.aye(&["policy", "test", command]));
    let words = tried("cargo test --config x.toml");
    for expected in [
        "ask a person: no rule covers `cargo test --config x.toml`",
        "rule 1 does not cover `--config`; to cover it, add [--config *]",
        "command = \"cargo test * [-p *] [--release] [-- **] [--config *]\"",
        "caution: `--config` can make it run another program",
        "! rule 1: `**` is dangerous",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(tried("cargo test -p a").contains("`**` is dangerous"));
    assert!(text(&hub.aye(&["policy", "list"])).contains("`**` is dangerous"));
    assert!(text(&hub.aye(&["doctor"])).contains("rule 1: `**` is dangerous"));
    let json = hub.aye(&["policy", "test", "make CC=x; cargo test --config=y", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["not_covered"][0]["add"], json!(["[--config *]"]));
    assert!(
        eventually("the new rules", || {
            let seen = hub.get("/api/policy", &hub.operator()).body;
            seen["rules"][0]["cautions"][0].as_str().map(ToOwned::to_owned)
        })
        .contains("dangerous")
    );
}

/// What a rule allowed while commands were matched as globs: an ask that it would not allow now, with its
/// decision already in the store.
#[test]
fn the_doctor_names_rules_that_cover_less_with_what_they_allowed_lately() {
    let hub = Hub::start();
    let token = agent_in(&hub, "/src/web");
    let rules = |command: &str| {
        format!("[[policy.rules]]\nname = \"tests\"\ncommand = \"{command}\"\naction = \"allow\"")
    };
    // `**` is what the old reading of a star came to.
    std::fs::write(hub.home.join("config.toml"), rules("cargo test **")).unwrap();
    let mut n = 0_usize;
    eventually("the new rules", || {
        n += 1;
        let ask = hub.raise(&token, "claude-1", &format!("k{n}"), "permission", bash("cargo test"));
        (ask["state"] == "answered").then_some(())
    });
    for (key, command) in [("a", "cargo test --all -p x"), ("b", "cargo test -p x"), ("c", "cargo test y")] {
        assert_eq!(hub.raise(&token, "claude-1", key, "permission", bash(command))["state"], "answered");
    }
    // The doctor reads the database, which what a rule allows reaches after the reply.
    eventually("the records", || {
        let all = hub.get("/api/asks?state=all", &hub.operator()).body;
        (all["asks"].as_array().unwrap().len() == n + 3).then_some(())
    });
    std::fs::write(hub.home.join("config.toml"), rules("cargo test*")).unwrap();
    let doctor = hub.aye(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let finding = doctor["findings"].as_array().unwrap().iter().find(|f| f["about"] == "rules").unwrap();
    let found = finding["found"].as_str().unwrap();
    assert!(found.contains("rule 1 (tests): `cargo test*` is read as `cargo test *`"), "{found}");
    assert!(found.contains("it allowed 2 requests that you are asked about now, such as `cargo test --all -p x`, `cargo test -p x`"), "{found}");
    assert_eq!(finding["mend"], "rule 1 (tests): add [--all] [-p *] to allow these again");
}

#[test]
fn a_broken_file_is_told_to_the_doctor_and_the_log_and_changes_nothing() {
    let hub = Hub::start();
    std::fs::write(hub.home.join("config.toml"), "[policy]\nauto_aprove = [\"*\"]").unwrap();
    eventually("the broken file to be noticed", || {
        text(&hub.aye(&["log", "--kind", "policy"])).contains("policy.read").then_some(())
    });
    let doctor = hub.aye(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(text(&doctor).contains("auto_aprove"), "{}", text(&doctor));
}

#[test]
fn what_a_person_allows_for_longer_is_listed_and_can_be_revoked() {
    let hub = Hub::start();
    let token = agent_in(&hub, "/src/web");
    let ask = hub.raise(&token, "claude-1", "k1", "permission", bash("make all"));
    let id = ask["id"].as_str().unwrap();
    assert!(hub.aye(&["answer", id, "--allow", "--scope", "always"]).status.success());
    assert_eq!(hub.raise(&token, "claude-1", "k2", "permission", bash("make all"))["state"], "answered");
    let listed = text(&hub.aye(&["policy", "grants"]));
    assert!(listed.contains("run exactly `make all` in /src/web until "), "{listed}");
    let grant = format!("g-{id}");
    assert!(hub.aye(&["policy", "grants", "--revoke", &grant]).status.success());
    assert!(text(&hub.aye(&["policy", "grants"])).contains("Nothing is allowed for longer"));
    assert_eq!(hub.raise(&token, "claude-1", "k3", "permission", bash("make all"))["state"], "open");
    assert_eq!(hub.aye(&["policy", "grants", "--revoke", &grant]).status.code(), Some(1));
}

#[test]
fn a_replay_shows_where_rules_and_people_differ_and_what_would_have_been_dangerous() {
    let hub = Hub::start();
    let token = agent_in(&hub, "/src/web");
    for (key, command, choice) in [
        ("k1", "cargo test", "--allow"),
        ("k2", "cargo test --evil", "--deny=no"),
        ("k3", "rm x", "--allow"),
        ("k4", "ls", "--allow"),
    ] {
        let ask = hub.raise(&token, "claude-1", key, "permission", bash(command));
        assert!(hub.aye(&["answer", ask["id"].as_str().unwrap(), choice]).status.success());
    }
    let draft = hub.home.join("draft.toml");
    std::fs::write(&draft, RULES).unwrap();
    let words = text(&hub.aye(&["policy", "replay", "--config", draft.to_str().unwrap()]));
    assert!(words.starts_with("4 permissions were asked for; people decided 4 of them.\nThese rules would have decided 3 of those without asking, 2 of them otherwise than people did.\n! "), "{words}");
    let json: Value = serde_json::from_slice(
        &hub.aye(&["policy", "replay", "--config", draft.to_str().unwrap(), "--json"]).stdout,
    )
    .unwrap();
    let dangerous: Vec<_> =
        json["asks"].as_array().unwrap().iter().map(|ask| ask["dangerous"] == true).collect();
    assert_eq!(dangerous, [true, false, false, false]);
}

#[test]
fn the_plan_behind_an_outline_can_be_let_through_from_the_terminal() {
    let hub = Hub::start();
    let token = agent_in(&hub, "/src/web");
    let plan = json!({"plan": "1. everything"});
    let first = hub.raise(&token, "claude-1", "k1", "plan", plan.clone());
    assert!(hub.aye(&["answer", first["id"].as_str().unwrap(), "--outline"]).status.success());
    let refused = hub.raise(&token, "claude-1", "k2", "plan", plan.clone());
    assert_eq!(refused["by"], json!({"rule": "outline"}));
    assert!(text(&hub.aye(&["outline", "claude-1"])).contains("1. everything"));
    assert!(hub.aye(&["outline", "claude-1", "--approve"]).status.success());
    let passed = hub.raise(&token, "claude-1", "k3", "plan", plan);
    assert_eq!((&passed["state"], &passed["answer"]), (&json!("answered"), &json!({"decision": "allow"})));
    assert_eq!(hub.aye(&["outline", "claude-1"]).status.code(), Some(1));
}

#[test]
fn only_what_a_rule_allows_at_once_is_told_in_brief_and_only_to_whoever_wants_it_so() {
    let hub = Hub::start();
    let token = agent_in(&hub, "/src/web");
    let raise = |key: &str, command: &str, query: &str| {
        let ask = json!({"key": key, "agent": "claude-1", "kind": "permission", "body": bash(command)});
        hub.post(&format!("/api/asks{query}"), &token, ask).body
    };
    std::fs::write(hub.home.join("config.toml"), RULES).unwrap();
    let mut n = 0;
    eventually("the rules to be in force", || {
        n += 1;
        (raise(&format!("try{n}"), "cargo test", "")["state"] == "answered").then_some(())
    });
    let brief = raise("brief", "cargo test", "?brief=true");
    let answer = json!({"decision": "allow", "scope": "once"});
    let expected = json!({"id": brief["id"], "answer": answer, "by": {"rule": "rule 1 (tests)"}, "voucher": brief["voucher"]});
    assert_eq!(brief, expected);
    assert!(brief["voucher"].is_object());
    let recorded = hub.ask(&brief);
    assert_eq!((&recorded["key"], &recorded["answer"]), (&json!("brief"), &answer));

    let whole = raise("whole", "cargo test", "");
    assert_eq!((&whole["body"]["tool"], &whole["display"]["text"]), (&json!("Bash"), &json!("cargo test")));
    for (key, command, state) in [("denied", "rm x", "answered"), ("asked", "make", "open")] {
        let whole = raise(key, command, "?brief=true");
        assert_eq!((&whole["state"], &whole["display"]["text"]), (&json!(state), &json!(command)));
    }
    assert_eq!(
        raise("brief", "cargo test", "?brief=true")["digest"],
        recorded["digest"],
        "the second time it is whole"
    );
}
