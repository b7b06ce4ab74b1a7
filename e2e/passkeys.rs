//! What takes a passkey, seen from everywhere that has none.

use crate::support::browser::Browser;
use crate::support::{Hub, path_of};
use aye_testkit::authenticator::Authenticator;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;

/// A hub under this policy, with an agent that asks.
struct Stage {
    hub: Hub,
    bot: String,
    _dir: tempfile::TempDir,
}

impl Stage {
    fn new(config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        let home: PathBuf = dir.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("config.toml"), config).unwrap();
        let hub = Hub::start_in(home);
        let bot = hub.agent("bot");
        Self { hub, bot, _dir: dir }
    }

    fn command(&self, key: &str, command: &str) -> Value {
        let body = json!({"tool": "Bash", "input": {"command": command}});
        self.hub.raise(&self.bot, "bot", key, "permission", body)
    }

    fn is_open(&self, ask: &Value) -> bool {
        self.hub.ask(ask)["state"] == "open"
    }
}

fn words(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

const EVERY_ALLOW: &str = "[policy]\nproof = \"passkey\"\n";

fn allow() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

#[test]
fn a_token_can_refuse_and_is_told_where_it_can_be_allowed() {
    let stage = Stage::new(EVERY_ALLOW);
    let ask = stage.command("k", "make");
    assert_eq!(ask["proof"], "passkey");
    let refused = stage.hub.answer(&ask, allow());
    let place = format!("http://{}/#/asks/{}", stage.hub.address, ask["id"].as_str().unwrap());
    assert_eq!((refused.status, &refused.body["proof"]), (403, &json!("passkey")));
    assert_eq!(refused.body["where"], place);
    assert!(refused.body["error"].as_str().unwrap().contains("aye passkey add"), "{}", refused.body);
    let denied = stage.hub.answer(&ask, json!({"decision": "deny", "interrupt": false}));
    assert_eq!((denied.status, &denied.body["state"]), (200, &json!("answered")));
    // Questions allow nothing, so they take none.
    let question = stage.hub.raise(&stage.bot, "bot", "q", "question", crate::support::yes_or_no());
    assert!(question.get("proof").is_none());
    assert_eq!(stage.hub.answer(&question, crate::support::saying("yes")).status, 200);
}

#[test]
fn the_websocket_can_refuse_and_is_told_where_it_can_be_allowed() {
    let stage = Stage::new(EVERY_ALLOW);
    let ask = stage.command("k", "make");
    let mut follower = stage.hub.follow("", &stage.hub.operator());
    follower.next();
    let frame = |answer: Value| json!({"type": "answer", "id": ask["id"], "answer": answer, "digest": ask["digest"], "key": "k"});
    let refused = follower.say(frame(allow()));
    assert_eq!((&refused["status"], &refused["proof"]), (&json!(403), &json!("passkey")), "{refused}");
    assert!(refused["where"].as_str().unwrap().contains("/#/asks/"), "{refused}");
    assert!(stage.is_open(&ask));
    assert_eq!(follower.say(frame(json!({"decision": "deny", "interrupt": false})))["status"], 200);
}

#[test]
fn the_terminal_can_refuse_and_says_where_it_can_be_allowed() {
    let stage = Stage::new(EVERY_ALLOW);
    let ask = stage.command("k", "make");
    let id = ask["id"].as_str().unwrap();
    let refused = stage.hub.aye(&["answer", id, "--allow"]);
    assert!(!refused.status.success());
    assert!(words(&refused).contains("aye passkey add"), "{}", words(&refused));
    assert!(stage.is_open(&ask));
    assert!(words(&stage.hub.aye(&["show", id])).contains("passkey"));
    assert!(stage.hub.aye(&["answer", id, "--deny", "no"]).status.success());
    assert!(!stage.is_open(&ask));
}

#[test]
fn an_assertion_that_is_made_up_is_refused_whatever_it_looks_like() {
    let stage = Stage::new(EVERY_ALLOW);
    let ask = stage.command("k", "make");
    let made_up = json!({"nonce": "00", "credential": "AA", "authenticator_data": "AA", "client_data": "AA", "signature": "AA"});
    for (assertion, status) in [(made_up, 403), (json!({}), 422), (json!("x"), 422), (Value::Null, 403)] {
        let call = json!({"answer": allow(), "digest": ask["digest"], "assertion": assertion});
        let refused = stage.hub.post(&path_of(&ask, "/answer"), &stage.hub.operator(), call);
        assert_eq!(refused.status, status, "{}", refused.body);
    }
    assert!(stage.is_open(&ask));
}

#[test]
fn the_link_for_the_first_passkey_is_given_over_the_unix_socket_alone() {
    let stage = Stage::new("");
    let (hub, operator) = (&stage.hub, stage.hub.token("operator"));
    let refused = hub.post("/api/passkeys/link", &operator, json!({}));
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body["error"].as_str().unwrap().contains("aye passkey add"));
    assert_eq!(hub.call_unix("POST", "/api/passkeys/link", &hub.token("viewer"), json!({})).status, 403);
    assert_eq!(hub.call_unix("POST", "/api/passkeys/link", &stage.bot, json!({})).status, 403);
    let printed = words(&hub.aye(&["passkey", "add"]));
    assert!(printed.starts_with(&format!("http://{}/sign-in#", hub.address)), "{printed}");
    assert!(words(&hub.aye(&["passkey", "list"])).contains("There are none"));
    let challenge = hub.post("/api/passkeys/challenge", &operator, json!({"purpose": "register"}));
    assert_eq!((challenge.status, &challenge.body["rp"]), (201, &json!("localhost")));
    // An operator's token alone adds nothing, with whatever key.
    let origin = format!("http://{}", hub.address);
    let key = Authenticator::new(&origin, "localhost");
    let new = json!({"name": "mine", "registration": key.register(&challenge.body)});
    let refused = hub.post("/api/passkeys", &operator, new);
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(hub.get("/api/passkeys", &operator).body["passkeys"].as_array().unwrap().is_empty());
}

#[test]
fn a_page_at_an_address_is_told_to_go_by_its_name() {
    let stage = Stage::new("");
    let port = stage.hub.address.rsplit_once(':').unwrap().1;
    let host = format!("127.0.0.1:{port}");
    let bearer = format!("Bearer {}", stage.hub.operator());
    let origin = format!("http://{host}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Host", host.as_str()),
        ("Origin", origin.as_str()),
    ];
    let body = json!({"purpose": "register"}).to_string();
    let refused = stage.hub.call("POST", "/api/passkeys/challenge", &headers, Some(body.as_bytes()));
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body["error"].as_str().unwrap().contains("http://localhost:"), "{}", refused.body);
}

#[test]
fn a_run_that_asks_for_less_and_a_plan_in_advance_are_refused_to_a_token() {
    let config = format!("{EVERY_ALLOW}[agents.claude]\nallow_bypass = true\ncommand = \"/no/such/agent\"\n");
    let stage = Stage::new(&config);
    let run = json!({"cwd": "/", "prompt": "x", "mode": "bypassPermissions"});
    let refused = stage.hub.post("/api/agents", &stage.hub.operator(), run);
    assert_eq!((refused.status, &refused.body["proof"]), (403, &json!("passkey")), "{}", refused.body);
    let plan = stage.hub.raise(&stage.bot, "bot", "p", "plan", json!({"plan": "1. x"}));
    assert_eq!(stage.hub.answer(&plan, json!({"decision": "outline"})).status, 200);
    let approval = |decision: &str| {
        let body = json!({"decision": decision, "digest": plan["digest"]});
        stage.hub.post("/api/agents/bot/plan-approval", &stage.hub.operator(), body)
    };
    let refused = approval("allow");
    assert_eq!((refused.status, &refused.body["proof"]), (403, &json!("passkey")), "{}", refused.body);
    assert_eq!(approval("deny").status, 200);
}

/// A browser that followed the link of `aye passkey add`.
struct Visitor<'a> {
    hub: &'a Hub,
    browser: Browser,
    token: String,
}

impl<'a> Visitor<'a> {
    fn new(hub: &'a Hub) -> Self {
        let link = words(&hub.aye(&["passkey", "add"]));
        let browser = hub.browser_by(link.trim()).unwrap_or_else(|reply| panic!("{}", reply.body));
        let token = hub.page_token(&browser);
        Self { hub, browser, token }
    }

    fn post(&self, path: &str, body: Value) -> crate::support::Reply {
        let headers = [
            ("Cookie", &*self.browser.cookie),
            ("Origin", &*self.browser.origin),
            ("Aye-Page", &*self.token),
            ("Content-Type", "application/json"),
        ];
        self.hub.call("POST", path, &headers, Some(body.to_string().as_bytes()))
    }

    fn challenge(&self, wanted: Value) -> Value {
        let given = self.post("/api/passkeys/challenge", wanted);
        assert_eq!(given.status, 201, "{}", given.body);
        given.body
    }
}

#[test]
fn a_passkey_is_added_by_its_link_allows_by_its_signature_and_verify_checks_both() {
    let stage = Stage::new(EVERY_ALLOW);
    let visitor = Visitor::new(&stage.hub);
    let mut key = Authenticator::new(&visitor.browser.origin, "localhost");
    let register = || visitor.challenge(json!({"purpose": "register"}));
    let new = |key: &Authenticator| json!({"name": "laptop", "registration": key.register(&register())});
    let added = visitor.post("/api/passkeys", new(&key));
    assert_eq!(added.status, 201, "{}", added.body);
    // The same link adds no second by itself, and there is no new one.
    let second = Authenticator::new(&visitor.browser.origin, "localhost");
    let refused = visitor.post("/api/passkeys", new(&second));
    assert_eq!((refused.status, &refused.body["proof"]), (403, &json!("passkey")), "{}", refused.body);
    let refused = stage.hub.aye(&["passkey", "add"]);
    assert!(!refused.status.success() && words(&refused).contains("/#/passkeys"), "{}", words(&refused));
    let removal = format!("/api/passkeys/{}/remove", added.body["id"].as_str().unwrap());
    assert_eq!(visitor.post(&removal, json!({})).status, 403);
    let refused = stage.hub.aye(&["passkey", "remove", added.body["id"].as_str().unwrap()]);
    assert!(!refused.status.success() && words(&refused).contains("/#/passkeys"), "{}", words(&refused));

    let ask = stage.command("k", "make");
    let wanted = json!({"purpose": "allow", "ask": ask["id"], "digest": ask["digest"], "answer": allow()});
    let assertion = key.assert(&visitor.challenge(wanted));
    let call = json!({"answer": allow(), "digest": ask["digest"], "assertion": assertion});
    // Who sends it does not matter: the signature is over exactly this.
    let allowed = stage.hub.post(&path_of(&ask, "/answer"), &stage.hub.operator(), call);
    assert_eq!(allowed.status, 200, "{}", allowed.body);
    assert!(words(&stage.hub.aye(&["passkey", "list"])).contains("laptop"));
    assert!(stage.hub.aye(&["verify"]).status.success());

    // Somebody who can write the database gives themselves a passkey.
    let database = rusqlite::Connection::open(stage.hub.home.join("aye.db")).unwrap();
    database
        .execute(
            "INSERT INTO passkeys (id, credential, key, name, rp, counter, created_at)
             SELECT 'mine', x'00', key, 'mine', rp, 0, 0 FROM passkeys",
            [],
        )
        .unwrap();
    let found = stage.hub.aye(&["verify"]);
    assert!(!found.status.success() && words(&found).contains("passkey mine"), "{}", words(&found));
}

#[test]
fn the_doctor_says_that_a_passkey_is_needed_and_missing() {
    let doctor = |config: &str| words(&Stage::new(config).hub.aye(&["doctor"]));
    let missing = doctor(EVERY_ALLOW);
    assert!(missing.contains("can only be refused") && missing.contains("aye passkey add"), "{missing}");
    let by_rule =
        doctor("[[policy.rules]]\ncommand = \"git push*\"\naction = \"ask\"\nproof = \"passkey\"\n");
    assert!(by_rule.contains("can only be refused"), "{by_rule}");
    assert!(!doctor("").contains("can only be refused"));
}

#[test]
fn the_doctor_says_what_a_file_that_is_broken_at_the_start_means() {
    let mut stage = Stage::new(EVERY_ALLOW);
    std::fs::write(stage.hub.home.join("config.toml"), "[policy").unwrap();
    stage.hub.stop();
    stage.hub.restart();
    let said = words(&stage.hub.aye(&["doctor"]));
    assert!(said.contains("allowing takes a passkey") && !said.contains("stays in force"), "{said}");
    let refused = stage.hub.answer(&stage.command("k", "make"), allow());
    assert_eq!((refused.status, &refused.body["proof"]), (403, &json!("passkey")), "{}", refused.body);
}
