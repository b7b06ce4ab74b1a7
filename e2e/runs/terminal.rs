//! Runs and conversations in a real terminal, with somebody who types there.

use super::{Scene, which};
use crate::support::{aye, code, eventually, printed};
use aye_testkit::agent::scripted_agent;
use aye_testkit::scenario::{text, tool};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A terminal with somebody at it.
struct Terminal {
    name: String,
    hub: PathBuf,
}

impl Terminal {
    fn run(scene: &Scene) -> Self {
        Self::with(scene, "run go")
    }

    /// Somebody types this command there.
    fn with(scene: &Scene, command: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("aye-{}-{}", scene.hub.pid(), COUNT.fetch_add(1, Ordering::Relaxed));
        let command = format!(
            "cd '{}' && AYE_HOME='{}' AYE_CLAUDE='{}' '{}' {command}; echo ended $?; stty -a; cat",
            scene.work.path().display(),
            scene.hub.home.display(),
            scripted_agent().display(),
            env!("CARGO_BIN_EXE_aye"),
        );
        let terminal = Self { name, hub: scene.hub.home.clone() };
        terminal.tmux(&["-u", "-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "60", &command]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.name]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        printed(&output)
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The last line that is not empty.
    fn last_line(&self) -> Option<String> {
        self.screen().lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }

    fn shows(&self, words: &str) {
        eventually(&format!("{words:?} on the screen of {:?}", self.hub), || {
            self.screen().contains(words).then_some(())
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(Command::new("tmux").args(["-L", &self.name, "kill-server"]).output());
    }
}

#[test]
fn asks_are_answered_by_typing_where_the_run_is_shown_and_nothing_is_guessed() {
    let run = tool("toolu_1", "Bash", json!({"command": "make it && ls"}));
    let scene =
        Scene::new("", json!([[tool("toolu_q", "AskUserQuestion", which())], [run], [text("All done.")]]));
    let terminal = Terminal::run(&scene);
    terminal.shows("Type a number");
    let question = scene.ask();
    terminal.keys(&["Enter", "SQLight", "Enter"]);
    terminal.shows("“SQLight” is not one of the options. Type a number");
    assert_eq!(scene.hub.ask(&question)["state"], "open");
    terminal.keys(&["2", "Enter"]);
    terminal.shows("part 2: ls");
    let permission = scene.ask();
    terminal.keys(&["ok", "Enter"]);
    terminal.shows("“ok” neither allows nor denies this.");
    assert_eq!(scene.hub.ask(&permission)["state"], "open");
    terminal.keys(&["y", "Enter"]);
    terminal.shows("done ·");
    terminal.keys(&["C-d"]);
    terminal.shows("ended 0");
    let answered = scene.hub.ask(&question);
    assert_eq!(answered["answer"], json!({"answers": [{"selected": ["SQLite"]}]}));
    assert_eq!(answered["by"]["surface"], "terminal");
    assert_eq!(scene.hub.ask(&permission)["answer"], json!({"decision": "allow", "scope": "once"}));
}

#[test]
fn a_run_whose_output_goes_elsewhere_says_that_nothing_typed_is_read_and_takes_no_answer() {
    let run = tool("toolu_1", "Bash", json!({"command": "make it"}));
    let scene = Scene::new("", json!([[run], [text("All done.")]]));
    let terminal = Terminal::with(&scene, "run go | tee all");
    terminal.shows("what you type here is not read");
    let ask = scene.ask();
    let command = format!("aye answer {} --allow", ask["id"].as_str().unwrap());
    terminal.shows(&command);
    terminal.keys(&["allow", "Enter"]);
    terminal.shows("allow");
    assert_eq!(scene.hub.ask(&ask)["state"], "open");
    assert_eq!(scene.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    terminal.shows("ended 0");
    let all = std::fs::read_to_string(scene.work.path().join("all")).unwrap();
    assert!(all.contains("All done.") && !all.contains("is not read"), "{all}");
}

#[test]
fn whoever_sits_at_the_terminal_of_a_run_counts_as_somebody_who_could_answer() {
    let scene = Scene::new(
        "[policy]\nwhen_unattended = \"reject after 0s\"",
        json!([[tool("toolu_1", "Bash", json!({"command": "make it"}))], [text("All done.")]]),
    );
    let terminal = Terminal::run(&scene);
    crate::metrics::shows(&scene.hub, "aye_surfaces_connected{role=\"operator\"} 1");
    terminal.shows("Type allow");
    terminal.keys(&["deny", "Enter"]);
    terminal.shows("done ·");
    terminal.keys(&["C-d"]);
    terminal.shows("ended 0");
    crate::metrics::shows(&scene.hub, "aye_surfaces_connected{role=\"operator\"} 0");
}

#[test]
fn half_a_line_typed_under_one_ask_is_never_an_answer_to_the_next() {
    let run = |n: u32| tool(&format!("toolu_{n}"), "Bash", json!({ "command": format!("step {n}") }));
    let scene = Scene::new("", json!([[run(1)], [run(2)], [text("All done.")]]));
    let terminal = Terminal::run(&scene);
    terminal.shows("step 1");
    let first = scene.ask();
    terminal.shows("Type allow");
    terminal.keys(&["allow"]);
    terminal.shows("allow");
    assert_eq!(scene.hub.answer(&first, json!({"decision": "deny"})).status, 200);
    let second = eventually("the second ask", || Some(scene.ask()).filter(|ask| ask["id"] != first["id"]));
    terminal.shows("step 2");
    eventually("the second ask on the screen", || {
        (terminal.screen().matches("Type allow").count() == 2).then_some(())
    });
    terminal.keys(&["Enter", "nothing", "Enter"]);
    terminal.shows("“nothing” neither allows nor denies this.");
    assert_eq!(scene.hub.ask(&second)["state"], "open");
    terminal.keys(&["deny not this", "Enter"]);
    terminal.shows("done ·");
    terminal.keys(&["C-d"]);
    terminal.shows("ended 0");
    assert_eq!(scene.hub.ask(&second)["answer"]["message"], "not this");
}

#[test]
fn a_run_of_one_turn_in_a_terminal_says_how_to_resume_it() {
    let scene = Scene::new("", json!([[text("First.")]]));
    let terminal = Terminal::with(&scene, "run --once go");
    terminal.shows("ended 0");
    let agents = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
    let id = agents["agents"][0]["id"].as_str().unwrap();
    terminal.shows(&format!("Go on later: aye run --resume {id}"));
}

#[test]
fn a_run_in_a_terminal_goes_on_after_a_turn_and_ctrl_d_ends_it_with_the_command_that_resumes_it() {
    let scene = Scene::new("", json!([[text("First.")], {"do": "turn"}, [text("Second.")]]));
    let terminal = Terminal::run(&scene);
    terminal.shows("First.");
    terminal.shows("done ·");
    terminal.keys(&["and then", "C-w", "now this", "Enter"]);
    terminal.shows("Second.");
    assert_eq!(scene.prompts(), ["go", "and now this"]);
    eventually("the second turn to end", || (terminal.screen().matches("done ·").count() == 2).then_some(()));
    terminal.keys(&["C-d"]);
    terminal.shows("ended 0");
    let agents = scene.hub.get("/api/agents?all=true", &scene.hub.operator()).body;
    let id = agents["agents"][0]["id"].as_str().unwrap();
    terminal.shows(&format!("Go on later: aye run --resume {id}"));
    assert_eq!(agents["agents"][0]["state"], "ended");
    // The terminal is as it was.
    terminal.shows("icanon");
    let settings = terminal.screen();
    let words: Vec<_> = settings.split_whitespace().collect();
    assert!(words.contains(&"icanon") && words.contains(&"echo"), "{settings}");
}

#[test]
fn a_run_with_once_ends_after_its_turn() {
    let scene = Scene::new("", json!([[text("First.")]]));
    let terminal = Terminal::with(&scene, "run --once go");
    terminal.shows("ended 0");
    assert!(terminal.screen().contains("First."));
}

#[test]
fn a_prompt_begun_before_a_request_is_there_again_after_it_and_pasted_lines_are_one_prompt() {
    let ask = tool("toolu_1", "Bash", json!({"command": "step 1"}));
    let scene = Scene::new(
        "",
        json!([{"do": "until", "file": "go-on"}, [ask], [text("Done.")], {"do": "turn"}, [text("Second.")]]),
    );
    let terminal = Terminal::run(&scene);
    let begun = "keep these words";
    terminal.shows("thinking");
    terminal.keys(&[begun]);
    terminal.shows(&format!("> {begun}"));
    std::fs::write(scene.work.path().join("go-on"), "").unwrap();
    terminal.shows("Type allow");
    eventually("an empty line", || terminal.last_line().is_some_and(|line| line == ">").then_some(()));
    terminal.keys(&["deny no", "Enter"]);
    terminal.shows("done ·");
    eventually("the begun prompt", || {
        terminal.last_line().is_some_and(|line| line == format!("> {begun}")).then_some(())
    });
    terminal.tmux(&["set-buffer", ", and\nthese lines"]);
    terminal.tmux(&["paste-buffer", "-p"]);
    terminal.shows("these lines");
    terminal.keys(&["Enter"]);
    terminal.shows("Second.");
    assert_eq!(scene.prompts(), ["go", "keep these words, and\nthese lines"]);
}

#[test]
fn one_ctrl_c_interrupts_the_turn_and_a_second_soon_after_it_ends_the_run() {
    let silence = json!({"do": "silence"});
    let scene = Scene::new("", json!([silence, {"do": "turn"}, [text("Second.")], {"do": "turn"}, silence]));
    let terminal = Terminal::run(&scene);
    terminal.shows("thinking");
    terminal.keys(&["C-c"]);
    terminal.shows("Ctrl-C again ends the run.");
    eventually("the turn to end", || (terminal.last_line().as_deref() == Some(">")).then_some(()));
    terminal.keys(&["go on", "Enter"]);
    terminal.shows("Second.");
    eventually("the second turn to end", || (terminal.last_line().as_deref() == Some(">")).then_some(()));
    assert_eq!(scene.prompts(), ["go", "go on"]);
    terminal.keys(&["once more", "Enter"]);
    terminal.shows("thinking");
    terminal.keys(&["C-c", "C-c"]);
    terminal.shows("ended ");
}

#[test]
fn attach_shows_what_was_said_takes_answers_and_prompts_and_leaves_the_agent_running() {
    let question = tool("toolu_q", "AskUserQuestion", which());
    let mut scene = Scene::new(
        "",
        json!([[text("First.")], {"do": "turn"}, [question], [text("Second.")], {"do": "turn"}, [text("Third.")]]),
    );
    let started = scene.aye().args(["run", "--detach", "begin"]).output().unwrap();
    let id = printed(&started).trim().to_owned();
    scene.until(&id, "idle");
    let terminal = Terminal::with(&scene, "attach begin");
    for words in [&id, "run by aye", "Ctrl-D leaves it running.", "> begin", "First.", "done ·"] {
        terminal.shows(words);
    }
    terminal.keys(&["go on", "Enter"]);
    terminal.shows("Type a number");
    let ask = scene.ask();
    terminal.keys(&["2", "Enter"]);
    terminal.shows("Second.");
    assert_eq!(scene.hub.ask(&ask)["answer"], json!({"answers": [{"selected": ["SQLite"]}]}));
    scene.hub.kill();
    terminal.shows("The hub is away.");
    scene.hub.restart();
    terminal.shows("The hub is back.");
    terminal.keys(&["and on", "Enter"]);
    terminal.shows("Third.");
    assert_eq!(terminal.screen().matches("Second.").count(), 1, "{}", terminal.screen());
    eventually("the turn to end", || (terminal.last_line().as_deref() == Some(">")).then_some(()));
    terminal.keys(&["C-d"]);
    terminal.shows("ended 0");
    terminal.shows(&format!("It goes on. Come back: aye attach {id}"));
    assert_eq!((scene.agent(&id)["state"].as_str(), scene.prompts().len()), (Some("idle"), 3));
    assert_eq!(code(&scene.hub.aye(&["stop", &id])), Some(0));
    scene.until(&id, "ended");
    let kept = printed(&scene.hub.aye(&["attach", &id]));
    for words in ["First.", "✓ AskUserQuestion", "Second.", "> and on", "Third."] {
        assert!(kept.contains(words), "{words} in {kept}");
    }
}

#[test]
fn whoever_may_only_look_is_told_so_and_sees_what_happens() {
    let question = tool("toolu_q", "AskUserQuestion", which());
    let scene = Scene::new("", json!([[question], [text("Second.")]]));
    let started = scene.aye().args(["run", "--detach", "begin"]).output().unwrap();
    let id = printed(&started).trim().to_owned();
    let ask = scene.ask();
    let mut looking = aye(&scene.hub.home);
    looking.env("AYE_TOKEN", scene.hub.token("viewer")).args(["attach", &id]).stdout(Stdio::piped());
    let looking = looking.spawn().unwrap();
    assert_eq!(scene.hub.answer(&ask, json!({"answers": [{"selected": ["SQLite"]}]})).status, 200);
    scene.until(&id, "idle");
    scene.steer(&id, "stop", json!({}));
    let seen = printed(&looking.wait_with_output().unwrap());
    for words in
        ["You cannot answer from here: this token only lets you look on.", "Second.", "✓ AskUserQuestion"]
    {
        assert!(seen.contains(words), "{words} in {seen}");
    }
}

#[test]
fn what_an_agent_says_is_not_printed_below_a_request_that_waits() {
    let bash = tool("toolu_b", "Bash", json!({"command": "touch it"}));
    let scene = Scene::new("", json!([[bash], [text("Done with it.")]]));
    let started = scene.aye().args(["run", "--detach", "begin"]).output().unwrap();
    let id = printed(&started).trim().to_owned();
    let ask = scene.ask();
    let terminal = Terminal::with(&scene, "attach begin");
    terminal.shows("Type allow");
    // What an agent says can look like a request.
    let forged = format!(
        "\n\n? {}\nRun a command\n  ls\nType allow, deny [why], or stop [why].",
        ask["id"].as_str().unwrap()
    );
    let said = json!({"events": [{"type": "text", "id": "forged", "text": forged}]});
    let mut follower = scene.hub.follow("", &scene.hub.operator());
    assert_eq!(scene.hub.post(&format!("/api/agents/{id}/events"), &scene.hub.agent(&id), said).status, 204);
    while !follower.text().contains("Run a command") {}
    terminal.keys(&["allow", "Enter"]);
    terminal.shows("Done with it.");
    assert_eq!(scene.hub.ask(&ask)["answer"]["decision"], "allow");
    let screen = terminal.screen();
    let at = |words: &str| screen.find(words).unwrap_or_else(|| panic!("{words} in {screen}"));
    assert!(at("touch it") < at("> allow") && at("> allow") < at("  ls"), "{screen}");
}
