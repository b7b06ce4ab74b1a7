//! Alone in its process, because it counts what the process holds open.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use aye::agents::driven::Writer;
use aye::agents::driven::process::{Agent, Launch, Pipes, spawn};
use aye::config::Stdin;
use aye_testkit::agent::scripted_agent;
use std::ffi::OsString;
use std::path::Path;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn three_hundred_runs_leave_no_descriptor_behind_however_they_end() {
    let work = tempfile::tempdir().unwrap();
    let scenario = |name: &str, steps: &str| -> [OsString; 2] {
        let file = work.path().join(name);
        std::fs::write(&file, format!("{{\"steps\": {steps}}}")).unwrap();
        ["--scenario".into(), file.into()]
    };
    let waits = scenario("waits.json", r#"[{"do": "silence"}]"#);
    let dies = scenario("dies.json", r#"[{"do": "exit", "code": 3}]"#);
    let start = |program, arguments, stdin| -> Launch {
        Launch {
            ourselves: Path::new(env!("CARGO_BIN_EXE_aye")),
            program,
            arguments,
            environment: Vec::new(),
            cwd: work.path(),
            variable: Some("AYE_CLAUDE"),
            stdin,
        }
    };
    // The first run sets up what the runtime keeps for all of them.
    let Agent { mut process, .. } = spawn(&start(scripted_agent(), &dies, Stdin::Pipe)).unwrap();
    process.wait().await.unwrap();
    let before = open_descriptors();
    for round in 0..100 {
        let stdin = if round % 2 == 0 { Stdin::Pty } else { Stdin::Pipe };
        let Agent { mut process, pipes: Pipes { mut input, output }, errors } =
            spawn(&start(scripted_agent(), &dies, stdin)).unwrap();
        input.write(r#"{"type":"user","message":{"role":"user","content":"go"}}"#.to_owned()).await.unwrap();
        assert_eq!(process.wait().await.unwrap().code(), Some(3));
        drop((process, input, output, errors));

        let Agent { mut process, pipes, errors } = spawn(&start(scripted_agent(), &waits, stdin)).unwrap();
        process.kill().await.unwrap();
        drop((process, pipes, errors));

        assert!(spawn(&start(Path::new("/nowhere/agent"), &[], stdin)).is_err());
    }
    assert_eq!(open_descriptors(), before);
}
