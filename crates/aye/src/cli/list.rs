use super::{Done, say, say_json};
use crate::client::Client;
use crate::home::Home;
use crate::protocol::{Asks, AsksQuery, calls};
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use crate::surfaces::terminal::{age, shorten, summary};
use aye_core::visible::one_line;
use aye_core::{AskState, AskView};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::process::ExitCode;

/// List the open requests, oldest first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye list
  aye list --all --json | jq '.asks[].state'")]
pub struct List {
    /// Include requests that have ended, newest first
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let all = AsksQuery { state: Some("all".into()), limit: Some(200), ..AsksQuery::default() };
        let found: Asks<Value> = match self.all {
            true => client.get(&calls::ASKS.path_with("", &all)).await?,
            false => client.open_asks().await?,
        };
        if self.json {
            say_json(&json!(found))?;
            return Ok(ExitCode::SUCCESS);
        }
        let asks = found.asks.into_iter().map(AskView::from_json).collect::<Result<Vec<_>, _>>()?;
        say(&table(&asks, Timestamp::now()))?;
        if found.next.is_some() {
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
        let state =
            if ask.state == AskState::Open { String::new() } else { format!("{} ", ask.state.as_str()) };
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
