use super::{Done, ERROR};
use crate::agents::claude::drive::Told;
use crate::agents::claude::run::{self, Run as Claude};
use crate::home::Home;
use crate::shutdown::Signals;
use crate::surfaces::terminal::style::{BAD, DIM, GOOD, HEAD, NAME, paint};
use crate::surfaces::terminal::{shorten, summary};
use aye_core::visible::{one_line, visible};
use clap::Args;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Drive Claude Code without its terminal: its asks go to the hub, the answers back into it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye run \"add a test for the parser\"
  aye run --cwd ~/src/web --mode plan \"plan the migration\"
  aye run --resume 0f3c… \"go on\"
  aye run \"tidy up\" -- --model opus

Prints what the agent says and does. Its asks wait at the hub: answer them on any surface.
Ctrl-C once interrupts the turn, twice ends the run. Ends with the agent's exit code.")]
pub struct Run {
    prompt: String,
    /// Where the agent works (default: here)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The agent's permission mode: default, plan, acceptEdits, …
    #[arg(long)]
    mode: Option<String>,
    /// Continue this session
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// Arguments for the agent itself
    #[arg(last = true, value_name = "AGENT ARGS")]
    arguments: Vec<OsString>,
}

impl Run {
    pub async fn run(self, home: &Home) -> Done {
        let cwd = match self.cwd {
            Some(cwd) => std::path::absolute(cwd)?,
            None => std::env::current_dir()?,
        };
        anyhow::ensure!(cwd.is_dir(), "{} is not a folder", cwd.display());
        let program = std::env::var_os("AYE_CLAUDE").map_or_else(|| PathBuf::from("claude"), PathBuf::from);
        let claude = Claude {
            program,
            arguments: self.arguments,
            cwd,
            prompt: self.prompt,
            mode: self.mode,
            resume: self.resume,
        };
        let (told, account) = mpsc::channel(256);
        let mut printer = JoinSet::new();
        printer.spawn(print(account));
        let status = run::run(home, claude, told, Signals::listen()?).await?;
        printer.join_next().await;
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR);
        Ok(ExitCode::from(code))
    }
}

async fn print(mut account: mpsc::Receiver<Told>) {
    let mut running: HashMap<String, (String, Instant)> = HashMap::new();
    while let Some(told) = account.recv().await {
        if let Some(line) = in_words(told, &mut running) {
            anstream::println!("{line}");
        }
    }
}

fn in_words(told: Told, running: &mut HashMap<String, (String, Instant)>) -> Option<String> {
    Some(match told {
        Told::Text(text) => visible(&text).into_owned(),
        Told::ToolStarted { id, name, input } => {
            let input = shorten(&one_line(&input.to_string()), 100);
            let line = format!("{} {} {}", paint(NAME, "●"), one_line(&name), paint(DIM, input));
            running.insert(id, (name, Instant::now()));
            line
        }
        Told::ToolEnded { id, failed } => {
            let (name, since) = running.remove(&id)?;
            let mark = if failed { paint(BAD, "✗") } else { paint(GOOD, "✓") };
            let took = paint(DIM, format_args!("{:.1}s", since.elapsed().as_secs_f32()));
            format!("{mark} {} {took}", one_line(&name))
        }
        Told::Asked { ask, body } => {
            let hint = paint(DIM, format_args!("aye show {ask}"));
            format!("{} {}  {}   {hint}", paint(HEAD, "?"), paint(NAME, &ask), summary(&body, 70))
        }
        Told::AskEnded { ask, resolution } => {
            let decision = resolution["outcome"]["decision"].as_str().unwrap_or_default().to_owned();
            format!("  {}  {}", paint(NAME, &ask), paint(DIM, decision))
        }
        Told::Doubt { ask, receipt, evidence } => {
            format!("{} {ask} is {}: {}", paint(BAD, "!"), receipt.as_str(), one_line(&evidence))
        }
        Told::Turn(result) => {
            let cost = result.total_cost_usd.map(|cost| format!(" · ${cost:.4}")).unwrap_or_default();
            let usage = result.usage.unwrap_or_default();
            let seconds = result.duration_ms.unwrap_or(0) / 1000;
            let turns = result.num_turns.unwrap_or(0);
            let tokens = usage.input_tokens + usage.output_tokens;
            let end = if result.is_error { "the turn ended with an error" } else { "done" };
            paint(DIM, format_args!("{end} · {turns} turns · {tokens} tokens · {seconds}s{cost}"))
        }
        Told::Trouble(words) => format!("{} {}", paint(BAD, "!"), one_line(&words)),
    })
}
