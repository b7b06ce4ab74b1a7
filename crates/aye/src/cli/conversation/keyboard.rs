//! What is typed at the terminal, read by whoever also changes what the terminal shows: so that a line can never
//! be taken for an answer to something that was shown after it was typed.

use super::line::{LineEditor, LineInput};
use super::screen::AskChange;
use rustix::fs::OFlags;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tokio::net::unix::pipe;

const AT_ONCE: usize = 4096;
const BACKGROUND_LOOK: Duration = Duration::from_millis(500);

pub struct Keyboard {
    terminal: File,
    /// The runtime's type for pipes, whose way of waiting suits a terminal as well.
    bytes: pipe::Receiver,
    /// As we found the terminal, and as we leave it.
    found: Termios,
    line: LineEditor,
    keys: VecDeque<LineInput>,
    /// A prompt that was begun before a request was shown.
    set_aside: String,
}

/// What came of waiting for keys.
pub enum KeyboardInput {
    /// The line is another.
    Changed,
    Line(String),
    /// They want to leave.
    End,
    /// The terminal is gone.
    Gone,
}

/// Says that nothing is read, where somebody sits at the keyboard and the output goes elsewhere: what it asks may not be
/// on their screen, and a pager reads the keyboard itself.
pub fn say_if_not_read() {
    if io::stdin().is_terminal() && !io::stdout().is_terminal() {
        anstream::eprintln!(
            "aye: The output does not go to this terminal, so what you type here is not read. Answer requests with \
             `aye answer`, or on the page."
        );
    }
}

impl Keyboard {
    /// None where nobody sits at standard input, or what they type could not be shown.
    pub fn open() -> Option<Self> {
        let dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        if dumb || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return None;
        }
        // Opened again: what we set on standard input would stay behind for the shell.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let terminal = File::options().read(true).custom_flags(flags).open("/dev/tty").ok()?;
        let bytes = pipe::Receiver::from_file_unchecked(terminal.try_clone().ok()?).ok()?;
        let found = tcgetattr(&terminal).ok()?;
        let (line, keys, set_aside) = Default::default();
        let keyboard = Self { terminal, bytes, found, line, keys, set_aside };
        keyboard.keep();
        Some(keyboard)
    }

    pub fn line(&self) -> &LineEditor {
        &self.line
    }

    /// Whether what is typed from now on is a secret.
    pub fn hide(&mut self, hidden: bool) {
        self.line.hide(hidden);
    }

    /// Waits for keys.
    pub async fn typed(&mut self) -> KeyboardInput {
        if let Some(key) = self.keys.pop_front() {
            return key.into();
        }
        let mut bytes = vec![0; AT_ONCE];
        loop {
            if self.bytes.readable().await.is_err() {
                return KeyboardInput::Gone;
            }
            if !self.in_foreground() {
                // What is typed now is meant for somebody else, who will read it.
                tokio::time::sleep(BACKGROUND_LOOK).await;
                continue;
            }
            match self.bytes.try_read(&mut bytes) {
                Ok(0) => return KeyboardInput::Gone,
                Ok(length) => {
                    self.keys.extend(self.line.typed(&bytes[..length]));
                    return self.keys.pop_front().map_or(KeyboardInput::Changed, KeyboardInput::from);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return KeyboardInput::Gone,
            }
        }
    }

    /// Another request is shown, or none: what was typed under the one before is forgotten, and a prompt that was begun
    /// waits until nothing is asked.
    pub fn shows(&mut self, shown: AskChange) {
        match shown {
            AskChange::Same => return,
            AskChange::FirstAsk => {
                self.set_aside = self.line.take();
            }
            AskChange::AnotherAsk => drop(self.line.take()),
            AskChange::NoAsk => {
                self.line.take();
                self.line.put(std::mem::take(&mut self.set_aside));
            }
        }
        self.keys.clear();
        if self.in_foreground()
            && let Err(error) = tcflush(&self.terminal, QueueSelector::IFlush)
        {
            tracing::debug!(%error, "the terminal keeps what was typed");
        }
    }

    /// A line that could not be used is put back to be edited.
    pub fn put_back(&mut self, line: String) {
        if self.line.is_empty() {
            self.line.put(line);
        }
    }

    /// Keys come one by one and are not echoed: the line is ours to show. The shell may have set the terminal otherwise
    /// while we were stopped.
    pub fn keep(&self) {
        if !self.in_foreground() {
            return;
        }
        let ours = LocalModes::ICANON | LocalModes::ECHO;
        if let Ok(mut now) = tcgetattr(&self.terminal)
            && now.local_modes.intersects(ours)
        {
            now.local_modes.remove(ours);
            self.set(&now);
        }
    }

    fn set(&self, to: &Termios) {
        if let Err(error) = tcsetattr(&self.terminal, OptionalActions::Now, to) {
            tracing::debug!(%error, "the terminal stays as it is");
        }
    }

    fn in_foreground(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    }
}

impl From<LineInput> for KeyboardInput {
    fn from(key: LineInput) -> Self {
        match key {
            LineInput::Line(line) => KeyboardInput::Line(line),
            LineInput::End => KeyboardInput::End,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if self.in_foreground() {
            self.set(&self.found);
        }
    }
}
