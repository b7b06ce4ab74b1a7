//! Clients raise and answer at random while the hub is killed at random moments: what was acknowledged
//! is there, once, as it was acknowledged.
//!
//! `AYE_KILLS=1000` kills more often than the usual 100; `AYE_SEED=…` repeats what a run chose to do.

use crate::support::{Hub, PATIENCE, Reply, aye, eventually, printed, try_call_on};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tungstenite::Message;

const RAISERS: u64 = 3;
const ANSWERERS: u64 = 4;

/// What all clients share: where the hub is, what was raised, and how each ask was seen to end.
struct World {
    socket: PathBuf,
    address: RwLock<String>,
    over: AtomicBool,
    /// The follower ends once it has seen this number.
    last_seq: AtomicU64,
    raised: Mutex<Vec<Value>>,
    endings: Mutex<HashMap<String, Value>>,
}

impl World {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Calls until a hub replies in full, however many are killed meanwhile.
    fn insist(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> Reply {
        let since = Instant::now();
        loop {
            match self.call(method, path, token, body) {
                Ok(reply) if reply.status != 503 => return reply,
                unheard => assert!(since.elapsed() < PATIENCE, "{method} {path}: {unheard:?}"),
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn call(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> io::Result<Reply> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
        let body = body.map(Value::to_string);
        try_call_on(stream, "localhost", method, path, &headers, body.as_ref().map(String::as_bytes))
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Reply {
        self.insist("POST", path, token, Some(body))
    }

    /// Whoever sees an ended ask sees the same ending as everybody before.
    fn saw_the_end_of(&self, ask: &Value) {
        assert_ne!(ask["state"], "open", "{ask}");
        let ending = ending(ask);
        let mut endings = self.endings.lock().unwrap();
        let first = endings.entry(id(ask)).or_insert_with(|| ending.clone());
        assert_eq!(*first, ending, "ask {} ended twice", id(ask));
    }
}

/// Even a failing test must not leave clients running.
struct EndsTheWorld<'a>(&'a World);

impl Drop for EndsTheWorld<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        self.0.last_seq.store(0, Ordering::SeqCst);
    }
}

fn id(ask: &Value) -> String {
    ask["id"].as_str().unwrap().to_owned()
}

fn ending(ask: &Value) -> Value {
    json!([ask["state"], ask["answer"], ask["by"], ask["ended_at"]])
}

/// Chance that can be repeated: the same seed rolls the same numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.roll(most))
    }
}

fn body(dice: &mut Dice, n: u64) -> (&'static str, Value) {
    match dice.roll(4) {
        0 => ("plan", json!({"plan": format!("# Plan {n}\n\n1. Begin.")})),
        1 => (
            "permission",
            json!({"tool": "Bash", "input": {"command": format!("make {n}")},
                   "scopes": [{"scope": "once"}, {"scope": "session"}]}),
        ),
        _ => (
            "question",
            json!({"questions": [{"question": format!("Number {n}?"), "free_text": true, "multi_select": true,
                   "options": [{"label": "yes"}, {"label": "no, or later"}, {"label": "perhaps"}]}]}),
        ),
    }
}

fn answer(dice: &mut Dice, kind: &str, words: &str) -> Value {
    match (kind, dice.roll(4)) {
        ("question", 0) => json!({"skip": true, "message": words}),
        ("question", 1) => json!({"response": words}),
        ("question", 2) => json!({"answers": [{"selected": ["yes", "no, or later"], "text": words}]}),
        ("question", _) => json!({"answers": [{"selected": ["perhaps"], "notes": words}]}),
        ("permission", 0 | 1) => json!({"decision": "allow", "scope": "session", "input": {"words": words}}),
        ("permission", _) => json!({"decision": "deny", "message": words, "interrupt": false}),
        (_, 0) => json!({"decision": "outline"}),
        (_, 1) => json!({"decision": "allow", "plan": words}),
        (_, _) => json!({"decision": "deny", "message": words}),
    }
}

/// What a raiser was told: its asks as first acknowledged, and the receipts that were.
#[derive(Default)]
struct RaisersNotes {
    asks: BTreeMap<String, Value>,
    receipts: HashMap<String, &'static str>,
}

fn raise_at_random(world: &World, agent: &str, token: &str, mut dice: Dice) -> RaisersNotes {
    let mut notes = RaisersNotes::default();
    let mut ids = Vec::new();
    for n in 1.. {
        if world.is_over() {
            break;
        }
        let key = format!("{agent}/{n}");
        let (kind, body) = body(&mut dice, n);
        let mut raise = json!({"key": key, "agent": agent, "kind": kind, "body": body});
        if dice.one_in(8) {
            raise["timeout"] = json!(format!("{}ms", 20 + dice.roll(400)));
        }
        let raised = world.post("/api/asks", token, &raise);
        assert!(matches!(raised.status, 200 | 201), "{raised:?}");
        let ask = raised.body;
        world.raised.lock().unwrap().push(ask.clone());
        ids.push(id(&ask));
        if dice.one_in(3) {
            let again = world.post("/api/asks", token, &raise);
            assert_eq!((again.status, &again.body["id"]), (200, &ask["id"]), "the same key is the same ask");
        }
        if dice.one_in(10) {
            raise["kind"] = json!("plan");
            raise["body"] = json!({"plan": "something else under the same key"});
            assert_eq!(world.post("/api/asks", token, &raise).status, 409);
        }
        if dice.one_in(6) {
            let path = format!("/api/asks/{}/withdraw", id(&ask));
            let reply = world.post(&path, token, &json!({"why": "cancelled"}));
            match reply.status {
                200 => world.saw_the_end_of(&reply.body),
                409 => world.saw_the_end_of(&reply.body["ask"]),
                _ => panic!("{reply:?}"),
            }
        }
        notes.asks.insert(key, ask);
        let some = &ids[dice.roll(ids.len() as u64) as usize];
        settle(world, some, token, &mut dice, &mut notes.receipts);
        thread::sleep(dice.millis(20));
    }
    notes
}

/// Looks how an ask ended, and reports what became of that.
fn settle(
    world: &World,
    ask: &str,
    token: &str,
    dice: &mut Dice,
    receipts: &mut HashMap<String, &'static str>,
) {
    let resolution = world.insist("GET", &format!("/api/asks/{ask}/resolution?wait=0"), token, None);
    if resolution.status != 200 || resolution.body["state"] == "withdrawn" {
        return;
    }
    let next = match receipts.get(ask) {
        None if dice.one_in(4) => "unknown",
        None => "delivered",
        Some(&"delivered" | &"unknown") => "confirmed",
        Some(_) => return,
    };
    let told =
        world.post(&format!("/api/asks/{ask}/receipt"), token, &json!({"receipt": next, "evidence": "seen"}));
    assert_eq!((told.status, &told.body["receipt"]), (200, &json!(next)), "{told:?}");
    receipts.insert(ask.to_owned(), next);
    world.saw_the_end_of(&told.body);
}

/// An answer that was acknowledged with 200.
struct Acknowledged {
    ask: String,
    key: Option<String>,
    answer: Value,
    by: String,
}

fn answer_at_random(world: &World, name: &str, token: &str, mut dice: Dice) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    for n in 1.. {
        if world.is_over() {
            break;
        }
        let newest: Vec<Value> = world.raised.lock().unwrap().iter().rev().take(5).cloned().collect();
        if newest.is_empty() {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let ask = &newest[dice.roll(newest.len() as u64) as usize];
        let answer = answer(&mut dice, ask["kind"].as_str().unwrap(), &format!("{name} says {n}"));
        let key = (!dice.one_in(5)).then(|| format!("{name}/{n}"));
        let path = format!("/api/asks/{}/answer", id(ask));
        let call = json!({"answer": answer, "digest": ask["digest"], "key": key});
        let reply = world.post(&path, token, &call);
        match reply.status {
            200 => {
                assert_eq!(reply.body["answer"], answer);
                assert_eq!(reply.body["by"], json!({"name": name, "surface": "api"}));
                world.saw_the_end_of(&reply.body);
                if key.is_some() && dice.one_in(3) {
                    let again = world.post(&path, token, &call);
                    assert_eq!(again.status, 200, "{again:?}");
                    world.saw_the_end_of(&again.body);
                    let other = answer_other_than(&answer, ask["kind"].as_str().unwrap());
                    let other = json!({"answer": other, "digest": ask["digest"], "key": key});
                    assert_eq!(world.post(&path, token, &other).status, 409);
                }
                acknowledged.push(Acknowledged { ask: id(ask), key, answer, by: name.to_owned() });
            }
            409 | 410 => {
                world.saw_the_end_of(&reply.body["ask"]);
                let expired = reply.body["ask"]["state"] == "expired";
                assert_eq!(reply.status == 410, expired, "{reply:?}");
            }
            _ => panic!("{reply:?}"),
        }
        thread::sleep(dice.millis(10));
    }
    acknowledged
}

fn answer_other_than(answer: &Value, kind: &str) -> Value {
    let other = match kind {
        "question" => json!({"response": "another answer under the same key"}),
        _ => json!({"decision": "deny", "message": "another answer under the same key"}),
    };
    assert_ne!(*answer, other);
    other
}

/// Follows the changes through every kill, and returns them all.
fn follow(world: &World, token: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut moved = Instant::now();
    let has_all = |seen: &Vec<Value>| seen.len() as u64 >= world.last_seq.load(Ordering::SeqCst);
    while !has_all(&seen) {
        assert!(moved.elapsed() < PATIENCE, "no change after {}", seen.len());
        let address = world.address.read().unwrap().clone();
        let Ok(mut socket) = crate::support::websocket(&address, token, &format!("?after={}", seen.len()))
        else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        while !has_all(&seen)
            && let Ok(message) = socket.read()
        {
            let Message::Text(text) = message else { continue };
            let change: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(change["seq"], seen.len() + 1, "a change is missing, or came twice: {change}");
            seen.push(change);
            moved = Instant::now();
        }
    }
    seen
}

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
        *world.address.write().unwrap() = hub.address.clone();
    }
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

#[test]
fn what_was_acknowledged_survives_every_kill_and_nothing_happens_twice() {
    let kills = from_env("AYE_KILLS").unwrap_or(100);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = from_env("AYE_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    eprintln!("{kills} kills; repeat with AYE_SEED={seed}");
    let dice = |n: u64| Dice(seed.wrapping_add(n.wrapping_mul(0xd134_2543_de82_ef95)));

    let mut hub = Hub::start();
    let world = World {
        socket: hub.home.join("aye.sock"),
        address: RwLock::new(hub.address.clone()),
        over: AtomicBool::new(false),
        last_seq: AtomicU64::new(u64::MAX),
        raised: Mutex::default(),
        endings: Mutex::default(),
    };
    let agents: Vec<_> = (0..RAISERS).map(|n| format!("raiser-{n}")).collect();
    let operator = hub.operator();
    let (world, operator, dice) = (&world, operator.as_str(), &dice);

    let (notes, acknowledged, seen, asks) = thread::scope(|scope| {
        let _end = EndsTheWorld(world);
        let raisers: Vec<_> = agents
            .iter()
            .zip(1..)
            .map(|(agent, n)| {
                let token = hub.agent(agent);
                scope.spawn(move || raise_at_random(world, agent, &token, dice(n)))
            })
            .collect();
        let answerers: Vec<_> = (0..ANSWERERS)
            .map(|n| {
                let name = format!("answerer-{n}");
                let token = json!({"role": "operator", "name": name});
                let token =
                    hub.post("/api/tokens", operator, token).body["token"].as_str().unwrap().to_owned();
                scope.spawn(move || answer_at_random(world, &name, &token, dice(100 + n)))
            })
            .collect();
        let follower = scope.spawn(|| follow(world, operator));

        kill_at_random(world, &mut hub, kills, dice(0));
        world.over.store(true, Ordering::SeqCst);
        let notes: Vec<_> = raisers.into_iter().map(|raiser| raiser.join().unwrap()).collect();
        let acknowledged: Vec<_> =
            answerers.into_iter().flat_map(|answerer| answerer.join().unwrap()).collect();

        let asks = eventually("the last deadlines", || {
            let asks = all_asks(world, &agents, operator);
            let waiting = |ask: &Value| ask["state"] == "open" && !ask["deadline"].is_null();
            (!asks.values().any(waiting)).then_some(asks)
        });
        assert!(hub.stop().success());
        world.last_seq.store(last_seq(&hub), Ordering::SeqCst);
        hub.restart();
        *world.address.write().unwrap() = hub.address.clone();
        let seen = follower.join().unwrap();
        (notes, acknowledged, seen, asks)
    });

    let counts = (asks.len(), acknowledged.len(), seen.len());
    eprintln!("{counts:?} asks, acknowledged answers, changes");
    assert!(asks.len() as u64 > kills && acknowledged.len() as u64 > kills / 2, "too little happened");
    every_acknowledged_raise_is_there_once(&notes, &asks);
    every_acknowledged_answer_is_there_as_it_was(&acknowledged, &asks);
    everything_ended_has_stayed_so(world, &asks);
    receipts_are_as_acknowledged(&notes, &asks);
    the_follower_saw_it_all(&seen, &asks);
    the_trail_tells_each_thing_once(&hub, &asks);
    let verified = hub.aye(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
    assert!(hub.stop().success());
    let database = rusqlite::Connection::open(hub.home.join("aye.db")).unwrap();
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

fn all_asks(world: &World, agents: &[String], operator: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for agent in agents {
        let list = world.insist("GET", &format!("/api/asks?state=all&agent={agent}"), operator, None);
        for ask in list.body["asks"].as_array().unwrap() {
            assert!(all.insert(id(ask), ask.clone()).is_none(), "two asks have one id");
        }
    }
    all
}

fn last_seq(hub: &Hub) -> u64 {
    let database = rusqlite::Connection::open(hub.home.join("aye.db")).unwrap();
    database.query_row("SELECT max(seq) FROM outbox", [], |row| row.get(0)).unwrap()
}

fn every_acknowledged_raise_is_there_once(notes: &[RaisersNotes], asks: &BTreeMap<String, Value>) {
    let immutable = |ask: &Value| {
        ["id", "key", "agent", "kind", "digest", "created_at", "deadline", "body"].map(|f| ask[f].clone())
    };
    let mut acknowledged = 0;
    for ask in notes.iter().flat_map(|notes| notes.asks.values()) {
        assert_eq!(immutable(ask), immutable(&asks[&id(ask)]));
        acknowledged += 1;
    }
    // No raiser gives up before it is told, so there is nothing that nobody knows of.
    assert_eq!(asks.len(), acknowledged);
}

fn every_acknowledged_answer_is_there_as_it_was(told: &[Acknowledged], asks: &BTreeMap<String, Value>) {
    let mut winners = HashSet::new();
    for told in told {
        let ask = &asks[&told.ask];
        let by = json!({"name": told.by, "surface": "api"});
        assert_eq!((&ask["state"], &ask["answer"], &ask["by"]), (&json!("answered"), &told.answer, &by));
        assert!(winners.insert(&told.ask), "{} was acknowledged to two, {:?}", told.ask, told.key);
    }
}

fn everything_ended_has_stayed_so(world: &World, asks: &BTreeMap<String, Value>) {
    let endings = world.endings.lock().unwrap();
    for (id, seen) in endings.iter() {
        assert_eq!(*seen, ending(&asks[id]));
    }
    let states: HashSet<_> = endings.values().map(|ending| ending[0].as_str().unwrap()).collect();
    assert_eq!(states, HashSet::from(["answered", "expired", "withdrawn"]));
}

fn receipts_are_as_acknowledged(notes: &[RaisersNotes], asks: &BTreeMap<String, Value>) {
    for (id, receipt) in notes.iter().flat_map(|notes| &notes.receipts) {
        assert_eq!(asks[id]["receipt"], *receipt);
    }
}

/// The last that was seen of each ask is its state, and no ask was seen to end twice.
fn the_follower_saw_it_all(seen: &[Value], asks: &BTreeMap<String, Value>) {
    let mut stood: BTreeMap<String, Value> = BTreeMap::new();
    for change in seen.iter().filter(|change| change["type"] == "ask") {
        let ask = &change["ask"];
        if let Some(before) = stood.insert(id(ask), ask.clone())
            && before["state"] != "open"
        {
            assert_eq!(ending(&before), ending(ask));
        }
    }
    assert_eq!(stood, *asks);
}

fn the_trail_tells_each_thing_once(hub: &Hub, asks: &BTreeMap<String, Value>) {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in printed(&hub.aye(&["log", "--kind", "ask.", "--json"])).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let kind = line["kind"].as_str().unwrap().to_owned();
        told.entry(line["ask"].as_str().unwrap().to_owned()).or_default().push(kind);
    }
    let expected = asks.iter().map(|(id, ask)| {
        let mut kinds = vec!["ask.raised".to_owned()];
        if ask["state"] != "open" {
            kinds.push(format!("ask.{}", ask["state"].as_str().unwrap()));
        }
        (id.clone(), kinds)
    });
    assert_eq!(told, expected.collect());
}
