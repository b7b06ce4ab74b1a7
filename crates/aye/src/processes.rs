//! What the system tells of a process, where it tells: `/proc/PID/stat`.

use std::fs;
use std::path::PathBuf;

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"];

pub struct Stat {
    pub name: String,
    fields: Vec<String>,
}

impl Stat {
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name may itself contain spaces and parentheses.
        let (head, fields) = stat.rsplit_once(") ")?;
        let name = head.split_once('(')?.1.to_owned();
        Some(Self { name, fields: fields.split_ascii_whitespace().map(str::to_owned).collect() })
    }

    pub fn state(&self) -> Option<&str> {
        self.fields.first().map(String::as_str)
    }

    pub fn parent(&self) -> Option<u32> {
        self.fields.get(1)?.parse().ok().filter(|parent| *parent != 0)
    }

    /// The process that leads its session.
    pub fn session(&self) -> Option<u32> {
        self.fields.get(3)?.parse().ok()
    }

    pub fn has_terminal(&self) -> bool {
        self.fields.get(4).is_some_and(|terminal| terminal != "0")
    }

    pub fn is_shell(&self) -> bool {
        SHELLS.contains(&self.name.as_str())
    }

    pub fn threads(&self) -> Option<u32> {
        self.fields.get(17)?.parse().ok()
    }

    /// In the system's own ticks; with the process id it names one process for ever.
    pub fn started(&self) -> Option<u64> {
        self.fields.get(19)?.parse().ok()
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
