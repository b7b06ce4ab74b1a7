use super::{Done, say, say_json};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{AgentsQuery, Asks, AsksQuery, StateFilter, calls};
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use crate::surfaces::terminal::{age, in_a_line, shorten, summary};
use aye_core::agent::names;
use aye_core::visible::one_line;
use aye_core::{AgentId, AskState, AskView};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
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
        let all = AsksQuery { state: Some(StateFilter::All), limit: Some(200), ..AsksQuery::default() };
        let found: Asks<Value> = match self.all {
            true => client.get(&calls::ASKS.path_with("", &all)).await?,
            false => client.open_asks().await?,
        };
        if self.json {
            say_json(&json!(found))?;
            return Ok(ExitCode::SUCCESS);
        }
        let asks = found.asks.into_iter().map(AskView::from_json).collect::<Result<Vec<_>, _>>()?;
        let agents =
            client.call(&calls::AGENTS, "", &AgentsQuery { all: self.all }, &(), Try::Once).await?.agents;
        say(&table(&asks, &names(&agents), Timestamp::now()))?;
        if found.next.is_some() {
            say(&format!("{}\n", paint(DIM, "There are older ones; the page shows them under History.")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(asks: &[AskView], names: &HashMap<&AgentId, String>, now: Timestamp) -> String {
    match asks.is_empty() {
        true => format!("{}\n", paint(DIM, "Nothing to answer right now.")),
        false => asks.iter().map(|ask| entry(ask, names.get(&ask.agent), now)).collect(),
    }
}

/// What is asked on one line, and who asks on a second.
fn entry(ask: &AskView, name: Option<&String>, now: Timestamp) -> String {
    let state = match ask.status.state {
        AskState::Open => String::new(),
        AskState::Answered | AskState::Expired | AskState::Withdrawn => {
            format!("{} ", ask.status.state.as_str())
        }
    };
    let (kind, age, what) = (ask.kind.to_string(), age(ask.created_at, now), summary(&ask.body, 60));
    let name = name.map(|name| shorten(&in_a_line(name), 60));
    let folder = Some(one_line(&ask.cwd).into_owned()).filter(|folder| !folder.is_empty());
    let agent = shorten(&one_line(ask.agent.as_str()), 40);
    let is_open = ask.status.state == AskState::Open;
    let elsewhere = ask.can.why_not().filter(|_| is_open).map(|_| "cannot be answered from here".to_owned());
    let who = name.into_iter().chain(folder).chain([agent]).chain(elsewhere).collect::<Vec<_>>().join(" · ");
    format!("{}  {age:>4}  {kind:<10}  {state}{what}\n{:30}{}\n", paint(NAME, &ask.id), "", paint(DIM, who))
}
