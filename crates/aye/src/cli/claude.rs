use super::Done;
use super::own_terminal::OwnTerminal;
use crate::agents::claude::settings::{self, HookCommand};
use crate::agents::{random_name, supervise};
use crate::client::{Client, Try};
use crate::config::DEFAULT_KIND;
use crate::home::Home;
use crate::protocol::calls;
use crate::surfaces::terminal::style::{HEAD, paint};
use anyhow::Context;
use aye_core::AgentId;
use clap::Args;
use futures_util::FutureExt;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long the person waits for a hub before their own program starts without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Run Claude Code in this terminal, and answer it here or anywhere else: the first answer wins
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  aye claude
  aye claude --model opus \"fix the build\"
  aye claude --continue

Takes every argument that claude takes, and exits with its exit code. Nothing is installed.
To connect every session, however it is started, use `aye hooks install`."
)]
pub struct Claude {
    /// Arguments for claude itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    _arguments: Vec<OsString>,
}

impl Claude {
    pub fn run(self, home: &Home, runtime: Runtime) -> Done {
        let OwnTerminal { program, mut command, given } = OwnTerminal::of(home, DEFAULT_KIND)?;
        let hook = HookCommand::of_this_program()?.line()?;
        command.args(settings::arguments(given, &hook)?);
        match runtime.block_on(within(PATIENCE, credential(home)).boxed_local()) {
            Ok(Some(token)) => drop(command.env("AYE_TOKEN", token)),
            Ok(None) => {}
            Err(error) => say_without_hub(&error),
        }
        if supervise::IS_KNOWN {
            let code = runtime.block_on(supervise::supervise(&command).boxed_local())?;
            return Ok(ExitCode::from(code));
        }
        // The runtime's threads and descriptors must not go into the other program.
        drop(runtime);
        Err(command.exec()).with_context(|| format!("cannot start {}", program.display()))
    }
}

/// The person's own program starts all the same.
fn say_without_hub(error: &anyhow::Error) {
    let why = error.to_string();
    let why = why.lines().next().unwrap_or_default();
    anstream::eprintln!(
        "{} {why}; until a hub is there (`aye up`), requests stay in this terminal",
        paint(HEAD, "aye:")
    );
}

async fn within<T>(limit: Duration, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(limit, work).await.context("the hub does not answer")?
}

/// Looks whether a hub is there.
async fn is_there(home: &Home) -> anyhow::Result<()> {
    let hub = Client::for_person(home)?.call(&calls::HEALTH, "", &(), &(), Try::Once).await?;
    tracing::debug!(version = hub.version, "a hub is there");
    Ok(())
}

/// The same, before the person's own program takes the terminal.
pub async fn look_for_hub(home: &Home) {
    if let Err(error) = within(PATIENCE, is_there(home)).await {
        say_without_hub(&error);
    }
}

/// Looks whether a hub is there. One elsewhere gets to know the agent by a token of its own: the person's
/// must not be in the agent's hands.
async fn credential(home: &Home) -> anyhow::Result<Option<String>> {
    if std::env::var_os("AYE_URL").is_none() {
        is_there(home).await?;
        return Ok(None);
    }
    let agent = match Client::own_agent(home).await? {
        Some(agent) => agent,
        None => AgentId::try_from(format!("claude-{}", random_name()?)).map_err(anyhow::Error::msg)?,
    };
    Client::agent_token(home, &agent).await.map(Some)
}
