//! One transcript, followed: what it begins to wait for, and how that ends.

use crate::agents::claude::transcript::line;
use crate::agents::claude::transcript::pending::{Closed, OpenCall, Pending};
use crate::agents::claude::transcript::scan::{all_open_calls, last_mode};
use crate::agents::claude::transcript::tail::{Tail, TailEvent};
use crate::agents::claude::transcript::title::Title;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub struct Transcript {
    tail: Tail,
    pending: Pending,
    mode: Option<String>,
    /// The session's title there.
    pub title: Title,
}

#[derive(Debug, Default, PartialEq)]
pub struct News {
    pub opened: Vec<OpenCall>,
    pub closed: Vec<(OpenCall, Closed)>,
    /// The permission mode, if the session named it.
    pub mode: Option<String>,
}

impl Transcript {
    /// Begins with what is open now; what follows is read as it comes.
    pub fn follow(path: PathBuf) -> io::Result<(Self, Vec<OpenCall>)> {
        let start = match end_of_lines(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let (pending, title) = Default::default();
                return Ok((Self { tail: Tail::new(path), pending, mode: None, title }, Vec::new()));
            }
            start => start?,
        };
        let open = all_open_calls(&path)?;
        let (pending, mode, title) = (Pending::begin(open.clone()), last_mode(&path)?, Title::of(&path)?);
        Ok((Self { tail: Tail::from(path, start)?, pending, mode, title }, open))
    }

    pub fn path(&self) -> &Path {
        self.tail.path()
    }

    /// The permission mode that the session was in at the beginning.
    pub fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// The calls without a result.
    pub fn open(&self) -> &[OpenCall] {
        self.pending.open()
    }

    pub fn read(&mut self) -> io::Result<News> {
        let Self { tail, pending, title, .. } = self;
        let before: Vec<OpenCall> = pending.open().to_vec();
        let was_open = |open: &OpenCall| before.iter().any(|before| before.tool_use_id == open.tool_use_id);
        let mut news = News::default();
        let read = tail.read(|found| {
            let (bytes, cut) = match found {
                TailEvent::Line(bytes) => (bytes, false),
                TailEvent::Cut(bytes) => (bytes, true),
                TailEvent::Restarted => return (*pending, *title) = Default::default(),
            };
            title.see(bytes);
            if let Some(line) = line::decode(bytes) {
                news.mode = line.mode.clone().filter(|_| !line.sidechain).or(news.mode.take());
                let closed = pending.see(line, cut, |_| true);
                news.closed.extend(closed.into_iter().filter(|(open, _)| was_open(open)));
            }
        });
        news.opened.extend(pending.open().iter().filter(|open| !was_open(open)).cloned());
        // The file was rewritten, and no longer mentions a call.
        let is_told = |open: &OpenCall, news: &News| {
            pending
                .open()
                .iter()
                .chain(news.closed.iter().map(|(open, _)| open))
                .any(|told| told.tool_use_id == open.tool_use_id)
        };
        let vanished: Vec<_> = before.iter().filter(|open| !is_told(open, &news)).cloned().collect();
        news.closed.extend(vanished.into_iter().map(|open| (open, Closed::PassedOver)));
        read.map(|()| news)
    }
}

/// Where the last line ends that has an end.
fn end_of_lines(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut block = vec![0; 64 * 1024];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(part, start)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;
    use std::io::Write;

    fn asks(id: &str) -> Value {
        json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": id, "name": "AskUserQuestion", "input": {}}]}})
    }

    fn returns(id: &str) -> Value {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]}})
    }

    fn append(path: &Path, text: &str) {
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    fn ids(news: &News) -> (Vec<&str>, Vec<&str>) {
        (
            news.opened.iter().map(|open| open.tool_use_id.as_str()).collect(),
            news.closed.iter().map(|(open, _)| open.tool_use_id.as_str()).collect(),
        )
    }

    #[test]
    fn what_opens_and_closes_is_news_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        append(&path, &format!("{}\n{}\n{{\"type\":\"assist", asks("a"), asks("b")));
        let (mut transcript, open) = Transcript::follow(path.clone()).unwrap();
        assert_eq!(open.len(), 2);
        assert_eq!(ids(&transcript.read().unwrap()), (vec![], vec![]));
        append(
            &path,
            &format!("ant\"}}\n{}\n{}\n{}\n{}\n", returns("a"), asks("c"), asks("d"), returns("d")),
        );
        assert_eq!(ids(&transcript.read().unwrap()), (vec!["c"], vec!["a"]));
        assert_eq!(ids(&transcript.read().unwrap()), (vec![], vec![]));
        fs::write(&path, format!("{}\n", asks("c"))).unwrap();
        assert_eq!(ids(&transcript.read().unwrap()), (vec![], vec!["b"]));
    }

    #[test]
    fn the_mode_is_what_the_transcript_named_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let prompt = |mode: &str, sidechain: bool| {
            let message = json!({"role": "user", "content": "a \"permissionMode\":\"auto\" b"});
            json!({"type": "user", "message": message, "permissionMode": mode, "isSidechain": sidechain})
        };
        append(&path, &format!("{}\n{}\n", prompt("plan", false), prompt("auto", true)));
        append(&path, &format!("{}\n", asks("a")));
        let (mut transcript, _) = Transcript::follow(path.clone()).unwrap();
        assert_eq!(transcript.mode(), Some("plan"));
        assert_eq!(transcript.read().unwrap().mode, None);
        append(&path, &format!("{}\n{}\n", prompt("default", false), prompt("auto", true)));
        assert_eq!(transcript.read().unwrap().mode.as_deref(), Some("default"));
        append(
            &path,
            &format!("{}\n", json!({"type": "permission-mode", "permissionMode": "bypassPermissions"})),
        );
        assert_eq!(transcript.read().unwrap().mode.as_deref(), Some("bypassPermissions"));
        let (transcript, _) = Transcript::follow(dir.path().join("none")).unwrap();
        assert_eq!(transcript.mode(), None);
    }

    #[test]
    fn a_transcript_may_begin_later_than_its_session() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let (mut transcript, _) = Transcript::follow(path.clone()).unwrap();
        assert_eq!(transcript.read().unwrap(), News::default());
        append(&path, &format!("{}\n", asks("a")));
        assert_eq!(ids(&transcript.read().unwrap()), (vec!["a"], vec![]));
    }

    #[test]
    fn a_sub_agent_that_is_stopped_no_longer_waits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent-a1.jsonl");
        let by = |mut line: Value, agent: &str| {
            line["isSidechain"] = json!(true);
            line["agentId"] = json!(agent);
            format!("{line}\n")
        };
        append(&path, &by(asks("a"), "a1"));
        let (mut transcript, open) = Transcript::follow(path.clone()).unwrap();
        assert_eq!(open.len(), 1);
        let stopped = json!({"type": "user", "message": {"content": [{"type": "text", "text": "[Request interrupted]"}]}});
        append(&path, &by(stopped.clone(), "a2"));
        assert_eq!(ids(&transcript.read().unwrap()), (vec![], vec![]));
        append(&path, &by(stopped, "a1"));
        let news = transcript.read().unwrap();
        assert_eq!((ids(&news), &news.closed[0].1), ((vec![], vec!["a"]), &Closed::PassedOver));
    }
}
