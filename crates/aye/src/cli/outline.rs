use super::{Done, say};
use crate::client::Client;
use crate::home::Home;
use crate::protocol::calls;
use crate::surfaces::terminal::style::{DIM, paint};
use crate::surfaces::terminal::whole;
use anyhow::Context;
use aye_core::{Agent, AskId};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use std::process::ExitCode;

/// See the plan that was refused for an outline, and let it pass after all.
#[derive(Args)]
#[command(after_help = "\
While an outline is awaited, plans that come all the same are refused. Meanwhile:
  aye outline AGENT               the plan that was refused last
  aye outline AGENT --approve     let exactly this plan pass, once, when it comes again
  aye outline AGENT --deny        end the pause; the next plan is asked as usual")]
pub struct Outline {
    agent: String,
    #[arg(long, conflicts_with = "deny")]
    approve: bool,
    #[arg(long)]
    deny: bool,
}

impl Outline {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let agent: Agent = client.get(&calls::AGENT.at(&self.agent)).await?;
        let now = Timestamp::now();
        let pause = agent.outline.filter(|pause| now < pause.until);
        let pause = pause.context("no outline is awaited from this agent")?;
        if self.approve || self.deny {
            let decision = if self.approve { "allow" } else { "deny" };
            let call = json!({ "decision": decision, "digest": pause.digest });
            client.post(&format!("/api/agents/{}/plan-approval", agent.id), call).await?;
            let told =
                if self.approve { "This plan passes when it comes again." } else { "The pause is over." };
            say(&format!("{told}\n"))?;
        } else {
            let id = AskId::try_from(pause.ask.as_str()).map_err(anyhow::Error::msg)?;
            let (_, ask) = client.find_ask(&id).await?;
            let left = now.duration_until(pause.until).as_secs();
            say(&whole(&ask, now))?;
            say(&format!(
                "{}\n",
                paint(DIM, format_args!("{left}s left: --approve lets it pass, --deny ends the pause"))
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
