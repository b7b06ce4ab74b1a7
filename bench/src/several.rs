//! Several hubs on one PostgreSQL database, beside one hub on SQLite: durable answers a second, and how soon what is raised
//! at one hub is seen at another.

use crate::answers::{CALLERS, rate};
use crate::asks::Agents;
use crate::follow::messages;
use crate::home;
use crate::http::{Line, Target};
use crate::hub::Hub;
use crate::report::{Goal, Report, percentile};
use anyhow::Context;
use aye_testkit::postgres::Cluster;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::slice;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub struct Sizes {
    pub answers: usize,
    pub raises: usize,
}

const PATIENCE: Duration = Duration::from_secs(60);
/// What every machine has a copy of.
const SHARED_FILES: [&str; 3] = ["chain.key", "agent.key", "operator.token"];

pub async fn measure(
    program: &Path,
    folder: &Path,
    counts: &[u8],
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    eprintln!("one hub on SQLite");
    let hub = Hub::start(program, &home(folder, "sqlite")?)?;
    let answers = durable_answers(slice::from_ref(&hub), sizes).await?;
    report.add(format!("durable answers, {CALLERS} callers, SQLite"), answers, "/s", None);
    raise_to_seen(slice::from_ref(&hub), sizes, "SQLite", report).await?;
    hub.stop()?;
    let cluster = Cluster::durable();
    let mut of_one = None;
    for count in counts {
        eprintln!("{count} on PostgreSQL");
        let hubs = start(program, folder, &cluster, *count)?;
        let label = if *count == 1 { "one hub".to_owned() } else { format!("{count} hubs") };
        let answers = durable_answers(&hubs, sizes).await?;
        // Four hubs are to be at least as fast as one.
        let goal = of_one.filter(|_| *count == 4).map(Goal::AtLeast);
        of_one = of_one.or((*count == 1).then(|| answers.round()));
        report.add(format!("durable answers, {CALLERS} callers, {label}"), answers, "/s", goal);
        raise_to_seen(&hubs, sizes, &label, report).await?;
        hubs.into_iter().try_for_each(Hub::stop)?;
    }
    Ok(())
}

/// Hubs on a new database, each with a home of its own.
fn start(program: &Path, folder: &Path, cluster: &Cluster, count: u8) -> anyhow::Result<Vec<Hub>> {
    let config = format!("[store]\nurl = \"{}\"\n", cluster.new_database());
    let mut hubs = Vec::new();
    for n in 0..count {
        let name = |n: u8| format!("postgres-{count}-{n}");
        let home = home(folder, &name(n))?;
        fs::write(home.join("config.toml"), &config)?;
        for file in SHARED_FILES {
            if n > 0 {
                fs::copy(folder.join(name(0)).join(file), home.join(file))?;
            }
        }
        hubs.push(Hub::start(program, &home)?);
    }
    Ok(hubs)
}

async fn durable_answers(hubs: &[Hub], sizes: &Sizes) -> anyhow::Result<f64> {
    let agents = Agents::introduce(&hubs[0], "answers", CALLERS).await?;
    let open = agents.raise_many(&hubs[0], sizes.answers).await?;
    rate(hubs, CALLERS, open).await
}

/// From the moment an ask is sent to one hub to the moment a client of the next one has it, one ask after the other.
async fn raise_to_seen(hubs: &[Hub], sizes: &Sizes, label: &str, report: &mut Report) -> anyhow::Result<()> {
    let agents = Agents::introduce(&hubs[0], "seen", 1).await?;
    let mut clients = JoinSet::new();
    let mut seen = Vec::new();
    for hub in hubs {
        let (address, token) = (hub.address.clone(), hub.operator.clone());
        let (tell, told) = mpsc::channel(sizes.raises + 16);
        clients.spawn(async move { messages(&address, &token, |text| note(text, &tell)).await });
        seen.push(told);
    }
    for told in &mut seen {
        next(told).await.context("no snapshot")?;
    }
    let mut lines: Vec<_> = hubs.iter().map(|hub| Line::new(Target::Tcp(hub.address.clone()))).collect();
    let mut took = Vec::new();
    for n in 0..sizes.raises {
        let (here, there) = (n % hubs.len(), (n + 1) % hubs.len());
        let start = Instant::now();
        let raised = agents.raise(&mut lines[here], 0).await?;
        // What was raised before and seen there came first.
        let at = loop {
            let (id, at) = next(&mut seen[there]).await.context("what was raised was not seen")?;
            if id == raised.id {
                break at;
            }
        };
        took.push(u32::try_from(at.saturating_duration_since(start).as_micros())?);
    }
    let what = if hubs.len() > 1 { "raised at one hub, seen at another" } else { "raised, seen" };
    for (name, at, goal) in [("p50", 50.0, None), ("p99", 99.0, Some(Goal::Below(100.0)))] {
        let goal = goal.filter(|_| hubs.len() > 1);
        report.add(format!("{what}, {name}, {label}"), percentile(&mut took, at) / 1e3, "ms", goal);
    }
    clients.abort_all();
    Ok(())
}

async fn next(told: &mut mpsc::Receiver<(String, Instant)>) -> Option<(String, Instant)> {
    timeout(PATIENCE, told.recv()).await.ok().flatten()
}

/// Tells which ask a message is about, and when it came; of a snapshot, only that it came.
fn note(text: &[u8], tell: &mpsc::Sender<(String, Instant)>) {
    let now = Instant::now();
    if text.starts_with(br#"{"type":"snapshot""#) {
        drop(tell.try_send((String::new(), now)));
    } else if let Ok(message) = serde_json::from_slice::<Value>(text)
        && let Some(id) = message["ask"]["id"].as_str()
    {
        drop(tell.try_send((id.to_owned(), now)));
    }
}
