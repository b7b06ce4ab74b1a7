//! Ways out of a process tree, each tried by an agent that wants to answer for the person: under `aye run` and
//! under `aye claude`, which keep what an agent starts below themselves.

use crate::support::{Hub, aye, ended, eventually, saying, yes_or_no};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Each starts `"$LATE" NAME`, which tries to answer once the process that started it is gone.
const WAYS_OUT: [(&str, &str); 9] = [
    ("background", r#""$LATE" background &"#),
    ("setsid", r#"(setsid "$LATE" setsid &)"#),
    ("setsid_fork", r#"setsid --fork "$LATE" setsid_fork"#),
    ("double_fork", r#"( ( "$LATE" double_fork & ) & )"#),
    ("nohup", r#"nohup "$LATE" nohup >/dev/null 2>&1 &"#),
    ("disown", r#"bash -c '"$LATE" disown & disown; exit'"#),
    ("daemon", r#"(setsid sh -c 'cd /; setsid "$LATE" daemon </dev/null >/dev/null 2>&1 & exit' &)"#),
    (
        "exec_chain",
        r#"(setsid sh -c 'exec env sh -c "exec setsid sh -c \"exec \\\"\$LATE\\\" exec_chain\""' &)"#,
    ),
    ("chain_of_orphans", r#"(setsid sh -c '(setsid sh -c "(setsid \"\$LATE\" chain_of_orphans &)" &)' &)"#),
];

/// Waits until its parent is gone, if that is about to go, and then tries to answer.
const LATE: &str = r#"#!/bin/sh
parent=$PPID
tries=0
while [ "$1" != background ] && kill -0 $parent 2>/dev/null && [ $tries -lt 20 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
"$AYE" answer "$ASK" yes >"$OUT/$1.new" 2>&1
echo "code $?" >>"$OUT/$1.new"
mv "$OUT/$1.new" "$OUT/$1"
"#;

struct Scene {
    hub: Hub,
    dir: tempfile::TempDir,
    ask: Value,
}

impl Scene {
    /// A hub, an ask of another agent, and a program that plays an agent and does this.
    fn new(agent: &str) -> Self {
        let hub = Hub::start();
        let bot = hub.agent("bot");
        let ask = hub.raise(&bot, "bot", "k", "question", yes_or_no());
        let scene = Self { hub, dir: tempfile::tempdir().unwrap(), ask };
        scene.program("late", LATE);
        scene.program("agent", &format!("#!/bin/sh\n{agent}"));
        scene
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = aye(&self.hub.home);
        command.args(arguments).current_dir(self.dir.path());
        command.env("AYE_CLAUDE", self.file("agent")).env("LATE", self.file("late"));
        command.env("AYE", env!("CARGO_BIN_EXE_aye")).env("ASK", self.ask["id"].as_str().unwrap());
        command.env("OUT", self.dir.path()).env_remove("AYE_DRIVEN").env_remove("TMUX");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What a file says, once it is there.
    fn text(&self, name: &str) -> String {
        eventually(name, || fs::read_to_string(self.file(name)).ok())
    }

    fn release(&self, mut run: Child) {
        fs::write(self.file("done"), "").unwrap();
        ended(&mut run);
    }

    fn every_way_out_is_closed(&self) {
        for (name, _) in WAYS_OUT {
            let said = self.text(name);
            assert!(said.contains("this process runs inside the agent"), "{name}: {said}");
            assert!(said.ends_with("code 1\n"), "{name}: {said}");
        }
        assert_eq!(self.hub.ask(&self.ask), self.ask);
    }
}

fn ways_out() -> String {
    WAYS_OUT.map(|(_, line)| line).join("\n")
}

/// Nothing is said to it before the hub knows it.
const UNTIL_KNOWN: &str = "read prompt";
const UNTIL_DONE: &str = "while [ ! -e \"$OUT/done\" ]; do sleep 0.05; done";

/// What Claude Code does when a session begins.
const SESSION_BEGINS: &str = r#"export CLAUDE_PID=$$
printf '{"session_id":"s-1","transcript_path":"%s/p/q/s-1.jsonl","cwd":"%s","hook_event_name":"SessionStart"}' "$OUT" "$OUT" | "$AYE" hook"#;

#[test]
fn no_way_out_of_a_driven_agent_leads_to_an_answer() {
    let scene = Scene::new(&format!("{UNTIL_KNOWN}\n{}\n{UNTIL_DONE}", ways_out()));
    let run = scene.start(&["run", "do it"]);
    scene.every_way_out_is_closed();
    scene.release(run);
}

#[test]
fn no_way_out_of_a_hooked_agent_leads_to_an_answer() {
    let scene = Scene::new(&format!("{SESSION_BEGINS}\n{}\n{UNTIL_DONE}", ways_out()));
    let run = scene.start(&["claude"]);
    scene.every_way_out_is_closed();
    scene.release(run);
}

#[test]
fn a_line_of_processes_too_long_to_be_followed_is_nobody_who_answers() {
    // Each level waits for the next one, so that all of them are there at once.
    let nest = "#!/bin/sh\nif [ $1 -gt 0 ]; then \"$0\" $(($1 - 1)); else \"$LATE\" background; fi\nexit\n";
    let scene = Scene::new(&format!("{UNTIL_KNOWN}\n\"$OUT/nest\" 300 &\n{UNTIL_DONE}"));
    scene.program("nest", nest);
    let run = scene.start(&["run", "do it"]);
    let said = scene.text("background");
    assert!(said.contains("it cannot be seen which process this comes from"), "{said}");
    assert_eq!(scene.hub.ask(&scene.ask), scene.ask);
    scene.release(run);
}

#[test]
fn orphans_are_collected_when_they_end() {
    let orphans = "for n in 1 2 3 4 5 6 7 8; do (setsid true &); done\necho $PPID >\"$OUT/supervisor\"";
    let agents = [(UNTIL_KNOWN, ["run", "do it"].as_slice()), (SESSION_BEGINS, ["claude"].as_slice())];
    for (begins, arguments) in agents {
        let scene = Scene::new(&format!("{begins}\n{orphans}\n{UNTIL_DONE}"));
        let run = scene.start(arguments);
        let supervisor: u32 = eventually("the supervisor", || scene.text("supervisor").trim().parse().ok());
        eventually("no zombies below it", || zombies_below(supervisor).is_empty().then_some(()));
        scene.release(run);
    }
}

fn zombies_below(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(&format!("Z {parent} ")))
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_zombie).collect()
}

#[test]
fn the_person_at_the_terminal_of_a_run_still_answers() {
    let scene = Scene::new(&format!("{UNTIL_KNOWN}\n{UNTIL_DONE}"));
    let run = scene.start(&["run", "do it"]);
    eventually("the run to be known", || {
        let agents = scene.hub.get("/api/agents", &scene.hub.operator()).body;
        agents["agents"].as_array()?.iter().any(|agent| agent["reach"] == "driven").then_some(())
    });
    let answered = scene.hub.aye(&["answer", scene.ask["id"].as_str().unwrap(), "yes"]);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    scene.release(run);
}

/// The known limit: who can ask a server outside the agent to start something has left the agent. Only an answer
/// that takes a passkey is out of its reach.
#[test]
fn a_tmux_server_that_was_there_before_the_agent_is_a_known_way_out() {
    let server = TmuxServer::start();
    let agent = format!(
        "{UNTIL_KNOWN}\ntmux -S '{}' new-window -e OUT=\"$OUT\" -e AYE=\"$AYE\" -e ASK=\"$ASK\" -e AYE_HOME=\"$AYE_HOME\" \"$LATE background\"\n{UNTIL_DONE}",
        server.socket().display()
    );
    let scene = Scene::new(&agent);
    let run = scene.start(&["run", "do it"]);
    assert!(scene.text("background").ends_with("code 0\n"));
    assert_eq!(scene.hub.ask(&scene.ask)["answer"], saying("yes"));
    scene.release(run);
}

/// One that the agent starts itself is below it, like everything else.
#[test]
fn a_tmux_server_that_the_agent_starts_is_inside_the_agent() {
    let server = TmuxServer { dir: tempfile::tempdir().unwrap() };
    let agent = format!(
        "{UNTIL_KNOWN}\ntmux -S '{}' -f /dev/null new-session -d \"$LATE background; sleep 60\"\n{UNTIL_DONE}",
        server.socket().display()
    );
    let scene = Scene::new(&agent);
    let run = scene.start(&["run", "do it"]);
    let said = scene.text("background");
    assert!(said.contains("this process runs inside the agent"), "{said}");
    assert_eq!(scene.hub.ask(&scene.ask), scene.ask);
    scene.release(run);
}

struct TmuxServer {
    dir: tempfile::TempDir,
}

impl TmuxServer {
    fn start() -> Self {
        let server = Self { dir: tempfile::tempdir().unwrap() };
        let started = server.tmux(&["-f", "/dev/null", "new-session", "-d", "sleep 600"]);
        assert!(started, "tmux must be installed");
        server
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("tmux")
    }

    fn tmux(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").arg("-S").arg::<&Path>(&self.socket()).args(arguments);
        command.stderr(Stdio::null()).status().unwrap().success()
    }
}

impl Drop for TmuxServer {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// What a hook says of processes above it is held against who types where: the test's own process holds the hub.
#[test]
fn an_agent_names_neither_what_the_hub_runs_in_nor_what_is_above_another_agent() {
    let scene = Scene::new(&format!(
        "{UNTIL_KNOWN}\necho $PPID $$ >\"$OUT/pids.new\"\nmv \"$OUT/pids.new\" \"$OUT/pids\"\n\
         token=$(curl -sS --unix-socket \"$SOCKET\" -X POST http://localhost/api/agents/rogue/token | sed 's/.*:\"//; s/\".*//')\n\
         for pid in $$ $PPID $ABOVE; do\n\
         curl -sS --unix-socket \"$SOCKET\" -X PUT -H \"Authorization: Bearer $token\" -H 'Content-Type: application/json' \
         -d \"{{\\\"pid\\\":$pid}}\" http://localhost/api/agents/rogue >/dev/null\ndone\n\
         touch \"$OUT/registered\"\n{UNTIL_DONE}"
    ));
    // As if a person had started the run from this process, in which the hub runs too.
    let socket = aye::home::Home::at(&scene.hub.home).socket();
    let mut command = aye(&scene.hub.home);
    command.args(["run", "do it"]).current_dir(scene.dir.path()).env("AYE_CLAUDE", scene.file("agent"));
    command.env("OUT", scene.dir.path()).env("SOCKET", socket).env("ABOVE", std::process::id().to_string());
    let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    scene.text("registered");
    let answered = scene.hub.call_unix(
        "POST",
        &format!("/api/asks/{}/answer", scene.ask["id"].as_str().unwrap()),
        &scene.hub.operator(),
        json!({"answer": saying("yes"), "digest": scene.ask["digest"]}),
    );
    assert_eq!(answered.status, 200, "{}", answered.body);
    scene.release(run);
}
