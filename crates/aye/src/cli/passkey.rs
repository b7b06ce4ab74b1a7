use super::{Done, say, say_json};
use crate::client::{Client, Try};
use crate::home::Home;
use crate::protocol::{PasskeyInfo, RemovePasskey, calls};
use crate::surfaces::terminal::style::{DIM, NAME, paint};
use aye_core::visible::one_line;
use clap::{Args, Subcommand};
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
                let link = client.call(&calls::PASSKEY_LINK, "", &(), &(), Try::Once).await?;
                say(&format!("{}\n", link.url))?;
            }
            Action::List { json } => {
                let list = client.call(&calls::PASSKEYS, "", &(), &(), Try::Once).await?;
                match json {
                    true => say_json(&list)?,
                    false => say(&table(list.passkeys))?,
                }
            }
            Action::Remove { id } => {
                let without = RemovePasskey { assertion: None };
                client.call(&calls::REMOVE_PASSKEY, &id, &(), &without, Try::Once).await?;
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
