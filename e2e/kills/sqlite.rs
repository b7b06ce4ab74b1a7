//! One hub on SQLite.

use super::{Dice, Tokens, World, checks, chosen, live_through};
use crate::support::{Hub, PATIENCE, aye};
use std::process::Stdio;
use std::slice;
use std::thread;

/// Kills hubs until there were enough, and leaves one running.
fn kill_at_random(world: &World, hub: &mut Hub, kills: u64, mut dice: Dice) {
    for _ in 0..kills {
        thread::sleep(dice.millis(180));
        hub.kill();
        // Some die before they have opened their eyes.
        while dice.one_in(5) {
            let mut command = aye(&hub.home);
            command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
            let mut newborn = command.stdout(Stdio::null()).spawn().unwrap();
            thread::sleep(dice.millis(60));
            newborn.kill().unwrap();
            newborn.wait().unwrap();
        }
        hub.restart();
        world.moved(0, hub);
    }
}

fn finish(world: &World, hub: &mut Hub) {
    assert!(hub.stop().success());
    let database = rusqlite::Connection::open(hub.home.join("aye.db")).unwrap();
    world.ends_at(database.query_row("SELECT max(seq) FROM outbox", [], |row| row.get(0)).unwrap());
    hub.restart();
    world.moved(0, hub);
}

#[test]
fn what_was_acknowledged_survives_every_kill_and_nothing_happens_twice() {
    let (kills, dice) = chosen(100);
    let mut hub = Hub::start();
    let (world, tokens) = (World::of(slice::from_ref(&hub), PATIENCE), Tokens::made_by(&hub));
    let kill = |hub: &mut Hub| kill_at_random(&world, hub, kills, dice(0));
    let histories = live_through(&world, &tokens, dice, &mut hub, kill, |hub| finish(&world, hub));
    checks::enough_happened(&histories, kills);
    checks::histories_agree(&world, &histories);
    checks::the_trail_tells_each_thing_once(&hub, &histories.asks);
    checks::the_trail_is_whole(&hub);
    assert!(hub.stop().success());
    let database = rusqlite::Connection::open(hub.home.join("aye.db")).unwrap();
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
