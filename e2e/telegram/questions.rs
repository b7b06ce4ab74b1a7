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
    assert_eq!(message.labels(), ["PostgreSQL", "SQLite", "Other…", "Add note…", "Skip"]);
    let notice = phone.bot.told(ANN, &message, "SQLite");
    assert_eq!((notice.text.as_str(), notice.alert), ("Recorded: SQLite", false));
    let ended = phone.ended(&ask);
    assert_eq!(selected(&ended, 0), &json!(["SQLite"]));
    assert_eq!(ended["by"], json!({"name": "User11", "surface": "telegram"}));
    let over = phone.bot.changed(&message, "Answered by User11 (telegram)");
    assert!(over.text.contains("→ SQLite") && over.buttons.is_empty(), "{}", over.text);
    phone.receipt(&ask, "delivered");
    phone.bot.changed(&message, "delivered to the agent");
    phone.receipt(&ask, "confirmed");
    phone.bot.changed(&message, "confirmed by the agent's own transcript");
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
    assert_eq!(second.labels(), ["☐ red", "☐ blue", "Done", "Other…", "Add note…", "Skip", "‹ Back"]);
    phone.bot.told(ANN, &second, "Back");
    let first = phone.bot.with_button(&message, "✓ red");
    phone.bot.told(ANN, &first, "blue");
    let second = phone.bot.changed(&message, "2 of 3");
    let empty = phone.bot.told(ANN, &second, "Done");
    assert!(empty.alert && empty.text.contains("Nothing is picked"), "{empty:?}");
    phone.bot.told(ANN, &second, "red");
    let second = phone.bot.with_button(&message, "☑ red");
    phone.bot.told(ANN, &second, "blue");
    let second = phone.bot.with_button(&message, "☑ blue");
    phone.bot.told(ANN, &second, "red");
    let second = phone.bot.with_button(&message, "☐ red");
    phone.bot.told(ANN, &second, "Add note");
    phone.bot.changed(&message, "Send your note");
    phone.bot.say(ANN, ANN, "keep it <b>subtle</b>");
    let second = phone.bot.changed(&message, "note: keep it <b>subtle</b>");
    phone.bot.told(ANN, &second, "Other…");
    phone.bot.changed(&message, "Send your answer");
    phone.bot.say(ANN, ANN, "and green");
    let second = phone.bot.changed(&message, "in your words: and green");
    phone.bot.told(ANN, &second, "Done");
    let third = phone.bot.changed(&message, "3 of 3");
    assert_eq!(third.labels(), ["red", "blue", "Add note…", "Skip", "‹ Back"], "it takes no free text");
    phone.bot.told(ANN, &third, "Skip");
    let ended = phone.ended(&ask);
    assert_eq!(
        ended["answer"],
        json!({"answers": [
            {"selected": ["blue"]},
            {"selected": ["blue"], "text": "and green", "notes": "keep it <b>subtle</b>"},
            {"skip": true}]})
    );
    let over = phone.bot.changed(&message, "Answered by User11");
    assert!(
        over.text.contains("→ blue, and green") && over.text.contains("(skipped by the user)"),
        "{}",
        over.text
    );
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
    phone.shown("Text only, please");
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
    assert_eq!(message.labels(), ["✍️ Answer", "Add note…", "Skip"]);
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
    let late = phone.shown("Your text went nowhere");
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
    let over = phone.bot.changed(&message, "nobody answered in time");
    assert!(over.buttons.is_empty());
    phone.bot.say(ANN, ANN, "too late");
    phone.shown("Your text went nowhere");
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
    let message = phone.shown("All of it is in the file below");
    let file = phone.bot.message_where(ANN, "the file", |message| message.file.is_some());
    assert!(file.silent && file.reply_to == Some(message.id));
    let (name, text) = file.file.unwrap();
    assert!(name == "question-1.txt" && text.contains(&"x".repeat(3000)) && text.contains(&"y".repeat(3000)));
    phone.bot.told(ANN, &message, "b");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["b"]));
}
