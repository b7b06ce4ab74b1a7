//! Several hubs on one PostgreSQL database, each a process with a home of its own.

use crate::support::{Hub, TELEGRAM_SECOND, eventually, path_of, saying, signal, yes_or_no};
use aye_testkit::postgres::{Cluster, name_of};
use aye_testkit::telegram::{TOKEN, Telegram};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

struct Site {
    dir: tempfile::TempDir,
    database: String,
    hubs: Vec<Hub>,
}

impl Site {
    /// With these lines in every `config.toml`.
    fn new(hubs: usize, config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        let first = dir.path().join("0");
        fs::create_dir_all(&first).unwrap();
        let database = Cluster::shared().new_database();
        let section = format!("[store]\nurl = \"{database}\"\n{config}\n");
        fs::write(first.join("config.toml"), section).unwrap();
        let token = first.join("telegram.token");
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let mut site = Self { dir, database, hubs: vec![Hub::start_in(first)] };
        for n in 1..hubs {
            site.add(n);
        }
        site
    }

    /// A hub on another machine, as it were: its home has the keys of the first, and nothing else.
    fn add(&mut self, n: usize) {
        let (first, home) = (self.dir.path().join("0"), self.dir.path().join(n.to_string()));
        fs::create_dir_all(&home).unwrap();
        for file in ["config.toml", "chain.key", "agent.key", "operator.token", "telegram.token"] {
            fs::copy(first.join(file), home.join(file)).unwrap();
        }
        self.hubs.push(Hub::start_in(home));
    }

    /// Returns once the message about this ask is remembered: a hub that is killed before sends it again.
    fn once_remembered(&self, ask: &Value) {
        let id = ask["id"].as_str().unwrap();
        let sql = format!("SELECT count(*) FROM memory WHERE kind = 'message' AND body LIKE '%{id}%'");
        eventually("the message to be remembered", || (self.sql(&sql) == "1").then_some(()));
    }

    fn sql(&self, sql: &str) -> String {
        Cluster::shared().sql(name_of(&self.database), sql)
    }

    fn verify(&self, home: usize) {
        let hub = &self.hubs[home];
        let verified = hub.aye(&["verify"]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    }
}

/// What a follower is told until this ask has ended, without what comes for other reasons.
fn until_ended(hub: &Hub, after: u64, ask: &Value) -> Vec<(u64, Value)> {
    let mut follower = hub.follow(&format!("?after={after}"), &hub.operator());
    let mut seen = Vec::new();
    loop {
        let told = follower.next();
        seen.push((told["seq"].as_u64().unwrap(), told["type"].clone()));
        if told["type"] == "ask" && told["ask"]["id"] == ask["id"] && told["ask"]["state"] != "open" {
            return seen;
        }
    }
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn an_ask_raised_at_one_hub_is_awaited_at_another_answered_at_a_third_and_seen_at_all() {
    let mut site = Site::new(3, "");
    let [one, two, three] = &site.hubs[..] else { panic!("three hubs") };
    let bot = one.agent("bot");
    let before = three.follow("", &three.operator()).next()["seq"].as_u64().unwrap();
    let ask = one.raise(&bot, "bot", "k", "question", yes_or_no());
    let resolution = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| two.get(&path_of(&ask, "/resolution?wait=30"), &bot));
        assert_eq!(three.answer(&ask, saying("no")).status, 200);
        waiting.join().unwrap()
    });
    assert_eq!((resolution.status, &resolution.body["state"]), (200, &json!("answered")));
    assert_eq!(one.answer(&ask, saying("yes")).status, 409);
    let seen = [one, two, three].map(|hub| until_ended(hub, before, &ask));
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let numbers: Vec<_> = seen[0].iter().map(|(seq, _)| *seq).collect();
    assert_eq!(numbers, (before + 1..=before + numbers.len() as u64).collect::<Vec<_>>());

    // Nothing that one of them acknowledged is lost with it.
    let next = one.raise(&bot, "bot", "k2", "question", yes_or_no());
    site.hubs[0].kill();
    let [_, two, three] = &site.hubs[..] else { panic!("three hubs") };
    assert_eq!(three.answer(&next, saying("no")).status, 200);
    assert_eq!(two.get(&path_of(&next, "/resolution"), &bot).body["state"], "answered");
    site.verify(1);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_token_that_one_hub_revokes_answers_at_none() {
    let site = Site::new(2, "");
    let [one, two] = &site.hubs[..] else { panic!("two hubs") };
    let bot = one.agent("bot");
    let ask = two.raise(&bot, "bot", "k", "question", yes_or_no());
    let token = one.token("operator");
    let me = two.get("/api/me", &token);
    assert_eq!(me.status, 200, "{}", me.body);
    let tokens = two.get("/api/tokens", &two.operator()).body;
    let made = tokens["tokens"].as_array().unwrap().iter().find(|it| it["name"] == "operator").unwrap();
    let id = made["id"].as_str().unwrap();
    assert!(one.delete(&format!("/api/tokens/{id}"), &one.operator()).status < 300);
    let answer = json!({"answer": saying("no"), "digest": ask["digest"]});
    let refused = two.post(&path_of(&ask, "/answer"), &token, answer);
    assert!(matches!(refused.status, 401 | 403), "{} {}", refused.status, refused.body);
    eventually("the token to open nothing", || (two.get("/api/me", &token).status == 401).then_some(()));
    assert_eq!(one.ask(&ask)["state"], "open");
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn hubs_that_are_stopped_or_killed_in_the_middle_of_their_work_give_way_to_the_others() {
    let mut site = Site::new(3, "");
    let bot = site.hubs[0].agent("bot");
    for round in 0..6 {
        let [one, two, three] = &site.hubs[..] else { panic!("three hubs") };
        std::thread::scope(|scope| {
            let busy = scope.spawn(|| {
                for n in 0..20 {
                    let body = json!({"key": format!("{round}-{n}"), "agent": "bot", "kind": "question", "body": yes_or_no()});
                    let headers = [("Authorization", format!("Bearer {bot}")), ("Content-Type", "application/json".into())];
                    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
                    let body = body.to_string();
                    // Whoever it was that was stopped did not answer.
                    if crate::support::try_call(&one.address, "POST", "/api/asks", &headers, Some(body.as_bytes())).is_err() {
                        return;
                    }
                }
            });
            for n in 0..20 {
                let ask = two.raise(&bot, "bot", &format!("two-{round}-{n}"), "question", yes_or_no());
                assert_eq!(three.answer(&ask, saying("no")).status, 200);
                // It stays so until all the others are done.
                if n == 5 {
                    signal(&one.child, Signal::STOP);
                }
            }
            signal(&one.child, Signal::CONT);
            busy.join().unwrap();
        });
    }
    let [one, _, _] = &site.hubs[..] else { panic!("three hubs") };
    let ask = one.raise(&bot, "bot", "after", "question", yes_or_no());
    assert_eq!(one.answer(&ask, saying("no")).status, 200);
    site.hubs[0].kill();
    site.verify(1);
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn another_hub_talks_to_telegram_once_the_first_was_killed() {
    let bot = Telegram::start(TELEGRAM_SECOND);
    let config = format!("[telegram]\napi_url = \"{}\"\nusers = [11]\nchats = [11]", bot.url);
    let mut site = Site::new(2, &config);
    let agent = site.hubs[0].agent("bot");
    let question = |text: &str| json!({"questions": [{"question": text, "options": [{"label": "yes"}, {"label": "no"}]}]});
    // Raised at the hub that does not talk to Telegram.
    let first = site.hubs[1].raise(&agent, "bot", "a", "question", question("First?"));
    let message = bot.message(11, "First?");
    bot.told(11, &message, "yes");
    site.hubs[1].once(&first, "the answer", |ask| ask["state"] == "answered");
    let second = site.hubs[1].raise(&agent, "bot", "b", "question", question("Second?"));
    let message = bot.message(11, "Second?");
    bot.changed(&bot.message(11, "First?"), "Answered");
    site.once_remembered(&second);
    let first_hub = site.sql("SELECT hub FROM leases");
    site.hubs[0].kill();
    // With two seconds between attempts to take it, another hub has it within ten seconds.
    let lasts: i64 = site.sql("SELECT until - now_ms() FROM leases").parse().unwrap();
    assert!(lasts <= 6_000, "{lasts} ms");
    bot.press(11, &message, "no");
    let hub = &site.hubs[1];
    eventually("the press to count", || (hub.ask(&second)["state"] == "answered").then_some(()));
    assert_ne!(site.sql("SELECT hub FROM leases"), first_hub);
    assert_eq!(bot.messages(11).len(), 2);
    assert_eq!(bot.complaints(), Vec::<String>::new());
}
