use super::*;

fn memo(key: &str, body: Option<Value>) -> Memo {
    Memo { kind: "note", key: key.into(), body }
}

/// Only one of several hubs talks to Telegram.
async fn takes_telegram(desk: &Desk) {
    assert!(desk.hub.take_lease(TELEGRAM_LEASE, SignedDuration::from_mins(10)).await.unwrap());
}

async fn recalled(desk: &Desk) -> Vec<(String, Value)> {
    desk.hub.recall(Surface::Telegram, "note").await.unwrap()
}

#[tokio::test]
async fn what_a_surface_remembers_outlives_a_crash_and_is_its_own() {
    let mut desk = Desk::new().await;
    takes_telegram(&desk).await;
    let memos = vec![memo("a", Some(json!(1))), memo("b", Some(json!({"x": 2})))];
    desk.hub.remember(Surface::Telegram, memos).await.unwrap();
    desk.hub.remember(Surface::Telegram, vec![memo("a", None), memo("c", Some(json!(3)))]).await.unwrap();
    desk.crash_and_restart().await;
    assert_eq!(recalled(&desk).await, [("b".into(), json!({"x": 2})), ("c".into(), json!(3))]);
    assert_eq!(desk.hub.recall(Surface::Web, "note").await.unwrap(), []);
}

#[tokio::test]
async fn a_command_that_is_refused_leaves_nothing_remembered() {
    let desk = Desk::new().await;
    takes_telegram(&desk).await;
    desk.raise("k", None).await;
    let queue = |name, memos| {
        desk.hub.command_and_remember(agent(name), Command::Stop, "ann".into(), Surface::Telegram, memos)
    };
    let refused = queue("agent", vec![memo("a", Some(json!(1)))]).await;
    assert!(matches!(refused, Err(Problem::Conflict(_))), "a script takes no commands");
    assert_eq!(recalled(&desk).await, []);
    let driven = Registration { reach: Some(aye_core::Reach::Driven), ..Registration::default() };
    desk.hub.register(agent("driven"), driven).await.unwrap();
    queue("driven", vec![memo("a", Some(json!(1)))]).await.unwrap();
    assert_eq!(recalled(&desk).await, [("a".into(), json!(1))]);
    let commands = desk.hub.commands(&agent("driven"), 0, Duration::ZERO).await.unwrap();
    assert_eq!(commands.len(), 1);
}
