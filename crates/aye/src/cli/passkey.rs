use super::{Done, say, say_json};
use crate::client::Client;
use crate::home::Home;
use crate::hub::PasskeyInfo;
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use aye_core::visible::one_line;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Add, list and remove passkeys, for `proof = "passkey"` in config.toml.
#[derive(Args)]
#[command(after_help = "\
A passkey signs exactly the answer that it allows, on the page. You add the first one with the
link that `add` prints. After that, adding or removing one takes a passkey you have. Add a second
one soon: it is your way back if you lose the first.

Examples:
  aye passkey add
  aye passkey list
  aye passkey remove k3v9m2pqxx")]
pub struct Passkey {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print a link to add a passkey; it works once, for 15 minutes
    Add,
    /// List the passkeys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where to remove a passkey, which takes a passkey as well
    Remove {
        /// As `aye passkey list` shows it
        id: String,
    },
}

impl Passkey {
    pub async fn run(self, home: &Home) -> Done {
        let client = Client::for_person(home)?;
        match self.action {
            Action::Add => {
                let link = client.post("/api/passkeys/link", json!({})).await?;
                say(&format!("{}\n", link["url"].as_str().unwrap_or_default()))?;
            }
            Action::List { json } => {
                let list: Value = client.get("/api/passkeys").await?;
                match json {
                    true => say_json(&list)?,
                    false => say(&table(serde_json::from_value(list["passkeys"].clone())?))?,
                }
            }
            Action::Remove { id } => {
                client.post(&format!("/api/passkeys/{id}/remove"), json!({})).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(passkeys: Vec<PasskeyInfo>) -> String {
    if passkeys.is_empty() {
        return "There are none. `aye passkey add` prints a link that adds the first.\n".to_owned();
    }
    let mut out = String::new();
    for passkey in passkeys {
        let used = passkey.used_at.map_or_else(|| "never used".to_owned(), |at| format!("last used {at:.0}"));
        let rest = format!("{} · added {:.0} · {used}", passkey.rp, passkey.created_at);
        let name = one_line(passkey.name.as_str());
        out += &format!("{} {name}  {}\n", paint(NAME, &passkey.id), paint(DIM, rest));
    }
    out
}
