//! An agent that reads from a pseudo-terminal is told just what one at a pipe is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use aye::agents::driven::Writer;
use aye::agents::driven::process::{Agent, Launch, Pipes, spawn};
use aye::config::Stdin;
use aye_testkit::agent::{heard, scripted_agent};
use aye_testkit::patience::eventually;
use serde_json::json;
use std::path::Path;

#[tokio::test]
async fn every_byte_arrives_through_a_pseudo_terminal() {
    let work = tempfile::tempdir().unwrap();
    let scenario = json!({"heard": "heard.jsonl", "steps": [{"do": "silence"}]});
    std::fs::write(work.path().join("scenario.json"), scenario.to_string()).unwrap();
    let start = Launch {
        ourselves: Path::new(env!("CARGO_BIN_EXE_aye")),
        program: scripted_agent(),
        arguments: &[],
        environment: Vec::new(),
        cwd: work.path(),
        variable: Some("AYE_CLAUDE"),
        stdin: Stdin::Pty,
    };
    let Agent { mut process, pipes: Pipes { mut input, output }, errors } = spawn(&start).unwrap();
    let content = format!("\u{3}\u{4}\r\nü{}", "x".repeat(100_000));
    let prompt = json!({"type": "user", "message": {"role": "user", "content": content}});
    input.write(prompt.to_string()).await.unwrap();
    let heard = || heard(&work.path().join("heard.jsonl"));
    eventually("the prompt", || heard().contains(&prompt).then_some(()));
    drop((input, output, errors));
    process.wait().await.unwrap();
}
