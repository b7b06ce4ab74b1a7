//! What takes a passkey, and everything that does not pass for one.

use super::policy::{decision, rule};
use super::*;
use crate::es256::PublicKey;
use crate::webauthn::{Assertion, Pages, PasskeyRegistration, Purpose, Site};
use aye_testkit::authenticator::Authenticator;
use aye_testkit::postgres::Cluster;

pub(super) const ORIGIN: &str = "http://localhost:7177";
pub(super) const EVERY_ALLOW: &str = "[policy]\nproof = \"passkey\"";
const PUSHES: &str = r#"
    [[policy.rules]]
    command = "git push*"
    action = "ask"
    proof = "passkey"
"#;

fn site() -> Site {
    Site { origin: ORIGIN.into(), rp: "localhost".into() }
}

pub(super) fn allow() -> Value {
    json!({ "decision": "allow", "scope": "once" })
}

/// What the page of a browser signs in with; here nothing is signed by it.
fn bring(code: &str) -> SignIn {
    let key = PublicKey::from_point(vec![4; 65]).unwrap();
    SignIn { code: code.to_owned(), key, origin: ORIGIN.to_owned() }
}

fn authenticator() -> Authenticator {
    Authenticator::new(ORIGIN, "localhost")
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Desk {
    pub(super) async fn on_a_page(policy: &str) -> Self {
        Self::with_policy(policy).await.serves_pages()
    }

    fn serves_pages(self) -> Self {
        self.hub.serves_pages(Pages::of(None, false, 7177));
        self
    }

    /// The session of a browser that followed a link.
    async fn follow(&self, code: String) -> String {
        let token = self.hub.sign_in(bring(&code)).await.unwrap();
        self.hub.credential(&token).await.unwrap().unwrap().id
    }

    pub(super) async fn with_passkey(policy: &str) -> (Self, Authenticator) {
        Self::on_a_page(policy).await.with_first_passkey().await
    }

    /// On SQLite also where the tests run on another database.
    pub(super) async fn on_sqlite_with_passkey(policy: &str, why: &str) -> (Self, Authenticator) {
        Self::on_sqlite_with_policy(policy, why).await.serves_pages().with_first_passkey().await
    }

    async fn with_first_passkey(self) -> (Self, Authenticator) {
        let session = self.follow(self.hub.first_passkey_code().await.unwrap()).await;
        let key = authenticator();
        let registration = self.registration(&key).await;
        self.add(registration, None, &session).await.unwrap();
        (self, key)
    }

    async fn challenge(&self, purpose: Purpose, subject: Value) -> Value {
        let challenge = self.hub.challenge(purpose, &subject, &site(), "caller").await.unwrap();
        serde_json::to_value(challenge).unwrap()
    }

    async fn registration(&self, key: &Authenticator) -> PasskeyRegistration {
        read(key.register(&self.challenge(Purpose::Register, json!({})).await))
    }

    async fn add(
        &self,
        registration: PasskeyRegistration,
        assertion: Option<Assertion>,
        session: &str,
    ) -> Result<PasskeyInfo, Problem> {
        let name = Text::try_from("laptop").unwrap();
        self.hub.add_passkey((registration, name), assertion, (session.into(), "ann".into())).await
    }

    /// Adds another, signed for by one that is there.
    async fn add_by(&self, by: &mut Authenticator, new: &Authenticator) -> Result<PasskeyInfo, Problem> {
        let registration = self.registration(new).await;
        let name = Text::try_from("laptop").unwrap();
        let (purpose, subject) = self.hub.subject_of_addition(&registration, &name).unwrap();
        let assertion = by.assert(&self.challenge(purpose, subject).await);
        self.add(registration, Some(read(assertion)), "another").await
    }

    async fn challenge_for(&self, ask: &Ask, answer: Value) -> Value {
        let (purpose, subject) = self.hub.subject_of_allow(&ask.id, &ask.digest, answer).await.unwrap();
        self.challenge(purpose, subject).await
    }

    async fn decide_with(&self, ask: &Ask, answer: Value, assertion: Value) -> Result<Ask, Problem> {
        let call = AnswerCall { answer, assertion: Some(read(assertion)), ..call(ask, "ann", "-", None) };
        self.hub.answer(call).await
    }

    pub(super) async fn allow_by(&self, key: &mut Authenticator, ask: &Ask) -> Result<Ask, Problem> {
        let assertion = key.assert(&self.challenge_for(ask, allow()).await);
        self.decide_with(ask, allow(), assertion).await
    }

    async fn remove_by(&self, key: &mut Authenticator, id: &str) -> Result<(), Problem> {
        let challenge = self.challenge(Purpose::RemovePasskey, json!({ "passkey": id })).await;
        let assertion = read(key.assert(&challenge));
        self.hub.remove_passkey(id.to_owned(), Some(assertion), "ann".into()).await
    }

    pub(super) fn verified(&self) -> Result<store::verify::Verified, store::verify::VerifyError> {
        let database = store::open_to_look(&Home::at(self.dir.path())).unwrap().unwrap();
        let against = store::verify::Against::in_home(&Home::at(self.dir.path())).unwrap();
        database.verify(&against, |_, _| {})
    }
}

#[track_caller]
pub(super) fn unproven<T: std::fmt::Debug>(result: Result<T, Problem>, words: &str) {
    match result.unwrap_err() {
        Problem::Unproven { why, page } => {
            assert!(why.contains(words), "{why:?} does not say {words:?}");
            assert!(page.starts_with(ORIGIN), "{page}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_passkey_is_added_at_one_hub_and_signs_at_another_what_a_third_asked_for_once() {
    let first = Desk::on_with(&Cluster::shared().new_database(), EVERY_ALLOW).await;
    let (second, third) = (first.beside().await, first.beside().await);
    for desk in [&first, &second, &third] {
        desk.hub.serves_pages(Pages::of(None, false, 7177));
    }
    let session = second.follow(first.hub.first_passkey_code().await.unwrap()).await;
    assert!(third.hub.may_add_first_passkey(&session).await.unwrap());
    let mut key = authenticator();
    let registration = first.registration(&key).await;
    third.add(registration, None, &session).await.unwrap();
    assert!(!second.hub.may_add_first_passkey(&session).await.unwrap());
    let (one, other) = (first.raise("a", None).await, first.raise("b", None).await);
    let assertion = key.assert(&first.challenge_for(&one, allow_plan()).await);
    second.decide_with(&one, allow_plan(), assertion.clone()).await.unwrap();
    unproven(third.decide_with(&other, allow_plan(), assertion).await, "Not allowed");
    for desk in [first, second, third] {
        desk.hub.close().await;
    }
}

fn allow_plan() -> Value {
    json!({ "decision": "allow" })
}

#[tokio::test]
async fn what_takes_a_passkey_is_allowed_by_its_signature_and_refused_without() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let ask = desk.run("k", "make").await;
    assert_eq!(serde_json::to_value(&ask).unwrap()["proof"], "passkey");
    unproven(desk.decide(&ask, allow()).await, &format!("{ORIGIN}/#/asks/{}", ask.id));
    assert_eq!(decision(&desk.allow_by(&mut key, &ask).await.unwrap()), "allow");

    let refused = desk.run("k2", "make").await;
    assert_eq!(decision(&desk.decide(&refused, denial("no")).await.unwrap()), "deny");
    let plan = desk.plan("k3", "1. x").await;
    unproven(desk.decide(&plan, json!({"decision": "allow"})).await, "passkey");
    assert_eq!(decision(&desk.decide(&plan, json!({"decision": "outline"})).await.unwrap()), "outline");
    assert_eq!(
        desk.trail().await.iter().filter(|kind| kind.starts_with("passkey")).collect::<Vec<_>>(),
        ["passkey.added", "passkey.used"]
    );
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_question_that_allows_something_takes_a_passkey_for_the_options_that_do() {
    for policy in [EVERY_ALLOW, PUSHES] {
        let (desk, mut key) = Desk::with_passkey(policy).await;
        let picked = |label: &str| json!({"answers": [{"selected": [label]}]});
        let options = json!([{"label": "Yes", "allows": true}, {"label": "No"}]);
        let body = json!({"questions": [{"question": "Leave plan mode?", "options": options}]});
        let first = desk.ask_for("k", Kind::Question, body.clone()).await;
        let second = desk.ask_for("k2", Kind::Question, body).await;
        assert_eq!(serde_json::to_value(&first).unwrap()["proof"], "passkey");
        unproven(desk.decide(&first, picked("Yes")).await, "passkey");
        assert_eq!(decision(&desk.decide(&second, picked("No")).await.unwrap()), "answered");
        let assertion = key.assert(&desk.challenge_for(&first, picked("Yes")).await);
        assert_eq!(decision(&desk.decide_with(&first, picked("Yes"), assertion).await.unwrap()), "answered");
        desk.verified().unwrap();
    }
}

#[tokio::test]
async fn a_signature_serves_once_for_one_ask_one_answer_and_one_purpose() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let (first, second) = (desk.run("a", "make").await, desk.run("b", "make").await);
    let other = "signed something else";

    let for_first = key.assert(&desk.challenge_for(&first, allow()).await);
    unproven(desk.decide_with(&second, allow(), for_first.clone()).await, other);
    // It was presented, and so it is used up, for its own ask too.
    unproven(desk.decide_with(&first, allow(), for_first).await, "used already");

    let once = key.assert(&desk.challenge_for(&first, allow()).await);
    unproven(desk.decide_with(&first, json!({"decision": "allow", "scope": "always"}), once).await, other);
    let plain = key.assert(&desk.challenge_for(&first, allow()).await);
    let edited = json!({"decision": "allow", "scope": "once", "input": {"command": "rm -r /"}});
    unproven(desk.decide_with(&first, edited, plain).await, other);

    let subject = json!({"ask": first.id, "digest": first.digest, "answer": allow()});
    for purpose in [Purpose::RemovePasskey, Purpose::AddPasskey, Purpose::ApprovePlan, Purpose::StartRun] {
        let assertion = key.assert(&desk.challenge(purpose, subject.clone()).await);
        unproven(desk.decide_with(&first, allow(), assertion).await, other);
    }
    let right = key.assert(&desk.challenge_for(&first, allow()).await);
    assert_eq!(decision(&desk.decide_with(&first, allow(), right.clone()).await.unwrap()), "allow");
    unproven(desk.decide_with(&second, allow(), right).await, "used already");
    assert!(desk.hub.ask(&second.id).await.unwrap().state.is_open());
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_signature_from_elsewhere_or_of_an_unverified_person_is_none() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let ask = desk.run("a", "make").await;
    for origin in
        ["http://localhost:7178", "https://localhost:7177", "http://127.0.0.1:7177", "http://evil", ""]
    {
        key.origin = origin.into();
        unproven(desk.allow_by(&mut key, &ask).await, "another page");
    }
    key.origin = ORIGIN.into();
    key.framed = true;
    unproven(desk.allow_by(&mut key, &ask).await, "another page");
    key.framed = false;
    key.rp = "evil".into();
    unproven(desk.allow_by(&mut key, &ask).await, "another site");
    key.rp = "localhost".into();
    key.verifies = false;
    unproven(desk.allow_by(&mut key, &ask).await, "did not verify");
    key.verifies = true;

    let mut stranger = authenticator();
    unproven(desk.allow_by(&mut stranger, &ask).await, "not registered");
    stranger.credential = key.credential.clone();
    unproven(desk.allow_by(&mut stranger, &ask).await, "not by that passkey");

    let challenge = desk.challenge_for(&ask, allow()).await;
    let mut made_up = key.assert(&json!({"nonce": "00", "challenge": challenge["challenge"]}));
    unproven(desk.decide_with(&ask, allow(), made_up.clone()).await, "used already, or is too old");
    made_up["nonce"] = challenge["nonce"].clone();
    made_up["authenticator_data"] = json!("AAAA");
    unproven(desk.decide_with(&ask, allow(), made_up).await, "cannot be read");
    assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
    assert!(!desk.trail().await.contains(&"passkey.used".to_owned()));
}

#[tokio::test]
async fn a_challenge_is_good_for_five_minutes_and_one_caller_pushes_out_only_its_own() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let ask = desk.run("a", "make").await;
    let old = key.assert(&desk.challenge_for(&ask, allow()).await);
    desk.advance(SignedDuration::from_mins(5));
    unproven(desk.decide_with(&ask, allow(), old).await, "too old");

    let first = key.assert(&desk.challenge_for(&ask, allow()).await);
    for _ in 0..200 {
        desk.hub.challenge(Purpose::Register, &json!({}), &site(), "flood").await.unwrap();
    }
    assert_eq!(decision(&desk.decide_with(&ask, allow(), first).await.unwrap()), "allow");
}

#[tokio::test]
async fn the_same_answer_sent_again_is_recognised_though_its_signature_is_used_up() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let ask = desk.run("a", "make").await;
    let assertion = key.assert(&desk.challenge_for(&ask, allow()).await);
    let call = AnswerCall {
        answer: allow(),
        assertion: Some(read(assertion)),
        ..call(&ask, "ann", "-", Some("press-1"))
    };
    let first = desk.hub.answer(call.clone()).await.unwrap();
    assert_eq!(desk.hub.answer(call).await.unwrap(), first);
}

#[tokio::test]
async fn the_stricter_of_then_and_now_counts() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let strict = desk.run("a", "make").await;
    desk.rewrite("").await;
    unproven(desk.decide(&strict, allow()).await, "passkey");
    let loose = desk.run("b", "git push").await;
    assert_eq!(decision(&desk.decide(&loose, allow()).await.unwrap()), "allow");
    let loose = desk.run("c", "git push").await;
    desk.rewrite(PUSHES).await;
    unproven(desk.decide(&loose, allow()).await, "passkey");
    desk.allow_by(&mut key, &strict).await.unwrap();
    desk.allow_by(&mut key, &loose).await.unwrap();
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_rule_is_not_passed_by_editing_by_granting_or_by_the_agents_own_memory() {
    let (desk, mut key) = Desk::with_passkey(PUSHES).await;
    let harmless = desk.run("a", "make").await;
    assert!(serde_json::to_value(&harmless).unwrap().get("proof").is_none());
    let edited = json!({"decision": "allow", "scope": "once", "input": {"command": "git push -f"}});
    unproven(desk.decide(&harmless, edited).await, "passkey");
    let body = json!({"tool": "Bash", "input": {"command": "git status"},
        "scopes": [{"scope": "once"}, {"scope": "session", "rule": "Bash(git *)", "kept_by": "agent"}]});
    let wide = desk.ask_for("b", Kind::Permission, body).await;
    unproven(desk.decide(&wide, json!({"decision": "allow", "scope": "session"})).await, "passkey");
    assert_eq!(decision(&desk.decide(&wide, allow()).await.unwrap()), "allow");
    assert_eq!(decision(&desk.decide(&harmless, allow()).await.unwrap()), "allow");

    let push = desk.run("c", "git push").await;
    let always = json!({"decision": "allow", "scope": "always"});
    let assertion = key.assert(&desk.challenge_for(&push, always.clone()).await);
    desk.decide_with(&push, always, assertion).await.unwrap();
    assert_eq!(decision(&desk.run("d", "git push").await), "open", "a rule that asks, asks each time");
}

#[tokio::test]
async fn a_grant_given_without_a_passkey_is_worth_nothing_where_one_is_needed() {
    let (desk, mut key) = Desk::with_passkey("").await;
    let always = || json!({"decision": "allow", "scope": "always"});
    desk.decide(&desk.run("a", "make").await, always()).await.unwrap();
    assert_eq!(decision(&desk.run("b", "make").await), "allow");
    desk.rewrite(EVERY_ALLOW).await;
    let ask = desk.run("c", "make").await;
    assert_eq!(decision(&ask), "open");
    let assertion = key.assert(&desk.challenge_for(&ask, always()).await);
    desk.decide_with(&ask, always(), assertion).await.unwrap();
    assert_eq!(decision(&desk.run("d", "make").await), "allow");
    desk.verified().unwrap();
}

#[tokio::test]
async fn the_first_passkey_needs_its_link_and_every_other_an_earlier_one() {
    let desk = Desk::on_a_page(EVERY_ALLOW).await;
    let (mut first, second) = (authenticator(), authenticator());
    let plain = desk.follow(desk.hub.sign_in_code().await.unwrap()).await;
    let refused = desk.add(desk.registration(&first).await, None, &plain).await;
    assert!(refused.unwrap_err().to_string().contains("aye passkey add"));
    let ask = desk.run("a", "make").await;
    unproven(desk.decide(&ask, allow()).await, "none is registered");

    let code = desk.hub.first_passkey_code().await.unwrap();
    let linked = desk.follow(code.clone()).await;
    assert!(desk.hub.sign_in(bring(&code)).await.is_err(), "a link works once");
    assert!(desk.hub.may_add_first_passkey(&linked).await.unwrap());
    let mut unverified = authenticator();
    unverified.verifies = false;
    unproven(desk.add(desk.registration(&unverified).await, None, &linked).await, "did not verify");
    let registration = desk.registration(&first).await;
    desk.add(registration.clone(), None, &linked).await.unwrap();
    unproven(desk.add(registration, None, &linked).await, "used already");
    // That link adds no other by itself, and there is no new one.
    assert!(!desk.hub.may_add_first_passkey(&linked).await.unwrap());
    unproven(desk.hub.first_passkey_code().await, "has to sign for another one");
    unproven(desk.add(desk.registration(&second).await, None, &linked).await, "passkey");
    // A signature for one new passkey adds no other.
    let other = authenticator();
    let (wanted, slipped) = (desk.registration(&second).await, desk.registration(&other).await);
    let name = Text::try_from("laptop").unwrap();
    let (purpose, subject) = desk.hub.subject_of_addition(&wanted, &name).unwrap();
    let assertion = first.assert(&desk.challenge(purpose, subject).await);
    unproven(desk.add(slipped, Some(read(assertion)), &linked).await, "signed something else");
    desk.add_by(&mut first, &second).await.unwrap();
    assert!(desk.add_by(&mut first, &second).await.unwrap_err().to_string().contains("registered already"));
    assert_eq!(desk.hub.passkeys().await.unwrap().len(), 2);
    desk.verified().unwrap();
}

#[tokio::test]
async fn the_right_to_add_the_first_passkey_ends_for_everybody_once_one_is_there() {
    let desk = Desk::on_a_page(EVERY_ALLOW).await;
    // One link that was followed and used, one that was followed, and one that lies about.
    let used = desk.follow(desk.hub.first_passkey_code().await.unwrap()).await;
    let followed = desk.follow(desk.hub.first_passkey_code().await.unwrap()).await;
    let unused = desk.hub.first_passkey_code().await.unwrap();
    let mut key = authenticator();
    let added = desk.add(desk.registration(&key).await, None, &used).await.unwrap();
    let late = desk.follow(unused).await;
    // Within the fifteen minutes there is none again: who wants to add one needs a new link.
    desk.remove_by(&mut key, &added.id).await.unwrap();
    for session in [&used, &followed, &late] {
        assert!(!desk.hub.may_add_first_passkey(session).await.unwrap());
        let refused = desk.add(desk.registration(&authenticator()).await, None, session).await;
        assert!(refused.unwrap_err().to_string().contains("aye passkey add"));
    }
    let anew = desk.follow(desk.hub.first_passkey_code().await.unwrap()).await;
    desk.add(desk.registration(&authenticator()).await, None, &anew).await.unwrap();
    desk.verified().unwrap();
}

#[tokio::test]
async fn of_many_who_may_add_the_first_passkey_at_once_one_does() {
    let desk = Desk::on_a_page(EVERY_ALLOW).await;
    let mut calls = Vec::new();
    for _ in 0..6 {
        let session = desk.follow(desk.hub.first_passkey_code().await.unwrap()).await;
        calls.push((desk.registration(&authenticator()).await, session));
    }
    let added = calls.iter().map(|(registration, session)| desk.add(registration.clone(), None, session));
    let added = futures_util::future::join_all(added).await;
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 1);
    assert_eq!(desk.hub.passkeys().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_link_that_waits_too_long_adds_nothing() {
    let desk = Desk::on_a_page("").await;
    let session = desk.follow(desk.hub.first_passkey_code().await.unwrap()).await;
    desk.advance(SignedDuration::from_mins(15));
    let refused = desk.add(desk.registration(&authenticator()).await, None, &session).await;
    assert!(refused.unwrap_err().to_string().contains("aye passkey add"));
}

#[tokio::test]
async fn a_passkey_is_removed_by_a_signature_and_then_allows_nothing() {
    let (desk, mut first) = Desk::with_passkey(EVERY_ALLOW).await;
    let first_id = desk.hub.passkeys().await.unwrap()[0].id.clone();
    let mut second = authenticator();
    let second_id = desk.add_by(&mut first, &second).await.unwrap().id;
    unproven(desk.hub.remove_passkey(first_id.clone(), None, "ann".into()).await, "passkey");
    // Signed for another one.
    let challenge = desk.challenge(Purpose::RemovePasskey, json!({ "passkey": second_id })).await;
    let assertion = Some(read(second.assert(&challenge)));
    unproven(desk.hub.remove_passkey(first_id.clone(), assertion, "ann".into()).await, "something else");
    desk.remove_by(&mut second, &first_id).await.unwrap();

    let ask = desk.run("a", "make").await;
    unproven(desk.allow_by(&mut first, &ask).await, "was removed");
    let third = authenticator();
    unproven(desk.add_by(&mut first, &third).await, "was removed");
    // The last one too, and from then on everything can only be refused.
    desk.remove_by(&mut second, &second_id).await.unwrap();
    unproven(desk.decide(&ask, allow()).await, "none is registered");
    assert_eq!(decision(&desk.decide(&ask, denial("no")).await.unwrap()), "deny");
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_counter_that_goes_back_is_noted_and_locks_nobody_out() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    key.counter = 10;
    desk.allow_by(&mut key, &desk.run("a", "make").await).await.unwrap();
    key.counter = 4;
    desk.allow_by(&mut key, &desk.run("b", "make").await).await.unwrap();
    let hints = desk.hub.inner.store.read(|db| {
        let mut hints = Vec::new();
        let filter = store::AuditFilter { kind: Some("passkey.used".into()), ..Default::default() };
        db.trail(&filter, |line| {
            hints.push(line.detail["counter_went_back"] == true);
            Ok::<_, StoreError>(())
        })?;
        Ok(hints)
    });
    assert_eq!(hints.await.unwrap(), [false, true]);
}

#[tokio::test]
async fn a_plan_approved_in_advance_takes_a_passkey_too() {
    let (desk, mut key) = Desk::with_passkey(EVERY_ALLOW).await;
    let first = desk.plan("a", "1. x").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    unproven(desk.preapprove(PlanApproval::Allow, &first).await, "passkey");
    let (purpose, subject) = desk.hub.subject_of_approval(&agent("agent"), &first.digest);
    let assertion = read(key.assert(&desk.challenge(purpose, subject).await));
    let by = (Text::try_from("ann").unwrap(), "ann".to_owned(), None);
    let (approval, digest) = (PlanApproval::Allow, first.digest.clone());
    desk.hub.approve_plan(agent("agent"), approval, digest, by, Some(assertion)).await.unwrap();
    let second = desk.plan("b", "1. x").await;
    assert_eq!((decision(&second), rule(&second)), ("allow", Some("approved in advance by ann")));
    desk.verified().unwrap();

    let third = desk.plan("c", "1. y").await;
    desk.decide(&third, json!({"decision": "outline"})).await.unwrap();
    desk.preapprove(PlanApproval::Deny, &third).await.unwrap();
}

#[tokio::test]
async fn a_plan_approved_without_a_passkey_does_not_pass_once_one_is_needed() {
    let (desk, _) = Desk::with_passkey("").await;
    let first = desk.plan("a", "1. x").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    desk.preapprove(PlanApproval::Allow, &first).await.unwrap();
    desk.rewrite(EVERY_ALLOW).await;
    assert_eq!(decision(&desk.plan("b", "1. x").await), "open");
}

#[tokio::test]
async fn a_run_that_asks_for_less_takes_a_passkey_for_exactly_that_run() {
    let policy = format!(
        "{PUSHES}\n[agents.claude]\nallow_bypass = true\ncommand = \"/no/such/agent\"\n[projects]\nroot = \"/\""
    );
    let (desk, mut key) = Desk::with_passkey(&policy).await;
    let folder = "/".to_owned();
    let run = |mode: Option<&str>, prompt: &str, assertion: Option<Value>| -> NewRun {
        read(json!({"cwd": folder, "prompt": prompt, "mode": mode, "assertion": assertion}))
    };
    for mode in ["bypassPermissions", "auto", "acceptEdits"] {
        unproven(desk.hub.start_run(run(Some(mode), "x", None), "ann".into()).await, "passkey");
    }
    let (purpose, subject) = desk.hub.subject_of_run(&run(Some("bypassPermissions"), "x", None));
    let challenge = desk.challenge(purpose, subject.clone()).await;
    let other = run(Some("bypassPermissions"), "y", Some(key.assert(&challenge)));
    unproven(desk.hub.start_run(other, "ann".into()).await, "something else");
    // With its signature it is launched; that there is no such agent is another matter.
    let assertion = key.assert(&desk.challenge(purpose, subject).await);
    let signed = run(Some("bypassPermissions"), "x", Some(assertion));
    for started in [signed, run(Some("plan"), "x", None), run(None, "x", None)] {
        let failed = desk.hub.start_run(started, "ann".into()).await.unwrap_err();
        assert!(!matches!(failed, Problem::Unproven { .. }), "{failed}");
    }
}

#[tokio::test]
async fn a_run_outside_of_the_projects_takes_a_passkey_for_that_folder() {
    let agent = "[agents.claude]\ncommand = \"/no/such/agent\"\n[projects]\nroot = \"/\"";
    let (desk, mut key) = Desk::with_passkey(&format!("{PUSHES}\n{agent}")).await;
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |folder: &std::path::Path, assertion: Option<Value>| -> NewRun {
        read(json!({"cwd": folder, "prompt": "x", "assertion": assertion}))
    };
    unproven(desk.hub.start_run(run(folder.path(), None), "ann".into()).await, "passkey");
    let (purpose, subject) = desk.hub.subject_of_run(&run(folder.path(), None));
    let signed = key.assert(&desk.challenge(purpose, subject.clone()).await);
    let elsewhere = desk.hub.start_run(run(other.path(), Some(signed)), "ann".into()).await;
    unproven(elsewhere, "something else");
    let signed = key.assert(&desk.challenge(purpose, subject).await);
    for started in [run(folder.path(), Some(signed)), run("/".as_ref(), None)] {
        let failed = desk.hub.start_run(started, "ann".into()).await.unwrap_err();
        assert!(!matches!(failed, Problem::Unproven { .. }), "{failed}");
    }
    // Where nothing takes a passkey, neither does a folder.
    desk.rewrite(agent).await;
    let failed = desk.hub.start_run(run(folder.path(), None), "ann".into()).await.unwrap_err();
    assert!(!matches!(failed, Problem::Unproven { .. }), "{failed}");
}

#[tokio::test]
async fn arguments_that_name_a_mode_make_a_run_one_that_asks_for_less() {
    let agent = "[agents.claude]\nargs = [\"--dangerously-skip-permissions\"]\n[projects]\nroot = \"/\"";
    let (desk, _) = Desk::with_passkey(&format!("{EVERY_ALLOW}\n{agent}")).await;
    let run: NewRun = read(json!({"cwd": "root", "prompt": "x"}));
    unproven(desk.hub.start_run(run, "ann".into()).await, "passkey");
}

#[tokio::test]
async fn a_passkey_that_only_the_database_has_signs_nothing() {
    let (desk, _) = Desk::on_sqlite_with_passkey(EVERY_ALLOW, BY_HAND).await;
    let mut forged = authenticator();
    let registered = forged.register(&json!({"nonce": "", "challenge": ""}));
    let data: crate::webauthn::Encoded = read(registered["authenticator_data"].clone());
    let own = data.0[55 + forged.credential.len()..].to_vec();
    let database = desk.database();
    let credential = forged.credential.clone();
    let forge = |sql: &str| database.execute(sql, (&credential, &own)).unwrap();
    forge(
        "INSERT INTO passkeys (id, credential, key, name, rp, counter, created_at, mac)
         SELECT 'evil', ?1, ?2, name, rp, 0, created_at, mac FROM passkeys",
    );
    let ask = desk.run("k", "make").await;
    unproven(desk.allow_by(&mut forged, &ask).await, "is not registered");
    assert_eq!(desk.hub.passkeys().await.unwrap().len(), 1);
    desk.is_found("passkey evil: ");
    database.execute("DELETE FROM passkeys WHERE id = 'evil'", []).unwrap();
    forge("UPDATE passkeys SET credential = ?1, key = ?2");
    unproven(desk.allow_by(&mut forged, &ask).await, "is not registered");
}

#[tokio::test]
async fn verify_compares_all_that_stands_of_a_passkey() {
    let (desk, mut key) = Desk::on_sqlite_with_passkey(EVERY_ALLOW, BY_HAND).await;
    let ask = desk.run("k", "make").await;
    desk.allow_by(&mut key, &ask).await.unwrap();
    desk.verified().unwrap();
    let database = desk.database();
    for (column, value) in [
        ("name", "'another'"),
        ("counter", "counter - 1"),
        ("counter", "counter + 1"),
        ("created_at", "created_at + 1"),
        ("used_at", "NULL"),
        ("used_at", "used_at + 1"),
        ("rp", "'elsewhere'"),
    ] {
        database.execute_batch(&format!("BEGIN; UPDATE passkeys SET {column} = {value}; COMMIT")).unwrap();
        desk.is_found("it is not the one that was added");
        let (name, rp) = ("laptop", "localhost");
        let put_back = match value {
            "counter - 1" => "counter = counter + 1".to_owned(),
            "counter + 1" => "counter = counter - 1".to_owned(),
            "created_at + 1" => "created_at = created_at - 1".to_owned(),
            _ => format!("name = '{name}', rp = '{rp}', used_at = created_at"),
        };
        database.execute_batch(&format!("UPDATE passkeys SET {put_back}")).unwrap();
        desk.verified().unwrap();
    }
}

#[tokio::test]
async fn passkeys_that_were_taken_from_the_database_make_no_room_for_a_first_one() {
    for change in [
        "UPDATE passkeys SET name = 'x'",
        "UPDATE passkeys SET removed_at = 1",
        "DELETE FROM passkeys",
        "DELETE FROM passkeys; UPDATE audit SET kind = 'x' WHERE kind = 'passkey.added'",
        "DELETE FROM passkeys; INSERT INTO audit VALUES (-5, 1, 'passkey.removed', 'x', NULL, NULL, '{}', '')",
        "DELETE FROM passkeys; UPDATE audit SET kind = 'passkey.removed' WHERE kind = 'agent.registered'",
    ] {
        let (desk, _) = Desk::on_sqlite_with_passkey(EVERY_ALLOW, BY_HAND).await;
        desk.run("k", "make").await;
        store::by_hand::change_rows(&desk.database(), change);
        let refused = desk.hub.first_passkey_code().await.unwrap_err().to_string();
        assert!(refused.contains("not by the hub"), "{change}: {refused}");
        let added = desk.add(desk.registration(&authenticator()).await, None, "anybody").await;
        assert!(added.unwrap_err().to_string().contains("not by the hub"), "{change}");
    }
}

#[tokio::test]
async fn a_database_from_before_the_first_passkey_makes_no_room_for_another_first_one() {
    let mut desk = Desk::on_sqlite_with_policy(EVERY_ALLOW, BY_HAND).await;
    let kept = store::by_hand::keep_rows(&desk.database());
    desk.run("k", "make").await;
    desk.hub.inner.store.close().await;
    kept.put_back(&desk.database());
    desk.hub = open(&desk.dir, &desk.clock).await;
    let refused = desk.hub.first_passkey_code().await.unwrap_err().to_string();
    assert!(refused.contains("not by the hub"), "{refused}");
}
