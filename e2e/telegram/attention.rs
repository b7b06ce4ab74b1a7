use super::*;
use aye_testkit::telegram::Fault;
use std::io::{Read, Write};

#[test]
fn what_is_answered_at_the_desk_in_time_is_never_shown() {
    let phone = Phone::with(&format!("{ALONE}\nnotify_after = \"1500ms\""));
    let first = phone.ask("a", "At the host?");
    assert_eq!(phone.hub.answer(&first, json!({"answers": [{"selected": ["SQLite"]}]})).status, 200);
    phone.ask("b", "Nobody there?");
    assert_eq!(phone.bot.calls("sendMessage"), 0, "not yet");
    let message = phone.shown("Nobody there?");
    assert!(!message.silent);
    assert_eq!(phone.bot.messages(ANN).len(), 1);
}

#[test]
fn an_ask_that_stays_open_is_called_to_mind_once() {
    let phone = Phone::with(&format!("{ALONE}\nremind_after = \"1s\""));
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    let reminder = phone.shown("Still waiting for you");
    assert!(!reminder.silent && reminder.reply_to == Some(message.id));
    phone.bot.told(ANN, &message, "SQLite");
    phone.ended(&ask);
    eventually("the reminder to go", || (phone.bot.messages(ANN).len() == 1).then_some(()));
    assert_eq!(phone.bot.calls("sendMessage"), 2);
}

/// Whether the hub thinks that somebody is there who could answer.
pub fn operators(phone: &Phone) -> bool {
    let mut stream = phone.hub.connect_unix();
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", phone.hub.address);
    write!(stream, "{head}Authorization: Bearer {}\r\n\r\n", phone.hub.operator()).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page.contains("aye_surfaces_connected{role=\"operator\"} 1")
}

#[test]
fn somebody_is_there_as_long_as_telegram_talks_to_us() {
    let phone = Phone::new();
    eventually("the bot to be there", || operators(&phone).then_some(()));
    for _ in 0..500 {
        phone.bot.fail("getUpdates", Fault::BadGateway);
        phone.bot.fail("getMe", Fault::BadGateway);
    }
    phone.bot.poll_from_elsewhere();
    eventually("the bot to be gone", || (!operators(&phone)).then_some(()));
    phone.bot.fail_no_more();
    eventually("the bot to be back", || operators(&phone).then_some(()));
}
