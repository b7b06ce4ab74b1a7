//! Alone in its process, because it counts what the process holds open.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use aye::agents::claude::process::{Start, spawn};
use aye::config::Stdin;
use std::path::Path;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn start(program: &str, stdin: Stdin) -> Start<'_> {
    Start {
        program: Path::new(program),
        arguments: &[],
        cwd: Path::new("/"),
        mode: None,
        resume: None,
        stdin,
    }
}

/// `cat` refuses the arguments meant for an agent and ends at once, `yes` repeats them until it is stopped.
#[tokio::test]
async fn three_hundred_runs_leave_no_descriptor_behind_however_they_end() {
    // The first run sets up what the runtime keeps for all of them.
    let (mut child, ..) = spawn(&start("cat", Stdin::Pipe)).unwrap();
    child.wait().await.unwrap();
    let before = open_descriptors();
    for round in 0..100 {
        let stdin = if round % 2 == 0 { Stdin::Pty } else { Stdin::Pipe };
        let (mut child, input, output) = spawn(&start("cat", stdin)).unwrap();
        assert!(!child.wait().await.unwrap().success());
        drop((input, output));

        let (mut child, mut input, output) = spawn(&start("yes", stdin)).unwrap();
        input.write_line("{}").await.unwrap();
        child.kill().await.unwrap();
        drop((input, output));

        assert!(spawn(&start("/nowhere/agent", stdin)).is_err());
    }
    assert_eq!(open_descriptors(), before);
}
