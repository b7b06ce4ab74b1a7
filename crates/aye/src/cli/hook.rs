use super::Done;
use crate::agents::DRIVEN;
use crate::agents::claude::hook::{self, follower};
use crate::home::Home;
use anyhow::Context;
use clap::Args;
use futures_util::FutureExt;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// What Claude Code calls at every step: reads an event, prints a decision or nothing
#[derive(Args, Default)]
#[command(after_help = "Put into Claude Code by `aye claude` or `aye hooks install`; nobody types this.")]
pub struct Hook {
    /// Stay beside the session of this process, as the hooks start it
    #[arg(long, value_names = ["PID", "SESSION"], num_args = 2, hide = true)]
    follow: Option<Vec<String>>,
}

impl Hook {
    /// Always ends well: an error of ours must never be one of the agent's, and nothing is printed then.
    pub fn run(self, home: &Home, runtime: Runtime) -> Done {
        if let Some([pid, session]) = self.follow.as_deref() {
            runtime.block_on(follower::run(home, pid.parse()?, session.as_bytes()).boxed_local())?;
            return Ok(ExitCode::SUCCESS);
        }
        // Read in any case: whoever calls must not write into a closed pipe.
        let mut event = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut event).context("cannot read the event");
        if std::env::var_os(DRIVEN).is_some() {
            return Ok(ExitCode::SUCCESS);
        }
        if std::env::var_os("AYE_LOG").is_some() {
            crate::telemetry::start();
        }
        let done = read.and_then(|_| runtime.block_on(hook::run(home, &event, print).boxed_local()));
        if let Err(error) = done {
            tracing::debug!(error = %super::in_words(&error), "left to the terminal");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(decision: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(decision.as_bytes())?;
    out.flush()
}
