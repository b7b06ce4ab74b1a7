//! Chats as people see them, printed for somebody to read: `cargo test --test e2e pictures -- --nocapture`.

use super::runs::RunHost;
use super::*;
use aye_testkit::scenario::text;

#[test]
fn every_kind_of_message_can_be_looked_at() {
    let phone = Phone::with_config(
        &format!("{BOTH}\nremind_after = \"1s\""),
        "[hub]\npublic_url = \"http://aye.example\"\n[projects]\nweb = \"/\"\n",
    );
    let options = json!([{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file", "preview": "db = \"a.db\""}]);
    let question = |text: &str, several: bool| json!({"question": text, "header": "DB", "multi_select": several, "free_text": true, "options": options});
    let form = phone.raise("form", "question", json!({"questions": [question("Which database?", false), question("Which ones are for tests?", true)]}));
    let message = phone.shown("1 of 2");
    println!("{}", message.picture());
    phone.bot.told(ANN, &message, "Note…");
    println!("{}", phone.bot.changed(&message, "Send your note").picture());
    phone.bot.say(ANN, ANN, "keep it small");
    let message = phone.bot.changed(&message, "keep it small");
    phone.bot.told(ANN, &message, "SQLite");
    let second = phone.bot.changed(&message, "2 of 2");
    println!("{}", second.picture());
    phone.bot.told(ANN, &second, "Skip");
    let review = phone.bot.changed(&message, "Check your answers");
    println!("{}", review.picture());
    phone.bot.told(ANN, &review, "Send");
    phone.ended(&form);
    println!("{}", phone.bot.changed(&message, "Answered by").picture());
    let timed = json!({"key": "timed", "agent": "bot", "kind": "permission", "timeout": "1h",
        "body": {"tool": "Bash", "input": {"command": "cd /tmp && make all\t# quick", "description": "Build it", "timeout": 5000},
        "scopes": [{"scope": "once"}, {"scope": "session", "rule": "Bash(make:*)"}, {"scope": "always", "kept_by": "hub"}]}});
    phone.hub.post("/api/asks", &phone.agent, timed);
    let permission = phone.shown("make all");
    println!("{}", permission.picture());
    phone.bot.told(ANN, &permission, "Deny with reason");
    println!("{}", phone.bot.changed(&permission, "Send the reason").picture());
    phone.bot.say(ANN, ANN, "not on a friday");
    println!("{}", phone.bot.changed(&permission, "not on a friday").picture());
    phone.raise("edit", "permission", json!({"tool": "Edit", "input": {"file_path": "src/main.rs", "old_string": "\tfn a() {}", "new_string": "    fn a() {}", "replace_all": false}}));
    println!("{}", phone.shown("src/main.rs").picture());
    phone.raise(
        "json",
        "permission",
        json!({"tool": "mcp__web__fetch", "input": {"url": "https://a\u{30a}cme.example", "depth": 2}}),
    );
    println!("{}", phone.shown("mcp__web__fetch").picture());
    phone.raise(
        "long",
        "permission",
        json!({"tool": "Bash", "input": {"command": format!("echo {}", "x".repeat(5000))}}),
    );
    println!("{}", phone.shown("cannot be allowed here").picture());
    phone.raise(
        "plan",
        "plan",
        json!({"plan": "# Storage\n1. **move** to `SQLite`\n2. test\n\n```sh\ncargo test\n```"}),
    );
    let plan = phone.shown("# Storage");
    println!("{}", plan.picture());
    phone.bot.told(ANN, &plan, "Pause and outline");
    println!("{}", phone.bot.changed(&plan, "Outline requested").picture());
    phone.raise("again", "plan", json!({"plan": "# Storage\n1. all of it"}));
    println!("{}", phone.shown("A plan came").picture());
    println!("{}", phone.bot.message(GROUP, "Still waiting").picture());
    for command in [
        "/help",
        "/status",
        "/agents",
        "/project",
        "/project web",
        "/agent",
        "/new",
        "/stop",
        "/cancel",
        "/nonsense",
    ] {
        let before = phone.bot.messages(ANN).last().unwrap().id;
        phone.bot.say(ANN, ANN, command);
        println!(
            "> {command}\n{}",
            phone
                .bot
                .message_where(ANN, command, |found| found.id > before
                    && !found.text.contains("Still waiting"))
                .picture()
        );
    }
    for n in 0..7 {
        phone.ask(&format!("many{n}"), &format!("Question {n}?"));
    }
    println!("{}", phone.shown("Question 6?").picture());
    phone.bot.say(ANN, ANN, "the small one");
    println!("{}", phone.shown("Is this an answer?").picture());
    phone.nothing_to_complain_of();
}

#[test]
fn what_the_bot_asks_back_can_be_looked_at() {
    let host = RunHost::new(BOTH, &["web", "api"], json!([[text("Done.")], {"do": "turn"}]));
    let phone = &host.phone;
    phone.bot.say(ANN, ANN, "/project");
    println!("{}", phone.shown("Choose the project").picture());
    phone.bot.say(ANN, ANN, "fix the tests");
    let asked = phone.shown("In which project?");
    println!("{}", asked.picture());
    phone.bot.told(ANN, &asked, "web");
    println!("{}", phone.bot.changed(&asked, "Starting with web").picture());
    phone.shown("web · done");
    phone.bot.say(ANN, ANN, "/agent");
    println!("{}", phone.shown("Choose the agent").picture());
    phone.bot.send(ANN, ANN, json!({"text": "and the docs", "date": 1_700_000_000}));
    println!("{}", phone.shown("This was written").picture());
    phone.ask("k", "Which DB?");
    let message = phone.bot.message(GROUP, "Which DB?");
    phone.bot.told(BOB, &message, "Other…");
    println!("{}", phone.bot.changed(&message, "Reply to the message below").picture());
    println!("{}", phone.bot.message(GROUP, "reply to this message").picture());
    phone.bot.migrate(GROUP, -100_777);
    phone.raise("p", "permission", json!({"tool": "Bash", "input": {"command": "make all && make test"}}));
    println!("{}", phone.bot.message(-100_777, "became a supergroup").picture());
    println!("{}", phone.bot.message(-100_777, "make all").picture());
    phone.nothing_to_complain_of();
}

#[test]
fn a_run_can_be_looked_at() {
    let steps = json!([[text("Looking at the tests.")], {"do": "until", "file": "go"}, [text("## Result\nAll **12** tests pass.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    host.phone.bot.say(ANN, ANN, "fix the tests");
    println!("{}", host.phone.shown("Looking").picture());
    fs::write(host.folder("web").join("go"), "").unwrap();
    println!("{}", host.phone.shown("web · done").picture());
    println!("{}", host.phone.shown("the result is below").picture());
}
