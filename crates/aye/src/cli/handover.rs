use super::named::find;
use super::{Done, say};
use crate::agents::claude::hook::events::agent_of;
use crate::agents::claude::hook::notes::Notes;
use crate::client::Client;
use crate::home::Home;
use crate::processes::host;
use crate::surfaces::terminal::in_a_line;
use anyhow::bail;
use aye_core::Reach;
use aye_core::visible::one_line;
use clap::Args;
use std::process::ExitCode;

/// Let an agent's own terminal show the dialog that a hook holds back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye handover claude-k3     by the beginning of its id, its title, folder or tmux session
  aye handover .             the agent in this folder

While a sub-agent of Claude Code waits for an answer, its terminal shows no dialog: a hook holds it
back, so that the request can be answered from anywhere. In tmux the dialog is shown after a moment,
and answers are typed into it. Elsewhere it is shown once somebody uses that terminal, or with this
command; from then on it can be answered there alone. Run it on the agent's own machine.
Exit codes: 0 done, 6 no such agent or not unique, 1 error.")]
pub struct Handover {
    /// The agent: the beginning of its id, its title, folder or tmux session
    #[arg(value_name = "AGENT")]
    agent: String,
}

impl Handover {
    pub async fn run(self, home: &Home) -> Done {
        let agent = find(&Client::for_person(home)?, &self.agent).await?;
        let session = agent.session.as_deref().filter(|_| agent.reach == Reach::Hooked);
        if session.is_some() && agent.host != host() {
            bail!("{} runs on {}; run this command there", agent.id, one_line(&agent.host));
        }
        let notes = session.and_then(|session| agent_of(session).ok()).map(|id| Notes::of(home, &id));
        let held = match notes.filter(|notes| notes.held_back() > 0) {
            Some(notes) => {
                let held = notes.held_back();
                notes.request_handover()?;
                held
            }
            None => 0,
        };
        let outcome = match held {
            0 => "Nothing is held back; its terminal shows whatever it asks".to_owned(),
            1 => "Its terminal shows the dialog now".to_owned(),
            more => format!("Its terminal shows {more} dialogs now, one after another"),
        };
        say(&format!("{} {}: {outcome}\n", agent.id, in_a_line(&agent.title)))?;
        Ok(ExitCode::SUCCESS)
    }
}
