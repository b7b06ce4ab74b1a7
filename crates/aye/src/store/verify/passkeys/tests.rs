use super::*;
use aye_testkit::authenticator::Authenticator;
use jiff::Timestamp;

const SITE: (&str, &str) = ("http://localhost:7177", "localhost");

/// The lines of a request that was allowed by the one passkey there is.
struct Story {
    key: Authenticator,
    lines: Vec<Line>,
}

fn line(kind: &str, detail: Value) -> Line {
    let (agent, ask) = (Some("agent".to_owned()), Some("k1".to_owned()));
    let (at, kind, who) = (Timestamp::UNIX_EPOCH, kind.to_owned(), "ann".to_owned());
    Line { seq: 1, at, kind, who, agent, ask, detail }
}

impl Story {
    fn new() -> Self {
        let (key, lines) = (Authenticator::new(SITE.0, SITE.1), Vec::new());
        let mut story = Self { key, lines };
        story.lines.push(added("p1", &story.key));
        story.lines.push(line("ask.raised", json!({"proof": "passkey"})));
        story.sign("p1", "allow", subject("once"), "n1");
        story.lines.push(answered("once"));
        story
    }

    fn sign(&mut self, passkey: &str, purpose: &str, subject: Value, nonce: &str) {
        let purpose_read = serde_json::from_value(json!(purpose)).unwrap();
        let statement = Statement { purpose: purpose_read, nonce, subject: &subject };
        let assertion = self.key.assert(&json!({"nonce": nonce, "challenge": statement.challenge()}));
        let detail =
            json!({"passkey": passkey, "purpose": purpose, "subject": subject, "assertion": assertion});
        self.lines.push(line("passkey.used", detail));
    }

    fn check(&self) -> Result<(), &'static str> {
        let mut passkeys = Passkeys::default();
        self.lines.iter().try_for_each(|line| passkeys.follow(line))
    }
}

fn added(id: &str, key: &Authenticator) -> Line {
    let registered = key.register(&json!({"nonce": "", "challenge": ""}));
    let data = Encoded::try_from(registered["authenticator_data"].as_str().unwrap().to_owned()).unwrap();
    let key_bytes = Encoded(data.0[55 + key.credential.len()..].to_vec());
    let credential = Encoded(key.credential.clone());
    let detail = json!({"passkey": id, "name": id, "credential": credential, "key": key_bytes, "rp": SITE.1});
    line("passkey.added", detail)
}

fn subject(scope: &str) -> Value {
    json!({"ask": "k1", "digest": "sha256:0", "answer": {"decision": "allow", "scope": scope}})
}

fn answered(scope: &str) -> Line {
    let answer = json!({"decision": "allow", "scope": scope});
    line(
        "ask.answered",
        json!({"digest": "sha256:0", "answer": answer, "by": {"name": "ann", "surface": "web"}}),
    )
}

#[test]
fn what_was_signed_for_is_found_good_again() {
    assert_eq!(Story::new().check(), Ok(()));
}

#[test]
fn an_allow_without_its_signature_is_found() {
    let found = Err("it was allowed without the passkey that it takes");
    let mut story = Story::new();
    story.lines.remove(2);
    assert_eq!(story.check(), found);
    let mut story = Story::new();
    story.lines[3] = answered("always");
    assert_eq!(story.check(), found);
    // One signature does not count twice.
    let mut story = Story::new();
    story.lines.push(answered("once"));
    assert_eq!(story.check(), found);
    let mut story = Story::new();
    story.lines[3].detail["by"] = json!({"rule": "rule 1"});
    assert_eq!(story.check(), found);
    // A question that allowed something, and one that did not.
    let mut story = Story::new();
    let picked = json!({"answers": [{"selected": ["Yes"]}]});
    story.lines[3].detail["answer"] = picked;
    assert_eq!(story.check(), Ok(()));
    story.lines[3].detail["allows"] = json!(true);
    assert_eq!(story.check(), found);
}

#[test]
fn a_signature_that_was_changed_repeated_or_made_by_another_is_found() {
    let mut story = Story::new();
    story.lines[2].detail["subject"]["answer"]["scope"] = json!("always");
    assert_eq!(story.check(), Err("a signature in the trail is not good"));
    let mut story = Story::new();
    story.lines[2].detail["purpose"] = json!("start_run");
    assert_eq!(story.check(), Err("a signature in the trail is not good"));
    let mut story = Story::new();
    story.lines.push(story.lines[2].clone());
    assert_eq!(story.check(), Err("a signature is in the trail twice"));
    let mut story = Story::new();
    story.lines[0] = added("p1", &Authenticator::new(SITE.0, SITE.1));
    assert_eq!(story.check(), Err("a signature is by a passkey that was not registered then"));
    let mut story = Story::new();
    story.lines.remove(0);
    assert_eq!(story.check(), Err("a signature is by a passkey that was not registered then"));
}

#[test]
fn a_passkey_that_came_or_went_without_a_signature_is_found() {
    let other = Authenticator::new(SITE.0, SITE.1);
    let mut story = Story::new();
    story.lines.push(added("p2", &other));
    assert_eq!(story.check(), Err("a passkey was added without the signature of another"));
    let mut story = Story::new();
    story.lines.push(line("passkey.removed", json!({"passkey": "p1"})));
    assert_eq!(story.check(), Err("a passkey was removed without a signature"));
    let mut story = Story::new();
    story.sign("p1", "remove_passkey", json!({"passkey": "p1"}), "n2");
    story.lines.push(line("passkey.removed", json!({"passkey": "p1"})));
    assert_eq!(story.check(), Ok(()));
    story.sign("p1", "allow", subject("once"), "n3");
    assert_eq!(story.check(), Err("a signature is by a passkey that was not registered then"));
}

#[test]
fn a_run_and_a_plan_say_whether_they_were_signed_for() {
    for (kind, detail, found) in [
        (
            "plan.approved",
            json!({"proof": "passkey", "digest": "d", "any_next": false}),
            "a plan was approved in advance without the passkey that it takes",
        ),
        (
            "agent.started",
            json!({"proof": "passkey", "run": {"prompt": "x"}}),
            "a run was started without the passkey that it takes",
        ),
    ] {
        let mut story = Story::new();
        story.lines.push(line(kind, detail));
        assert_eq!(story.check(), Err(found));
    }
}
