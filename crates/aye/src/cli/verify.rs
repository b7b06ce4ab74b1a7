use super::{Done, open_database, say};
use crate::home::Home;
use crate::store::audit;
use anyhow::Context;
use clap::Args;
use std::process::ExitCode;

/// Check that the audit trail is whole, and that every ask is as the trail says.
#[derive(Args)]
#[command(after_help = "\
Prints the head: the hash of the last line. A chain alone cannot show that its tail was cut off, so
note the head somewhere else from time to time, and later check that the trail still contains it:
  aye verify --contains 3b1f…

Exit codes: 0 whole, 1 broken. Works with and without a running hub.")]
pub struct Verify {
    /// A head noted earlier, which must still be part of the trail
    #[arg(long, value_name = "HASH")]
    contains: Option<String>,
}

impl Verify {
    pub fn run(self, home: &Home) -> Done {
        let mut connection = open_database(home)?;
        let verified =
            audit::verify(&mut connection, self.contains.as_deref()).context("the trail is not whole")?;
        say(&format!(
            "The trail is whole: {} lines, {} asks.\nhead {}\n",
            verified.lines, verified.asks, verified.head
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
