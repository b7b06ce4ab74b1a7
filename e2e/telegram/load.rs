use super::*;
use aye_testkit::telegram::Fault;

const ASKS: usize = 200;

#[test]
fn two_hundred_asks_are_all_shown_within_the_limits_though_every_fifth_call_must_wait() {
    let second = Duration::from_millis(5);
    let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(second));
    prepare_with(&dir.path().join("home"), &bot, second, ALONE, "");
    let phone = Phone::start(dir, bot);
    phone.bot.fail_every(5, Fault::TooMany(2));
    let asks: Vec<_> = (0..ASKS).map(|n| phone.ask(&format!("k{n}"), &format!("Question {n:03}?"))).collect();
    let questions = || {
        let all = phone.bot.messages(ANN).into_iter();
        all.filter(|message| message.text.contains("a server")).collect::<Vec<_>>()
    };
    // Most of them came at once, so they are in lists; whoever wants them all gets them all.
    let mut pressed = vec![];
    let shown = eventually("all to be shown", || {
        for list in phone.bot.messages(ANN) {
            if list.labels().contains(&"Show all") && !pressed.contains(&list.id) {
                assert!(!list.silent && list.text.contains("requests are waiting"), "{}", list.text);
                phone.bot.press(ANN, &list, "Show all");
                pressed.push(list.id);
            }
        }
        Some(questions()).filter(|all| all.len() >= ASKS)
    });
    assert!(!pressed.is_empty());
    let number = |message: &Message| message.text.split("Question ").nth(1).unwrap()[..3].to_owned();
    let mut numbers: Vec<_> = shown.iter().map(number).collect();
    let mut sorted = shown.clone();
    sorted.sort_by_key(|message| number(message));
    numbers.sort();
    let expected: Vec<_> = (0..ASKS).map(|n| format!("{n:03}")).collect();
    assert_eq!(numbers, expected, "each once");
    for at in [0, 77, ASKS - 1] {
        phone.bot.told(ANN, &sorted[at], "SQLite");
        assert_eq!(selected(&phone.ended(&asks[at]), 0), &json!(["SQLite"]));
        phone.bot.changed(&sorted[at], "Answered by User11");
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
