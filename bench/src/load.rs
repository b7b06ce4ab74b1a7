//! Many open asks, many who watch, and answers at a steady rate that does not wait for the hub.

use crate::asks::{Agents, Open};
use crate::follow::{Seen, follow};
use crate::http::{Line, Target};
use crate::hub::{Hub, own_cpu};
use crate::report::{Goal, Report, millis, percent, percentile};
use anyhow::{Context, ensure};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Turn, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

pub struct Sizes {
    pub asks: usize,
    pub agents: usize,
    pub clients: usize,
    pub rate: u32,
    pub during: Duration,
}

const ANSWERING: usize = 64;
/// A token may open 256.
const SOCKETS_OF_A_TOKEN: usize = 200;
const RAISING: usize = 32;
const PATIENCE: Duration = Duration::from_secs(60);

/// When an answer should have been sent, and when it was acknowledged.
struct Ack {
    id: String,
    scheduled: Duration,
    acked: Duration,
}

pub async fn measure(hub: Hub, sizes: &Sizes, report: &mut Report) -> anyhow::Result<()> {
    let agents = Agents::introduce(&hub, "load", sizes.agents).await?;
    let open = agents.raise_many(&hub, sizes.asks).await?;

    let (epoch, ready) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let (address, count) = (hub.address.clone(), sizes.clients);
    let tokens = (0..count.div_ceil(SOCKETS_OF_A_TOKEN)).map(|_| hub.token("operator"));
    let tokens = tokens.collect::<anyhow::Result<Vec<_>>>()?;
    let counted = ready.clone();
    let followers = std::thread::spawn(move || follow(&address, &tokens, count, epoch, &counted));
    while ready.load(Ordering::SeqCst) < count {
        ensure!(epoch.elapsed() < PATIENCE, "only {} snapshots came", ready.load(Ordering::SeqCst));
        ensure!(!followers.is_finished(), "the followers ended early");
        sleep(Duration::from_millis(5)).await;
    }
    let what = format!("{count} clients connect at once, snapshots of {} asks", sizes.asks);
    report.add(what, epoch.elapsed().as_secs_f64(), "s", None);
    sleep(Duration::from_secs(2)).await;

    let (hub_before, own_before, start) = (hub.cpu()?, own_cpu()?, Instant::now());
    let acks = answer_steadily(&hub, sizes, agents, open, epoch).await?;
    let (hub_cpu, own_cpu, took) = (hub.cpu()? - hub_before, own_cpu()? - own_before, start.elapsed());
    let memory = hub.memory()?;
    // What is still on its way gets a moment; then the hub's end is the clients' end.
    sleep(Duration::from_secs(2)).await;
    hub.stop()?;
    let seen = followers.join().map_err(|_| anyhow::anyhow!("the followers panicked"))??;

    let mut waits: Vec<u32> =
        acks.iter().map(|ack| micros(ack.acked.saturating_sub(ack.scheduled))).collect();
    for (name, at, goal) in
        [("p50", 50.0, None), ("p99", 99.0, Some(Goal::Below(50.0))), ("max", 100.0, None)]
    {
        report.add(format!("acknowledgement, {name}"), percentile(&mut waits, at) / 1e3, "ms", goal);
    }
    fan_out(&acks, &seen, report)?;
    report.add("answers acknowledged", acks.len() as f64 / took.as_secs_f64(), "/s", None);
    let messages: usize = seen.iter().map(|seen| seen.at.len()).sum();
    report.add("messages to the clients", messages as f64 / took.as_secs_f64(), "/s", None);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    report.add("hub, resident memory", mb(memory.resident), "MB", Some(Goal::Below(300.0)));
    report.add("hub, proportional share (PSS)", mb(memory.proportional), "MB", None);
    report.add("hub, highest resident memory (at the snapshots)", mb(memory.peak), "MB", None);
    report.add("hub, processor", percent(hub_cpu, took), "% of a core", None);
    report.add("load generator, processor", percent(own_cpu, took), "% of a core", None);
    eprintln!("  ({} acks in {:.0} ms)", acks.len(), millis(took));
    Ok(())
}

/// Each answer is sent when its time has come, however long the ones before it take; another ask is
/// raised for each that was answered.
async fn answer_steadily(
    hub: &Hub,
    sizes: &Sizes,
    agents: Agents,
    open: Vec<Open>,
    epoch: Instant,
) -> anyhow::Result<Vec<Ack>> {
    let count = usize::try_from(u64::from(sizes.rate) * sizes.during.as_secs())?;
    let (answer, answers) = mpsc::channel::<(Open, Duration)>(count.max(1));
    let (raise, raises) = mpsc::channel::<usize>(count.max(1));
    let (answers, raises) = (Arc::new(Turn::new(answers)), Arc::new(Turn::new(raises)));
    let open = Arc::new(Mutex::new(VecDeque::from(open)));
    let (target, acks) = (Target::Tcp(hub.address.clone()), Arc::new(Mutex::new(Vec::with_capacity(count))));
    let mut workers = JoinSet::new();
    for _ in 0..ANSWERING {
        let (answers, raise, acks) = (answers.clone(), raise.clone(), acks.clone());
        let (mut line, token) = (Line::new(target.clone()), hub.operator.clone());
        workers.spawn(async move {
            while let Some((ask, scheduled)) = take(&answers).await {
                line.post(&ask.answer_path(), &token, &ask.answer()).await?.expect(200)?;
                let ack = Ack { id: ask.id, scheduled, acked: epoch.elapsed() };
                acks.lock().unwrap_or_else(PoisonError::into_inner).push(ack);
                raise.send(ask.agent).await?;
            }
            anyhow::Ok(())
        });
    }
    drop(raise);
    for _ in 0..RAISING {
        let (raises, agents, open) = (raises.clone(), agents.clone(), open.clone());
        let mut line = Line::new(target.clone());
        workers.spawn(async move {
            while let Some(agent) = take(&raises).await {
                let raised = agents.raise(&mut line, agent).await?;
                open.lock().unwrap_or_else(PoisonError::into_inner).push_back(raised);
            }
            anyhow::Ok(())
        });
    }
    let start = tokio::time::Instant::now() + Duration::from_millis(10);
    for i in 0..count {
        let at = start + Duration::from_secs(1) * u32::try_from(i)? / sizes.rate;
        sleep_until(at).await;
        let ask = open.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let ask = ask.context("no ask is open any more: the hub is far behind")?;
        answer.send((ask, at.into_std().duration_since(epoch))).await?;
    }
    drop(answer);
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(std::mem::take(&mut *acks.lock().unwrap_or_else(PoisonError::into_inner)))
}

async fn take<T>(queue: &Turn<mpsc::Receiver<T>>) -> Option<T> {
    queue.lock().await.recv().await
}

/// From the moment an answer was due to the moment each client had it.
fn fan_out(acks: &[Ack], seen: &[Seen], report: &mut Report) -> anyhow::Result<()> {
    let answered =
        &seen.iter().find(|seen| !seen.answered.is_empty()).context("nobody saw an answer")?.answered;
    let (mut from_due, mut from_ack, mut missed) = (Vec::new(), Vec::new(), 0u64);
    for ack in acks {
        let seq = answered.get(&ack.id).with_context(|| format!("nobody was told of {}", ack.id))?;
        for seen in seen {
            let index = seq.checked_sub(seen.first + 1).and_then(|index| usize::try_from(index).ok());
            match index.and_then(|index| seen.at.get(index)) {
                Some(&at) if at != u32::MAX => {
                    from_due.push(at.saturating_sub(micros(ack.scheduled)));
                    from_ack.push(at.saturating_sub(micros(ack.acked)));
                }
                _ => missed += 1,
            }
        }
    }
    for (name, at, goal) in
        [("p50", 50.0, None), ("p99", 99.0, Some(Goal::Below(250.0))), ("max", 100.0, None)]
    {
        report.add(
            format!("fan-out to every client, {name}"),
            percentile(&mut from_due, at) / 1e3,
            "ms",
            goal,
        );
    }
    let p99 = percentile(&mut from_ack, 99.0) / 1e3;
    report.add("fan-out counted from the acknowledgement, p99", p99, "ms", None);
    let wrong = missed + seen.iter().map(|seen| seen.out_of_order).sum::<u64>();
    report.add("changes missed, doubled or out of order", wrong as f64, "", Some(Goal::Below(1.0)));
    Ok(())
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
