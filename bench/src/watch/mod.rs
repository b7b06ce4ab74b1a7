//! Sessions in somebody's own terminal: what a long transcript costs, a crowd of them, and a hook that waits.

mod crowd;
mod hook;
mod scan;
mod transcripts;

use crate::report::Report;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
pub struct Arguments {
    /// The program to measure
    #[arg(long, value_name = "FILE", default_value = "target/release/aye")]
    aye: PathBuf,
    /// How long nothing happens while idling is measured
    #[arg(long, value_name = "N", default_value_t = 30)]
    seconds: u64,
    /// Small sizes, to see that it works; its figures say nothing
    #[arg(long)]
    quick: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Pending,
    Crowd,
    Hook,
}

pub async fn measure(arguments: &Arguments, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let program = arguments.aye.canonicalize().with_context(|| format!("no {}", arguments.aye.display()))?;
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wants(Part::Pending) {
        let size = if arguments.quick { 10_000_000 } else { 1_000_000_000 };
        scan::measure(&program, folder, size, report)?;
    }
    if wants(Part::Crowd) {
        let sizes = match arguments.quick {
            true => crowd::Sizes { sessions: 20, appends: 20, idle: Duration::from_secs(3) },
            false => {
                crowd::Sizes { sessions: 500, appends: 500, idle: Duration::from_secs(arguments.seconds) }
            }
        };
        crowd::measure(&program, folder, &sizes, report).await?;
    }
    if wants(Part::Hook) {
        hook::measure(&program, folder, report).await?;
    }
    Ok(())
}
