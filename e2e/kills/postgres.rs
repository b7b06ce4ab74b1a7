//! Three hubs on one PostgreSQL database. Hubs are killed and stopped, the server is stopped as by a power cut, and
//! connections are cut, also in the middle of commits, and swallowed.

use super::{Dice, Tokens, World, checks, chosen, live_through};
use crate::support::hubs::{Hubs, up};
use crate::support::{Hub, signal};
use aye_testkit::postgres::Cluster;
use aye_testkit::proxy::{Cut, Proxy};
use rustix::process::Signal;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const HUBS: usize = 3;
/// Longer than a hub may be held up by what was done to it.
const REPLY_WITHIN: Duration = Duration::from_secs(10);

/// Kills one hub, or two at once, until there were enough, and leaves all running.
fn kill_at_random(world: &World, hubs: &mut [Hub], kills: u64, mut dice: Dice) {
    let mut killed = 0;
    while killed < kills {
        thread::sleep(dice.millis(180));
        let first = dice.roll(HUBS as u64) as usize;
        if dice.one_in(20) {
            // It stands still in the middle of whatever it does, and goes on when the others have gone on without it.
            signal(&hubs[first].child, Signal::STOP);
            thread::sleep(dice.millis(3000));
            signal(&hubs[first].child, Signal::CONT);
            continue;
        }
        let second = dice.one_in(4).then(|| (first + 1) % HUBS);
        for n in [Some(first), second].into_iter().flatten() {
            hubs[n].kill();
            killed += 1;
        }
        for n in [Some(first), second].into_iter().flatten() {
            // Some die before they have opened their eyes.
            while dice.one_in(5) {
                let mut newborn =
                    up(&hubs[n].home).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                thread::sleep(dice.millis(60));
                newborn.kill().unwrap();
                newborn.wait().unwrap();
            }
            hubs[n].restart_until_it_listens();
            world.moved(n, &hubs[n]);
        }
    }
}

/// How often what was done to the database's connections and to the database.
#[derive(Debug, Default)]
struct Done {
    cut: u64,
    swallowed: u64,
    stopped: u64,
}

fn disturb_at_random(cluster: &Cluster, proxies: &[Proxy], over: &AtomicBool, mut dice: Dice) -> Done {
    let mut done = Done::default();
    while !over.load(Ordering::SeqCst) {
        thread::sleep(dice.millis(300));
        let proxy = &proxies[dice.roll(proxies.len() as u64) as usize];
        match dice.roll(16) {
            0 => {
                cluster.stop_at_once();
                thread::sleep(dice.millis(500));
                cluster.start_again();
                done.stopped += 1;
            }
            1 => {
                proxy.swallow(true);
                thread::sleep(dice.millis(3000));
                proxy.swallow(false);
                done.swallowed += 1;
            }
            2..5 => {
                proxy.cut();
                done.cut += 1;
            }
            n => proxy.cut_next_commit(if n % 2 == 0 { Cut::Before } else { Cut::After }),
        }
    }
    done
}

/// Even where killing fails, the disturbing ends.
struct EndsIt<'a>(&'a AtomicBool);

impl Drop for EndsIt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
fn what_any_hub_acknowledged_survives_the_kills_of_all_and_every_follower_sees_every_change_once() {
    let (kills, dice) = chosen(30);
    let mut stage = Hubs::start(HUBS);
    let (world, tokens) = (World::of(&stage.hubs, REPLY_WITHIN), Tokens::made_by(&stage.hubs[0]));
    let kill = |stage: &mut Hubs| {
        let Hubs { hubs, proxies, cluster, .. } = stage;
        let over = &AtomicBool::new(false);
        let done = thread::scope(|scope| {
            let chance = dice(200);
            let disturbing = scope.spawn(|| disturb_at_random(cluster, proxies, over, chance));
            let end = EndsIt(over);
            kill_at_random(&world, hubs, kills, dice(0));
            drop(end);
            disturbing.join().unwrap()
        });
        let commits: u64 = proxies.iter().map(Proxy::commits_cut).sum();
        eprintln!("{done:?}, and {commits} commits cut");
    };
    let finish = |stage: &mut Hubs| {
        stage.hubs.iter_mut().for_each(|hub| assert!(hub.stop().success()));
        world.ends_at(stage.last_seq());
        for (n, hub) in stage.hubs.iter_mut().enumerate() {
            hub.restart();
            world.moved(n, hub);
        }
    };
    let histories = live_through(&world, &tokens, dice, &mut stage, kill, finish);
    checks::enough_happened(&histories, kills);
    checks::histories_agree(&world, &histories);
    for hub in &stage.hubs {
        checks::the_trail_tells_each_thing_once(hub, &histories.asks);
        checks::the_trail_is_whole(hub);
    }
    assert_eq!(stage.sql("SELECT count(*) = max(seq) FROM audit"), "t", "one chain, without a gap");
}
