use super::*;

#[tokio::test]
async fn a_disputed_answer_is_an_alarm_through_a_restart_until_somebody_has_seen_it() {
    let mut desk = Desk::new().await;
    let (disputed, confirmed) = (desk.raise("a", None).await, desk.raise("b", None).await);
    for (ask, receipt) in [(&disputed, Receipt::Disputed), (&confirmed, Receipt::Confirmed)] {
        desk.answer(ask, "no").await.unwrap();
        let delivery = Delivery { receipt, evidence: Some("the transcript".into()) };
        desk.hub.receipt(ask.id.clone(), ask.agent.clone(), delivery).await.unwrap();
    }
    desk.crash_and_restart().await;
    let alarms = async |desk: &Desk| -> Vec<AskId> {
        desk.hub.alarms().await.unwrap().into_iter().map(|ask| ask.head.id).collect()
    };
    assert_eq!(alarms(&desk).await, std::slice::from_ref(&disputed.id));
    let mut changes = desk.hub.follow();
    desk.hub.mark_seen(disputed.id.clone(), "ann".into()).await.unwrap();
    assert!(alarms(&desk).await.is_empty());
    let told = next_change(&mut changes).await;
    let about_alarms = |notice: &Value| notice["about"] == "alarms";
    assert!(
        matches!(&told.subject, Subject::Notice(notice) if about_alarms(notice)),
        "other pages hear of it: {told:?}"
    );
    assert_eq!(desk.trail().await.last().map(String::as_str), Some("alarm.seen"));
}
