//! `scripts/bench hub`: the real hub under load, beside what is hoped for.

mod answers;
mod asks;
mod follow;
mod http;
mod hub;
mod idle;
mod load;
mod past;
mod report;
mod size;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use hub::Hub;
use report::Report;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Measures the hub: answers a second, fan-out, idling, and how it bears a long past.
#[derive(Parser)]
struct Arguments {
    /// The program to measure
    #[arg(long, value_name = "FILE", default_value = "target/release/aye")]
    aye: PathBuf,
    /// How long the steady parts take
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Small sizes, to see that it works; its figures say nothing
    #[arg(long)]
    quick: bool,
    /// Print JSON and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Answers,
    Load,
    Idle,
    Size,
}

struct Plan {
    answers: answers::Sizes,
    load: load::Sizes,
    adapters: usize,
    idle: Duration,
    size: size::Sizes,
}

impl Plan {
    fn full(seconds: u64) -> Self {
        let during = Duration::from_secs(seconds);
        Self {
            answers: answers::Sizes { many: 19_200, one: 1000 },
            load: load::Sizes { asks: 5000, agents: 500, clients: 500, rate: 200, during },
            adapters: 1000,
            idle: during,
            size: size::Sizes {
                totals: vec![10_000, 100_000, 1_000_000],
                answers: answers::Sizes { many: 12_800, one: 500 },
                verify: false,
            },
        }
    }

    fn quick(seconds: u64) -> Self {
        let during = Duration::from_secs(seconds.min(3));
        Self {
            answers: answers::Sizes { many: 640, one: 50 },
            load: load::Sizes { asks: 200, agents: 20, clients: 20, rate: 100, during },
            adapters: 50,
            idle: during,
            size: size::Sizes {
                totals: vec![200, 1000],
                answers: answers::Sizes { many: 640, one: 50 },
                verify: true,
            },
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let program = arguments.aye.canonicalize().with_context(|| format!("no {}", arguments.aye.display()))?;
    let plan = if arguments.quick { Plan::quick(arguments.seconds) } else { Plan::full(arguments.seconds) };
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::Builder::new().prefix("aye-bench").tempdir()?;
    allow_many_connections();
    runtime.block_on(async {
        if wants(Part::Answers) {
            eprintln!("answers");
            let plain = answers::plain_sqlite(folder.path(), Duration::from_secs(2))?;
            report.add("plain SQLite, one row a commit, synchronous=FULL", plain, "/s", None);
            let hub = Hub::start(&program, &home(folder.path(), "answers")?)?;
            answers::measure(&hub, &plan.answers, "", &mut report).await?;
            hub.stop()?;
        }
        if wants(Part::Load) {
            let sizes = &plan.load;
            eprintln!("{} open asks, {} clients, {} answers/s", sizes.asks, sizes.clients, sizes.rate);
            let hub = Hub::start(&program, &home(folder.path(), "load")?)?;
            load::measure(hub, sizes, &mut report).await?;
        }
        if wants(Part::Idle) {
            eprintln!("idle");
            let hub = Hub::start(&program, &home(folder.path(), "idle")?)?;
            idle::measure(&hub, plan.adapters, plan.idle, &mut report).await?;
            hub.stop()?;
        }
        if wants(Part::Size) {
            eprintln!("size");
            size::measure(&program, &home(folder.path(), "size")?, &plan.size, &mut report).await?;
        }
        anyhow::Ok(())
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
