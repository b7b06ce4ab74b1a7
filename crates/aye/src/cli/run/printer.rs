//! Standard output on a thread of its own: a reader that pauses must not hold up an agent that waits.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::oneshot;

/// Pieces of text that may wait for whoever reads; beyond that the account has gaps, which are said.
const WAITING: usize = 50_000;

pub struct Printer {
    pieces: SyncSender<String>,
    left_out: usize,
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
            missed => format!("\n… {missed} pieces of the account are left out here\n{text}"),
        };
        match self.pieces.try_send(text) {
            Ok(()) => self.left_out = 0,
            Err(_) => self.left_out += 1,
        }
    }
}

fn print(pieces: &Receiver<String>) {
    for piece in pieces {
        let mut out = anstream::stdout().lock();
        if let Err(error) = out.write_all(piece.as_bytes()).and_then(|()| out.flush()) {
            tracing::debug!(%error, "nobody reads the account");
            return;
        }
    }
}
