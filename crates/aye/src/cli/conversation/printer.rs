//! Standard output on a thread of its own: a reader that pauses must not hold up an agent that waits.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// Pieces of text that may wait for whoever reads; beyond that the account has gaps, which are said.
const WAITING: usize = 50_000;
/// After printing, less than a frame of a screen. A piece that comes meanwhile wakes nobody, and an agent that works fast
/// would otherwise wait twice for another thread at every line.
const PAUSE: Duration = Duration::from_millis(10);
/// Pieces that are printed in one call, as far as they are text.
const MOST_TOGETHER: usize = 1_000;

pub struct Printer {
    pieces: SyncSender<Output>,
    left_out: usize,
}

#[derive(Debug, PartialEq)]
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
    while let Ok(first) = pieces.recv() {
        let more = pieces.try_iter().take(MOST_TOGETHER);
        for together in joined(std::iter::once(first).chain(more)) {
            let printed = match together {
                Output::Text(text) => write(anstream::stdout().lock(), &text),
                Output::Control(text) => write(std::io::stdout().lock(), &text),
            };
            if let Err(error) = printed {
                tracing::debug!(%error, "nobody reads the account");
                return;
            }
        }
        thread::sleep(PAUSE);
    }
}

/// Neighbours of the same kind as one.
fn joined(pieces: impl Iterator<Item = Output>) -> Vec<Output> {
    let mut together: Vec<Output> = Vec::new();
    for piece in pieces {
        match (together.last_mut(), piece) {
            (Some(Output::Text(before)), Output::Text(text))
            | (Some(Output::Control(before)), Output::Control(text)) => before.push_str(&text),
            (_, piece) => together.push(piece),
        }
    }
    together
}

fn write(mut out: impl Write, text: &str) -> std::io::Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_printed_in_order_and_neighbours_of_a_kind_together() {
        let text = |text: &str| Output::Text(text.to_owned());
        let control = |text: &str| Output::Control(text.to_owned());
        let pieces = [text("a"), text("b\n"), control("<"), control("<"), text("c"), control("<"), text("d")];
        let together = [text("ab\n"), control("<<"), text("c"), control("<"), text("d")];
        assert_eq!(joined(pieces.into_iter()), together);
    }
}
