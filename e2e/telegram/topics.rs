//! Forums: a run and what it asks stay in the topic that it was started in.

use super::runs::RunHost;
use super::*;
use aye_testkit::scenario::{text, tool};

const TOPIC: i64 = 42;
const OTHER: i64 = 43;

fn asking() -> RunHost {
    let question = json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "."}, {"label": "SQLite", "description": "."}]}]});
    let steps = json!([[tool("toolu_q", "AskUserQuestion", question)], [text("Thanks.")], {"do": "turn"},
        [text("More.")], {"do": "turn"}]);
    RunHost::new(BOTH, &["web"], steps)
}

#[test]
fn a_run_and_its_requests_stay_in_their_topic_through_a_restart() {
    let mut host = asking();
    host.phone.bot.say_in(BOB, GROUP, TOPIC, "/new choose a database");
    let message = host.phone.bot.message(GROUP, "Which DB?");
    assert_eq!(message.topic, Some(TOPIC));
    host.phone.restart();
    host.phone.bot.told(BOB, &message, "SQLite");
    host.phone.bot.message(GROUP, "Thanks.");
    // Prompts from elsewhere are answered there, too.
    let path = format!("/api/agents/{}/prompt", host.agents()[0]["id"].as_str().unwrap());
    host.phone.hub.post(&path, &host.phone.hub.operator(), json!({ "text": "go on" }));
    host.phone.bot.message(GROUP, "More.");
    let all = host.phone.bot.messages(GROUP);
    assert!(all.iter().all(|message| message.topic == Some(TOPIC)), "{all:?}");
    host.phone.nothing_to_complain_of();
}

#[test]
fn each_topic_has_a_run_of_its_own() {
    let host =
        RunHost::new(BOTH, &["web"], json!([[text("One.")], {"do": "turn"}, [text("Two.")], {"do": "turn"}]));
    let bot = &host.phone.bot;
    for topic in [TOPIC, OTHER] {
        bot.say_in(BOB, GROUP, topic, "@aye_test_bot /new");
        bot.say_in(BOB, GROUP, topic, &format!("/new task {topic}"));
        bot.message_where(GROUP, "its end", |found| {
            found.topic == Some(topic) && found.text.contains("One.")
        });
    }
    assert_eq!((host.agents().len(), host.prompts("web")), (2, vec!["task 42".into(), "task 43".into()]));
    bot.say_in(BOB, GROUP, OTHER, "/status");
    let status = bot.message(GROUP, "Run: web");
    assert_eq!(status.topic, Some(OTHER));
}

#[test]
fn what_a_closed_topic_does_not_take_is_shown_outside_of_it() {
    for deleted in [false, true] {
        let host = asking();
        let bot = &host.phone.bot;
        bot.say_in(BOB, GROUP, TOPIC, "/new choose a database");
        let message = bot.message(GROUP, "Which DB?");
        match deleted {
            true => bot.delete_topic(GROUP, TOPIC),
            false => bot.close_topic(GROUP, TOPIC),
        }
        bot.told(BOB, &message, "Note…");
        let is_it = |found: &Message| {
            found.id > message.id && found.text.contains("Which DB?") && found.topic.is_none()
        };
        let outside = bot.message_where(GROUP, "the question outside", is_it);
        bot.told(BOB, &outside, "SQLite");
        let is_end = |found: &Message| found.text.contains("Thanks.") && found.topic.is_none();
        bot.message_where(GROUP, "the end outside", is_end);
        host.phone.nothing_to_complain_of();
    }
}
