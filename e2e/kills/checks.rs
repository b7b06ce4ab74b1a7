//! What must hold of the clients' histories, whatever was killed meanwhile.

use super::clients::{Acknowledged, RaisersNotes};
use super::{Histories, World, ending, id};
use crate::support::{Hub, printed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

pub fn enough_happened(histories: &Histories, kills: u64) {
    let counts = (histories.asks.len(), histories.acknowledged.len(), histories.seen[0].len());
    eprintln!("{counts:?} asks, acknowledged answers, changes");
    assert!(counts.0 as u64 > kills && counts.1 as u64 > kills / 2, "too little happened");
}

/// What the clients were told agrees with what is there, and with what the others were told.
pub fn histories_agree(world: &World, histories: &Histories) {
    let Histories { raised, acknowledged, seen, asks, said } = histories;
    every_acknowledged_raise_is_there_once(raised, asks);
    every_acknowledged_answer_is_there_as_it_was(acknowledged, asks);
    everything_ended_has_stayed_so(world, asks);
    receipts_are_as_acknowledged(raised, asks);
    what_was_said_is_there_once_and_in_order(raised, said);
    seen.iter().for_each(|seen| the_follower_saw_it_all(seen, asks));
}

pub fn the_trail_is_whole(hub: &Hub) {
    let verified = hub.aye(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
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

fn what_was_said_is_there_once_and_in_order(notes: &[RaisersNotes], said: &BTreeMap<String, Vec<Value>>) {
    for notes in notes {
        let ids = said[&notes.agent].iter().map(|event| event["event"]["id"].as_str().unwrap().to_owned());
        assert_eq!(ids.collect::<Vec<_>>(), (1..=notes.said).map(|n| n.to_string()).collect::<Vec<_>>());
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

pub fn the_trail_tells_each_thing_once(hub: &Hub, asks: &BTreeMap<String, Value>) {
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
