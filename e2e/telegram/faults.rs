//! Telegram fails in every way it can; nothing is lost and nothing doubled.

use super::*;
use aye_testkit::telegram::Fault;

/// The id that the group has as a supergroup.
const MOVED: i64 = -100_777;

#[track_caller]
fn answered(phone: &Phone, ask: &Value, message: &Message) {
    assert_eq!(phone.bot.told(ANN, message, "SQLite").text, "Recorded: SQLite");
    assert_eq!(selected(&phone.ended(ask), 0), &json!(["SQLite"]));
    phone.bot.changed(message, "Answered by User11");
}

#[test]
fn a_message_that_was_certainly_not_taken_is_sent_again_once() {
    for fault in
        [Fault::TooMany(3), Fault::BadGateway, Fault::CloseBefore, Fault::Refuse(500, "Internal".into())]
    {
        let phone = Phone::new();
        phone.bot.fail("sendMessage", fault.clone());
        phone.bot.fail("sendMessage", fault.clone());
        let ask = phone.ask("k", "Which DB?");
        let message = phone.shown("Which DB?");
        phone.bot.fail("editMessageText", fault.clone());
        answered(&phone, &ask, &message);
        assert_eq!(phone.bot.messages(ANN).len(), 1, "{fault:?}");
        phone.nothing_to_complain_of();
    }
}

#[test]
fn of_a_message_that_may_have_been_taken_either_copy_can_be_answered() {
    for fault in [Fault::CloseAfter, Fault::HangAfter] {
        let phone = Phone::new();
        phone.bot.fail("sendMessage", fault);
        let ask = phone.ask("k", "Which DB?");
        let first = phone.shown("Which DB?");
        let second = phone.bot.message_where(ANN, "the second copy", |message| message.id != first.id);
        assert_ne!(first.data("SQLite"), second.data("SQLite"));
        answered(&phone, &ask, &second);
        let late = phone.bot.told(ANN, &first, "PostgreSQL");
        assert!(late.alert && late.text.contains("You already answered: SQLite"), "{late:?}");
        phone.bot.changed(&first, "Answered by User11");
        assert_eq!(selected(&phone.hub.ask(&ask), 0), &json!(["SQLite"]));
    }
}

#[test]
fn an_edit_that_was_made_and_not_confirmed_is_made_again_without_harm() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.fail("editMessageText", Fault::CloseAfter);
    answered(&phone, &ask, &message);
    phone.receipt(&ask, "delivered");
    phone.bot.changed(&message, "Delivered to the agent");
    assert_eq!(phone.bot.messages(ANN).len(), 1);
}

#[test]
fn a_press_counts_even_if_nobody_could_be_told() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.fail("answerCallbackQuery", Fault::BadGateway);
    phone.bot.press(ANN, &message, "SQLite");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["SQLite"]));
    phone.bot.changed(&message, "Answered by User11");
}

#[test]
fn a_press_that_telegram_has_given_up_on_counts_all_the_same() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.expire_presses();
    phone.bot.press(ANN, &message, "SQLite");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["SQLite"]));
    phone.bot.changed(&message, "Answered by User11");
    eventually("an answer to the press", || (phone.bot.calls("answerCallbackQuery") == 1).then_some(()));
}

#[test]
fn a_group_that_becomes_a_supergroup_is_followed() {
    for told in [false, true] {
        let mut phone = Phone::with(BOTH);
        let first = phone.ask("a", "First?");
        let old = phone.bot.message(GROUP, "First?");
        match told {
            true => phone.bot.migrate_and_tell(EVE, GROUP, MOVED),
            false => phone.bot.migrate(GROUP, MOVED),
        }
        let second = phone.ask("b", "Second?");
        let note = phone.bot.message(MOVED, "became a supergroup");
        assert!(
            !note.silent && note.text.contains("-100777") && note.text.contains("-100500"),
            "{}",
            note.text
        );
        // What was open is shown there as well, and the old message does nothing any more.
        let anew = phone.bot.message(MOVED, "First?");
        let late = phone.bot.told(BOB, &old, "SQLite");
        assert!(late.alert && late.text.contains("out of date"), "{late:?}");
        phone.bot.told(BOB, &anew, "SQLite");
        assert_eq!(phone.ended(&first)["by"]["name"], "User12 [12]");
        phone.restart();
        let message = phone.bot.message(MOVED, "Second?");
        phone.bot.told(BOB, &message, "SQLite");
        phone.ended(&second);
        phone.ask("c", "Third?");
        phone.bot.message(MOVED, "Third?");
        phone.shown("Third?");
        let notes = phone.bot.messages(MOVED).into_iter().filter(|found| found.text.contains("supergroup"));
        assert_eq!(notes.count(), 1, "people are told once");
        phone.nothing_to_complain_of();
    }
}

#[test]
fn a_new_id_counts_only_if_telegram_names_it() {
    let phone = Phone::with(BOTH);
    let ask = phone.ask("k", "Which DB?");
    let message = phone.bot.message(GROUP, "Which DB?");
    // A group that is not listed says that it moved, and a person names a move in words.
    phone.bot.send(EVE, -100_666, json!({ "migrate_to_chat_id": MOVED }));
    phone.bot.send(ANN, ANN, json!({ "migrate_to_chat_id": MOVED }));
    let last = phone.bot.say(EVE, MOVED, "/status");
    phone.bot.confirmed(last);
    let press = phone.bot.press_data(BOB, MOVED, message.id, &message.data("SQLite"));
    assert!(phone.bot.notice(&press).text.contains("not allowed"));
    assert_eq!(phone.hub.ask(&ask)["state"], "open");
    assert_eq!(phone.bot.messages(MOVED), []);
}

#[test]
fn updates_wait_while_they_cannot_be_fetched() {
    for fault in [
        Fault::BadGateway,
        Fault::CloseBefore,
        Fault::CloseAfter,
        Fault::TooMany(2),
        Fault::Refuse(409, "Conflict".into()),
    ] {
        let phone = Phone::new();
        let ask = phone.ask("k", "Which DB?");
        let message = phone.shown("Which DB?");
        for _ in 0..3 {
            phone.bot.fail("getUpdates", fault.clone());
        }
        answered(&phone, &ask, &message);
    }
}

#[test]
fn another_program_that_polls_is_outlasted() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    let polls = phone.bot.calls("getUpdates");
    phone.bot.poll_from_elsewhere();
    eventually("the bot to ask again", || (phone.bot.calls("getUpdates") > polls).then_some(()));
    answered(&phone, &ask, &message);
}

#[test]
fn an_update_that_comes_twice_is_done_once() {
    let phone = Phone::new();
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let ask = phone.raise(
        "k",
        "question",
        json!({"questions": [{"question": "Which?", "multi_select": true, "options": options}]}),
    );
    let message = phone.shown("Which?");
    phone.bot.told(ANN, &message, "red");
    let toggled = phone.bot.last_update();
    phone.bot.confirmed(toggled);
    phone.bot.send_again(toggled);
    phone.bot.told(ANN, &message, "Done");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["red"]));
}

#[test]
fn an_outage_of_telegram_delays_and_loses_nothing() {
    let phone = Phone::new();
    phone.bot.fail_every(1, Fault::BadGateway);
    let (first, second) = (phone.ask("a", "First?"), phone.ask("b", "Second?"));
    eventually("some tries", || (phone.bot.calls("sendMessage") >= 3).then_some(()));
    assert_eq!(phone.hub.answer(&first, json!({"answers": [{"selected": ["SQLite"]}]})).status, 200);
    phone.bot.fail_no_more();
    let message = phone.shown("Second?");
    answered(&phone, &second, &message);
    assert_eq!(phone.bot.messages(ANN).len(), 1, "what ended meanwhile is not shown any more");
}

#[test]
fn what_telegram_refuses_is_said_more_plainly() {
    let phone = Phone::new();
    let refused = || Fault::Refuse(400, "Bad Request: can't parse entities: for a test".into());
    phone.bot.fail("sendMessage", refused());
    let ask = phone.ask("a", "Which <DB>?");
    let message = phone.shown("Which <DB>?");
    assert_eq!(message.html.trim(), message.text, "without markup");
    answered(&phone, &ask, &message);
    phone.bot.fail("sendMessage", refused());
    phone.bot.fail("sendMessage", refused());
    let second = phone.ask("b", "Which?");
    let bare = phone.shown("Telegram does not accept");
    assert!(bare.text.contains(second["id"].as_str().unwrap()) && bare.buttons.is_empty());
}

#[test]
fn a_message_that_somebody_deleted_is_shown_anew() {
    let phone = Phone::new();
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let ask = phone.raise(
        "k",
        "question",
        json!({"questions": [{"question": "Which?", "multi_select": true, "options": options}]}),
    );
    let message = phone.shown("Which?");
    phone.bot.delete(&message);
    phone.bot.told(ANN, &message, "red");
    let anew = phone.bot.message_where(ANN, "a new message", |found| found.id > message.id);
    assert!(anew.labels().contains(&"☑ 1. red"), "{:?}", anew.labels());
    phone.bot.told(ANN, &anew, "blue");
    let anew = phone.bot.with_button(&anew, "☑ 2. blue");
    phone.bot.told(ANN, &anew, "Done");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["red", "blue"]));
    let late = phone.bot.told(ANN, &message, "red");
    assert!(late.alert && late.text.contains("out of date"), "{late:?}");
}

#[test]
fn a_form_whose_message_was_deleted_goes_on_where_it_was_even_through_a_crash() {
    let mut phone = Phone::with(BOTH);
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let question = |text: &str| json!({"question": text, "free_text": true, "options": options});
    let ask = phone.raise("k", "question", json!({"questions": [question("One?"), question("Two?")]}));
    let first = phone.bot.message(GROUP, "1 of 2");
    phone.bot.told(BOB, &first, "red");
    let second = phone.bot.changed(&first, "2 of 2");
    phone.bot.delete(&second);
    // The hub dies before it hears that the new message is there.
    for _ in 0..20 {
        phone.bot.fail("sendMessage", Fault::HangBefore);
    }
    phone.bot.told(BOB, &second, "Other…");
    eventually("a call to hang", || (phone.bot.hanging() >= 1).then_some(()));
    phone.hub.kill();
    phone.bot.fail_no_more();
    phone.hub.restart();
    let is_it = |found: &Message| found.id > second.id && found.text.contains("2 of 2");
    let anew = phone.bot.message_where(GROUP, "a new message", is_it);
    let prompt = phone.bot.message(GROUP, "reply to this message with your answer: Two?");
    phone.bot.reply(BOB, &prompt, "green");
    let review = phone.bot.changed(&anew, "Check your answers");
    phone.bot.told(BOB, &review, "Send");
    assert_eq!(phone.ended(&ask)["answer"], json!({"answers": [{"selected": ["red"]}, {"text": "green"}]}));
}

#[test]
fn what_telegram_refuses_for_now_is_sent_later_with_its_markup_and_buttons() {
    for words in [
        "CHAT_RESTRICTED",
        "TOPIC_CLOSED",
        "CHAT_WRITE_FORBIDDEN",
        "not enough rights to send text messages to the chat",
        "have no rights to send a message",
        "CHAT_ADMIN_REQUIRED",
        "SOMETHING_NEW",
    ] {
        let phone = Phone::new();
        phone.bot.shut(ANN, 400, &format!("Bad Request: {words}"));
        let ask = phone.ask("k", "Which DB?");
        eventually("some tries", || (phone.bot.tries(ANN).len() >= 4).then_some(()));
        phone.bot.open_again(ANN);
        let message = phone.bot.message_where(ANN, "the request", |_| true);
        assert!(
            message.text.contains("Which DB?") && message.html.contains("<b>"),
            "{words}: {}",
            message.html
        );
        // Nor does an edit lose them.
        let before = phone.bot.tries(ANN).len();
        phone.bot.shut(ANN, 400, &format!("Bad Request: {words}"));
        phone.bot.told(ANN, &message, "Other…");
        eventually("more tries", || (phone.bot.tries(ANN).len() >= before + 3).then_some(()));
        phone.bot.open_again(ANN);
        let waiting = phone.bot.changed(&message, "next message");
        assert!(waiting.html.contains("<b>") && !waiting.buttons.is_empty(), "{words}: {}", waiting.html);
        phone.bot.say(ANN, ANN, "DuckDB");
        assert_eq!(phone.ended(&ask)["answer"]["answers"][0]["text"], "DuckDB");
        phone.bot.changed(&message, "→ DuckDB");
        assert_eq!(phone.bot.messages(ANN).len(), 1, "{words}");
    }
}

#[test]
fn one_message_that_is_refused_holds_up_no_other() {
    let phone = Phone::new();
    for _ in 0..6 {
        phone.bot.fail("sendMessage", Fault::Refuse(400, "Bad Request: SOMETHING_NEW".into()));
    }
    phone.ask("a", "First?");
    eventually("six tries", || (phone.bot.calls("sendMessage") >= 6).then_some(()));
    let second = phone.ask("b", "Second?");
    let message = phone.shown("Second?");
    answered(&phone, &second, &message);
    // A word from the chat is enough.
    phone.bot.say(ANN, ANN, "/help");
    assert!(phone.shown("First?").labels().contains(&"2. SQLite"));
}

#[test]
fn a_group_that_takes_no_files_still_takes_requests() {
    let phone = Phone::new();
    for _ in 0..20 {
        let words = "Bad Request: not enough rights to send documents to the chat";
        phone.bot.fail("sendDocument", Fault::Refuse(400, words.into()));
    }
    phone.raise("a", "plan", json!({"plan": "a line of the plan\n".repeat(2000)}));
    phone.shown("cannot be approved here");
    eventually("all tries of the file", || (phone.bot.calls("sendDocument") == 5).then_some(()));
    let ask = phone.ask("b", "Which DB?");
    let message = phone.shown("Which DB?");
    answered(&phone, &ask, &message);
    assert_eq!(phone.bot.calls("sendDocument"), 5, "it is given up");
}

#[test]
fn a_chat_that_shuts_the_bot_out_does_not_hold_up_the_others() {
    let phone = Phone::with(BOTH);
    for _ in 0..50 {
        phone.bot.fail("sendMessage", Fault::Refuse(403, "Forbidden: bot was blocked by the user".into()));
    }
    let ask = phone.ask("k", "Which DB?");
    eventually("both chats to be tried", || (phone.bot.calls("sendMessage") >= 2).then_some(()));
    phone.bot.fail_no_more();
    let message = phone.bot.message(GROUP, "Which DB?");
    phone.shown("Which DB?");
    phone.bot.told(BOB, &message, "SQLite");
    assert_eq!(phone.ended(&ask)["by"]["name"], "User12 [12]");
}

#[test]
fn a_chat_that_shuts_the_bot_out_is_tried_ever_more_rarely() {
    for (code, words) in
        [(403, "Forbidden: bot was blocked by the user"), (400, "Bad Request: chat not found")]
    {
        let phone = Phone::new();
        phone.bot.shut(ANN, code, words);
        let ask = phone.ask("k", "Which DB?");
        let tries = eventually("six tries", || Some(phone.bot.tries(ANN)).filter(|tries| tries.len() >= 6));
        for (n, pair) in tries.windows(2).enumerate() {
            let (pause, least) = (pair[1] - pair[0], f64::from(1_u32 << n));
            assert!(pause >= least, "{pause:.2} s after try {n}, and not {least} s");
        }
        phone.bot.open_again(ANN);
        // A word from there is enough.
        phone.bot.say(ANN, ANN, "/help");
        let message = phone.shown("Which DB?");
        answered(&phone, &ask, &message);
    }
}

#[test]
fn a_file_that_keeps_failing_holds_up_nothing_else() {
    for fault in [Fault::HangBefore, Fault::BadGateway, Fault::CloseBefore] {
        let phone = Phone::new();
        for _ in 0..20 {
            phone.bot.fail("sendDocument", fault.clone());
        }
        let plan = phone.raise("a", "plan", json!({"plan": "a line of the plan\n".repeat(2000)}));
        let long = phone.shown("cannot be approved here");
        eventually("a try", || (phone.bot.calls("sendDocument") >= 1).then_some(()));
        let ask = phone.ask("b", "Which DB?");
        let message = phone.shown("Which DB?");
        answered(&phone, &ask, &message);
        phone.bot.told(ANN, &long, "⛔ Deny");
        phone.ended(&plan);
        phone.bot.changed(&long, "Denied by User11");
        assert!(phone.bot.messages(ANN).iter().all(|message| message.file.is_none()), "{fault:?}");
    }
}

#[test]
fn a_call_that_hangs_does_not_hold_up_what_people_do() {
    for fault in [Fault::HangBefore, Fault::HangAfter] {
        let phone = Phone::new();
        let first = phone.ask("a", "First?");
        let message = phone.shown("First?");
        phone.bot.fail("sendMessage", fault);
        let second = phone.ask("b", "Second?");
        eventually("a call to hang", || (phone.bot.hanging() == 1).then_some(()));
        answered(&phone, &first, &message);
        phone.bot.say(ANN, ANN, "/status");
        phone.shown("is waiting");
        assert_eq!(phone.bot.hanging(), 1, "all of that came before the call was given up");
        // Whatever became of the call, the second can be answered, and is not asked twice under one token.
        eventually("the call to be given up", || (phone.bot.hanging() == 0).then_some(()));
        let is_it = |found: &Message| {
            found.text.contains("Second?") && !found.buttons.is_empty() && found.text.contains("a server")
        };
        let shown = phone.bot.message_where(ANN, "the second", is_it);
        phone.bot.told(ANN, &shown, "SQLite");
        phone.ended(&second);
        phone.nothing_to_complain_of();
    }
}

#[test]
fn an_address_that_telegram_takes_for_no_link_costs_the_link_and_not_the_buttons() {
    let phone = Phone::with_config(ALONE, "[hub]\npublic_url = \"http://localhost:7177\"");
    let command = format!("echo {}", "x".repeat(5000));
    let permission = json!({"tool": "Bash", "input": {"command": command}});
    let ask = phone.raise("k", "permission", permission);
    let message = phone.shown("cannot be allowed here");
    assert_eq!(message.labels(), ["⛔ Deny", "⛔ Deny with reason…"]);
    assert!(
        message.text.contains(&format!("http://localhost:7177/#/asks/{}", ask["id"].as_str().unwrap())),
        "{}",
        message.text
    );
    assert!(message.html.contains("<code>"), "its markup stays");
    phone.bot.told(ANN, &message, "⛔ Deny");
    assert_eq!(phone.ended(&ask)["answer"]["decision"], "deny");
}

#[test]
fn when_telegram_is_back_what_waited_goes_out_at_once() {
    let phone = Phone::new();
    phone.bot.fail_every(1, Fault::BadGateway);
    for _ in 0..1000 {
        phone.bot.fail("getUpdates", Fault::BadGateway);
        phone.bot.fail("getMe", Fault::BadGateway);
    }
    phone.bot.poll_from_elsewhere();
    let ask = phone.ask("k", "Which DB?");
    eventually("many tries", || (phone.bot.calls("sendMessage") >= 6).then_some(()));
    phone.bot.fail_no_more();
    let message = phone.shown("Which DB?");
    answered(&phone, &ask, &message);
}

#[test]
fn a_server_that_does_not_say_who_the_bot_is_serves_it_all_the_same() {
    let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(SECOND));
    prepare(&dir.path().join("home"), &bot, ALONE, "");
    for _ in 0..20 {
        bot.fail("getMe", Fault::Refuse(404, "Not Found".into()));
        bot.fail("setMyCommands", Fault::Refuse(404, "Not Found".into()));
    }
    let phone = Phone::start(dir, bot);
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    answered(&phone, &ask, &message);
}

#[test]
fn the_result_of_a_run_is_sent_until_it_is_there() {
    use super::runs::RunHost;
    use aye_testkit::scenario::text;
    let refused = |words: &str| Fault::Refuse(400, format!("Bad Request: {words}"));
    for fault in
        [Fault::CloseBefore, Fault::HangBefore, refused("SOMETHING_NEW"), refused("can't parse entities")]
    {
        let steps = json!([[text("Working.")], {"do": "until", "file": "go"}, [text("All **tests** pass.")], {"do": "turn"}]);
        let host = RunHost::new(ALONE, &["web"], steps);
        host.phone.bot.say(ANN, ANN, "go");
        host.phone.shown("Working.");
        for _ in 0..2 {
            host.phone.bot.fail("sendMessage", fault.clone());
        }
        fs::write(host.folder("web").join("go"), "").unwrap();
        let ring = host.phone.bot.message_where(ANN, "the end", |found| !found.silent);
        let bare = ring.text.contains("web has ended. Its result cannot be shown here");
        assert!(ring.text.contains("tests pass") || bare, "{fault:?}: {}", ring.text);
        host.phone.shown("the result is below");
    }
}

fn doctor(phone: &Phone) -> (bool, String) {
    let printed = aye(&phone.hub.home).args(["doctor", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let all = found["findings"].as_array().unwrap();
    let about = all.iter().find(|finding| finding["about"] == "telegram").unwrap();
    (about["fine"] == true, format!("{} {}", about["found"], about["mend"]))
}

#[test]
fn the_doctor_says_whose_bot_it_is_or_what_is_wrong() {
    let phone = Phone::new();
    let (fine, found) = doctor(&phone);
    assert!(fine && found.contains("@aye_test_bot") && found.contains("1 person"), "{found}");
    phone.bot.set_webhook("https://elsewhere.example");
    let (fine, found) = doctor(&phone);
    assert!(!fine && found.contains("webhook") && found.contains("deleteWebhook"), "{found}");
    phone.bot.set_webhook("");
    phone.bot.shut(ANN, 403, "Forbidden: bot was blocked by the user");
    let (fine, found) = doctor(&phone);
    assert!(!fine && found.contains("11 has blocked @aye_test_bot"), "{found}");
    phone.bot.shut(ANN, 400, "Bad Request: chat not found");
    let (fine, found) = doctor(&phone);
    assert!(!fine && found.contains("press Start"), "{found}");
    phone.bot.open_again(ANN);
    fs::write(phone.hub.home.join("telegram.token"), "123:wrong").unwrap();
    let (fine, found) = doctor(&phone);
    assert!(
        !fine && found.contains("does not know this bot's token") && found.contains("@BotFather"),
        "{found}"
    );
}
