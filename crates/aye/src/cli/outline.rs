use super::{Done, say};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{ApprovePlan, PlanApproval, calls};
use crate::surfaces::terminal::style::{DIM, paint};
use crate::surfaces::terminal::whole;
use anyhow::Context;
use aye_core::{Agent, AskId};
use clap::Args;
use jiff::Timestamp;
use std::process::ExitCode;

/// Show the plan that is on hold while an outline is awaited, and approve or deny it.
#[derive(Args)]
#[command(after_help = "\
After you asked for an outline, new plans of that agent are refused until the pause ends.
  aye outline AGENT               show the plan that was refused last
  aye outline AGENT --approve     let exactly this plan pass, once, when it comes again
  aye outline AGENT --deny        end the pause; you are asked about the next plan as usual")]
pub struct Outline {
    /// The agent's id
    agent: String,
    /// Let the plan on hold pass once, when it comes again
    #[arg(long, conflicts_with = "deny")]
    approve: bool,
    /// End the pause
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
            let decision = if self.approve { PlanApproval::Allow } else { PlanApproval::Deny };
            let approval = ApprovePlan { decision, digest: pause.digest, assertion: None };
            client.call(&calls::APPROVE_PLAN, agent.id.as_str(), &(), &approval, Try::Once).await?;
            let told =
                if self.approve { "This plan passes when it comes again." } else { "The pause is over." };
            say(&format!("{told}\n"))?;
        } else {
            let id = AskId::try_from(pause.ask.as_str()).map_err(anyhow::Error::msg)?;
            let (_, ask) = client.find_ask(&id).await?;
            let left = now.duration_until(pause.until).as_secs();
            say(&whole(&ask, Some(agent.title.as_str()).filter(|title| !title.is_empty()), now))?;
            say(&format!(
                "{}\n",
                paint(DIM, format_args!("{left}s left: --approve lets it pass, --deny ends the pause"))
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
