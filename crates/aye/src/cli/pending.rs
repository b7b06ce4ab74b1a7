use super::{Done, ERROR, say, say_json};
use crate::agents::claude::transcript::pending::OpenCall;
use crate::agents::claude::transcript::plans::plan_in;
use crate::agents::claude::transcript::scan::{calls_for_a_person, recent_open_calls};
use crate::agents::claude::transcript::title::Title;
use crate::agents::claude::watch::sessions::{ConfigDir, Session, Status, sub_agents_of};
use crate::agents::claude::watch::watched::is_for_a_person;
use crate::surfaces::terminal::style::{BAD, DIM, HEAD, NAME, paint};
use crate::surfaces::terminal::{in_a_line, shorten, summary};
use anyhow::Context;
use aye_core::visible::one_line;
use aye_core::{Body, Kind, Tool};
use clap::Args;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Deeper folders are not looked into.
const DEEPEST: usize = 8;
/// A session's own words while a dialog asks for permission.
const PERMISSION: &str = "permission prompt";

/// Show what Claude Code sessions are waiting for, from their transcripts; needs no hub.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye pending                                   every live session
  aye pending ~/src/web                         the sessions of a workspace
  aye pending ~/.claude/projects --json         every transcript there

A question or a plan is pending until its transcript shows a result or a later turn of yours. A tool
call without a result may also be running, so it is shown only while its session says that it is waiting:
as waiting if it is the only one, and otherwise as one that may be running.
With --json, each has kind, tool_use_id, session, cwd, title, and questions, plan, or tool, input and state
(\"waiting\" or \"waiting or running\").
Exit codes: 0 also if nothing is pending, 1 if a file could not be read.")]
pub struct Pending {
    /// Transcripts, folders of transcripts, or workspaces (default: all live sessions)
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
}

/// An open call, and the transcript that it is in.
struct Found {
    file: PathBuf,
    open: OpenCall,
}

impl Pending {
    pub fn run(self) -> Done {
        let mut files = Vec::new();
        let config = ConfigDir::from_env();
        let mut live = LiveSessions::default();
        match self.paths.is_empty() {
            true => {
                let config = config.context("there is no home directory: set CLAUDE_CONFIG_DIR")?;
                let sessions = live.of(config).to_vec();
                for session in sessions {
                    files.push(session.transcript.clone());
                    if session.is_waiting() {
                        files.extend(sub_agents_of(&session.transcript));
                    }
                }
                files.retain(|file| file.exists());
            }
            false => {
                for path in &self.paths {
                    collect(path, config.as_ref(), &mut files)?;
                }
            }
        }
        let (mut found, mut failed) = (Vec::new(), false);
        for file in files {
            // Where nobody says that they wait, what else is open runs, or is left over.
            let waits = live.waits_for(&file).is_some();
            match open_calls(&file, waits) {
                Ok(open) => found.extend(open.into_iter().map(|open| Found { file: file.clone(), open })),
                Err(error) => {
                    failed = true;
                    anstream::eprintln!(
                        "{} {} cannot be read: {error}",
                        paint(BAD, "aye:"),
                        one_line(&file.display().to_string())
                    );
                }
            }
        }
        let pending: Vec<_> =
            found.iter().map(|call| as_json(call, state_of(call, &found, &mut live))).collect();
        match self.json {
            true => say_json(&pending)?,
            false if pending.is_empty() => say("nothing is pending\n")?,
            false => {
                for call in &pending {
                    say(&in_words(call))?;
                }
            }
        }
        Ok(if failed { ExitCode::from(ERROR) } else { ExitCode::SUCCESS })
    }
}

/// Calls that wait for a person, and in a session that waits also those that may.
fn open_calls(file: &Path, waits: bool) -> std::io::Result<Vec<OpenCall>> {
    let mut open = calls_for_a_person(file)?;
    if waits {
        open.extend(recent_open_calls(file)?.into_iter().filter(|open| !is_for_a_person(&open.tool)));
    }
    Ok(open)
}

/// The sessions that run now, by the folder of Claude Code that they belong to.
#[derive(Default)]
struct LiveSessions(HashMap<PathBuf, Vec<Session>>);

impl LiveSessions {
    fn of(&mut self, config: ConfigDir) -> &[Session] {
        let folder = config.path().to_owned();
        self.0.entry(folder).or_insert_with(|| config.live(SystemTime::now()))
    }

    /// The reason that this transcript's session gives for waiting; none if it does not wait or gives none.
    fn waits_for(&mut self, file: &Path) -> Option<String> {
        let main = main_transcript(&std::path::absolute(file).ok()?);
        let config = main.ancestors().nth(3)?;
        let id = main.file_stem()?.to_str()?;
        let session = self.of(ConfigDir::new(config)).iter().find(|session| session.id == id)?;
        match &session.status {
            Status::Waiting { what, .. } => Some(what.clone().unwrap_or_default()),
            Status::Working | Status::Idle => None,
        }
    }
}

/// The transcript of the session itself, where this is one of a sub-agent: `SESSION/subagents/NAME.jsonl`.
fn main_transcript(file: &Path) -> PathBuf {
    match file.parent().filter(|folder| folder.file_name() == Some(OsStr::new("subagents"))) {
        Some(folder) => folder.parent().unwrap_or(folder).with_extension("jsonl"),
        None => file.to_owned(),
    }
}

/// A word for a tool call that may be running instead; none for questions and plans, which always wait for a person.
fn state_of(call: &Found, all: &[Found], live: &mut LiveSessions) -> Option<&'static str> {
    if is_for_a_person(&call.open.tool) {
        return None;
    }
    let main = main_transcript(&call.file);
    let is_alone = all.iter().filter(|other| main_transcript(&other.file) == main).count() == 1;
    let waits = is_alone && live.waits_for(&call.file).as_deref() == Some(PERMISSION);
    Some(if waits { "waiting" } else { "waiting or running" })
}

/// A folder that is somebody's workspace means its transcripts; any other the transcripts in it.
fn collect(path: &Path, config: Option<&ConfigDir>, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let found = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    if !found.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let of_workspace = config.map(|config| config.transcripts_of(&whole)).filter(|folder| folder.is_dir());
    walk(of_workspace.as_deref().unwrap_or(path), DEEPEST, files)
        .with_context(|| format!("cannot look into {}", path.display()))
}

fn walk(folder: &Path, deeper: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() && deeper > 0 {
            walk(&entry.path(), deeper - 1, files)?;
        } else if !kind.is_dir() && entry.path().extension() == Some(OsStr::new("jsonl")) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// A line without a session's name is of the session that the file is named after.
fn as_json(Found { file, open }: &Found, state: Option<&str>) -> Value {
    let main = main_transcript(file);
    let named = || main.file_stem().map(|name| name.to_string_lossy().into_owned());
    let title = Title::of(&main).unwrap_or_default();
    let mut pending = json!({
        "kind": "permission",
        "tool_use_id": open.tool_use_id,
        "session": open.session.clone().or_else(named),
        "cwd": open.cwd,
        "title": title.text(),
    });
    let input: Value =
        open.input.as_deref().and_then(|input| serde_json::from_str(input).ok()).unwrap_or_default();
    if open.tool == Tool::Questions.name() {
        pending["kind"] = json!("question");
        pending["questions"] = questions(input);
    } else if open.tool == Tool::Plan.name() {
        pending["kind"] = json!("plan");
        pending["plan"] = json!(plan_in(file, &open.tool));
    } else {
        pending["tool"] = json!(open.tool);
        pending["input"] = input;
        pending["state"] = json!(state);
    }
    pending
}

/// As the agent asked them; also the old form, a single question beside its options.
fn questions(mut input: Value) -> Value {
    match (input["questions"].is_array(), input["question"].is_string()) {
        (true, _) => input["questions"].take(),
        (false, true) => json!([input]),
        (false, false) => json!([]),
    }
}

fn in_words(pending: &Value) -> String {
    let text = |value: &Value| one_line(value.as_str().unwrap_or("?")).into_owned();
    let title = pending["title"].as_str().map(|title| format!("  {}", shorten(&in_a_line(title), 60)));
    let mut words = format!(
        "{}{}  {}   {}\n",
        paint(NAME, text(&pending["session"])),
        title.unwrap_or_default(),
        text(&pending["cwd"]),
        paint(DIM, text(&pending["tool_use_id"]))
    );
    let short = |kind, body| Body::decode(kind, body).map(|body| summary(&body, 100)).unwrap_or_default();
    match pending["kind"].as_str() {
        Some("plan") => {
            let plan = short(Kind::Plan, json!({ "plan": pending["plan"] }));
            words += &format!("  {} approve a plan: {plan}\n", paint(HEAD, "?"));
        }
        Some("permission") => {
            let what = short(Kind::Permission, json!({ "tool": pending["tool"], "input": pending["input"] }));
            let what = if what.is_empty() { text(&pending["tool"]) } else { what };
            let state = match pending["state"].as_str() {
                Some("waiting") => "waits for permission",
                _ => "may be running, or wait for permission",
            };
            words += &format!("  {} {what}   {}\n", paint(HEAD, "!"), paint(DIM, state));
        }
        _ => words += &question_words(pending),
    }
    words
}

fn question_words(pending: &Value) -> String {
    let text = |value: &Value| one_line(value.as_str().unwrap_or("?")).into_owned();
    let mut words = String::new();
    let questions = pending["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for question in questions {
        words += &format!("  {} {}\n", paint(HEAD, "?"), text(&question["question"]));
        for option in question["options"].as_array().into_iter().flatten() {
            let label = if option.is_string() { option } else { &option["label"] };
            words += &format!("      {}\n", text(label));
        }
    }
    if questions.is_empty() {
        words += "  a question that is too long to be read here: look at its terminal\n";
    }
    words
}
