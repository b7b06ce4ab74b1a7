//! Clients that take their time: they are waited for a while, then dropped, and nobody else notices.

use crate::support::socket::number;
use crate::support::{Hub, PATIENCE, eventually_within, yes_or_no};
use serde_json::json;
use std::io::{Read, Write};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const MEGABYTE: u64 = 1024 * 1024;

/// A number from the hub's `/proc/PID/status`, in bytes.
fn memory(hub: &Hub, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", hub.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    let kilobytes: u64 = line.trim_matches([':', '\t', ' ']).split(' ').next().unwrap().parse().unwrap();
    kilobytes * 1024
}

/// Whether the hub still holds its end of the connection that comes from this port.
fn holds(hub: &Hub, port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let here = hub.address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let ends = (format!(":{here:04X}"), format!(":{port:04X}"));
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let table: String = tables.into_iter().flatten().collect();
    table.lines().any(|line| {
        let columns: Vec<_> = line.split_ascii_whitespace().collect();
        columns[1].ends_with(&ends.0) && columns[2].ends_with(&ends.1) && columns[3] == ESTABLISHED
    })
}

#[test]
fn a_follower_that_never_reads_is_dropped_and_holds_nobody_up() {
    // The first ones fill every buffer on the way and show what a request of this size costs at its peak.
    const FIRST: u64 = 5;
    const ASKS: u64 = 45;
    let hub = Hub::start();
    let operator = hub.token("operator");
    let mut reader = hub.follow("", &operator);
    assert_eq!(number(&reader.text()), 0);
    // Two who never read: one from the start, one who would have to catch up.
    let mut stalled = [hub.follow("", &operator), hub.follow("?after=0", &operator)];
    let plan = "x".repeat(3_000_000);
    let mut seq = 0;
    let mut before = 0;
    for i in 0..ASKS {
        // An agent for each, because one alone may not have so much text open.
        let agent = format!("bot{i}");
        hub.raise(&hub.agent(&agent), &agent, "k", "plan", json!({"plan": plan}));
        // It also changes the agent's state; both are seen by the one who reads before the next.
        for _ in 0..2 {
            seq += 1;
            assert_eq!(number(&reader.text()), seq);
        }
        if i + 1 == FIRST {
            let held = stalled.iter().all(|follower| holds(&hub, follower.port()));
            assert!(held, "the one who reads had to wait until the others were dropped");
            before = memory(&hub, "VmHWM");
        }
    }
    // Held for those who do not read, the rest alone would be 120 MB.
    let grown = memory(&hub, "VmHWM") - before;
    assert!(grown < 60 * MEGABYTE, "the hub grew by {} MB", grown / MEGABYTE);

    eventually_within(Duration::from_secs(30), "the stalled ones to be dropped", || {
        (!stalled.iter().any(|follower| holds(&hub, follower.port()))).then_some(())
    });
    for follower in &mut stalled {
        assert!(follower.end().is_none(), "what was on its way comes, and then the end");
    }
    hub.raise(&hub.agent("last"), "last", "k", "question", yes_or_no());
    assert_eq!(number(&reader.text()), seq + 1);
    // Whoever was dropped comes back and gets the rest, without the hub holding it all at once.
    let before = memory(&hub, "VmHWM");
    let caught_up = hub.follow("?after=0", &operator).texts_until(seq + 1);
    assert_eq!(caught_up.len() as u64, seq + 1);
    let grown = memory(&hub, "VmHWM") - before;
    assert!(grown < 60 * MEGABYTE, "the hub grew by {} MB", grown / MEGABYTE);
}

#[test]
fn headers_that_come_too_slowly_are_not_waited_for() {
    let hub = Hub::start();
    let beginnings =
        ["", "G", "GET /api/asks HTTP/1.1\r\n", "GET /api/asks HTTP/1.1\r\nHost: localhost\r\nX-Slow: "];
    let start = Instant::now();
    let all_wait = Barrier::new(beginnings.len() + 1);
    let lasted: Vec<Duration> = std::thread::scope(|scope| {
        let slow = |beginning: &str| {
            let mut stream = hub.connect();
            stream.write_all(beginning.as_bytes()).unwrap();
            all_wait.wait();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let drips = !beginning.is_empty();
            // A byte now and then, so that it is never silent for long; until the hub ends it.
            while start.elapsed() < PATIENCE {
                match stream.read(&mut [0; 1024]) {
                    Ok(0) => return start.elapsed(),
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return start.elapsed(),
                }
                if drips && stream.write_all(b"x").is_err() {
                    return start.elapsed();
                }
            }
            panic!("{beginning:?} is still waited for");
        };
        let waiting: Vec<_> =
            beginnings.iter().map(|beginning| scope.spawn(move || slow(beginning))).collect();
        all_wait.wait();
        for _ in 0..20 {
            assert_eq!(hub.call("GET", "/api/health", &[], None).status, 200);
        }
        waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect()
    });
    for (beginning, lasted) in beginnings.iter().zip(lasted) {
        assert!(lasted >= Duration::from_secs(8), "{beginning:?} was given {lasted:?}");
    }
}
