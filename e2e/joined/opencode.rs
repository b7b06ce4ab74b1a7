//! `aye opencode`: OpenCode's own screen stays live, and the first answer wins.

use super::stage::Stage;
use super::{once, sqlite};
use crate::agents::{OPENCODE, child_of};
use crate::support::eventually;
use aye_testkit::model::{Model, tool};
use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::{Value, json};
use std::process::Command;

/// What its screen shows above a permission.
const PERMISSION: &str = "Permission required";
/// And below a question.
const QUESTION: &str = "esc dismiss";

fn stage(steps: Vec<Vec<Value>>) -> Stage {
    Stage::new(&OPENCODE, Model::scripted(steps))
}

fn runs(id: &str, command: &str) -> Value {
    (OPENCODE.runs)(id, command)
}

fn asks(id: &str) -> Value {
    OPENCODE.asks.unwrap()(id)
}

/// Starts `aye opencode` with a prompt. OpenCode asks for what it is told to ask for, as its people set it up.
fn start(stage: &Stage) {
    start_with(stage, &[]);
}

fn start_with(stage: &Stage, arguments: &[&str]) {
    start_permitting(stage, arguments, json!({"bash": "ask", "edit": "ask"}));
}

fn start_permitting(stage: &Stage, arguments: &[&str], permission: Value) {
    stage.start(&[&["--prompt", "do it"], arguments].concat(), |command, work| {
        let file = work.join(".config/opencode/opencode.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config["permission"] = permission;
        std::fs::write(file, config.to_string()).unwrap();
        command.env("OPENCODE_EXPERIMENTAL_PLAN_MODE", "1").env("OPENCODE_CLIENT", "cli");
    });
    // In a new home it takes its time.
    stage.terminal.sees("OpenCode 1.");
    stage.terminal.sees("▣");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn an_answer_from_elsewhere_closes_the_dialog_and_the_model_is_told_it() {
    let stage = stage(vec![
        vec![runs("call_1", "touch one && echo it ran")],
        vec![asks("call_2")],
        vec![runs("call_3", "touch three")],
        vec![tool("call_4", "write", json!({"filePath": "note.txt", "content": "one\n"}))],
    ]);
    start(&stage);
    let allowed = stage.hub.open_ask();
    assert_eq!(stage.agent_is("waiting")["tmux"], "0");
    let shown = (&allowed["body"]["tool"], &allowed["body"]["input"]["command"]);
    assert_eq!(shown, (&json!("Bash"), &json!("touch one && echo it ran")));
    stage.terminal.sees(PERMISSION);
    assert_eq!(stage.hub.answer(&allowed, once()).status, 200);
    assert!(stage.model.told("call_1").contains("it ran") && stage.has("one"));
    stage.terminal.sees(QUESTION);
    stage.terminal.no_longer_sees(PERMISSION);
    let answered = stage.hub.answer_next(sqlite());
    assert!(stage.model.told("call_2").contains("SQLite"));
    stage.terminal.no_longer_sees(QUESTION);
    let refused = stage.hub.answer_next(json!({"decision": "deny", "message": "two is enough"}));
    assert!(stage.model.told("call_3").contains("two is enough") && !stage.has("three"));
    let written = stage.hub.answer_next(once());
    assert_eq!((&written["body"]["tool"], &written["display"]["kind"]), (&json!("Write"), &json!("diff")));
    stage.model.told("call_4");
    for ask in [allowed, answered, refused, written] {
        stage.confirmed(&ask);
    }
    let agent = stage.agent_is("idle");
    assert_eq!((&agent["kind"], &agent["reach"]), (&json!("opencode"), &json!("hooked")));
    assert!(agent["session"].as_str().unwrap().starts_with("ses_"), "{agent}");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn an_answer_in_the_terminal_withdraws_the_ask_and_is_shown_with_it() {
    let stage = stage(vec![
        vec![asks("call_1")],
        vec![runs("call_2", "touch two")],
        vec![tool(
            "call_3",
            "question",
            json!({"questions": [{"question": "Which port?", "header": "Port",
            "options": [{"label": "80", "description": "."}, {"label": "443", "description": "."}]}]}),
        )],
    ]);
    start(&stage);
    let question = stage.hub.open_ask();
    stage.terminal.sees(QUESTION);
    stage.terminal.press(&["2"]);
    let ended = stage.ended(&question);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &sqlite()));
    assert_eq!(ended["note"], "answered in the agent's own terminal");
    assert_eq!(stage.hub.answer(&question, sqlite()).status, 409);
    let permission = stage.hub.open_ask();
    stage.terminal.sees(PERMISSION);
    stage.terminal.press(&["Enter"]);
    let ended = stage.ended(&permission);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &once()));
    stage.model.told("call_2");
    assert!(stage.has("two"));
    let dismissed = stage.hub.open_ask();
    stage.terminal.sees(QUESTION);
    stage.terminal.press(&["Escape"]);
    let ended = stage.ended(&dismissed);
    assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &json!({"skip": true})));
    stage.agent_is("idle");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn when_both_answer_at_once_one_counts_and_the_record_says_which() {
    let commands = ["touch r1", "touch r2", "touch r3", "touch r4"];
    let steps = commands.iter().enumerate().map(|(n, command)| vec![runs(&format!("call_{n}"), command)]);
    let stage = stage(steps.collect());
    start(&stage);
    for (n, command) in commands.iter().enumerate() {
        let ask = stage.hub.open_ask();
        assert_eq!(ask["display"]["text"], *command);
        stage.terminal.sees(&format!("$ {command}"));
        stage.terminal.sees(PERMISSION);
        let recorded = std::thread::scope(|scope| {
            let pressed = scope.spawn(|| stage.terminal.press(&["Enter"]));
            let recorded = stage.hub.answer(&ask, once()).status;
            pressed.join().unwrap();
            recorded
        });
        stage.model.told(&format!("call_{n}"));
        if recorded == 200 {
            let settled = stage.settled(&ask);
            assert!(matches!(settled["receipt"].as_str(), Some("confirmed" | "superseded")), "{settled}");
        } else {
            let ended = stage.ended(&ask);
            assert_eq!((&ended["state"], &ended["answer"]), (&json!("withdrawn"), &once()));
        }
        // A key that came after the dialog was gone is text in the prompt, or sends it.
        assert!(stage.has(&format!("r{}", n + 1)));
    }
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_hub_that_is_killed_finds_the_same_ask_again_and_a_refusal_ends_what_it_ends() {
    let mut stage = stage(vec![
        vec![runs("call_1", "touch one")],
        vec![runs("call_2", "touch two"), runs("call_3", "touch three")],
        vec![runs("call_4", "touch four"), runs("call_5", "touch five")],
    ]);
    start(&stage);
    let before = stage.hub.open_ask();
    stage.hub.kill();
    stage.hub.restart();
    let again = stage.hub.answer_next(once());
    assert_eq!(again["id"], before["id"]);
    stage.model.told("call_1");
    stage.confirmed(&again);
    // Two at once, both allowed.
    for ask in stage.open_asks(2) {
        assert_eq!(stage.hub.answer(&ask, once()).status, 200);
        stage.confirmed(&ask);
    }
    assert!(stage.has("two") && stage.has("three"));
    // Two at once, one refused: OpenCode then refuses the other as well.
    let asks = stage.open_asks(2);
    assert_eq!(stage.hub.answer(&asks[0], json!({"decision": "deny", "message": "no"})).status, 200);
    stage.confirmed(&asks[0]);
    let other = stage.ended(&asks[1]);
    assert_eq!((&other["state"], &other["note"]), (&json!("withdrawn"), &json!("cancelled by the agent")));
    assert!(!stage.has("four") && !stage.has("five"));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn without_a_hub_it_works_and_one_that_comes_later_finds_what_is_open() {
    let mut stage = stage(vec![vec![runs("call_1", "touch one")], vec![runs("call_2", "touch two")]]);
    stage.hub.stop();
    start(&stage);
    stage.terminal.sees(PERMISSION);
    stage.terminal.press(&["Enter"]);
    stage.model.told("call_1");
    stage.terminal.sees("$ touch two");
    stage.terminal.sees(PERMISSION);
    stage.hub.restart();
    let ask = stage.hub.open_ask();
    assert_eq!((&ask["body"]["tool"], &ask["display"]["text"]), (&json!("Bash"), &json!("touch two")));
    let program = eventually("OpenCode", || child_of(stage.terminal.pid()));
    kill_process(Pid::from_raw(program.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let ended = stage.ended(&ask);
    assert_eq!((&ended["state"], &ended["note"]), (&json!("withdrawn"), &json!("the agent is gone")));
    stage.agent_is("ended");
    assert!(stage.has("one") && !stage.has("two"));
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn leaving_plan_mode_is_a_question_that_can_be_answered_from_elsewhere() {
    let stage = stage(vec![vec![tool("call_1", "plan_exit", json!({}))]]);
    start_with(&stage, &["--agent", "plan"]);
    let ask = stage.hub.open_ask();
    let options: Vec<_> = ask["body"]["questions"][0]["options"].as_array().unwrap().iter().collect();
    assert_eq!(options.iter().map(|option| &option["label"]).collect::<Vec<_>>(), ["Yes", "No"]);
    stage.terminal.sees(QUESTION);
    // OpenCode would take a question that was left out for a yes.
    assert_eq!(stage.hub.answer(&ask, json!({"skip": true})).status, 422);
    assert_eq!(stage.hub.answer(&ask, json!({"answers": [{"selected": ["Yes"]}]})).status, 200);
    assert!(stage.model.told("call_1").contains("User approved"));
    stage.terminal.no_longer_sees(QUESTION);
    stage.confirmed(&ask);
}

/// Another user, who listens on the port that OpenCode is told to take before OpenCode does, and writes down what comes.
const SQUATTER: &str = r#"
import os, socket, sys, time
heard, port, mine = open(sys.argv[1], "ab", 0), None, sys.argv[2]
os.setgid(65534); os.setuid(65534)
def told(pid):
    try: words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
    except OSError: return None
    return int(words[words.index(b"--port") + 1]) if b"--port" in words and mine.encode() in words else None
while port is None:
    port = next((port for port in map(told, filter(str.isdigit, os.listdir("/proc"))) if port), None)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port)); listener.listen()
heard.write(b"listening\n")
for _ in range(3):
    connection, _ = listener.accept()
    heard.write(b"accepted\n")
    heard.write(connection.recv(4096))
    connection.close()
heard.write(b"done\n")
"#;

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn another_user_who_takes_opencodes_port_first_is_sent_nothing() {
    if !getuid().is_root() {
        println!("not root, so nobody else can be played here");
        return;
    }
    let stage = stage(vec![]);
    let heard = stage.work().join("heard");
    let prompt = format!("a prompt to be known by: {}", stage.work().display());
    let squatter = Command::new("python3").args(["-c", SQUATTER]).arg(&heard).arg(&prompt).spawn();
    let mut squatter = squatter.unwrap();
    eventually("the other user to look", || heard.exists().then_some(()));
    stage.start(&["--prompt", &prompt], |_, _| {});
    let read = || std::fs::read(&heard).unwrap_or_default();
    let ended = eventually("the other user to have had three connections", || squatter.try_wait().unwrap());
    assert!(ended.success());
    assert_eq!(String::from_utf8_lossy(&read()), "listening\naccepted\naccepted\naccepted\ndone\n");
}

#[test]
#[ignore = "needs the real agent: scripts/test installs it"]
fn a_terminal_in_which_opencode_asks_for_nothing_is_shown_as_that() {
    for (permission, expected) in
        [(json!({"*": "allow"}), "nothing"), (json!({"bash": "ask", "edit": "ask"}), "everything")]
    {
        let stage = stage(vec![]);
        start_permitting(&stage, &[], permission);
        eventually(&format!("its agent to ask for {expected}"), || {
            let list = stage.hub.get("/api/agents", &stage.hub.operator()).body;
            list["agents"].get(0).filter(|agent| agent["asks"] == expected).map(drop)
        });
    }
}
