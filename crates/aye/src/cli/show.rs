use super::{Done, say, say_json};
use crate::client::Client;
use crate::home::Home;
use crate::surfaces::terminal::whole;
use aye_core::AskId;
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
        let (json, ask) = Client::for_person(home)?.find_ask(&self.id).await?;
        match self.json {
            true => say_json(&json)?,
            false => say(&whole(&ask, Timestamp::now()))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
