//! What the system tells of a process: `/proc/PID/stat`. Whether a process is alive is decided here by its id and start
//! time, and in `hub/alive.rs` by a pidfd, where many are looked at or one again and again.

use anyhow::Context;
use aye_core::digest::sha256_hex;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const SHELLS: [&str; 17] = [
    "sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox", "mksh", "rbash", "yash", "csh", "tcsh",
    "nu", "elvish", "xonsh", "pwsh",
];

/// What this machine is called.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Where process ids mean the same as here: this machine, and this container if it is one. Two machines may have the same name,
/// and a number of the one may be a living process of the other.
pub fn process_place() -> &'static str {
    static PLACE: LazyLock<String> = LazyLock::new(|| {
        let read = |path: &str| fs::read_to_string(path).ok().filter(|id| !id.trim().is_empty());
        // A machine that was started anew is still itself, and what ran on it before is gone. Where it has no id, as in most
        // containers, each start counts as another machine.
        let machine = read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/random/boot_id"));
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let place = format!("{} {} {}", host(), machine.unwrap_or_default().trim(), namespace.display());
        sha256_hex(place.as_bytes())[..16].to_owned()
    });
    &PLACE
}

/// Where a program is, as the system would look for it.
pub fn find_program(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<_> = std::env::split_paths(&path).map(|folder| folder.join(program)).collect();
    if program.components().count() > 1 {
        places = vec![program.to_path_buf()];
    }
    places.into_iter().find(|place| place.is_file() && rustix::fs::access(place, Access::EXEC_OK).is_ok())
}

/// The same for somebody who wants to start it. `variable` is the environment variable that names another, if any.
pub fn require_program(program: &Path, variable: Option<&str>) -> anyhow::Result<PathBuf> {
    find_program(program).with_context(|| {
        let variable = variable.map(|name| format!("{name} or ")).unwrap_or_default();
        let program = program.display();
        format!("cannot start {program}; is it installed? {variable}`command` in config.toml names another")
    })
}

/// Some fifty numbers of up to twenty digits, and a name of a few characters.
const LONGEST_STAT: usize = 4096;

/// As few calls of the system as possible: this is read for every request of an agent that is not held by a pidfd.
fn read_whole(path: &str, line: &mut [u8]) -> io::Result<usize> {
    let (mut file, mut length) = (File::open(path)?, 0);
    loop {
        match file.read(&mut line[length..])? {
            0 => return Ok(length),
            more => length += more,
        }
    }
}

pub struct Stat {
    pub name: String,
    /// What comes after the name, as it is written.
    fields: String,
}

impl Stat {
    pub fn of(pid: u32) -> Option<Self> {
        let mut line = [0; LONGEST_STAT];
        let length = read_whole(&format!("/proc/{pid}/stat"), &mut line).ok()?;
        // The system cuts long names, also within a character.
        let stat = String::from_utf8_lossy(&line[..length]);
        // The program's name may itself contain spaces and parentheses.
        let (head, fields) = stat.rsplit_once(") ")?;
        let name = head.split_once('(')?.1.to_owned();
        Some(Self { name, fields: fields.to_owned() })
    }

    fn field(&self, n: usize) -> Option<&str> {
        self.fields.split_ascii_whitespace().nth(n)
    }

    /// A process that has ended stays listed until its parent takes notice. One whose first thread has ended reads
    /// the same, but its other threads still work.
    fn has_ended(&self) -> bool {
        matches!(self.field(0), Some("Z" | "X")) && self.threads() == Some(1)
    }

    pub fn parent(&self) -> Option<u32> {
        self.field(1)?.parse().ok().filter(|parent| *parent != 0)
    }

    /// The process that leads its session.
    pub fn session(&self) -> Option<u32> {
        self.field(3)?.parse().ok()
    }

    pub fn has_terminal(&self) -> bool {
        self.field(4).is_some_and(|terminal| terminal != "0")
    }

    pub fn is_shell(&self) -> bool {
        SHELLS.contains(&self.name.as_str())
    }

    fn threads(&self) -> Option<u32> {
        self.field(17)?.parse().ok()
    }

    /// In the system's own ticks; with the process id it names one process, even after its end.
    pub fn started(&self) -> Option<u64> {
        self.field(19)?.parse().ok()
    }
}

/// A process of this machine, told apart from a later one with the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// None where the system does not tell.
    pub started: Option<u64>,
}

impl Process {
    /// The one that has this number now.
    pub fn now(pid: u32) -> Self {
        Self { pid, started: Stat::of(pid).and_then(|stat| stat.started()) }
    }

    pub fn myself() -> Self {
        Self::now(std::process::id())
    }

    pub fn is_alive(&self) -> bool {
        match (self.started, Stat::of(self.pid)) {
            (then, Some(stat)) => !stat.has_ended() && (then.is_none() || then == stat.started()),
            (Some(_), None) => false,
            (None, None) => i32::try_from(self.pid)
                .ok()
                .and_then(Pid::from_raw)
                .is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH)),
        }
    }
}

/// As the hub keeps it.
impl From<(u32, u64)> for Process {
    fn from((pid, started): (u32, u64)) -> Self {
        Self { pid, started: Some(started) }
    }
}

/// The process itself and all that started it, nearest first, up to `deepest` of them, so that a loop in what
/// the system tells cannot hold us.
pub fn line_of(pid: u32, deepest: usize) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(pid), |pid| Stat::of(*pid)?.parent()).take(deepest)
}

/// The folder that a process works in, with every link resolved, where the system tells.
pub fn folder_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use aye_testkit::patience::eventually;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let myself = Process::myself();
        assert!(myself.is_alive() && myself.started.is_some());
        assert!(!Process { started: Some(1), ..myself }.is_alive());
        assert!(Process { started: None, ..myself }.is_alive());
    }

    #[test]
    fn a_name_that_the_system_cut_within_a_character_hides_no_process() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("ж".repeat(20));
        symlink(find_program(Path::new("sleep")).unwrap(), &program).unwrap();
        let mut child = Command::new(&program).arg0("sleep").arg("60").spawn().unwrap();
        let named = |pid| Stat::of(pid).filter(|stat| stat.name.starts_with('ж'));
        let stat = eventually("the program to run", || named(child.id()));
        let (parent, is_alive) = (stat.parent(), Process::now(child.id()).is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            (stat.name.contains('\u{fffd}'), parent, is_alive),
            (true, Some(std::process::id()), true)
        );
    }

    #[test]
    fn a_process_is_gone_once_it_has_ended_whether_or_not_somebody_took_notice() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let known = Process::now(child.id());
        let unknown = Process { started: None, ..known };
        assert!(known.is_alive() && unknown.is_alive());
        child.kill().unwrap();
        eventually("the process to die", || (!known.is_alive()).then_some(()));
        assert!(Stat::of(known.pid).is_some(), "it is still listed");
        assert!(!unknown.is_alive());
        child.wait().unwrap();
        assert!(!known.is_alive() && !unknown.is_alive());
    }
}
