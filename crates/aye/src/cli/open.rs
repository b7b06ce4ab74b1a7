use super::{Done, say};
use crate::client::Client;
use crate::home::Home;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Print a link that signs one browser in, once, within 15 minutes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye open                        and paste the link into a browser

Do not start a browser with it: other users can read what programs are started with.")]
pub struct Open {}

impl Open {
    pub async fn run(self, home: &Home) -> Done {
        let link = Client::for_person(home)?.post("/api/sign-in-links", json!({})).await?;
        say(&format!("{}\n", link["url"].as_str().unwrap_or_default()))?;
        Ok(ExitCode::SUCCESS)
    }
}
