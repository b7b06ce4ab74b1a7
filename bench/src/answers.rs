//! How many answers a second are on disk, with many callers and with one.

use crate::asks::{Agents, Open, at_once};
use crate::http::{Line, Target};
use crate::hub::Hub;
use crate::report::{Goal, Report};
use rusqlite::Connection;
use std::path::Path;
use std::slice;
use std::time::{Duration, Instant};

pub const CALLERS: usize = 64;

pub struct Sizes {
    pub many: usize,
    pub one: usize,
}

/// The ratio between both, measured around each other: a disk has its moods.
pub async fn measure(hub: &Hub, sizes: &Sizes, label: &str, report: &mut Report) -> anyhow::Result<()> {
    let agents = Agents::introduce(hub, &format!("answers{}", label.len()), CALLERS).await?;
    let mut open = agents.raise_many(hub, sizes.many + 2 * sizes.one).await?;
    let mut rest = open.split_off(sizes.one);
    let many = rest.split_off(sizes.one);
    let hubs = slice::from_ref(hub);
    let before = rate(hubs, 1, open).await?;
    let (count, cpu) = (many.len(), hub.cpu()?);
    let all = rate(hubs, CALLERS, many).await?;
    let cpu = (hub.cpu()? - cpu).as_secs_f64() * 1e6 / count as f64;
    let after = rate(hubs, 1, rest).await?;
    let one = (before + after) / 2.0;
    report.add(format!("durable answers, {CALLERS} callers{label}"), all, "/s", None);
    report.add(format!("durable answers, one caller, one fsync each{label}"), one, "/s", None);
    report.add(format!("ratio{label}"), all / one, "x", Some(Goal::AtLeast(6.0)));
    let goal = Some(Goal::AtMost(60.0));
    report.add(format!("hub, processor time for one of them{label}"), cpu, "us", goal);
    Ok(())
}

/// Answers a second, by callers that are spread over the hubs.
pub async fn rate(hubs: &[Hub], callers: usize, asks: Vec<Open>) -> anyhow::Result<f64> {
    let (token, count) = (hubs[0].operator.clone(), asks.len());
    let mut targets = hubs.iter().map(|hub| Target::Tcp(hub.address.clone())).cycle();
    let start = Instant::now();
    let answer = move |mut line: Line, ask: Open| {
        let token = token.clone();
        async move {
            line.post(&ask.answer_path(), &token, &ask.answer()).await?.expect(200)?;
            Ok((line, ()))
        }
    };
    at_once(callers, asks, || Line::new(targets.next().unwrap_or_else(|| unreachable!())), answer).await?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// What the disk allows: one row, one commit, nothing around it.
pub fn plain_sqlite(folder: &Path, during: Duration) -> anyhow::Result<f64> {
    let connection = Connection::open(folder.join("plain.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE answers (n INTEGER PRIMARY KEY, answer TEXT NOT NULL) STRICT")?;
    let mut insert = connection.prepare("INSERT INTO answers (answer) VALUES (?1)")?;
    let (row, start) = ("x".repeat(500), Instant::now());
    let mut rows = 0;
    while start.elapsed() < during {
        insert.execute([&row])?;
        rows += 1;
    }
    Ok(f64::from(rows) / start.elapsed().as_secs_f64())
}
