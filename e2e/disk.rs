//! The home on disk: full, read-only, damaged, too open, too new, too deep.

use crate::support::{Hub, Reply, aye, complained, eventually, printed, saying, signal, yes_or_no};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Set where a test runs with a disk of its own, to the place of that disk.
const INSIDE: &str = "AYE_TEST_DISK";

/// Runs a test with a small file system of its own, which vanishes with the test. It takes the right to
/// mount: as root, or in a user namespace where the system allows one.
fn on_a_small_disk(test: &str, run: impl FnOnce(&Path)) {
    if let Some(disk) = std::env::var_os(INSIDE) {
        let disk = Path::new(&disk);
        mount(&["-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs"], disk);
        return run(disk);
    }
    let root = rustix::process::getuid().is_root();
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("--mount").args((!root).then_some("--map-root-user"));
        command
    };
    let tried = unshare().args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        // Past the test harness, which keeps what passing tests print to itself.
        let words = format!("\nSKIPPED {test}: it needs the right to mount a small disk: {tried:?}\n");
        std::io::stderr().write_all(words.as_bytes()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut inside = unshare();
    inside
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("disk::{test}"), "--nocapture"])
        .env(INSIDE, dir.path());
    let ran = inside.output().unwrap();
    let words = printed(&ran) + &complained(&ran);
    assert!(ran.status.success() && words.contains("1 passed"), "{words}");
}

#[track_caller]
fn mount(arguments: &[&str], at: &Path) {
    assert!(Command::new("mount").args(arguments).arg(at).status().unwrap().success());
}

/// Takes all the space there is; the file returned gives it back when it is removed.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

/// Calls until the disk is full; what was taken before that was taken whole.
#[track_caller]
fn until_full(mut call: impl FnMut() -> Reply) -> Reply {
    for _ in 0..500 {
        let reply = call();
        match reply.status {
            200 | 201 => {}
            507 => return reply,
            _ => panic!("{reply:?}"),
        }
    }
    panic!("the disk never became full");
}

fn all_asks(hub: &Hub) -> Vec<Value> {
    let list = hub.get("/api/asks?state=all", &hub.operator());
    assert_eq!(list.status, 200);
    list.body["asks"].as_array().unwrap().clone()
}

#[track_caller]
fn verifies(hub: &Hub) {
    let verified = hub.aye(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn on_a_full_disk_changes_are_refused_whole_and_work_again_once_there_is_space() {
    on_a_small_disk(
        "on_a_full_disk_changes_are_refused_whole_and_work_again_once_there_is_space",
        a_full_disk,
    );
}

fn a_full_disk(disk: &Path) {
    let mut hub = Hub::start_in(disk.join("home"));
    let (operator, agent) = (hub.operator(), hub.agent("a1"));
    let asks: Vec<_> =
        (0..40).map(|n| hub.raise(&agent, "a1", &format!("small-{n}"), "question", yes_or_no())).collect();
    let filler = fill(disk);

    let mut raised = asks.len();
    let raise = |n: usize| json!({"key": format!("large-{n}"), "agent": "a1", "kind": "plan", "body": {"plan": "x".repeat(60_000)}});
    let refused = until_full(|| {
        raised += 1;
        hub.post("/api/asks", &agent, raise(raised))
    });
    let why = "the disk is full: nothing was changed. Free some space and try again";
    assert_eq!(refused.body, json!({"error": why}));
    let mut waiting = asks.iter();
    let mut unanswered = None;
    let refused = until_full(|| {
        unanswered = waiting.next();
        hub.answer(unanswered.unwrap(), saying("yes"))
    });
    assert_eq!(refused.body, json!({"error": why}));
    let unanswered = unanswered.unwrap();
    let id = unanswered["id"].as_str().unwrap();
    let refused = hub.aye(&["answer", id, "yes"]);
    assert_eq!((refused.status.code(), complained(&refused)), (Some(1), format!("aye: {why}\n")));

    let before = all_asks(&hub);
    assert_eq!(before.len(), raised - 1);
    assert_eq!(hub.get(&format!("/api/asks/{id}"), &operator).body, *unanswered);
    assert!(printed(&hub.aye(&["list"])).contains(id));
    assert!(printed(&hub.aye(&["log", "--limit", "1"])).contains("ask."));
    verifies(&hub);

    fs::remove_file(filler).unwrap();
    assert_eq!(hub.post("/api/asks", &agent, raise(raised)).status, 201);
    assert_eq!(hub.answer(unanswered, saying("no")).body["answer"], saying("no"));
    assert_eq!(all_asks(&hub).len(), raised);
    verifies(&hub);
    assert!(hub.stop().success());
    hub.restart();
    assert_eq!(all_asks(&hub).len(), raised);
    verifies(&hub);
}

#[test]
fn a_hub_killed_on_a_full_disk_comes_back_with_everything() {
    on_a_small_disk("a_hub_killed_on_a_full_disk_comes_back_with_everything", |disk| {
        let mut hub = Hub::start_in(disk.join("home"));
        let agent = hub.agent("a1");
        let filler = fill(disk);
        let mut n = 0;
        until_full(|| {
            n += 1;
            let raise = json!({"key": n.to_string(), "agent": "a1", "kind": "question", "body": yes_or_no()});
            hub.post("/api/asks", &agent, raise)
        });
        hub.kill();
        // Each hub that finds room to note its start takes some of the last.
        let refused = (0..100).find_map(|_| refusal(&hub.home)).expect("the disk never became full");
        assert_eq!(refused.status.code(), Some(1));
        assert!(says_full(&refused), "{refused:?}");
        fs::remove_file(filler).unwrap();
        hub.restart();
        assert_eq!(all_asks(&hub).len(), n - 1);
        verifies(&hub);
    });
}

/// How a hub refuses to start; one that starts is killed.
fn refusal(home: &Path) -> Option<Output> {
    let mut command = aye(home);
    command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let read = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if read > 0 {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    (read == 0).then_some(output)
}

fn says_full(output: &Output) -> bool {
    let words = complained(output);
    words.contains("disk is full") || words.contains("No space left on device")
}

#[test]
fn a_new_home_on_a_full_disk_is_refused_by_name() {
    on_a_small_disk("a_new_home_on_a_full_disk_is_refused_by_name", |disk| {
        fill(disk);
        let home = disk.join("home");
        let refused = aye(&home).args(["up", "--no-open", "--listen", "127.0.0.1:0"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let named = complained(&refused).contains(home.to_str().unwrap());
        assert!(says_full(&refused) && named, "{refused:?}");
    });
}

#[test]
fn a_read_only_home_can_be_read_but_runs_no_hub() {
    on_a_small_disk("a_read_only_home_can_be_read_but_runs_no_hub", |disk| {
        let mut hub = Hub::start_in(disk.join("home"));
        let agent = hub.agent("a1");
        hub.raise(&agent, "a1", "k1", "question", yes_or_no());
        assert!(hub.stop().success());
        mount(&["-o", "remount,bind,ro"], disk);
        let refused = hub.aye(&["up", "--no-open", "--listen", "127.0.0.1:0"]);
        let words = complained(&refused);
        assert_eq!(refused.status.code(), Some(1));
        assert!(words.contains(hub.home.to_str().unwrap()) && words.contains("Read-only"), "{words}");
        verifies(&hub);
        assert!(printed(&hub.aye(&["log"])).contains("ask.raised"));
    });
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The modes of all that is in a home, by name.
fn modes(home: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(home).unwrap().map(|entry| entry.unwrap());
    let mut modes: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path()))).collect();
    modes.sort();
    modes
}

#[test]
fn every_file_is_its_owners_alone_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_aye");
    let line = "umask 022; exec \"$0\" up --no-open --listen 127.0.0.1:0";
    command.args(["-c", line, program]).env("AYE_HOME", &home).env("AYE_LOG", "error");
    let hub = Hub::start_with(command, home);
    let agent = hub.agent("a1");
    hub.raise(&agent, "a1", "k1", "question", yes_or_no());
    assert_eq!(mode(&hub.home), 0o700);
    let names = [
        "agent.key",
        "aye.db",
        "aye.db-shm",
        "aye.db-wal",
        "aye.lock",
        "aye.sock",
        "chain.head",
        "chain.key",
        "operator.token",
    ];
    assert_eq!(modes(&hub.home), names.map(|name| (name.to_owned(), 0o600)));
}

#[test]
fn a_home_that_others_could_read_is_made_private_with_all_that_is_in_it() {
    let mut hub = Hub::start();
    // Killed, so that -wal and -shm stay behind.
    hub.kill();
    for (name, _) in modes(&hub.home) {
        fs::set_permissions(hub.home.join(name), Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(&hub.home, Permissions::from_mode(0o755)).unwrap();
    let doctor = hub.aye(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let words = printed(&doctor);
    assert!(words.contains(&format!("chmod 700 {}", hub.home.display())), "{words}");

    hub.restart();
    assert_eq!(mode(&hub.home), 0o700);
    let open: Vec<_> = modes(&hub.home).into_iter().filter(|(_, mode)| *mode != 0o600).collect();
    assert_eq!(open, vec![]);
    assert_eq!(hub.aye(&["doctor"]).status.code(), Some(0));
}

#[test]
fn a_database_of_a_newer_aye_is_left_alone() {
    let mut hub = Hub::start();
    assert!(hub.stop().success());
    let path = hub.home.join("aye.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    database.close().unwrap();
    let before = fs::read(&path).unwrap();
    for command in [&["up", "--no-open", "--listen", "127.0.0.1:0"][..], &["log"], &["verify"]] {
        let refused = hub.aye(command);
        let words = complained(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("written by a newer aye (schema 99, this one knows "), "{words}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("aye.db");
    let novel = "It was a dark and stormy night.\n".repeat(100);
    fs::write(&path, &novel).unwrap();
    for command in [&["up", "--no-open", "--listen", "127.0.0.1:0"][..], &["log"], &["verify"]] {
        let refused = aye(dir.path()).args(command).output().unwrap();
        let words = complained(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains(path.to_str().unwrap()) && words.contains("not a database"), "{words}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), novel);
}

#[test]
fn a_missing_or_damaged_operator_token_is_made_anew() {
    let mut hub = Hub::start();
    let path = hub.home.join("operator.token");
    let mut known = vec![hub.operator()];
    let half = known[0][..20].to_owned().into_bytes();
    let damages: [Option<Vec<u8>>; 5] =
        [None, Some(vec![]), Some(b"not a token".to_vec()), Some(vec![0xff, 0xfe, 0]), Some(half)];
    for damage in damages {
        assert!(hub.stop().success());
        match &damage {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        hub.restart();
        let token = hub.operator();
        assert!(!known.contains(&token), "{damage:?}");
        assert_eq!(hub.get("/api/me", &token).body["role"], "operator");
        assert_eq!(mode(&path), 0o600);
        assert!(hub.aye(&["list"]).status.success());
        known.push(token);
    }
}

#[test]
fn a_damaged_agent_key_is_named_and_without_it_agents_get_new_tokens() {
    let mut hub = Hub::start();
    let old = hub.agent("nightly");
    assert!(hub.stop().success());
    let path = hub.home.join("agent.key");
    for damage in [&b"short"[..], "ä".repeat(32).as_bytes(), &[0xff; 64]] {
        fs::write(&path, damage).unwrap();
        let refused = hub.aye(&["up", "--no-open", "--listen", "127.0.0.1:0"]);
        let words = complained(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("agent.key is damaged: remove it and start again"), "{words}");
    }
    fs::remove_file(&path).unwrap();
    hub.restart();
    let new = hub.agent("nightly");
    hub.raise(&new, "nightly", "k1", "question", yes_or_no());
    assert_eq!(hub.get("/api/me", &old).status, 401);
}

#[test]
fn a_home_too_deep_for_a_socket_has_it_in_the_runtime_directory() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("deep".repeat(30)).join("home");
    let runtime = dir.path().join("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, Permissions::from_mode(0o751)).unwrap();
    let here = || {
        let mut command = aye(&home);
        command.env("XDG_RUNTIME_DIR", &runtime);
        command
    };
    let mut command = here();
    command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
    let mut hub = Hub::start_with(command, home.clone());
    assert_eq!(mode(&runtime), 0o751, "a directory that others use too stays as it is");
    let place = fs::read_dir(&runtime).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&place), 0o700);
    let [(name, 0o600)] = &modes(&place)[..] else { panic!("{:?}", modes(&place)) };
    let socket = place.join(name);

    let script = here().args(["ask", "Go on?"]).stdout(Stdio::piped()).spawn().unwrap();
    let id = eventually("the ask", || {
        let list: Value =
            serde_json::from_slice(&here().args(["list", "--json"]).output().unwrap().stdout).unwrap();
        list["asks"][0]["id"].as_str().map(str::to_owned)
    });
    let answered = here().args(["answer", &id, "--text", "by all means"]).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(printed(&script.wait_with_output().unwrap()), "by all means\n");
    signal(&hub.child, Signal::TERM);
    assert!(crate::support::ended(&mut hub.child).success());
    assert!(!socket.exists());
}
