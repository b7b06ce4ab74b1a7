use super::*;
use aye_testkit::telegram::Fault;

const ASKS: usize = 200;

#[test]
fn two_hundred_asks_are_all_shown_in_order_within_the_limits_though_every_fifth_call_must_wait() {
    let second = Duration::from_millis(5);
    let (dir, bot) = (tempfile::tempdir().unwrap(), Telegram::start(second));
    prepare_with(&dir.path().join("home"), &bot, second, ALONE, "");
    let phone = Phone::start(dir, bot);
    phone.bot.fail_every(5, Fault::TooMany(2));
    let asks: Vec<_> = (0..ASKS).map(|n| phone.ask(&format!("k{n}"), &format!("Question {n:03}?"))).collect();
    let shown =
        eventually("all to be shown", || Some(phone.bot.messages(ANN)).filter(|all| all.len() >= ASKS));
    let numbers: Vec<_> =
        shown.iter().map(|message| message.text.split("Question ").nth(1).unwrap()[..3].to_owned()).collect();
    let expected: Vec<_> = (0..ASKS).map(|n| format!("{n:03}")).collect();
    assert_eq!(numbers, expected, "each once, in the order they were asked");
    for at in [0, 77, ASKS - 1] {
        phone.bot.told(ANN, &shown[at], "SQLite");
        assert_eq!(selected(&phone.ended(&asks[at]), 0), &json!(["SQLite"]));
        phone.bot.changed(&shown[at], "Answered by User11");
    }
    phone.nothing_to_complain_of();
    assert!(phone.bot.calls("sendMessage") > ASKS * 6 / 5, "every fifth call had to be made again");
}
