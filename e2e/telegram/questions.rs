use super::*;

fn three() -> Value {
    let options = json!([{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]);
    json!({"questions": [
        {"question": "First?", "header": "A", "free_text": true, "options": options},
        {"question": "Which ones?", "header": "B", "free_text": true, "multi_select": true, "options": options},
        {"question": "Last?", "header": "C", "options": options}]})
}

#[test]
fn a_question_is_answered_by_a_tap_and_its_message_tells_how_it_ended() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    assert!(!message.silent && message.text.contains("a server") && message.text.contains("a file"));
    assert_eq!(message.labels(), ["1. PostgreSQL", "2. SQLite", "Other…", "Note…", "Skip"]);
    let notice = phone.bot.told(ANN, &message, "SQLite");
    assert_eq!((notice.text.as_str(), notice.alert), ("Recorded: SQLite", false));
    let ended = phone.ended(&ask);
    assert_eq!(selected(&ended, 0), &json!(["SQLite"]));
    assert_eq!(ended["by"], json!({"name": "User11", "surface": "telegram"}));
    let over = phone.bot.changed(&message, "Answered by User11 on Telegram");
    assert!(over.text.contains("→ SQLite") && over.buttons.is_empty(), "{}", over.text);
    phone.receipt(&ask, "delivered");
    phone.bot.changed(&message, "Delivered to the agent");
    phone.receipt(&ask, "confirmed");
    phone.bot.changed(&message, "Confirmed by the agent");
    assert_eq!(phone.bot.messages(ANN).len(), 1, "one message an ask");
    phone.nothing_to_complain_of();
}

#[test]
fn several_questions_come_one_after_another_in_the_same_message_and_one_can_go_back() {
    let phone = Phone::new();
    let ask = phone.raise("k", "question", three());
    let message = phone.shown("1 of 3");
    phone.bot.told(ANN, &message, "red");
    let second = phone.bot.changed(&message, "2 of 3");
    assert_eq!(second.labels(), ["☐ 1. red", "☐ 2. blue", "Done", "Other…", "Note…", "Skip", "‹ Back"]);
    phone.bot.told(ANN, &second, "Back");
    let first = phone.bot.with_button(&message, "✓ 1. red");
    phone.bot.told(ANN, &first, "blue");
    let second = phone.bot.changed(&message, "2 of 3");
    let empty = phone.bot.told(ANN, &second, "Done");
    assert!(empty.alert && empty.text.contains("Nothing is selected"), "{empty:?}");
    phone.bot.told(ANN, &second, "red");
    let second = phone.bot.with_button(&message, "☑ 1. red");
    phone.bot.told(ANN, &second, "blue");
    let second = phone.bot.with_button(&message, "☑ 2. blue");
    phone.bot.told(ANN, &second, "red");
    let second = phone.bot.with_button(&message, "☐ 1. red");
    phone.bot.told(ANN, &second, "Note…");
    phone.bot.changed(&message, "Send your note");
    phone.bot.say(ANN, ANN, "keep it <b>subtle</b>");
    let second = phone.bot.changed(&message, "Note: keep it <b>subtle</b>");
    phone.bot.told(ANN, &second, "Other…");
    phone.bot.changed(&message, "Send your answer");
    phone.bot.say(ANN, ANN, "and green");
    let second = phone.bot.changed(&message, "Your words: and green");
    phone.bot.told(ANN, &second, "Done");
    let third = phone.bot.changed(&message, "3 of 3");
    assert_eq!(third.labels(), ["1. red", "2. blue", "Note…", "Skip", "‹ Back"], "it takes no free text");
    phone.bot.told(ANN, &third, "Skip");
    let review = phone.bot.changed(&message, "Check your answers");
    assert!(
        review.text.contains("2. Which ones?\n→ blue, and green\nNote: keep it <b>subtle</b>"),
        "{}",
        review.text
    );
    assert_eq!(review.labels(), ["✅ Send answers", "✏️ 1", "✏️ 2", "✏️ 3"]);
    assert_eq!(phone.hub.ask(&ask)["state"], "open", "nothing is sent before");
    phone.bot.told(ANN, &review, "Send");
    let ended = phone.ended(&ask);
    assert_eq!(
        ended["answer"],
        json!({"answers": [
            {"selected": ["blue"]},
            {"selected": ["blue"], "text": "and green", "notes": "keep it <b>subtle</b>"},
            {"skip": true}]})
    );
    let over = phone.bot.changed(&message, "Answered by User11");
    assert!(over.text.contains("→ blue, and green") && over.text.contains("→ (skipped)"), "{}", over.text);
    assert_eq!(phone.bot.messages(ANN).len(), 1);
    phone.nothing_to_complain_of();
}

#[test]
fn other_takes_the_next_text_of_that_person_and_can_be_cancelled() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    let notice = phone.bot.told(ANN, &message, "Other…");
    assert_eq!(notice.text, "Send it as your next message.");
    let waiting = phone.bot.changed(&message, "Send your answer as your next message");
    phone.bot.send(ANN, ANN, json!({"voice": {"file_id": "v", "duration": 1}}));
    phone.shown("An answer must be text");
    phone.bot.told(ANN, &waiting, "Cancel");
    phone.bot.with_button(&message, "Other…");
    let again = phone.bot.message_where(ANN, "no hint", |found| {
        found.id == message.id && !found.text.contains("next message")
    });
    phone.bot.told(ANN, &again, "Other…");
    phone.bot.changed(&message, "next message");
    phone.bot.say(ANN, ANN, "DuckDB, \"of course\"");
    let ended = phone.ended(&ask);
    assert_eq!(ended["answer"], json!({"answers": [{"text": "DuckDB, \"of course\""}]}));
    phone.bot.changed(&message, "→ DuckDB, \"of course\"");
}

#[test]
fn a_reply_to_the_message_is_an_answer_in_own_words() {
    let phone = Phone::new();
    let open = json!({"questions": [{"question": "Why?", "free_text": true}]});
    let first = phone.raise("a", "question", open.clone());
    let message = phone.shown("Why?");
    assert_eq!(message.labels(), ["✍️ Answer", "Note…", "Skip"]);
    phone.bot.reply(ANN, &message, "because");
    assert_eq!(phone.ended(&first)["answer"]["answers"][0]["text"], "because");
    // The flow is over: the next question is not taken for answered, nor its tap for a repetition.
    let second = phone.ask("b", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.told(ANN, &message, "SQLite");
    assert_eq!(selected(&phone.ended(&second), 0), &json!(["SQLite"]));
}

#[test]
fn a_tap_instead_of_the_text_that_was_asked_for_wins_and_leaves_nothing_behind() {
    let phone = Phone::new();
    let first = phone.ask("a", "First?");
    let message = phone.shown("First?");
    phone.bot.told(ANN, &message, "Other…");
    let waiting = phone.bot.changed(&message, "next message");
    phone.bot.told(ANN, &waiting, "SQLite");
    assert_eq!(selected(&phone.ended(&first), 0), &json!(["SQLite"]));
    let second = phone.ask("b", "Second?");
    let message = phone.shown("Second?");
    phone.bot.told(ANN, &message, "Other…");
    phone.bot.changed(&message, "next message");
    phone.bot.say(ANN, ANN, "for the second");
    assert_eq!(phone.ended(&second)["answer"]["answers"][0]["text"], "for the second");
    assert_eq!(selected(&phone.ended(&first), 0), &json!(["SQLite"]));
}

#[test]
fn only_the_last_question_that_asked_for_a_text_gets_it() {
    let phone = Phone::new();
    let (first, second) = (phone.ask("a", "First?"), phone.ask("b", "Second?"));
    let (one, two) = (phone.shown("First?"), phone.shown("Second?"));
    phone.bot.told(ANN, &one, "Other…");
    phone.bot.changed(&one, "next message");
    phone.bot.told(ANN, &two, "Other…");
    phone.bot.changed(&two, "next message");
    phone.bot.message_where(ANN, "first no longer waits", |found| {
        found.id == one.id && !found.text.contains("next message")
    });
    phone.bot.say(ANN, ANN, "mine");
    assert_eq!(phone.ended(&second)["answer"]["answers"][0]["text"], "mine");
    assert_eq!(phone.hub.ask(&first)["state"], "open");
}

#[test]
fn what_was_answered_elsewhere_says_so_and_a_text_that_comes_late_goes_nowhere() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.told(ANN, &message, "Other…");
    phone.bot.changed(&message, "next message");
    assert_eq!(phone.hub.answer(&ask, json!({"answers": [{"selected": ["PostgreSQL"]}]})).status, 200);
    let over = phone.bot.changed(&message, "→ PostgreSQL");
    assert!(over.buttons.is_empty());
    phone.bot.say(ANN, ANN, "SQLite after all");
    let late = phone.shown("Your text was not used");
    assert!(late.text.contains("Already decided by") && late.silent, "{}", late.text);
    assert_eq!(selected(&phone.hub.ask(&ask), 0), &json!(["PostgreSQL"]));
}

#[test]
fn a_question_that_expires_while_a_text_is_awaited_says_so() {
    let phone = Phone::new();
    let raise =
        json!({"key": "k", "agent": "bot", "kind": "question", "body": which("Quick?"), "timeout": "2s"});
    assert_eq!(phone.hub.post("/api/asks", &phone.agent, raise).status, 201);
    let message = phone.shown("Quick?");
    phone.bot.told(ANN, &message, "Other…");
    let over = phone.bot.changed(&message, "Nobody answered in time");
    assert!(over.buttons.is_empty());
    phone.bot.say(ANN, ANN, "too late");
    phone.shown("Your text was not used");
}

#[test]
fn hostile_text_is_shown_and_never_obeyed() {
    let phone = Phone::new();
    let text = "</b><a href=\"tg://x\">tap</a> & \u{202e}evil\u{200b} <pre>";
    let ask = phone.raise(
        "k",
        "question",
        json!({"questions": [{"question": text, "header": text,
        "options": [{"label": text, "description": text}, {"label": "&lt;"}]}]}),
    );
    let message = phone.shown("</b><a href=\"tg://x\">tap</a> & \\u{202e}evil\\u{200b} <pre>");
    phone.bot.told(ANN, &message, "&lt;");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["&lt;"]));
    phone.nothing_to_complain_of();
}

#[test]
fn a_question_too_long_for_a_message_comes_with_a_file() {
    let phone = Phone::new();
    let previews =
        json!([{"label": "a", "preview": "x".repeat(3000)}, {"label": "b", "preview": "y".repeat(3000)}]);
    let ask = phone.raise(
        "k",
        "question",
        json!({"questions": [{"question": "Which layout?", "options": previews}]}),
    );
    let message = phone.shown("The full text is in the file below");
    let file = phone.bot.message_where(ANN, "the file", |message| message.file.is_some());
    assert!(file.silent && file.reply_to == Some(message.id));
    let (name, text) = file.file.unwrap();
    assert!(name == "question-1.txt" && text.contains(&"x".repeat(3000)) && text.contains(&"y".repeat(3000)));
    phone.bot.told(ANN, &message, "2. b");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["b"]));
}

#[test]
fn options_that_begin_alike_are_told_apart_by_their_numbers() {
    let phone = Phone::new();
    let alike =
        |end: &str| format!("{} {end}", "Rewrite the whole of the storage layer so that it".repeat(2));
    let options = json!([{"label": alike("is fast")}, {"label": alike("is gone")}]);
    let ask = phone.raise("k", "question", json!({"questions": [{"question": "How?", "options": options}]}));
    let message = phone.shown("How?");
    assert!(message.text.contains(&format!("1. {}", alike("is fast"))), "{}", message.text);
    let labels = message.labels();
    assert!(labels[0].starts_with("1. Rewrite") && labels[1].starts_with("2. Rewrite"), "{labels:?}");
    phone.bot.told(ANN, &message, "2. Rewrite");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!([alike("is gone")]));
}

#[test]
fn an_answer_is_changed_in_the_review_before_the_form_is_sent() {
    let phone = Phone::new();
    let ask = phone.raise("k", "question", three());
    let message = phone.shown("1 of 3");
    phone.bot.told(ANN, &message, "red");
    let second = phone.bot.changed(&message, "2 of 3");
    phone.bot.told(ANN, &second, "Skip");
    let third = phone.bot.changed(&message, "3 of 3");
    phone.bot.told(ANN, &third, "blue");
    let review = phone.bot.changed(&message, "Check your answers");
    phone.bot.told(ANN, &review, "✏️ 1");
    let first = phone.bot.changed(&message, "1 of 3");
    phone.bot.told(ANN, &first, "blue");
    let review = phone.bot.changed(&message, "1. First?\n→ blue");
    phone.bot.told(ANN, &review, "Send");
    assert_eq!(
        phone.ended(&ask)["answer"],
        json!({"answers": [{"selected": ["blue"]}, {"skip": true}, {"selected": ["blue"]}]})
    );
    phone.nothing_to_complain_of();
}

#[test]
fn every_question_that_needs_a_file_gets_its_own() {
    let phone = Phone::new();
    let question = |name: &str| {
        let preview =
            |letter: &str| json!({"label": letter, "preview": format!("{name}{letter}").repeat(1500)});
        json!({"question": name, "options": [preview("a"), preview("b")]})
    };
    phone.raise("k", "question", json!({"questions": [question("One"), question("Two")]}));
    let message = phone.shown("1 of 2");
    let file = |name: &str| {
        let is_it = |message: &Message| message.file.as_ref().is_some_and(|(found, _)| found == name);
        phone.bot.message_where(ANN, name, is_it).file.unwrap().1
    };
    assert!(file("question-1.txt").contains(&"Onea".repeat(1500)));
    phone.bot.told(ANN, &message, "2. b");
    let second = phone.bot.changed(&message, "2 of 2");
    assert!(file("question-2.txt").contains(&"Twob".repeat(1500)));
    phone.bot.told(ANN, &second, "Back");
    phone.bot.changed(&message, "1 of 2");
    let last = phone.bot.say(ANN, ANN, "/cancel");
    phone.bot.confirmed(last);
    phone.shown("No text is expected from you");
    assert_eq!(phone.bot.calls("sendDocument"), 2, "each once");
    phone.nothing_to_complain_of();
}

#[test]
fn a_question_with_long_descriptions_is_split_over_messages_and_can_be_answered() {
    let phone = Phone::new();
    let options = json!([{"label": "a", "description": "first ".repeat(600)}, {"label": "b", "description": "second ".repeat(600)}]);
    let questions = json!({"questions": [{"question": "Which?", "options": options}, {"question": "And?", "options": options}]});
    let ask = phone.raise("k", "question", questions);
    let message = phone.shown("The details are in separate messages");
    let parts = |before: bool| {
        let all = phone.bot.messages(ANN).into_iter();
        let parts =
            all.filter(|part| part.text.starts_with("Question, part") && (part.id < message.id) == before);
        parts.collect::<Vec<_>>()
    };
    let words = |parts: &[Message], word: &str| {
        parts.iter().map(|part| part.text.matches(word).count()).sum::<usize>()
    };
    assert_eq!((words(&parts(true), "first"), words(&parts(true), "second")), (600, 600));
    phone.bot.told(ANN, &message, "2. b");
    phone.bot.changed(&message, "2 of 2");
    eventually("the parts of the second question", || (words(&parts(false), "second") == 600).then_some(()));
    let second = phone.bot.changed(&message, "2 of 2");
    phone.bot.told(ANN, &second, "1. a");
    let review = phone.bot.changed(&message, "Check your answers");
    phone.bot.told(ANN, &review, "Send");
    assert_eq!(selected(&phone.ended(&ask), 1), &json!(["a"]));
    phone.nothing_to_complain_of();
}
