use super::{Done, say, say_json};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{AgentsQuery, calls};
use crate::surfaces::terminal::whole;
use aye_core::agent::names;
use aye_core::{AskId, AskView};
use clap::Args;
use jiff::Timestamp;
use std::process::ExitCode;

/// Show one request in full, and how to answer it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye show k3v9m2pqxx
  aye show k3          the beginning of an id is enough")]
pub struct Show {
    /// The request's id, or its beginning
    #[arg(value_name = "ID", value_parser = super::answer::ask_id)]
    id: AskId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let (json, ask) = client.find_ask(&self.id).await?;
        match self.json {
            true => say_json(&json)?,
            false => say(&in_full(&client, &ask).await)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The whole request, with what its agent is called. One that has ended is called by its id.
pub async fn in_full(client: &Client, ask: &AskView) -> String {
    let agents = client.call(&calls::AGENTS, "", &AgentsQuery { all: false }, &(), Try::Once).await;
    let agents = agents.map(|found| found.agents).unwrap_or_default();
    whole(ask, names(&agents).get(&ask.agent).map(String::as_str), Timestamp::now())
}
