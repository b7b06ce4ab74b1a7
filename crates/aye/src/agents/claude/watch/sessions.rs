//! Which sessions are alive, and where their transcripts are.

use crate::claude_settings;
use crate::processes::Process;
use aye_core::ReportedState;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Older versions do not say which sessions are alive. A transcript that nothing was added to for this long
/// is not taken for one.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);
/// Files that tell of sessions are small; a larger one is something else.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A folder in which Claude Code keeps its settings and transcripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDir(PathBuf);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    pub transcript: PathBuf,
    pub cwd: Option<PathBuf>,
    pub process: Option<Process>,
    pub status: Status,
    /// The name that a person gave it.
    pub title: Option<String>,
}

/// What the program says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// At work, or an older version that does not tell.
    Working,
    Idle,
    /// For the person at its terminal: for what, and since when by its own clock.
    Waiting {
        what: Option<String>,
        since: u64,
    },
}

/// What a running program writes about itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionFile {
    pid: u32,
    session_id: String,
    cwd: Option<PathBuf>,
    proc_start: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    status_updated_at: Option<u64>,
    kind: Option<String>,
    name: Option<String>,
    name_source: Option<String>,
}

#[derive(Deserialize)]
struct Index {
    entries: Vec<IndexEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexEntry {
    full_path: Option<PathBuf>,
}

impl Session {
    /// As the hub is told.
    pub fn state(&self) -> ReportedState {
        match self.status {
            Status::Working => ReportedState::Working,
            Status::Idle => ReportedState::Idle,
            Status::Waiting { .. } => ReportedState::Waiting,
        }
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.status, Status::Waiting { .. })
    }
}

impl ConfigDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn from_env() -> Option<Self> {
        claude_settings::config_dir().map(Self)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    /// What a running program writes about itself.
    pub fn session_file(&self, pid: u32) -> PathBuf {
        self.sessions().join(format!("{pid}.json"))
    }

    pub fn projects(&self) -> PathBuf {
        self.0.join("projects")
    }

    /// Where something may turn up that is not there yet: its own folders, and sessions and workspaces in them.
    pub fn folders(&self) -> [PathBuf; 3] {
        [self.0.clone(), self.sessions(), self.projects()]
    }

    /// The folder with the transcripts of a workspace.
    pub fn transcripts_of(&self, workspace: &Path) -> PathBuf {
        // The program is written in JavaScript, whose characters are units of UTF-16.
        let dashed = |c: char| match c.is_ascii_alphanumeric() {
            true => c.to_string(),
            false => "-".repeat(c.len_utf16()),
        };
        self.projects().join(workspace.to_string_lossy().chars().map(dashed).collect::<String>())
    }

    /// The sessions that run now, as far as their files tell.
    pub fn live(&self, now: SystemTime) -> Vec<Session> {
        match fs::read_dir(self.sessions()) {
            Ok(entries) => {
                let files = entries.flatten().map(|entry| entry.path());
                let files =
                    files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
                files.filter_map(|path| self.session_at(&path)).collect()
            }
            Err(_) => self.recent(now),
        }
    }

    /// The session that one file tells of, if it runs.
    pub fn session_at(&self, path: &Path) -> Option<Session> {
        let file: SessionFile = read_json(path)?;
        // Others have no terminal in which they could ask.
        if file.kind.is_some_and(|kind| kind != "interactive") || !is_session_id(&file.session_id) {
            return None;
        }
        let told = file.proc_start.and_then(|ticks| ticks.parse().ok());
        let process = match told {
            Some(_) => Process { pid: file.pid, started: told },
            None => Process::now(file.pid),
        };
        if !process.is_alive() {
            return None;
        }
        let status = match file.status.as_deref() {
            Some("waiting") => {
                Status::Waiting { what: file.waiting_for, since: file.status_updated_at.unwrap_or_default() }
            }
            Some("idle") => Status::Idle,
            _ => Status::Working,
        };
        let transcript = self.transcript(file.cwd.as_deref(), &file.session_id);
        Some(Session {
            transcript,
            id: file.session_id,
            cwd: file.cwd,
            process: Some(process),
            status,
            // Without a person's, the program makes up a name from the folder.
            title: file.name.filter(|_| file.name_source.is_none_or(|source| source != "derived")),
        })
    }

    /// Where the workspace says, or else wherever the session's file is: a session may have begun elsewhere.
    fn transcript(&self, cwd: Option<&Path>, session: &str) -> PathBuf {
        let name = format!("{session}.jsonl");
        let expected = cwd.map(|cwd| self.transcripts_of(cwd).join(&name));
        if let Some(expected) = expected.as_ref().filter(|path| path.exists()) {
            return expected.clone();
        }
        let mut folders = fs::read_dir(self.projects()).into_iter().flatten().flatten();
        let found = folders.find_map(|folder| Some(folder.path().join(&name)).filter(|path| path.exists()));
        found.or(expected).unwrap_or_else(|| self.projects().join(&name))
    }

    /// For versions that do not list their sessions: the newest transcript of each workspace.
    fn recent(&self, now: SystemTime) -> Vec<Session> {
        let folders = fs::read_dir(self.projects()).into_iter().flatten().flatten();
        folders.filter_map(|folder| newest_in(&folder.path(), now)).collect()
    }

    /// The newest session of one workspace, for whoever manages workspaces.
    pub fn newest_of(&self, workspace: &Path, now: SystemTime) -> Option<Session> {
        let session = newest_in(&self.transcripts_of(workspace), now)?;
        Some(Session { cwd: Some(workspace.to_owned()), ..session })
    }
}

/// The newest transcript in a folder or in its index, if it is recent.
fn newest_in(folder: &Path, now: SystemTime) -> Option<Session> {
    let listed = read_json::<Index>(&folder.join("sessions-index.json"));
    let listed = listed.into_iter().flat_map(|index| index.entries).filter_map(|entry| entry.full_path);
    let there = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let dated = there.chain(listed).filter_map(|path| {
        let id = path.file_stem()?.to_str()?.to_owned();
        let is_one = path.extension().is_some_and(|extension| extension == "jsonl");
        let modified = is_one.then(|| fs::metadata(&path).ok()?.modified().ok()).flatten()?;
        // Sub-agents have files of their own, which ask nobody.
        (!id.starts_with("agent-") && is_session_id(&id)).then_some((modified, id, path))
    });
    let (modified, id, transcript) = dated.max()?;
    let stale = now.duration_since(modified).is_ok_and(|age| age > RECENT);
    (!stale).then_some(Session {
        id,
        transcript,
        cwd: None,
        process: None,
        status: Status::Working,
        title: None,
    })
}

/// The transcripts of a session's sub-agents.
pub fn sub_agents_of(transcript: &Path) -> Vec<PathBuf> {
    let folder = transcript.with_extension("").join("subagents");
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

/// It becomes part of names and paths.
fn is_session_id(id: &str) -> bool {
    (1..=100).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= LARGEST);
    small.then(|| serde_json::from_slice(&fs::read(path).ok()?).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn config() -> (tempfile::TempDir, ConfigDir) {
        let dir = tempfile::tempdir().unwrap();
        let config = ConfigDir::new(dir.path());
        (dir, config)
    }

    fn session(config: &ConfigDir, fields: Value) {
        let mut file = json!({"pid": std::process::id(), "sessionId": "s-1", "cwd": "/src/web", "kind": "interactive",
            "procStart": Process::myself().started.map(|ticks| ticks.to_string())});
        file.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        write(&config.sessions().join(format!("{}.json", file["pid"])), &file.to_string());
    }

    #[test]
    fn a_workspace_leads_to_its_folder() {
        let config = ConfigDir::new("/c");
        let folder = |workspace: &str| config.transcripts_of(Path::new(workspace));
        assert_eq!(folder("/home/me/a_b.c"), Path::new("/c/projects/-home-me-a-b-c"));
        assert_eq!(folder("/ä/日/😀"), Path::new("/c/projects/-------"));
    }

    #[test]
    fn a_session_is_alive_as_long_as_its_process_is() {
        let (_dir, config) = config();
        session(&config, json!({"status": "idle"}));
        let live = config.live(SystemTime::now());
        assert_eq!(live.len(), 1);
        assert_eq!(live[0].transcript, config.transcripts_of(Path::new("/src/web")).join("s-1.jsonl"));
        assert_eq!(live[0].state(), ReportedState::Idle);
        session(
            &config,
            json!({"status": "waiting", "waitingFor": "permission prompt", "statusUpdatedAt": 7}),
        );
        let waiting = &config.live(SystemTime::now())[0];
        let what = Some("permission prompt".to_owned());
        assert_eq!(
            (waiting.state(), &waiting.status),
            (ReportedState::Waiting, &Status::Waiting { what, since: 7 })
        );

        let title = |source: Option<&str>| {
            session(&config, json!({"name": "work-36", "nameSource": source}));
            config.live(SystemTime::now())[0].title.clone()
        };
        assert_eq!([title(None), title(Some("user"))], [Some("work-36".into()), Some("work-36".into())]);
        assert_eq!(title(Some("derived")), None);

        session(&config, json!({"procStart": "1"}));
        assert_eq!(config.live(SystemTime::now()), []);
        session(&config, json!({"kind": "print"}));
        assert_eq!(config.live(SystemTime::now()), []);
        session(&config, json!({"sessionId": "../../etc"}));
        assert_eq!(config.live(SystemTime::now()), []);
        write(&config.sessions().join("7.json"), "{\"pid\":");
        assert_eq!(config.live(SystemTime::now()), []);
    }

    #[test]
    fn a_session_that_moved_is_found_where_its_transcript_is() {
        let (_dir, config) = config();
        let elsewhere = config.transcripts_of(Path::new("/src")).join("s-1.jsonl");
        write(&elsewhere, "");
        session(&config, json!({}));
        assert_eq!(config.live(SystemTime::now())[0].transcript, elsewhere);
    }

    #[test]
    fn older_versions_are_known_by_their_newest_transcript_and_their_index() {
        let (_dir, config) = config();
        let folder = config.transcripts_of(Path::new("/src"));
        write(&folder.join("old.jsonl"), "");
        fs::File::open(folder.join("old.jsonl"))
            .unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(60))
            .unwrap();
        write(&folder.join("agent-1.jsonl"), "");
        let listed = config.path().join("elsewhere/listed.jsonl");
        write(&listed, "");
        let index = json!({"version": 1, "entries": [{"sessionId": "listed", "fullPath": listed, "modified": "2026"}, {"odd": 1}]});
        write(&folder.join("sessions-index.json"), &index.to_string());
        let live = config.live(SystemTime::now());
        assert_eq!(live.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["listed"]);
        assert_eq!(config.newest_of(Path::new("/src"), SystemTime::now()).unwrap().id, "listed");
        assert_eq!(config.live(SystemTime::now() + 2 * RECENT), []);
    }
}
