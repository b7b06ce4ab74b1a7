//! What a hook takes of the memory while its request waits for an answer.

use crate::drive::open_asks;
use crate::home;
use crate::hub::{Hub, memory_of};
use crate::report::{Goal, Report};
use anyhow::{Context, ensure};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONGEST_START: Duration = Duration::from_secs(60);
/// What it needed only to start is given back by then.
const SETTLED: Duration = Duration::from_secs(3);

struct Hook(Child);

impl Drop for Hook {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        drop(self.0.wait());
    }
}

pub async fn measure(program: &Path, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    eprintln!("a hook that waits");
    let (home, project) = (home(folder, "hook")?, folder.join("hook-config/projects/-bench"));
    let hub = Hub::start(program, &home)?;
    fs::create_dir_all(&project)?;
    let transcript = project.join("session.jsonl");
    fs::write(&transcript, "")?;
    let event = json!({
        "hook_event_name": "PermissionRequest", "session_id": "session", "transcript_path": transcript, "cwd": folder,
        "tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "toolu_make",
    });
    let hook = start(program, &home, &event.to_string())?;
    let start = Instant::now();
    while open_asks(&hub).await? < 1 {
        ensure!(start.elapsed() < LONGEST_START, "the hook takes too long to ask");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(SETTLED).await;
    let memory = memory_of(hook.0.id())?;
    let add = |report: &mut Report, what: &str, bytes: u64, goal| {
        report.add(format!("a hook that waits: {what} memory"), bytes as f64 / 1e6, "MB", goal);
    };
    add(report, "resident", memory.resident, Some(Goal::AtMost(10.0)));
    add(report, "private", memory.private, None);
    drop(hook);
    hub.stop()
}

fn start(program: &Path, home: &Path, event: &str) -> anyhow::Result<Hook> {
    let mut command = Command::new(program);
    command.arg("hook").env("AYE_HOME", home);
    for name in ["AYE_URL", "AYE_TOKEN", "AYE_LOG", "AYE_DRIVEN", "CLAUDE_PID"] {
        command.env_remove(name);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    let hook = Hook(child);
    input.write_all(event.as_bytes())?;
    Ok(hook)
}
