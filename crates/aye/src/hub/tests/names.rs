use super::*;

#[tokio::test]
async fn a_name_that_a_person_gave_stays_whatever_the_adapter_says_later() {
    let mut desk = Desk::new().await;
    let agent = desk.raise("a", None).await.head.agent;
    desk.hub.rename_agent(agent.clone(), Text::try_from("The parser").unwrap(), "ann".into()).await.unwrap();
    desk.crash_and_restart().await;
    let told = Registration { title: Some("fix it".into()), ..Registration::default() };
    assert_eq!(desk.hub.register(agent.clone(), told).await.unwrap().title, "The parser");
    assert_eq!(desk.hub.agent(agent.as_str()).await.unwrap().title, "The parser");
    let long = Text::try_from("x".repeat(201)).unwrap();
    assert!(desk.hub.rename_agent(agent, long, "ann".into()).await.is_err());
}
