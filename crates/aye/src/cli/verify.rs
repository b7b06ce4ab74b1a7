use super::progress::Progress;
use super::{Done, UNCHECKED, open_database, say};
use crate::home::Home;
use crate::store::verify::{Against, Verified};
use anyhow::Context;
use clap::Args;
use std::process::ExitCode;

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
        let verified = database.verify(&against, |done, all| {
            if is_shown(done) {
                bar.show("lines", done, all);
            }
        });
        bar.clear();
        let verified = verified.context("the trail is not whole")?;
        say(&in_words(&verified))?;
        Ok(if verified.unchecked.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(UNCHECKED) })
    }
}

/// Looking at the clock for every line would cost as much as checking it.
pub fn is_shown(done: u64) -> bool {
    done.is_multiple_of(256)
}

pub fn in_words(verified: &Verified) -> String {
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
