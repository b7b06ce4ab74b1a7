use super::{Done, ERROR, say, say_json};
use crate::agents::claude::transcript::pending::OpenCall;
use crate::agents::claude::transcript::scan::open_calls;
use crate::agents::claude::watch::sessions::ConfigDir;
use crate::surfaces::terminal::style::{BAD, DIM, HEAD, NAME, paint};
use anyhow::Context;
use aye_core::Tool;
use aye_core::visible::one_line;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Deeper folders are not looked into.
const DEEPEST: usize = 8;

/// Show what Claude Code sessions are waiting for, from their transcripts; needs no hub.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye pending                                   every live session
  aye pending ~/src/web                         the sessions of a workspace
  aye pending ~/.claude/projects --json         every transcript there

A question is pending until its transcript shows a result or a later turn of yours.
With --json, each one has tool_use_id, session, cwd and questions.
Exit codes: 0 also if nothing is pending, 1 if a file could not be read.")]
pub struct Pending {
    /// Transcripts, folders of transcripts, or workspaces (default: all live sessions)
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
}

impl Pending {
    pub fn run(self) -> Done {
        let mut files = Vec::new();
        let config = ConfigDir::from_env();
        match self.paths.is_empty() {
            true => {
                let config = config.context("there is no home directory: set CLAUDE_CONFIG_DIR")?;
                files.extend(config.live(SystemTime::now()).into_iter().map(|session| session.transcript));
                files.retain(|file| file.exists());
            }
            false => {
                for path in &self.paths {
                    collect(path, config.as_ref(), &mut files)?;
                }
            }
        }
        let (mut pending, mut failed) = (Vec::new(), false);
        for file in &files {
            match open_calls(file, Tool::Questions.name()) {
                Ok(open) => pending.extend(open.into_iter().map(|open| (file, open))),
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
        match self.json {
            true => say_json(&pending.iter().map(|(file, open)| as_json(file, open)).collect::<Vec<_>>())?,
            false if pending.is_empty() => say("nothing is pending\n")?,
            false => {
                for (file, open) in &pending {
                    say(&in_words(&as_json(file, open)))?;
                }
            }
        }
        Ok(if failed { ExitCode::from(ERROR) } else { ExitCode::SUCCESS })
    }
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
fn as_json(file: &Path, open: &OpenCall) -> Value {
    let named = || file.file_stem().map(|name| name.to_string_lossy().into_owned());
    json!({
        "tool_use_id": open.tool_use_id,
        "session": open.session.clone().or_else(named),
        "cwd": open.cwd,
        "questions": questions(open),
    })
}

/// As the agent asked them; also the old form, a single question beside its options.
fn questions(open: &OpenCall) -> Value {
    let mut input: Value =
        open.input.as_deref().and_then(|input| serde_json::from_str(input).ok()).unwrap_or_default();
    match (input["questions"].is_array(), input["question"].is_string()) {
        (true, _) => input["questions"].take(),
        (false, true) => json!([input]),
        (false, false) => json!([]),
    }
}

fn in_words(pending: &Value) -> String {
    let text = |value: &Value| one_line(value.as_str().unwrap_or("?")).into_owned();
    let mut words = format!(
        "{}  {}   {}\n",
        paint(NAME, text(&pending["session"])),
        text(&pending["cwd"]),
        paint(DIM, text(&pending["tool_use_id"]))
    );
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
