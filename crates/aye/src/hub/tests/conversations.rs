//! Conversations: what a reader has, whenever it comes, whatever was streamed, forgotten or interrupted.

use super::*;
use proptest::prelude::*;

fn delta(id: &str, text: &str) -> Value {
    json!({ "type": "text", "id": id, "delta": text })
}

fn complete(id: &str, text: &str) -> Value {
    json!({ "type": "text", "id": id, "text": text })
}

impl Desk {
    pub(super) async fn say(&self, events: Vec<Value>) {
        self.hub.report(agent("a"), events, Vec::new()).await.unwrap();
    }

    pub(super) async fn events(&self, page: EventPage) -> Vec<(u64, Value)> {
        self.hub.events(agent("a"), page, 1000).await.unwrap()
    }

    /// The texts of the conversation, oldest first, with a mark after those that go on.
    async fn texts(&self) -> Vec<String> {
        let mark = |event: &Value| if event["partial"] == true { "…" } else { "" };
        let all = self.events(EventPage::After(0)).await;
        all.iter().map(|(_, event)| format!("{}{}", event["text"].as_str().unwrap(), mark(event))).collect()
    }

    async fn talking() -> Self {
        Self::new().await.talks().await
    }

    async fn talks(self) -> Self {
        self.hub.register(agent("a"), Registration::default()).await.unwrap();
        self
    }
}

/// What a follower has put together of the pieces and texts that came.
fn put_together(known: &mut String, followed: &Followed) {
    match followed {
        Followed::Piece(piece) => {
            let have = known.chars().count() as u64;
            if piece.from <= have {
                known.extend(piece.text.chars().skip((have - piece.from) as usize));
            }
        }
        Followed::Change(change) => {
            if let Subject::Event(_, event) = &change.subject
                && let Some(text) = event["text"].as_str()
                && !(event["partial"] == true && known.starts_with(text))
            {
                text.clone_into(known);
            }
        }
        Followed::Lost => panic!("lost"),
    }
}

#[tokio::test]
async fn a_late_reader_has_the_text_so_far_and_then_the_whole_in_its_place() {
    let desk = Desk::talking().await;
    desk.say(vec![delta("t", "one ")]).await;
    assert_eq!(desk.texts().await, ["one …"]);
    desk.say(vec![delta("t", "two ")]).await;
    desk.say(vec![delta("t", "three")]).await;
    assert_eq!(desk.texts().await, ["one two three…"]);
    desk.say(vec![complete("t", "one two three.")]).await;
    assert_eq!(desk.texts().await, ["one two three."]);
}

#[tokio::test]
async fn pieces_are_passed_on_live_and_take_no_number() {
    let desk = Desk::talking().await;
    desk.say(vec![delta("t", "a")]).await;
    let before = desk.hub.last_seq().await.unwrap();
    let (mut first, mut second) = (desk.hub.follow(), desk.hub.follow());
    for n in 0..100 {
        desk.say(vec![delta("t", &n.to_string())]).await;
    }
    assert_eq!(desk.hub.last_seq().await.unwrap(), before);
    for follower in [&mut first, &mut second] {
        let mut known = "a".to_owned();
        while let Some(followed) = follower.next_if_any().await.unwrap() {
            assert!(matches!(followed, Followed::Piece(_)));
            put_together(&mut known, &followed);
        }
        assert_eq!(known, "a".to_owned() + &(0..100).map(|n| n.to_string()).collect::<String>());
    }
}

#[tokio::test]
async fn the_text_so_far_is_written_while_it_streams_and_survives_a_kill() {
    let mut desk = Desk::talking().await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    desk.hub.start_timers(&tasks, stop.clone());
    let mut changes = desk.hub.follow();
    desk.say(vec![delta("t", "so "), delta("t", "far")]).await;
    let written =
        Subject::Event(agent("a"), json!({"type": "text", "id": "t", "text": "so far", "partial": true}));
    while next_change(&mut changes).await.subject != written {}
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    desk.crash_and_restart().await;
    assert_eq!(desk.texts().await, ["so far…"]);
    desk.say(vec![complete("t", "so far so good")]).await;
    assert_eq!(desk.texts().await, ["so far so good"]);
}

#[tokio::test]
async fn what_happens_in_the_middle_of_a_text_keeps_its_place() {
    let desk = Desk::talking().await;
    let tool = json!({ "type": "tool", "id": "u", "text": "tool" });
    desk.say(vec![delta("t", "one "), tool, delta("t", "two")]).await;
    assert_eq!(desk.texts().await, ["tool", "one two…"]);
    desk.say(vec![delta("next", "another")]).await;
    assert_eq!(desk.texts().await, ["tool", "one two…", "another…"]);
    desk.hub.register(agent("a"), Registration::ended()).await.unwrap();
    assert_eq!(desk.texts().await, ["tool", "one two…", "another…"]);
}

#[tokio::test]
async fn a_conversation_is_paged_from_both_ends() {
    let desk = Desk::talking().await;
    desk.say((0..10).map(|n| complete(&n.to_string(), &n.to_string())).collect()).await;
    let all = desk.events(EventPage::After(0)).await;
    let seqs: Vec<_> = all.iter().map(|(seq, _)| *seq).collect();
    let page = async |page| {
        let events = desk.hub.events(agent("a"), page, 3).await.unwrap();
        events.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>()
    };
    assert_eq!(page(EventPage::After(seqs[1])).await, seqs[2..5]);
    assert_eq!(page(EventPage::Before(u64::MAX >> 1)).await, seqs[7..10]);
    assert_eq!(page(EventPage::Before(seqs[7])).await, seqs[4..7]);
    assert_eq!(page(EventPage::Before(seqs[0])).await, Vec::<u64>::new());
}

#[tokio::test]
async fn what_is_too_old_or_too_much_for_one_agent_is_forgotten_and_nothing_else() {
    let desk = Desk::talking().await;
    std::fs::write(desk.dir.path().join("config.toml"), "[history]\ndays = 2\nmegabytes = 1").unwrap();
    let large = "x".repeat(200_000);
    desk.say(vec![complete("old", "old")]).await;
    desk.advance(SignedDuration::from_hours(49));
    desk.hub.register(agent("b"), Registration::default()).await.unwrap();
    desk.hub.report(agent("b"), vec![complete("b", "of another")], Vec::new()).await.unwrap();
    desk.say((0..7).map(|n| complete(&n.to_string(), &large)).collect()).await;
    let seqs: Vec<_> = desk.events(EventPage::After(0)).await.iter().map(|(seq, _)| *seq).collect();
    let mut behind = desk.hub.follow();
    behind.go_on_after(seqs[0] - 1);
    desk.hub.forget_old_events().await.unwrap();
    let kept: Vec<_> = desk.events(EventPage::After(0)).await.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(kept, seqs[4..], "the newest of an agent, up to a megabyte");
    assert_eq!(desk.hub.events(agent("b"), EventPage::After(0), 10).await.unwrap().len(), 1);
    // Whoever catches up is sent what is left, in order.
    let mut caught_up = Vec::new();
    while let Some(Followed::Change(change)) = behind.next_if_any().await.unwrap() {
        if matches!(&change.subject, Subject::Event(of, _) if *of == agent("a")) {
            caught_up.push(change.seq);
        }
    }
    assert_eq!(caught_up, kept);
}

#[tokio::test]
async fn conversations_of_an_older_database_are_taken_over() {
    let mut desk = Desk::on_sqlite(BY_HAND).await.talks().await;
    let before = desk.hub.last_seq().await.unwrap();
    desk.hub.close().await;
    let database = store::by_hand::open(&Home::at(desk.dir.path()));
    let older = "DROP TABLE conversations; DROP TABLE standing; DROP TABLE secrets; PRAGMA user_version = 12;
        DROP INDEX agents_by_tmux; ALTER TABLE agents DROP COLUMN tmux;
        CREATE INDEX outbox_events ON outbox (subject, seq) WHERE type = 'event'";
    database.execute_batch(older).unwrap();
    let event = |event: Value| {
        let sql = "INSERT INTO outbox (type, subject, detail) VALUES ('event', 'a', ?1)";
        database.execute(sql, [event.to_string()]).unwrap();
    };
    for part in [
        complete("p", "prompt"),
        delta("t", "pieces "),
        delta("t", "of one"),
        complete("t", "pieces of one"),
        delta("u", "never "),
        delta("u", "completed"),
    ] {
        event(part);
    }
    database
        .execute("INSERT INTO outbox (type, subject, detail) VALUES ('notice', 'hub', '{}')", [])
        .unwrap();
    drop(database);
    desk.forget_that_rows_are_marked();
    desk.hub = open(&desk.dir, &desk.clock).await;
    assert_eq!(desk.texts().await, ["prompt", "pieces of one", "never completed…"]);
    let mut behind = desk.hub.follow();
    behind.go_on_after(before + 1);
    assert_eq!(
        next_change(&mut behind).await.subject,
        Subject::Event(agent("a"), complete("t", "pieces of one"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However a text is cut, whatever else happens meanwhile, and whenever the hub writes, restarts or is read: in
    /// the end every reader has the whole, and before that a beginning of it.
    #[test]
    fn every_reader_ends_with_the_whole_text_and_never_has_another(
        pieces in prop::collection::vec("[a-zé漢🦀 ]{0,6}", 1..12),
        acts in prop::collection::vec(0..5_u8, 12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let checked: Result<(), TestCaseError> = runtime.block_on(async {
            let desk = Desk::talking().await;
            let whole = pieces.concat();
            let mut live = desk.hub.follow();
            let mut known = String::new();
            for (piece, act) in pieces.iter().zip(&acts) {
                desk.say(vec![delta("t", piece)]).await;
                match act {
                    0 => desk.hub.write_texts(None).await.unwrap(),
                    1 => desk.say(vec![json!({ "type": "tool", "id": "u" })]).await,
                    2 => {
                        let events = desk.events(EventPage::After(0)).await;
                        let last = events.iter().rev().find_map(|(_, event)| event["text"].as_str());
                        prop_assert!(last.is_none_or(|text| whole.starts_with(text)), "{last:?}");
                    }
                    _ => {}
                }
                while let Some(followed) = live.next_if_any().await.unwrap() {
                    put_together(&mut known, &followed);
                }
                prop_assert!(whole.starts_with(&known), "{known:?} of {whole:?}");
            }
            prop_assert_eq!(&known, &whole);
            desk.say(vec![complete("t", &whole)]).await;
            let texts = desk.events(EventPage::After(0)).await;
            let texts: Vec<_> = texts.iter().filter_map(|(_, event)| event["text"].as_str()).collect();
            prop_assert_eq!(texts, vec![whole.as_str()]);
            Ok(())
        });
        checked?;
    }
}
