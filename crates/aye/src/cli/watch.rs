use super::Done;
use crate::agents::claude::watch::sessions::ConfigDir;
use crate::agents::claude::watch::{Told, Watch as Watching, run};
use crate::home::Home;
use crate::shutdown::Signals;
use crate::surfaces::terminal::style::{BAD, DIM, HEAD, NAME, paint};
use anyhow::Context;
use aye_core::visible::one_line;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Look after Claude Code sessions that run in terminals of their own, without hooks.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye watch
  aye watch --config-dir ~/.claude --config-dir ~/other/.claude
  aye watch --agents-dir ~/agents

Finds sessions that the hub does not know yet, shows what they ask, and types the answers into
their tmux panes: each key only on the page it is meant for, and nothing where the screen shows
something else. A session outside tmux is shown, and answered in its own terminal.
Runs until it is stopped; what is asked stays open meanwhile.")]
pub struct Watch {
    /// Where Claude Code keeps its sessions (default: CLAUDE_CONFIG_DIR, or ~/.claude)
    #[arg(long = "config-dir", value_name = "DIR")]
    config_dirs: Vec<PathBuf>,
    /// A folder with <agent id>/state.json files, {\"id\",\"workspace\"}, that name agents
    #[arg(long, value_name = "DIR")]
    agents_dir: Option<PathBuf>,
}

impl Watch {
    pub async fn run(self, home: &Home) -> Done {
        let mut configs: Vec<_> = self.config_dirs.into_iter().map(ConfigDir::new).collect();
        if configs.is_empty() {
            configs.push(ConfigDir::from_env().context("there is no home directory: name a --config-dir")?);
        }
        let (told, account) = mpsc::channel(256);
        let mut printer = JoinSet::new();
        printer.spawn(print(account));
        run(home, Watching { configs, agents_dir: self.agents_dir }, told, Signals::listen()?).await?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn print(mut account: mpsc::Receiver<Told>) {
    while let Some(told) = account.recv().await {
        anstream::println!("{}", in_words(&told));
    }
}

fn in_words(told: &Told) -> String {
    match told {
        Told::Found { agent, cwd, unreachable } => {
            let hint = match unreachable {
                Some(why) => format!("answers go into its own terminal only: {}", one_line(why)),
                None => "answered through tmux".into(),
            };
            format!("{} {}  {}", paint(NAME, agent), one_line(&cwd.to_string_lossy()), paint(DIM, hint))
        }
        Told::Asks { agent, tool } => {
            let what = if tool == "AskUserQuestion" { "asks" } else { "has a plan" };
            format!("{} {} {what}   {}", paint(HEAD, "?"), paint(NAME, agent), paint(DIM, "aye list"))
        }
        Told::Answered { agent } => format!("  {} goes on", paint(NAME, agent)),
        Told::Left { agent, why } => format!("  {} is no longer watched: {why}", paint(NAME, agent)),
        Told::Trouble(words) => format!("{} {}", paint(BAD, "!"), one_line(words)),
    }
}
