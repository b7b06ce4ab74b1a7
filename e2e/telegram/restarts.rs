use super::*;
use aye_testkit::telegram::Fault;

#[test]
fn a_button_shown_before_a_crash_works_after_it() {
    let mut phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    eventually("the message to be noted", || (phone.bot.calls("sendMessage") == 1).then_some(()));
    phone.restart();
    phone.hub.kill();
    phone.hub.restart();
    phone.bot.told(ANN, &message, "SQLite");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["SQLite"]));
    phone.bot.changed(&message, "Answered by User11");
    assert_eq!(phone.bot.messages(ANN).len(), 1);
}

#[test]
fn a_half_filled_form_is_as_it_was_after_a_crash() {
    let mut phone = Phone::new();
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let question = |text: &str, several: bool| json!({"question": text, "multi_select": several, "free_text": true, "options": options});
    let body =
        json!({"questions": [question("One?", false), question("Many?", true), question("Own?", false)]});
    let ask = phone.raise("k", "question", body);
    let message = phone.shown("One?");
    phone.bot.told(ANN, &message, "red");
    let second = phone.bot.changed(&message, "2 of 3");
    phone.bot.told(ANN, &second, "blue");
    let second = phone.bot.with_button(&message, "☑ 2. blue");
    phone.hub.kill();
    phone.hub.restart();
    phone.bot.told(ANN, &second, "red");
    let second = phone.bot.with_button(&message, "☑ 1. red");
    phone.bot.told(ANN, &second, "Done");
    let third = phone.bot.changed(&message, "3 of 3");
    phone.bot.told(ANN, &third, "Other…");
    phone.bot.changed(&message, "next message");
    phone.hub.kill();
    phone.hub.restart();
    phone.bot.say(ANN, ANN, "green");
    let review = phone.bot.changed(&message, "Check your answers");
    phone.hub.kill();
    phone.hub.restart();
    phone.bot.told(ANN, &review, "Send");
    let ended = phone.ended(&ask);
    assert_eq!(
        ended["answer"],
        json!({"answers": [{"selected": ["red"]}, {"selected": ["red", "blue"]}, {"text": "green"}]})
    );
    phone.nothing_to_complain_of();
}

#[test]
fn what_people_do_while_the_hub_is_down_counts_when_it_is_back() {
    let mut phone = Phone::new();
    let (first, second) = (phone.ask("a", "First?"), phone.ask("b", "Second?"));
    let (one, two) = (phone.shown("First?"), phone.shown("Second?"));
    assert!(phone.hub.stop().success());
    // They come in the wrong order as well.
    phone.bot.send_backwards();
    let press = phone.bot.press(ANN, &one, "SQLite");
    let other = phone.bot.press(ANN, &two, "Other…");
    phone.bot.say(ANN, ANN, "typed meanwhile");
    phone.hub.restart();
    assert_eq!(phone.bot.notice(&press).text, "Recorded: SQLite");
    phone.bot.notice(&other);
    assert_eq!(selected(&phone.ended(&first), 0), &json!(["SQLite"]));
    assert_eq!(phone.ended(&second)["answer"]["answers"][0]["text"], "typed meanwhile");
}

#[test]
fn an_update_that_comes_again_after_a_crash_does_nothing() {
    let mut phone = Phone::new();
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let ask = phone.raise(
        "k",
        "question",
        json!({"questions": [{"question": "Which?", "multi_select": true, "options": options}]}),
    );
    let message = phone.shown("Which?");
    phone.bot.told(ANN, &message, "red");
    let toggled = phone.bot.last_update();
    phone.bot.with_button(&message, "☑ 1. red");
    phone.bot.send_again(toggled);
    phone.hub.kill();
    phone.hub.restart();
    phone.bot.send_again(toggled);
    phone.bot.told(ANN, &message, "blue");
    let message = phone.bot.with_button(&message, "☑ 2. blue");
    assert!(message.labels().contains(&"☑ 1. red"), "{:?}", message.labels());
    phone.bot.told(ANN, &message, "Done");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["red", "blue"]));
}

#[test]
fn a_crash_while_a_message_is_sent_neither_loses_it_nor_makes_its_buttons_worthless() {
    let mut phone = Phone::new();
    phone.bot.fail("sendMessage", Fault::HangAfter);
    let ask = phone.ask("k", "Which DB?");
    let first = phone.shown("Which DB?");
    phone.hub.kill();
    phone.hub.restart();
    let second = phone.bot.message_where(ANN, "the second copy", |message| message.id != first.id);
    // Nobody knows of the first; it shows itself by being pressed.
    phone.bot.told(ANN, &first, "SQLite");
    assert_eq!(selected(&phone.ended(&ask), 0), &json!(["SQLite"]));
    for copy in [&first, &second] {
        assert!(phone.bot.changed(copy, "Answered by User11").buttons.is_empty());
    }
}
