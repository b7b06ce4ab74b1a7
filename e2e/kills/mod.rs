//! Clients raise, answer and follow at random while hubs are killed at random moments: what was acknowledged is there, once,
//! as it was acknowledged.
//!
//! `AYE_KILLS=1000` kills more often than the suite does; `AYE_SEED=…` repeats what a run chose to do.

mod checks;
mod clients;
mod postgres;
mod sqlite;

use crate::support::{Hub, PATIENCE, Reply, eventually, try_call_on};
use clients::{Acknowledged, RaisersNotes, answer_at_random, follow, raise_at_random};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const RAISERS: u64 = 3;
const ANSWERERS: u64 = 4;

/// What all clients share: where the hubs are, what was raised, and how each ask was seen to end.
struct World {
    places: Vec<Place>,
    /// After this, a call that got no reply is tried at the next hub.
    reply_within: Duration,
    /// Whose turn it is to be called.
    turn: AtomicUsize,
    over: AtomicBool,
    /// Followers end once they have seen this number.
    last_seq: AtomicU64,
    raised: Mutex<Vec<Value>>,
    endings: Mutex<HashMap<String, Value>>,
}

/// Where a hub is reached, in whatever process it lives now.
struct Place {
    socket: PathBuf,
    address: RwLock<String>,
}

impl World {
    fn of(hubs: &[Hub], reply_within: Duration) -> Self {
        let place = |hub: &Hub| Place {
            socket: hub.home.join("aye.sock"),
            address: RwLock::new(hub.address.clone()),
        };
        Self {
            places: hubs.iter().map(place).collect(),
            reply_within,
            turn: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            last_seq: AtomicU64::new(u64::MAX),
            raised: Mutex::default(),
            endings: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// The hub has a new process.
    fn moved(&self, n: usize, hub: &Hub) {
        *self.places[n].address.write().unwrap() = hub.address.clone();
    }

    /// Calls one hub after the other until one replies in full, however many are killed meanwhile.
    fn insist(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> Reply {
        let (since, first) = (Instant::now(), self.turn.fetch_add(1, Ordering::SeqCst));
        for n in first.. {
            match self.call(&self.places[n % self.places.len()], method, path, token, body) {
                Ok(reply) if reply.status != 503 => return reply,
                unheard => assert!(since.elapsed() < PATIENCE, "{method} {path}: {unheard:?}"),
            }
            thread::sleep(Duration::from_millis(2));
        }
        unreachable!()
    }

    fn call(
        &self,
        place: &Place,
        method: &str,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> io::Result<Reply> {
        let stream = UnixStream::connect(&place.socket)?;
        stream.set_read_timeout(Some(self.reply_within))?;
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

    /// There are no changes after this one; said while no hub runs, so that no follower waits for more.
    fn ends_at(&self, seq: u64) {
        self.last_seq.store(seq, Ordering::SeqCst);
    }

    /// What an agent said, in order.
    fn all_events(&self, tokens: &Tokens, agent: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().map_or(0, |event| event["seq"].as_u64().unwrap());
            let path = format!("/api/agents/{agent}/events?after={after}");
            let page = self.insist("GET", &path, &tokens.operator, None);
            let page = page.body["events"].as_array().unwrap().clone();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    /// Every ask of these agents.
    fn all_asks(&self, tokens: &Tokens) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for (agent, _) in &tokens.raisers {
            let path = format!("/api/asks?state=all&agent={agent}");
            let list = self.insist("GET", &path, &tokens.operator, None);
            for ask in list.body["asks"].as_array().unwrap() {
                assert!(all.insert(id(ask), ask.clone()).is_none(), "two asks have one id");
            }
        }
        all
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

/// How often to kill, and the seed of all dice.
fn chosen(usual: u64) -> (u64, impl Fn(u64) -> Dice + Copy) {
    let from_env = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let kills = from_env("AYE_KILLS").unwrap_or(usual);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = from_env("AYE_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    eprintln!("{kills} kills; repeat with AYE_SEED={seed}");
    (kills, move |n: u64| Dice(seed.wrapping_add(n.wrapping_mul(0xd134_2543_de82_ef95))))
}

/// Who the clients are.
struct Tokens {
    operator: String,
    /// Names with their tokens.
    raisers: Vec<(String, String)>,
    answerers: Vec<(String, String)>,
}

impl Tokens {
    fn made_by(hub: &Hub) -> Self {
        let operator = hub.token("operator");
        let answerer = |name: String| {
            let made = hub.post("/api/tokens", &operator, json!({"role": "operator", "name": name}));
            (name, made.body["token"].as_str().unwrap().to_owned())
        };
        let raiser = |name: String| (name.clone(), hub.agent(&name));
        Self {
            raisers: (0..RAISERS).map(|n| raiser(format!("raiser-{n}"))).collect(),
            answerers: (0..ANSWERERS).map(|n| answerer(format!("answerer-{n}"))).collect(),
            operator,
        }
    }
}

/// What the clients were told, and what is there in the end.
struct Histories {
    raised: Vec<RaisersNotes>,
    acknowledged: Vec<Acknowledged>,
    /// What each follower saw.
    seen: Vec<Vec<Value>>,
    asks: BTreeMap<String, Value>,
    /// What each raiser said, as it is kept.
    said: BTreeMap<String, Vec<Value>>,
}

/// Has the clients live through what `kill` does to the hubs. Then `finish` stops the hubs, tells the world how many changes
/// there were, and starts them again.
fn live_through<T>(
    world: &World,
    tokens: &Tokens,
    dice: impl Fn(u64) -> Dice + Copy,
    stage: &mut T,
    kill: impl FnOnce(&mut T),
    finish: impl FnOnce(&mut T),
) -> Histories {
    thread::scope(|scope| {
        let _end = EndsTheWorld(world);
        let raisers = tokens.raisers.iter().zip(1..).map(|((agent, token), n)| {
            let dice = dice(n);
            scope.spawn(move || raise_at_random(world, agent, token, dice))
        });
        let raisers: Vec<_> = raisers.collect();
        let answerers = tokens.answerers.iter().zip(100..).map(|((name, token), n)| {
            let dice = dice(n);
            scope.spawn(move || answer_at_random(world, name, token, dice))
        });
        let answerers: Vec<_> = answerers.collect();
        let followers =
            (0..world.places.len()).map(|n| scope.spawn(move || follow(world, &tokens.operator, n)));
        let followers: Vec<_> = followers.collect();

        kill(stage);
        world.over.store(true, Ordering::SeqCst);
        let raised = raisers.into_iter().map(|raiser| raiser.join().unwrap()).collect();
        let acknowledged = answerers.into_iter().flat_map(|answerer| answerer.join().unwrap()).collect();
        let asks = eventually("the last deadlines", || {
            let asks = world.all_asks(tokens);
            let waiting = |ask: &Value| ask["state"] == "open" && !ask["deadline"].is_null();
            (!asks.values().any(waiting)).then_some(asks)
        });
        let said = tokens.raisers.iter().map(|(agent, _)| (agent.clone(), world.all_events(tokens, agent)));
        let said = said.collect();
        finish(stage);
        let seen = followers.into_iter().map(|follower| follower.join().unwrap()).collect();
        Histories { raised, acknowledged, seen, asks, said }
    })
}
