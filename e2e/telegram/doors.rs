//! Who gets in, and what a press does that should do nothing.

use super::*;
use std::fs::File;
use std::process::Stdio;

#[track_caller]
fn nothing_happened(phone: &Phone, ask: &Value, press: &str, words: &str) {
    let notice = phone.bot.notice(press);
    assert!(notice.alert && notice.text.contains(words), "{notice:?}");
    assert_eq!(phone.hub.ask(ask)["state"], "open");
}

#[test]
fn a_press_by_anybody_not_listed_or_elsewhere_changes_nothing_and_is_told() {
    let phone = Phone::with(BOTH);
    let ask = phone.ask("k", "Which DB?");
    let message = phone.bot.message(GROUP, "Which DB?");
    let data = message.data("SQLite");
    let press = |user, chat, id| phone.bot.press_data(user, chat, id, &data);
    nothing_happened(&phone, &ask, &press(EVE, GROUP, message.id), "not allowed to answer");
    nothing_happened(&phone, &ask, &press(ANN, -100_666, message.id), "not allowed to answer");
    nothing_happened(&phone, &ask, &press(ANN, EVE, message.id), "not allowed to answer");
    nothing_happened(&phone, &ask, &press(ANN, ANN, message.id), "belongs to another chat");
    nothing_happened(&phone, &ask, &press(ANN, GROUP, message.id + 1), "out of date");
    let forged = phone.bot.press_data(ANN, GROUP, message.id, "0123456789abcdef0123456789abcdef");
    nothing_happened(&phone, &ask, &forged, "no longer works");
    phone.bot.told(BOB, &message, "SQLite");
    let ended = phone.ended(&ask);
    assert_eq!(ended["by"]["name"], "User12 [12]", "where several may answer, the number tells who did");
    let late = phone.bot.notice(&press(ANN, GROUP, message.id));
    assert!(late.alert && late.text.contains("Already decided by User12 on Telegram: SQLite"), "{late:?}");
    assert_eq!(phone.hub.ask(&ask), ended);
}

#[test]
fn two_chats_with_open_asks_never_answer_each_other() {
    let phone = Phone::with(BOTH);
    let (first, second) = (phone.ask("a", "First?"), phone.ask("b", "Second?"));
    let here = phone.shown("First?");
    let there = phone.bot.message(GROUP, "Second?");
    assert_ne!(here.data("SQLite"), phone.bot.message(GROUP, "First?").data("SQLite"));
    phone.bot.told(ANN, &here, "SQLite");
    phone.bot.told(BOB, &there, "PostgreSQL");
    assert_eq!(selected(&phone.ended(&first), 0), &json!(["SQLite"]));
    assert_eq!(selected(&phone.ended(&second), 0), &json!(["PostgreSQL"]));
    // Every copy says so.
    phone.bot.changed(&phone.bot.message(GROUP, "First?"), "→ SQLite");
    phone.bot.changed(&phone.shown("Second?"), "→ PostgreSQL");
    phone.nothing_to_complain_of();
}

#[test]
fn a_final_press_counts_once_and_a_toggle_as_often_as_it_is_pressed() {
    let phone = Phone::new();
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let ask = phone.raise(
        "k",
        "question",
        json!({"questions": [{"question": "Which?", "multi_select": true, "options": options}]}),
    );
    let message = phone.shown("Which?");
    let (red, done) = (message.data("red"), message.data("Done"));
    for _ in 0..3 {
        let press = phone.bot.press_data(ANN, ANN, message.id, &red);
        assert!(!phone.bot.notice(&press).alert);
    }
    let presses: Vec<_> = (0..3).map(|_| phone.bot.press_data(ANN, ANN, message.id, &done)).collect();
    let told: Vec<_> = presses.iter().map(|press| phone.bot.notice(press)).collect();
    assert_eq!(told.iter().filter(|notice| notice.text == "Recorded: red").count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|notice| notice.alert).count(), 2, "{told:?}");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["red"]));
}

#[test]
fn an_anonymous_administrator_and_a_channel_are_nobody() {
    let phone = Phone::with(BOTH);
    let ask = phone.ask("k", "Which DB?");
    let message = phone.bot.message(GROUP, "Which DB?");
    let before = phone.bot.messages(GROUP).len();
    let reply = aye_testkit::telegram::replied(&message);
    let anonymous = json!({"text": "SQLite", "sender_chat": {"id": GROUP, "type": "supergroup"}, "reply_to_message": reply});
    phone.bot.send(ANN, GROUP, anonymous);
    let robot = json!({"text": "SQLite", "from": {"id": ANN, "is_bot": true, "first_name": "Group"}, "reply_to_message": reply});
    phone.bot.send(ANN, GROUP, robot);
    let channel =
        json!({"text": "SQLite", "chat": {"id": GROUP, "type": "channel"}, "reply_to_message": reply});
    let last = phone.bot.send(ANN, GROUP, channel);
    phone.bot.confirmed(last);
    assert_eq!(phone.hub.ask(&ask)["state"], "open");
    assert_eq!(phone.bot.messages(GROUP).len(), before, "nobody gets a reply");
}

#[test]
fn a_forwarded_message_is_not_an_answer_and_an_edit_changes_none() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.told(ANN, &message, "Other…");
    phone.bot.changed(&message, "next message");
    phone.bot.send(
        ANN,
        ANN,
        json!({"text": "from Eve", "forward_origin": {"type": "user", "sender_user": {"id": EVE}}}),
    );
    phone.shown("Forwarded messages are ignored");
    assert_eq!(phone.hub.ask(&ask)["state"], "open");
    phone.bot.say(ANN, ANN, "as it was");
    assert_eq!(phone.ended(&ask)["answer"]["answers"][0]["text"], "as it was");
    phone.bot.edit(ANN, ANN, "as it should have been");
    phone.shown("Edits do not change");
    assert_eq!(phone.hub.ask(&ask)["answer"]["answers"][0]["text"], "as it was");
}

#[test]
fn strangers_get_no_reply_and_start_nothing() {
    let phone = Phone::new();
    phone.bot.say(EVE, EVE, "/agents");
    let last = phone.bot.say(EVE, ANN, "/status");
    phone.bot.confirmed(last);
    assert_eq!(phone.bot.calls("sendMessage"), 0);
}

fn refused_to_start(telegram: &str, mode: u32) -> String {
    let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(SECOND));
    let home = dir.path().join("home");
    prepare(&home, &bot, telegram, "");
    fs::set_permissions(home.join("telegram.token"), fs::Permissions::from_mode(mode)).unwrap();
    let output = aye(&home).args(["up", "--no-open", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(!output.status.success());
    crate::support::complained(&output)
}

#[test]
fn an_empty_list_or_a_token_that_others_can_read_does_not_start() {
    let empty = refused_to_start("users = []\nchats = [11]", 0o600);
    assert!(empty.contains("nobody could answer there"), "{empty}");
    let open = refused_to_start(ALONE, 0o644);
    assert!(open.contains("chmod 600") && !open.contains(TOKEN), "{open}");
}

#[test]
fn the_token_is_in_no_log_no_error_and_no_database() {
    let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(SECOND));
    let home = dir.path().join("home");
    prepare(&home, &bot, ALONE, "");
    let log = dir.path().join("log");
    let mut command = aye(&home);
    command
        .args(["up", "--no-open", "--listen", "127.0.0.1:0"])
        .env("AYE_LOG", "trace")
        .stderr(Stdio::from(File::create(&log).unwrap()));
    use aye_testkit::telegram::Fault;
    bot.fail("getUpdates", Fault::Refuse(400, format!("Bad Request: you said /bot{TOKEN}/getUpdates")));
    bot.fail("sendMessage", Fault::Refuse(403, format!("Forbidden: {TOKEN} was blocked")));
    bot.fail("sendMessage", Fault::CloseAfter);
    let mut hub = Hub::start_with(command, home.clone());
    let agent = hub.agent("bot");
    let ask = hub.raise(&agent, "bot", "k", "question", which("Which DB?"));
    let message = eventually("a message", || bot.messages(ANN).pop());
    bot.told(ANN, &message, "SQLite");
    eventually("an answer", || (hub.ask(&ask)["state"] == "answered").then_some(()));
    assert!(hub.stop().success());
    let secret = TOKEN.split_once(':').unwrap().1;
    let mut looked = 0;
    for file in fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()).chain([log]) {
        if file.file_name().is_some_and(|name| name != "telegram.token") && file.is_file() {
            let bytes = fs::read(&file).unwrap();
            looked += 1;
            assert!(
                !bytes.windows(secret.len()).any(|window| window == secret.as_bytes()),
                "{}",
                file.display()
            );
        }
    }
    assert!(looked >= 3);
}
