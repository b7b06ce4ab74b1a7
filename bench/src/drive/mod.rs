//! `scripts/bench drive`: scripted agents, each driven by an `aye run` of its own.

mod agents;
mod crowd;
mod round_trips;

pub use crowd::open_asks;

use crate::report::Report;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Measures what driving an agent costs.
#[derive(Args)]
pub struct Arguments {
    /// The program to measure
    #[arg(long, value_name = "FILE", default_value = "target/release/aye")]
    aye: PathBuf,
    /// The scripted agent
    #[arg(long, value_name = "FILE", default_value = "target/release/scripted-agent")]
    agent: PathBuf,
    /// A Python that has claude-agent-sdk
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// The module of claude-agent-sdk for TypeScript, which Node.js runs
    #[arg(long, value_name = "FILE")]
    typescript: Option<PathBuf>,
    /// How long the crowd is looked at
    #[arg(long, value_name = "N", default_value_t = 60)]
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
    RoundTrips,
    Crowd,
    Agents,
}

/// What is started, over and over.
struct Programs {
    aye: PathBuf,
    agent: PathBuf,
    python: PathBuf,
    typescript: Option<PathBuf>,
}

impl Programs {
    /// An agent that works in this folder, driven by `aye run`.
    fn run(&self, home: &Path, folder: &Path) -> Command {
        let mut command = Command::new(&self.aye);
        command.arg("run").arg("--cwd").arg(folder).arg("Go on.").env("AYE_HOME", home);
        command.env("AYE_CLAUDE", &self.agent);
        for name in ["AYE_URL", "AYE_TOKEN", "AYE_LOG", "AYE_SCENARIO"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

pub async fn measure(arguments: &Arguments, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let found = |file: &Path| file.canonicalize().with_context(|| format!("no {}", file.display()));
    let programs = Programs {
        aye: found(&arguments.aye)?,
        agent: found(&arguments.agent)?,
        python: arguments.python.clone(),
        typescript: arguments.typescript.clone(),
    };
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wants(Part::RoundTrips) {
        let sizes = match arguments.quick {
            true => round_trips::Sizes { rounds: 2, requests: 100 },
            false => round_trips::Sizes { rounds: 10, requests: 1000 },
        };
        eprintln!("round trips: {} rounds of {} requests each way", sizes.rounds, sizes.requests);
        round_trips::measure(&programs, folder, &sizes, report)?;
    }
    if wants(Part::Crowd) {
        let (agents, during) = match arguments.quick {
            true => (20, Duration::from_secs(arguments.seconds.min(3))),
            false => (1000, Duration::from_secs(arguments.seconds)),
        };
        eprintln!("a crowd of {agents} agents");
        crowd::measure(&programs, folder, agents, during, report).await?;
    }
    if wants(Part::Agents) {
        let (agents, during) = match arguments.quick {
            true => (20, Duration::from_secs(arguments.seconds.min(3))),
            false => (200, Duration::from_secs(arguments.seconds)),
        };
        eprintln!("{agents} agents of each protocol");
        agents::measure(&programs, folder, agents, during, report).await?;
    }
    Ok(())
}
