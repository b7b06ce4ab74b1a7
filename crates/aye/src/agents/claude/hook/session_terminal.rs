//! The terminal that a session runs in, where it is not tmux: drawing somebody's attention to it, and seeing whether
//! anybody is there.

use crate::processes::find_program;
use aye_core::AskId;
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

const BELL: &str = "\x07";

pub struct SessionTerminal {
    path: PathBuf,
    read_at: Option<SystemTime>,
}

impl SessionTerminal {
    /// The terminal of this process, where the system tells.
    pub fn of(pid: u32) -> Option<Self> {
        let streams = (0..3).filter_map(|stream| fs::read_link(format!("/proc/{pid}/fd/{stream}")).ok());
        let path =
            streams.into_iter().find(|path| path.starts_with("/dev/pts") || path.starts_with("/dev/tty"))?;
        Some(Self { read_at: read_at(&path), path })
    }

    /// True if the session read input since the first look: keys, and where it asks for them, moves of the mouse and
    /// changes of the focus. The system keeps this time to eight seconds, as `w` shows it.
    pub fn has_input(&self) -> bool {
        read_at(&self.path) != self.read_at
    }

    /// Rings the bell.
    pub fn ring(&self) {
        self.write(BELL);
    }

    /// Sets the title until the session sets its own again.
    pub fn set_title(&self, title: &str) {
        self.write(&format!("\x1b]2;{title}{BELL}"));
    }

    /// Nothing else may be written here: neither of the two moves the cursor or changes what is drawn.
    fn write(&self, sequence: &str) {
        let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let terminal = OpenOptions::new().write(true).custom_flags(flags).open(&self.path);
        match terminal {
            // In one piece: the program that draws here writes at the same time.
            Ok(mut terminal) if terminal.is_terminal() => drop(terminal.write(sequence.as_bytes())),
            Ok(_) | Err(_) => {}
        }
    }
}

fn read_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.accessed()).ok()
}

/// Words that are ours alone: nothing that an agent wrote goes into a title or a notice.
pub fn title(ask: &AskId) -> String {
    format!("aye: a sub-agent is waiting (aye show {ask})")
}

/// A notice on the desktop, where there is one.
pub fn notify(ask: &AskId) {
    let summary = "A sub-agent of Claude Code is waiting";
    let body = format!("aye show {ask}, and then: aye answer {ask} --allow");
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let command = if cfg!(target_os = "macos") {
        let script = format!("display notification {body:?} with title {summary:?}");
        find_program(Path::new("osascript")).map(|program| (program, vec!["-e".to_owned(), script]))
    } else {
        let arguments = vec!["--app-name=aye".to_owned(), summary.to_owned(), body];
        find_program(Path::new("notify-send")).filter(|_| has_desktop).map(|program| (program, arguments))
    };
    let Some((program, arguments)) = command else { return };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!(%error, "no notice on the desktop");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn the_bell_and_the_title_are_all_that_is_written() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = PathBuf::from(OsStr::from_bytes(ptsname(&ours, Vec::new()).unwrap().as_bytes()));
        let _open = File::open(&path).unwrap();
        let terminal = SessionTerminal { read_at: read_at(&path), path };
        terminal.ring();
        terminal.set_title(&title(&AskId::try_from("k3").unwrap()));
        let mut shown = [0; 200];
        let mut ours = File::from(ours);
        let mut length = 0;
        while !shown[..length].ends_with(b")\x07") {
            length += ours.read(&mut shown[length..]).unwrap();
        }
        let shown = String::from_utf8_lossy(&shown[..length]);
        assert_eq!(shown, "\x07\x1b]2;aye: a sub-agent is waiting (aye show k3)\x07");
    }

    #[test]
    fn what_is_no_terminal_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "as it was").unwrap();
        SessionTerminal { read_at: None, path: path.clone() }.ring();
        assert_eq!(fs::read_to_string(path).unwrap(), "as it was");
    }
}
