//! What a crowd of driven agents costs while each waits for an answer.

use super::Programs;
use crate::home;
use crate::http::{Line, Target};
use crate::hub::{Hub, cpu_of_process, memory_of};
use crate::report::{Goal, Report, percent};
use anyhow::{Context, ensure};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// So many are started before those before them have asked.
const AT_ONCE: usize = 20;
const LONGEST_START: Duration = Duration::from_secs(300);

/// What a crowd costs.
pub struct Cost {
    pub hub_memory: u64,
    /// Of each adapter, smallest first.
    pub adapters: Vec<u64>,
    pub hub_processor: Duration,
    pub adapters_processor: Duration,
    pub took: Duration,
}

impl Cost {
    /// The mean of the adapters, in megabytes.
    pub fn adapter(&self) -> f64 {
        megabytes(self.adapters.iter().sum::<u64>()) / self.adapters.len().max(1) as f64
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

pub async fn measure(
    programs: &Programs,
    folder: &Path,
    agents: usize,
    during: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let cost = look(programs, folder, &Waiting::claude(programs), agents, during).await?;
    let name = |what: &str| format!("{agents} agents that wait: {what}");
    report.add(name("memory of the hub"), megabytes(cost.hub_memory), "MB", Some(Goal::Below(300.0)));
    let most = cost.adapters.last().copied().unwrap_or_default();
    report.add(name("an adapter, proportional"), cost.adapter(), "MB", Some(Goal::Below(8.0)));
    report.add(name("the largest adapter"), megabytes(most), "MB", Some(Goal::Below(8.0)));
    report.add(name("processor, the hub"), percent(cost.hub_processor, cost.took), "% of a core", None);
    let adapters = percent(cost.adapters_processor, cost.took);
    report.add(name("processor, all adapters"), adapters, "% of a core", None);
    let all = percent(cost.hub_processor + cost.adapters_processor, cost.took);
    report.add(name("processor in all"), all, "% of a core", Some(Goal::Below(0.5)));
    Ok(())
}

/// Gathers a crowd of such agents, and looks at it for a while.
pub async fn look(
    programs: &Programs,
    folder: &Path,
    waiting: &Waiting,
    agents: usize,
    during: Duration,
) -> anyhow::Result<Cost> {
    let home = home(folder, &format!("crowd-{}", waiting.kind))?;
    let hub = Hub::start(&programs.aye, &home)?;
    let work = folder.join(format!("crowd-work-{}", waiting.kind));
    fs::create_dir(&work)?;
    fs::write(work.join(waiting.file), waiting.script.to_string())?;
    let crowd = Crowd::gather(programs, &home, &work, &hub, waiting, agents).await?;

    // What they needed only to start is given back, and the hub has closed the lines that rest.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let (before, start) = (Spent::so_far(&hub, &crowd)?, Instant::now());
    tokio::time::sleep(during).await;
    let (after, took) = (Spent::so_far(&hub, &crowd)?, start.elapsed());
    let hub_memory = hub.memory()?.resident;
    let mut adapters =
        crowd.pids().map(|pid| Ok(memory_of(pid)?.proportional)).collect::<anyhow::Result<Vec<_>>>()?;
    adapters.sort_unstable();
    ensure!(open_asks(&hub).await? == agents, "not every request is still open");
    crowd.disperse()?;
    hub.stop()?;
    let (hub_processor, adapters_processor) = (after.hub - before.hub, after.adapters - before.adapters);
    Ok(Cost { hub_memory, adapters, hub_processor, adapters_processor, took })
}

/// An agent that asks once and waits.
pub struct Waiting {
    pub kind: &'static str,
    /// Names its program.
    pub variable: &'static str,
    pub program: PathBuf,
    /// What it does is in this file of its folder.
    pub file: &'static str,
    pub script: serde_json::Value,
}

impl Waiting {
    pub fn claude(programs: &Programs) -> Self {
        let program = programs.agent.clone();
        let script = question();
        Self { kind: "claude", variable: "AYE_CLAUDE", program, file: "scenario.json", script }
    }
}

fn question() -> serde_json::Value {
    let options = json!([
        {"label": "SQLite", "description": "One file beside the program"},
        {"label": "PostgreSQL", "description": "A server of its own"},
    ]);
    let question = json!({
        "question": "Which database should the service use?", "header": "Database", "options": options, "multiSelect": false,
    });
    let input = json!({ "questions": [question] });
    json!({"steps": [[{"type": "tool_use", "id": "toolu_question", "name": "AskUserQuestion", "input": input}]]})
}

/// The adapters; each has started its agent.
struct Crowd {
    adapters: Vec<Child>,
}

impl Crowd {
    async fn gather(
        programs: &Programs,
        home: &Path,
        work: &Path,
        hub: &Hub,
        waiting: &Waiting,
        agents: usize,
    ) -> anyhow::Result<Self> {
        let mut crowd = Self { adapters: Vec::with_capacity(agents) };
        let start = Instant::now();
        while crowd.adapters.len() < agents {
            for _ in 0..AT_ONCE.min(agents - crowd.adapters.len()) {
                let mut command = programs.run(home, work);
                command.args(["--agent", waiting.kind]).env(waiting.variable, &waiting.program);
                // Only what cannot be borne ends here: a thousand of them would log to one terminal.
                crowd.adapters.push(command.stderr(Stdio::null()).spawn()?);
            }
            while open_asks(hub).await? < crowd.adapters.len() {
                ensure!(start.elapsed() < LONGEST_START, "the agents take too long to ask");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(crowd)
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        self.adapters.iter().map(Child::id)
    }

    /// SIGTERM ends an adapter, which ends its agent.
    fn disperse(mut self) -> anyhow::Result<()> {
        for adapter in &self.adapters {
            let pid = rustix::process::Pid::from_child(adapter);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        for adapter in &mut self.adapters {
            adapter.wait()?;
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for adapter in &mut self.adapters {
            // Most have ended already.
            adapter.kill().unwrap_or_default();
            drop(adapter.wait());
        }
    }
}

struct Spent {
    hub: Duration,
    adapters: Duration,
}

impl Spent {
    fn so_far(hub: &Hub, crowd: &Crowd) -> anyhow::Result<Self> {
        let adapters = crowd.pids().map(cpu_of_process).sum::<anyhow::Result<Duration>>()?;
        Ok(Self { hub: cpu_of_process(hub.pid())?, adapters })
    }
}

pub async fn open_asks(hub: &Hub) -> anyhow::Result<usize> {
    let mut line = Line::new(Target::Tcp(hub.address.clone()));
    let reply = line.get("/metrics", &hub.operator).await?.expect(200)?;
    let open = reply.body.lines().filter(|line| line.starts_with("aye_asks{") && line.contains("\"open\""));
    open.map(|line| Ok(line.rsplit(' ').next().context("no figure")?.parse::<usize>()?)).sum()
}
