//! What the hub costs while nothing happens but adapters that wait.

use crate::asks::Agents;
use crate::http::{Line, Target};
use crate::hub::Hub;
use crate::report::{Goal, Report, percent};
use anyhow::ensure;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Seconds a call waits at the hub: as long as adapters on its machine wait in one.
const WAIT: usize = 300;

pub async fn measure(
    hub: &Hub,
    adapters: usize,
    during: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let agents = Agents::introduce(hub, "idle", adapters).await?;
    let asks = agents.raise_many(hub, adapters).await?;
    let mut waiting = JoinSet::new();
    for (i, ask) in asks.into_iter().enumerate() {
        // Over the Unix socket and on a connection that is kept, as adapters do it.
        let mut line = Line::new(Target::Unix(hub.socket.clone()));
        let agents = agents.clone();
        waiting.spawn(async move {
            // They did not all come at once, so as many call again in any minute.
            let mut wait = 1 + i * WAIT / adapters;
            loop {
                let path = format!("/api/asks/{}/resolution?wait={wait}", ask.id);
                line.get(&path, agents.token(ask.agent)).await?.expect(204)?;
                wait = WAIT;
            }
            #[expect(unreachable_code, reason = "gives the task its type")]
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (before, start) = (hub.cpu()?, Instant::now());
    tokio::time::sleep(during).await;
    let (used, took) = (hub.cpu()? - before, start.elapsed());
    ensure!(waiting.try_join_next().is_none(), "an adapter stopped waiting");
    let memory = hub.memory()?.resident;
    waiting.shutdown().await;
    let goal = Some(Goal::Below(0.5));
    report.add(
        format!("idle with {adapters} waiting adapters, processor"),
        percent(used, took),
        "% of a core",
        goal,
    );
    report.add(format!("idle with {adapters} waiting adapters, memory"), memory as f64 / 1e6, "MB", None);
    Ok(())
}
