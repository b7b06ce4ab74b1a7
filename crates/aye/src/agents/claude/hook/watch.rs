//! Looking at what the terminal does while we wait. Nobody stops a hook whose question was answered there.

use super::super::transcript::line;
use super::super::transcript::returned::Returned;
use super::super::transcript::tail::{Tail, TailEvent};
use super::notes::CallSignature;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Each look reads two files' dates, so it is cheap, and 200 ms is too short to notice.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// At first more often: a dialog that is answered at once must have been seen open.
const BETWEEN_FIRST_LOOKS: Duration = Duration::from_millis(20);
const AT_FIRST: Duration = Duration::from_secs(10);
/// How far back we look, for what was written before we were there.
const BACK: u64 = 1024 * 1024;
/// A refusal is in the transcript at once. What is not there after this long is running.
const RESULT_COMES_WITHIN: Duration = Duration::from_millis(1500);

/// What the terminal did.
#[derive(Debug)]
pub enum Seen {
    /// The transcript shows what became of the tool call.
    Result(Box<Returned>),
    /// The dialog was closed, and what was asked for is running.
    Running,
}

pub struct TerminalWatch {
    tail: Tail,
    from: u64,
    looked: Option<(u64, SystemTime)>,
    call: CallSignature,
    tool: String,
    sub_agent: Option<String>,
    tool_use_id: Option<String>,
    dialog: Option<DialogState>,
}

impl TerminalWatch {
    /// Without an id, the call is looked for in the transcript by what it says.
    pub fn new(
        transcript: PathBuf,
        call: CallSignature,
        tool: &str,
        sub_agent: Option<&str>,
        tool_use_id: Option<String>,
        dialog: Option<DialogState>,
    ) -> Self {
        let end = fs::metadata(&transcript).map_or(0, |metadata| metadata.len());
        let from = end.saturating_sub(BACK);
        let tail = Tail::from(&transcript, from).unwrap_or_else(|_| Tail::new(transcript));
        let (tool, sub_agent) = (tool.to_owned(), sub_agent.map(str::to_owned));
        Self { tail, from, looked: None, call, tool, sub_agent, tool_use_id, dialog }
    }

    pub fn tool_use_id(&self) -> Option<&str> {
        self.tool_use_id.as_deref()
    }

    pub fn transcript(&self) -> &Path {
        self.tail.path()
    }

    /// Where looking began.
    pub fn from(&self) -> u64 {
        self.from
    }

    pub async fn until_answered(&mut self) -> Seen {
        let start = Instant::now();
        loop {
            match self.look() {
                Ok(Some(seen)) => return seen,
                Ok(None) => {}
                // A transcript that cannot be read tells nothing; the hub may still.
                Err(error) => tracing::debug!(%error, "the transcript could not be read"),
            }
            let just_begun = start.elapsed() < AT_FIRST;
            tokio::time::sleep(if just_begun { BETWEEN_FIRST_LOOKS } else { BETWEEN_LOOKS }).await;
        }
    }

    /// What the terminal has done up to now.
    pub fn look(&mut self) -> io::Result<Option<Seen>> {
        if let Some(shown) = self.new_in_transcript()? {
            return Ok(Some(Seen::Result(Box::new(shown))));
        }
        let closed = self.dialog.as_mut().is_some_and(DialogState::is_closed);
        Ok(closed.then_some(Seen::Running))
    }

    fn new_in_transcript(&mut self) -> io::Result<Option<Returned>> {
        let now = match fs::metadata(self.tail.path()) {
            Ok(metadata) => Some((metadata.len(), metadata.modified()?)),
            Err(_) => None,
        };
        if now.is_none() || now == self.looked {
            return Ok(None);
        }
        // What is found by its words alone may be an older call that said the same.
        let guessed_in_the_past = self.looked.is_none() && self.tool_use_id.is_none();
        self.looked = now;
        let (mut shown, mut id) = (None, self.tool_use_id.take());
        let (call, tool, sub_agent) = (&self.call, &self.tool, self.sub_agent.as_deref());
        let read = self.tail.read(|found| {
            let (TailEvent::Line(bytes) | TailEvent::Cut(bytes)) = found else { return };
            if let Some(known) = &id {
                let result = memchr::memmem::find(bytes, known.as_bytes())
                    .and_then(|_| Returned::in_line(bytes, known));
                match result {
                    Some(_) if guessed_in_the_past => id = None,
                    Some(result) => shown = Some(result),
                    None => {}
                }
            } else if memchr::memmem::find(bytes, tool.as_bytes()).is_some() {
                let line = line::decode(bytes);
                let calls = line.iter().flat_map(|line| line.calls());
                id = calls
                    .filter(|made| is_same(call, made, sub_agent))
                    .map(|made| made.id.clone())
                    .next_back();
            }
        });
        self.tool_use_id = id;
        read.map(|()| shown)
    }
}

fn is_same(call: &CallSignature, made: &line::ToolCall, sub_agent: Option<&str>) -> bool {
    let input: Value = serde_json::from_str(&made.input).unwrap_or_default();
    CallSignature::new(&made.name, &input, sub_agent) == *call
}

/// What the session says of itself, in `sessions/PID.json` of newer versions: that it waits for the person
/// at the terminal, and then that it no longer does. It is the only sign that a tool was allowed there before
/// that tool is done.
pub struct DialogState {
    path: PathBuf,
    looked: Option<SystemTime>,
    was_open: bool,
    closed: Option<Instant>,
}

impl DialogState {
    pub fn new(config_dir: &Path, pid: u32) -> Self {
        let path = config_dir.join("sessions").join(format!("{pid}.json"));
        Self { path, looked: None, was_open: false, closed: None }
    }

    fn is_closed(&mut self) -> bool {
        let now = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok();
        if now.is_some() && now != self.looked {
            let session: Value = fs::read(&self.path)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default();
            match session["status"].as_str() {
                Some("waiting") => (self.was_open, self.closed) = (true, None),
                Some(_) if self.was_open && self.closed.is_none() => self.closed = Some(Instant::now()),
                // Half written, or something newer: look again.
                Some(_) => {}
                None => return false,
            }
            self.looked = now;
        }
        self.closed.is_some_and(|at| at.elapsed() >= RESULT_COMES_WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn append(path: &Path, line: Value) {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    fn made(id: &str, command: &str) -> Value {
        json!({"type": "assistant", "message": {"content": [
            {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}]}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]}})
    }

    fn watch(path: &Path, id: Option<&str>) -> TerminalWatch {
        let call = CallSignature::new("Bash", &json!({"command": "ls"}), None);
        TerminalWatch::new(path.into(), call, "Bash", None, id.map(str::to_owned), None)
    }

    #[test]
    fn the_result_of_our_call_is_seen_and_that_of_others_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        append(&path, made("toolu_1", "ls"));
        let mut watch = watch(&path, Some("toolu_1"));
        assert!(watch.look().unwrap().is_none());
        append(&path, result("toolu_2"));
        append(&path, json!({"type": "api-request-blob", "message": result("toolu_1")["message"]}));
        assert!(watch.look().unwrap().is_none());
        append(&path, result("toolu_1"));
        assert!(matches!(watch.look().unwrap(), Some(Seen::Result(_))));
    }

    #[test]
    fn what_was_written_before_we_looked_is_seen_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        append(&path, made("toolu_1", "ls"));
        append(&path, result("toolu_1"));
        assert!(matches!(watch(&path, Some("toolu_1")).look().unwrap(), Some(Seen::Result(_))));
    }

    #[test]
    fn a_call_without_an_id_is_found_by_what_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let mut watch = watch(&path, None);
        assert!(watch.look().unwrap().is_none());
        append(&path, made("toolu_0", "ls"));
        append(&path, result("toolu_0"));
        append(&path, made("toolu_1", "rm"));
        append(&path, made("toolu_2", "ls"));
        assert!(watch.look().unwrap().is_none());
        assert_eq!(watch.tool_use_id(), Some("toolu_2"));
        append(&path, result("toolu_2"));
        assert!(matches!(watch.look().unwrap(), Some(Seen::Result(_))));
    }

    #[test]
    fn a_dialog_counts_as_closed_only_after_it_was_open_and_stayed_closed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sessions")).unwrap();
        let path = dir.path().join("sessions/7.json");
        let mut dialog = DialogState::new(dir.path(), 7);
        let mut at = SystemTime::UNIX_EPOCH;
        let mut says = |dialog: &mut DialogState, status: &str| {
            fs::write(&path, json!({ "status": status }).to_string()).unwrap();
            at += Duration::from_secs(1);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
            dialog.is_closed()
        };
        assert!(!says(&mut dialog, "busy"));
        assert!(!says(&mut dialog, "waiting"));
        assert!(!says(&mut dialog, "busy"));
        assert!(dialog.closed.is_some());
        assert!(!says(&mut dialog, "waiting"));
        assert!(dialog.closed.is_none());
        assert!(!says(&mut dialog, "busy"));
        dialog.closed = Instant::now().checked_sub(RESULT_COMES_WITHIN);
        assert!(dialog.is_closed());
    }
}
