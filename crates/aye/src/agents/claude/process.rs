//! The agent's process and the pipes to it.

use crate::config::Stdin;
use anyhow::Context;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How to start an agent.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub cwd: &'a Path,
    pub mode: Option<&'a str>,
    pub resume: Option<&'a str>,
    pub stdin: Stdin,
}

/// Our end of what the agent reads. Dropping it tells the agent that nothing more comes.
pub enum Input {
    Pipe(ChildStdin),
    /// The runtime's type for pipes, whose way of waiting suits a terminal as well.
    Pty(pipe::Sender),
}

impl Input {
    pub async fn write_line(&mut self, line: &str) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        match self {
            Input::Pipe(pipe) => {
                pipe.write_all(&bytes).await?;
                pipe.flush().await
            }
            Input::Pty(pty) => pty.write_all(&bytes).await,
        }
    }
}

/// No shell, a group of its own (so that Ctrl-C is ours to pass on), and none of our credentials.
pub fn spawn(start: &Start) -> anyhow::Result<(Child, Input, ChildStdout)> {
    let mut command = Command::new(start.program);
    command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    command.args([
        "--permission-prompt-tool",
        "stdio",
        "--include-partial-messages",
        "--replay-user-messages",
    ]);
    if let Some(mode) = start.mode {
        command.arg(format!("--permission-mode={mode}"));
    }
    if let Some(session) = start.resume {
        command.arg(format!("--resume={session}"));
    }
    command.args(start.arguments).current_dir(start.cwd).env_remove("AYE_TOKEN").env("AYE_DRIVEN", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.process_group(0).kill_on_drop(true);
    let ours = match start.stdin {
        Stdin::Pipe => {
            command.stdin(Stdio::piped());
            None
        }
        Stdin::Pty => {
            let (ours, theirs) = pseudo_terminal().context("cannot open a pseudo-terminal")?;
            command.stdin(theirs);
            Some(ours)
        }
    };
    let mut child = command.spawn().with_context(|| {
        format!(
            "cannot start {}; is it installed? AYE_CLAUDE or `command` in config.toml names another",
            start.program.display()
        )
    })?;
    let output = child.stdout.take().context("the agent has no output")?;
    let input = match (ours, child.stdin.take()) {
        (Some(pty), _) => Input::Pty(pty),
        (None, Some(pipe)) => Input::Pipe(pipe),
        (None, None) => anyhow::bail!("the agent has no input"),
    };
    Ok((child, input, output))
}

/// Raw, so that no byte is echoed, changed or taken for a command, and no line is too long.
fn pseudo_terminal() -> io::Result<(pipe::Sender, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(ptsname(&ours, Vec::new())?.as_bytes()));
    let theirs: OwnedFd = open_without_control(&name)?;
    let mut settings = tcgetattr(&theirs)?;
    settings.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &settings)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK | OFlags::RDWR)?;
    Ok((pipe::Sender::from_file_unchecked(File::from(ours))?, theirs))
}

fn open_without_control(terminal: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NOCTTY.bits().cast_signed();
    Ok(File::options().read(true).write(true).custom_flags(flags).open(terminal)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn start<'a>(program: &'a str, arguments: &'a [OsString], stdin: Stdin) -> Start<'a> {
        let (program, cwd) = (Path::new(program), Path::new("/"));
        Start { program, arguments, cwd, mode: None, resume: None, stdin }
    }

    /// An agent of three lines of shell: the arguments for a real one end up in its `$@`.
    fn script(words: &str) -> tempfile::TempPath {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("#!/bin/sh\n{words}\n")).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        file.into_temp_path()
    }

    #[tokio::test]
    async fn every_byte_arrives_through_a_pseudo_terminal_and_its_end_does_too() {
        let agent = script("head -c 100007 | md5sum; test -t 0 && echo terminal");
        let line = format!("\u{3}\u{4}ü{}", "x".repeat(100_002));
        let (mut child, mut input, mut output) =
            spawn(&start(agent.to_str().unwrap(), &[], Stdin::Pty)).unwrap();
        input.write_line(&line).await.unwrap();
        let mut printed = String::new();
        output.read_to_string(&mut printed).await.unwrap();
        child.wait().await.unwrap();
        let direct = script("head -c 100007 | md5sum");
        let (mut other, mut piped, mut out) =
            spawn(&start(direct.to_str().unwrap(), &[], Stdin::Pipe)).unwrap();
        piped.write_line(&line).await.unwrap();
        let mut expected = String::new();
        out.read_to_string(&mut expected).await.unwrap();
        other.wait().await.unwrap();
        assert_eq!(printed, format!("{expected}terminal\n"));
    }
}
