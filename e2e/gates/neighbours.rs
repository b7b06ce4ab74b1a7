//! Other users of the same machine: they read what programs are started with, and make folders where we look.

use crate::support::{Hub, aye, complained, eventually};
use rustix::process::getuid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    getuid().is_root() || {
        println!("not root, so nobody else can be played here");
        false
    }
}

/// What any user sees of the programs that run.
fn command_lines() -> String {
    const READ: &str = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'";
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", READ];
    let output = match is_root() {
        true => Command::new("setpriv").args(nobody).output(),
        false => Command::new("sh").args(["-c", READ]).output(),
    };
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn the_sign_in_link_is_in_nobodys_arguments_when_a_browser_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("bin")).unwrap();
    fs::create_dir(path("person")).unwrap();
    // A browser that stays until the test's folder goes, so that there is something to look at.
    let opener = "#!/bin/sh\ncp -p \"$1\" \"$SEEN\"; while [ -e \"$SEEN\" ]; do sleep 0.05; done\n";
    fs::write(path("bin/xdg-open"), opener).unwrap();
    fs::set_permissions(path("bin/xdg-open"), Permissions::from_mode(0o755)).unwrap();

    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = aye(&path("home"));
    command.args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::from(terminal)).stderr(Stdio::null());
    let search = format!("{}:{}", path("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", search).env("HOME", path("person")).env("SEEN", path("seen")).env("DISPLAY", ":99");
    let hub = Ended(command.spawn().unwrap());
    drop(command);
    let mut lines = BufReader::new(File::from(screen)).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let address = line().trim().strip_prefix("aye is listening on http://").unwrap().to_owned();
    let said = line();
    let code = said.split_once("/sign-in#").unwrap().1.chars().take(64).collect::<String>();

    eventually("the browser to be opened", || path("seen").exists().then_some(()));
    let seen = command_lines();
    assert!(seen.contains("aye-sign-in-"), "the browser is not among these:\n{seen}");
    assert!(!seen.contains(&code) && !seen.contains("sign-in#"), "{seen}");

    let files: Vec<PathBuf> =
        fs::read_dir(path("person")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &*files else { panic!("{files:?}") };
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let page = fs::read_to_string(file).unwrap();
    assert!(page.contains(&format!("url=http://{address}/sign-in#{code}")), "{page}");
    assert!(page.contains("no-referrer"), "{page}");

    // It is there for as long as its link is.
    let link = format!("http://{address}/sign-in#{code}");
    let call = |method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>| {
        crate::support::try_call(&address, method, path, headers, body).unwrap()
    };
    let browser = crate::support::browser::Browser::sign_in(&link, &format!("http://{address}"), &call);
    assert!(browser.is_ok());
    eventually("the file to be removed", || (!file.exists()).then_some(()));
    drop(hub);
}

/// A home whose socket lies in a runtime folder, because its own name is too long.
struct Elsewhere {
    _dir: tempfile::TempDir,
    home: PathBuf,
    runtime: PathBuf,
}

impl Elsewhere {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("aye").tempdir().unwrap();
        let (home, runtime) = (dir.path().join("h".repeat(120)), dir.path().join("run"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir(&runtime).unwrap();
        fs::write(home.join("operator.token"), "aye_fake_not-a-token\n").unwrap();
        Self { _dir: dir, home, runtime }
    }

    fn aye(&self) -> Command {
        let mut command = aye(&self.home);
        command.env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }

    /// As the hub names it.
    fn socket(&self) -> PathBuf {
        let hash = aye_core::digest::sha256_hex(self.home.to_str().unwrap().as_bytes());
        self.runtime.join("aye").join(format!("{}.sock", &hash[..16]))
    }

    /// A command gets nowhere, and whoever listens gets nothing.
    #[track_caller]
    fn nothing_is_sent(&self, listener: &UnixListener, why: &str) {
        listener.set_nonblocking(true).unwrap();
        let refused = self.aye().arg("list").output().unwrap();
        let words = complained(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("nothing was sent") && words.contains(why), "{words}");
        if let Ok((mut stream, _)) = listener.accept() {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert!(got.is_empty(), "{}", String::from_utf8_lossy(&got));
        }
    }
}

fn folder(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_of_our_own_is_used() {
    let place = Elsewhere::new();
    let mut command = place.aye();
    command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
    let hub = Hub::start_with(command, place.home.clone());
    assert!(place.socket().exists(), "the socket lies elsewhere");
    assert!(place.aye().arg("list").status().unwrap().success());
    drop(hub);
}

#[test]
fn a_folder_that_others_can_write_to_is_not_trusted() {
    let place = Elsewhere::new();
    folder(&place.runtime.join("aye"), 0o770);
    let listener = UnixListener::bind(place.socket()).unwrap();
    place.nothing_is_sent(&listener, "can be used by other users");
    // The hub makes it private again: it is ours.
    drop(listener);
    let mut command = place.aye();
    command.args(["up", "--no-open", "--listen", "127.0.0.1:0"]);
    let hub = Hub::start_with(command, place.home.clone());
    assert_eq!(fs::metadata(place.runtime.join("aye")).unwrap().permissions().mode() & 0o777, 0o700);
    drop(hub);
}

#[test]
fn a_link_in_the_place_of_the_folder_is_not_followed() {
    let place = Elsewhere::new();
    let real = place.runtime.join("elsewhere");
    folder(&real, 0o700);
    symlink(&real, place.runtime.join("aye")).unwrap();
    let listener = UnixListener::bind(place.socket()).unwrap();
    place.nothing_is_sent(&listener, "symbolic link");
    let refused = place.aye().args(["up", "--no-open", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(complained(&refused).contains("symbolic link"), "{}", complained(&refused));
}

#[test]
fn a_folder_that_another_user_made_is_not_trusted() {
    if !is_root() {
        return;
    }
    let place = Elsewhere::new();
    let ours = place.runtime.join("aye");
    folder(&ours, 0o700);
    let listener = UnixListener::bind(place.socket()).unwrap();
    chown(&ours, Some(NOBODY), None).unwrap();
    place.nothing_is_sent(&listener, "belongs to another user");
    let refused = place.aye().args(["up", "--no-open", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(complained(&refused).contains("belongs to another user"), "{}", complained(&refused));
    // Nor one below a folder of theirs.
    chown(&ours, Some(0), None).unwrap();
    chown(&place.runtime, Some(NOBODY), None).unwrap();
    place.nothing_is_sent(&listener, "belongs to another user");
}

#[test]
fn a_socket_of_another_user_is_sent_nothing() {
    if !is_root() {
        return;
    }
    let place = Elsewhere::new();
    folder(&place.runtime.join("aye"), 0o700);
    let listener = UnixListener::bind(place.socket()).unwrap();
    chown(place.socket(), Some(NOBODY), None).unwrap();
    place.nothing_is_sent(&listener, "belongs to another user");
}

#[test]
fn a_process_of_another_user_behind_our_socket_is_sent_nothing() {
    if !is_root() {
        return;
    }
    let place = Elsewhere::new();
    folder(&place.runtime.join("aye"), 0o700);
    let program = "import os, socket, sys\n\
        s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.setuid(65534); s.listen()\n\
        print('ready', flush=True)\n\
        c, _ = s.accept(); print(len(c.recv(4096)), flush=True)\n";
    let mut command = Command::new("python3");
    let spawned = command.arg("-c").arg(program).arg(place.socket()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else { return println!("there is no python3 to play another user") };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let other = Ended(child);
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let refused = place.aye().arg("list").output().unwrap();
    let words = complained(&refused);
    assert!(words.contains("a process of another user (id 65534)"), "{words}");
    assert_eq!(lines.next().unwrap().unwrap(), "0", "bytes that it got");
    drop(other);
}
