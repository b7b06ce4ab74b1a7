//! Work that is started and steered from a chat, with a scripted agent.

use super::*;
use aye::hub::Memo;
use aye_testkit::agent::{heard, scripted_agent};
use aye_testkit::scenario::{text, tool};
use std::path::PathBuf;

/// A hub that may start a scripted agent in one folder for each name.
pub struct RunHost {
    pub phone: Phone,
    work: tempfile::TempDir,
}

impl RunHost {
    pub fn new(telegram: &str, projects: &[&str], steps: Value) -> Self {
        let work = tempfile::tempdir().unwrap();
        let agent = scripted_agent();
        let mut config = format!(
            "[agents.claude]\ncommand = {agent:?}\n[agents.other]\ncommand = {agent:?}\n[projects]\n"
        );
        for name in projects {
            let folder = work.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(
                folder.join("scenario.json"),
                json!({"heard": "heard.jsonl", "steps": steps}).to_string(),
            )
            .unwrap();
            config += &format!("{name} = {folder:?}\n");
        }
        Self { phone: Phone::with_config(telegram, &config), work }
    }

    pub fn folder(&self, project: &str) -> PathBuf {
        self.work.path().join(project)
    }

    /// The prompts an agent was given so far.
    pub fn prompts(&self, project: &str) -> Vec<String> {
        let lines = heard(&self.folder(project).join("heard.jsonl")).into_iter();
        let prompts = lines.filter(|line| line["type"] == "user");
        prompts.filter_map(|line| line["message"]["content"].as_str().map(str::to_owned)).collect()
    }

    /// The pictures an agent was given so far, and the words with each.
    pub fn pictures(&self, project: &str) -> Vec<(String, String)> {
        let lines = heard(&self.folder(project).join("heard.jsonl")).into_iter();
        let contents =
            lines.filter(|line| line["type"] == "user").map(|line| line["message"]["content"].clone());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        contents
            .filter(Value::is_array)
            .map(|content| (text(&content[0]["source"]["data"]), text(&content[1]["text"])))
            .collect()
    }

    /// Its runs.
    pub fn agents(&self) -> Vec<Value> {
        let agents = self.phone.hub.get("/api/agents", &self.phone.hub.operator()).body;
        let agents = agents["agents"].as_array().unwrap().iter();
        agents.filter(|agent| agent["reach"] == "driven").cloned().collect()
    }
}

impl Drop for RunHost {
    fn drop(&mut self) {
        // Runs outlive the hub that started them, but not their test.
        for agent in self.agents() {
            let path = format!("/api/agents/{}/stop", agent["id"].as_str().unwrap());
            self.phone.hub.post(&path, &self.phone.hub.operator(), json!({}));
        }
        eventually("the runs to end", || self.agents().is_empty().then_some(()));
    }
}

#[test]
fn a_message_starts_a_run_that_is_shown_as_it_goes_and_further_ones_go_on_with_it() {
    let steps = json!([
        [text("Thinking about it.")], {"do": "until", "file": "go"}, [text("Ready.")],
        {"do": "turn"}, [text("And more.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "fix the <tests>");
    let card = host.phone.shown("web · working");
    assert!(card.silent);
    assert_eq!(card.labels(), ["⏹ Stop"]);
    bot.changed(&card, "Thinking");
    assert_eq!(host.prompts("web"), ["fix the <tests>"]);
    fs::write(host.folder("web").join("go"), "").unwrap();
    let over = host.phone.shown("web · done");
    assert!(
        over.text.contains("Ready.") && over.text.contains("$0.0125") && over.buttons.is_empty(),
        "{}",
        over.text
    );
    assert!(bot.changed(&card, "the result is below").buttons.is_empty());
    // A second message goes to the same run, and gets a message of its own.
    bot.say(ANN, ANN, "go on");
    let is_second = |message: &Message| {
        message.id > over.id && message.text.contains("And more.") && message.text.contains("web · done")
    };
    bot.message_where(ANN, "the second turn", is_second);
    assert_eq!(host.prompts("web"), ["fix the <tests>", "go on"]);
    assert_eq!(host.agents().len(), 1);
    host.phone.nothing_to_complain_of();
}

#[test]
fn stop_stops_what_goes_on_once() {
    let host = RunHost::new(ALONE, &["web"], json!([{"do": "silence"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "take your time");
    let card = host.phone.shown("web · working");
    assert_eq!(bot.told(ANN, &card, "Stop").text, "Stopping…");
    let again = bot.press_data(ANN, ANN, card.id, &card.data("Stop"));
    assert!(bot.notice(&again).alert);
    let over = bot.changed(&card, "web · stopped by User11");
    assert!(over.buttons.is_empty());
    let commands = host.phone.hub.aye(&["log", "--json"]);
    assert_eq!(crate::support::printed(&commands).matches("\"interrupt\"").count(), 1);
    assert_eq!(bot.messages(ANN).len(), 1, "whoever stopped it is told where they pressed");
    bot.say(ANN, ANN, "/stop");
    host.phone.shown("The run is not doing anything right now. To end it: /end");
}

#[test]
fn the_command_to_stop_does_what_the_button_does() {
    let host = RunHost::new(ALONE, &["web"], json!([{"do": "silence"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "take your time");
    let card = host.phone.shown("web · working");
    bot.say(ANN, ANN, "/stop");
    host.phone.shown("Stopping…");
    assert!(bot.changed(&card, "web · stopped by User11").buttons.is_empty());
}

#[test]
fn a_run_asks_in_the_chat_that_started_it_and_nowhere_else() {
    let question = json!({"questions": [{"question": "Which DB?", "header": "DB", "multiSelect": false,
        "options": [{"label": "PostgreSQL", "description": "."}, {"label": "SQLite", "description": "."}]}]});
    let host = RunHost::new(
        BOTH,
        &["web"],
        json!([[tool("toolu_q", "AskUserQuestion", question)], [text("Thanks.")]]),
    );
    let bot = &host.phone.bot;
    bot.say(BOB, GROUP, "/new choose a database");
    let message = bot.message(GROUP, "Which DB?");
    assert!(message.text.contains("web in "), "{}", message.text);
    bot.told(BOB, &message, "SQLite");
    bot.changed(&message, "Confirmed by the agent");
    bot.message_where(GROUP, "the end", |message| {
        message.text.contains("web · done") && message.text.contains("Thanks.")
    });
    assert_eq!(bot.messages(ANN), []);
}

#[test]
fn a_reply_to_the_message_of_a_run_goes_to_that_run() {
    let steps = json!([[text("One.")], {"do": "turn"}, [text("Two.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web", "api"], steps);
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "/project web");
    host.phone.shown("now work in web");
    bot.say(ANN, ANN, "first");
    let web = host.phone.shown("web · done");
    bot.say(ANN, ANN, "/project api");
    host.phone.shown("now work in api");
    bot.say(ANN, ANN, "second");
    host.phone.shown("api · done");
    bot.reply(ANN, &web, "third");
    bot.message(ANN, "Two.");
    assert_eq!(
        (host.prompts("web"), host.prompts("api")),
        (vec!["first".into(), "third".into()], vec!["second".into()])
    );
}

#[test]
fn a_chat_chooses_the_agent_of_its_runs() {
    let host = RunHost::new(ALONE, &["web"], json!([[text("Done.")], {"do": "turn"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "/agent nowhere");
    let listed = host.phone.shown("No agent nowhere is installed here");
    assert!(
        listed.labels().contains(&"✓ claude") && listed.labels().contains(&"other"),
        "{:?}",
        listed.labels()
    );
    bot.say(ANN, ANN, "first");
    host.phone.shown("web · done");
    bot.told(ANN, &listed, "other");
    assert!(bot.changed(&listed, "New runs from this chat are now with other").buttons.is_empty());
    bot.say(ANN, ANN, "second");
    bot.message_where(ANN, "the second run", |message| {
        message.text.contains("web · done") && host.agents().len() == 2
    });
    let mut kinds: Vec<_> =
        host.agents().iter().map(|agent| agent["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    assert_eq!(kinds, ["claude", "other"]);
    bot.say(ANN, ANN, "/status");
    host.phone.shown("Agent: other");
}

#[test]
fn a_text_without_a_project_starts_as_soon_as_one_is_chosen() {
    let mut host = RunHost::new(BOTH, &["web", "api"], json!([[text("Done.")], {"do": "turn"}]));
    host.phone.bot.say(BOB, GROUP, "/new fix the tests");
    let asked = host.phone.bot.message(GROUP, "In which project?");
    assert!(asked.text.contains("“fix the tests”") && asked.silent, "{}", asked.text);
    assert_eq!(asked.labels(), ["api", "web", "Don't start it"]);
    assert!(host.agents().is_empty());
    host.phone.restart();
    let other = host.phone.bot.told(ANN, &asked, "web");
    assert!(other.alert && other.text.contains("Only the person who wrote this"), "{other:?}");
    host.phone.bot.told(BOB, &asked, "web");
    assert!(host.phone.bot.changed(&asked, "Starting with web: “fix the tests”").buttons.is_empty());
    host.phone.bot.message(GROUP, "web · done");
    assert_eq!(host.prompts("web"), ["fix the tests"]);
    let again = host.phone.bot.press_data(BOB, GROUP, asked.id, &asked.data("api"));
    assert!(host.phone.bot.notice(&again).alert);
    // In the private chat nothing is chosen yet; a name that is typed does the same as its button.
    host.phone.bot.say(ANN, ANN, "write the docs");
    let asked = host.phone.shown("In which project?");
    host.phone.bot.say(ANN, ANN, "/project api");
    host.phone.bot.changed(&asked, "Starting with api: “write the docs”");
    host.phone.shown("api · done");
    assert_eq!((host.prompts("api"), host.agents().len()), (vec!["write the docs".to_owned()], 2));
    host.phone.nothing_to_complain_of();
}

#[test]
fn a_text_whose_project_is_not_chosen_starts_nothing() {
    let host = RunHost::new(ALONE, &["web", "api"], json!([[text("Done.")], {"do": "turn"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "fix the tests");
    let asked = host.phone.shown("In which project?");
    bot.told(ANN, &asked, "Don't start it");
    bot.changed(&asked, "Not started: “fix the tests”");
    bot.send(ANN, ANN, json!({"photo": bot.photo("a", &[0xff, 0xd8, 0xff])}));
    let asked = host.phone.shown("then send the photo again");
    bot.told(ANN, &asked, "web");
    bot.changed(&asked, "Runs from this chat now work in web");
    assert!(host.agents().is_empty());
}

#[test]
fn a_text_for_an_agent_that_is_gone_starts_with_another() {
    let host = RunHost::new(ALONE, &["web"], json!([[text("Done.")], {"do": "turn"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "/agent other");
    host.phone.shown("now with other");
    let file = host.phone.hub.home.join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    let other = config.find("[agents.other]").unwrap();
    let end = other + config[other..].find("[projects]").unwrap();
    fs::write(&file, format!("{}{}", &config[..other], &config[end..])).unwrap();
    bot.say(ANN, ANN, "fix the tests");
    let asked = host.phone.shown("No agent other is installed here any more. Which one?");
    bot.told(ANN, &asked, "claude");
    host.phone.shown("web · done");
    assert_eq!(host.prompts("web"), ["fix the tests"]);
}

#[test]
fn what_is_said_with_a_slash_is_answered() {
    let host = RunHost::new(ALONE, &["web"], json!([[text("Done.")], {"do": "turn"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "/help");
    host.phone.shown("/project [name]");
    bot.say(ANN, ANN, "/project nowhere");
    host.phone.shown("There is no project nowhere");
    bot.say(ANN, ANN, "/agents");
    host.phone.shown("No agents are running");
    bot.say(ANN, ANN, "/stop");
    host.phone.shown("no run to stop");
    bot.say(ANN, ANN, "/end");
    host.phone.shown("no run to end");
    bot.say(ANN, ANN, "/cancel");
    host.phone.shown("No text is expected from you");
    bot.say(ANN, ANN, "/new");
    host.phone.shown("Your next message starts a new run");
    bot.say(ANN, ANN, "go");
    host.phone.shown("web · done");
    bot.say(ANN, ANN, "/agents");
    let agents = host.phone.shown("Running agents");
    assert!(agents.text.contains("web · claude · idle · $0.0125"), "{}", agents.text);
    bot.say(ANN, ANN, "/status");
    let status = host.phone.shown("Nothing to answer right now");
    assert!(status.text.contains("Project: web") && status.text.contains("Run: web"), "{}", status.text);
    bot.say(ANN, ANN, "/end");
    host.phone.shown("Ending the run…");
    eventually("the run to end", || host.agents().is_empty().then_some(()));
    let loud: Vec<_> = bot.messages(ANN).into_iter().filter(|message| !message.silent).collect();
    assert!(loud.iter().all(|message| message.text.contains("web · done")), "{loud:?}");
    host.phone.nothing_to_complain_of();
}

#[test]
fn a_run_that_cannot_be_started_says_why() {
    let config = "[agents.claude]\ncommand = \"/no/such/agent\"\n[projects]\nweb = \"/\"";
    let phone = Phone::with_config(ALONE, config);
    phone.bot.say(ANN, ANN, "go");
    let words = phone.shown("could not be started");
    assert!(words.text.contains("/no/such/agent"), "{}", words.text);
    assert!(
        !words.silent && words.reply_to.is_some(),
        "people are told with sound, in reply to what they wrote"
    );
}

fn hours_ago(hours: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    now - hours * 3600
}

#[test]
fn a_prompt_that_waited_for_hours_is_offered_and_not_started() {
    let steps = json!([[text("One.")], {"do": "turn"}, [text("Two.")], {"do": "turn"}]);
    let mut host = RunHost::new(ALONE, &["web"], steps);
    assert!(host.phone.hub.stop().success());
    let update = host.phone.bot.send(ANN, ANN, json!({"text": "fix the tests", "date": hours_ago(3)}));
    host.phone.hub.restart();
    host.phone.bot.confirmed(update);
    let offer = host.phone.shown("This was written 3 hours ago. Start it?");
    assert!(!offer.silent && offer.text.contains("“fix the tests”"), "{}", offer.text);
    assert_eq!(offer.labels(), ["▶️ Start it", "No"]);
    assert!(host.agents().is_empty());
    host.phone.restart();
    host.phone.bot.told(ANN, &offer, "Start it");
    host.phone.bot.changed(&offer, "Started: “fix the tests”");
    let first = host.phone.shown("web · done");
    assert_eq!(host.prompts("web"), ["fix the tests"]);
    // So is one for a run that goes on, and an old photo is asked for again.
    host.phone.bot.send(ANN, ANN, json!({"text": "go on", "date": hours_ago(70)}));
    let offer = host.phone.shown("This was written 2 days ago. Send it to web?");
    host.phone.bot.told(ANN, &offer, "No");
    host.phone.bot.changed(&offer, "Ignored");
    let photo = host.phone.bot.photo("a", &[0xff, 0xd8, 0xff]);
    host.phone.bot.send(ANN, ANN, json!({"photo": photo, "date": hours_ago(1)}));
    host.phone.shown("This photo was sent 1 hour ago");
    let replied = aye_testkit::telegram::replied(&first);
    host.phone.bot.send(
        ANN,
        ANN,
        json!({"text": "again", "date": hours_ago(1), "reply_to_message": replied}),
    );
    let offer = host.phone.shown("This was written 1 hour ago. Send it to web?");
    host.phone.bot.told(ANN, &offer, "Send it");
    host.phone.bot.changed(&offer, "Sent to the run");
    eventually("the prompt", || (host.prompts("web") == ["fix the tests", "again"]).then_some(()));
}

#[test]
fn the_result_of_a_run_rings_and_progress_does_not() {
    let steps = json!([[text("Working on it.")], {"do": "until", "file": "go"}, [text("## Result\nAll **tests** pass.\n- see above")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "fix the tests");
    let card = host.phone.shown("Working on it");
    assert!(bot.messages(ANN).iter().all(|message| message.silent), "progress is silent");
    fs::write(host.folder("web").join("go"), "").unwrap();
    let ring = host.phone.shown("web · done");
    assert!(ring.text.contains("Result\nAll tests pass.\n• see above"), "{}", ring.text);
    assert!(ring.html.contains("<b>Result</b>"), "{}", ring.html);
    assert!(!ring.silent && ring.reply_to == Some(card.id) && ring.buttons.is_empty());
    // A reply to it belongs to the run.
    bot.reply(ANN, &ring, "go on");
    eventually("the prompt", || (host.prompts("web") == ["fix the tests", "go on"]).then_some(()));
    host.phone.nothing_to_complain_of();
}

#[test]
fn a_run_whose_message_was_deleted_is_shown_anew_and_its_end_rings() {
    let steps = json!([[text("Thinking.")], {"do": "until", "file": "go"}, [text("Ready.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "go");
    let first = host.phone.shown("Thinking.");
    bot.delete(&first);
    fs::write(host.folder("web").join("go"), "").unwrap();
    let anew = host.phone.shown("web · done");
    assert!(anew.id > first.id && anew.text.contains("Ready.") && !anew.silent, "{}", anew.text);
    host.phone.nothing_to_complain_of();
}

#[test]
fn a_run_being_stopped_still_is_if_its_message_is_deleted() {
    let host = RunHost::new(ALONE, &["web"], json!([{"do": "silence"}]));
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "take your time");
    let first = host.phone.shown("web · working");
    bot.delete(&first);
    bot.told(ANN, &first, "Stop");
    host.phone.shown("web · stopped by User11");
}

#[test]
fn a_ring_that_nobody_wants_is_not_sent() {
    let steps = json!([[text("Done.")], {"do": "turn"}, [text("More.")], {"do": "turn"}]);
    let host = RunHost::new(&format!("{ALONE}\nnotify_end = false"), &["web"], steps);
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "go");
    let first = host.phone.shown("web · done");
    bot.say(ANN, ANN, "on");
    second_turn(&host, &first, "web · done");
    assert!(bot.messages(ANN).iter().all(|message| message.silent));
}

/// A message after the first that has these words: whether the same one again, nobody promises after a crash.
fn second_turn(host: &RunHost, first: &Message, words: &str) -> Message {
    let is_it = |message: &Message| message.id > first.id && message.text.contains(words);
    host.phone.bot.message_where(ANN, words, is_it)
}

#[test]
fn a_prompt_is_given_once_through_a_crash_and_the_progress_goes_on() {
    let steps = json!([[text("One.")], {"do": "turn"},
        [text("Two.")], {"do": "until", "file": "go"}, [text("Three.")], {"do": "turn"}]);
    let mut host = RunHost::new(ALONE, &["web"], steps);
    host.phone.bot.say(ANN, ANN, "first");
    let first = host.phone.shown("web · done");
    let update = host.phone.bot.say(ANN, ANN, "second");
    second_turn(&host, &first, "Two.");
    host.phone.hub.kill();
    host.phone.bot.send_again(update);
    host.phone.hub.restart();
    host.phone.bot.confirmed(update);
    fs::write(host.folder("web").join("go"), "").unwrap();
    second_turn(&host, &first, "web · done");
    assert_eq!(host.prompts("web"), ["first", "second"]);
}

#[test]
fn a_start_that_a_crash_cut_short_is_not_repeated_and_the_person_is_told() {
    let mut phone = Phone::new();
    assert!(phone.hub.stop().success());
    // What a hub leaves behind that ended between noting a start and hearing of it.
    let start = Memo { kind: "start", key: "701".into(), body: Some(json!({ "chat": ANN })) };
    let home = aye::home::Home::at(&phone.hub.home);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let hub = aye::hub::Hub::open(&home, aye::hub::Clock::system()).await.unwrap();
        hub.remember(aye_core::Surface::Telegram, vec![start]).await.unwrap();
        hub.close().await;
    });
    phone.hub.restart();
    phone.shown("not known whether the run began");
    phone.restart();
    let last = phone.bot.say(ANN, ANN, "/status");
    phone.bot.confirmed(last);
    phone.shown("Nothing to answer right now");
    let told =
        phone.bot.messages(ANN).into_iter().filter(|message| message.text.contains("not known whether"));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_photo_reaches_the_run_with_its_caption_and_nothing_else_does() {
    let steps = json!([[text("One.")], {"do": "turn"}, [text("Seen.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    let bot = &host.phone.bot;
    let picture = [&[0xff, 0xd8, 0xff][..], b"a picture"].concat();
    bot.say(ANN, ANN, "first");
    host.phone.shown("web · done");
    bot.send(ANN, ANN, json!({"photo": bot.photo("screen", &picture), "caption": "what is wrong here?"}));
    host.phone.bot.message(ANN, "Seen.");
    let lines = heard(&host.folder("web").join("heard.jsonl"));
    let content = &lines.iter().rfind(|line| line["type"] == "user").unwrap()["message"]["content"];
    assert_eq!(content[0]["source"]["media_type"], "image/jpeg");
    assert_eq!(content[0]["source"]["data"], data_encoding::BASE64.encode(&picture));
    assert_eq!(content[1]["text"], "what is wrong here?");
    let log = crate::support::printed(&host.phone.hub.aye(&["log", "--json"]));
    assert!(!log.contains(&data_encoding::BASE64.encode(&picture)), "the trail only says that there was one");
    bot.send(ANN, ANN, json!({"photo": bot.photo("text", b"no picture")}));
    host.phone.shown("could not be fetched: it is not a JPEG");
    bot.send(ANN, ANN, json!({"photo": [{"file_id": "huge", "file_size": 9_000_000}]}));
    host.phone.shown("too large");
    bot.send(ANN, ANN, json!({"voice": {"file_id": "v", "duration": 1}}));
    host.phone.shown("voice messages and files cannot be read");
}

#[test]
fn a_photo_starts_a_run_and_the_rest_of_its_album_goes_to_that_run() {
    let steps = json!([[text("One.")], {"do": "turn"}, [text("Two.")], {"do": "turn"}, [text("Three.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    let bot = &host.phone.bot;
    let picture = |name: &str| [&[0x89, b'P', b'N', b'G'][..], name.as_bytes()].concat();
    let album = [("a", json!("why is this red?")), ("b", Value::Null), ("c", Value::Null)];
    for (name, caption) in &album {
        bot.send(ANN, ANN, json!({"photo": bot.photo(name, &picture(name)), "caption": caption}));
    }
    bot.message(ANN, "Three.");
    let expected = [("a", "why is this red?"), ("b", "Look at this photo."), ("c", "Look at this photo.")];
    let mut given = host.pictures("web");
    // They are fetched at the same time, but the one that was fetched first is not always the first.
    given.sort();
    let mut expected =
        expected.map(|(name, words)| (data_encoding::BASE64.encode(&picture(name)), words.to_owned()));
    expected.sort();
    assert_eq!(given, expected);
    assert_eq!(host.agents().len(), 1, "one run for all of it");
    host.phone.nothing_to_complain_of();
}

#[test]
fn a_photo_without_a_project_is_told_so_at_once() {
    let phone = Phone::new();
    phone.bot.send(ANN, ANN, json!({"photo": phone.bot.photo("a", &[0xff, 0xd8, 0xff])}));
    phone.shown("There is no project to work in yet");
    assert_eq!(phone.bot.calls("getFile"), 0);
}

#[test]
fn what_is_written_while_a_run_starts_goes_to_that_run() {
    let steps = json!([[text("One.")], {"do": "turn"}, [text("Two.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    let bot = &host.phone.bot;
    bot.say(ANN, ANN, "fix the tests");
    bot.say(ANN, ANN, "and the docs");
    bot.say(ANN, ANN, "/status");
    bot.say(ANN, ANN, "and the examples");
    bot.message(ANN, "Two.");
    host.phone.shown("Project: web");
    assert_eq!(host.prompts("web").concat().replace('\n', ""), "fix the testsand the docsand the examples");
    assert_eq!(host.agents().len(), 1);
}

#[test]
fn a_prompt_from_elsewhere_is_shown_in_the_chat_of_its_run_however_long_it_is() {
    let steps = json!([[text("One.")], {"do": "turn"}, [text("Two.")], {"do": "turn"}]);
    let host = RunHost::new(ALONE, &["web"], steps);
    host.phone.bot.say(ANN, ANN, "first");
    let first = host.phone.shown("web · done");
    let path = format!("/api/agents/{}/prompt", host.agents()[0]["id"].as_str().unwrap());
    // Quotes take twice their room where events are kept.
    let prompted =
        host.phone.hub.post(&path, &host.phone.hub.operator(), json!({ "text": "\"".repeat(19_000) }));
    assert!(prompted.status < 300, "{}", prompted.body);
    second_turn(&host, &first, "web · done");
}
