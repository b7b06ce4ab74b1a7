//! What is pending in one long transcript, beside what others need to read it once.

use super::transcripts::{asks, says, write_long};
use crate::hub::memory_of;
use crate::report::{Goal, Report, millis};
use anyhow::{Context, ensure};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;

/// Parses every line, and keeps what has no result and no later turn.
const NODE: &str = r#"
const lines = require('readline').createInterface({ input: require('fs').createReadStream(process.argv[1], { highWaterMark: 1 << 20 }) });
let open = new Map();
lines.on('line', text => {
  let line; try { line = JSON.parse(text); } catch { return; }
  if (line.type !== 'assistant' && line.type !== 'user') return;
  const content = line.message && line.message.content;
  const blocks = Array.isArray(content) ? content : [];
  if (line.type === 'assistant') {
    for (const b of blocks) if (b.type === 'tool_use' && b.name === 'AskUserQuestion') open.set(b.id, b.input);
  } else {
    const results = blocks.filter(b => b.type === 'tool_result');
    if (results.length === 0 && !line.isSidechain) open.clear();
    for (const b of results) open.delete(b.tool_use_id);
  }
});
lines.on('close', () => console.log(JSON.stringify([...open.keys()])));
"#;

pub fn measure(program: &Path, folder: &Path, size: usize, report: &mut Report) -> anyhow::Result<()> {
    eprintln!("a transcript of {} MB", size / 1_000_000);
    let transcript = folder.join("long.jsonl");
    write_long(&transcript, size)?;
    let pending = || {
        let mut command = Command::new(program);
        command.args(["pending", "--json"]).arg(&transcript).env("AYE_HOME", folder);
        command
    };
    let search = || {
        let mut command = Command::new("rg");
        command.args(["-c", "-e", "AskUserQuestion", "-e", "tool_result"]).arg(&transcript);
        command
    };
    // In turns, so that whatever else the machine does meets both.
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(time(search(), "").context("rg")?);
        ours.push(time(pending(), "toolu_pending")?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let mut node = Command::new("node");
    node.args(["-e", NODE]).arg(&transcript);
    let parsed = time(node, "toolu_pending").context("node")?;
    report.add("rg, one search for both words", millis(theirs), "ms", None);
    report.add("aye pending, one long turn", millis(ours), "ms", None);
    report.add("  of what rg needs", ours.div_duration_f64(theirs), "x", Some(Goal::AtMost(1.5)));
    report.add(
        "  faster than parsing every line in Node",
        parsed.div_duration_f64(ours),
        "x",
        Some(Goal::AtLeast(15.0)),
    );
    report.add("  peak resident memory", peak(pending())? as f64 / 1e6, "MB", Some(Goal::AtMost(64.0)));

    let mut file = OpenOptions::new().append(true).open(&transcript)?;
    writeln!(file, "{}\n{}", says("go on"), asks("toolu_after_turn"))?;
    drop(file);
    let mut after = Vec::new();
    for _ in 0..ROUNDS {
        after.push(time(pending(), "toolu_after_turn")?);
    }
    report.add("aye pending, the last turn near the end", millis(median(after)), "ms", None);
    Ok(std::fs::remove_file(transcript)?)
}

/// How long a command takes to print what it must.
fn time(mut command: Command, prints: &str) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let took = start.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && said.contains(prints), "{command:?} said {said:?}");
    Ok(took)
}

/// The most memory a command has had, in a run of its own: looking takes time from what is looked at.
fn peak(mut command: Command) -> anyhow::Result<u64> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        // It may end while it is looked at.
        peak = memory_of(child.id()).map_or(peak, |memory| memory.peak.max(peak));
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(peak)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
