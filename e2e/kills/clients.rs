//! Clients that raise, answer and follow at random, and write down what they were told.

use super::{Dice, World, id};
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tungstenite::Message;

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
pub struct RaisersNotes {
    pub agent: String,
    /// How many things it said, each in a report of its own.
    pub said: u64,
    pub asks: BTreeMap<String, Value>,
    pub receipts: HashMap<String, &'static str>,
}

pub fn raise_at_random(world: &World, agent: &str, token: &str, mut dice: Dice) -> RaisersNotes {
    let mut notes = RaisersNotes { agent: agent.to_owned(), ..RaisersNotes::default() };
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
        say(world, agent, token, n);
        notes.said = n;
        let some = &ids[dice.roll(ids.len() as u64) as usize];
        settle(world, some, token, &mut dice, &mut notes.receipts);
        thread::sleep(dice.millis(20));
    }
    notes
}

/// Reports one thing, as often as it takes until a hub says that it was heard.
fn say(world: &World, agent: &str, token: &str, n: u64) {
    let event = json!({"type": "tool", "id": n.to_string(), "name": "Bash", "input": {"command": "ls"}});
    let report = json!({"events": [event], "number": {"reporter": "notes", "n": n}});
    let told = world.post(&format!("/api/agents/{agent}/events"), token, &report);
    assert_eq!(told.status, 204, "{told:?}");
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
pub struct Acknowledged {
    pub ask: String,
    pub key: Option<String>,
    pub answer: Value,
    pub by: String,
}

pub fn answer_at_random(world: &World, name: &str, token: &str, mut dice: Dice) -> Vec<Acknowledged> {
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

/// Follows the changes at one hub, and at the next where that one cannot be reached. Returns them all.
pub fn follow(world: &World, token: &str, first: usize) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut moved = Instant::now();
    let has_all = |seen: &Vec<Value>| seen.len() as u64 >= world.last_seq.load(Ordering::SeqCst);
    for n in first.. {
        if has_all(&seen) {
            break;
        }
        assert!(moved.elapsed() < PATIENCE, "no change after {}", seen.len());
        let address = world.places[n % world.places.len()].address.read().unwrap().clone();
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
