//! What the hooks of a session leave for each other, because each is a process of its own: which tool call
//! a permission request belongs to, and which answers the transcript must still show.

use super::super::receipts::Expected;
use super::events::is_plain;
use super::handover::Dialog;
use crate::home::Home;
use crate::processes::Process;
use crate::protocol::NewAsk;
use aye_core::digest::{canonical, sha256_hex};
use aye_core::{AgentId, AskId, Body, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const FOLDER: &str = "hooked";
const RAISING: &str = "raising";
/// Longer than it takes from a tool call to the request about it, other hooks included.
const CALLS_KEPT: Duration = Duration::from_secs(10 * 60);
/// Longer than any hook may wait.
const NOTES_KEPT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// A tool call as both events show it; the permission request lacks its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSignature {
    tool: String,
    input: String,
    sub_agent: Option<String>,
}

impl CallSignature {
    pub fn new(tool: &str, input: &Value, sub_agent: Option<&str>) -> Self {
        let input = sha256_hex(canonical(input).as_bytes());
        Self { tool: tool.to_owned(), input, sub_agent: sub_agent.map(str::to_owned) }
    }
}

/// An ask of this session, for whoever comes after the hook that raised it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskNote {
    pub ask: AskId,
    pub tool_use_id: Option<String>,
    pub kind: Kind,
    pub body: Value,
    pub transcript: PathBuf,
    /// Where in the transcript to begin to look.
    pub offset: u64,
    /// The hook that waits, as long as it does.
    pub hook: Process,
    pub printed: Option<Printed>,
    /// We waited for the transcript once and it did not come; from then on we only look.
    pub waited: bool,
    #[serde(default)]
    pub dialog: Dialog,
}

/// An answer that was printed, and what the transcript must show of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    pub expected: Expected,
    /// The person changed the input or the plan.
    pub edited: bool,
    /// The hub knows that it was printed.
    pub delivered: bool,
}

/// An ask that its hook is raising. Until its note is written, nothing else tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RaisingNote {
    hook: Process,
    ask: NewAsk,
}

impl AskNote {
    pub fn body(&self) -> Option<Body> {
        Body::decode(self.kind, self.body.clone()).ok()
    }

    /// True if its hook was killed while it waited. Asks that were handed over are the follower's.
    fn is_abandoned(&self) -> bool {
        !matches!(self.dialog, Dialog::HandedOver(_)) && !self.hook.is_alive()
    }

    fn file(&self) -> String {
        format!("{}.{}.ask", self.ask, self.hook.pid)
    }
}

#[derive(Debug, Clone)]
pub struct Notes {
    folder: PathBuf,
}

impl Notes {
    pub fn of(home: &Home, agent: &AgentId) -> Self {
        // An agent may be called anything that a token was made for; a folder may not.
        let name = match is_plain(agent.as_str()) {
            true => agent.as_str().to_owned(),
            false => sha256_hex(agent.as_str().as_bytes()),
        };
        Self { folder: home.path().join(FOLDER).join(name) }
    }

    /// Notes of sessions that ended while the hub was away, by the agent they are about.
    pub fn ended_sessions(home: &Home) -> Vec<(AgentId, Notes)> {
        let folders = list(&home.path().join(FOLDER));
        for stale in folders.iter().filter(|folder| is_older(folder, NOTES_KEPT)) {
            remove_folder(stale);
        }
        let ended = folders.into_iter().filter(|folder| folder.join("ended").exists());
        let named = ended.filter_map(|folder| {
            let agent = AgentId::try_from(folder.file_name()?.to_str()?).ok()?;
            Some((agent, Notes { folder }))
        });
        named.collect()
    }

    pub fn note_call(&self, tool_use_id: &str, call: &CallSignature) -> io::Result<()> {
        match is_plain(tool_use_id) {
            true => self.write(&format!("{tool_use_id}.call"), &serde_json::to_vec(call)?),
            false => Ok(()),
        }
    }

    /// The id of this call. The newest one counts, and each only once for each way in which we are called:
    /// hooks may be installed twice, and both then speak of the same request.
    pub fn claim(&self, call: &CallSignature, way: &str) -> Option<String> {
        let mut calls: Vec<_> = list(&self.folder)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "call"))
            .filter_map(|path| Some((modified(&path)?, path)))
            .collect();
        calls.sort();
        calls.into_iter().rev().find_map(|(_, path)| {
            let noted: CallSignature = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let id = path.file_stem()?.to_str()?;
            let claim = self.folder.join(format!("{id}.{way}.claim"));
            let claimed = || OpenOptions::new().write(true).create_new(true).open(&claim).is_ok();
            (noted == *call && claimed()).then(|| id.to_owned())
        })
    }

    /// True for the first hook that reports this refused call.
    pub fn is_first_refusal(&self, tool_use_id: &str) -> bool {
        if !is_plain(tool_use_id) || fs::create_dir_all(&self.folder).is_err() {
            return true;
        }
        let told = self.folder.join(format!("{tool_use_id}.refused"));
        OpenOptions::new().write(true).create_new(true).open(told).is_ok()
    }

    /// Forgets calls that were decided long ago.
    pub fn forget_old_calls(&self) {
        let is_call = |path: &Path| {
            path.extension()
                .is_some_and(|extension| ["call", "claim", "refused"].iter().any(|own| extension == *own))
        };
        for path in list(&self.folder).into_iter().filter(|path| is_call(path) && is_older(path, CALLS_KEPT))
        {
            drop(fs::remove_file(path));
        }
    }

    /// Written before anything is printed: whoever comes next must know of an answer that may have counted.
    pub fn note(&self, asked: &AskNote) -> io::Result<()> {
        self.write(&asked.file(), &serde_json::to_vec(asked)?)
    }

    /// Written before an ask is raised: if the hook is killed meanwhile, the hub may have it and nobody waits for it.
    pub fn raising(&self, ask: &NewAsk) -> io::Result<()> {
        let hook = Process::myself();
        self.write(&raising_file(hook), &serde_json::to_vec(&RaisingNote { hook, ask: ask.clone() })?)
    }

    /// The note of the ask itself is written, or the ask has ended.
    pub fn raised(&self) {
        self.forget_raising(Process::myself());
    }

    /// Asks that a hook was raising when it was killed.
    pub fn half_raised(&self) -> Vec<(Process, NewAsk)> {
        let files = list(&self.folder).into_iter();
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == RAISING));
        let notes = files.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok());
        let abandoned = notes.filter(|note: &RaisingNote| !note.hook.is_alive());
        abandoned.map(|note| (note.hook, note.ask)).collect()
    }

    pub fn forget_raising(&self, hook: Process) {
        drop(fs::remove_file(self.folder.join(raising_file(hook))));
    }

    /// Asks that nobody waits for any more: an answer was printed, or the hook was ended by force.
    pub fn unsettled(&self) -> Vec<AskNote> {
        let asked = self.asked().into_iter();
        asked.filter(|asked| asked.printed.is_some() || asked.is_abandoned()).collect()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn asked(&self) -> Vec<AskNote> {
        let notes = list(&self.folder)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "ask"));
        notes.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
    }

    /// True if a hook waits beside a dialog that the terminal shows.
    pub fn has_waiting_hook(&self) -> bool {
        let me = Process::myself();
        let waits = |asked: &AskNote| {
            asked.printed.is_none()
                && asked.dialog == Dialog::Beside
                && asked.hook != me
                && asked.hook.is_alive()
        };
        self.asked().iter().any(waits)
    }

    /// Whether a hook was called for this request.
    pub fn is_claimed(&self, tool_use_id: &str) -> bool {
        !self.claims_of(tool_use_id).is_empty()
    }

    /// The hook that was called for this request is gone; whoever follows the session asks instead.
    pub fn unclaim(&self, tool_use_id: &str) {
        for claim in self.claims_of(tool_use_id) {
            drop(fs::remove_file(claim));
        }
    }

    fn claims_of(&self, tool_use_id: &str) -> Vec<PathBuf> {
        let begin = format!("{tool_use_id}.");
        let is_claim = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(&begin) && name.ends_with(".claim")
        };
        list(&self.folder).into_iter().filter(is_claim).collect()
    }

    /// A lock that the follower of this session holds for as long as it runs.
    pub fn follower_lock(&self) -> io::Result<Option<File>> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join("follower");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub fn settled(&self, asked: &AskNote) {
        drop(fs::remove_file(self.folder.join(asked.file())));
    }

    /// Whether this is the first prompt of the session that the hub hears of.
    pub fn has_title(&self) -> bool {
        self.folder.join("title").exists()
    }

    pub fn titled(&self) {
        drop(self.write("title", b""));
    }

    /// The session is over; a later hook reports what is left.
    pub fn end(&self) {
        match self.unsettled().is_empty() {
            true => remove_folder(&self.folder),
            false => drop(self.write("ended", b"")),
        }
    }

    /// Whole or not at all.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let beside = self.folder.join(format!("{name}.{}.new", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        file.write_all(bytes)?;
        fs::rename(&beside, self.folder.join(name))
    }
}

fn raising_file(hook: Process) -> String {
    format!("{}.{RAISING}", hook.pid)
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn is_older(path: &Path, age: Duration) -> bool {
    let since = modified(path).and_then(|at| SystemTime::now().duration_since(at).ok());
    since.is_some_and(|since| since > age)
}

fn remove_folder(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::debug!(%error, folder = %folder.display(), "notes could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn notes() -> (tempfile::TempDir, Home, Notes) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let notes = Notes::of(&home, &AgentId::try_from("claude-s-1").unwrap());
        (dir, home, notes)
    }

    fn call(command: &str, sub_agent: Option<&str>) -> CallSignature {
        CallSignature::new("Bash", &json!({ "command": command, "timeout": 1 }), sub_agent)
    }

    #[test]
    fn a_request_finds_its_call_whatever_the_order_of_its_input() {
        let (_dir, _, notes) = notes();
        assert_eq!(notes.claim(&call("ls", None), "x"), None);
        notes.note_call("toolu_1", &call("ls", None)).unwrap();
        notes.note_call("toolu_2", &call("make", None)).unwrap();
        let same = CallSignature::new("Bash", &json!({ "timeout": 1, "command": "ls" }), None);
        assert_eq!(notes.claim(&same, "x").as_deref(), Some("toolu_1"));
    }

    #[test]
    fn sub_agents_that_do_the_same_at_once_each_find_their_own_call() {
        let (_dir, _, notes) = notes();
        for (id, sub_agent) in [("toolu_1", Some("a")), ("toolu_2", Some("b")), ("toolu_3", None)] {
            notes.note_call(id, &call("ls", sub_agent)).unwrap();
        }
        assert_eq!(notes.claim(&call("ls", Some("b")), "x").as_deref(), Some("toolu_2"));
        assert_eq!(notes.claim(&call("ls", None), "x").as_deref(), Some("toolu_3"));
        assert_eq!(notes.claim(&call("ls", Some("a")), "x").as_deref(), Some("toolu_1"));
    }

    #[test]
    fn a_call_is_claimed_once_for_each_way_in_which_the_hook_is_installed() {
        let (_dir, _, notes) = notes();
        notes.note_call("toolu_1", &call("ls", None)).unwrap();
        assert_eq!(notes.claim(&call("ls", None), "x").as_deref(), Some("toolu_1"));
        assert_eq!(notes.claim(&call("ls", None), "y").as_deref(), Some("toolu_1"));
        assert_eq!(notes.claim(&call("ls", None), "x"), None);
    }

    #[test]
    fn a_name_that_means_something_to_the_file_system_leads_nowhere() {
        let (dir, home, notes) = notes();
        notes.note_call("../../x", &call("ls", None)).unwrap();
        assert!(!dir.path().join(FOLDER).exists());
        let above = Notes::of(&home, &AgentId::try_from("..").unwrap());
        above.note_call("toolu_1", &call("ls", None)).unwrap();
        above.end();
        assert!(dir.path().join(FOLDER).exists());
    }

    #[test]
    fn an_ask_is_half_raised_while_its_dead_hook_left_no_note_of_it() {
        let (_dir, _, notes) = notes();
        let body = Body::decode(Kind::Plan, json!({"plan": "x"})).unwrap();
        let ask = NewAsk::new("toolu_1".try_into().unwrap(), AgentId::try_from("claude-s-1").unwrap(), &body);
        notes.raising(&ask).unwrap();
        assert_eq!(notes.half_raised(), []);
        notes.raised();
        let hook = Process { pid: 4_000_000, started: Some(1) };
        let written = serde_json::to_vec(&RaisingNote { hook, ask: ask.clone() }).unwrap();
        notes.write(&raising_file(hook), &written).unwrap();
        assert_eq!(notes.half_raised(), [(hook, ask)]);
        notes.forget_raising(hook);
        assert_eq!(notes.half_raised(), []);
    }

    #[test]
    fn what_was_asked_is_kept_until_it_is_settled_even_past_the_end() {
        let (_dir, home, notes) = notes();
        let mut asked = AskNote {
            ask: AskId::try_from("k3").unwrap(),
            tool_use_id: Some("toolu_1".into()),
            kind: Kind::Plan,
            body: json!({"plan": "x"}),
            transcript: "/t".into(),
            offset: 7,
            hook: Process::myself(),
            printed: None,
            waited: false,
            dialog: Dialog::Beside,
        };
        notes.note(&asked).unwrap();
        // Its hook still waits.
        assert_eq!(notes.unsettled(), []);
        let expected = Expected::Refused { message: "no".into(), interrupt: true };
        asked.printed = Some(Printed { expected, edited: false, delivered: false });
        notes.note(&asked).unwrap();
        assert_eq!(notes.unsettled(), std::slice::from_ref(&asked));
        notes.end();
        let left = Notes::ended_sessions(&home);
        assert_eq!(left.len(), 1);
        let (agent, left) = &left[0];
        assert_eq!((agent.as_str(), left.unsettled()), ("claude-s-1", vec![asked.clone()]));
        left.settled(&asked);
        left.end();
        assert!(Notes::ended_sessions(&home).is_empty() && notes.unsettled().is_empty());
    }
}
