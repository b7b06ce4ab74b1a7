//! How the hub bears a long past: its start, its lists, and its answers.

use crate::answers;
use crate::asks::Agents;
use crate::http::{Line, Target};
use crate::hub::Hub;
use crate::past;
use crate::report::{Goal, Report, millis};
use anyhow::ensure;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub struct Sizes {
    pub totals: Vec<usize>,
    pub answers: answers::Sizes,
    /// Whether the generated past is checked by the program itself, which takes a while.
    pub verify: bool,
}

const OPEN: usize = 200;
const REPEATS: u32 = 5;

pub async fn measure(program: &Path, home: &Path, sizes: &Sizes, report: &mut Report) -> anyhow::Result<()> {
    for (i, total) in sizes.totals.iter().enumerate() {
        let last = i + 1 == sizes.totals.len();
        // The first start makes the tables.
        let first = Hub::start(program, home)?;
        let database = first.database();
        first.stop()?;
        past::extend(&database, *total)?;
        let label = format!(", {total} ended asks");
        let (mut fastest, mut slowest) = (Duration::MAX, Duration::ZERO);
        for _ in 0..REPEATS {
            let hub = Hub::start(program, home)?;
            (fastest, slowest) = (fastest.min(hub.started_in), slowest.max(hub.started_in));
            hub.stop()?;
        }
        report.add(
            format!("start-up, slowest of {REPEATS}{label}"),
            millis(slowest),
            "ms",
            Some(Goal::Below(1000.0)),
        );
        report.add(format!("start-up, fastest of {REPEATS}{label}"), millis(fastest), "ms", None);
        if sizes.verify && last {
            let verified = Command::new(program).arg("verify").env("AYE_HOME", home).output()?;
            ensure!(verified.status.success(), "verify: {}", String::from_utf8_lossy(&verified.stderr));
        }
        let hub = Hub::start(program, home)?;
        lists(&hub, &label, report).await?;
        if last {
            answers::measure(&hub, &sizes.answers, &label, report).await?;
        }
        hub.stop()?;
    }
    Ok(())
}

async fn lists(hub: &Hub, label: &str, report: &mut Report) -> anyhow::Result<()> {
    let agents = Agents::introduce(hub, &format!("lists{}", label.len()), 20).await?;
    let open = agents.raise_many(hub, OPEN).await?;
    let mut line = Line::new(Target::Tcp(hub.address.clone()));
    let by_id = format!("/api/asks?id={}&limit=20", &open[0].id[..6]);
    let calls = [
        ("GET asks?state=open", "/api/asks?state=open"),
        ("GET asks?state=answered&limit=50", "/api/asks?state=answered&limit=50"),
        ("GET asks?state=expired&limit=50", "/api/asks?state=expired&limit=50"),
        ("GET asks?id=PREFIX", &by_id),
        ("GET agents", "/api/agents"),
    ];
    for (name, path) in calls {
        line.get(path, &hub.operator).await?.expect(200)?;
        let start = Instant::now();
        for _ in 0..REPEATS {
            line.get(path, &hub.operator).await?.expect(200)?;
        }
        report.add(format!("{name}{label}"), millis(start.elapsed() / REPEATS), "ms", None);
    }
    // Left open they would make the next lists longer.
    for ask in open {
        line.post(&ask.answer_path(), &hub.operator, &ask.answer()).await?.expect(200)?;
    }
    Ok(())
}
