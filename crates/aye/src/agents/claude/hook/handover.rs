//! Handing a dialog over. A hook that holds the terminal's dialog back ends without a decision, the terminal opens the
//! dialog, and from then on the process beside the session types what is answered elsewhere.

use super::notes::{AskNote, Notes, modified};
use crate::processes::Process;
use aye_core::{AskId, Key};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

/// The terminal shows one dialog at a time, and takes this long to draw one under load.
const BETWEEN_DIALOGS: Duration = Duration::from_secs(3);

/// State of the terminal's own dialog about an ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialog {
    /// Open, or about to be, while the hook waits.
    #[default]
    Beside,
    /// The terminal opens it only after the hook has ended.
    HeldBack,
    /// No hook waits any more.
    HandedOver(Origin),
}

/// The parts of a raised ask that its note would lack, for the follower.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub key: Key,
    pub cwd: Option<String>,
    pub sub_agent: Option<String>,
}

impl Notes {
    /// Asks whose dialog is the terminal's, each once, and that nobody goes on with yet.
    pub fn handed_over(&self) -> Vec<(AskNote, Origin)> {
        let (me, all) = (Process::myself(), self.asked());
        // Hooks that are installed twice hold the same dialog back, each for itself.
        let still_held = |ask: &AskId| {
            let waits =
                |other: &&AskNote| !matches!(other.dialog, Dialog::HandedOver(_)) && other.hook.is_alive();
            all.iter().filter(|other| other.ask == *ask).any(|other| waits(&other))
        };
        let handed = all.iter().filter_map(|asked| match &asked.dialog {
            Dialog::HandedOver(handed) if asked.hook != me && !still_held(&asked.ask) => {
                Some((asked.clone(), handed.clone()))
            }
            Dialog::HandedOver(_) | Dialog::Beside | Dialog::HeldBack => None,
        });
        handed.collect()
    }

    /// True if answers are to be typed into a dialog.
    pub fn has_handed_over(&self) -> bool {
        self.asked().iter().any(|asked| matches!(asked.dialog, Dialog::HandedOver(_)))
    }

    /// Counts the asks whose dialog the terminal does not show because their hooks wait.
    pub fn held_back(&self) -> usize {
        let is_held = |asked: &&AskNote| asked.dialog == Dialog::HeldBack && asked.hook.is_alive();
        self.asked().iter().filter(is_held).count()
    }

    /// Tells the hooks of this session to let the terminal show what they hold back.
    pub fn request_handover(&self) -> io::Result<()> {
        self.write("handover", b"")
    }

    /// Time of the last such request.
    pub fn handover_requested(&self) -> Option<SystemTime> {
        modified(&self.folder().join("handover"))
    }

    /// Says if this ask's dialog may be opened now. Those of others wait until it is drawn, because then the session says
    /// that it waits.
    pub fn take_turn(&self, ask: &AskId) -> bool {
        let path = self.folder().join("turn");
        let is_ours = fs::read(&path).is_ok_and(|last| last == ask.as_str().as_bytes());
        let age = modified(&path).and_then(|at| SystemTime::now().duration_since(at).ok());
        let is_free = is_ours || age.is_none_or(|age| age >= BETWEEN_DIALOGS);
        is_free && self.write("turn", ask.as_str().as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use aye_core::{AgentId, Kind};
    use serde_json::json;

    fn note(ask: &str, hook: Process, dialog: Dialog) -> AskNote {
        AskNote {
            ask: AskId::try_from(ask).unwrap(),
            tool_use_id: Some("toolu_1".into()),
            kind: Kind::Permission,
            body: json!({"tool": "Bash", "input": {"command": "ls"}}),
            transcript: "/t".into(),
            offset: 7,
            hook,
            printed: None,
            waited: false,
            dialog,
        }
    }

    fn notes() -> (tempfile::TempDir, Notes) {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(&Home::at(dir.path()), &AgentId::try_from("claude-s-1").unwrap());
        (dir, notes)
    }

    const DEAD: Process = Process { pid: 4_000_000, started: Some(1) };

    #[test]
    fn a_handed_over_ask_is_for_the_follower_and_never_taken_back() {
        let (_dir, notes) = notes();
        let handed = Origin { key: Key::try_from("toolu_1").unwrap(), cwd: None, sub_agent: None };
        let asked = note("k3", DEAD, Dialog::HandedOver(handed.clone()));
        notes.note(&asked).unwrap();
        assert_eq!(notes.unsettled(), []);
        assert_eq!(notes.handed_over(), [(asked.clone(), handed.clone())]);
        // A second hook holds the same dialog back: nothing can be typed yet.
        let parent = Process::now(std::os::unix::process::parent_id());
        let second = note("k3", parent, Dialog::HeldBack);
        notes.note(&second).unwrap();
        assert_eq!((notes.handed_over(), notes.held_back()), (vec![], 1));
        notes.settled(&second);
        // The follower writes a note with its own process.
        let ours = note("k3", Process::myself(), Dialog::HandedOver(handed));
        notes.note(&ours).unwrap();
        notes.settled(&asked);
        assert_eq!((notes.handed_over(), notes.unsettled()), (vec![], vec![]));
    }

    #[test]
    fn a_note_of_an_earlier_version_has_its_dialog_beside_it() {
        let asked = note("k3", DEAD, Dialog::Beside);
        let mut written = serde_json::to_value(&asked).unwrap();
        written.as_object_mut().unwrap().remove("dialog");
        assert_eq!(serde_json::from_value::<AskNote>(written).unwrap(), asked);
    }

    #[test]
    fn dialogs_are_opened_one_after_another() {
        let (_dir, notes) = notes();
        let ask = |id: &str| AskId::try_from(id).unwrap();
        assert!(notes.take_turn(&ask("k3")) && notes.take_turn(&ask("k3")));
        assert!(!notes.take_turn(&ask("k4")));
        assert_eq!(notes.handover_requested(), None);
        notes.request_handover().unwrap();
        assert!(notes.handover_requested().is_some());
    }
}
