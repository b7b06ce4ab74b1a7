use super::{Done, say, say_json};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{ListedToken, NewToken, calls};
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use aye_core::visible::one_line;
use aye_core::{AgentId, Role, Surface, Text};
use clap::{Args, Subcommand};
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
                let agent = agent.map(AgentId::try_from).transpose().map_err(anyhow::Error::msg)?;
                let name = name.map(Text::try_from).transpose().map_err(anyhow::Error::msg)?;
                let new = NewToken { role, agent, name };
                let made = client.call(&calls::MAKE_TOKEN, "", &(), &new, Try::Once).await?;
                say(&format!("{}\n", made.token))?;
            }
            Action::List { json } => {
                let list = client.call(&calls::TOKENS, "", &(), &(), Try::Once).await?;
                match json {
                    true => say_json(&list)?,
                    false => say(&table(list.tokens))?,
                }
            }
            Action::Revoke { id } => {
                client.call(&calls::REVOKE_TOKEN, &id, &(), &(), Try::Once).await?;
                say(&format!("{id} is revoked, and what it had opened is closed.\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(tokens: Vec<ListedToken>) -> String {
    let mut out = String::new();
    for ListedToken { info: token, .. } in tokens {
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
