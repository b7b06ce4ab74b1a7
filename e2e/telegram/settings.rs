//! `[telegram]` takes effect when it is saved.

use super::*;

fn rewrite(phone: &Phone, telegram: &str) {
    let config = format!("[telegram]\napi_url = \"{}\"\n{telegram}\n", phone.bot.url);
    fs::write(phone.hub.home.join("config.toml"), config).unwrap();
}

#[test]
fn who_may_answer_counts_as_soon_as_it_is_saved() {
    let phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    let press = phone.bot.press(BOB, &message, "SQLite");
    assert!(phone.bot.notice(&press).text.contains("not allowed"));
    rewrite(&phone, "users = [11, 12]\nchats = [11, -100500]");
    let there = phone.bot.message(GROUP, "Which DB?");
    phone.bot.told(BOB, &there, "SQLite");
    assert_eq!(phone.ended(&ask)["by"]["name"], "User12 [12]");
    phone.bot.changed(&message, "Answered by User12 on Telegram");
    phone.nothing_to_complain_of();
}

#[test]
fn a_bot_is_switched_on_and_off_and_a_mistake_leaves_it_as_it_was() {
    let phone = Phone::new();
    fs::write(phone.hub.home.join("config.toml"), "").unwrap();
    eventually("the bot to be off", || (!super::attention::operators(&phone)).then_some(()));
    phone.ask("a", "While it is off?");
    rewrite(&phone, ALONE);
    phone.shown("While it is off?");
    rewrite(&phone, "users = []\nchats = [11]");
    phone.ask("b", "After a mistake?");
    phone.shown("After a mistake?");
}

#[test]
fn a_hub_that_starts_with_a_broken_policy_still_asks_on_telegram() {
    let phone = Phone::with_config(ALONE, "[policy]\nauto_aprove = [\"*\"]");
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.told(ANN, &message, "SQLite");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["SQLite"]));
    // A corrected file takes effect, and the bot continues.
    rewrite(&phone, ALONE);
    phone.ask("l", "And now?");
    phone.shown("And now?");
}
