use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

struct TestDisk {
    dir: tempfile::TempDir,
    places: Places,
}

impl TestDisk {
    /// `home/aye` is ours and has a token; agents work in `home/work`.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        for folder in ["home/aye/runs", "home/work/sub/deep", "elsewhere"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        fs::write(path.join("home/aye/operator.token"), "secret").unwrap();
        fs::write(path.join("home/work/file"), "").unwrap();
        Self { places: Places::of(vec![path.join("home/aye")]), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn link(&self, name: &str, target: &str) {
        let target = if target.starts_with('/') { PathBuf::from(target) } else { self.path(target) };
        symlink(target, self.path(name)).unwrap();
    }

    fn why(&self, names: &[&str], through: bool, moves: bool) -> Option<String> {
        let root = self.path("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        let name = |path: &&str| Name { path: path.replace("ROOT", root), through };
        let names: Vec<Name> = names.iter().map(name).collect();
        let words = names.iter().filter(|_| moves).map(|name| vec![name.clone()]).collect();
        let names = Names { names: names.into_iter().collect(), too_many: false, words };
        let folders = [self.path("home/work").to_str().unwrap().to_owned()];
        let why = self.places.why_asked(&Disk::any(), &names, &folders);
        // Whatever can be said without waiting is the same.
        let at_once = self.places.why_asked_at_once(&names, &folders);
        assert!(at_once.is_none_or(|at_once| at_once == why), "{names:?}");
        why
    }

    #[track_caller]
    fn asked(&self, name: &str) {
        assert!(self.why(&[name], false, false).is_some(), "{name}");
    }

    #[track_caller]
    fn free(&self, name: &str) {
        assert_eq!(self.why(&[name], true, true), None, "{name}");
    }
}

#[test]
fn a_name_that_leads_to_our_files_is_seen_however_it_is_written() {
    let disk = TestDisk::new();
    disk.link("home/work/link", "home/aye");
    disk.link("home/work/token", "home/aye/operator.token");
    disk.link("home/work/up", "home");
    disk.link("home/work/chain", "home/work/link");
    disk.link("elsewhere/deep", "home/work/sub/deep");
    for name in [
        "ROOT/home/aye",
        "ROOT/home/aye/operator.token",
        "ROOT/home/aye/not/there",
        "../aye/operator.token",
        "sub/../../aye/operator.token",
        "not-there/../../aye/operator.token",
        "link/operator.token",
        "link/runs/../operator.token",
        "chain/config.toml",
        "token",
        "up/aye",
        "up/work/link",
        "ROOT/elsewhere/deep/../../../aye/operator.token",
        "/sys/../ROOT/home/aye/operator.token",
        "/proc/../ROOT/home/aye",
    ] {
        disk.asked(&name.replace("/ROOT", "ROOT").replace("..ROOT", "../ROOT"));
    }
    for name in
        ["file", "sub", "sub/new", "ROOT/home/work/file", "ROOT/elsewhere/x", "--help", "a b", "/etc/passwd"]
    {
        disk.free(name);
    }
}

#[test]
fn detours_through_links_of_the_system_are_followed_as_the_system_does() {
    let disk = TestDisk::new();
    // `..` behind a link leads to the parent of where the link leads.
    disk.link("elsewhere/far", "home/work/sub");
    disk.asked("ROOT/elsewhere/far/../../aye/x");
    disk.link("home/work/self", "/proc/self/cwd");
    disk.asked("self/file");
}

#[test]
fn what_depends_on_the_process_that_opens_it_goes_to_a_person() {
    let disk = TestDisk::new();
    let own = format!("/proc/{}/environ", std::process::id());
    for name in [
        "/proc/self/cwd/x",
        "/proc/self/root/etc/passwd",
        "/proc/thread-self/fd/3",
        "/dev/fd/3",
        "/dev/fd/3/x",
        "/proc/1/root",
        &own,
    ] {
        disk.asked(name);
    }
    for name in ["/proc/cpuinfo", "/dev/null", "/dev/stdin", "/dev/stderr"] {
        disk.free(name);
    }
}

#[test]
fn another_name_of_the_same_file_is_seen() {
    let disk = TestDisk::new();
    fs::hard_link(disk.path("home/aye/operator.token"), disk.path("home/work/hard")).unwrap();
    disk.asked("hard");
    fs::hard_link(disk.path("home/work/file"), disk.path("home/work/other")).unwrap();
    disk.free("other");
}

#[test]
fn our_folder_may_itself_be_a_link() {
    let disk = TestDisk::new();
    disk.link("elsewhere/aye", "home/aye");
    let disk = TestDisk { places: Places::of(vec![disk.path("elsewhere/aye")]), dir: disk.dir };
    disk.asked("../aye/operator.token");
    disk.asked("ROOT/elsewhere/aye");
    assert!(disk.why(&["ROOT/elsewhere"], true, false).is_some(), "whoever replaces the link moves us");
}

#[test]
fn a_folder_above_ours_is_seen_where_everything_below_it_is_looked_at() {
    let disk = TestDisk::new();
    disk.link("home/work/up", "home");
    for name in ["..", "up", "ROOT/home", "ROOT", "/", "sub/../.."] {
        assert!(disk.why(&[name], true, false).is_some(), "{name}");
        assert_eq!(disk.why(&[name], false, false), None, "{name} itself is not ours");
    }
    assert_eq!(disk.why(&["."], true, false), None);
}

#[test]
fn names_are_also_meant_from_the_folders_that_a_command_names() {
    let disk = TestDisk::new();
    assert!(disk.why(&["cd", "sub/deep", "../../../aye/operator.token"], true, true).is_some());
    disk.link("home/work/sub/x", "home/aye");
    assert!(disk.why(&["-C", "sub", "x/operator.token"], true, true).is_some());
    assert_eq!(disk.why(&["-C", "sub", "y"], true, true), None);
}

#[test]
fn what_cannot_be_seen_goes_to_a_person() {
    let disk = TestDisk::new();
    disk.link("home/work/a", "home/work/b");
    disk.link("home/work/b", "home/work/a");
    disk.asked("a");
    disk.free(&"x".repeat(300));
    // Whoever may read everything is let into it, too.
    if !rustix::process::getuid().is_root() {
        fs::create_dir(disk.path("home/work/shut")).unwrap();
        fs::set_permissions(disk.path("home/work/shut"), fs::Permissions::from_mode(0o000)).unwrap();
        disk.asked("shut/x");
        fs::set_permissions(disk.path("home/work/shut"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn an_agent_that_works_in_our_folder_is_asked_about_everything() {
    let disk = TestDisk::new();
    disk.link("home/work/link", "home/aye");
    let names = Names { names: [Name { path: "x".into(), through: false }].into(), ..Names::default() };
    let folder = disk.path("home/work/link").to_str().unwrap().to_owned();
    assert!(disk.places.why_asked(&Disk::any(), &names, &[folder]).is_some());
}

#[tokio::test]
async fn a_file_system_that_does_not_answer_in_time_leaves_it_to_a_person() {
    let hung = OwnFiles {
        at_once: Box::new(|_, _| None),
        queue: Arc::default(),
        patience: Duration::from_millis(10),
        places: Arc::default(),
    };
    let names = Names { names: [Name { path: "x".into(), through: false }].into(), ..Names::default() };
    let why = hung.why_asked(names, vec!["/".into()]).await;
    assert_eq!(why.as_deref(), Some(NOT_LOOKED_AT));
}

#[tokio::test]
async fn a_look_that_panics_leaves_it_to_a_person_and_the_thread_to_the_next() {
    let never: LookAtOnce = Box::new(|_, _| None);
    let files = OwnFiles::with(never, |names, _| match names.names.iter().any(|name| name.path == "bug") {
        true => panic!("a bug"),
        false => None,
    });
    let mut files = files.unwrap();
    files.patience = Duration::from_secs(600);
    let look = |path: &str| {
        let names = Names { names: [Name { path: path.into(), through: false }].into(), ..Names::default() };
        files.why_asked(names, vec!["/".into()])
    };
    for _ in 0..2 * THREADS {
        assert_eq!(look("bug").await.as_deref(), Some(NOT_LOOKED_AT));
    }
    assert_eq!(look("fine").await, None);
}

#[test]
fn a_command_that_changes_its_folder_more_than_once_is_followed() {
    let disk = TestDisk::new();
    let asked = |words: &[&str]| disk.why(words, false, true).is_some();
    assert!(asked(&["cd", "..", "cd", "..", "cat", "home/aye/operator.token"]));
    assert!(asked(&["make", "-C", "sub/deep", "-C", "../..", "-C", "..", "-C", "..", "-f", "home/aye/x"]));
    // A folder that the command makes itself.
    assert!(asked(&["mkdir", "new", "cd", "new", "cat", "../../aye/operator.token"]));
    assert!(asked(&["mkdir", "new/er", "ln", "-s", "../../../aye", "new/er/x"]));
    assert!(asked(&["cat", "../../aye/x", "--in", "new"]));
    // Each word changes the folder once.
    assert!(!asked(&["cd", "..", "cat", "home/aye/operator.token"]));
    assert!(!asked(&["mkdir", "new", "cd", "new", "cat", "../file", "../sub/aye"]));
}

#[test]
fn a_name_that_goes_back_from_a_folder_that_a_command_may_still_make_goes_to_a_person() {
    let disk = TestDisk::new();
    // `ln -s .. new && cat new/../aye`: only then it shows where that leads.
    assert!(disk.why(&["cat", "new/../file"], true, true).is_some());
    assert!(disk.why(&["new/../file"], false, false).is_none());
    assert!(disk.why(&["cat", "sub/../file"], true, true).is_none());
}

#[test]
fn a_search_through_all_processes_goes_to_a_person() {
    let disk = TestDisk::new();
    if Path::new("/proc/self").exists() {
        assert!(disk.why(&["/proc/"], true, true).is_some());
        assert!(disk.why(&["/proc/version"], true, true).is_none());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_holds_in_memory_is_looked_at_without_waiting() {
    // Linux can since 5.12.
    if Disk::in_memory().look(Path::new("/")).is_err() {
        return;
    }
    let disk = TestDisk::new();
    let at_once = |path: &str| {
        let names = Names { names: [Name { path: path.into(), through: true }].into(), ..Names::default() };
        disk.places.why_asked_at_once(&names, &[disk.path("home/work").to_str().unwrap().to_owned()])
    };
    // Both were made just now, and so are held; that a third is not there is held once somebody has looked.
    assert_eq!(at_once("file"), Some(None));
    assert!(matches!(at_once("../aye/operator.token"), Some(Some(_))));
    assert!(!disk.path("home/work/new").exists());
    assert_eq!(at_once("new"), Some(None));
    // Links are read from the disk.
    disk.link("home/work/link", "home/aye");
    assert_eq!(at_once("link/operator.token"), None);
}
