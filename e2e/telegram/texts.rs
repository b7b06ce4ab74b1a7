//! What people write, and where it goes.

use super::runs::RunHost;
use super::*;
use aye_testkit::scenario::{text, tool};

fn asking() -> RunHost {
    let question = json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "."}, {"label": "SQLite", "description": "."}]}]});
    RunHost::new(
        ALONE,
        &["web"],
        json!([[tool("toolu_q", "AskUserQuestion", question)], [text("Thanks.")], {"do": "turn"},
        [text("More.")], {"do": "turn"}]),
    )
}

#[test]
fn a_text_while_a_question_is_open_is_offered_as_its_answer() {
    let host = asking();
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "choose a database");
    let message = host.phone.shown("Which DB?");
    bot.say(ANN, ANN, "DuckDB, please");
    let offer = host.phone.shown("Is this an answer?");
    assert!(offer.text.contains("“DuckDB, please”") && offer.silent, "{}", offer.text);
    assert_eq!(offer.labels(), ["✅ Answer to: Which DB?", "➡️ Send to web", "Neither"]);
    assert_eq!(host.prompts("web"), ["choose a database"], "nothing counts before it is confirmed");
    bot.told(ANN, &offer, "Answer to");
    bot.changed(&message, "→ DuckDB, please");
    assert!(bot.changed(&offer, "Taken as the answer").buttons.is_empty());
    host.phone.shown("web · done");
    assert_eq!(host.prompts("web"), ["choose a database"]);
    host.phone.nothing_to_complain_of();
}

#[test]
fn a_text_that_is_no_answer_goes_to_the_run() {
    let host = asking();
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "choose a database");
    let message = host.phone.shown("Which DB?");
    bot.say(ANN, ANN, "and then write the tests");
    let offer = host.phone.shown("Is this an answer?");
    bot.told(ANN, &offer, "Send to web");
    bot.changed(&offer, "Sent to the run");
    bot.told(ANN, &message, "SQLite");
    eventually("the prompt to arrive", || {
        (host.prompts("web") == ["choose a database", "and then write the tests"]).then_some(())
    });
}

#[test]
fn where_no_run_goes_on_a_text_starts_none_while_a_question_is_open() {
    let phone = Phone::with_config(ALONE, "[projects]\nweb = \"/\"");
    let ask = phone.ask("k", "Which DB?");
    phone.shown("Which DB?");
    phone.bot.say(ANN, ANN, "SQLite it is");
    let offer = phone.shown("Is this an answer?");
    assert!(offer.labels().contains(&"➡️ Start a run with it"), "{:?}", offer.labels());
    phone.bot.told(ANN, &offer, "Neither");
    phone.bot.changed(&offer, "Ignored");
    assert_eq!(phone.hub.ask(&ask)["state"], "open");
    let twice = phone.bot.press_data(ANN, ANN, offer.id, &offer.data("Answer to"));
    assert!(phone.bot.notice(&twice).alert);
    assert_eq!(phone.hub.ask(&ask)["state"], "open");
}

#[test]
fn the_newest_questions_are_offered_first() {
    let phone = Phone::new();
    for n in 1..=4 {
        phone.ask(&format!("k{n}"), &format!("Question {n}?"));
        phone.shown(&format!("Question {n}?"));
    }
    phone.bot.say(ANN, ANN, "the small one");
    let offer = phone.shown("Is this an answer?");
    let answers = ["✅ Answer to: Question 4?", "✅ Answer to: Question 3?", "✅ Answer to: Question 2?"];
    assert_eq!(offer.labels()[..3], answers);
}

#[test]
fn an_offer_survives_a_crash() {
    let mut phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    phone.shown("Which DB?");
    phone.bot.say(ANN, ANN, "DuckDB");
    let offer = phone.shown("Is this an answer?");
    phone.hub.kill();
    phone.hub.restart();
    phone.bot.told(ANN, &offer, "Answer to");
    assert_eq!(phone.ended(&ask)["answer"]["answers"][0]["text"], "DuckDB");
}

#[test]
fn a_reply_to_a_reminder_a_part_or_a_file_belongs_to_its_question() {
    let phone = Phone::with(&format!("{ALONE}\nremind_after = \"1s\""));
    let first = phone.ask("a", "Which DB?");
    let reminder = phone.shown("Still waiting for you");
    phone.bot.reply(ANN, &reminder, "DuckDB");
    assert_eq!(phone.ended(&first)["answer"]["answers"][0]["text"], "DuckDB");
    let preview = |letter: &str| json!({"label": letter, "preview": letter.repeat(3000)});
    let question = json!({"question": "Long?", "free_text": true, "options": [preview("a"), preview("b")]});
    let second = phone.raise("b", "question", json!({"questions": [question]}));
    let file = phone.bot.message_where(ANN, "the file", |message| message.file.is_some());
    phone.bot.reply(ANN, &file, "the file is wrong");
    assert_eq!(phone.ended(&second)["answer"]["answers"][0]["text"], "the file is wrong");
    let plan = phone.raise("c", "plan", json!({"plan": "a line of the plan\n".repeat(500)}));
    let part = phone.shown("Plan, part 2 of 3");
    phone.bot.reply(ANN, &part, "no");
    phone.shown("Please use the buttons");
    assert_eq!(phone.hub.ask(&plan)["state"], "open");
}

#[test]
fn an_unknown_command_starts_nothing() {
    let host = RunHost::new(ALONE, &["web"], json!([[text("Done.")], {"do": "turn"}]));
    let bot = &host.phone.bot;
    let last = bot.say(ANN, ANN, "/compact everything");
    bot.confirmed(last);
    host.phone.shown("Unknown command: /compact");
    assert!(host.agents().is_empty());
    bot.say(ANN, ANN, "/etc/hosts is wrong");
    host.phone.shown("web · done");
    assert_eq!(host.prompts("web"), ["/etc/hosts is wrong"]);
}

#[test]
fn a_prompt_that_telegram_splits_arrives_whole() {
    let host = RunHost::new(ALONE, &["web"], json!([[text("Done.")], {"do": "turn"}]));
    let (first, second, third) = ("x".repeat(4096), "y".repeat(4096), "and the rest");
    for part in [&first, &second, third] {
        host.phone.bot.say(ANN, ANN, part);
    }
    host.phone.shown("web · done");
    assert_eq!(host.prompts("web"), [format!("{first}{second}{third}")]);
    assert_eq!(host.agents().len(), 1);
}

#[test]
fn a_long_text_with_no_second_part_counts_once_through_a_crash() {
    let mut phone = Phone::new();
    let ask = phone.ask("k", "Which DB?");
    let message = phone.shown("Which DB?");
    phone.bot.told(ANN, &message, "Other…");
    phone.bot.changed(&message, "next message");
    let update = phone.bot.say(ANN, ANN, &"long ".repeat(500));
    phone.bot.confirmed(update);
    phone.hub.kill();
    phone.bot.send_again(update);
    phone.hub.restart();
    let ended = phone.ended(&ask);
    assert_eq!(ended["answer"]["answers"][0]["text"], "long ".repeat(500).trim());
}

#[test]
fn a_reply_to_a_list_or_an_offer_starts_nothing() {
    let phone = Phone::with_config(ALONE, "[projects]\nweb = \"/\"");
    let ask = phone.raise("k", "permission", json!({"tool": "Bash", "input": {"command": "make all"}}));
    phone.bot.say(ANN, ANN, "/status");
    let list = phone.shown("1 request is waiting");
    phone.bot.reply(ANN, &list, "allow it");
    phone.shown("Please use the buttons of that message");
    phone.ask("q", "Which DB?");
    phone.shown("Which DB?");
    phone.bot.say(ANN, ANN, "the small one");
    let offer = phone.shown("Is this an answer?");
    let last = phone.bot.reply(ANN, &offer, "yes");
    phone.bot.confirmed(last);
    let agents = phone.hub.get("/api/agents", &phone.hub.operator()).body;
    assert_eq!(agents["agents"].as_array().unwrap().len(), 1, "only the one that asks");
    assert_eq!(phone.hub.ask(&ask)["state"], "open");
}

fn key_question() -> Value {
    json!({"questions": [{"question": "The key for the server?", "header": "Key", "free_text": true, "secret": true}]})
}

#[test]
fn a_text_while_a_secret_is_asked_for_reaches_no_run_and_is_written_nowhere() {
    let host = RunHost::new(
        ALONE,
        &["web"],
        json!([[text("Ready.")], {"do": "turn"}, [text("More.")], {"do": "turn"}]),
    );
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "get ready");
    let run = host.phone.shown("web · done");
    let ask = host.phone.raise("k", "question", key_question());
    let question = host.phone.shown("The key for the server?");
    assert!(
        question.buttons.is_empty() && question.text.contains("never sent over Telegram"),
        "{}",
        question.text
    );
    bot.say(ANN, ANN, "hunter2-of-ann");
    let told = host.phone.shown("An open request asks for a secret");
    assert!(
        told.text.contains("Your message was not used. If it has the secret, delete it here."),
        "{}",
        told.text
    );
    bot.reply(ANN, &question, "hunter2-of-ann");
    host.phone.shown("It asks for a secret");
    let picture = bot.photo("screen", &[0xff, 0xd8, 0xff, 1]);
    let last = bot.send(ANN, ANN, json!({"photo": picture, "caption": "hunter2-of-ann"}));
    bot.confirmed(last);
    bot.reply(ANN, &run, "go on");
    eventually("the prompt that is meant as one", || {
        (host.prompts("web") == ["get ready", "go on"]).then_some(())
    });
    assert_eq!((host.phone.hub.ask(&ask)["state"].as_str(), host.pictures("web").len()), (Some("open"), 0));
    for file in fs::read_dir(&host.phone.hub.home).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = fs::read(&file).unwrap_or_default();
        assert!(!bytes.windows(14).any(|window| window == b"hunter2-of-ann"), "{}", file.display());
    }
}

#[test]
fn once_no_secret_is_asked_for_texts_are_prompts_again() {
    let host = RunHost::new(ALONE, &["web"], json!([[text("Done.")], {"do": "turn"}]));
    let ask = host.phone.raise("k", "question", key_question());
    host.phone.shown("The key for the server?");
    assert_eq!(host.phone.hub.answer(&ask, json!({"answers": [{"text": "hunter2"}]})).status, 200);
    host.phone.shown("Answered by");
    host.phone.bot.say(ANN, ANN, "fix the tests");
    host.phone.shown("web · done");
    assert_eq!(host.prompts("web"), ["fix the tests"]);
}
