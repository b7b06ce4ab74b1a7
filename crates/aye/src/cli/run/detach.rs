//! A run that goes on by itself: in a session of its own, with a log instead of a terminal.

use crate::cli::Done;
use crate::home::Home;
use anyhow::Context;
use aye_core::AgentId;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::process::{ExitCode, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

/// Starts the run, which reads its prompt from standard input, waits until it is registered, and prints its id.
pub async fn launch(home: &Home, id: &AgentId, arguments: Vec<OsString>, prompt: &str) -> Done {
    let mut log = open_log(home, id)?;
    let program = std::env::current_exe().context("cannot find this program itself")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .spawn()
        .context("cannot start the run")?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).context("the run has no pipes")?;
    hand_over(stdin, prompt).await;
    let mut announced = String::new();
    BufReader::new(stdout).read_line(&mut announced).await?;
    if announced.trim() == id.as_str() {
        writeln!(std::io::stdout(), "{id}")?;
        return Ok(ExitCode::SUCCESS);
    }
    child.wait().await?;
    let mut said = String::new();
    log.seek(SeekFrom::Start(0))?;
    log.read_to_string(&mut said)?;
    match said.trim().trim_start_matches("aye: ").trim_start_matches("! ") {
        "" => anyhow::bail!("the run ended at once and did not say why"),
        why => anyhow::bail!("{why}"),
    }
}

/// A run that ended at once says why in its log.
async fn hand_over(mut stdin: tokio::process::ChildStdin, prompt: &str) {
    if let Err(error) = stdin.write_all(prompt.as_bytes()).await {
        tracing::debug!(%error, "the run did not take its prompt");
    }
}

fn open_log(home: &Home, id: &AgentId) -> anyhow::Result<File> {
    let folder = home.run_logs();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{id}.log"));
    let opened = File::options().read(true).append(true).create(true).mode(0o600).open(&path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

/// Whatever ends the terminal or the hub that started us does not end us.
pub fn leave_session() -> anyhow::Result<()> {
    rustix::process::setsid().map(drop).context("cannot leave this session")
}

/// The id of a run, for whoever started it, who reads nothing else: what the run prints goes to its log.
pub struct Announcement {
    id: AgentId,
    reader: File,
}

impl Announcement {
    pub fn prepare(id: AgentId) -> anyhow::Result<Self> {
        let reader = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Self { id, reader })
    }

    pub fn make(mut self) -> anyhow::Result<()> {
        Ok(writeln!(self.reader, "{}", self.id)?)
    }
}
