use super::*;

async fn alarms(desk: &Desk) -> Vec<AskId> {
    desk.hub.alarms().await.unwrap().into_iter().map(|ask| ask.head.id).collect()
}

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

#[tokio::test]
async fn a_request_that_somebody_else_answered_is_an_alarm_and_pages_hear_of_it() {
    let desk = Desk::new().await;
    let (answered, cancelled) = (desk.raise("a", None).await, desk.raise("b", None).await);
    let mut changes = desk.hub.follow();
    for (ask, why) in [(&cancelled, Withdrawal::Cancelled), (&answered, Withdrawal::SomebodyElse)] {
        desk.hub.withdraw(ask.id.clone(), ask.agent.clone(), why, None).await.unwrap();
    }
    assert_eq!(alarms(&desk).await, std::slice::from_ref(&answered.id));
    let about_alarms =
        |subject: &Subject| matches!(subject, Subject::Notice(notice) if notice["about"] == "alarms");
    while !about_alarms(&next_change(&mut changes).await.subject) {}
}
