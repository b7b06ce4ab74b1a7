//! A home on SQLite that is copied to PostgreSQL, and goes on there.

use super::passkeys::allow;
use super::*;
use aye_testkit::authenticator::Authenticator;
use aye_testkit::postgres::Cluster;
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::{CopyError, Step};

const PUSHES: &str = "[[policy.rules]]\ncommand = \"git push*\"\naction = \"ask\"\nproof = \"passkey\"\n";

/// Everything that a home can hold, and what must work after it has moved.
struct Full {
    desk: Desk,
    key: Authenticator,
    open: Ask,
    push: Ask,
    held: Ask,
    secret: Ask,
    viewer: String,
    revoked: String,
    session: String,
}

impl Full {
    async fn new() -> Self {
        let (desk, key) = Desk::with_passkey(PUSHES).await;
        let (open, answered) = (desk.raise("open", None).await, desk.raise("answered", None).await);
        desk.answer(&answered, "no \u{2028} \u{202e} 'quoted' \\N \\. \t").await.unwrap();
        let granted = desk.run("granted", "make").await;
        let always = json!({"decision": "allow", "scope": "always"});
        desk.decide(&granted, always).await.unwrap();
        let push = desk.run("push", "git push").await;
        let secret = desk.asks_for_a_secret().await;
        desk.tells(&secret, "hunter2").await.unwrap();
        let driven = Registration {
            reach: Some(aye_core::Reach::Driven),
            pid: Some(std::process::id()),
            ..Registration::default()
        };
        desk.hub.register(agent("a"), driven).await.unwrap();
        let said = |i| json!({"type": "text", "id": format!("{i}"), "text": "word ".repeat(200)});
        for part in 0..3 {
            let events = (part * 500..(part + 1) * 500).map(said).collect();
            desk.say_numbered(part + 1, events, Vec::new()).await;
        }
        let memo = Memo { kind: "note", key: "a".into(), body: Some(json!({"x": 2})) };
        let stop = desk.hub.command_and_remember(
            agent("a"),
            Command::Stop,
            "ann".into(),
            Surface::Telegram,
            vec![memo],
        );
        stop.await.unwrap();
        let name = || Text::try_from("bob").unwrap();
        let viewer = desk.hub.create_token(aye_core::Role::Viewer, name(), "test").await.unwrap();
        let revoked = desk.hub.create_token(aye_core::Role::Viewer, name(), "test").await.unwrap();
        let id = desk.hub.credential(&revoked).await.unwrap().unwrap().id;
        desk.hub.revoke_token(&id, "test").await.unwrap();
        let (session, _) = desk.signed_in().await;
        let plan = desk.plan("plan", "1. x").await;
        desk.decide(&plan, json!({"decision": "outline"})).await.unwrap();
        let held = desk.plan("held", "2. y").await;
        assert!(desk.hub.agent("agent").await.unwrap().outline.is_some());
        desk.hub.close().await;
        Self { desk, key, open, push, held, secret, viewer, revoked, session }
    }

    fn home(&self) -> Home {
        Home::at(self.desk.dir.path())
    }

    /// Copies on a thread of its own, as a command does it, and breaks off when `step` panics.
    fn copy(&self, url: &str, step: impl FnMut(Step) + Send) -> Result<store::Copied, CopyError> {
        let home = self.home();
        let copied = std::thread::scope(|scope| scope.spawn(|| store::copy(&home, url, None, step)).join());
        copied.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Cuts the copy off at this step; how many there were if it was not reached.
    fn cut_off(&self, url: &str, at: usize) -> Result<(), usize> {
        let mut steps = 0;
        let count = |_| {
            steps += 1;
            assert!(steps != at, "cut off");
        };
        match catch_unwind(AssertUnwindSafe(|| self.copy(url, count))) {
            Ok(copied) => {
                copied.unwrap();
                Err(steps)
            }
            Err(_) => Ok(()),
        }
    }

    fn refused(&self, url: &str) -> String {
        self.copy(url, |_| {}).err().unwrap().to_string()
    }

    /// The hub goes on with the copy, and everything is there.
    async fn goes_on_at(mut self, url: &str) {
        std::fs::write(self.home().config(), format!("{PUSHES}[store]\nurl = \"{url}\"\n")).unwrap();
        self.desk.hub = open(&self.desk.dir, &self.desk.clock).await;
        let desk = &self.desk;
        desk.hub.serves_pages(crate::webauthn::Pages::of(None, false, 7177));
        assert_eq!(desk.hub.inner.store.doubt(), None);
        desk.preapprove(PlanApproval::Allow, &self.held).await.unwrap();
        assert_eq!(super::policy::decision(&desk.plan("approved", "2. y").await), "allow");
        assert_eq!(desk.answer(&self.open, "no").await.unwrap().state.name(), "answered");
        assert_eq!(desk.hub.raise(raise("agent", "open", "1. x", None)).await.unwrap().ask.id, self.open.id);
        assert_eq!(desk.agent_hears(&self.secret).await["answers"][0], json!({"text": "hunter2"}));
        assert_eq!(super::policy::decision(&desk.run("again", "make").await), "allow");
        assert!(desk.decide(&self.push, allow()).await.is_err());
        assert_eq!(
            super::policy::decision(&desk.allow_by(&mut self.key, &self.push).await.unwrap()),
            "allow"
        );
        let operator = self.home().read_operator_token().unwrap().unwrap();
        for (token, counts) in
            [(&operator, true), (&self.viewer, true), (&self.session, true), (&self.revoked, false)]
        {
            assert_eq!(desk.hub.credential(token).await.unwrap().is_some(), counts);
        }
        assert_eq!(desk.events(EventPage::After(0)).await.len(), 1000);
        assert_eq!(desk.hub.commands(&agent("a"), 0, Duration::ZERO).await.unwrap().len(), 1);
        assert_eq!(
            desk.hub.recall(Surface::Telegram, "note").await.unwrap(),
            [("a".into(), json!({"x": 2}))]
        );
        assert_eq!(desk.hub.agent_around(this_process(std::process::id())).await.unwrap(), Some(agent("a")));
        desk.hub.inner.store.catch_up().await.unwrap();
        desk.verified().unwrap();
        desk.hub.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_home_moves_with_everything_and_both_sides_verify() {
    let full = Full::new().await;
    let url = Cluster::shared().new_database();
    let before = full.desk.verified().unwrap();
    let bytes = std::fs::read(full.home().database()).unwrap();
    assert_eq!(full.copy(&url, |_| {}).unwrap().verified, before);
    assert!(std::fs::read(full.home().database()).unwrap() == bytes, "aye.db was changed");
    assert_eq!(full.desk.verified().unwrap(), before);
    let refused = full.refused(&url);
    assert!(refused.ends_with("it holds a finished copy of this home already"), "{refused}");
    full.goes_on_at(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_copy_that_is_cut_off_anywhere_goes_on_and_no_hub_uses_it_before_it_is_whole() {
    let full = Full::new().await;
    let url = Cluster::shared().new_database();
    let steps = full.cut_off(&url, usize::MAX).unwrap_err();
    let url = Cluster::shared().new_database();
    let name = url.split(['/', '?']).nth(3).unwrap();
    let is_begun = || Cluster::shared().sql(name, "SELECT to_regclass('copy_of') IS NOT NULL") == "t";
    let mut at = 1;
    while full.cut_off(&url, at).is_ok() {
        at += 1 + at / 8;
        assert!(at <= 2 * steps);
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (full.home(), Home::at(home.path()));
        std::fs::copy(from.chain_key_file(), to.chain_key_file()).unwrap();
        std::fs::write(to.config(), format!("[store]\nurl = \"{url}\"\n")).unwrap();
        if !is_begun() {
            continue;
        }
        let refused = Hub::open(&to, full.desk.clock.clone()).await.err().unwrap().to_string();
        let looked = store::open_to_look(&to).err().unwrap().to_string();
        for refused in [refused, looked] {
            assert!(refused.contains("a copy into it was cut off"), "{refused}");
        }
    }
    full.goes_on_at(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_home_that_was_used_after_its_copy_was_cut_off_is_copied_anew() {
    let mut full = Full::new().await;
    let url = Cluster::shared().new_database();
    let mut is_copying = 0;
    let cut = |step: Step| {
        is_copying += usize::from(step.doing == store::Doing::Copying && step.what == "conversations");
        assert!(is_copying < 2, "cut off");
    };
    catch_unwind(AssertUnwindSafe(|| full.copy(&url, cut))).err().unwrap();
    full.desk.hub = open(&full.desk.dir, &full.desk.clock).await;
    let more = full.desk.hub.raise(raise("other", "more", "1. x", None)).await.unwrap().ask;
    full.desk.answer(&more, "no").await.unwrap();
    full.desk.hub.close().await;
    let before = full.desk.verified().unwrap();
    assert_eq!(full.copy(&url, |_| {}).unwrap().verified, before);
    full.goes_on_at(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_target_that_holds_anything_else_and_a_home_that_is_not_whole_are_refused() {
    let cluster = Cluster::shared();
    let full = Full::new().await;
    let name = |url: &str| url.split(['/', '?']).nth(3).unwrap().to_owned();
    let (strange, used, begun) = (cluster.new_database(), cluster.new_database(), cluster.new_database());
    cluster.sql(&name(&strange), "CREATE TABLE somebody_elses (x INT)");
    let refused = full.refused(&strange);
    assert!(refused.ends_with("it holds something else: aye wants a database of its own"), "{refused}");
    let other = Desk::on(&used).await;
    let refused = full.refused(&used);
    assert!(refused.ends_with("a hub has used it already: a copy wants an empty database"), "{refused}");
    other.hub.close().await;
    full.cut_off(&begun, 30).unwrap();
    let another = Full::new().await;
    let refused = another.refused(&begun);
    assert!(refused.ends_with("it holds an unfinished copy of another home"), "{refused}");
    let rest = cluster.new_database();
    store::by_hand::change_rows(
        &store::by_hand::open(&another.home()),
        "UPDATE tokens SET role = 'operator' WHERE role = 'viewer'",
    );
    let refused = another.refused(&rest);
    assert!(refused.contains("is not copied, because it is not as the hub left it: token "), "{refused}");
    std::fs::remove_file(another.home().chain_key_file()).unwrap();
    let refused = another.refused(&rest);
    assert!(refused.contains("chain.key: put it back, or start the hub once"), "{refused}");
    std::fs::remove_file(another.home().database()).unwrap();
    let refused = another.refused(&rest);
    assert!(refused.ends_with("aye.db: nothing to copy"), "{refused}");
    assert_eq!(cluster.sql(&name(&rest), "SELECT count(*) FROM pg_class WHERE relname = 'audit'"), "0");
}
