use super::Done;
use crate::agents::claude::watch::sessions::ConfigDir;
use crate::agents::claude::watch::{WatchConfig, WatchEvent, run};
use crate::home::Home;
use crate::shutdown::Signals;
use crate::surfaces::terminal::style::{BAD, DIM, HEAD, NAME, paint};
use anyhow::Context;
use aye_core::Tool;
use aye_core::visible::one_line;
use clap::Args;
use futures_util::FutureExt;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Find Claude Code sessions that already run, show their requests, and answer them through tmux.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye watch
  aye watch --config-dir ~/.claude --config-dir ~/other/.claude
  aye watch --agents-dir ~/agents

Finds sessions that the hub does not know, shows their requests, and types the answers into their
tmux panes. It checks the screen before each key and stops if it shows anything else. A request that
the screen does not show whole, and sessions outside tmux, must be answered in their own terminal.
Runs until you stop it; open requests stay open.")]
pub struct Watch {
    /// Claude Code's configuration folder (default: CLAUDE_CONFIG_DIR, or ~/.claude); repeatable
    #[arg(long = "config-dir", value_name = "DIR")]
    config_dirs: Vec<PathBuf>,
    /// A folder of AGENT/state.json files ({"id", "workspace"}) that give agents their names
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
        printer.spawn(print(account).boxed());
        run(home, WatchConfig { configs, agents_dir: self.agents_dir }, told, Signals::listen()?).await?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn print(mut account: mpsc::Receiver<WatchEvent>) {
    while let Some(told) = account.recv().await {
        anstream::println!("{}", in_words(&told));
    }
}

fn in_words(told: &WatchEvent) -> String {
    match told {
        WatchEvent::Found { agent, cwd, tmux, unreachable } => {
            let hint = match unreachable {
                Some(why) => format!("it can only be answered in its own terminal: {}", one_line(why)),
                None => {
                    let tmux = one_line(tmux.as_deref().unwrap_or_default()).into_owned();
                    format!("answers are typed into it, in tmux session {tmux}")
                }
            };
            format!("{} {}  {}", paint(NAME, agent), one_line(&cwd.to_string_lossy()), paint(DIM, hint))
        }
        WatchEvent::Asks { agent, tool } => {
            let what = match Tool::named(tool) {
                Some(Tool::Questions) => "has a question".to_owned(),
                Some(Tool::Plan) => "has a plan".to_owned(),
                _ => format!("wants to use {}", one_line(tool)),
            };
            format!("{} {} {what}   {}", paint(HEAD, "?"), paint(NAME, agent), paint(DIM, "aye list"))
        }
        WatchEvent::Waits { agent } => {
            let what = "is waiting for something that only its own terminal can answer";
            format!("{} {} {what}   {}", paint(HEAD, "?"), paint(NAME, agent), paint(DIM, "aye list"))
        }
        WatchEvent::Answered { agent } => format!("  {} goes on", paint(NAME, agent)),
        WatchEvent::Left { agent, why } => format!("  {} is no longer watched: {why}", paint(NAME, agent)),
        WatchEvent::Trouble(words) => format!("{} {}", paint(BAD, "!"), one_line(words)),
    }
}
