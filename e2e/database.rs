//! A hub whose PostgreSQL goes away, or whose connections to it do.

use crate::support::hubs::{Hubs, up};
use crate::support::{Hub, Reply, aye, code, ended, eventually, saying, signal, socket::number, yes_or_no};
use aye_testkit::proxy::Cut;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Stdio;
use std::thread;

fn answer(hub: &Hub, ask: &Value, label: &str) -> Reply {
    hub.answer(ask, saying(label))
}

/// Answers until the database is there again.
fn insist(hub: &Hub, ask: &Value, label: &str) -> Value {
    eventually("the database to be back", || match answer(hub, ask, label) {
        Reply { status: 200, body, .. } => Some(body),
        Reply { status, body, .. } => {
            assert_eq!(status, 503, "{body}");
            None
        }
    })
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_connection_that_breaks_during_a_commit_is_made_again_and_the_caller_told_what_became_of_it() {
    let stage = Hubs::start(1);
    let (hub, proxy) = (&stage.hubs[0], &stage.proxies[0]);
    let bot = hub.agent("bot");
    let cuts = [
        Cut::Before,
        Cut::After,
        Cut::FatalBefore,
        Cut::FatalAfter,
        Cut::Before,
        Cut::After,
        Cut::SilentAfter,
    ];
    for (n, cut) in cuts.into_iter().enumerate() {
        let ask = hub.raise(&bot, "bot", &format!("k{n}"), "question", yes_or_no());
        let cut_before = proxy.commits_cut();
        proxy.cut_next_commit(cut);
        let told = answer(hub, &ask, "yes");
        assert_eq!(proxy.commits_cut(), cut_before + 1);
        match cut {
            Cut::Before | Cut::FatalBefore => {
                assert_eq!(told.status, 503, "{told:?}");
                assert_eq!(hub.ask(&ask)["state"], "open");
                assert_eq!(insist(hub, &ask, "no")["answer"], saying("no"));
            }
            Cut::After | Cut::FatalAfter | Cut::SilentAfter => {
                assert_eq!(told.status, 200, "{cut:?}: {told:?}");
                assert_eq!(hub.ask(&ask)["answer"], saying("yes"));
            }
        }
    }
    assert!(hub.aye(&["verify"]).status.success());
}

/// Another hub commits before the first can look: the number of commits alone says nothing about its own.
#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn what_became_of_a_commit_is_found_out_although_others_have_committed_since() {
    let stage = Hubs::start(2);
    let (hub, other, proxy) = (&stage.hubs[0], &stage.hubs[1], &stage.proxies[0]);
    let bot = hub.agent("bot");
    for (n, is_before) in [true, false].into_iter().enumerate() {
        let ask = hub.raise(&bot, "bot", &format!("k{n}"), "question", yes_or_no());
        let cut_before = proxy.commits_cut();
        proxy.cut_next_commit_and_swallow(if is_before { Cut::Before } else { Cut::After });
        thread::scope(|scope| {
            let told = scope.spawn(|| answer(hub, &ask, "yes"));
            eventually("the commit to be cut", || (proxy.commits_cut() > cut_before).then_some(()));
            for m in 0..3 {
                let raised = other.raise(&bot, "bot", &format!("other{n}-{m}"), "question", yes_or_no());
                assert_eq!(insist(other, &raised, "no")["state"], "answered");
            }
            let meanwhile = other.ask(&ask);
            proxy.swallow(false);
            let told = told.join().unwrap();
            let expected = if is_before { (503, json!("open")) } else { (200, json!("answered")) };
            assert_eq!((told.status, meanwhile["state"].clone()), expected);
        });
        eventually("the hub to be back", || {
            (hub.get("/api/asks", &hub.operator()).status == 200).then_some(())
        });
        assert_eq!(hub.ask(&ask), other.ask(&ask));
    }
    assert!(hub.aye(&["verify"]).status.success());
}

/// The server ends the transaction that has the lock, although the hub's end of the connection is never heard of.
#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_hub_whose_commit_is_swallowed_gives_way_to_the_others() {
    let stage = Hubs::start(2);
    let (hub, other, proxy) = (&stage.hubs[0], &stage.hubs[1], &stage.proxies[0]);
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    proxy.swallow_next_commit();
    thread::scope(|scope| {
        let told = scope.spawn(|| answer(hub, &ask, "yes"));
        eventually("the commit to be swallowed", || proxy.is_swallowing().then_some(()));
        assert_eq!(insist(other, &ask, "no")["answer"], saying("no"));
        assert!(proxy.is_swallowing());
        eventually("the hub to say that its database is away", || {
            (hub.get("/api/health", "").status == 503).then_some(())
        });
        proxy.swallow(false);
        assert_eq!(told.join().unwrap().status, 503);
    });
    eventually("the hub to be back", || (hub.get("/api/health", "").status == 200).then_some(()));
    assert_eq!(hub.ask(&ask), other.ask(&ask));
    assert!(hub.aye(&["verify"]).status.success());
}

/// As with a server whose storage hangs: the system that it runs on still acknowledges what it is sent.
#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn connections_that_fall_silent_are_given_up_and_made_again() {
    let stage = Hubs::start(1);
    let (hub, proxy) = (&stage.hubs[0], &stage.proxies[0]);
    let bot = hub.agent("bot");
    let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
    proxy.silence_connections();
    eventually("the hub to notice", || (hub.get("/api/health", "").status == 503).then_some(()));
    assert_eq!(insist(hub, &ask, "yes")["answer"], saying("yes"));
    eventually("the hub to be healthy", || (hub.get("/api/health", "").status == 200).then_some(()));
    // More often than there are connections to read with.
    for _ in 0..8 {
        assert_eq!(hub.ask(&ask)["state"], "answered");
    }
    let mut page = hub.follow("", &hub.operator());
    assert!(number(&page.text()) > 0);
    assert!(hub.aye(&["verify"]).status.success());
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_server_that_is_restarted_leaves_adapters_waiting_and_pages_connected() {
    let stage = Hubs::start(1);
    let hub = &stage.hubs[0];
    let mut waiting = aye(&hub.home);
    waiting.args(["ask", "Go on?", "--option", "yes", "--option", "no"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ask = hub.open_ask();
    let mut page = hub.follow("", &hub.operator());
    let seen = number(&page.text());
    stage.cluster.stop_at_once();
    assert_eq!(answer(hub, &ask, "yes").status, 503);
    stage.cluster.start_again();
    insist(hub, &ask, "yes");
    let done = waiting.wait_with_output().unwrap();
    assert_eq!((code(&done), &*done.stdout), (Some(0), &b"yes\n"[..]), "{done:?}");
    // The same connection is told what was changed after the restart, and nothing is left out.
    let told = page.next();
    assert_eq!((&told["seq"], &told["ask"]["state"]), (&json!(seen + 1), &json!("answered")), "{told}");
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn a_hub_ends_when_it_is_told_to_also_while_its_database_does_not_answer() {
    let mut stage = Hubs::start(1);
    let home = stage.prepare_another();
    let proxy = stage.proxies.last().unwrap();
    proxy.swallow(true);
    let mut starting = up(&home).stdout(Stdio::null()).spawn().unwrap();
    eventually("the hub to call its database", || (proxy.connections_begun() > 0).then_some(()));
    signal(&starting, Signal::TERM);
    assert!(ended(&mut starting).success());
    for how in ["swallowed", "stopped"] {
        let (hub, proxy) = (&mut stage.hubs[0], &stage.proxies[0]);
        match how {
            "swallowed" => proxy.swallow(true),
            _ => stage.cluster.stop_at_once(),
        }
        assert!(hub.stop().success(), "{how}");
        proxy.swallow(false);
        if how == "swallowed" {
            hub.restart_until_it_listens();
        }
    }
}
