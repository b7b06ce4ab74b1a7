//! Standard output on a thread of its own: a reader that pauses must not hold up an agent that waits.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::oneshot;

/// Pieces of text that may wait for whoever reads; beyond that the account has gaps, which are said.
const WAITING: usize = 50_000;

pub struct Printer {
    pieces: SyncSender<Output>,
    left_out: usize,
}

enum Output {
    /// Colours show where they can.
    Text(String),
    /// Moves the cursor, on terminals without colours too.
    Control(String),
}

impl Printer {
    /// The second part tells when all is printed, once the printer is gone.
    pub fn start() -> anyhow::Result<(Self, oneshot::Receiver<()>)> {
        let (pieces, to_print) = sync_channel(WAITING);
        let (done, printed) = oneshot::channel();
        thread::Builder::new().name("account".into()).spawn(move || {
            print(&to_print);
            drop(done);
        })?;
        Ok((Self { pieces, left_out: 0 }, printed))
    }

    pub fn put(&mut self, text: &str) {
        let text = match self.left_out {
            0 => text.to_owned(),
            missed => format!("\n… {missed} pieces are left out here\n{text}"),
        };
        match self.pieces.try_send(Output::Text(text)) {
            Ok(()) => self.left_out = 0,
            Err(_) => self.left_out += 1,
        }
    }

    /// Of what a person types, or of a line that is drawn again and again: nothing is missed if it is not printed.
    pub fn control(&mut self, text: String) {
        drop(self.pieces.try_send(Output::Control(text)));
    }
}

fn print(pieces: &Receiver<Output>) {
    for piece in pieces {
        let printed = match piece {
            Output::Text(text) => write(anstream::stdout().lock(), &text),
            Output::Control(text) => write(std::io::stdout().lock(), &text),
        };
        if let Err(error) = printed {
            tracing::debug!(%error, "nobody reads the account");
            return;
        }
    }
}

fn write(mut out: impl Write, text: &str) -> std::io::Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
