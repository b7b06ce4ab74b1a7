//! Permission modes: a run asks whatever the person's own settings say, and everybody sees a session that asks for nothing.
//! Folders of other users, whose settings an agent would obey.

use super::{Story, bash, ended, said};
use crate::support::{Hub, Reply, aye, claude, eventually};
use aye_testkit::model::{Model, text, tool};
use serde_json::{Value, json};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Settings in which Claude Code asks for nothing.
fn bypass() -> Value {
    json!({"permissions": {"defaultMode": "bypassPermissions"}, "skipDangerousModePermissionPrompt": true})
}

fn write(folder: &Path, file: &str, settings: &Value) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(file), settings.to_string()).unwrap();
}

fn touching(names: &[&str]) -> Model {
    let call = |name: &&str| vec![tool(&format!("toolu_{name}"), "Bash", bash(&format!("touch {name}")))];
    Model::scripted(names.iter().map(call).collect())
}

fn once() -> Value {
    json!({"decision": "allow", "scope": "once"})
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_run_asks_although_the_settings_say_to_bypass() {
    let story = Story::with(touching(&["one", "two"]));
    write(&story.work.path().join(".config"), "settings.json", &bypass());
    let run = story.run(&[]);
    let ask = story.hub.open_ask();
    assert!(!story.has("one"));
    assert_eq!(story.agent()["asks"], "everything");
    assert_eq!(story.hub.answer(&ask, once()).status, 200);
    // The same run goes on with the second call.
    story.model.told("toolu_one");
    story.hub.answer_next(once());
    ended(run);
    assert!(story.has("one") && story.has("two"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_run_that_is_resumed_asks_although_it_asked_for_nothing_before() {
    let touch = |name: &str| vec![tool(&format!("toolu_{name}"), "Bash", bash(&format!("touch {name}")))];
    let done = || vec![text("Done.")];
    let story = Story::new(vec![touch("one"), done(), touch("two"), done(), touch("three"), done()]);
    write(&story.work.path().join(".config"), "settings.json", &bypass());
    let silent = said(story.run(&["--mode", "bypassPermissions"]));
    assert!(story.has("one") && silent.contains("asks for nothing"), "{silent}");
    let before = story.agent();
    assert_eq!(before["asks"], "nothing");
    let named = story.command(&["--resume", before["id"].as_str().unwrap()], "go on");
    // With --continue no kind of agent is named.
    let mut newest = aye(&story.hub.home);
    newest.args(["run", "--continue", "go on"]).current_dir(story.work.path());
    newest.envs(named.get_envs().filter_map(|(name, value)| Some((name, value?))));
    newest.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for mut resumed in [named, newest] {
        let run = resumed.spawn().unwrap();
        let ask = story.hub.open_ask();
        let known =
            story.hub.get(&format!("/api/agents/{}", ask["agent"].as_str().unwrap()), &story.hub.operator());
        assert_eq!(known.body["asks"], "everything");
        assert_eq!(story.hub.answer(&ask, json!({"decision": "deny", "message": "no"})).status, 200);
        ended(run);
    }
    assert!(!story.has("two") && !story.has("three"));
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_mode_that_changes_during_a_run_is_shown() {
    let write = |id: &str| vec![tool(id, "Write", json!({"file_path": format!("{id}.txt"), "content": "x"}))];
    let story = Story::new(vec![write("one"), write("two")]);
    let run = story.run(&[]);
    let ask = story.hub.open_ask();
    let session = json!({"decision": "allow", "scope": "session"});
    assert_eq!(story.hub.answer(&ask, session).status, 200);
    ended(run);
    assert!(story.has("two.txt"), "edits are accepted from then on");
    assert_eq!(story.agent()["asks"], "some");
}

/// A hub that starts the real agent, with the person's home beside it.
struct Afar {
    hub: Hub,
    model: Model,
    dir: tempfile::TempDir,
}

impl Afar {
    fn new(model: Model, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let place = place.to_str().unwrap();
        let env = [
            format!("ANTHROPIC_BASE_URL={}", model.url),
            "ANTHROPIC_API_KEY=sk-ant-fake".into(),
            format!("CLAUDE_CONFIG_DIR={place}/.claude"),
            format!("HOME={place}"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1".into(),
            "DISABLE_AUTOUPDATER=1".into(),
            "IS_SANDBOX=1".into(),
        ];
        let mut hub = Hub::start();
        let config = format!("{more}\n[agents.claude]\ncommand = {:?}\nenv = {env:?}\n", claude());
        std::fs::write(hub.home.join("config.toml"), config.replace("PLACE", place)).unwrap();
        hub.stop();
        hub.restart();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { hub, model, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, run: Value) -> Reply {
        self.hub.post("/api/agents", &self.hub.operator(), run)
    }

    fn stop(&self, started: &Reply) {
        let path = format!("/api/agents/{}", started.body["id"].as_str().unwrap());
        self.hub.post(&format!("{path}/stop"), &self.hub.operator(), json!({}));
        eventually("the run to end", || {
            (self.hub.get(&path, &self.hub.operator()).body["state"] == "ended").then_some(())
        });
    }
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn a_run_from_afar_asks_although_the_settings_say_to_bypass() {
    let afar =
        Afar::new(touching(&["one"]), "[policy]\nproof = \"passkey\"\n[projects]\nweb = \"PLACE/work\"");
    write(&afar.path(".claude"), "settings.json", &bypass());
    let started = afar.start(json!({"cwd": "web", "prompt": "do it"}));
    assert_eq!(started.status, 201, "{}", started.body);
    let ask = afar.hub.open_ask();
    assert_eq!(ask["proof"], "passkey");
    assert!(!afar.path("work/one").exists());
    let agent = afar.hub.get("/api/agents", &afar.hub.operator()).body["agents"][0].clone();
    assert_eq!(agent["asks"], "everything", "{agent}");
    assert_eq!(afar.hub.answer(&ask, json!({"decision": "deny"})).status, 200);
    afar.model.told("toolu_one");
    assert!(!afar.path("work/one").exists());
    afar.stop(&started);
}

/// Settings of a folder whose hook makes this file when a session starts there.
fn hook_that_makes(file: &Path) -> Value {
    let hook = json!({"type": "command", "command": format!("touch {}", file.display())});
    json!({"hooks": {"SessionStart": [{"hooks": [hook]}]}})
}

#[test]
#[ignore = "needs the real Claude Code: scripts/test installs it"]
fn hooks_in_a_folder_of_another_user_run_only_where_the_folder_is_listed() {
    if !rustix::process::getuid().is_root() {
        return println!("not root, so nobody else can be played here");
    }
    let afar = Afar::new(Model::scripted(vec![]), "");
    let (work, made) = (afar.path("work").canonicalize().unwrap(), afar.path("made"));
    write(&work.join(".claude"), "settings.json", &hook_that_makes(&made));
    for path in [&work, &work.join(".claude"), &work.join(".claude/settings.json")] {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    let refused = afar.start(json!({"cwd": work, "prompt": "do it"}));
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("cwd")), "{}", refused.body);
    assert!(refused.body["error"].as_str().unwrap().contains("another user (id 65534)"), "{}", refused.body);
    assert_eq!(afar.hub.get("/api/agents?all=true", &afar.hub.operator()).body["agents"], json!([]));
    assert!(!made.exists());
    let file = afar.hub.home.join("config.toml");
    let listed = format!("{}[projects]\ntheirs = {work:?}\n", std::fs::read_to_string(&file).unwrap());
    std::fs::write(&file, listed).unwrap();
    let started = afar.start(json!({"cwd": "theirs", "prompt": "do it"}));
    assert_eq!(started.status, 201, "{}", started.body);
    eventually("the hook", || made.exists().then_some(()));
    afar.stop(&started);
}
