//! The file in which Codex keeps a session, one line for each thing that happened. A session that was not begun by us tells
//! nowhere else what the model is told of a question.

use crate::agents::lines::Line;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// As much is read at once; a longer line is passed by.
const MOST: u64 = 4 * 1024 * 1024;

/// Says what the model is told of calls from now on, in the words in which Codex tells it in a session of ours.
pub async fn follow<T: From<Line> + Send>(mut files: mpsc::Receiver<PathBuf>, inputs: mpsc::Sender<T>) {
    let mut known: Vec<(PathBuf, u64)> = Vec::new();
    let mut look = interval(BETWEEN_LOOKS);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inputs.closed() => return,
            Some(path) = files.recv() => {
                if !known.iter().any(|(file, _)| *file == path) {
                    let end = fs::metadata(&path).map_or(0, |found| found.len());
                    known.push((path, end));
                }
            }
            _ = look.tick() => {
                for (path, from) in &mut known {
                    let (file, begin) = (path.clone(), *from);
                    let added = match spawn_blocking(move || added(&file, begin)).await {
                        Ok(Ok(added)) => added,
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "the session's file cannot be read");
                            continue;
                        }
                        Err(_) => return,
                    };
                    *from += added.len() as u64;
                    for output in outputs(&added) {
                        if inputs.send(Line::Whole(output).into()).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// The whole lines that came since.
fn added(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if fs::metadata(path)?.len() <= from {
        return Ok(bytes);
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    file.take(MOST).read_to_end(&mut bytes)?;
    match memchr::memrchr(b'\n', &bytes) {
        Some(end) => bytes.truncate(end + 1),
        None if bytes.len() as u64 == MOST => {}
        // Still being written.
        None => bytes.clear(),
    }
    Ok(bytes)
}

fn outputs(lines: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let lines = lines.split(|byte| *byte == b'\n');
    lines.filter(|line| memchr::memmem::find(line, b"_call_output").is_some()).filter_map(|line| {
        let mut line: Value = aye_core::json::parse(line).ok()?;
        let item = line["payload"].take();
        let told = json!({ "method": "rawResponseItem/completed", "params": { "item": item } });
        (line["type"] == "response_item").then(|| told.to_string().into_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn what_the_model_is_told_from_now_on_is_passed_on_once_its_line_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rollout.jsonl");
        let output = |call: &str| {
            let payload = json!({"type": "function_call_output", "call_id": call, "output": "x"});
            json!({"type": "response_item", "payload": payload}).to_string()
        };
        std::fs::write(&path, format!("{}\n", output("before"))).unwrap();
        let (files, told) = mpsc::channel(1);
        let (inputs, mut said) = mpsc::channel::<Line>(4);
        let mut following = tokio::task::JoinSet::new();
        following.spawn(follow(told, inputs));
        files.send(path.clone()).await.unwrap();
        // Taken up once there is room for another.
        files.send(dir.path().join("not there")).await.unwrap();
        files.send(dir.path().join("not there")).await.unwrap();
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        let (first, second) = (output("first"), output("second"));
        write!(file, "{{\"type\":\"event_msg\"}}\nno json _call_output\n{first}\n{}", &second[..10]).unwrap();
        let call = |line: Line| match line {
            Line::Whole(line) => {
                serde_json::from_slice::<Value>(&line).unwrap()["params"]["item"]["call_id"].clone()
            }
            Line::TooLong { .. } => panic!("too long"),
        };
        assert_eq!(call(said.recv().await.unwrap()), "first");
        writeln!(file, "{}", &second[10..]).unwrap();
        assert_eq!(call(said.recv().await.unwrap()), "second");
        drop(said);
        following.join_next().await.unwrap().unwrap();
    }
}
