//! The hub on a PostgreSQL database.

use super::several::second_home;
use super::*;
use aye_testkit::postgres::Cluster;

impl Desk {
    pub(super) async fn on(url: &str) -> Self {
        Self::on_with(url, "").await
    }

    pub(super) async fn on_with(url: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let section = format!("[store]\nurl = \"{url}\"\n{more}\n");
        std::fs::write(Home::at(dir.path()).config(), section).unwrap();
        let clock = Clock::manual(Timestamp::from_second(1_000_000).unwrap());
        let hub = open(&dir, &clock).await;
        Self { dir, clock, hub }
    }
}

/// Until the database is there again.
async fn insist(desk: &Desk, ask: &Ask, words: &str) -> Ask {
    loop {
        match desk.answer(ask, words).await {
            Ok(ask) => return ask,
            Err(Problem::Store(StoreError::Away(_))) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn what_was_asked_and_answered_survives_a_restart_and_verifies() {
    let mut desk = Desk::on(&Cluster::shared().new_database()).await;
    let (first, second) = (desk.raise("first", None).await, desk.raise("second", Some(10)).await);
    let mut changes = desk.hub.follow();
    assert_eq!(desk.answer(&first, "not \"now\"").await.unwrap().state.name(), "answered");
    let Subject::Ask(told) = &next_change(&mut changes).await.subject else { panic!("not an ask") };
    assert_eq!(told.id, first.id);
    desk.crash_and_restart().await;
    assert_eq!(desk.hub.ask(&first.id).await.unwrap().state.name(), "answered");
    let words = AskFilter { words: Some("NOT \"NOW".into()), limit: 10, ..AskFilter::default() };
    assert_eq!(desk.hub.asks(words).await.unwrap().asks.len(), 1);
    desk.pass(11).await;
    assert_eq!(desk.hub.ask(&second.id).await.unwrap().state.name(), "expired");
    desk.hub.inner.store.catch_up().await.unwrap();
    assert_eq!(desk.verified().unwrap().asks, 2);
    desk.hub.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_hub_goes_on_by_itself_after_its_connections_were_cut_and_its_database_was_restarted() {
    let cluster = Cluster::start();
    let desk = Desk::on(&cluster.new_database()).await;
    let (first, second) = (desk.raise("first", None).await, desk.raise("second", None).await);
    cluster.cut_connections();
    assert_eq!(desk.answer(&first, "no").await.unwrap().state.name(), "answered");
    assert_eq!(desk.hub.asks(AskFilter { limit: 10, ..AskFilter::default() }).await.unwrap().asks.len(), 2);
    cluster.stop_at_once();
    assert!(matches!(desk.answer(&second, "no").await, Err(Problem::Store(StoreError::Away(_)))));
    assert!(matches!(desk.hub.ask(&first.id).await, Err(Problem::Store(StoreError::Away(_)))));
    cluster.start_again();
    assert_eq!(insist(&desk, &second, "no").await.state.name(), "answered");
    desk.hub.inner.store.catch_up().await.unwrap();
    assert_eq!(desk.verified().unwrap().asks, 2);
    desk.hub.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_home_without_the_key_of_the_trail_is_refused_and_so_is_a_database_of_others() {
    let cluster = Cluster::shared();
    let desk = Desk::on(&cluster.new_database()).await;
    desk.hub.close().await;
    let second = second_home(&desk);
    std::fs::remove_file(Home::at(second.path()).chain_key_file()).unwrap();
    let refused = Hub::open(&Home::at(second.path()), desk.clock.clone()).await.err().unwrap().to_string();
    assert!(refused.contains("was written with the key"), "{refused}");
    let url = cluster.new_database();
    let name = url.split(['/', '?']).nth(3).unwrap();
    cluster.sql(name, "CREATE TABLE somebody_elses (x INT)");
    std::fs::write(Home::at(second.path()).config(), format!("[store]\nurl = \"{url}\"\n")).unwrap();
    let refused = Hub::open(&Home::at(second.path()), desk.clock.clone()).await.err().unwrap().to_string();
    assert!(refused.contains("it holds something else"), "{refused}");
}
