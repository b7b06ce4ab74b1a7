//! `scripts/bench`: the real program at work, beside what is hoped for.

mod answers;
mod asks;
mod drive;
mod follow;
mod http;
mod hub;
mod idle;
mod load;
mod measure_hub;
mod past;
mod report;
mod several;
mod size;
mod watch;

use clap::{Parser, Subcommand};
use report::Report;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
    /// Print JSON and nothing else on standard output
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Part {
    /// The hub: answers a second, fan-out, idling, and how it bears a long past
    Hub(measure_hub::Arguments),
    /// Driven agents: the way of a permission there and back, and a crowd of agents that wait
    Drive(drive::Arguments),
    /// Sessions in a terminal: what is pending in a long transcript, a crowd of them, and a hook that waits
    Watch(watch::Arguments),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::Builder::new().prefix("aye-bench").tempdir()?;
    allow_many_connections();
    runtime.block_on(async {
        match &arguments.part {
            Part::Hub(arguments) => measure_hub::measure(arguments, folder.path(), &mut report).await,
            Part::Drive(arguments) => drive::measure(arguments, folder.path(), &mut report).await,
            Part::Watch(arguments) => watch::measure(arguments, folder.path(), &mut report).await,
        }
    })?;
    eprintln!("done in {} s", start.elapsed().as_secs());
    match arguments.json {
        true => println!("{:#}", report.json()),
        false => println!("{}", report.table()),
    }
    Ok(())
}

/// Each part begins with nothing.
fn home(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let home = folder.join(name);
    DirBuilder::new().mode(0o700).create(&home)?;
    Ok(home)
}

fn allow_many_connections() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit) {
        eprintln!("the limit of open files stays low: {error}");
    }
}
