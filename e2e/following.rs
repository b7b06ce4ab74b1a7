//! Following a hub as adapters and commands do, with the program's own client.

use crate::support::Hub;
use aye::client::{Client, Follower};
use aye::home::Home;
use aye::protocol::{Frame, Snapshot};
use serde_json::{Value, json};

async fn snapshot(changes: &mut Follower) -> Snapshot {
    match changes.next().await.unwrap() {
        Frame::Snapshot(snapshot) => snapshot,
        other => panic!("{other:?} instead of a snapshot"),
    }
}

/// The next ask that is told of, and the number of that change.
async fn next_ask(changes: &mut Follower) -> (u64, String) {
    loop {
        match changes.next().await {
            Ok(Frame::Ask { seq, ask }) => return (seq, ask.id.to_string()),
            Ok(Frame::Agent { .. }) => {}
            Ok(other) => panic!("{other:?} instead of an ask"),
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
    }
}

fn id(ask: &Value) -> String {
    ask["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_follows_misses_nothing_and_sees_nothing_twice_while_the_hub_is_killed_and_back() {
    let mut hub = Hub::start();
    let bot = hub.agent("bot");
    let plan = |key: &str| hub.raise(&bot, "bot", key, "plan", json!({"plan": "1. x"}));
    let first = plan("a");
    let client = Client::for_person(&Home::at(&hub.home)).unwrap();
    let mut changes = client.follow();
    let begun = snapshot(&mut changes).await;
    assert_eq!(begun.asks.iter().map(|ask| ask.id.to_string()).collect::<Vec<_>>(), [id(&first)]);
    assert_eq!(begun.agents.len(), 1);
    let (second, third) = (id(&plan("b")), id(&plan("c")));
    let (last, told) = next_ask(&mut changes).await;
    assert_eq!((last > begun.seq, told), (true, second));
    hub.kill();
    hub.restart();
    let fourth = id(&hub.raise(&bot, "bot", "d", "plan", json!({"plan": "1. x"})));
    for expected in [third, fourth] {
        assert_eq!(next_ask(&mut changes).await.1, expected);
    }
    // A token that counts no more ends it for good.
    std::fs::write(hub.home.join("operator.token"), "aye_operator_0000").unwrap();
    let stranger = Client::for_person(&Home::at(&hub.home)).unwrap();
    let refused = stranger.follow().next().await.unwrap_err();
    assert_eq!((refused.status().map(|status| status.as_u16()), refused.is_passing()), (Some(401), false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_has_every_open_ask_however_much_that_is() {
    let hub = Hub::start();
    for agent in ["bot", "other"] {
        hub.fill(agent);
    }
    let open = hub.get("/api/asks?state=open&limit=1", &hub.operator()).body["asks"][0].clone();
    let client = Client::for_person(&Home::at(&hub.home)).unwrap();
    let begun = snapshot(&mut client.follow()).await;
    assert_eq!(begun.asks[0].id.as_str(), open["id"]);
    let all: Value = serde_json::from_slice(&hub.aye(&["list", "--json"]).stdout).unwrap();
    assert_eq!((begun.asks.len(), begun.next), (all["asks"].as_array().unwrap().len(), None));
}
