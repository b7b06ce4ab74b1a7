//! Conversations: what a reader has, whenever it comes, whatever was streamed, forgotten or interrupted.

use super::*;
use crate::protocol::ReportNumber;
use aye_testkit::postgres::Cluster;
use proptest::prelude::*;

fn delta(id: &str, text: &str) -> Value {
    json!({ "type": "text", "id": id, "delta": text })
}

/// As adapters of this version tell it.
pub(super) fn delta_at(id: &str, from: usize, text: &str) -> Value {
    json!({ "type": "text", "id": id, "delta": text, "from": from })
}

pub(super) fn complete(id: &str, text: &str) -> Value {
    json!({ "type": "text", "id": id, "text": text })
}

impl Desk {
    pub(super) async fn say(&self, events: Vec<Value>) {
        self.hub.report(agent("a"), events, Vec::new(), None).await.unwrap();
    }

    /// As a reporter says it that numbers its reports.
    pub(super) async fn say_numbered(&self, n: u32, events: Vec<Value>, receipts: Vec<(AskId, Delivery)>) {
        let number = ReportNumber { reporter: Key::try_from("one").unwrap(), n };
        self.hub.report(agent("a"), events, receipts, Some(number)).await.unwrap();
    }

    pub(super) async fn events(&self, page: EventPage) -> Vec<(u64, Value)> {
        self.hub.events(agent("a"), page, 1000).await.unwrap()
    }

    /// The texts of the conversation, oldest first, with a mark after those that go on.
    pub(super) async fn texts(&self) -> Vec<String> {
        let mark = |event: &Value| if event["partial"] == true { "…" } else { "" };
        let all = self.events(EventPage::After(0)).await;
        all.iter().map(|(_, event)| format!("{}{}", event["text"].as_str().unwrap(), mark(event))).collect()
    }

    async fn talking() -> Self {
        Self::new().await.talks().await
    }

    pub(super) async fn talks(self) -> Self {
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
async fn a_text_goes_on_after_a_restart_where_it_was_whether_or_not_its_pieces_say_where_they_belong() {
    let mut desk = Desk::talking().await;
    desk.say(vec![delta_at("t", 0, "one ")]).await;
    desk.say(vec![delta("old", "une ")]).await;
    desk.crash_and_restart().await;
    let mut live = desk.hub.follow();
    desk.say(vec![delta_at("t", 4, "two")]).await;
    desk.say(vec![delta("old", "deux")]).await;
    let Some(Followed::Piece(piece)) = live.next_if_any().await.unwrap() else { panic!("no piece") };
    assert_eq!((piece.from, piece.text.as_str()), (4, "two"));
    assert_eq!(desk.texts().await, ["one two…", "une deux…"]);
    desk.hub.write_texts(None).await.unwrap();
    desk.crash_and_restart().await;
    assert_eq!(desk.texts().await, ["one two…", "une deux…"]);
}

#[tokio::test]
async fn a_piece_that_comes_again_adds_only_what_is_new_and_one_after_a_gap_waits_for_the_whole() {
    let mut desk = Desk::talking().await;
    desk.say(vec![delta_at("t", 0, "é ")]).await;
    desk.say(vec![delta_at("t", 0, "é "), delta_at("t", 2, "b ")]).await;
    desk.say(vec![delta_at("t", 1, " b c ")]).await;
    assert_eq!(desk.texts().await, ["é b c …"]);
    // What came since it was written is lost.
    desk.crash_and_restart().await;
    assert_eq!(desk.texts().await, ["é …"]);
    let mut live = desk.hub.follow();
    desk.say(vec![delta_at("t", 6, "d ")]).await;
    let Some(Followed::Piece(piece)) = live.next_if_any().await.unwrap() else { panic!("no piece") };
    assert_eq!((piece.from, piece.text.as_str()), (6, "d "));
    assert_eq!(desk.texts().await, ["é …"], "a beginning of the whole, and nothing after a gap");
    desk.say(vec![complete("t", "é b c d ")]).await;
    desk.say(vec![delta_at("t", 8, "late")]).await;
    assert_eq!(desk.texts().await, ["é b c d "]);
}

#[tokio::test]
async fn texts_of_one_agent_that_take_turns_are_all_whole() {
    let desk = Desk::talking().await;
    for round in 0..3 {
        for text in 0..7 {
            desk.say(vec![delta(&format!("t{text}"), &format!("{text}{round} "))]).await;
        }
    }
    desk.hub.write_texts(None).await.unwrap();
    let mut texts = desk.texts().await;
    texts.sort();
    let expected: Vec<_> = (0..7).map(|text| format!("{text}0 {text}1 {text}2 …")).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn a_report_that_comes_again_adds_nothing_and_loses_nothing() {
    let mut desk = Desk::talking().await;
    let tool = |id: &str| json!({ "type": "tool", "id": id, "text": id });
    desk.say_numbered(1, vec![tool("u1"), delta_at("t", 0, "one ")], Vec::new()).await;
    let second = || vec![tool("u2"), delta_at("t", 4, "two"), complete("c", "said")];
    desk.say_numbered(2, second(), Vec::new()).await;
    // It was on disk, but its reporter was not told: the text so far was not, and comes with the report again.
    desk.crash_and_restart().await;
    let ask = desk.hub.raise(raise("a", "k", "1. x", None)).await.unwrap().ask;
    desk.answer(&ask, "no").await.unwrap();
    let delivered = Delivery { receipt: Receipt::Delivered, evidence: None };
    desk.say_numbered(2, second(), vec![(ask.id.clone(), delivered)]).await;
    assert_eq!(desk.texts().await, ["u1", "one two…", "u2", "said"]);
    assert_eq!(desk.hub.ask(&ask.id).await.unwrap().state.receipt(), Some(Receipt::Delivered));
    // A late copy of an earlier one, and then the next.
    desk.say_numbered(1, vec![tool("u1"), delta_at("t", 0, "one ")], Vec::new()).await;
    desk.say_numbered(3, vec![tool("u3")], Vec::new()).await;
    assert_eq!(desk.texts().await, ["u1", "one two…", "u2", "said", "u3"]);
    desk.say_numbered(4, vec![complete("t", "one two.")], Vec::new()).await;
    desk.say_numbered(1, vec![tool("u1"), delta_at("t", 0, "one ")], Vec::new()).await;
    assert_eq!(desk.texts().await, ["u1", "u2", "said", "u3", "one two."]);
    // The numbers of another reporter are its own, and so are its names for texts.
    desk.say_numbered(5, vec![delta_at("v", 0, "this is never completed")], Vec::new()).await;
    for (n, events) in
        [(1, vec![tool("u4"), delta_at("v", 0, "this ")]), (2, vec![delta_at("v", 5, "goes on")])]
    {
        let number = ReportNumber { reporter: Key::try_from("other").unwrap(), n };
        desk.hub.report(agent("a"), events, Vec::new(), Some(number)).await.unwrap();
    }
    assert_eq!(desk.texts().await[5..], ["u4", "this goes on…"]);
}

#[tokio::test]
async fn of_a_long_text_that_is_told_cut_what_streamed_is_kept() {
    let desk = Desk::talking().await;
    let cut = |id: &str, text: &str, left_out: u64| json!({ "type": "text", "id": id, "text": text, "left_out": left_out });
    desk.say(vec![delta_at("t", 0, "one two")]).await;
    desk.say(vec![delta_at("u", 0, "one two")]).await;
    desk.say(vec![delta_at("v", 0, "one two")]).await;
    desk.say(vec![cut("t", "one", 10), cut("u", "one", 4), cut("v", "ONE", 4)]).await;
    let events = desk.events(EventPage::After(0)).await;
    let events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
    assert_eq!(events, [cut("t", "one two", 6), complete("u", "one two"), cut("v", "ONE", 4)]);
}

#[tokio::test]
async fn a_text_that_streams_is_not_written_again_for_whoever_reads_or_for_what_happens_meanwhile() {
    let desk = Desk::talking().await;
    desk.say(vec![delta("t", "one")]).await;
    let before = desk.hub.last_seq().await.unwrap();
    for n in 0..10 {
        desk.say(vec![delta("t", " more"), json!({ "type": "tool", "id": n, "text": "tool" })]).await;
        assert_eq!(desk.texts().await[0], format!("one{}…", " more".repeat(n + 1)));
    }
    assert_eq!(desk.hub.last_seq().await.unwrap(), before + 10);
}

#[tokio::test]
async fn of_an_agent_that_is_lost_nothing_stays_in_memory_and_its_text_goes_on_when_it_is_found() {
    let desk = Desk::on_sqlite(SILENCE).await.talks().await;
    desk.say(vec![delta_at("t", 0, "one ")]).await;
    desk.say(vec![delta_at("t", 4, "two ")]).await;
    desk.pass(120).await;
    assert_eq!(desk.hub.agent("a").await.unwrap().state, aye_core::AgentState::Lost);
    assert_eq!(desk.hub.inner.streams.agents(), 0);
    desk.say(vec![delta_at("t", 8, "three")]).await;
    assert_eq!(desk.texts().await, ["one two three…"]);
}

#[tokio::test]
async fn what_is_forgotten_goes_a_few_megabytes_at_a_time() {
    let desk = Desk::talking().await;
    let large = "x".repeat(500_000);
    desk.say((0..20).map(|n| complete(&n.to_string(), &large)).collect()).await;
    let later = desk.clock.now() + SignedDuration::from_hours(1);
    let mut left = vec![desk.texts().await.len()];
    while desk.hub.inner.store.forget_events_before(later).await.unwrap() {
        left.push(desk.texts().await.len());
    }
    assert_eq!(left, [20, 12, 4, 0]);
}

#[tokio::test]
async fn all_but_the_newest_changes_are_pruned_however_many_there_are() {
    let desk = Desk::talking().await;
    desk.say((0..4_500).map(|n| json!({ "type": "tool", "id": n })).collect()).await;
    desk.hub.inner.store.prune(100).await.unwrap();
    let last = desk.hub.last_seq().await.unwrap();
    let is_known = async |after: u64| {
        let caught_up = desk.hub.inner.store.read(move |db| db.catch_up(after)).await.unwrap();
        matches!(caught_up, CatchUp::Missed { .. })
    };
    assert!(is_known(last - 100).await && !is_known(last - 101).await);
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
    desk.hub.report(agent("b"), vec![complete("b", "of another")], Vec::new(), None).await.unwrap();
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
    let older = "DROP TABLE conversations; DROP TABLE standing; DROP TABLE secrets; DROP TABLE reporters; PRAGMA user_version = 12;
        ALTER TABLE agents DROP COLUMN asks_for;
        DROP INDEX agents_by_tmux; ALTER TABLE agents DROP COLUMN tmux;
        CREATE INDEX outbox_events ON outbox (subject, seq) WHERE type = 'event'";
    database.execute_batch(older).unwrap();
    database.execute_batch("PRAGMA writable_schema = ON").unwrap();
    for (table, column, words) in [
        ("asks", "kind", &["question", "permission", "plan"][..]),
        ("asks", "state", &["open", "answered", "expired", "withdrawn"]),
        ("outbox", "type", &["ask", "agent", "event", "notice"]),
    ] {
        let now: Vec<_> = words.iter().map(|word| format!("{column} = '{word}'")).collect();
        let then = format!("{column} IN ('{}')", words.join("', '"));
        let sql = "UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2) WHERE type = 'table' AND name = ?3";
        database.execute(sql, [&now.join(" OR "), &then, table]).unwrap();
    }
    database.execute_batch("PRAGMA writable_schema = RESET").unwrap();
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

    /// However a text is cut, whatever else happens meanwhile, and whenever a hub writes, is killed, is read or gives way to
    /// another: in the end every reader has the whole, and before that a beginning of it.
    #[test]
    fn every_reader_ends_with_the_whole_text_and_never_has_another(
        pieces in prop::collection::vec("[a-zé漢🦀 ]{0,6}", 1..12),
        acts in prop::collection::vec(0..8_u8, 12),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let checked: Result<(), TestCaseError> = runtime.block_on(async {
            let (mut desk, mut other) = match store::test_databases::is_postgres() {
                true => {
                    let desk = Desk::on(&Cluster::shared().new_database()).await.talks().await;
                    let other = desk.beside().await;
                    (desk, Some(other))
                }
                false => (Desk::talking().await, None),
            };
            let whole = pieces.concat();
            let mut live = desk.hub.follow();
            let (mut known, mut from, mut has_moved) = (String::new(), 0, false);
            for (piece, act) in pieces.iter().zip(&acts) {
                desk.say(vec![delta_at("t", from, piece)]).await;
                from += piece.chars().count();
                match act {
                    0 => desk.hub.write_texts(None).await.unwrap(),
                    1 => desk.say(vec![json!({ "type": "tool", "id": "u" })]).await,
                    2 => {
                        let events = desk.events(EventPage::After(0)).await;
                        let last = events.iter().rev().find_map(|(_, event)| event["text"].as_str());
                        prop_assert!(last.is_none_or(|text| whole.starts_with(text)), "{last:?}");
                    }
                    // The reporter was not told that its piece got there.
                    3 => desk.say(vec![delta_at("t", from - piece.chars().count(), piece)]).await,
                    4 => {
                        has_moved = true;
                        desk.crash_and_restart().await;
                        live = desk.hub.follow();
                    }
                    5 => {
                        if let Some(other) = &mut other {
                            has_moved = true;
                            std::mem::swap(&mut desk, other);
                            live = desk.hub.follow();
                        }
                    }
                    _ => {}
                }
                while let Some(followed) = live.next_if_any().await.unwrap() {
                    put_together(&mut known, &followed);
                }
                prop_assert!(whole.starts_with(&known), "{known:?} of {whole:?}");
            }
            prop_assert!(has_moved || known == whole, "{known:?} of {whole:?}");
            desk.say(vec![complete("t", &whole)]).await;
            while known != whole {
                put_together(&mut known, &live.next().await.unwrap());
            }
            for desk in [Some(&desk), other.as_ref()].into_iter().flatten() {
                desk.hub.write_texts(None).await.unwrap();
                let texts = desk.events(EventPage::After(0)).await;
                let texts: Vec<_> = texts.iter().filter_map(|(_, event)| event["text"].as_str()).collect();
                prop_assert_eq!(texts, vec![whole.as_str()]);
            }
            Ok(())
        });
        checked?;
    }
}
