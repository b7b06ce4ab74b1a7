use super::{Done, say, say_json};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{AgentsQuery, calls};
use crate::surfaces::terminal::style::{BAD, DIM, NAME, paint};
use crate::surfaces::terminal::{age, in_a_line, shorten, summary};
use crate::surfaces::words;
use aye_core::agent::names;
use aye_core::visible::one_line;
use aye_core::{Agent, AgentState, AskView, AsksFor, Reach};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::ExitCode;

/// List the agents: what each is doing, and what it is waiting for.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye agents
  aye agents --json | jq -r '.agents[] | select(.state == \"waiting\").id'

`aye attach`, `send`, `interrupt` and `stop` take an agent by the beginning of its id, or by a title,
folder, tmux session or process that no other agent has.")]
pub struct Agents {
    /// Include agents that have ended
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Agents {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        let found = client.call(&calls::AGENTS, "", &AgentsQuery { all: self.all }, &(), Try::Once).await?;
        let asks = client.open_asks().await?.asks.into_iter();
        let mut waits_for: HashMap<String, AskView> = HashMap::new();
        for ask in asks.map(AskView::from_json) {
            let ask = ask?;
            // The list begins with the oldest, which is the one that has waited longest.
            waits_for.entry(ask.agent.to_string()).or_insert(ask);
        }
        let names = names(&found.agents);
        let row = |agent| Row { agent, name: &names[&agent.id], waits_for: waits_for.get(agent.id.as_str()) };
        let rows: Vec<_> = found.agents.iter().map(row).collect();
        match self.json {
            true => say_json(&json!({ "agents": rows.iter().map(Row::json).collect::<Vec<_>>() }))?,
            false => say(&table(&rows, Timestamp::now()))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct Row<'a> {
    agent: &'a Agent,
    name: &'a str,
    /// The oldest of its open requests.
    waits_for: Option<&'a AskView>,
}

impl Row<'_> {
    fn json(&self) -> Value {
        let mut row = json!(self.agent);
        row["waits_for"] = match self.waits_for {
            None => Value::Null,
            Some(ask) => json!({
                "ask": ask.id, "kind": ask.kind, "what": summary(&ask.body, 200), "since": ask.created_at,
            }),
        };
        row
    }
}

fn table(rows: &[Row], now: Timestamp) -> String {
    if rows.is_empty() {
        return format!("{}\n", paint(DIM, "No agents are running. Start one with: aye run \"…\""));
    }
    rows.iter().map(|row| entry(row, now)).collect()
}

/// The agent on one line, where it runs on a second, and what it waits for on a third.
fn entry(row: &Row, now: Timestamp) -> String {
    let Agent { id, state, asks, kind, reach, host, cwd, tmux, open_asks, .. } = row.agent;
    let style = match state {
        AgentState::Waiting | AgentState::Lost => BAD,
        AgentState::Working | AgentState::Idle | AgentState::Ended => DIM,
    };
    let name = shorten(&in_a_line(row.name), 80);
    let mode_style = if *asks == AsksFor::Nothing { BAD } else { DIM };
    let mode = words::asks(*asks).map(|words| format!("{}  ", paint(mode_style, words))).unwrap_or_default();
    let mut out = format!("{}  {}  {mode}{name}\n", paint(NAME, one_line(id.as_str())), paint(style, state));
    let reach = match reach {
        Reach::Script => words::reach(*reach).to_owned(),
        _ => format!("{}, {}", one_line(kind), words::reach(*reach)),
    };
    let place = match (host.as_str(), cwd.as_str()) {
        ("", "") => String::new(),
        (host, "") => format!(" on {}", one_line(host)),
        ("", cwd) => format!(" in {}", one_line(cwd)),
        (host, cwd) => format!(" in {} on {}", one_line(cwd), one_line(host)),
    };
    let tmux = tmux.as_ref().map(|tmux| format!(", tmux session {}", one_line(tmux))).unwrap_or_default();
    out += &format!("    {}\n", paint(DIM, format_args!("{reach}{place}{tmux}")));
    if let Some(ask) = row.waits_for {
        let more = match open_asks.saturating_sub(1) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let (what, waited) = (summary(&ask.body, 60), age(ask.created_at, now));
        out += &format!(
            "    {} {what}{more} {}\n",
            paint(NAME, &ask.id),
            paint(DIM, format_args!("for {waited}"))
        );
    }
    out
}
