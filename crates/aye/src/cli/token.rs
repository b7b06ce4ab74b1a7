use super::{Done, say, say_json};
use crate::client::Client;
use crate::home::Home;
use crate::hub::CredentialInfo;
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use aye_core::visible::one_line;
use aye_core::{Role, Surface};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Create, list and revoke tokens.
#[derive(Args)]
#[command(after_help = "\
Roles:
  viewer      sees requests and agents
  operator    answers requests and starts runs; keep it away from your agents
  agent       sends requests for one agent, and can never answer

Examples:
  aye token create --role viewer --name \"wall display\"
  AYE_TOKEN=$(aye token create --role agent --agent nightly) ./script
  aye token list
  aye token revoke 5f0c9a1b2d3e")]
pub struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a token and print it; it is not shown again
    Create {
        /// What the token may do: viewer, operator or agent
        #[arg(long)]
        role: Role,
        /// The agent, for a token with the role agent
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// Whose token it is: the name shown with answers
        #[arg(long)]
        name: Option<String>,
    },
    /// List all tokens, without their secrets
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token and close everything it opened
    Revoke {
        /// As `aye token list` shows it
        id: String,
    },
}

impl Token {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        match self.action {
            Action::Create { role, agent, name } => {
                let new = json!({ "role": role, "agent": agent, "name": name });
                let made = client.post("/api/tokens", new).await?;
                say(&format!("{}\n", made["token"].as_str().unwrap_or_default()))?;
            }
            Action::List { json } => {
                let list: Value = client.get("/api/tokens").await?;
                match json {
                    true => say_json(&list)?,
                    false => say(&table(serde_json::from_value(list["tokens"].clone())?))?,
                }
            }
            Action::Revoke { id } => {
                client.delete(&format!("/api/tokens/{id}")).await?;
                say(&format!("{id} is revoked, and what it had opened is closed.\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(tokens: Vec<CredentialInfo>) -> String {
    let mut out = String::new();
    for token in tokens {
        let revoked = if token.revoked { "  revoked" } else { "" };
        let surface = token.surface.map(Surface::as_str).unwrap_or_default();
        out += &format!(
            "{}  {:<8}  {}  {}\n",
            paint(NAME, format_args!("{:<14}", token.id)),
            token.role.as_str(),
            one_line(token.name.as_str()),
            paint(DIM, format_args!("{} {surface}{revoked}", token.created_at.strftime("%F %R"))),
        );
    }
    out
}
