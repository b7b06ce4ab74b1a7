//! Answers to secret questions: for the agent alone, and kept no longer than until it has them.

use super::*;
use aye_core::NOT_KEPT;
use store::by_hand::change_rows;

const SECRET: &str = "correct horse battery staple";

fn asking() -> Raise {
    let question = |secret: bool| json!({"question": "Which?", "free_text": true, "secret": secret});
    let body = json!({"questions": [question(true), question(false)]});
    Raise { body: Body::decode(Kind::Question, body).unwrap(), ..raise("agent", "k", "x", None) }
}

fn given(secret: &str) -> Value {
    json!({"answers": [{"text": secret}, {"text": "in the open"}]})
}

fn telling(ask: &Ask, secret: &str, surface: Surface) -> AnswerCall {
    let by = By::Person { name: Text::try_from("ann").unwrap(), surface };
    AnswerCall { answer: given(secret), by, ..call(ask, "ann", "", Some("once")) }
}

impl Desk {
    pub(super) async fn asks_for_a_secret(&self) -> Ask {
        self.hub.raise(asking()).await.unwrap().ask
    }

    pub(super) async fn tells(&self, ask: &Ask, secret: &str) -> Result<Ask, Problem> {
        self.hub.answer(telling(ask, secret, Surface::Terminal)).await
    }

    /// What the agent is told, as JSON.
    pub(super) async fn agent_hears(&self, ask: &Ask) -> Value {
        let heard = self.hub.resolution(&ask.id, &agent("agent"), Duration::ZERO).await.unwrap().unwrap();
        serde_json::to_value(heard.outcome.answer).unwrap()
    }

    async fn receipt(&self, ask: &Ask, receipt: Receipt) {
        let delivery = Delivery { receipt, evidence: Some("seen".into()) };
        self.hub.receipt(ask.id.clone(), agent("agent"), delivery).await.unwrap();
    }

    /// The files of the hub that have the secret in them, or its database on a server.
    fn files_with_it(&self) -> Vec<String> {
        if let Some(dump) = store::test_databases::dump(self.dir.path()) {
            return dump.contains(SECRET).then(|| "the database".to_owned()).into_iter().collect();
        }
        let files = std::fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().path());
        let has_it = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
        };
        files.filter(has_it).map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }
}

#[tokio::test]
async fn a_secret_goes_to_the_agent_and_nothing_keeps_it_once_it_is_delivered() {
    let mut desk = Desk::with_policy("").await;
    let mut changes = desk.hub.follow();
    let ask = desk.asks_for_a_secret().await;
    let answered = desk.tells(&ask, SECRET).await.unwrap();
    let shown = serde_json::to_value(&answered).unwrap()["answer"].clone();
    assert_eq!(shown["answers"][1], json!({"text": "in the open"}));
    assert!(
        shown["answers"][0]["secret"]["mac"].is_string() && !shown.to_string().contains(SECRET),
        "{shown}"
    );
    assert_eq!(answered.state.answer().unwrap().message(), None);
    let told = loop {
        if let store::Subject::Ask(ask) = &next_change(&mut changes).await.subject
            && !ask.state.is_open()
        {
            break serde_json::to_value(ask).unwrap();
        }
    };
    assert_eq!(told["answer"], shown);
    // Until it is delivered, it survives everything.
    desk.crash_and_restart().await;
    assert_eq!(desk.agent_hears(&ask).await, given(SECRET));
    desk.receipt(&ask, Receipt::Delivered).await;
    // The log is emptied right after the commit that the receipt waits for.
    desk.hub.inner.store.catch_up().await.unwrap();
    assert_eq!(desk.files_with_it(), Vec::<String>::new());
    assert_eq!(desk.agent_hears(&ask).await, shown);
    desk.receipt(&ask, Receipt::Confirmed).await;
    desk.verified().unwrap();
    let later = desk.hub.ask(&ask.id).await.unwrap();
    let aye_core::Answer::Question(aye_core::Reply::Each { answers }) = later.state.answer().unwrap() else {
        panic!("{later:?}")
    };
    assert_eq!(answers[0].in_words(), NOT_KEPT);
}

#[tokio::test]
async fn the_same_answer_again_is_recognised_and_another_is_not() {
    let desk = Desk::new().await;
    let ask = desk.asks_for_a_secret().await;
    let first = desk.tells(&ask, SECRET).await.unwrap();
    assert_eq!(desk.tells(&ask, SECRET).await.unwrap(), first);
    desk.receipt(&ask, Receipt::Delivered).await;
    let again = desk.tells(&ask, SECRET).await.unwrap();
    assert_eq!(
        (again.state.receipt(), again.state.answer()),
        (Some(Receipt::Delivered), first.state.answer())
    );
    let other = desk.tells(&ask, "hunter2").await.unwrap_err();
    assert!(matches!(other, Problem::Refused { refused: Refused::Ended, .. }), "{other:?}");
    desk.hub.inner.store.catch_up().await.unwrap();
    assert_eq!(desk.files_with_it(), Vec::<String>::new());
}

#[tokio::test]
async fn a_secret_that_nobody_takes_is_deleted_with_its_agent_or_when_that_is_silent() {
    for silent in [false, true] {
        let desk = match silent {
            true => Desk::on_sqlite(SILENCE).await,
            false => Desk::new().await,
        };
        let ask = desk.asks_for_a_secret().await;
        desk.tells(&ask, SECRET).await.unwrap();
        assert!(!desk.files_with_it().is_empty());
        match silent {
            true => desk.pass(60).await,
            false => drop(desk.hub.register(agent("agent"), Registration::ended()).await.unwrap()),
        }
        desk.hub.inner.store.catch_up().await.unwrap();
        assert_eq!(desk.hub.ask(&ask.id).await.unwrap().state.receipt(), Some(Receipt::Undelivered));
        assert_eq!(desk.files_with_it(), Vec::<String>::new(), "silent: {silent}");
    }
}

#[tokio::test]
async fn a_secret_is_not_taken_from_telegram() {
    let desk = Desk::new().await;
    let ask = desk.asks_for_a_secret().await;
    let refused = desk.hub.answer(telling(&ask, SECRET, Surface::Telegram)).await.unwrap_err();
    assert!(refused.to_string().contains("never sent over Telegram"), "{refused}");
    assert!(desk.hub.ask(&ask.id).await.unwrap().state.is_open());
}

#[tokio::test]
async fn what_was_answered_in_the_agents_terminal_is_not_kept_either() {
    let desk = Desk::with_policy("").await;
    let ask = desk.asks_for_a_secret().await;
    let (id, why) = (ask.id.clone(), Withdrawal::Terminal);
    let withdrawn = desk.hub.withdraw(id, agent("agent"), why, Some(given(SECRET))).await.unwrap();
    assert!(withdrawn.state.answer().unwrap().salt().is_some());
    assert_eq!(desk.files_with_it(), Vec::<String>::new());
    desk.verified().unwrap();
}

#[tokio::test]
async fn a_secret_that_somebody_else_wrote_is_told_to_nobody() {
    let desk = Desk::on_sqlite_with_policy("", BY_HAND).await;
    let ask = desk.asks_for_a_secret().await;
    desk.tells(&ask, SECRET).await.unwrap();
    change_rows(&desk.database(), r#"UPDATE secrets SET answer = replace(answer, 'horse', 'donkey')"#);
    let told = desk.hub.resolution(&ask.id, &agent("agent"), Duration::ZERO).await.unwrap_err();
    assert!(told.to_string().contains("changed, and not by the hub"), "{told}");
}
