//! Groups, where a bot hears by default only commands and replies to itself.

use super::*;

#[test]
fn a_typed_answer_in_a_group_is_asked_for_by_a_message_to_reply_to() {
    let phone = Phone::with(BOTH);
    let ask = phone.ask("k", "Which DB?");
    let message = phone.bot.message(GROUP, "Which DB?");
    assert_eq!(phone.bot.told(BOB, &message, "Other…").text, "Reply to the message below.");
    phone.bot.changed(&message, "Reply to the message below with your answer.");
    let prompt = phone.bot.message(GROUP, "reply to this message with your answer: Which DB?");
    assert!(
        prompt.force_reply && prompt.html.contains("tg://user?id=12") && prompt.silent,
        "{}",
        prompt.html
    );
    // Nobody hears this: it is no reply.
    phone.bot.say(BOB, GROUP, "DuckDB");
    phone.bot.reply(BOB, &prompt, "Postgres, but old");
    let ended = phone.ended(&ask);
    assert_eq!(ended["answer"]["answers"][0]["text"], "Postgres, but old");
    assert_eq!(ended["by"]["name"], "User12 [12]");
    eventually("the request to type to go", || {
        phone.bot.messages(GROUP).iter().all(|message| message.id != prompt.id).then_some(())
    });
    phone.nothing_to_complain_of();
}

#[test]
fn a_request_to_type_goes_when_it_is_cancelled_or_somebody_else_types() {
    let phone = Phone::with(BOTH);
    let ask = phone.raise("k", "plan", json!({"plan": "1. x"}));
    let message = phone.bot.message(GROUP, "1. x");
    phone.bot.told(BOB, &message, "Deny with reason");
    let first = phone.bot.message(GROUP, "User12, reply to this message with your reason");
    let waiting = phone.bot.with_button(&message, "Cancel");
    phone.bot.told(BOB, &waiting, "Cancel");
    eventually("it to go", || {
        phone.bot.messages(GROUP).iter().all(|message| message.id != first.id).then_some(())
    });
    let again = phone.bot.with_button(&message, "⛔ Deny with reason");
    phone.bot.told(ANN, &again, "Deny with reason");
    let second = phone.bot.message(GROUP, "User11, reply to this message with your reason");
    phone.bot.reply(ANN, &second, "smaller");
    assert_eq!(phone.ended(&ask)["answer"], json!({"decision": "deny", "message": "smaller"}));
    phone.nothing_to_complain_of();
}

#[test]
fn who_of_two_people_filled_in_what_is_shown_before_it_is_sent() {
    let phone = Phone::with(BOTH);
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let question = |text: &str| json!({"question": text, "options": options});
    let ask = phone.raise("k", "question", json!({"questions": [question("One?"), question("Two?")]}));
    let message = phone.bot.message(GROUP, "1 of 2");
    phone.bot.told(ANN, &message, "red");
    let second = phone.bot.changed(&message, "2 of 2");
    phone.bot.told(BOB, &second, "blue");
    let review = phone.bot.changed(&message, "Check your answers");
    assert!(
        review.text.contains("→ red (User11)") && review.text.contains("→ blue (User12)"),
        "{}",
        review.text
    );
    phone.bot.told(BOB, &review, "Send");
    phone.ended(&ask);
    let over = phone.bot.changed(&message, "Answered by User12 on Telegram");
    assert!(over.text.contains("→ red (User11)"), "{}", over.text);
}

#[test]
fn talk_between_people_starts_nothing_and_gets_no_reply() {
    let config = "[projects]\nweb = \"/\"";
    let phone = Phone::with_config(BOTH, config);
    phone.bot.without_privacy();
    phone.ask("k", "Which DB?");
    let message = phone.bot.message(GROUP, "Which DB?");
    let quiet = [
        json!({"text": "shall we go for lunch?"}),
        json!({"text": "yes!", "reply_to_message": {"message_id": 5, "from": {"id": BOB, "is_bot": false}}}),
        json!({"text": "/status@another_bot"}),
        json!({"text": "/poll what next"}),
        json!({"pinned_message": {"message_id": message.id}}),
        json!({"new_chat_members": [{"id": EVE, "is_bot": false, "first_name": "Eve"}]}),
        json!({"photo": phone.bot.photo("lunch", b"jpeg")}),
        json!({"text": "@aye_test_bots are nice"}),
    ];
    let mut last = 0;
    for said in quiet {
        last = phone.bot.send(BOB, GROUP, said);
    }
    phone.bot.confirmed(last);
    phone.bot.say(BOB, GROUP, "/agents");
    let next = phone.bot.message_where(GROUP, "the next reply", |found| found.id > message.id);
    assert!(
        next.text.contains("Running agents") || next.text.contains("No agents are running"),
        "{}",
        next.text
    );
    let agents = phone.hub.get("/api/agents", &phone.hub.operator()).body;
    assert_eq!(agents["agents"].as_array().unwrap().len(), 1, "only the one that asks");
}

#[test]
fn a_text_that_names_the_bot_is_meant_for_it() {
    let phone = Phone::with(BOTH);
    phone.bot.without_privacy();
    phone.bot.say(BOB, GROUP, "@aye_test_bot fix the tests");
    let reply = phone.bot.message(GROUP, "There is no project to work in yet");
    assert!(!reply.silent, "a run that cannot start is told with sound");
}

#[test]
fn people_find_the_commands_in_their_menus() {
    let phone = Phone::new();
    let commands =
        eventually("the menu", || Some(phone.bot.commands()).filter(|commands| !commands.is_empty()));
    assert!(commands.iter().any(|(name, _)| name == "status"), "{commands:?}");
    phone.nothing_to_complain_of();
}
