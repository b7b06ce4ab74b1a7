//! What leads to our own files, and whose folder an agent's word is.

use super::policy::decision;
use super::*;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

const EVERYTHING: &str = "[policy]\nauto_approve = [\"*\"]";
const IN_WORK: &str = "[[policy.rules]]\ntool = \"Bash\"\ncwd = \"/srv/work/**\"\naction = \"allow\"";

impl Desk {
    async fn moves(&self, registration: Registration) {
        self.hub.register(agent("agent"), registration).await.unwrap();
    }

    async fn works_in(&self, cwd: &str) {
        self.moves(Registration { cwd: Some(cwd.into()), ..Registration::default() }).await;
    }

    async fn tool(&self, key: &str, tool: &str, input: Value) -> String {
        let ask = self.ask_for(key, Kind::Permission, json!({ "tool": tool, "input": input })).await;
        decision(&ask).to_owned()
    }

    fn ours(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }
}

#[tokio::test]
async fn a_link_to_our_files_goes_to_a_person_whatever_it_is_called() {
    let desk = Desk::with_policy(EVERYTHING).await;
    let work = tempfile::tempdir().unwrap();
    let path = work.path().canonicalize().unwrap();
    symlink(desk.ours(), path.join("notes")).unwrap();
    std::fs::hard_link(desk.ours().join("operator.token"), path.join("hard")).unwrap();
    std::fs::write(path.join("plain"), "").unwrap();
    let (bot, cwd) = (agent("bot"), path.to_str().map(Into::into));
    desk.hub.register(bot.clone(), Registration { cwd, ..Registration::default() }).await.unwrap();
    let decided = async |key: String, tool: &str, input: &Value| {
        let body = Body::decode(Kind::Permission, json!({ "tool": tool, "input": input })).unwrap();
        let raise = Raise { agent: bot.clone(), body, ..raise("bot", &key, "-", None) };
        decision(&desk.hub.raise(raise).await.unwrap().ask).to_owned()
    };
    let mut keys = 0;
    let mut key = || {
        keys += 1;
        format!("k{keys}")
    };
    for (tool, input) in [
        ("Read", json!({"file_path": path.join("notes/operator.token")})),
        ("Read", json!({"file_path": "notes/operator.token"})),
        ("Read", json!({"file_path": "hard"})),
        ("Write", json!({"file_path": "notes/new", "content": "x"})),
        ("Read", json!({"file_path": "/proc/self/cwd/plain"})),
        ("Grep", json!({"pattern": "aye_", "path": "notes"})),
        ("Glob", json!({"pattern": "notes/*"})),
        ("LS", json!({"path": path.join("notes")})),
        ("Bash", json!({"command": "cat notes/operator.token"})),
        ("Bash", json!({"command": "cat < notes/operator.token"})),
        ("Bash", json!({"command": "cp -r --target-directory=/tmp notes/."})),
        ("Bash", json!({"command": "cat n*/operator.token; cat hard"})),
        ("Bash", json!({"command": "bash -c 'cat \"notes/operator.token\"'"})),
        ("Bash", json!({"command": "cd / && cat x"})),
        ("mcp__files__read", json!({"paths": ["plain", "hard"]})),
    ] {
        assert_eq!(decided(key(), tool, &input).await, "open", "{tool} {input}");
    }
    for (tool, input) in [
        ("Read", json!({"file_path": "plain"})),
        ("Write", json!({"file_path": "new", "content": "see notes/operator.token"})),
        ("Grep", json!({"pattern": "x"})),
        ("Bash", json!({"command": "cat plain && make new"})),
    ] {
        assert_eq!(decided(key(), tool, &input).await, "allow", "{tool} {input}");
    }
}

#[tokio::test]
async fn an_agent_on_another_machine_has_other_files_and_one_with_a_process_here_has_ours() {
    let desk = Desk::with_policy(EVERYTHING).await;
    let work = tempfile::tempdir().unwrap();
    let link = work.path().join("link");
    symlink(desk.ours(), &link).unwrap();
    let read = json!({"file_path": link.join("operator.token")});
    let bot = agent("bot");
    let reads = async |key: &str, input: Value| {
        let body = Body::decode(Kind::Permission, json!({"tool": "Read", "input": input})).unwrap();
        let raise = Raise { agent: bot.clone(), body, ..raise("bot", key, "-", None) };
        decision(&desk.hub.raise(raise).await.unwrap().ask).to_owned()
    };
    let elsewhere = Registration { host: Some("elsewhere".into()), ..Registration::default() };
    desk.hub.register(bot.clone(), elsewhere.clone()).await.unwrap();
    assert_eq!(reads("1", read.clone()).await, "allow", "the name alone is of another place");
    assert_eq!(reads("2", json!({"file_path": desk.ours().join("x")})).await, "open");
    let here = Registration { pid: Some(std::process::id()), ..elsewhere.clone() };
    desk.hub.register(bot.clone(), here).await.unwrap();
    assert_eq!(reads("3", read.clone()).await, "open");
    // One that was here from the start does not leave by saying so.
    desk.moves(elsewhere).await;
    assert_eq!(desk.tool("4", "Read", read).await, "open");
}

#[tokio::test]
async fn an_agent_stays_what_it_was_first_registered_as_and_what_it_claims_later_is_in_the_trail() {
    let rule = "[[policy.rules]]\ntool = \"Bash\"\nagent = \"claude\"\naction = \"allow\"";
    let desk = Desk::with_policy(rule).await;
    let bot = agent("bot");
    let runs = async |key: &str| {
        let body = json!({"tool": "Bash", "input": {"command": "make"}});
        let body = Body::decode(Kind::Permission, body).unwrap();
        let raise = Raise { agent: bot.clone(), body, ..raise("bot", key, "-", None) };
        decision(&desk.hub.raise(raise).await.unwrap().ask).to_owned()
    };
    let kind = |kind: &str| Registration { kind: Some(kind.try_into().unwrap()), ..Registration::default() };
    let driven =
        Registration { reach: Some(aye_core::Reach::Driven), host: Some("one".into()), ..kind("codex") };
    let first = desk.hub.register(bot.clone(), driven).await.unwrap();
    assert_eq!(runs("1").await, "open");
    let hooked = Registration { reach: Some(aye_core::Reach::Hooked), ..Registration::default() };
    let other = Registration { host: Some("other".into()), ..Registration::default() };
    for claim in [kind("claude"), hooked, other, Registration::ended(), kind("claude")] {
        desk.hub.register(bot.clone(), claim).await.unwrap();
    }
    let last = desk.hub.agent("bot").await.unwrap();
    assert_eq!((&last.kind, last.reach, &last.host), (&first.kind, first.reach, &first.host));
    assert_eq!(runs("2").await, "open", "the rule is for claude");
    let claims = desk.trail().await.into_iter().filter(|kind| kind == "agent.claimed").count();
    assert_eq!(claims, 4);
    // Asking without a word makes it a script, and it stays one.
    desk.hub.raise(raise("quiet", "1", "1. x", None)).await.unwrap();
    assert_eq!(desk.hub.register(agent("quiet"), kind("claude")).await.unwrap().kind, "script");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_process_of_an_agent_stays_while_it_lives() {
    let desk = Desk::new().await;
    let bot = agent("bot");
    let sleeper = || std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let (mut first, mut second) = (sleeper(), sleeper());
    let named = async |pid: u32| {
        desk.hub.register(bot.clone(), Registration { pid: Some(pid), ..on_this_machine() }).await.unwrap();
        let bot = bot.clone();
        let row = desk.hub.inner.store.read(move |db| db.agent(&bot)).await.unwrap().unwrap();
        row.profile.process.unwrap().0
    };
    assert_eq!(named(first.id()).await, first.id());
    assert_eq!(named(second.id()).await, first.id());
    let inside = desk.hub.agent_around(this_process(second.id())).await.unwrap();
    assert_eq!(inside, Some(bot.clone()), "what runs in the other is still the agent's");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(named(second.id()).await, second.id());
    second.kill().unwrap();
    second.wait().unwrap();
}

#[tokio::test]
async fn a_rule_for_a_folder_does_not_follow_an_agents_word() {
    let desk = Desk::with_policy(IN_WORK).await;
    assert_eq!(decision(&desk.run("1", "make").await), "open", "it is in /src/web");
    desk.works_in("/srv/work/a").await;
    assert_eq!(decision(&desk.run("2", "make").await), "open", "it says so now, and was in /src/web");
    let ended = Registration { state: Some(ReportedState::Ended), ..Registration::default() };
    desk.moves(ended).await;
    desk.works_in("/srv/work/a").await;
    assert_eq!(decision(&desk.run("3", "make").await), "open", "coming back does not help");
}

#[tokio::test]
async fn a_rule_for_a_folder_allows_what_the_first_word_and_the_process_bear_out() {
    let desk = Desk::with_policy(IN_WORK).await;
    let at = |cwd: &str| Registration { cwd: Some(cwd.into()), ..Registration::default() };
    let bot = agent("bot");
    desk.hub.register(bot.clone(), at("/srv/work/a")).await.unwrap();
    let run = async |key: &str, cwd: Option<&str>| {
        let body = json!({"tool": "Bash", "input": {"command": "make"}});
        let body = Body::decode(Kind::Permission, body).unwrap();
        let cwd = cwd.map(str::to_owned);
        let raise = Raise { agent: bot.clone(), cwd, body, ..raise("bot", key, "-", None) };
        let ask = desk.hub.raise(raise).await.unwrap().ask;
        (decision(&ask).to_owned(), ask.cwd_checked)
    };
    let (allowed, asked) = (("allow".to_owned(), false), ("open".to_owned(), false));
    assert_eq!(run("1", None).await, allowed);
    assert_eq!(run("2", Some("/srv/work/a")).await, allowed);
    assert_eq!(run("3", Some("/srv/work/b")).await, asked, "the ask says another folder than the agent");
    desk.hub.register(bot.clone(), at("/srv/work/a/below")).await.unwrap();
    assert_eq!(run("4", None).await, allowed);
    desk.hub.register(bot.clone(), at("/srv/work/b")).await.unwrap();
    assert_eq!(run("5", None).await, asked);
    // Its process is here, which is not below /srv/work.
    let here = Registration { pid: Some(std::process::id()), ..at("/srv/work/a") };
    desk.hub.register(bot.clone(), here).await.unwrap();
    assert_eq!(run("6", None).await, asked);
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    desk.hub.register(bot.clone(), at(here.to_str().unwrap())).await.unwrap();
    assert_eq!(run("7", None).await, ("open".to_owned(), true), "no rule is for this folder");
}

#[tokio::test]
async fn a_grant_is_for_the_folder_it_was_given_in_and_does_not_follow_an_agents_word() {
    let desk = Desk::with_policy("").await;
    let first = desk.run("1", "make").await;
    desk.decide(&first, json!({"decision": "allow", "scope": "session"})).await.unwrap();
    assert_eq!(decision(&desk.run("2", "make").await), "allow");
    let other = agent("other");
    let at = |cwd: &str| Registration { cwd: Some(cwd.into()), ..Registration::default() };
    desk.hub.register(other.clone(), at("/tmp")).await.unwrap();
    desk.works_in("/tmp").await;
    desk.works_in("/src/web").await;
    assert_eq!(decision(&desk.run("3", "make").await), "allow", "it is back where it began");
    let always = desk.run("4", "make all").await;
    desk.decide(&always, json!({"decision": "allow", "scope": "always"})).await.unwrap();
    // Another agent that began elsewhere says that it is here now.
    desk.hub.register(other.clone(), at("/src/web")).await.unwrap();
    let body = json!({"tool": "Bash", "input": {"command": "make all"}});
    let body = Body::decode(Kind::Permission, body).unwrap();
    let raise = Raise { agent: other, body, ..raise("other", "k", "-", None) };
    assert_eq!(decision(&desk.hub.raise(raise).await.unwrap().ask), "open");
}
