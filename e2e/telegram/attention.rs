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

/// The two messages of a request in Ann's chat and in the group, once the bot knows who is in the group.
fn in_both_chats(phone: &Phone, is_it: impl Fn(&Message, &Message) -> bool) -> (Message, Message) {
    let mut n = 0;
    eventually("a request that rings as it should", || {
        n += 1;
        let words = format!("Question {n}?");
        phone.ask(&format!("k{n}"), &words);
        let both = (phone.shown(&words), phone.bot.message(GROUP, &words));
        is_it(&both.0, &both.1).then_some(both)
    })
}

#[test]
fn whoever_is_in_two_chats_is_rung_once() {
    // Bob has no private chat, so the group rings.
    let phone = Phone::with(BOTH);
    in_both_chats(&phone, |private, group| private.silent && !group.silent);
    // Both have one.
    let phone = Phone::with("users = [11, 12]\nchats = [11, 12, -100500]");
    in_both_chats(&phone, |private, group| !private.silent && group.silent);
    // Ann is not in the group.
    let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(SECOND));
    prepare(&dir.path().join("home"), &bot, BOTH, "");
    bot.leave(GROUP, ANN);
    let phone = Phone::start(dir, bot);
    in_both_chats(&phone, |private, group| !private.silent && !group.silent);
}

#[test]
fn a_chat_rings_after_all_if_the_one_that_was_to_ring_is_shut() {
    let phone = Phone::with(BOTH);
    in_both_chats(&phone, |private, group| private.silent && !group.silent);
    phone.bot.shut(GROUP, 403, "Forbidden: bot was kicked from the supergroup chat");
    phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    let rung =
        |found: &Message| !found.silent && (found.id == message.id || found.reply_to == Some(message.id));
    phone.bot.message_where(ANN, "a ring", rung);
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
