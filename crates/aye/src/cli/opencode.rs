use super::own_terminal::{OwnTerminal, run_joined};
use super::{Done, claude};
use crate::agents::joined::Terminal;
use crate::agents::opencode::{JoinedOpenCode, Server, USER, follow};
use crate::agents::supervise::supervise;
use crate::home::Home;
use crate::random::random_hex;
use crate::surfaces::terminal::style::{HEAD, paint};
use crate::tcp_peer;
use crate::transport::Transport;
use crate::url::HubUrl;
use anyhow::Context;
use clap::Args;
use futures_util::FutureExt;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::net::TcpSocket;

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
        if !tcp_peer::IS_KNOWN {
            let why = "OpenCode cannot be joined on this system, which does not tell who listens on its port; its requests stay in this terminal";
            anstream::eprintln!("{} {why}", paint(HEAD, "aye:"));
            return Ok(ExitCode::from(supervise(command.args(given)).await?));
        }
        claude::look_for_hub(home).await;
        let (port, _reserved) = reserve_port()?;
        let password = random_hex::<32>()?;
        command.args(["--port", &port.to_string(), "--hostname", "127.0.0.1"]).args(given);
        command.env("OPENCODE_SERVER_USERNAME", USER).env("OPENCODE_SERVER_PASSWORD", &password);
        let url = HubUrl::try_from(format!("http://127.0.0.1:{port}")).map_err(anyhow::Error::msg)?;
        let server = Server::at(Transport::to_descendant(url)?, &password)?;
        let terminal = Terminal { kind: KIND.to_owned(), cwd, places: home.places() };
        let inputs = |inputs, tasks: &mut tokio::task::JoinSet<()>| {
            tasks.spawn(follow(server.clone(), inputs).boxed());
            server
        };
        Ok(ExitCode::from(run_joined(home, terminal, &command, JoinedOpenCode::new, inputs).await?))
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

/// A port for OpenCode, which takes seconds until it listens there and would wait for ever on one that is taken. As long
/// as the socket is there, the system gives the port to nobody who wants any port. Whoever names it gets it, other users as
/// well, so [`Transport::to_descendant`] checks who accepted each connection.
fn reserve_port() -> anyhow::Result<(u16, TcpSocket)> {
    let socket = TcpSocket::new_v4().context("there is no free port")?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).context("there is no free port")?;
    Ok((socket.local_addr()?.port(), socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_port_that_is_reserved_is_for_whoever_names_it_and_for_nobody_else() {
        let (port, reserved) = reserve_port().unwrap();
        let any = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let others: Vec<_> = std::iter::repeat_with(any).take(200).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap().port() != port));
        let named = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(named.local_addr().unwrap().port(), port);
        drop(reserved);
    }
}
