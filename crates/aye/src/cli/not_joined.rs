use super::Done;
use crate::config::KnownAgent;
use clap::Args;
use std::ffi::OsString;

/// Say how this agent is reached: it cannot be joined in its own terminal
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct NotJoined {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    _arguments: Vec<OsString>,
}

impl NotJoined {
    pub fn run(self, kind: &str) -> Done {
        let name = KnownAgent::of(kind).map_or(kind, |known| known.name);
        anyhow::bail!("{name} cannot be joined in its own terminal. Use: aye run --agent {kind}")
    }
}
