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
        if done.is_multiple_of(256) && self.is_due(Instant::now()) {
            self.shown = true;
            self.print(&drawn(done, all));
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|next| next <= now);
        if due {
            self.next = Some(now + SHORT / 10);
        }
        due
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

fn drawn(done: u64, all: u64) -> String {
    let full = (BAR * done / all.max(1)).min(BAR);
    let bar: String = (0..BAR).map(|place| if place < full { '█' } else { '░' }).collect();
    format!("\r{bar} {done} of {all} lines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up_and_stays_as_wide_as_it_is() {
        let bar = |done, all| drawn(done, all).trim_start().split(' ').next().unwrap_or_default().to_owned();
        let filled = |done, all| bar(done, all).matches('█').count();
        assert_eq!(
            (filled(0, 60), filled(30, 60), filled(60, 60), filled(99, 60), filled(0, 0)),
            (0, 15, 30, 30, 0)
        );
        assert!(
            [(0, 60), (30, 60), (99, 60)].iter().all(|(done, all)| bar(*done, *all).chars().count() == 30)
        );
        assert!(drawn(256, 1000).ends_with(" 256 of 1000 lines"));
    }

    #[test]
    fn it_comes_after_a_second_then_ten_times_a_second_and_only_where_somebody_looks_on() {
        let start = Instant::now();
        let mut watched = Progress { next: Some(start + SHORT), shown: false };
        let due = |millis| start + Duration::from_millis(millis);
        let shown: Vec<u64> =
            [0, 999, 1000, 1050, 1100, 1199].into_iter().filter(|at| watched.is_due(due(*at))).collect();
        assert_eq!(shown, [1000, 1100]);
        let mut unwatched = Progress { next: None, shown: false };
        assert!(!unwatched.is_due(due(5000)));
    }
}
