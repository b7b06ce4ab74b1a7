//! What is decided without a person, and what ends because nobody is there.

use super::*;
use aye_core::{Role, Scope};

impl Desk {
    pub(super) async fn with_policy(text: &str) -> Self {
        Self::in_home_with_policy(new_home(), text).await
    }

    /// On SQLite also where the tests run on another database.
    pub(super) async fn on_sqlite_with_policy(text: &str, why: &str) -> Self {
        Self::in_home_with_policy(new_home_on_sqlite(why), text).await
    }

    async fn in_home_with_policy(dir: tempfile::TempDir, text: &str) -> Self {
        std::fs::write(dir.path().join("config.toml"), text).unwrap();
        let clock = Clock::manual(Timestamp::from_second(1_000_000).unwrap());
        let hub = open(&dir, &clock).await;
        let here = Registration {
            kind: Some("claude".try_into().unwrap()),
            cwd: Some("/src/web".into()),
            ..Registration::default()
        };
        hub.register(agent("agent"), here).await.unwrap();
        Self { dir, clock, hub }
    }

    pub(super) async fn rewrite(&self, text: &str) {
        std::fs::write(self.dir.path().join("config.toml"), text).unwrap();
        self.hub.reload_policy().await.unwrap();
    }

    pub(super) async fn ask_for(&self, key: &str, kind: Kind, body: Value) -> Ask {
        let raise = Raise {
            key: Key::try_from(key).unwrap(),
            agent: agent("agent"),
            body: Body::decode(kind, body).unwrap(),
            before: None,
            cwd: None,
            timeout: None,
            tool_use_id: None,
            sub_agent: None,
            can: aye_core::Can::default(),
        };
        self.hub.raise(raise).await.unwrap().ask
    }

    pub(super) async fn run(&self, key: &str, command: &str) -> Ask {
        let kept = |scope: &str| json!({"scope": scope, "kept_by": "hub"});
        let scopes = json!([{"scope": "once"}, kept("session"), kept("always")]);
        let body = json!({"tool": "Bash", "input": {"command": command}, "scopes": scopes});
        self.ask_for(key, Kind::Permission, body).await
    }

    pub(super) async fn plan(&self, key: &str, text: &str) -> Ask {
        self.ask_for(key, Kind::Plan, json!({ "plan": text })).await
    }

    pub(super) async fn decide(&self, ask: &Ask, answer: Value) -> Result<Ask, Problem> {
        let call = AnswerCall { answer, ..call(ask, "ann", "-", None) };
        self.hub.answer(call).await
    }

    pub(super) async fn preapprove(&self, approval: PlanApproval, ask: &Ask) -> Result<Agent, Problem> {
        let ann = Text::try_from("ann").unwrap();
        let by = (ann, "ann".into(), None);
        self.hub.approve_plan(agent("agent"), approval, ask.digest.clone(), by, None).await
    }
}

pub(super) fn rule(ask: &Ask) -> Option<&str> {
    match ask.state.by() {
        Some(By::Rule { rule }) => Some(rule.as_str()),
        _ => None,
    }
}

pub(super) fn decision(ask: &Ask) -> &str {
    ask.state.answer().map_or("open", |answer| answer.decision().as_str())
}

pub(super) const RULES: &str = r#"
    [policy]
    auto_approve = ["Read"]
    [[policy.rules]]
    name = "tests"
    tool = "Bash"
    command = "cargo test * [--all]"
    action = "allow"
    [[policy.rules]]
    tool = "Bash"
    command = "rm *"
    action = "deny"
    message = "Deleting is for people."
"#;

#[tokio::test]
async fn rules_decide_and_stand_behind_their_decision() {
    let desk = Desk::with_policy(RULES).await;
    let allowed = desk.run("1", "cargo test --all").await;
    assert_eq!((decision(&allowed), rule(&allowed)), ("allow", Some("rule 1 (tests)")));
    assert_eq!(allowed.state.answer().unwrap().to_json(), json!({"decision": "allow", "scope": "once"}));
    let denied = desk.run("2", "cargo test && rm -rf x").await;
    assert_eq!((decision(&denied), rule(&denied)), ("deny", Some("rule 2")));
    assert_eq!(denied.state.answer().unwrap().message(), Some("Deleting is for people."));
    assert_eq!(decision(&desk.run("3", "cargo test; curl evil").await), "open");
    let read =
        desk.ask_for("4", Kind::Permission, json!({"tool": "Read", "input": {"file_path": "/src/x"}})).await;
    assert_eq!((decision(&read), rule(&read)), ("allow", Some("auto_approve")));
    assert_eq!(desk.trail().await.iter().filter(|kind| *kind == "ask.answered").count(), 3);
}

#[tokio::test]
async fn questions_plans_and_our_own_files_always_go_to_a_person() {
    let everything = "[policy]\nauto_approve = [\"*\"]\n[[policy.rules]]\ntool = \"*\"\naction = \"allow\"";
    let desk = Desk::with_policy(everything).await;
    assert_eq!(decision(&desk.run("1", "ls").await), "allow");
    let question = json!({"questions": [{"question": "Go on?", "options": [{"label": "yes"}]}]});
    assert_eq!(decision(&desk.ask_for("2", Kind::Question, question).await), "open");
    assert_eq!(decision(&desk.plan("3", "1. x").await), "open");
    let ours = desk.dir.path().join("operator.token");
    assert_eq!(decision(&desk.run("4", &format!("cat {}", ours.display())).await), "open");
}

#[tokio::test]
async fn a_file_that_the_configuration_names_as_a_secret_is_ours_wherever_it_is() {
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = |name: &str| elsewhere.path().join(name);
    for name in ["bot", "database", "other"] {
        std::fs::write(secret(name), "x").unwrap();
    }
    std::os::unix::fs::symlink(secret("bot"), secret("link")).unwrap();
    let bot = format!("[policy]\nauto_approve = [\"*\"]\n[telegram]\ntoken_file = {:?}\n", secret("bot"));
    let desk = Desk::with_policy(&bot).await;
    let is_open = async |key: &str, name: &str| {
        let command = decision(&desk.run(key, &format!("cat {}", secret(name).display())).await) == "open";
        let read = json!({"tool": "Read", "input": {"file_path": secret(name)}});
        let read = decision(&desk.ask_for(&format!("{key}r"), Kind::Permission, read).await) == "open";
        assert_eq!(command, read, "{name}");
        command
    };
    assert!(is_open("1", "bot").await && is_open("2", "link").await);
    assert!(!is_open("3", "database").await && !is_open("4", "other").await);
    // What is named later is ours from then on.
    desk.rewrite(&format!("{bot}[store]\npassword_file = {:?}\n", secret("database"))).await;
    assert!(is_open("5", "bot").await && is_open("6", "link").await && is_open("7", "database").await);
    assert!(!is_open("8", "other").await);
}

#[tokio::test]
async fn the_same_ask_raised_again_keeps_the_decision_it_got() {
    let desk = Desk::with_policy(RULES).await;
    let first = desk.run("1", "cargo test").await;
    desk.rewrite("").await;
    assert_eq!(desk.run("1", "cargo test").await, first);
    assert_eq!(decision(&desk.run("2", "cargo test").await), "open");
}

#[tokio::test]
async fn a_broken_file_keeps_the_old_policy_and_says_so_until_it_is_mended() {
    let desk = Desk::with_policy(RULES).await;
    let mut changes = desk.hub.follow();
    desk.rewrite("[policy]\nauto_aprove = [\"*\"]").await;
    assert_eq!(decision(&desk.run("1", "cargo test").await), "allow");
    let told = next_change(&mut changes).await;
    assert!(matches!(&told.subject, Subject::Notice(notice) if notice.to_string().contains("auto_aprove")));
    assert_eq!(desk.hub.notices().len(), 1);
    desk.rewrite("").await;
    assert_eq!(desk.hub.notices(), Vec::<Value>::new());
    assert_eq!(decision(&desk.run("2", "cargo test").await), "open");
}

#[tokio::test]
async fn a_file_that_is_broken_from_the_start_approves_nothing() {
    let desk = Desk::with_policy("[policy]\nauto_approve = [\"*\"]\nnonsense = 1").await;
    assert_eq!(decision(&desk.run("1", "ls").await), "open");
    assert_eq!(desk.hub.notices().len(), 1);
}

#[tokio::test]
async fn the_policy_file_is_read_again_when_it_changes() {
    let desk = Desk::with_policy("").await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    desk.hub.start_timers(&tasks, stop.clone());
    let mut changes = desk.hub.follow();
    // The watcher may start after the first write, so the file is changed until it has been noticed.
    let noticed = async { while !matches!(next_change(&mut changes).await.subject, Subject::Notice(_)) {} };
    let write = async {
        for n in 0.. {
            std::fs::write(desk.dir.path().join("config.toml"), format!("{RULES}\n# {n}")).unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::select! { () = noticed => {}, () = write => {} }
    assert_eq!(decision(&desk.run("1", "cargo test").await), "allow");
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}

#[tokio::test]
async fn each_kind_has_its_own_timeout_and_an_ask_may_bring_its_own() {
    let desk = Desk::with_policy("[policy]\ntimeout = { plan = \"60s\", permission = \"5m\" }").await;
    let lasts = |ask: &Ask| ask.deadline.map(|deadline| deadline.duration_since(ask.created_at).as_secs());
    assert_eq!(lasts(&desk.plan("1", "x").await), Some(60));
    assert_eq!(lasts(&desk.run("2", "ls").await), Some(300));
    let question = json!({"questions": [{"question": "x", "free_text": true}]});
    assert_eq!(lasts(&desk.ask_for("3", Kind::Question, question).await), None);
    assert_eq!(lasts(&desk.hub.raise(raise("agent", "4", "x", Some(7))).await.unwrap().ask), Some(7));
}

#[tokio::test]
async fn where_nobody_is_there_for_half_a_minute_asks_end_if_people_chose_so() {
    let desk = Desk::with_policy("[policy]\nwhen_unattended = \"reject\"").await;
    let waiting = desk.plan("1", "x").await;
    desk.pass(29).await;
    assert!(desk.hub.ask(&waiting.id).await.unwrap().state.is_open());
    let here = desk.hub.attend(Role::Operator);
    let watching = desk.hub.attend(Role::Viewer);
    desk.pass(100).await;
    assert!(desk.hub.ask(&waiting.id).await.unwrap().state.is_open());
    drop(here);
    desk.pass(29).await;
    assert!(desk.hub.ask(&waiting.id).await.unwrap().state.is_open());
    desk.pass(1).await;
    let ended = desk.hub.ask(&waiting.id).await.unwrap();
    assert_eq!(ended.state.note(), Some("nobody was there to answer"));
    let late = desk.plan("2", "y").await;
    desk.pass(0).await;
    assert_eq!(desk.hub.ask(&late.id).await.unwrap().state.name(), "expired");
    drop(watching);
}

#[tokio::test]
async fn asks_end_as_soon_as_the_last_one_leaves_if_people_chose_so_but_not_while_the_hub_starts() {
    let desk = Desk::with_policy("[policy]\nwhen_unattended = \"reject after 0s\"").await;
    let waiting = desk.plan("1", "x").await;
    desk.pass(29).await;
    assert!(desk.hub.ask(&waiting.id).await.unwrap().state.is_open());
    let (here, there) = (desk.hub.attend(Role::Operator), desk.hub.attend(Role::Operator));
    desk.pass(100).await;
    drop(here);
    desk.pass(0).await;
    assert!(desk.hub.ask(&waiting.id).await.unwrap().state.is_open());
    drop(there);
    desk.pass(0).await;
    assert_eq!(desk.hub.ask(&waiting.id).await.unwrap().state.name(), "expired");
}

#[tokio::test]
async fn nobody_being_there_ends_nothing_by_default() {
    let desk = Desk::with_policy("").await;
    let waiting = desk.plan("1", "x").await;
    desk.pass(100_000).await;
    assert!(desk.hub.ask(&waiting.id).await.unwrap().state.is_open());
}

#[tokio::test]
async fn what_is_allowed_for_a_session_passes_again_for_that_agent_until_the_session_ends() {
    let desk = Desk::with_policy("").await;
    let ask = desk.run("1", "cargo test").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "session"})).await.unwrap();
    let again = desk.run("2", "cargo  test").await;
    assert_eq!((decision(&again), rule(&again)), ("allow", Some(format!("grant g-{}", ask.id).as_str())));
    assert_eq!(decision(&desk.run("3", "cargo test --all").await), "open");
    let ended = Registration { state: Some(ReportedState::Ended), ..Registration::default() };
    desk.hub.register(agent("agent"), ended).await.unwrap();
    assert_eq!(decision(&desk.run("4", "cargo test").await), "open");
}

#[tokio::test]
async fn what_is_always_allowed_passes_for_every_agent_in_the_folder_until_it_expires_or_is_revoked() {
    let desk = Desk::with_policy("").await;
    let ask = desk.run("1", "cargo test").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    let here = Registration { cwd: Some("/src/web".into()), ..Registration::default() };
    desk.hub.register(agent("other"), here).await.unwrap();
    let mut elsewhere = raise("other", "1", "x", None);
    elsewhere.body = ask.body.clone();
    assert_eq!(decision(&desk.hub.raise(elsewhere).await.unwrap().ask), "allow");
    let grants = desk.hub.grants().await.unwrap();
    assert!(
        grants[0].words.starts_with("run exactly `cargo test` in /src/web until "),
        "{}",
        grants[0].words
    );
    desk.hub.revoke_grant(grants[0].id.clone(), "ann".into()).await.unwrap();
    assert_eq!(decision(&desk.run("2", "cargo test").await), "open");
    let ask = desk.run("3", "make").await;
    desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    desk.advance(SignedDuration::from_hours(24 * 90));
    assert_eq!(decision(&desk.run("4", "make").await), "open");
    assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
}

#[tokio::test]
async fn what_cannot_be_read_in_full_is_allowed_once_only() {
    let desk = Desk::with_policy("").await;
    let ask = desk.run("1", "echo $(date)").await;
    let refused = desk.decide(&ask, json!({"decision": "allow", "scope": "always"})).await.unwrap_err();
    assert!(matches!(&refused, Problem::Invalid(invalid) if invalid.field == "answer.scope"), "{refused}");
    assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
    let edited = json!({"decision": "allow", "scope": "session", "input": {"command": "ls"}});
    let plain = desk.run("2", "ls -l").await;
    assert!(desk.decide(&plain, edited).await.is_err());
    assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
    desk.decide(&ask, json!({"decision": "allow", "scope": "once"})).await.unwrap();
}

#[tokio::test]
async fn a_rule_the_agent_keeps_itself_is_not_kept_by_the_hub() {
    let desk = Desk::with_policy("").await;
    let scopes = json!([{"scope": "once"}, {"scope": "session", "rule": "Bash(ls:*)"}]);
    let body = json!({"tool": "Bash", "input": {"command": "ls"}, "scopes": scopes});
    let ask = desk.ask_for("1", Kind::Permission, body).await;
    let answered = desk.decide(&ask, json!({"decision": "allow", "scope": "session"})).await.unwrap();
    assert!(matches!(
        answered.state.answer(),
        Some(aye_core::Answer::Permission(aye_core::Verdict::Allow { scope: Scope::Session, .. }))
    ));
    assert_eq!(desk.hub.grants().await.unwrap(), vec![]);
}

#[tokio::test]
async fn a_plan_that_comes_while_an_outline_is_awaited_is_refused_by_itself() {
    let desk = Desk::with_policy("").await;
    let first = desk.plan("1", "a").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    let told = desk.hub.resolution(&first.id, &agent("agent"), Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(told.outcome.decision.as_str(), "outline");
    assert!(told.outcome.message.unwrap().contains("outline"));
    desk.pass(10).await;
    let second = desk.plan("2", "b").await;
    assert_eq!((decision(&second), rule(&second)), ("deny", Some("outline")));
    assert!(second.state.answer().unwrap().message().unwrap().contains("another 20 seconds"));
    let shown = desk.hub.agent("agent").await.unwrap().outline.unwrap();
    assert_eq!((shown.ask, shown.digest), (second.id.clone(), second.digest.clone()));
    desk.pass(20).await;
    assert_eq!(decision(&desk.plan("3", "c").await), "open");
}

#[tokio::test]
async fn an_approved_plan_passes_once_by_itself_through_a_restart_and_a_changed_one_is_asked() {
    let mut desk = Desk::with_policy("").await;
    let first = desk.plan("1", "a").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    let other = desk.plan("2", "b").await;
    assert!(matches!(desk.preapprove(PlanApproval::Allow, &first).await, Err(Problem::OtherPlan)));
    desk.preapprove(PlanApproval::Allow, &other).await.unwrap();
    desk.crash_and_restart().await;
    let passed = desk.plan("3", "b").await;
    assert_eq!((decision(&passed), rule(&passed)), ("allow", Some("approved in advance by ann")));
    assert_eq!(decision(&desk.plan("4", "b").await), "open");
    assert!(matches!(desk.preapprove(PlanApproval::Allow, &other).await, Err(Problem::Conflict(_))));
}

#[tokio::test]
async fn with_next_in_the_policy_any_next_plan_passes_once() {
    let desk = Desk::with_policy("[policy]\noutline_preapproval = \"next\"").await;
    let first = desk.plan("1", "a").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    desk.preapprove(PlanApproval::Allow, &first).await.unwrap();
    assert_eq!(decision(&desk.plan("2", "changed").await), "allow");
    assert_eq!(decision(&desk.plan("3", "changed").await), "open");
}

#[tokio::test]
async fn denying_the_refused_plan_ends_the_pause_and_so_does_the_end_of_the_session() {
    let desk = Desk::with_policy("").await;
    let first = desk.plan("1", "a").await;
    desk.decide(&first, json!({"decision": "outline"})).await.unwrap();
    desk.preapprove(PlanApproval::Deny, &first).await.unwrap();
    let second = desk.plan("2", "a").await;
    assert_eq!(decision(&second), "open");
    desk.decide(&second, json!({"decision": "outline"})).await.unwrap();
    let ended = Registration { state: Some(ReportedState::Ended), ..Registration::default() };
    desk.hub.register(agent("agent"), ended).await.unwrap();
    assert_eq!(decision(&desk.plan("3", "a").await), "open");
}
