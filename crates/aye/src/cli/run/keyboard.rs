//! Lines typed at the terminal, read by whoever also changes what the terminal shows: so that a line can never
//! be taken for an answer to something that was shown after it was typed.

use rustix::fs::OFlags;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tokio::net::unix::pipe;

const LONGEST_LINE: usize = 4096;
const BACKGROUND_LOOK: Duration = Duration::from_millis(500);

pub struct Keyboard {
    terminal: File,
    /// The runtime's type for pipes, whose way of waiting suits a terminal as well.
    lines: pipe::Receiver,
}

impl Keyboard {
    /// None where nobody sits at standard input.
    pub fn open() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        // Opened anew: what we set on standard input would stay behind for the shell.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let terminal = File::options().read(true).custom_flags(flags).open("/dev/tty").ok()?;
        let lines = pipe::Receiver::from_file_unchecked(terminal.try_clone().ok()?).ok()?;
        Some(Self { terminal, lines })
    }

    /// The next line. Ends only when the terminal is gone.
    pub async fn line(&self) -> io::Result<String> {
        let mut bytes = vec![0; LONGEST_LINE];
        loop {
            self.lines.readable().await?;
            if !self.in_foreground() {
                // What is typed now is meant for somebody else, who will read it.
                tokio::time::sleep(BACKGROUND_LOOK).await;
                continue;
            }
            match self.lines.try_read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => return Ok(String::from_utf8_lossy(&bytes[..length]).into_owned()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn in_foreground(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    /// Forgets what was typed and not yet read, half a line too.
    pub fn forget(&self) {
        if self.in_foreground()
            && let Err(error) = tcflush(&self.terminal, QueueSelector::IFlush)
        {
            tracing::debug!(%error, "the terminal keeps what was typed");
        }
    }
}
