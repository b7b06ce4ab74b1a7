//! `scripts/bench hub`: the hub under load.

use crate::hub::Hub;
use crate::report::Report;
use crate::{answers, home, idle, load, several, size};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measures the hub: answers a second, fan-out, idling, and how it bears a long past.
#[derive(Args)]
pub struct Arguments {
    /// The program to measure
    #[arg(long, value_name = "FILE", default_value = "target/release/aye")]
    aye: PathBuf,
    /// How long the steady parts take
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Small sizes, to see that it works; its figures say nothing
    #[arg(long)]
    quick: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// With postgres: several hubs on one database, beside one on SQLite, and nothing else
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Store,
    /// How many hubs share the database
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u8).range(1..))]
    hubs: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
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
    several: several::Sizes,
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
            several: several::Sizes { answers: 6400, raises: 500 },
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
            several: several::Sizes { answers: 320, raises: 20 },
        }
    }
}

pub async fn measure(arguments: &Arguments, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let program = arguments.aye.canonicalize().with_context(|| format!("no {}", arguments.aye.display()))?;
    let plan = if arguments.quick { Plan::quick(arguments.seconds) } else { Plan::full(arguments.seconds) };
    if arguments.store == Store::Postgres {
        return several::measure(&program, folder, &arguments.hubs, &plan.several, report).await;
    }
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wants(Part::Answers) {
        eprintln!("answers");
        let plain = answers::plain_sqlite(folder, Duration::from_secs(2))?;
        report.add("plain SQLite, one row a commit, synchronous=FULL", plain, "/s", None);
        let hub = Hub::start(&program, &home(folder, "answers")?)?;
        answers::measure(&hub, &plan.answers, "", report).await?;
        hub.stop()?;
    }
    if wants(Part::Load) {
        let sizes = &plan.load;
        eprintln!("{} open asks, {} clients, {} answers/s", sizes.asks, sizes.clients, sizes.rate);
        let hub = Hub::start(&program, &home(folder, "load")?)?;
        load::measure(hub, sizes, report).await?;
    }
    if wants(Part::Idle) {
        eprintln!("idle");
        let hub = Hub::start(&program, &home(folder, "idle")?)?;
        idle::measure(&hub, plan.adapters, plan.idle, report).await?;
        hub.stop()?;
    }
    if wants(Part::Size) {
        eprintln!("size");
        size::measure(&program, &home(folder, "size")?, &plan.size, report).await?;
    }
    Ok(())
}
