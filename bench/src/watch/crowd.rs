//! Many live sessions, of which now and then one asks.

use super::transcripts::{asks, says};
use crate::home;
use crate::http::{Line, Target};
use crate::hub::{Hub, cpu_of};
use crate::report::{Goal, Report, percent, percentile};
use anyhow::{Context, ensure};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Sizes {
    pub sessions: usize,
    pub appends: usize,
    pub idle: Duration,
}

struct Watch {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Watch {
    fn start(program: &Path, home: &Path, config: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("watch").arg("--config-dir").arg(config).env("AYE_HOME", home);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let said = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, said })
    }

    /// Waits for so many lines that say this.
    fn says(&mut self, words: &str, times: usize) -> anyhow::Result<()> {
        let mut line = String::new();
        for _ in 0..times {
            line.clear();
            while !line.contains(words) {
                line.clear();
                ensure!(self.said.read_line(&mut line)? > 0, "aye watch ended");
            }
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

pub async fn measure(
    program: &Path,
    folder: &Path,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    eprintln!("{} sessions", sizes.sessions);
    let (home, config) = (home(folder, "crowd")?, folder.join("config"));
    let transcripts = sessions(&config, sizes.sessions)?;
    let hub = Hub::start(program, &home)?;
    let start = Instant::now();
    let mut watch = Watch::start(program, &home, &config)?;
    watch.says("watched-", sizes.sessions)?;
    report.add("sessions followed, all of them after", start.elapsed().as_secs_f64(), "s", None);

    // The last of them has just been taken in.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let stat = format!("/proc/{}/stat", watch.child.id());
    let (before, at) = (cpu_of(&stat)?, Instant::now());
    tokio::time::sleep(sizes.idle).await;
    let spent = cpu_of(&stat)? - before;
    report.add("aye watch, idle", percent(spent, at.elapsed()), "% of a core", Some(Goal::Below(1.0)));

    let (mut seen, mut raised) = (Vec::new(), Vec::new());
    let mut line = Line::new(Target::Tcp(hub.address.clone()));
    for i in 0..sizes.appends {
        let transcript = &transcripts[i * 7919 % transcripts.len()];
        let id = format!("toolu_{i}");
        let mut file = OpenOptions::new().append(true).open(transcript)?;
        let text = format!("{}\n", asks(&id));
        let start = Instant::now();
        file.write_all(text.as_bytes())?;
        watch.says("asks", 1)?;
        seen.push(micros(start.elapsed()));
        let name = format!("\"{id}\"");
        while !line
            .get("/api/asks?state=open&limit=5", &hub.operator)
            .await?
            .expect(200)?
            .body
            .contains(&name)
        {}
        raised.push(micros(start.elapsed()));
        // Passed over, so that few are open at a time.
        writeln!(file, "{}", says("never mind"))?;
        watch.says("goes on", 1)?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ms = |values: &mut Vec<u32>, rank| percentile(values, rank) / 1e3;
    report.add("a line appended, until it is seen: p50", ms(&mut seen, 50.0), "ms", None);
    report.add("  p99", ms(&mut seen, 99.0), "ms", Some(Goal::AtMost(20.0)));
    report.add("  until its ask is on the hub, durable: p50", ms(&mut raised, 50.0), "ms", None);
    report.add("  p99", ms(&mut raised, 99.0), "ms", None);
    drop(watch);
    hub.stop()
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

/// Sessions that are alive as long as this program is, each with a transcript of a megabyte.
fn sessions(config: &Path, count: usize) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(config.join("sessions"))?;
    let filler = format!("{}\n", says(&"words ".repeat(10_000))).repeat(17);
    let mut transcripts = Vec::new();
    for i in 0..count {
        let session = json!({"pid": std::process::id(), "sessionId": format!("session-{i}"), "cwd": format!("/bench/{i}"),
            "kind": "interactive", "status": "idle"});
        fs::write(config.join(format!("sessions/{i}.json")), session.to_string())?;
        let folder = config.join(format!("projects/-bench-{i}"));
        fs::create_dir_all(&folder)?;
        let transcript = folder.join(format!("session-{i}.jsonl"));
        fs::write(&transcript, &filler)?;
        transcripts.push(transcript);
    }
    Ok(transcripts)
}
