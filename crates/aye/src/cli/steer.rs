//! Telling an agent that `aye run` drives what to do: a further prompt, the end of its turn, the end of its run.

use super::named::find;
use super::{Done, say};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{Call, Prompt, Queued, calls};
use crate::surfaces::terminal::in_a_line;
use anyhow::Context;
use aye_core::{Agent, AgentState, Text};
use clap::Args;
use serde::Serialize;
use std::io::Read;
use std::process::ExitCode;

/// Send an agent a further prompt.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye send claude-k3 \"now add a test\"     by the beginning of its id, its title, folder, tmux session or process
  git diff | aye send web -               the prompt from standard input

An agent that is busy takes it up when it can.
Exit codes: 0 sent, 6 no such agent or not unique, 1 error.")]
pub struct Send {
    /// The agent: the beginning of its id, its title, folder, tmux session or process
    #[arg(value_name = "AGENT")]
    agent: String,
    /// What to tell it; - reads it from standard input
    #[arg(value_name = "TEXT")]
    text: String,
}

impl Send {
    pub async fn run(self, home: &Home) -> Done {
        let mut text = self.text;
        if text == "-" {
            text.clear();
            std::io::stdin().read_to_string(&mut text).context("cannot read the prompt")?;
        }
        let text = Text::try_from(text.trim()).map_err(|_| anyhow::anyhow!("the prompt is empty"))?;
        tell(home, &self.agent, &calls::PROMPT, &Prompt { text }, |agent| match agent.state {
            AgentState::Idle => "Sent",
            AgentState::Lost => "Sent, but it is not responding; it gets this if it comes back",
            AgentState::Working | AgentState::Waiting | AgentState::Ended => {
                "Sent; it is busy and takes it up when it can"
            }
        })
        .await
    }
}

/// End an agent's turn; it stays and takes further prompts.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye interrupt claude-k3     by the beginning of its id, its title, folder, tmux session or process

Its open requests are taken back. A run that is to end after one turn ends.
Exit codes: 0 done, 6 no such agent or not unique, 1 error.")]
pub struct Interrupt {
    /// The agent: the beginning of its id, its title, folder, tmux session or process
    #[arg(value_name = "AGENT")]
    agent: String,
}

impl Interrupt {
    pub async fn run(self, home: &Home) -> Done {
        tell(home, &self.agent, &calls::INTERRUPT, &(), |agent| match agent.state {
            AgentState::Idle => "Nothing to interrupt; it is idle",
            _ => "Told to end its turn",
        })
        .await
    }
}

/// End an agent's run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye stop claude-k3     by the beginning of its id, its title, folder, tmux session or process

Its open requests are taken back. `aye run --resume AGENT` goes on with it later.
Exit codes: 0 done, 6 no such agent or not unique, 1 error.")]
pub struct Stop {
    /// The agent: the beginning of its id, its title, folder, tmux session or process
    #[arg(value_name = "AGENT")]
    agent: String,
}

impl Stop {
    pub async fn run(self, home: &Home) -> Done {
        tell(home, &self.agent, &calls::STOP, &(), |_| "Told to end").await
    }
}

/// Makes the call, and says what comes of it and to whom.
async fn tell<B: Serialize>(
    home: &Home,
    name: &str,
    call: &Call<(), B, Queued>,
    body: &B,
    outcome: impl Fn(&Agent) -> &'static str,
) -> Done {
    let client = Client::for_person(home)?;
    let agent = find(&client, name).await?;
    client.call(call, agent.id.as_str(), &(), body, Try::Once).await?;
    let title = in_a_line(&agent.title);
    say(&format!("{} {title}: {}\n", agent.id, outcome(&agent)))?;
    Ok(ExitCode::SUCCESS)
}
