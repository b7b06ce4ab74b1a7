use super::*;
use aye_testkit::telegram::Fault;

const ASKS: usize = 200;

#[test]
fn two_hundred_asks_are_all_shown_in_order_though_every_fifth_call_must_wait() {
    let phone = Phone::new();
    // Nothing gets through until all of them wait.
    phone.bot.shut(ANN, 403, "Forbidden: bot was blocked by the user");
    let asks = a_burst(&phone, ASKS, |n| format!("Question {n:03}?"));
    phone.bot.open_again(ANN);
    phone.bot.fail_every(5, Fault::TooMany(2));
    // A word from there ends the pause.
    phone.bot.say(ANN, ANN, "/cancel");
    let list = phone.shown("199 requests are waiting");
    assert!(!list.silent && list.text.contains("40. bot: ❓ Question 040?"), "{}", list.text);
    assert!(list.text.contains("and 159 more"), "{}", list.text);
    phone.bot.told(ANN, &list, "Show all");
    let shown = eventually("all to be shown", || {
        let all = phone.bot.messages(ANN).into_iter();
        let all: Vec<_> = all.filter(|message| message.text.contains("a server")).collect();
        Some(all).filter(|all| all.len() >= ASKS)
    });
    let number = |message: &Message| message.text.split("Question ").nth(1).unwrap()[..3].to_owned();
    let numbers: Vec<_> = shown.iter().map(number).collect();
    let expected: Vec<_> = (0..ASKS).map(|n| format!("{n:03}")).collect();
    assert_eq!(numbers, expected, "each once, and in the order in which they were asked");
    for at in [0, 77, ASKS - 1] {
        phone.bot.told(ANN, &shown[at], "SQLite");
        assert_eq!(selected(&phone.ended(&asks[at]), 0), &json!(["SQLite"]));
        phone.bot.changed(&shown[at], "Answered by User11");
    }
    phone.nothing_to_complain_of();
    assert!(phone.bot.calls("sendMessage") > ASKS * 6 / 5, "every fifth call had to be made again");
}

/// So many asks, the first of which is on its way when the others come.
fn a_burst(phone: &Phone, asks: usize, question: impl Fn(usize) -> String) -> Vec<Value> {
    let ask = |n: usize| phone.ask(&format!("k{n}"), &question(n));
    let first = ask(0);
    eventually("the first to be tried", || (phone.bot.calls("sendMessage") > 0).then_some(()));
    std::iter::once(first).chain((1..asks).map(ask)).collect()
}

#[test]
fn many_asks_at_once_are_one_message_with_a_list() {
    let phone = Phone::new();
    // The first, and then the list itself, must wait.
    phone.bot.fail("sendMessage", Fault::TooMany(50));
    let asks = a_burst(&phone, 26, |n| format!("Question {n:02}?"));
    phone.shown("Question 00?");
    let list = phone.shown("25 requests are waiting");
    assert!(!list.silent && list.text.contains("1. bot: ❓ Question 01?"), "{}", list.text);
    assert_eq!(phone.bot.messages(ANN).len(), 2, "one message for all the others");
    phone.bot.told(ANN, &list, "7");
    let is_it = |message: &Message| message.text.contains("Question 07?") && message.id > list.id;
    let shown = phone.bot.message_where(ANN, "the seventh", is_it);
    phone.bot.told(ANN, &shown, "SQLite");
    assert_eq!(selected(&phone.ended(&asks[7]), 0), &json!(["SQLite"]));
    let renewed = phone.bot.changed(&list, "24 requests are waiting");
    assert!(
        renewed.text.contains("7. ✓ bot: ❓ Question 07?") && !renewed.labels().contains(&"7"),
        "{}",
        renewed.text
    );
    // A text is not taken for a new task while questions wait that nobody opened.
    phone.hub.answer(&asks[0], json!({"answers": [{"selected": ["SQLite"]}]}));
    phone.bot.say(ANN, ANN, "the small one");
    let offer = phone.shown("open the request from the list");
    phone.bot.told(ANN, &offer, "Neither");
    for ask in &asks {
        phone.hub.answer(ask, json!({"answers": [{"selected": ["SQLite"]}]}));
    }
    let over = phone.bot.changed(&list, "All 25 requests are answered");
    assert!(over.buttons.is_empty());
    phone.nothing_to_complain_of();
}

#[test]
fn whoever_presses_sees_the_effect_before_anything_else_is_announced() {
    let phone = Phone::new();
    let first = phone.ask("first", "First?");
    let message = phone.shown("First?");
    // Nothing can be said for a while, and much waits.
    phone.bot.fail("sendMessage", Fault::TooMany(60));
    for n in 0..4 {
        phone.ask(&format!("k{n}"), &format!("Later {n}?"));
    }
    phone.bot.told(ANN, &message, "SQLite");
    phone.ended(&first);
    phone.bot.changed(&message, "Answered by User11");
    let made = phone.bot.made(ANN);
    let (method, id) = &made[1];
    assert_eq!((method.as_str(), *id), ("editMessageText", message.id), "{made:?}");
    phone.shown("Later 3?");
    phone.nothing_to_complain_of();
}

#[test]
fn a_list_is_called_to_mind_once_and_its_reminder_goes_with_the_last_answer() {
    let phone = Phone::with(&format!("{ALONE}\nremind_after = \"2s\""));
    phone.bot.fail("sendMessage", Fault::TooMany(20));
    let asks = a_burst(&phone, 9, |n| format!("Question {n}?"));
    let list = phone.shown("8 requests are waiting");
    let reminder = phone.shown("Still waiting for you: 8 requests");
    assert!(!reminder.silent && reminder.reply_to == Some(list.id));
    for ask in &asks {
        phone.hub.answer(ask, json!({"answers": [{"selected": ["SQLite"]}]}));
    }
    phone.bot.changed(&list, "All 8 requests are answered");
    eventually("the reminder to go", || {
        phone.bot.messages(ANN).iter().all(|message| message.id != reminder.id).then_some(())
    });
    phone.nothing_to_complain_of();
}

#[test]
fn what_comes_right_after_a_list_is_added_to_it_until_somebody_opens_all_of_it() {
    let phone = Phone::new();
    phone.bot.fail("sendMessage", Fault::TooMany(20));
    let asks = a_burst(&phone, 9, |n| format!("Question {n}?"));
    let list = phone.shown("8 requests are waiting");
    let late = phone.ask("late", "One more?");
    let longer = phone.bot.changed(&list, "9 requests are waiting");
    assert!(longer.text.contains("9. bot: ❓ One more?"), "{}", longer.text);
    assert_eq!(phone.bot.messages(ANN).len(), 2, "no message of its own");
    phone.bot.told(ANN, &longer, "9");
    let is_it = |message: &Message| message.text.contains("One more?") && message.text.contains("a server");
    let shown = phone.bot.message_where(ANN, "the ninth", is_it);
    phone.bot.told(ANN, &shown, "SQLite");
    phone.ended(&late);
    phone.bot.changed(&list, "8 requests are waiting");
    phone.bot.told(ANN, &list, "Show all");
    // Its list is done with: what comes now rings by itself.
    phone.ask("later", "And this?");
    let own = phone.bot.message_where(ANN, "a message of its own", |message| {
        message.text.starts_with("❓ DB") && message.text.contains("And this?")
    });
    assert!(!own.silent);
    drop(asks);
    phone.nothing_to_complain_of();
}

#[test]
fn a_list_that_somebody_deleted_is_posted_anew() {
    let phone = Phone::new();
    phone.bot.fail("sendMessage", Fault::TooMany(20));
    let asks = a_burst(&phone, 9, |n| format!("Question {n}?"));
    let list = phone.shown("8 requests are waiting");
    phone.bot.fail("editMessageText", Fault::Refuse(400, "Bad Request: message to edit not found".into()));
    phone.hub.answer(&asks[3], json!({"answers": [{"selected": ["SQLite"]}]}));
    let anew = phone.bot.message_where(ANN, "a new list", |found| {
        found.id > list.id && found.text.contains("7 requests are waiting")
    });
    assert!(!anew.text.contains("Question 3?"), "{}", anew.text);
    let press = phone.bot.press(ANN, &list, "1");
    assert!(phone.bot.notice(&press).text.contains("no longer works"));
}
