use super::{Done, say, say_json};
use crate::client::Client;
use crate::home::Home;
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use crate::surfaces::terminal::{age, shorten, summary};
use aye_core::AskView;
use aye_core::visible::one_line;
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use std::process::ExitCode;

/// List the open asks, oldest first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye list
  aye list --all --json | jq '.asks[].state'")]
pub struct List {
    /// Ended asks too, newest first
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let reply: Value = match self.all {
            true => client.get("/api/asks?state=all&limit=200").await?,
            false => client.list_asks("state=open", "after").await?,
        };
        if self.json {
            say_json(&reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        let asks = reply["asks"].as_array().cloned().unwrap_or_default();
        let asks = asks.into_iter().map(AskView::from_json).collect::<Result<Vec<_>, _>>()?;
        say(&table(&asks, Timestamp::now()))?;
        if !reply["next"].is_null() {
            say(&format!("{}\n", paint(DIM, "There are older ones: the page's history has them all.")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(asks: &[AskView], now: Timestamp) -> String {
    if asks.is_empty() {
        return format!("{}\n", paint(DIM, "Nothing waits for you."));
    }
    let mut out = String::new();
    for ask in asks {
        let state = if ask.state == "open" { String::new() } else { format!("{} ", ask.state) };
        let agent = shorten(&one_line(ask.agent.as_str()), 24);
        out += &format!(
            "{}  {:>4}  {:<10}  {}  {}\n",
            paint(NAME, &ask.id),
            age(ask.created_at, now),
            ask.kind.to_string(),
            format_args!("{state}{}", summary(&ask.body, 60)),
            paint(DIM, agent),
        );
    }
    out
}
