use super::own_terminal::OwnTerminal;
use super::{Done, claude};
use crate::agents::joined::{self, Session};
use crate::agents::opencode::{JoinedOpenCode, Server, Terminal, USER, follow};
use crate::agents::random_name;
use crate::agents::supervise::{Supervised, supervise};
use crate::home::Home;
use crate::random::random_hex;
use crate::url::HubUrl;
use anyhow::Context;
use aye_core::AgentId;
use clap::Args;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

const KIND: &str = "opencode";

/// Run OpenCode in this terminal, and answer it here or anywhere else: the first answer wins
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  aye opencode
  aye opencode ~/src/web --model openai/gpt-5
  aye opencode --continue

Takes every argument that opencode takes, but --port, --hostname and --mdns, and exits with its
exit code. Nothing is installed. OpenCode's own commands (aye opencode run …) start as they are.
A program that OpenCode starts could answer in your place: docs/security.md says how far that is noticed."
)]
pub struct OpenCode {
    /// Arguments for opencode itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    _arguments: Vec<OsString>,
}

impl OpenCode {
    pub async fn run(self, home: &Home) -> Done {
        let OwnTerminal { mut command, given, .. } = OwnTerminal::of(home, KIND)?;
        let Some(cwd) = folder_of_session(&given)? else {
            return Ok(ExitCode::from(supervise(command.args(given)).await?));
        };
        for taken in ["--port", "--hostname", "--mdns"] {
            let is_given = |given: &OsString| {
                given.to_str().and_then(|given| given.strip_prefix(taken)).is_some_and(is_end_of_name)
            };
            anyhow::ensure!(
                !given.iter().any(is_given),
                "aye opencode chooses where OpenCode listens: leave out {taken}, or start opencode itself"
            );
        }
        claude::look_for_hub(home).await;
        let (port, password) = (free_port()?, random_hex::<32>()?);
        command.args(["--port", &port.to_string(), "--hostname", "127.0.0.1"]).args(given);
        command.env("OPENCODE_SERVER_USERNAME", USER).env("OPENCODE_SERVER_PASSWORD", &password);
        let url = HubUrl::try_from(format!("http://127.0.0.1:{port}")).map_err(anyhow::Error::msg)?;
        let server = Server::at(url, &password)?;
        let agent = AgentId::try_from(format!("{KIND}-{}", random_name()?)).map_err(anyhow::Error::msg)?;
        let terminal = Terminal { kind: KIND.to_owned(), cwd: cwd.clone(), places: home.places() };
        let mut supervised = Supervised::start(&command)?;
        let session = Session { agent, kind: KIND.to_owned(), cwd, pid: supervised.pid() };
        let ended = CancellationToken::new();
        let running = async {
            let code = supervised.to_its_end().await;
            ended.cancel();
            code
        };
        let inputs = |inputs, tasks: &mut tokio::task::JoinSet<()>| {
            tasks.spawn(follow(server.clone(), inputs));
            server
        };
        let joined = joined::follow(home, session, JoinedOpenCode::new(terminal), inputs, ended.clone());
        let (code, ()) = tokio::join!(running, joined);
        Ok(ExitCode::from(code?))
    }
}

fn is_end_of_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('=')
}

/// Where a session will run; none where no session is started. Whatever names no folder is a command of OpenCode's.
fn folder_of_session(given: &[OsString]) -> anyhow::Result<Option<PathBuf>> {
    let asks_about_it =
        |given: &OsString| ["-h", "--help", "-v", "--version"].iter().any(|asks| given == asks);
    if given.iter().take_while(|given| *given != "--").any(asks_about_it) {
        return Ok(None);
    }
    let here = std::env::current_dir()?;
    let folder = match given.first().filter(|first| !first.to_string_lossy().starts_with('-')) {
        None => here,
        Some(named) if Path::new(named).is_dir() => here.join(named),
        Some(_) => return Ok(None),
    };
    Ok(Some(folder.canonicalize()?))
}

/// Free a moment ago; OpenCode says so where it no longer is.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
    Ok(listener.local_addr()?.port())
}
