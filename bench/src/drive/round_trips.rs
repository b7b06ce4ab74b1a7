//! How long an agent waits for a permission that a rule gives: through its adapter, the hub, the policy and the
//! trail, beside the same agent under claude-agent-sdk with a callback that records nothing. The agent itself
//! holds the watch, and the two take turns, so that both meet the same weather.

use super::Programs;
use crate::home;
use crate::hub::{Hub, cpu_of_children};
use crate::report::{Goal, Report, percentile};
use anyhow::{Context, ensure};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const IN_PYTHON: &str = include_str!("../../drive_with_sdk.py");
const IN_TYPESCRIPT: &str = include_str!("../../drive_with_sdk.mjs");

pub struct Sizes {
    pub rounds: usize,
    pub requests: usize,
}

pub fn measure(programs: &Programs, folder: &Path, sizes: &Sizes, report: &mut Report) -> anyhow::Result<()> {
    let home = home(folder, "round-trips")?;
    fs::write(home.join("config.toml"), "[policy]\nauto_approve = [\"Read\"]\n")?;
    let hub = Hub::start(&programs.aye, &home)?;
    let place = Place::make(folder, sizes.requests)?;
    let mut others = vec![Other::new("claude-agent-sdk for Python", with_python(programs, folder, &place)?)];
    if let Some(sdk) = &programs.typescript {
        let command = with_typescript(programs, sdk, folder, &place)?;
        others.push(Other::new("claude-agent-sdk for TypeScript", command));
    }
    let mut ours = Side::default();
    let (mut hub_spent, mut run_spent) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..sizes.rounds {
        for other in &mut others {
            other.side.add(place.time(&mut other.command)?);
        }
        let before = (hub.cpu()?, cpu_of_children()?);
        ours.add(place.time(&mut programs.run(&home, &place.folder))?);
        hub_spent += hub.cpu()? - before.0;
        run_spent += cpu_of_children()? - before.1;
        for other in &mut others {
            other.ratios.push(ours.last_median() / other.side.last_median());
        }
    }
    hub.stop()?;
    verify(programs, &home, sizes.rounds * sizes.requests)?;
    let sides = others.iter_mut().map(|other| (other.name, &mut other.side));
    for (name, side) in sides.chain([("aye", &mut ours)]) {
        for percent in [50.0, 99.0] {
            report.add(format!("{name}, p{percent}"), side.percentile(percent) / 1e3, "µs", None);
        }
    }
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / (sizes.rounds * sizes.requests) as f64;
    report.add("aye, processor time of the hub for one of them", each(hub_spent), "µs", None);
    report.add("aye, that of adapter and agent, with their start", each(run_spent), "µs", None);
    for other in &mut others {
        for percent in [50.0, 99.0] {
            let ratio = ours.percentile(percent) / other.side.percentile(percent);
            let goal = Some(Goal::AtMost(1.0));
            report.add(format!("round trip, ratio of p{percent} to {}", other.name), ratio, "", goal);
        }
        other.ratios.sort_by(f64::total_cmp);
        let (least, most) = (other.ratios[0], other.ratios[other.ratios.len() - 1]);
        report.add(format!("ratio of p50 to {}, the best round", other.name), least, "", None);
        report.add(format!("ratio of p50 to {}, the worst round", other.name), most, "", None);
    }
    Ok(())
}

/// What aye is compared with: the same agent, and a callback that records nothing.
struct Other {
    name: &'static str,
    command: Command,
    side: Side,
    ratios: Vec<f64>,
}

impl Other {
    fn new(name: &'static str, command: Command) -> Self {
        Self { name, command, side: Side::default(), ratios: Vec::new() }
    }
}

fn with_python(programs: &Programs, folder: &Path, place: &Place) -> anyhow::Result<Command> {
    let script = folder.join("drive_with_sdk.py");
    fs::write(&script, IN_PYTHON)?;
    let mut command = Command::new(&programs.python);
    command.arg(&script).arg(&programs.agent).arg(&place.folder).stdin(Stdio::null());
    Ok(command)
}

fn with_typescript(programs: &Programs, sdk: &Path, folder: &Path, place: &Place) -> anyhow::Result<Command> {
    let script = folder.join("drive_with_sdk.mjs");
    fs::write(&script, IN_TYPESCRIPT)?;
    let mut command = Command::new("node");
    command.arg(&script).arg(sdk).arg(&programs.agent).arg(&place.folder).stdin(Stdio::null());
    Ok(command)
}

/// Where the agent works, and leaves its times.
struct Place {
    folder: PathBuf,
    times: PathBuf,
    requests: usize,
}

impl Place {
    fn make(parent: &Path, requests: usize) -> anyhow::Result<Self> {
        let folder = parent.join("work");
        fs::create_dir(&folder)?;
        let input = json!({"file_path": folder.join("src/main.rs")});
        let block = json!({"type": "tool_use", "id": "toolu_read", "name": "Read", "input": input});
        let times = folder.join("times");
        let step = json!({"do": "measure", "requests": requests, "block": block, "times": times});
        fs::write(folder.join("scenario.json"), json!({"steps": [step]}).to_string())?;
        Ok(Self { folder, times, requests })
    }

    /// Nanoseconds for each request.
    fn time(&self, command: &mut Command) -> anyhow::Result<Vec<u32>> {
        let ended = command.status().context("the driver does not start")?;
        ensure!(ended.success(), "{command:?} ended with {ended}");
        let text = fs::read_to_string(&self.times).context("the agent left no times")?;
        fs::remove_file(&self.times)?;
        let times: Vec<u32> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(times.len() == self.requests, "{} times instead of {}", times.len(), self.requests);
        Ok(times)
    }
}

#[derive(Default)]
struct Side {
    all: Vec<u32>,
    last: Vec<u32>,
}

impl Side {
    fn add(&mut self, times: Vec<u32>) {
        self.all.extend_from_slice(&times);
        self.last = times;
    }

    fn last_median(&mut self) -> f64 {
        percentile(&mut self.last, 50.0)
    }

    fn percentile(&mut self, percent: f64) -> f64 {
        percentile(&mut self.all, percent)
    }
}

/// Every request is in the trail, and the trail is whole.
fn verify(programs: &Programs, home: &Path, asks: usize) -> anyhow::Result<()> {
    let verified = Command::new(&programs.aye).arg("verify").env("AYE_HOME", home).output()?;
    let words = String::from_utf8_lossy(&verified.stdout);
    ensure!(verified.status.success(), "the trail is not whole: {words}");
    ensure!(words.contains(&format!(" {asks} asks,")), "not every request was recorded: {words}");
    let settled = Command::new(&programs.aye).args(["log", "--json"]).env("AYE_HOME", home).output()?;
    let confirmed = String::from_utf8_lossy(&settled.stdout).matches("\"receipt.confirmed\"").count();
    ensure!(confirmed == asks, "{confirmed} of {asks} receipts are confirmed");
    Ok(())
}
