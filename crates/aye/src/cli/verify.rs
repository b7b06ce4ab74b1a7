use super::{Done, UNCHECKED, open_database, say};
use crate::home::Home;
use crate::store::verify::{Against, Verified};
use anyhow::Context;
use clap::Args;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A check that takes longer shows how far it is.
const SHORT: Duration = Duration::from_secs(1);
const BAR: u64 = 30;

/// Check the audit log, and compare the database with it.
#[derive(Args)]
#[command(after_help = "\
Prints the head, the hash of the last entry. Whoever can write all of AYE_HOME can also replace the
log, so note the head elsewhere from time to time, and check later that the log still contains it:
  aye verify --contains 3b1f…

Exit codes: 0 whole, 1 broken, 6 nothing wrong, but not all of it could be checked.
A part cannot be checked when chain.key is missing or was lost once. Works without a running hub, too.")]
pub struct Verify {
    /// A hash that you noted earlier and that must still be in the log
    #[arg(long, value_name = "HASH")]
    contains: Option<String>,
}

impl Verify {
    pub fn run(self, home: &Home) -> Done {
        let database = open_database(home)?;
        let against = Against::in_home(home)
            .with_context(|| format!("cannot read {}", home.chain_key_file().display()))?;
        let against = Against { contains: self.contains, ..against };
        let mut bar = Progress::new();
        let verified = database.verify(&against, |done, all| bar.show(done, all));
        bar.clear();
        let verified = verified.context("the trail is not whole")?;
        say(&in_words(&verified))?;
        Ok(if verified.unchecked.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(UNCHECKED) })
    }
}

fn in_words(verified: &Verified) -> String {
    let Verified { lines, asks, grants, tokens, head, unchecked, remarks } = verified;
    let found = match unchecked.is_empty() {
        true => "The trail is whole",
        false => "Nothing wrong was found, but a part of the trail cannot be checked",
    };
    let mut words = format!("{found}: {lines} lines, {asks} asks, {grants} grants, {tokens} tokens.\n");
    for sentence in unchecked.iter().chain(remarks) {
        words += &format!("{sentence}\n");
    }
    words + &format!("head {head}\n")
}

/// How far a long check is, for a person who looks on.
struct Progress {
    next: Option<Instant>,
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { next: watched.then(|| Instant::now() + SHORT), shown: false }
    }

    fn show(&mut self, done: u64, all: u64) {
        // Looking at the clock for every line would cost as much as checking it.
        let Some(next) = self.next.filter(|_| done.is_multiple_of(256)) else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        self.next = Some(now + SHORT / 10);
        self.shown = true;
        let full = (BAR * done / all.max(1)).min(BAR);
        let bar: String = (0..BAR).map(|place| if place < full { '█' } else { '░' }).collect();
        self.print(&format!("\r{bar} {done} of {all} lines"));
    }

    fn clear(&mut self) {
        if self.shown {
            self.print("\r\x1b[K");
        }
    }

    /// A terminal that is gone does not stop a check.
    fn print(&self, text: &str) {
        drop(std::io::stderr().write_all(text.as_bytes()));
    }
}
